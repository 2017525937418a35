//! A compiled package that a host loads, and the report of loading it.
//!
//! [`Package::new`] maps entry *i* to module *i* of the artifact. The caller sets the grants of a package on the gate before
//! [`Host::load`](crate::Host::load).

use pijs_artifact::{PositionMap, Verified};
use pijs_hostcall::Profile;
use pijs_protocol::manifest::CapabilityManifest;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::{EntryIndex, ExtensionId, Termination};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A compiled package, which one realm runs. Cheap to clone.
#[derive(Clone)]
pub struct Package {
    /// Id, folder and artifact hash, for the gate and the ledger.
    pub profile: Profile,
    /// Displayed name for errors without an entry.
    pub name: String,
    /// Bytecode of all entries and of the modules that they import.
    pub artifact: Arc<Verified>,
    /// Modules of vendored packages that the package imports: evaluated after the host modules, before its own.
    pub supplied: Vec<Arc<Verified>>,
    /// Extension entries in the order they are loaded.
    pub entries: Vec<ExtensionEntry>,
    /// Folder that the artifact's file names are relative to, if it differs from the profile's folder. A single file may read
    /// freely only in its own folder, whichever package contains it.
    pub place: Option<PathBuf>,
    /// Maps bundle positions to source positions.
    pub positions: Option<Rc<dyn PositionMap>>,
}

impl Package {
    /// Creates a package with the entries of its artifact: `extc` writes the module of entry *i* as module *i*.
    pub fn new(profile: Profile, artifact: Arc<Verified>) -> Self {
        let contents = artifact.artifact();
        let entries = contents
            .metadata
            .entries
            .iter()
            .zip(&contents.modules)
            .map(|(path, module)| ExtensionEntry { module: module.specifier.clone(), path: path.clone() })
            .collect();
        Self {
            profile,
            name: contents.metadata.name.clone(),
            entries,
            supplied: Vec::new(),
            place: None,
            positions: None,
            artifact,
        }
    }

    /// Returns the size in bytes of the bytecode of the package and of its supplied packages.
    pub(crate) fn code_bytes(&self) -> usize {
        let artifacts = self.supplied.iter().chain([&self.artifact]);
        let modules = artifacts.flat_map(|artifact| &artifact.artifact().modules);
        modules.filter_map(|module| module.bytecode.as_ref()).map(|bytecode| bytecode.len()).sum()
    }

    /// Sets the position map for errors.
    #[must_use]
    pub fn with_positions(mut self, positions: Rc<dyn PositionMap>) -> Self {
        self.positions = Some(positions);
        self
    }

    /// Adds compiled packages that the host supplies to this extension (`pijs_extc::Supply`).
    #[must_use]
    pub fn with_supplied(mut self, supplied: Vec<Arc<Verified>>) -> Self {
        self.supplied = supplied;
        self
    }

    /// Returns whether both packages have the same entries of the same files, so that a realm of one can also run the other. A
    /// recompiled package may have other grants.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.profile == other.profile && self.entries == other.entries
    }

    /// Returns the package's id.
    pub fn id(&self) -> &ExtensionId {
        &self.profile.extension
    }
}

/// One extension entry of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionEntry {
    /// Module specifier inside the artifact.
    pub module: String,
    /// Path shown in errors, as the user wrote it.
    pub path: String,
}

/// Report of loading a package: entries that run and entries that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReport {
    /// The package.
    pub extension: ExtensionId,
    /// Entries in load order. The registrations of a failed entry are dropped; the others stay.
    pub entries: Vec<EntryReport>,
    /// Name conflicts with earlier registrations, which keep the name.
    pub conflicts: Vec<String>,
}

impl LoadReport {
    /// Iterates over failed entries with their errors.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &ErrorReport)> {
        self.entries.iter().filter_map(|entry| Some((entry.path.as_str(), entry.error.as_ref()?)))
    }
}

/// Report of loading a package again.
#[derive(Debug)]
pub struct LoadAgain {
    /// Report for the current version of the package.
    pub loaded: Result<LoadReport, LoadError>,
    /// Whether the new version failed and the previous version keeps running.
    pub stays: bool,
}

/// Report for one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryReport {
    /// The entry.
    pub entry: EntryIndex,
    /// Displayed path.
    pub path: String,
    /// Error, with its position in the entry's source.
    pub error: Option<ErrorReport>,
    /// Capabilities that the entry's manifest requests, if it registers one.
    pub manifest: Option<CapabilityManifest>,
}

/// Error that kept a whole package from loading. The session continues without it.
#[derive(Debug)]
pub enum LoadError {
    /// A package with this id is loaded already.
    Duplicate(ExtensionId),
    /// No realm could be opened for the package.
    Realm {
        /// The package.
        extension: ExtensionId,
        /// The error of the engine.
        error: crate::options::OpenError,
    },
    /// The realm was stopped while it loaded, for example because it ran out of fuel or memory.
    Ended {
        /// The package.
        extension: ExtensionId,
        /// Entry that was loading.
        path: String,
        /// Reason of the stop.
        reason: Termination,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(id) => write!(f, "{id} is loaded already"),
            Self::Realm { extension, error } => write!(f, "{extension}: cannot open a realm: {error}"),
            Self::Ended { path, reason, .. } => write!(f, "Failed to load extension \"{path}\": {reason}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Duplicate(_) => None,
            Self::Realm { error, .. } => Some(error),
            Self::Ended { reason, .. } => Some(reason),
        }
    }
}
