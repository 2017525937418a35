//! Opens files that the command line names.
//!
//! If an extension started this `pi`, it chose the command line, and its files were checked before the start. The extension can
//! exchange a file in between, so only files that were checked are opened.

use crate::environment::Environment;
use crate::user_error::{Result, UserError};
use pijs_connectors::exec::STARTED_WITH;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Device and inode of each file that was checked when an extension started this `pi`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartedFiles(BTreeSet<(u64, u64)>);

impl StartedFiles {
    /// Takes the files out of the variables, which programs inherit; `None` if no extension with limited use of `pi` started this
    /// one.
    pub(crate) fn take(variables: &mut BTreeMap<String, String>) -> Option<Self> {
        let text = variables.remove(STARTED_WITH)?;
        let identity = |entry: &str| {
            let (device, inode) = entry.split_once(':')?;
            Some((device.parse().ok()?, inode.parse().ok()?))
        };
        Some(Self(text.split(',').filter_map(identity).collect()))
    }
}

impl Environment {
    /// Opens a file that the command line names.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, or `PermissionDenied` for a file other than the one that was checked.
    pub fn open_named(&self, path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        let Some(StartedFiles(checked)) = &self.started_with else { return Ok(file) };
        let found = file.metadata()?;
        if checked.contains(&(found.dev(), found.ino())) {
            return Ok(file);
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not the file that was checked when an extension started this pi",
        ))
    }

    /// Returns the path of a session, or of a folder of sessions, that the command line names; without links if an extension
    /// named it.
    pub(crate) fn named_session_path(&self, path: &Path) -> Result<PathBuf> {
        if self.started_with.is_none() {
            return Ok(path.to_owned());
        }
        let real = pijs_durable::without_links(path);
        match self.open_named(&real) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(UserError::failed(format!("{} cannot be opened: {error}", path.display())))
            }
            _ => Ok(real),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_leave_the_variables() {
        let mut variables = BTreeMap::from([(STARTED_WITH.to_owned(), "1:2,x,3:4".to_owned())]);
        assert_eq!(StartedFiles::take(&mut variables), Some(StartedFiles([(1, 2), (3, 4)].into())));
        assert!(variables.is_empty());
        assert_eq!(StartedFiles::take(&mut variables), None);
    }
}
