//! Builds Node's errors: name, message, system call and path.

use pijs_hostcall::Reason;
use pijs_protocol::{ErrorCode, HostcallError};
use std::io;

/// Context of an error: Node's name of the operation, and the paths as the caller wrote them.
pub(super) struct ErrorContext<'a> {
    pub(super) syscall: &'static str,
    pub(super) path: Option<&'a str>,
    pub(super) dest: Option<&'a str>,
}

impl<'a> ErrorContext<'a> {
    pub(super) fn path(syscall: &'static str, path: &'a str) -> Self {
        Self { syscall, path: Some(path), dest: None }
    }

    pub(super) fn both(syscall: &'static str, path: &'a str, dest: &'a str) -> Self {
        Self { syscall, path: Some(path), dest: Some(dest) }
    }

    pub(super) fn handle(syscall: &'static str) -> Self {
        Self { syscall, path: None, dest: None }
    }

    /// Returns Node's error, such as `ENOENT: no such file or directory, open 'x'`.
    pub(super) fn io(&self, error: &io::Error) -> HostcallError {
        let (name, message) = system_error(error);
        let mut message = format!("{name}: {message}, {}", self.syscall);
        let mut result = HostcallError::io(name, self.syscall, "");
        if let Some(path) = self.path {
            message.push_str(&format!(" '{path}'"));
            result = result.with("path", path);
        }
        if let Some(dest) = self.dest {
            message.push_str(&format!(" -> '{dest}'"));
            result = result.with("dest", dest);
        }
        result.message = message;
        result
    }

    /// Returns the error for a denied access. Its text does not depend on whether the file exists.
    pub(super) fn denied(&self, capability: &'static str, reason: Reason) -> HostcallError {
        let subject = self.path.map(|path| format!("'{path}'")).unwrap_or_default();
        reason.refusal(capability, "fs", &subject)
    }
}

/// Reason why a walk or an operation failed.
#[derive(Debug)]
pub(super) enum FsError {
    Io(io::Error),
    Denied(&'static str, Reason),
    /// A link may not be where it would be. The hint says why, or what to do instead.
    DeniedLink(Reason, &'static str),
    /// A folder has more than this number of links.
    TooManyLinks(usize),
}

impl From<io::Error> for FsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl FsError {
    pub(super) fn at(self, at: &ErrorContext<'_>) -> HostcallError {
        match self {
            Self::Io(error) => at.io(&error),
            Self::Denied(capability, reason) => at.denied(capability, reason),
            Self::DeniedLink(reason, hint) => at.denied("read", reason).with("hint", hint),
            Self::TooManyLinks(most) => at
                .io(&code(EFBIG))
                .with("hint", format!("a folder with more than {most} symbolic links is not moved; move its parts")),
        }
    }
}

pub(super) fn bad_handle(syscall: &'static str) -> HostcallError {
    ErrorContext::handle(syscall).io(&code(EBADF))
}

pub(super) fn code(code: i32) -> io::Error {
    crate::system::errno(code)
}

pub(super) use rustix_codes::*;

/// Error numbers of this platform, as used by both implementations of the file system.
mod rustix_codes {
    use rustix::io::Errno;
    pub(in super::super) const EBADF: i32 = Errno::BADF.raw_os_error();
    pub(in super::super) const EEXIST: i32 = Errno::EXIST.raw_os_error();
    pub(in super::super) const EFBIG: i32 = Errno::FBIG.raw_os_error();
    pub(in super::super) const EINVAL: i32 = Errno::INVAL.raw_os_error();
    pub(in super::super) const EISDIR: i32 = Errno::ISDIR.raw_os_error();
    pub(in super::super) const ELOOP: i32 = Errno::LOOP.raw_os_error();
    pub(in super::super) const EMFILE: i32 = Errno::MFILE.raw_os_error();
    pub(in super::super) const ENOENT: i32 = Errno::NOENT.raw_os_error();
    pub(in super::super) const ENOTDIR: i32 = Errno::NOTDIR.raw_os_error();
    pub(in super::super) const EPERM: i32 = Errno::PERM.raw_os_error();
}

/// Returns the name and message that Node (libuv) uses for a system error, such as `ENOENT` and `no such file or directory`.
pub fn system_error(error: &io::Error) -> (&'static str, &'static str) {
    use rustix::io::Errno;
    let Some(found) = Errno::from_io_error(error) else {
        return match error.kind() {
            io::ErrorKind::NotFound => ("ENOENT", "no such file or directory"),
            io::ErrorKind::Unsupported => ("ENOTSUP", "operation not supported"),
            _ => ("EIO", "i/o error"),
        };
    };
    let known: &[(Errno, &str, &str)] = &[
        (Errno::ACCESS, "EACCES", "permission denied"),
        (Errno::AGAIN, "EAGAIN", "resource temporarily unavailable"),
        (Errno::BADF, "EBADF", "bad file descriptor"),
        (Errno::BUSY, "EBUSY", "resource busy or locked"),
        (Errno::DQUOT, "EDQUOT", "disk quota exceeded"),
        (Errno::EXIST, "EEXIST", "file already exists"),
        (Errno::FBIG, "EFBIG", "file too large"),
        (Errno::INVAL, "EINVAL", "invalid argument"),
        (Errno::IO, "EIO", "i/o error"),
        (Errno::ISDIR, "EISDIR", "illegal operation on a directory"),
        (Errno::LOOP, "ELOOP", "too many symbolic links encountered"),
        (Errno::MFILE, "EMFILE", "too many open files"),
        (Errno::MLINK, "EMLINK", "too many links"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG", "name too long"),
        (Errno::NFILE, "ENFILE", "file table overflow"),
        (Errno::NOENT, "ENOENT", "no such file or directory"),
        (Errno::NOEXEC, "ENOEXEC", "exec format error"),
        (Errno::NOMEM, "ENOMEM", "not enough memory"),
        (Errno::NOSPC, "ENOSPC", "no space left on device"),
        (Errno::NOTDIR, "ENOTDIR", "not a directory"),
        (Errno::NOTEMPTY, "ENOTEMPTY", "directory not empty"),
        (Errno::NXIO, "ENXIO", "no such device or address"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP", "operation not supported on this kind of file"),
        (Errno::OVERFLOW, "EOVERFLOW", "value too large for defined data type"),
        (Errno::PERM, "EPERM", "operation not permitted"),
        (Errno::PIPE, "EPIPE", "broken pipe"),
        (Errno::ROFS, "EROFS", "read-only file system"),
        (Errno::TXTBSY, "ETXTBSY", "text file is busy"),
        (Errno::XDEV, "EXDEV", "cross-device link not permitted"),
    ];
    known.iter().find(|(errno, ..)| *errno == found).map_or(("EIO", "i/o error"), |(_, name, words)| (name, words))
}

/// Returns the error for a file that is too large to read as a whole.
pub(super) fn too_large(what: &str, limit: u64) -> HostcallError {
    HostcallError::new(
        ErrorCode::Io,
        format!("EFBIG: file too large, read '{what}' (limit {limit} bytes; read it in pieces)"),
    )
    .with("reason", "EFBIG")
    .with("errno", "EFBIG")
    .with("syscall", "read")
    .with("path", what)
}
