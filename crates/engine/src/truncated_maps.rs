//! Survives the truncation of memory-mapped files.
//!
//! A database that several processes write concurrently has an index file that each process maps. Accessing a mapped page after
//! the end of a truncated file raises SIGBUS, so anyone who may write the file could crash the process. On threads that opt in,
//! the handler maps an empty page instead and sets a flag that the thread checks afterwards.
//!
//! The empty page is private to this process: writes to it succeed and are not seen by other processes.

use libc::{c_int, c_void, siginfo_t};
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

thread_local! {
    /// Whether this thread is to survive truncated maps. Const-initialized and without a destructor, so that a signal handler may
    /// read it at any time.
    static SURVIVES: Cell<bool> = const { Cell::new(false) };
    static MET_TRUNCATED: Cell<bool> = const { Cell::new(false) };
}

/// The signal action that was installed before this module's.
struct PreviousAction {
    action: libc::sigaction,
    /// Size of a page in bytes.
    page: usize,
}

static PREVIOUS: OnceLock<PreviousAction> = OnceLock::new();

/// Makes this thread survive the truncation of files that it has mapped, until the thread ends.
pub fn survive_truncated_maps() {
    PREVIOUS.get_or_init(|| {
        // SAFETY: `sysconf` takes and returns numbers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("the page size is positive");
        // SAFETY: zeros are valid for a struct of plain numbers and pointers.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid; a null action changes nothing.
        unsafe { libc::sigaction(libc::SIGBUS, null(), &raw mut action) };
        PreviousAction { action, page }
    });
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_missing_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: a function of the signature that SA_SIGINFO names, and async-signal-safe.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
    });
    SURVIVES.set(true);
}

/// Returns whether this thread accessed a mapped file after its truncated end.
pub fn met_truncated_map() -> bool {
    MET_TRUNCATED.get()
}

/// Handles SIGBUS: maps an empty page at an address after the end of a file.
extern "C" fn on_missing_page(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    // SAFETY: the kernel passes a valid `siginfo_t`.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code == libc::BUS_ADRERR && SURVIVES.get() {
        let page = address & !(previous.page - 1);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page is mapped, and no memory backs it, so nothing is lost. The mapping is of a file, so no Rust object
        // lies in it.
        let mapped =
            unsafe { libc::mmap(page as *mut c_void, previous.page, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
        if mapped != libc::MAP_FAILED {
            MET_TRUNCATED.set(true);
            return;
        }
    }
    // The instruction is retried, and the previous action handles the signal.
    // SAFETY: `sigaction` returned this action.
    unsafe { libc::sigaction(signal, &raw const previous.action, null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_thread_that_opts_in_reads_zeros_past_the_end() {
        let path = std::env::temp_dir().join(format!("pijs-cut-{}", std::process::id()));
        std::fs::write(&path, vec![7; 3 << 16]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let done = std::thread::spawn(move || {
            survive_truncated_maps();
            let (kind, length) = (libc::PROT_READ | libc::PROT_WRITE, 3 << 16);
            // SAFETY: a new mapping of an open file at an address of the kernel's choice.
            let memory = unsafe { libc::mmap(null_mut(), length, kind, libc::MAP_SHARED, file.as_raw_fd(), 0) };
            assert_ne!(memory, libc::MAP_FAILED);
            let byte = memory.cast::<u8>();
            // SAFETY: the address lies in the mapping.
            let read = |at: usize| unsafe { byte.add(at).read_volatile() };
            assert_eq!((read(0), read(2 << 16)), (7, 7));
            assert!(!met_truncated_map());
            file.set_len(1 << 16).unwrap();
            assert_eq!((read(0), met_truncated_map()), (7, false));
            assert_eq!((read(2 << 16), met_truncated_map()), (0, true));
            // SAFETY: the address lies in the mapping, which is writable.
            unsafe { byte.add(1 << 17 | 5).write_volatile(3) };
            assert_eq!(read(1 << 17 | 5), 3);
        });
        done.join().unwrap();
        assert!(!met_truncated_map(), "another thread met nothing");
        std::fs::remove_file(path).unwrap();
    }
}
