//! Resolves the path of a database, and restricts the threads that work on it.
//!
//! The walk of the file operations resolves the path to one name in an open folder. SQLite opens that name again by its full
//! path, which may have changed in the meantime. On Linux, Landlock restricts each thread:
//!
//! | thread | can reach |
//! |---|---|
//! | the one that opens the file | the permitted file, regardless of its current name |
//! | the one that runs statements | the permitted file, and the folder in which it was found, for the journals |
//!
//! If the path now leads elsewhere, it cannot be opened. One gap remains for journals: a process that moves the folder away, and
//! puts a link to one of its subfolders in its place, can cause a file with the name `DATABASE-journal`, `-wal` or `-shm` to be
//! created or removed there.
//!
//! No other file is removed, regardless of the contents of a journal ([`may_remove`]).

use super::statement::convert_error;
use crate::fs::FsConnector;
use crate::system::{Dir, Kind, OpenHow};
use pijs_hostcall::{Access, Reason, Request};
use pijs_protocol::call::OpenFlags;
use pijs_protocol::{HostcallError, guard};
use rusqlite::{Connection, OpenFlags as How};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Suffixes of SQLite's files next to a database that it writes to.
const JOURNALS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Prefix of temporary files, which SQLite creates and removes at once.
const TEMPORARY: &str = "etilqs_";

thread_local! {
    /// Journals of this thread's database.
    static OWN: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether SQLite may remove a file in this thread. A journal can name another file as the master journal of a
/// transaction across databases, which SQLite then removes; extensions cannot have such transactions.
fn may_remove(path: &Path) -> bool {
    let is_own = || OWN.try_with(|own| own.borrow().iter().any(|journal| journal == path)).unwrap_or(false);
    let is_temporary = || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY));
    is_own() || is_temporary() || !guard!(SqliteUnlink)
}

/// Prepares this thread for a database: installs the check of removed files, and limits the stack that SQLite uses, so that
/// enough is left to return an error.
pub(super) fn prepare_thread(stack: usize) -> Result<(), HostcallError> {
    #[cfg(unix)]
    {
        pijs_engine::guard_sqlite(may_remove).then_some(()).ok_or_else(cannot_open)?;
        if guard!(SqliteStack) {
            pijs_engine::bound_sqlite_stack(stack);
        }
    }
    Ok(())
}

/// A database file that the permit has allowed.
pub(super) struct DatabaseFile {
    /// The full path without links.
    real: PathBuf,
    read_only: bool,
    /// Whether journals may be created; this is also required for reading a database in WAL mode.
    journals: bool,
    #[cfg(target_os = "linux")]
    pinned: crate::system::Pinned,
}

impl DatabaseFile {
    /// Walks to the file; creates the file if it is missing and may be written.
    pub(super) fn find(
        files: &FsConnector,
        request: &Request,
        path: &str,
        read_only: bool,
    ) -> Result<Self, HostcallError> {
        let access = if read_only { Access::Read } else { Access::Write };
        let denied = |reason: Reason| reason.refusal("sqlite", access.capability(), path);
        let named = request.permit.places().node_path(path)?;
        request.permit.path(access, &named).map_err(denied)?;
        let found = files.find(&request.permit, &named, access, path)?;
        let Some(name) = &found.name else { return Err(cannot_open()) };
        let beside = journals_of(&found.real);
        let journals = beside.iter().try_for_each(|journal| request.permit.path(Access::Write, journal));
        if !read_only && guard!(SqlitePath) {
            journals.map_err(denied)?;
        }
        request.permit.reads_content(&found.real);
        let failed = |error: io::Error| {
            let (name, words) = crate::fs::system_error(&error);
            HostcallError::io(name, "open", format!("sqlite: {words}, open '{path}'")).with("path", path)
        };
        exists(&*found.dir, name, read_only).map_err(failed)?.then_some(()).ok_or_else(cannot_open)?;
        Ok(Self {
            read_only,
            journals: journals.is_ok(),
            #[cfg(target_os = "linux")]
            pinned: crate::system::pin(&*found.dir, name).map_err(failed)?,
            real: found.real,
        })
    }

    /// Opens the file with SQLite, in a thread that can access no other file.
    pub(super) fn open(&self) -> Result<Connection, HostcallError> {
        let mode = if self.read_only { How::SQLITE_OPEN_READ_ONLY } else { How::SQLITE_OPEN_READ_WRITE };
        // No URI, so that the path is taken literally. No links, because the permitted path has none.
        let open = || {
            let how = mode | How::SQLITE_OPEN_NO_MUTEX | How::SQLITE_OPEN_NOFOLLOW;
            Connection::open_with_flags(&self.real, how).map_err(|error| convert_error(&error))
        };
        #[cfg(target_os = "linux")]
        {
            // The opening thread may access less than the thread that works on the database.
            std::thread::scope(|scope| {
                let opener = scope.spawn(|| {
                    landlock_rules::restrict(&[landlock_rules::file(&self.pinned, self.read_only)])
                        .and_then(|()| open())
                });
                opener.join().unwrap_or_else(|_| Err(cannot_open()))
            })
        }
        #[cfg(not(target_os = "linux"))]
        open()
    }

    /// Restricts this thread to the database at `file` and its journals; `None` denies access to all files.
    pub(super) fn confine(file: Option<Self>) -> Result<(), HostcallError> {
        let own = file.as_ref().filter(|file| file.journals).map(|file| journals_of(&file.real));
        OWN.set(own.unwrap_or_default());
        #[cfg(target_os = "linux")]
        {
            let rules = file.as_ref().map(|file| {
                let database = landlock_rules::file(&file.pinned, file.read_only);
                [database, landlock_rules::folder(&file.pinned, !file.journals)]
            });
            landlock_rules::restrict(rules.as_ref().map_or(&[], |rules| rules))
        }
        #[cfg(not(target_os = "linux"))]
        {
            drop(file);
            Ok(())
        }
    }
}

/// Returns the full paths of a database's journals.
fn journals_of(real: &Path) -> Vec<PathBuf> {
    let beside = |suffix| {
        let mut name = real.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    };
    JOURNALS.into_iter().map(beside).collect()
}

/// Returns whether the name is a regular file; creates it if it is missing and `read_only` is `false`.
fn exists(dir: &dyn Dir, name: &OsStr, read_only: bool) -> io::Result<bool> {
    match dir.lstat(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !read_only => {
            // Exclusive, because closing a descriptor of an existing file would drop the locks that SQLite has on it in this
            // process.
            let flags = OpenFlags { write: true, create: true, exclusive: true, ..OpenFlags::default() };
            match dir.open(name, OpenHow { flags, mode: 0o644 }) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(dir.lstat(name)?.kind() == Kind::File),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        stat => Ok(stat?.kind() == Kind::File),
    }
}

/// Returns SQLite's error for a file that cannot be opened.
fn cannot_open() -> HostcallError {
    HostcallError::io("EIO", "open", "unable to open database file").with("sqlite", 14)
}

#[cfg(target_os = "linux")]
mod landlock_rules {
    use super::cannot_open;
    use crate::system::Pinned;
    use landlock::{
        ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetError,
    };
    use pijs_protocol::{HostcallError, guard};
    use std::os::fd::{AsFd as _, BorrowedFd};

    /// An open file or folder, and the permitted access.
    pub(super) type Rule<'a> = (BorrowedFd<'a>, BitFlags<AccessFs>);

    const WRITES: [AccessFs; 2] = [AccessFs::WriteFile, AccessFs::Truncate];

    /// Permits access to the database.
    pub(super) fn file(pinned: &Pinned, read_only: bool) -> Rule<'_> {
        let read = BitFlags::from(AccessFs::ReadFile);
        (pinned.file.as_fd(), if read_only { read } else { WRITES.into_iter().fold(read, |all, one| all | one) })
    }

    /// Permits access to the database's folder.
    pub(super) fn folder(pinned: &Pinned, read_only: bool) -> Rule<'_> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let make = AccessFs::MakeReg | AccessFs::RemoveFile;
        let all = WRITES.into_iter().fold(read | make, |all, one| all | one);
        (pinned.folder.as_fd(), if read_only { read } else { all })
    }

    /// Restricts this thread to the files of the rules. Has no effect on a kernel without Landlock.
    pub(super) fn restrict(rules: &[Rule<'_>]) -> Result<(), HostcallError> {
        if !guard!(SqliteLandlock) {
            return Ok(());
        }
        confine(rules).map_err(|error| {
            let message = format!("sqlite: the database's thread cannot be restricted: {error}");
            HostcallError { message, ..cannot_open() }
        })
    }

    fn confine(rules: &[Rule<'_>]) -> Result<(), RulesetError> {
        let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?.create()?;
        for (file, access) in rules {
            ruleset = ruleset.add_rule(PathBeneath::new(file, *access))?;
        }
        // SQLite reads random bytes from here.
        if let Ok(random) = PathFd::new("/dev/urandom") {
            ruleset = ruleset.add_rule(PathBeneath::new(random, AccessFs::ReadFile))?;
        }
        ruleset.restrict_self()?;
        Ok(())
    }
}
