//! A temporary home and project.

use pijs_packages::{
    BuildInput, BuildReport, Dirs, InstallScope, Installed, Installer, NpmConfig, PackageAttempt, PackageError,
};
use pijs_testkit::registry::Registry;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders of one test, removed on drop.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["agent", "project", "home"] {
            std::fs::create_dir(folder.path().join(name)).expect("created");
        }
        Self { folder }
    }

    pub(crate) fn dirs(&self) -> Dirs {
        let real = std::fs::canonicalize(self.folder.path()).expect("there");
        Dirs { agent_dir: real.join("agent"), cwd: real.join("project"), home: real.join("home") }
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.dirs().agent_dir
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dirs().cwd
    }

    /// Creates an installer whose builder accepts every package with readable entries.
    pub(crate) fn installer(&self, registry: &Registry) -> Installer {
        self.installer_for(npm(registry))
    }

    pub(crate) fn installer_for(&self, npm: NpmConfig) -> Installer {
        Installer::new(self.dirs(), npm, Arc::new(accept)).expect("an installer")
    }

    /// Returns the settings, lock file and packages of a scope, with their bytes.
    pub(crate) fn state(&self, scope: InstallScope) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let root = self.dirs().root(scope);
        collect(&root, &root, &mut files);
        files.retain(|path, _| !path.ends_with(".bak") && path != "npm/.lock");
        files
    }

    pub(crate) fn staging(&self, scope: InstallScope) -> usize {
        std::fs::read_dir(self.dirs().root(scope).join("npm/.staging")).map_or(0, Iterator::count)
    }
}

fn collect(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path).expect("readable"));
        }
    }
}

pub(crate) fn npm(registry: &Registry) -> NpmConfig {
    NpmConfig::parse(&format!("registry={}", registry.url()), &|_| None).expect("a registry")
}

/// Returns the packages if every attempt succeeded.
pub(crate) fn all(attempts: Result<Vec<PackageAttempt>, PackageError>) -> Result<Vec<Installed>, PackageError> {
    attempts?.into_iter().map(|attempt| attempt.outcome).collect()
}

/// Reads every entry, as a compiler would.
pub(crate) fn accept(input: &BuildInput) -> Result<BuildReport, PackageError> {
    for entry in &input.entries {
        assert!(entry.starts_with(&input.root), "{entry:?} outside {:?}", input.root);
        std::fs::read_to_string(entry).expect("an entry is readable");
    }
    Ok(BuildReport::default())
}

pub(crate) fn fixtures() -> PathBuf {
    pijs_testkit::fixture("packages")
}
