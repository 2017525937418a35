//! Restricts which files SQLite may delete, and how much stack it may use.
//!
//! **Deletion.** A journal may claim to be part of a transaction over several databases, and name the super-journal of that
//! transaction. SQLite deletes the named file when it rolls the journal back, regardless of what it is: anyone who may write the
//! journal of a database could choose a file to delete. SQLite makes system calls through a table, in which this module replaces
//! `unlink`.
//!
//! **Stack.** SQLite recurses over nested structures, and has no depth limit for views over views. It allocates memory at each
//! level, so this module fails allocations below a stack bound; SQLite handles that as out of memory.

use libc::{EACCES, c_char, c_int, c_void};
use rusqlite::ffi;
use std::cell::Cell;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

/// Decides, on the thread that runs SQLite, whether it may delete a file.
pub type MayRemove = fn(&Path) -> bool;

static MAY_REMOVE: OnceLock<Option<MayRemove>> = OnceLock::new();

/// Installs both hooks in this process; only the first caller's `may_remove` is used. Must be called before any other use of
/// SQLite.
///
/// Returns whether the hooks are installed: a SQLite library other than the bundled one may not support them.
pub fn guard_sqlite(may_remove: MayRemove) -> bool {
    MAY_REMOVE.get_or_init(|| (hook_allocator() && hook_unlink()).then_some(may_remove)).is_some()
}

thread_local! {
    /// Lowest stack address at which SQLite may allocate on this thread.
    static LOWEST: Cell<usize> = const { Cell::new(0) };
}

/// Fails SQLite's allocations on this thread while more than `bytes` of its stack, counted from this call, are in use.
pub fn bound_sqlite_stack(bytes: usize) {
    LOWEST.set(stack_address().saturating_sub(bytes));
}

/// Returns the current stack address; the stack grows downwards.
#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here) as usize
}

/// The allocator that SQLite uses without this module.
struct OriginalAllocator {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
}

static ORIGINAL: OnceLock<OriginalAllocator> = OnceLock::new();

fn hook_allocator() -> bool {
    // SAFETY: zeros are valid for a struct of plain numbers, pointers and optional functions.
    let mut methods: ffi::sqlite3_mem_methods = unsafe { std::mem::zeroed() };
    // SAFETY: this option writes a struct of this type.
    if unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) } != ffi::SQLITE_OK {
        return false;
    }
    let (Some(malloc), Some(realloc)) = (methods.xMalloc, methods.xRealloc) else { return false };
    if ORIGINAL.set(OriginalAllocator { malloc, realloc }).is_err() {
        return false;
    }
    methods.xMalloc = Some(bounded_malloc);
    methods.xRealloc = Some(bounded_realloc);
    // SAFETY: this option copies a struct of this type; the two replaced functions delegate to the original ones.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) == ffi::SQLITE_OK }
}

unsafe extern "C" fn bounded_malloc(bytes: c_int) -> *mut c_void {
    match ORIGINAL.get() {
        // SAFETY: forwards SQLite's call unchanged.
        Some(memory) if stack_address() > LOWEST.get() => unsafe { (memory.malloc)(bytes) },
        _ => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn bounded_realloc(old: *mut c_void, bytes: c_int) -> *mut c_void {
    match ORIGINAL.get() {
        // SAFETY: forwards SQLite's call unchanged, about memory of the same allocator.
        Some(memory) if stack_address() > LOWEST.get() => unsafe { (memory.realloc)(old, bytes) },
        _ => std::ptr::null_mut(),
    }
}

fn hook_unlink() -> bool {
    // SAFETY: null requests the default file system; the result is null or lives as long as the process.
    let system = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()).as_mut() };
    let Some((system, set)) = system.and_then(|system| system.xSetSystemCall.map(|set| (system, set))) else {
        return false;
    };
    // SAFETY: SQLite stores all system calls as one function type, and calls the entry of this name with the type of `unlink`.
    let function = unsafe { std::mem::transmute::<Unlink, unsafe extern "C" fn()>(unlink) };
    // SAFETY: a file system of SQLite, and a name that ends with NUL. No thread reads the table during the write: every user of
    // SQLite calls `guard_sqlite` first.
    unsafe { set(system, c"unlink".as_ptr(), Some(function)) == ffi::SQLITE_OK }
}

type Unlink = unsafe extern "C" fn(*const c_char) -> c_int;

/// Replaces `unlink` of the C library by a function that only deletes files which may be deleted.
///
/// # Safety
///
/// `path` is a NUL-terminated string.
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(path) };
    let may = MAY_REMOVE.get().copied().flatten().is_some_and(|may| may(Path::new(OsStr::from_bytes(name.to_bytes()))));
    if may {
        // SAFETY: the caller's contract.
        return unsafe { libc::unlink(path) };
    }
    set_permission_error();
    -1
}

/// Sets `errno` to a permission error.
fn set_permission_error() {
    // SAFETY: `errno` of this thread, valid as long as the thread lives.
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
    fn allocations_fail_below_the_stack_bound() {
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
    fn files_that_may_not_be_removed_stay() {
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
