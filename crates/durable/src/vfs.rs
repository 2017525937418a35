//! The seam: what durable files are done with, and nothing else.
//!
//! [`OsVfs`](crate::OsVfs) is the machine. [`FaultVfs`](crate::fault::FaultVfs) is the machine with a fault at the
//! n-th operation. Whoever writes something that has to be there after a crash goes through this trait,
//! mostly by way of [`Disk`](crate::Disk).

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
    /// What is at a path; the link itself when it is one.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Names in a directory, sorted.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;
    /// Makes one directory that only its owner enters.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Moves within a file system; replaces what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Moves within a file system; `AlreadyExists` when something is there.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Swaps two entries in one step; `Unsupported` where the file system cannot.
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()>;
    /// Removes a file or a link.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a directory, for changes that go another way.
    fn directory(&self, path: &Path) -> io::Result<File>;
    /// Makes entries of a directory durable: what was created, renamed or removed in it.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    /// Makes everything below a directory durable.
    fn sync_tree(&self, directory: &Path) -> io::Result<()>;
    /// Comes before a change that goes another way (unpacking through a directory handle), so that faults can be put
    /// there too.
    fn step(&self, what: &str) -> io::Result<()>;
    /// Who makes temporary files through this.
    fn owner(&self) -> io::Result<Owner>;
    /// The same file system, for what is below `roots` only, where no link leads anywhere: see
    /// [`Disk::beneath`](crate::Disk::beneath).
    fn beneath(&self, roots: &[PathBuf]) -> io::Result<Arc<dyn Vfs>>;
}

/// A symbolic link where none is followed; the source of an [`io::Error`].
#[derive(Debug)]
pub struct LinkInTheWay {
    path: PathBuf,
}

impl LinkInTheWay {
    /// The link, if that is what an operation failed for.
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
        write!(f, "{} is a symbolic link, and none is followed here", self.path.display())
    }
}

impl std::error::Error for LinkInTheWay {}

/// An open file.
pub trait VfsFile: fmt::Debug + Send {
    /// Reads some bytes; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Reads at a place, without moving.
    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes some of the bytes: one system call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes content and length durable. After an error, what was written counts as lost (the kernel forgets that it
    /// failed, so asking again proves nothing).
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts or extends.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    /// Sets the permission bits.
    fn set_mode(&mut self, mode: u32) -> io::Result<()>;
    /// What is open.
    fn stat(&self) -> io::Result<Stat>;
    /// Returns the place of the open file, all links resolved; `path` is the name that it was opened by.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf>;
    /// Takes the kernel's lock on the file; `false` when somebody else has it. It ends with the file, however the
    /// process ends.
    fn try_lock(&self) -> io::Result<bool>;
}

/// How a file is opened. None of them waits for the other end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; links are followed.
    Read,
    /// A new one for writing, with these permissions; `AlreadyExists` when something is there.
    CreateNew(u32),
    /// For reading and appending, created with these permissions when missing; a link is refused.
    Append(u32),
}

impl Open {
    /// Whether the file system may change by it.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// File, directory, or what else.
    pub kind: Kind,
    /// Bytes.
    pub len: u64,
    /// Permission bits; 0o600 where there are none.
    pub mode: u32,
    /// User id of the owner; that of this process where there are none.
    pub uid: u32,
    /// Names it has.
    pub links: u64,
    /// Device and number: the same for two names of one file.
    pub id: (u64, u64),
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
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
