//! `mcp-auth.json` of the agent folder: OAuth sign-ins, in pi's format.
//!
//! The file is shared with the real pi, replaced atomically, readable only by its owner, and keeps entries of other servers.

use crate::environment::Environment;
use crate::user_error::{Result, UserError};
use pijs_durable::{Disk, Lock, Replace};
use pijs_mcp::oauth::SignIn;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Name of the file.
const FILE_NAME: &str = "mcp-auth.json";
/// Maximum size of a file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum wait for another process that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The file of one user.
pub(crate) struct McpAuthFile {
    agent_dir: PathBuf,
}

impl McpAuthFile {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { agent_dir: environment.dirs.agent_dir.clone() }
    }

    fn path(&self) -> PathBuf {
        self.agent_dir.join(FILE_NAME)
    }

    fn failed(&self, what: impl std::fmt::Display) -> UserError {
        UserError::failed(format!("{}: {what}", self.path().display()))
            .help("correct the file, or remove it and sign in again")
    }

    fn entries(&self) -> Result<Map<String, Value>> {
        let bytes = Disk::system().read(&self.path(), MAX_BYTES).map_err(|error| self.failed(error))?;
        let bytes = bytes.filter(|bytes| !bytes.iter().all(u8::is_ascii_whitespace));
        // The parse error may quote a secret, so it is not shown.
        bytes.map_or(Ok(Map::new()), |bytes| {
            serde_json::from_slice(&bytes).map_err(|_| self.failed("it is not a JSON object"))
        })
    }

    /// Reads the sign-in under a key.
    pub(super) fn read(&self, key: &str) -> Result<Option<SignIn>> {
        let entry = self.entries()?.shift_remove(key);
        entry
            .map(|entry| serde_json::from_value(entry).map_err(|_| self.failed("an entry has an unexpected format")))
            .transpose()
    }

    /// Stores or removes a sign-in; returns whether there was one.
    pub(crate) fn put(&self, key: &str, sign_in: Option<&SignIn>) -> Result<bool> {
        let disk = Disk::system();
        let own = self.agent_dir.join("pijs");
        disk.create_dirs(&own).map_err(|error| self.failed(error))?;
        let _lock =
            Lock::take(&disk, &own.join("mcp-auth.lock"), LOCK_TIMEOUT, |_| {}).map_err(|error| self.failed(error))?;
        let mut entries = self.entries()?;
        let had = match sign_in {
            Some(sign_in) => {
                let value = serde_json::to_value(sign_in).map_err(|error| self.failed(error))?;
                entries.insert(key.to_owned(), value).is_some()
            }
            None => entries.shift_remove(key).is_some(),
        };
        let mut text = serde_json::to_vec_pretty(&entries).map_err(|error| self.failed(error))?;
        text.push(b'\n');
        // A backup would preserve a revoked token.
        let how = Replace { follow_links: true, ..Replace::DERIVED };
        disk.replace(&self.path(), &text, how).map_err(|error| self.failed(error))?;
        Ok(had)
    }
}
