//! A file system: folders by handle, one name at a time.
//!
//! [`Dir`] never follows a symbolic link and never takes a path, only a name in itself; that is
//! what makes the resolver of the `fs` connector safe against everything that moves while it walks.
//! [`OsFileSystem`] is the operating system's, [`MemoryFileSystem`] one in memory; an embedder may bring another.

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

#[cfg(target_os = "linux")]
mod inotify;
mod memory;
#[cfg(unix)]
mod os;
#[cfg(not(unix))]
#[path = "files/os_unsupported.rs"]
mod os;

pub use memory::MemoryFileSystem;
pub use os::OsFileSystem;
pub use os::open_folder;
#[cfg(target_os = "linux")]
pub use os::{Pinned, pin};

/// Opens folders by absolute path: the only place where a path is resolved by the system.
pub trait FileSystem: Send + Sync {
    /// Opens a folder that the host itself named. Links in the path are followed.
    fn open_root(&self, path: &Path, mounts: Mounts) -> io::Result<Arc<dyn Dir>>;

    /// How many files this process may have open; extensions together get a part of that.
    ///
    /// The default, for systems that have no such number: all there are.
    fn open_files(&self) -> usize {
        usize::MAX
    }

    /// Random letters for temporary names.
    fn random_name(&self) -> String;

    /// Where watchers come from that share what the system has few of.
    ///
    /// The default, for systems that cannot watch: [`io::ErrorKind::Unsupported`].
    fn watches(&self) -> io::Result<Arc<dyn Watches>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Whether other file systems that are mounted below a folder belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mounts {
    /// They do.
    Cross,
    /// Opening something there is `EXDEV`.
    Stay,
}

/// Makes watchers. What floods one of them can make the others lose changes, so those of different extensions have different ones.
pub trait Watches: Send + Sync {
    /// Something that notices changes. It is polled inside an asynchronous runtime.
    fn watcher(self: Arc<Self>) -> io::Result<Box<dyn Watcher>>;

    /// Whether one of its watchers watches `dir`, or the file `name` in it. Such a file is written into: who watches it
    /// hears of a change, and of the next one, and not that another has taken its name.
    fn is_watched(&self, _dir: &dyn Dir, _name: &OsStr) -> bool {
        false
    }
}

/// Notices changes of files and folders.
pub trait Watcher: Send {
    /// Watches `name` in `dir`, or `dir` itself. A folder's entries are watched with it, not what is deeper.
    fn add(&mut self, dir: &dyn Dir, name: Option<&OsStr>) -> io::Result<WatchId>;

    /// Changes since the last answer, in order; at least one.
    fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<Change>>>;
}

/// One watched thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchId(pub i32);

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// At a watched thing.
    At {
        /// Which.
        watch: WatchId,
        /// In a folder: the entry; absent when it is about the thing itself.
        name: Option<OsString>,
        /// Whether a name came or went; otherwise content or attributes.
        is_rename: bool,
        /// Whether a folder came to be under this name.
        is_new_folder: bool,
    },
    /// A watched thing is gone; nothing more comes from it.
    Gone(WatchId),
    /// Some changes were lost.
    Overflow,
}

/// An open folder. Every `name` is one component: no slash, not `.` or `..`.
pub trait Dir: Send + Sync {
    /// Opens a folder inside. A symbolic link is an error (`ELOOP` or `ENOTDIR`).
    fn child(&self, name: &OsStr) -> io::Result<Arc<dyn Dir>>;

    /// Opens a folder several levels down, under the same rule.
    fn descend(&self, names: &[&OsStr]) -> io::Result<Option<Arc<dyn Dir>>> {
        let mut at: Option<Arc<dyn Dir>> = None;
        for name in names {
            let next = match &at {
                None => self.child(name)?,
                Some(dir) => dir.child(name)?,
            };
            at = Some(next);
        }
        Ok(at)
    }

    /// Opens a file. A symbolic link is `ELOOP`; anything but a regular file is refused by the
    /// caller, so opening one must not block.
    fn open(&self, name: &OsStr, how: OpenHow) -> io::Result<Box<dyn File>>;

    /// What `name` is, a link itself if it is one.
    fn lstat(&self, name: &OsStr) -> io::Result<Stat>;

    /// What this folder is.
    fn stat(&self) -> io::Result<Stat>;

    /// What file system `name`, or this folder, is on. A symbolic link is not followed.
    fn statfs(&self, _name: Option<&OsStr>) -> io::Result<StatFs> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Names and kinds, sorted by name.
    fn entries(&self) -> io::Result<Vec<(OsString, Kind)>>;

    /// Makes a folder.
    fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()>;

    /// Removes an empty folder.
    fn rmdir(&self, name: &OsStr) -> io::Result<()>;

    /// Removes anything but a folder.
    fn unlink(&self, name: &OsStr) -> io::Result<()>;

    /// Moves `name` to `to_name` in `to`.
    fn rename(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()>;

    /// Puts a new regular file with this content in the place of `name`, at once: whoever looks sees the old
    /// content or the new one. Permission bits and group of an old file are kept; a new one gets `mode`.
    ///
    /// `None` when that would lose something (other names of the file, its owner, attributes) or is not possible here; the caller then
    /// writes into the file.
    fn replace(&self, name: &OsStr, data: &[u8], mode: u32) -> io::Result<Option<()>>;

    /// Gives the file `name` another name.
    fn link(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()>;

    /// Makes a symbolic link.
    fn symlink(&self, target: &Path, name: &OsStr) -> io::Result<()>;

    /// Where a symbolic link points.
    fn readlink(&self, name: &OsStr) -> io::Result<PathBuf>;

    /// Sets permission bits of a file or folder, never through a link.
    fn chmod(&self, name: &OsStr, mode: u32) -> io::Result<()>;

    /// Sets access and modification time (milliseconds since 1970), never through a link.
    fn utimes(&self, name: &OsStr, atime_ms: f64, mtime_ms: f64) -> io::Result<()>;

    /// Whether the process may do this at `name`: Node's bits 4 read, 2 write, 1 execute.
    fn access(&self, name: &OsStr, bits: u32) -> io::Result<()>;

    /// For [`Dir::rename`] and [`Dir::link`] to recognise their own kind.
    fn as_any(&self) -> &dyn Any;
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHow {
    /// Node's flags.
    pub flags: pijs_protocol::call::OpenFlags,
    /// Permission bits of a file that is made.
    pub mode: u32,
}

/// An open file.
pub trait File: Send {
    /// Reads at a place, or where the last sequential read ended. 0 at the end.
    fn read(&mut self, at: Option<u64>, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at a place, or where the last sequential write ended.
    fn write(&mut self, at: Option<u64>, data: &[u8]) -> io::Result<usize>;
    /// What it is.
    fn stat(&self) -> io::Result<Stat>;
    /// Cuts or extends.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Sets permission bits.
    fn chmod(&mut self, mode: u32) -> io::Result<()>;
    /// Sets access and modification time, milliseconds since 1970.
    fn utimes(&mut self, atime_ms: f64, mtime_ms: f64) -> io::Result<()>;
    /// To the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Char,
    /// A block device.
    Block,
}

impl Kind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Char => "char",
            Self::Block => "block",
        }
    }

    /// The kind in a `st_mode`.
    pub fn of_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o040_000 => Self::Dir,
            0o120_000 => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o020_000 => Self::Char,
            0o060_000 => Self::Block,
            _ => Self::File,
        }
    }
}

/// Everything Node's `Stats` holds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the fields of stat(2), times in milliseconds")]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: u64,
    pub blksize: u64,
    pub blocks: u64,
    pub atime_ms: f64,
    pub mtime_ms: f64,
    pub ctime_ms: f64,
    pub birthtime_ms: f64,
}

/// Everything Node's `StatFs` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of statfs(2)")]
pub struct StatFs {
    pub kind: u64,
    pub bsize: u64,
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
}

impl Stat {
    /// What it is.
    pub fn kind(&self) -> Kind {
        Kind::of_mode(self.mode)
    }
}

/// Returns the error with a code of the system.
pub fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}
