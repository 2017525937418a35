//! Exclusive file locks of the kernel, which are released when their process ends.

use crate::disk::{Disk, PRIVATE, folder_of, read_to_end, write_all};
use crate::vfs::{Kind, Open, VfsFile};
use pijs_protocol::guard;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between attempts to take a lock: long enough to use little CPU, and short enough for the user not to notice.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A held lock. It is released on drop, and when its process ends for any reason.
#[derive(Debug)]
pub struct Lock {
    _file: Box<dyn VfsFile>,
}

/// The reason why a lock was not taken.
#[derive(Debug)]
pub enum LockError {
    /// Another process held the lock for the whole waiting time.
    Held {
        /// Path of the lock file.
        path: PathBuf,
        /// Process id of the holder, if the lock file contains it.
        holder: Option<u32>,
    },
    /// The file system does not support locks (some network file systems), or reports another error.
    Io {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the file system.
        error: io::Error,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { path, holder: Some(pid) } => write!(f, "{} is held by process {pid}", path.display()),
            Self::Held { path, holder: None } => write!(f, "{} is held by another process", path.display()),
            Self::Io { path, error } => write!(f, "{} cannot be locked: {error}", path.display()),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Held { .. } => None,
        }
    }
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        let kind = match &error {
            LockError::Held { .. } => ErrorKind::ResourceBusy,
            LockError::Io { error, .. } => error.kind(),
        };
        Self::new(kind, error)
    }
}

impl Lock {
    /// Takes the lock, waiting up to `patience` for its holder; calls `waiting` once, with the holder, when it has to wait.
    ///
    /// The file is kept when the lock is released: if it were removed, two processes could lock different files with the same
    /// name.
    pub fn take(
        disk: &Disk,
        path: &Path,
        patience: Duration,
        waiting: impl FnOnce(Option<u32>),
    ) -> Result<Self, LockError> {
        let failed = |error| LockError::Io { path: path.to_owned(), error };
        disk.create_dirs(folder_of(path).map_err(failed)?).map_err(failed)?;
        let mut file = disk.open(path, Open::Append(PRIVATE)).map_err(failed)?;
        let started = Instant::now();
        let mut waiting = Some(waiting);
        while !try_lock(&*file).map_err(failed)? && guard!(DurableLock) {
            let holder = holder(disk, path);
            if started.elapsed() >= patience {
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            if let Some(waiting) = waiting.take() {
                waiting(holder);
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        // The process id is information for waiting processes; the lock does not depend on it. It is not written to a file with a
        // second hard link, which may be an unrelated file.
        let ours = file.stat().is_ok_and(|stat| stat.kind == Kind::File && stat.links == 1);
        if !ours && guard!(DurableRegularFile) {
            return Ok(Self { _file: file });
        }
        let _ = file.set_len(0).and_then(|()| write_all(&mut *file, std::process::id().to_string().as_bytes()));
        Ok(Self { _file: file })
    }
}

/// Tries to lock an open file; returns whether the lock was taken. The error names a file system without support for locks.
pub(crate) fn try_lock(file: &dyn VfsFile) -> io::Result<bool> {
    use rustix::io::Errno;
    file.try_lock().map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS) => {
            io::Error::new(ErrorKind::Unsupported, format!("its file system does not support locks ({error})"))
        }
        _ => error,
    })
}

fn holder(disk: &Disk, path: &Path) -> Option<u32> {
    let mut file = disk.open(path, Open::Read).ok()?;
    String::from_utf8(read_to_end(&mut *file, 0, 32).ok()?).ok()?.trim().parse().ok()
}
