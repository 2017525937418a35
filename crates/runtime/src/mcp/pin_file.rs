//! Stores digests of the tools that the user last agreed to.

use crate::environment::Environment;
use crate::user_error::{Result, UserError};
use pijs_durable::{Disk, Lock, Replace};
use pijs_mcp::pins::{self, Pins};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum wait for another process that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// `<agentDir>/pijs/mcp-tools.json`.
pub(super) struct PinFile {
    folder: PathBuf,
}

impl PinFile {
    /// Returns the file of this user.
    pub(super) fn new(environment: &Environment) -> Self {
        Self { folder: environment.dirs.agent_dir.join("pijs") }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(pins::FILE_NAME)
    }

    /// Reads the pins; an unreadable file counts as empty.
    pub(super) fn read(&self) -> Pins {
        let bytes = Disk::system().read(&self.path(), pins::MAX_FILE_BYTES).ok().flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Changes the pins under the lock.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(super) fn change(&self, change: &mut dyn FnMut(&mut Pins)) -> Result<()> {
        let failed = |error: std::io::Error| {
            UserError::failed(format!("{} cannot be written: {error}", self.path().display()))
                .help("make its folder writable")
        };
        let disk = Disk::system();
        disk.create_dirs(&self.folder).map_err(failed)?;
        let _lock = Lock::take(&disk, &self.folder.join("mcp-tools.lock"), LOCK_TIMEOUT, |_| {})
            .map_err(|error| UserError::failed(error.to_string()))?;
        let before = self.read();
        let mut pins = before.clone();
        change(&mut pins);
        if pins != before {
            let mut bytes = serde_json::to_vec_pretty(&pins).map_err(|error| failed(error.into()))?;
            bytes.push(b'\n');
            disk.replace(&self.path(), &bytes, Replace::STATE).map_err(failed)?;
        }
        Ok(())
    }
}
