//! `fs`: Node's verbs on files.

use super::{CallData, CallParam, CallReader, OpenFlags, hostcalls};
use crate::HostcallError;

hostcalls! {
    /// A call of `fs`. Each variant is Node's function of that name.
    FsCall = "fs" {
        /// Tests access to a path with Node's mode bits.
        "access" => Access { path: String, mode: Option<u64> },
        /// Appends to a file.
        "appendFile" => AppendFile { file as "path": FileTarget, data: CallData, flag: Option<OpenFlags>, mode: Option<u64> },
        /// Sets permission bits.
        "chmod" => Chmod { path: String, mode: u64 },
        /// Closes a handle.
        "close" => Close { fd: u64 },
        /// Copies a file.
        "copyFile" => CopyFile { from: String, to: String, exclusive: bool },
        /// Copies a tree.
        "cp" => Cp {
            from: String, to: String, recursive: bool, force: Option<bool>, error_on_exist as "errorOnExist": bool,
        },
        /// Returns whether a path exists.
        "exists" => Exists { path: String },
        /// Sets permission bits by handle.
        "fchmod" => Fchmod { fd: u64, mode: u64 },
        /// Flushes the content of a file to the disk.
        "fdatasync" => Fdatasync { fd: u64 },
        /// Returns the stat of a handle.
        "fstat" => Fstat { fd: u64 },
        /// Flushes the content and metadata of a file to the disk.
        "fsync" => Fsync { fd: u64 },
        /// Truncates or extends a file by handle.
        "ftruncate" => Ftruncate { fd: u64, len: Option<u64> },
        /// Sets times by handle.
        "futimes" => Futimes { fd: u64, atime_ms as "atimeMs": f64, mtime_ms as "mtimeMs": f64 },
        /// Creates a hard link to a file.
        "link" => Link { from: String, to: String },
        /// Returns the stat of a link itself.
        "lstat" => Lstat { path: String },
        /// Sets times of a link itself.
        "lutimes" => Lutimes { path: String, atime_ms as "atimeMs": f64, mtime_ms as "mtimeMs": f64 },
        /// Creates a folder.
        "mkdir" => Mkdir { path: String, recursive: bool, mode: Option<u64> },
        /// Creates a folder with a unique name.
        "mkdtemp" => Mkdtemp { prefix: String },
        /// Opens a file.
        "open" => Open { path: String, flags: OpenFlags, mode: Option<u64> },
        /// Lists a folder. Errors name a system call other than that of `readdir`.
        "opendir" => Opendir { path: String, recursive: bool },
        /// Reads by handle.
        "read" => Read { fd: u64, length: u64, position: Option<u64> },
        /// Reads a file.
        "readFile" => ReadFile { file as "path": FileTarget, encoding: Option<String> },
        /// Lists a folder.
        "readdir" => Readdir { path: String, recursive: bool },
        /// Returns the target of a link.
        "readlink" => Readlink { path: String },
        /// Returns a path with all links resolved.
        "realpath" => Realpath { path: String },
        /// Moves a file or folder.
        "rename" => Rename { from: String, to: String },
        /// Removes a file or a tree.
        "rm" => Rm { path: String, recursive: bool, force: bool },
        /// Removes an empty folder.
        "rmdir" => Rmdir { path: String },
        /// Returns the stat of a path.
        "stat" => Stat { path: String },
        /// Returns sizes of the file system that contains a path.
        "statfs" => Statfs { path: String },
        /// Creates a symbolic link.
        "symlink" => Symlink { target: String, path: String },
        /// Truncates or extends a file.
        "truncate" => Truncate { path: String, len: Option<u64> },
        /// Removes a file.
        "unlink" => Unlink { path: String },
        /// Sets the times of a path.
        "utimes" => Utimes { path: String, atime_ms as "atimeMs": f64, mtime_ms as "mtimeMs": f64 },
        /// Streams changes of a path. The synchronous form starts the watch; `begun` is the number that it returned.
        "watch" => Watch { path: String, recursive: bool, begun: Option<u64> },
        /// Writes by handle.
        "write" => Write { fd: u64, data: CallData, position: Option<u64> },
        /// Writes a file.
        "writeFile" => WriteFile { file as "path": FileTarget, data: CallData, flag: Option<OpenFlags>, mode: Option<u64> },
    }
}

impl FsCall {
    /// Returns whether the duration of the call depends on the size of a file or a folder tree.
    pub fn depends_on_size(&self) -> bool {
        match self {
            Self::CopyFile { .. } | Self::Cp { .. } => true,
            Self::Rm { recursive, .. } | Self::Readdir { recursive, .. } | Self::Opendir { recursive, .. } => {
                *recursive
            }
            _ => false,
        }
    }
}

/// A file, by path or by handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileTarget {
    /// A file at this path.
    Path(String),
    /// A file with this open handle.
    Handle(u64),
}

impl CallParam for FileTarget {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        match reader.has("fd") {
            true => u64::read(reader, "fd").map(Self::Handle),
            false => String::read(reader, key).map(Self::Path),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: string; fd?: number")
    }
}

impl CallParam for OpenFlags {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        Self::parse(reader.take(key).as_ref())
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: string | number | null | undefined")
    }
}

impl CallParam for Option<OpenFlags> {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        reader.take_present(key).map(|flags| OpenFlags::parse(Some(&flags))).transpose()
    }

    fn declaration(key: &str) -> String {
        OpenFlags::declaration(key)
    }
}
