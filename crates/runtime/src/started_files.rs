//! Opens files that the command line names.
//!
//! If an extension started this `pi`, it chose the command line, and its files were checked before the start. The extension can
//! exchange a file in between, so only files that were checked are opened.

use pijs_connectors::exec::STARTED_WITH;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

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

/// Opens a file that the command line names; if an extension started this `pi`, only one that was checked.
pub(crate) fn open_named(started_with: Option<&StartedFiles>, path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let Some(StartedFiles(checked)) = started_with else { return Ok(file) };
    let found = file.metadata()?;
    if checked.contains(&(found.dev(), found.ino())) {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "it is not the file that was checked when an extension started this pi",
    ))
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
