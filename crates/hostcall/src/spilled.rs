//! Results of tools that are too long for a model: kept whole in a folder that extensions cannot reach.
//!
//! The folder lies below `pijs` in the agent folder, which is protected in every mode. The model reads a result with pi's own `read` tool.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the folder, seen from the agent folder.
const FOLDER: &str = "pijs/results";

/// The folder of long results, and the files that this session has put there. Clones share the files.
#[derive(Debug, Clone)]
pub struct SpilledResults {
    folder: PathBuf,
    kept: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl SpilledResults {
    /// The folder of an agent folder. Nothing is made.
    pub fn of(agent_dir: &Path) -> Self {
        Self { folder: agent_dir.join(FOLDER), kept: Arc::default() }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes that a result of this session is kept at a path.
    pub fn note(&self, path: PathBuf) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }

    /// Whether a result of this session is kept at a path.
    pub fn has(&self, path: &Path) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }
}
