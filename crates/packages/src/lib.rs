//! Fetches, verifies, locks, stores and removes packages, and finds the extensions that a session loads.
//!
//! | type | purpose |
//! |---|---|
//! | [`Installer`] | install, list, remove, restore from the lock |
//! | [`PackageSource`] | source of a package as the user wrote it |
//! | [`NpmConfig`] | registries and tokens, read from the user's `.npmrc` |
//! | [`Builder`] | compiles a package before it is put in place; the command line passes `extc` |
//! | [`TarballCache`] | packages that a program pins by digest, kept as tarballs |
//! | [`package_entries`] | extension files of a package |
//! | [`PackageManifest`] | members of a package's `package.json`, read once |
//! | [`mod@realms`] | entries of a package that run together |
//! | [`resolve_extensions`] | pi's load order over `-e`, settings, folders and packages |
//! | [`resolve_resources`] | skills, prompt templates and themes, in the same way |
//! | [`PackageError`] | error of every operation, with its [`InstallCode`] |
//!
//! Invariants: no script of a package runs and none of its rc files is read; nothing is unpacked before its sha512 is verified;
//! an ambiguous archive is refused, not repaired; a package appears or changes by one rename, once it is complete on disk and
//! built; a failed operation leaves the previous state.
//!
//! Nothing here reads the environment or looks for a home folder: [`Dirs`] and [`NpmConfig`] are passed in.

#![warn(missing_docs)]

mod archive;
mod change;
mod collect;
mod discover;
mod entries;
mod error;
mod git;
mod install;
mod integrity;
mod lock;
mod manifest;
mod members;
mod names;
mod npmrc;
mod package_manifest;
mod pinned;
mod realms;
mod registry;
mod resolve;
mod resources;
mod selection;
mod settings;
mod similar;
mod source;
mod store;

pub use archive::{InstallLimits, Unpacked, unpack};
pub use change::recover;
pub use collect::ResourceKind;
pub use discover::{DiscoverOptions, Discovery, DiscoveryOrigin, PackageEntry, listed_folder, resolve_extensions};
pub use entries::{ARTIFACT_FILE, MANIFEST_FILE, PackageEntries, is_artifact_file, is_component_file, package_entries};
pub use error::{InstallCode, PackageError, Result};
pub use git::{GitOptions, GitSource};
pub use install::{
    BuildInput, BuildReport, Builder, InstallProgress, Installed, Installer, ListedPackage, NoProgress, PackageAttempt,
    Removed,
};
pub use lock::{LockText, is_locked, lock_path, read_lock};
pub use members::{manifest_folders, members};
pub use npmrc::{ChooseProxy, ChosenProxy, NpmConfig};
pub use package_manifest::PackageManifest;
pub use pinned::{PinnedPackage, TarballCache};
pub use realms::{package_of_realm, realms};
pub use resources::{
    LeftOut, Provenance, Resource, ResourceFiles, ResourceOptions, count_resources, files_at as resource_files,
    resolve_resources,
};
pub use source::{PackageName, PackageSource, VersionRequest};

use std::path::PathBuf;

/// Folders of the user and the project, passed in by the caller; this crate never searches for them.
#[derive(Debug, Clone)]
pub struct Dirs {
    /// `$PI_CODING_AGENT_DIR`, else `~/.pi/agent`.
    pub agent_dir: PathBuf,
    /// The project folder.
    pub cwd: PathBuf,
    /// Home folder, for `~` in paths.
    pub home: PathBuf,
}

impl Dirs {
    /// Returns the folder that contains `settings.json`, the lock file and `npm/` of a scope.
    pub fn root(&self, scope: InstallScope) -> PathBuf {
        match scope {
            InstallScope::User => self.agent_dir.clone(),
            InstallScope::Project => self.cwd.join(".pi"),
        }
    }
}

/// Scope that a package is installed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstallScope {
    /// Every project of this user.
    User,
    /// This project (`-l`).
    Project,
}

impl InstallScope {
    /// Returns `user` or `project`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}
