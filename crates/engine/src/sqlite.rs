//! What SQLite asks us: whether a file may be removed, and whether there is stack left.
//!
//! **Removals.** A journal may say that it is part of a transaction of several databases, and name the file that holds them
//! together. Who rolls such a journal back removes that file, whatever it is: whoever may write the journal of one database
//! would choose what is removed. SQLite calls the system through a table, and there a function of ours asks first.
//!
//! **Stack.** SQLite goes through what is nested by calling itself: views of views have no end that it knows of. On its way
//! down it needs memory, and who is too deep gets none; that it is prepared for.

use libc::{EACCES, c_char, c_int, c_void};
use rusqlite::ffi;
use std::cell::Cell;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

/// Says of a file that SQLite wants removed, in the thread that wants it, whether it may be.
pub type MayRemove = fn(&Path) -> bool;

static ASKED: OnceLock<Option<MayRemove>> = OnceLock::new();

/// Has SQLite ask before it removes a file and before it takes memory, in this process and from now on; whoever comes first
/// says whom. To be called before anything else is done with SQLite.
///
/// Whether it asks: another SQLite than the one that comes with this program may do things in another way.
pub fn guard_sqlite(may_remove: MayRemove) -> bool {
    ASKED.get_or_init(|| (takes_memory_from_us() && removes_through_us()).then_some(may_remove)).is_some()
}

thread_local! {
    /// How low the stack of this thread may reach while SQLite is given memory.
    static LOWEST: Cell<usize> = const { Cell::new(0) };
}

/// From now on, SQLite gets memory in this thread only while less than so many bytes of its stack are in use, counted
/// from here.
pub fn bound_sqlite_stack(bytes: usize) {
    LOWEST.set(depth().saturating_sub(bytes));
}

/// Where the stack is: it grows downwards.
#[inline(never)]
fn depth() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here) as usize
}

/// What SQLite would take memory from without us.
struct Memory {
    take: unsafe extern "C" fn(c_int) -> *mut c_void,
    resize: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
}

static MEMORY: OnceLock<Memory> = OnceLock::new();

fn takes_memory_from_us() -> bool {
    // SAFETY: plain numbers, pointers and functions that may be absent, for which zeros stand for nothing.
    let mut methods: ffi::sqlite3_mem_methods = unsafe { std::mem::zeroed() };
    // SAFETY: what this number asks for is written to such a place.
    if unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) } != ffi::SQLITE_OK {
        return false;
    }
    let (Some(take), Some(resize)) = (methods.xMalloc, methods.xRealloc) else { return false };
    if MEMORY.set(Memory { take, resize }).is_err() {
        return false;
    }
    methods.xMalloc = Some(take_memory);
    methods.xRealloc = Some(resize_memory);
    // SAFETY: what this number sets is copied from such a place; two of the functions end in those that stood there.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) == ffi::SQLITE_OK }
}

unsafe extern "C" fn take_memory(bytes: c_int) -> *mut c_void {
    match MEMORY.get() {
        // SAFETY: the call of SQLite as it came.
        Some(memory) if depth() > LOWEST.get() => unsafe { (memory.take)(bytes) },
        _ => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn resize_memory(old: *mut c_void, bytes: c_int) -> *mut c_void {
    match MEMORY.get() {
        // SAFETY: the call of SQLite as it came, about memory that came from there, too.
        Some(memory) if depth() > LOWEST.get() => unsafe { (memory.resize)(old, bytes) },
        _ => std::ptr::null_mut(),
    }
}

fn removes_through_us() -> bool {
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

    fn guard() -> bool {
        guard_sqlite(|path| path.ends_with("one.db-journal"))
    }

    #[test]
    fn who_is_too_deep_gets_no_memory() {
        assert!(guard());
        let deep = || {
            let database = rusqlite::Connection::open_in_memory().unwrap();
            let views = (1..2_000).map(|n| format!("CREATE VIEW v{n} AS SELECT a FROM v{};", n - 1));
            let views = format!("CREATE VIEW v0 AS SELECT 1 AS a;{}", views.collect::<String>());
            database.execute_batch(&views).unwrap();
            bound_sqlite_stack(1 << 20);
            let asked =
                |view: &str| database.query_row(&format!("SELECT a FROM {view}"), [], |row| row.get::<_, i64>(0));
            assert_eq!(asked("v10"), Ok(1));
            let refused = asked("v1999").unwrap_err();
            assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::OutOfMemory), "{refused}");
            assert_eq!(asked("v11"), Ok(1));
        };
        std::thread::Builder::new().stack_size(16 << 20).spawn(deep).unwrap().join().unwrap();
    }

    #[test]
    fn what_may_not_be_removed_stays() {
        let folder = std::env::temp_dir().join(format!("pijs-sqlite-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(guard());
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
