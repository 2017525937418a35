//! Trusted folders. The `.pi` settings and extensions of any other folder, for example a cloned project, are ignored.

use crate::environment::Environment;
use crate::user_error::{Result, UserError, is_missing};
use pijs_durable::{Disk, Replace};
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `<agentDir>/pijs/trusted.json`: canonical folders.
pub struct Trust {
    path: PathBuf,
    folders: BTreeSet<PathBuf>,
    /// `--approve` or `--no-approve` of this run; `None` without either.
    this_run: Option<bool>,
}

impl Trust {
    /// Reads the trusted folders.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn read(environment: &Environment) -> Result<Self> {
        let path = environment.dirs.agent_dir.join("pijs/trusted.json");
        let folders = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                UserError::failed(format!("{}: {error}", path.display()))
                    .help("remove the file and trust your folders again")
            })?,
            Err(error) if is_missing(&error) => BTreeSet::new(),
            Err(error) => return Err(UserError::failed(format!("{} cannot be read: {error}", path.display()))),
        };
        Ok(Self { path, folders, this_run: environment.trusts })
    }

    /// Returns whether a folder's own settings and extensions take effect.
    pub fn covers(&self, folder: &Path) -> bool {
        self.this_run.unwrap_or_else(|| self.folders.contains(folder)) || !guard!(TrustFolder)
    }

    /// Trusts or distrusts a folder, and stores the decision.
    pub fn set(&mut self, folder: &Path, trusted: bool) -> Result<()> {
        let changed = if trusted { self.folders.insert(folder.to_owned()) } else { self.folders.remove(folder) };
        if changed {
            serde_json::to_vec_pretty(&self.folders)
                .map_err(std::io::Error::from)
                .and_then(|text| Disk::system().replace(&self.path, &text, Replace::STATE))
                .map_err(|error| UserError::failed(format!("{} cannot be written: {error}", self.path.display())))?;
        }
        Ok(())
    }
}

/// Entries of a project's `.pi` that need trust: those of pi, and rules.
const ASKS: [&str; 9] = [
    "mcp.json",
    "settings.json",
    "extensions",
    "skills",
    "prompts",
    "themes",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "rules",
];

/// Returns whether the working folder has anything that needs trust: in its `.pi`, or as skills in a `.agents` above it that is
/// not the user's own.
pub fn is_asked_for(environment: &Environment) -> bool {
    let dirs = &environment.dirs;
    let own = dirs.cwd.join(".pi");
    let is_theirs = |folder: &&Path| **folder != *dirs.home && folder.join(".agents/skills").exists();
    ASKS.iter().any(|name| own.join(name).exists()) || dirs.cwd.ancestors().any(|folder| is_theirs(&folder))
}
