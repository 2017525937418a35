//! The files a build may read: one package, and folders of dependencies beside it.
//!
//! The only place of the compiler that opens files of a package. Paths are compared after links are
//! resolved, and files are opened through a handle of their root, so that neither `..` nor a link
//! leads out; what was read is counted against the caps and remembered with its digest.

use crate::diagnostics::{Code, Diagnostic};
use crate::limits::Limits;
use crate::resolve::without_mark;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use pijs_protocol::guard;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file that went into the build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: [u8; 32],
}

/// The readable folders of one build.
#[derive(Debug)]
pub(crate) struct SourceTree {
    roots: Vec<Root>,
    limits: Limits,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    dir: Dir,
    kind: RootKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RootKind {
    Package,
    Dependencies,
}

#[derive(Debug, Default)]
struct Seen {
    /// By name inside the package.
    files: BTreeMap<String, InputFile>,
    total_bytes: usize,
    /// Where a manifest was looked for.
    manifests: BTreeSet<PathBuf>,
    /// Names of dependency folders, by folder.
    packages: BTreeMap<PathBuf, Option<String>>,
}

/// Where a path lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    /// `src/a.ts`, or `dep:NAME@VERSION/PATH`.
    pub(crate) name: String,
    /// Not the author's own file.
    pub(crate) dependency: bool,
}

impl SourceTree {
    /// Opens a package folder and the dependency folders beside it. `package` is canonical.
    pub(crate) fn open(package: &Path, dependencies: &[PathBuf], limits: Limits) -> io::Result<Self> {
        let open = |path: &Path, kind| {
            Dir::open_ambient_dir(path, ambient_authority()).map(|dir| Root { path: path.to_owned(), dir, kind })
        };
        let mut roots = vec![open(package, RootKind::Package)?];
        for path in dependencies {
            match path.canonicalize() {
                Ok(path) => roots.push(open(&path, RootKind::Dependencies)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { roots, limits, seen: Mutex::default() })
    }

    pub(crate) fn package(&self) -> &Path {
        &self.roots[0].path
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The name of a path whose links are resolved; `None` if it lies outside.
    pub(crate) fn locate(&self, path: &Path) -> Option<Located> {
        let (root, relative) = self.root_of(path)?;
        Some(match root.kind {
            RootKind::Package => Located {
                dependency: relative.components().any(|part| part.as_os_str() == "node_modules"),
                name: portable(relative),
            },
            RootKind::Dependencies => Located { dependency: true, name: self.dependency_name(root, relative) },
        })
    }

    /// Where a dependency beside the package lies, seen from the package: `../NAME/lib/index.js`. That is told apart from its
    /// name, which is the same wherever it was installed.
    pub(crate) fn place(&self, path: &Path) -> Option<String> {
        let (root, _) = self.root_of(path)?;
        if root.kind == RootKind::Package {
            return None;
        }
        let shared = self.package().ancestors().find(|folder| path.starts_with(folder))?;
        let up = self.package().strip_prefix(shared).expect("an ancestor is a prefix").components().count();
        let down = path.strip_prefix(shared).expect("it was asked");
        Some(format!("{}{}", "../".repeat(up), portable(down)))
    }

    fn root_of<'a>(&self, path: &'a Path) -> Option<(&Root, &'a Path)> {
        if path.components().any(|part| matches!(part, Component::ParentDir)) {
            return None;
        }
        self.roots.iter().find_map(|root| Some((root, path.strip_prefix(&root.path).ok()?)))
    }

    /// `dep:NAME@VERSION/PATH`, by the nearest `package.json` that has a name.
    fn dependency_name(&self, root: &Root, relative: &Path) -> String {
        for folder in relative.ancestors().skip(1) {
            if folder.as_os_str().is_empty() {
                break;
            }
            if let Some(package) = self.package_name(root, folder) {
                let inside = relative.strip_prefix(folder).expect("an ancestor is a prefix");
                return format!("dep:{package}/{}", portable(inside));
            }
        }
        format!("dep:{}", portable(relative))
    }

    fn package_name(&self, root: &Root, folder: &Path) -> Option<String> {
        let key = root.path.join(folder);
        if let Some(known) = self.seen().packages.get(&key) {
            return known.clone();
        }
        let name = self.read_bounded(root, &folder.join("package.json")).ok().and_then(|bytes| {
            let manifest: serde_json::Value = serde_json::from_slice(without_mark(&bytes)).ok()?;
            let name = manifest.get("name")?.as_str()?;
            let version = manifest.get("version").and_then(serde_json::Value::as_str).unwrap_or("0.0.0");
            Some(format!("{name}@{version}"))
        });
        self.seen().packages.insert(key, name.clone());
        name
    }

    /// Reads a file and counts it as an input.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        let Some((root, relative)) = self.root_of(path) else {
            if !guard::is_up("build.tree") {
                return std::fs::read(path).map_err(|error| Diagnostic::new(Code::Read, error.to_string()));
            }
            return Err(Diagnostic::new(Code::Escape, format!("`{}` is outside the package", path.display())));
        };
        let name = self.locate(path).expect("it has a root").name;
        let bytes = self.read_bounded(root, relative).map_err(|error| {
            if error.kind() == io::ErrorKind::FileTooLarge {
                let message = format!("larger than {} MB", self.limits.file_bytes >> 20);
                Diagnostic::new(Code::Limit, message).help(
                    "load data with `fs.readFileSync` instead of importing it; of a library, import a smaller part",
                )
            } else {
                Diagnostic::new(Code::Read, format!("cannot be read: {error}"))
            }
            .in_file(&name)
        })?;
        let mut seen = self.seen();
        let file = InputFile { path: path.to_owned(), sha256: Sha256::digest(&bytes).into() };
        if seen.files.insert(name.clone(), file).is_none() {
            seen.total_bytes += bytes.len();
        }
        let too_much = seen.total_bytes > self.limits.total_bytes || seen.files.len() > self.limits.files;
        if too_much && guard::is_up("build.size") {
            let message = format!(
                "the package imports more than {} MB or {} files",
                self.limits.total_bytes >> 20,
                self.limits.files
            );
            // Said once, not of each file that is too many.
            return Err(Diagnostic::new(Code::Limit, message)
                .help("of a library, import the part that is needed; load data with `fs.readFileSync`"));
        }
        Ok(bytes)
    }

    /// Counts the manifests around a dependency's file as inputs: they decide what an import of it means.
    ///
    /// The package's own manifest is part of every request, so it is not repeated here.
    pub(crate) fn read_manifests(&self, path: &Path) -> Result<(), Diagnostic> {
        let Some((root, relative)) = self.root_of(path) else { return Ok(()) };
        for folder in relative.ancestors().skip(1) {
            if folder.as_os_str().is_empty() || folder.file_name().is_some_and(|name| name == "node_modules") {
                break;
            }
            let manifest = folder.join("package.json");
            if !self.seen().manifests.insert(root.path.join(&manifest)) {
                break;
            }
            if root.dir.is_file(&manifest) {
                self.read(&root.path.join(&manifest))?;
            }
        }
        Ok(())
    }

    fn read_bounded(&self, root: &Root, relative: &Path) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt;
            // A pipe in place of a file would be waited for.
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        }
        let file = root.dir.open_with(relative, &options)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let cap = if guard::is_up("build.size") { self.limits.file_bytes } else { self.limits.total_bytes };
        let mut bytes = Vec::new();
        file.take(cap as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > cap {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// Everything that was read, by name.
    pub(crate) fn inputs(&self) -> BTreeMap<String, InputFile> {
        self.seen().files.clone()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // A reader that panicked left the maps whole: each insert is one step.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With `/` between the parts, on every system.
fn portable(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
