//! Folders whose `.pi` settings and extensions count. A cloned project brings none of its own into a
//! session until its user has said so.

use crate::environment::Environment;
use crate::failure::{Failure, Result, is_missing};
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `<agentDir>/pijs/trusted.json`: canonical folders.
pub(crate) struct Trust {
    path: PathBuf,
    folders: BTreeSet<PathBuf>,
}

impl Trust {
    pub(crate) fn read(environment: &Environment) -> Result<Self> {
        let path = environment.dirs.agent_dir.join("pijs/trusted.json");
        let folders = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Failure::failed(format!("{}: {error}", path.display()))
                    .help("remove the file and trust your folders again")
            })?,
            Err(error) if is_missing(&error) => BTreeSet::new(),
            Err(error) => return Err(Failure::failed(format!("{} cannot be read: {error}", path.display()))),
        };
        Ok(Self { path, folders })
    }

    pub(crate) fn covers(&self, folder: &Path) -> bool {
        self.folders.contains(folder) || !guard::is_up("trust.folder")
    }

    /// Trusts a folder, or no longer, and writes that down.
    pub(crate) fn set(&mut self, folder: &Path, trusted: bool) -> Result<()> {
        let changed = if trusted { self.folders.insert(folder.to_owned()) } else { self.folders.remove(folder) };
        if changed {
            self.write()
                .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", self.path.display())))?;
        }
        Ok(())
    }

    /// The old list or the new one is there, whenever the machine stops.
    fn write(&self) -> std::io::Result<()> {
        let folder = self.path.parent().expect("a file below the agent's folder");
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&self.folders)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        std::fs::File::open(folder)?.sync_all()
    }
}
