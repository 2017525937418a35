//! What SQLite removes.
//!
//! A journal may say that it is part of a transaction of several databases, and name the file that holds them together.
//! Who rolls such a journal back removes that file, whatever it is: whoever may write the journal of one database would
//! choose what is removed. SQLite calls the system through a table, and there a function of ours asks first.

use libc::{EACCES, c_char, c_int};
use rusqlite::ffi;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

/// Says of a file that SQLite wants removed, in the thread that wants it, whether it may be.
pub type MayRemove = fn(&Path) -> bool;

static ASKED: OnceLock<Option<MayRemove>> = OnceLock::new();

/// Has SQLite ask before it removes a file, in this process and from now on; whoever comes first says whom. To be called
/// before a database is opened.
///
/// Whether it asks: another SQLite than the one that comes with this program may have no such table.
pub fn ask_before_sqlite_removes(may: MayRemove) -> bool {
    ASKED.get_or_init(|| takes_our_place().then_some(may)).is_some()
}

fn takes_our_place() -> bool {
    // SAFETY: null asks for the default file system; what comes back is null or lives as long as the process.
    let system = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()).as_mut() };
    let Some((system, set)) = system.and_then(|system| system.xSetSystemCall.map(|set| (system, set))) else {
        return false;
    };
    // SAFETY: SQLite keeps functions of all kinds as one kind, and calls the one of this name with the type that
    // `unlink` has.
    let function = unsafe { std::mem::transmute::<Unlink, unsafe extern "C" fn()>(unlink) };
    // SAFETY: a file system of SQLite's own, and a name that ends with zero. Nobody reads the table while it is written:
    // who opens a database has called us before.
    unsafe { set(system, c"unlink".as_ptr(), Some(function)) == ffi::SQLITE_OK }
}

type Unlink = unsafe extern "C" fn(*const c_char) -> c_int;

/// `unlink` of the C library, for files that may be removed.
///
/// # Safety
///
/// `path` is text that ends with zero.
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's word.
    let name = unsafe { CStr::from_ptr(path) };
    let may = ASKED.get().copied().flatten().is_some_and(|may| may(Path::new(OsStr::from_bytes(name.to_bytes()))));
    if may {
        // SAFETY: the caller's word.
        return unsafe { libc::unlink(path) };
    }
    refuse();
    -1
}

/// Leaves the reason where the C library would.
fn refuse() {
    // SAFETY: it gives the place of this thread's own number, which is there as long as the thread is.
    #[cfg(target_os = "linux")]
    unsafe {
        *libc::__errno_location() = EACCES;
    }
    // SAFETY: as above.
    #[cfg(target_os = "macos")]
    unsafe {
        *libc::__error() = EACCES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_removed_stays() {
        let folder = std::env::temp_dir().join(format!("pijs-removals-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(ask_before_sqlite_removes(|path| path.ends_with("one.db-journal")));
        for (name, removed) in [("one.db", true), ("other.db", false)] {
            let database = rusqlite::Connection::open(folder.join(name)).unwrap();
            let made = database.execute_batch("CREATE TABLE t (v)");
            assert_eq!(made.is_ok(), removed, "{made:?}");
            drop(database);
            assert_eq!(!folder.join(format!("{name}-journal")).exists(), removed, "{name}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
