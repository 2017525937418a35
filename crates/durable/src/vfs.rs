//! The file system interface of durable files.
//!
//! [`OsVfs`](crate::OsVfs) is the machine's file system; [`FaultVfs`](crate::fault::FaultVfs) adds an injected fault. Code that
//! writes data which must survive a crash uses this trait, mostly through [`Disk`](crate::Disk).

use crate::owner::Owner;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Operations on a file system. Paths are absolute; symbolic links at the end of a path are not followed.
pub trait Vfs: fmt::Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn VfsFile>>;
    /// Returns metadata of a path; for a link, that of the link itself.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Lists the names in a directory, sorted.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;
    /// Creates a directory that only its owner may access.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames a path within a file system; replaces an existing target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a path within a file system; fails with `AlreadyExists` if the target exists.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Swaps two entries atomically; fails with `Unsupported` if the file system cannot do this.
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()>;
    /// Removes a file or a link.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a directory, for changes outside of this interface.
    fn directory(&self, path: &Path) -> io::Result<File>;
    /// Makes the entries of a directory durable: names that were created, renamed or removed.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    /// Makes everything below a directory durable.
    fn sync_tree(&self, directory: &Path) -> io::Result<()>;
    /// Announces a change outside of this interface (unpacking through a directory handle), so that a fault can be injected at
    /// this point.
    fn step(&self, what: &str) -> io::Result<()>;
    /// Returns the owner of temporary files.
    fn owner(&self) -> io::Result<Owner>;
    /// Returns this file system restricted to `roots`, without links: see [`Disk::beneath`](crate::Disk::beneath).
    fn beneath(&self, roots: &[PathBuf]) -> io::Result<Arc<dyn Vfs>>;
}

/// A symbolic link that must not be followed; the source of an [`io::Error`].
#[derive(Debug)]
pub struct LinkInTheWay {
    path: PathBuf,
}

impl LinkInTheWay {
    /// Returns the link, if an operation failed because of one.
    pub fn of(error: &io::Error) -> Option<&Path> {
        error.get_ref()?.downcast_ref::<Self>().map(|link| link.path.as_path())
    }

    #[cfg_attr(not(unix), expect(dead_code, reason = "only a file system with handles finds one"))]
    pub(crate) fn error(path: &Path) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, Self { path: path.to_owned() })
    }
}

impl fmt::Display for LinkInTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a symbolic link, which is not followed here", self.path.display())
    }
}

impl std::error::Error for LinkInTheWay {}

/// An open file.
pub trait VfsFile: fmt::Debug + Send {
    /// Reads some bytes; returns 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Reads at an offset, without moving the position.
    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes some of the bytes: one system call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes content and length durable. After an error, the written data must be treated as lost: the kernel reports the failure
    /// only once, so a successful second call is meaningless.
    fn sync(&mut self) -> io::Result<()>;
    /// Truncates or extends the file.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    /// Sets the permission bits.
    fn set_mode(&mut self, mode: u32) -> io::Result<()>;
    /// Returns metadata of the open file.
    fn stat(&self) -> io::Result<Stat>;
    /// Returns the path of the open file with all links resolved; `path` is the path by which it was opened.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf>;
    /// Takes the kernel's lock on the file; returns `false` if another process has it. The lock is released when the file is
    /// closed, or when the process ends for any reason.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The mode of opening a file. No mode blocks on a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; follows links.
    Read,
    /// Creates a file for writing, with these permissions; fails with `AlreadyExists` if it exists.
    CreateNew(u32),
    /// For reading and appending; a missing file is created with these permissions; refuses a link.
    Append(u32),
}

impl Open {
    /// Returns whether opening can change the file system.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// Metadata of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// File type.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits; 0o600 if the system has none.
    pub mode: u32,
    /// User id of the owner; the id of this process's user if the system does not report owners.
    pub uid: u32,
    /// Number of hard links.
    pub links: u64,
    /// Device and inode number: equal for two names of one file.
    pub id: (u64, u64),
    /// Time of the last change of the content: seconds and nanoseconds since 1970; 0 if the system does not report it.
    pub modified: (i64, i64),
}

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Other => "a pipe, socket or device",
        })
    }
}
