//! Identifies files that were checked before another process opens them by name.

use crate::disk::open_real;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Device and inode of a file.
pub type FileIdentity = (u64, u64);

/// Files and folders that were checked before a process opens them by name, since the name can be exchanged in between.
///
/// Files to read and files to write are separate, because a file that may be read is not one that may be written. The text form,
/// for the environment of the process, is `r` or `w` and `DEVICE:INODE` of each, with commas between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedFiles {
    read: BTreeSet<FileIdentity>,
    written: BTreeSet<FileIdentity>,
}

impl CheckedFiles {
    /// Message for a file that was not checked.
    pub const EXCHANGED: &str =
        "it is not the file that was checked when an extension started this pi; start it again and keep the file";

    /// Parses the text form; ignores what is malformed.
    pub fn parse(text: &str) -> Self {
        let mut files = Self::default();
        for entry in text.split(',') {
            let identity = |entry: &str| {
                let (device, inode) = entry.split_once(':')?;
                Some((device.parse().ok()?, inode.parse().ok()?))
            };
            match entry.split_at_checked(1) {
                Some(("r", rest)) => files.read.extend(identity(rest)),
                Some(("w", rest)) => files.written.extend(identity(rest)),
                _ => {}
            }
        }
        files
    }

    /// Adds a file that may be read, or a folder whose files may be.
    pub fn add_read(&mut self, file: &Metadata) {
        self.read.insert(identity(file));
    }

    /// Adds a file that may be written, or a folder in which new files may be.
    pub fn add_written(&mut self, file: &Metadata) {
        self.written.insert(identity(file));
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Returns the error of the system; `PermissionDenied` for another file than those that were checked.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        if self.read.contains(&identity(&file.metadata()?)) { Ok(file) } else { Err(exchanged()) }
    }

    /// Returns the path without links of a file or folder that may be read.
    ///
    /// # Errors
    ///
    /// As [`CheckedFiles::open`].
    pub fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        let (file, real) = open_real(path)?;
        if self.read.contains(&identity(&file.metadata()?)) { Ok(real) } else { Err(exchanged()) }
    }

    /// Returns whether an open file was checked, or a folder above it. `real` is the path of the open file, without links.
    pub fn covers(&self, file: FileIdentity, real: &Path) -> bool {
        let is_checked =
            |folder: &Path| folder.symlink_metadata().is_ok_and(|found| self.read.contains(&identity(&found)));
        self.read.contains(&file) || real.ancestors().skip(1).any(is_checked)
    }

    /// Returns the path without links of a file or folder to write, which is to be opened without following links: one that was
    /// checked, or a new one below a folder that was.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if neither was checked.
    pub fn written_path(&self, path: &Path) -> io::Result<PathBuf> {
        for above in path.ancestors() {
            let Ok((file, real)) = open_real(above) else { continue };
            let found = file.metadata()?;
            if self.written.contains(&identity(&found)) {
                let rest = path.strip_prefix(above).map_err(io::Error::other)?;
                return Ok(if above == path { real } else { real.join(rest) });
            }
            if !found.is_dir() {
                break;
            }
        }
        Err(exchanged())
    }
}

impl fmt::Display for CheckedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.read.iter().map(|file| ("r", file)).chain(self.written.iter().map(|file| ("w", file)));
        for (at, (kind, (device, inode))) in all.enumerate() {
            write!(f, "{}{kind}{device}:{inode}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

fn identity(file: &Metadata) -> FileIdentity {
    (file.dev(), file.ino())
}

/// Returns the error for a file that was not checked.
fn exchanged() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, CheckedFiles::EXCHANGED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_text_form_is_parsed_again() {
        let files = CheckedFiles::parse("w5:6,r3:4,x,r1:2,w:,é");
        assert_eq!(files.to_string(), "r1:2,r3:4,w5:6");
        assert_eq!(CheckedFiles::parse(&files.to_string()), files);
        assert_eq!(CheckedFiles::parse(""), CheckedFiles::default());
    }

    #[test]
    fn an_exchanged_name_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        for name in ["texts/deep", "other"] {
            fs::create_dir_all(root.join(name)).expect("a folder");
        }
        for name in ["texts/a.md", "texts/deep/b.md", "other/a.md", "old.jsonl", "new.md"] {
            fs::write(root.join(name), name).expect("a file");
        }
        let metadata = |name: &str| root.join(name).metadata().expect("it exists");
        let mut files = CheckedFiles::default();
        files.add_read(&metadata("texts"));
        files.add_read(&metadata("new.md"));
        files.add_written(&metadata("texts"));
        files.add_written(&metadata("old.jsonl"));

        let covers = |name: &str| {
            let real = root.join(name).canonicalize().expect("a path");
            files.covers(identity(&metadata(name)), &real)
        };
        assert!(covers("texts/a.md") && covers("texts/deep/b.md") && covers("new.md"));
        assert!(!covers("other/a.md") && !covers("old.jsonl"));
        assert!(files.open(&root.join("new.md")).is_ok());
        assert_eq!(files.real_path(&root.join("deep/../texts/deep/..")).ok(), None, "there is no such path");
        assert_eq!(files.real_path(&root.join("texts/deep/..")).ok(), Some(root.join("texts")));
        let refused = files.open(&root.join("texts/a.md")).expect_err("its folder was checked for texts only");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);

        let written = |name: &str| files.written_path(&root.join(name)).ok();
        assert_eq!(written("old.jsonl"), Some(root.join("old.jsonl")));
        assert_eq!(written("texts/x/y.jsonl"), Some(root.join("texts/x/y.jsonl")));
        assert_eq!(written("texts/a.md"), None, "it exists, and was not checked");
        assert_eq!(written("other/x.jsonl"), None);

        fs::rename(root.join("texts"), root.join("away")).expect("moved");
        symlink("other", root.join("texts")).expect("a link");
        assert!(!covers("texts/a.md"));
        assert_eq!(written("texts/x.jsonl"), None);
    }
}
