//! A file system: folders by handle, one name at a time.
//!
//! [`Dir`] never follows a symbolic link and takes single names instead of paths. The resolver of the `fs` connector therefore
//! cannot be tricked by files that are moved while it walks. [`OsFileSystem`] is the file system of the operating system,
//! [`MemoryFileSystem`] keeps files in memory; an embedder may implement another.

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

/// Opens folders by absolute path. This is the only operation for which the operating system resolves a path.
pub trait FileSystem: Send + Sync {
    /// Opens a folder that the host named. Follows links in the path.
    fn open_root(&self, path: &Path, mounts: Mounts) -> io::Result<Arc<dyn Dir>>;

    /// Returns the number of files that this process may have open. Extensions together get a share of it.
    ///
    /// The default, for systems without such a limit, is `usize::MAX`.
    fn open_files(&self) -> usize {
        usize::MAX
    }

    /// Returns random letters for the name of a temporary file.
    fn random_name(&self) -> String;

    /// Returns a factory of watchers, which share the system's limited resources.
    ///
    /// The default, for systems that cannot watch files, is the error [`io::ErrorKind::Unsupported`].
    fn watches(&self) -> io::Result<Arc<dyn Watches>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Whether operations may enter file systems that are mounted below a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mounts {
    /// Mounted file systems are entered.
    Cross,
    /// Opening an entry of a mounted file system fails with `EXDEV`.
    Stay,
}

/// Creates watchers that share a queue of the system. A watcher that overflows the queue makes the others lose changes, so each
/// extension gets a separate factory.
pub trait Watches: Send + Sync {
    /// Creates a watcher. It must be polled inside an asynchronous runtime.
    fn watcher(self: Arc<Self>) -> io::Result<Box<dyn Watcher>>;

    /// Returns whether a watcher of this factory watches `dir`, or the file `name` in it. Callers change a watched file in place:
    /// if it were replaced, its watch would stay on the old file and report no further changes.
    fn is_watched(&self, _dir: &dyn Dir, _name: &OsStr) -> bool {
        false
    }
}

/// Reports changes of files and folders.
pub trait Watcher: Send {
    /// Watches `name` in `dir`, or `dir` itself. Watching a folder reports changes of its direct entries, not of deeper ones.
    fn add(&mut self, dir: &dyn Dir, name: Option<&OsStr>) -> io::Result<WatchId>;

    /// Returns the changes since the last call, in order; is pending until there is at least one.
    fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<Change>>>;
}

/// Identifies a watched file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchId(pub i32);

/// A change of a watched file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A watched file or folder, or an entry of a watched folder, changed.
    At {
        /// The watched file or folder.
        watch: WatchId,
        /// The entry of a watched folder; `None` if the watched file or folder itself changed.
        name: Option<OsString>,
        /// Whether an entry was created, removed or renamed; otherwise its content or attributes changed.
        is_rename: bool,
        /// Whether the entry is a folder that was created or moved into the watched folder.
        is_new_folder: bool,
    },
    /// The watched file or folder was removed. No more changes are reported for this id.
    Gone(WatchId),
    /// Changes were lost because a queue overflowed.
    Overflow,
}

/// An open folder. Every `name` is a single path component: without a slash, and not `.` or `..`.
pub trait Dir: Send + Sync {
    /// Opens a subfolder. A symbolic link is an error (`ELOOP` or `ENOTDIR`).
    fn child(&self, name: &OsStr) -> io::Result<Arc<dyn Dir>>;

    /// Opens a folder several levels down, without following links. Returns `None` for an empty list of names.
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

    /// Opens a file without blocking. Fails with `ELOOP` for a symbolic link. The caller must reject anything but a regular file.
    fn open(&self, name: &OsStr, how: OpenHow) -> io::Result<Box<dyn File>>;

    /// Returns the metadata of `name`, without following a link.
    fn lstat(&self, name: &OsStr) -> io::Result<Stat>;

    /// Returns the metadata of this folder.
    fn stat(&self) -> io::Result<Stat>;

    /// Returns data about the file system of `name`, or of this folder if `None`. Does not follow a symbolic link.
    fn statfs(&self, _name: Option<&OsStr>) -> io::Result<StatFs> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the names and kinds of the entries, sorted by name.
    fn entries(&self) -> io::Result<Vec<(OsString, Kind)>>;

    /// Creates a folder.
    fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()>;

    /// Removes an empty folder.
    fn rmdir(&self, name: &OsStr) -> io::Result<()>;

    /// Removes an entry that is not a folder.
    fn unlink(&self, name: &OsStr) -> io::Result<()>;

    /// Moves `name` to `to_name` in `to`.
    fn rename(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()>;

    /// Replaces `name` atomically by a new regular file with this content: readers see either the old or the new content. Keeps
    /// permission bits and group of the old file; a new file gets `mode`.
    ///
    /// Returns `None` if replacing would lose other hard links, the owner or attributes of the file, or is not possible in this
    /// folder; the caller then writes into the file.
    fn replace(&self, name: &OsStr, data: &[u8], mode: u32) -> io::Result<Option<()>>;

    /// Creates a hard link to the file `name`.
    fn link(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()>;

    /// Creates a symbolic link.
    fn symlink(&self, target: &Path, name: &OsStr) -> io::Result<()>;

    /// Returns the target of a symbolic link.
    fn readlink(&self, name: &OsStr) -> io::Result<PathBuf>;

    /// Sets permission bits of a file or folder. Does not follow a link.
    fn chmod(&self, name: &OsStr, mode: u32) -> io::Result<()>;

    /// Sets access and modification time in milliseconds since 1970. Does not follow a link.
    fn utimes(&self, name: &OsStr, atime_ms: f64, mtime_ms: f64) -> io::Result<()>;

    /// Returns whether the process may access `name`: bits 4 read, 2 write, 1 execute, as in Node.
    fn access(&self, name: &OsStr, bits: u32) -> io::Result<()>;

    /// Returns `self` for downcasting, so that [`Dir::rename`] and [`Dir::link`] can check that both folders have the same
    /// implementation.
    fn as_any(&self) -> &dyn Any;
}

/// Options to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHow {
    /// Node's flags.
    pub flags: pijs_protocol::call::OpenFlags,
    /// Permission bits of a file that is created.
    pub mode: u32,
}

/// An open file.
pub trait File: Send {
    /// Reads at an offset, or at the sequential position. Returns 0 at the end of the file.
    fn read(&mut self, at: Option<u64>, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at an offset, or at the sequential position.
    fn write(&mut self, at: Option<u64>, data: &[u8]) -> io::Result<usize>;
    /// Returns the metadata of the file.
    fn stat(&self) -> io::Result<Stat>;
    /// Truncates or extends the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Sets permission bits.
    fn chmod(&mut self, mode: u32) -> io::Result<()>;
    /// Sets access and modification time in milliseconds since 1970.
    fn utimes(&mut self, atime_ms: f64, mtime_ms: f64) -> io::Result<()>;
    /// Flushes the file to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The kind of a directory entry.
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
    /// Returns the name in the protocol.
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

    /// Returns the kind that an `st_mode` contains.
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

/// The members of Node's `Stats`.
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

/// The members of Node's `StatFs`.
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
    /// Returns the kind of the file.
    pub fn kind(&self) -> Kind {
        Kind::of_mode(self.mode)
    }
}

/// Returns the error for an `errno` code.
pub fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}
