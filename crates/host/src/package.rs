//! A compiled package that a host loads, and the report of loading it.
//!
//! [`Package::new`] takes entry *i* to be module *i* of the artifact. The caller sets the grants of a package on the gate before
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

/// A compiled package: what one realm runs. Cheap to clone.
#[derive(Clone)]
pub struct Package {
    /// Id, folder and artifact hash, as the gate and the ledger know it.
    pub profile: Profile,
    /// Name shown when no entry is to blame.
    pub name: String,
    /// Bytecode of all entries and what they import.
    pub artifact: Arc<Verified>,
    /// Modules of supplied packages that it imports: they come after the host modules, before its own.
    pub supplied: Vec<Arc<Verified>>,
    /// Extension entries in the order they are loaded.
    pub entries: Vec<Entry>,
    /// The folder that the artifact's names of files are relative to, where that is not the one of the profile: a file by
    /// itself may read freely in its own folder only, whatever package it is part of.
    pub place: Option<PathBuf>,
    /// From bundle positions to source positions.
    pub positions: Option<Rc<dyn PositionMap>>,
}

impl Package {
    /// A package whose entries are those its artifact lists: `extc` writes the module of entry *i* as
    /// module *i*.
    pub fn new(profile: Profile, artifact: Arc<Verified>) -> Self {
        let contents = artifact.artifact();
        let entries = contents
            .metadata
            .entries
            .iter()
            .zip(&contents.modules)
            .map(|(path, module)| Entry { module: module.specifier.clone(), path: path.clone() })
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

    /// Uses `positions` for errors.
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

    /// Whether a realm that runs this one runs the other, too: the same entries of the same files. What was compiled
    /// anew may have been granted something else.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.profile == other.profile && self.entries == other.entries
    }

    /// Its id.
    pub fn id(&self) -> &ExtensionId {
        &self.profile.extension
    }
}

/// One extension entry of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Module specifier inside the artifact.
    pub module: String,
    /// Path shown in errors, as the user knows it.
    pub path: String,
}

/// Report of loading a package: entries that run and entries that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReport {
    /// The package.
    pub extension: ExtensionId,
    /// In load order. One that failed has registered nothing; the others live.
    pub entries: Vec<EntryReport>,
    /// Name conflicts with what was loaded earlier; the earlier one keeps the name.
    pub conflicts: Vec<String>,
}

impl LoadReport {
    /// Entries that failed, with what they threw.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &ErrorReport)> {
        self.entries.iter().filter_map(|entry| Some((entry.path.as_str(), entry.error.as_ref()?)))
    }
}

/// Report of loading a package again.
#[derive(Debug)]
pub struct LoadAgain {
    /// Report for the package as it is now.
    pub loaded: Result<LoadReport, LoadError>,
    /// It failed, and the version that ran before runs on.
    pub stays: bool,
}

/// Report for one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryReport {
    /// The entry.
    pub entry: EntryIndex,
    /// Its path as it is shown.
    pub path: String,
    /// Why it does not run, with the position in its source.
    pub error: Option<ErrorReport>,
    /// Capabilities that its manifest asked for, when it registered one.
    pub manifest: Option<CapabilityManifest>,
}

/// Why a package as a whole could not be loaded. The session goes on without it.
#[derive(Debug)]
pub enum LoadError {
    /// A package with this id is loaded already.
    Duplicate(ExtensionId),
    /// No realm could be made for it.
    Realm {
        /// The package.
        extension: ExtensionId,
        /// The error of the engine.
        error: crate::options::OpenError,
    },
    /// It was stopped while it loaded: out of fuel, out of memory.
    Ended {
        /// The package.
        extension: ExtensionId,
        /// Entry that was being loaded.
        path: String,
        /// Why.
        reason: Termination,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(id) => write!(f, "{id} is loaded already"),
            Self::Realm { extension, error } => write!(f, "{extension}: no realm could be made: {error}"),
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
