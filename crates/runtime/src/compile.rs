//! Compiles extensions for this run: `extc` with the user's cache.

use crate::environment::Environment;
use pijs_artifact::Verified;
use pijs_extc::{BuildFailure, BuildOptions, BuildOutput, Cache, FileAccess, Input, Seal};
use pijs_packages::{InstallScope, PackageEntry, lock_path};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `extc`, configured for one run.
#[derive(Clone)]
pub struct Compiler {
    options: BuildOptions,
    /// Lock file of the user's packages. A project's lock file is not trusted, because it comes with the project.
    lock: PathBuf,
    /// Folders of the packages in the lock file.
    stores: [PathBuf; 2],
}

impl Compiler {
    /// Creates a compiler that uses the user's cache. Without a cache everything is compiled, and one notice reports that.
    /// Protected files in the folders of
    /// `environment` are not read.
    pub fn new(environment: &Environment) -> Self {
        let cache = match Cache::user() {
            Ok(cache) => {
                if let Some(notice) = cache.notice() {
                    environment.notices.warn(notice);
                }
                Some(cache)
            }
            Err(error) => {
                environment.notices.warn(format!(
                    "the artifact cache cannot be used, so extensions are compiled at every start: {error}"
                ));
                None
            }
        };
        let access = FileAccess::new(environment.places());
        let root = environment.dirs.root(InstallScope::User);
        let (lock, stores) = (lock_path(&root), [root.join("npm/node_modules"), root.join("git")]);
        Self { options: BuildOptions { cache, access, ..BuildOptions::default() }, lock, stores }
    }

    /// Returns the compiler with another policy for reading files.
    pub fn with_access(&self, access: FileAccess) -> Self {
        Self { options: BuildOptions { access, ..self.options.clone() }, ..self.clone() }
    }

    /// Compiles a discovered package.
    pub fn build_found(&self, found: &PackageEntry) -> Result<BuildOutput, BuildFailure> {
        let id = found.id.as_str();
        self.build(id, &input_of(id, &found.root, &found.entries))
    }

    /// Compiles entries of a package, or a single file; installed packages and artifacts in a sealed process.
    pub fn build(&self, id: &str, input: &Input) -> Result<BuildOutput, BuildFailure> {
        let foreign = ["npm:", "git:", "rummy:"].iter().any(|origin| id.starts_with(origin));
        let is_in_store = foreign && self.stores.iter().any(|store| input.path().starts_with(store));
        let package = pijs_packages::package_of_realm(id).unwrap_or(id);
        let locked = is_in_store.then(|| input.clone().locked(&self.lock, package));
        let input = locked.as_ref().unwrap_or(input);
        let sealed = (foreign || input.is_artifact()).then(Seal::default);
        let options = BuildOptions { sealed, ..self.options.clone() };
        let mut place = identity(input.path());
        for _ in 1..READINGS {
            let built = pijs_extc::build(input, &options);
            if built.is_ok() {
                return built;
            }
            let after = identity(input.path());
            if after == place {
                return built;
            }
            // Another pi replaced the package meanwhile, so the new one is read.
            place = after;
        }
        pijs_extc::build(input, &options)
    }

    /// Returns the user's cache; `None` if it cannot be used.
    pub fn cache(&self) -> Option<Cache> {
        self.options.cache.clone()
    }

    /// Returns the host modules that every realm needs.
    pub fn host_modules(&self) -> Result<Arc<Verified>, BuildFailure> {
        pijs_extc::host_modules(self.options.cache.as_ref())
    }
}

/// Maximum number of attempts to read a package while other processes replace it.
const READINGS: usize = 8;

/// Returns device and inode of the file or folder at a path; `None` if nothing exists there.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|found| found.created()).ok()
}

/// Returns the compiler's input for a discovered package: its single file, or the selected entries of its folder, so that entry
/// *i* of the artifact is the *i*-th of `entries`.
pub fn input_of(id: &str, root: &Path, entries: &[PathBuf]) -> Input {
    match entries {
        [entry] if id == format!("path:{}", entry.display()) => Input::at(entry),
        _ => Input::at(root).with_entries(entries.to_vec()),
    }
}
