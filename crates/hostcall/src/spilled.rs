//! Stores results of tools that are too long for a model, in a folder that extensions cannot access.
//!
//! The folder is below `pijs` in the agent folder, which is protected in every mode. The model reads a result with pi's own
//! `read` tool.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Path of the folder, relative to the agent folder.
const FOLDER: &str = "pijs/results";

/// Folder of long results, and the list of this session's files in it. Clones share the list.
#[derive(Debug, Clone)]
pub struct SpilledResults {
    folder: PathBuf,
    kept: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl SpilledResults {
    /// Returns the folder in an agent folder, without creating it.
    pub fn of(agent_dir: &Path) -> Self {
        Self { folder: agent_dir.join(FOLDER), kept: Arc::default() }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records that a result of this session is stored at a path.
    pub fn note(&self, path: PathBuf) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }

    /// Returns whether a result of this session is stored at a path.
    pub fn has(&self, path: &Path) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }
}
