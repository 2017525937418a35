//! Memory of files that somebody cuts short.
//!
//! Databases that several processes write at a time share an index, a file that each of them has in its memory. Where such a
//! file loses its end, the next look at that memory ends the process, and whoever may write the file could end it. A
//! thread that says so meets empty memory instead, and learns of it afterwards.
//!
//! Such memory belongs to nobody else any more. What was done with it came to something, but to nothing that others see.

use libc::{c_int, c_void, siginfo_t};
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

thread_local! {
    /// Whether this thread goes on. Neither these need to be made nor to be destroyed, so a signal finds them as they are.
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
    static MET: Cell<bool> = const { Cell::new(false) };
}

/// What stood before.
struct Before {
    action: libc::sigaction,
    /// Bytes of a page.
    page: usize,
}

static BEFORE: OnceLock<Before> = OnceLock::new();

/// Has this thread go on, from now on to its end, when a file that it has in its memory is cut short.
pub fn survive_cut_files() {
    BEFORE.get_or_init(|| {
        // SAFETY: a question without an answer in memory.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("pages have a size");
        // SAFETY: plain numbers and pointers, for which zeros stand for nothing.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: both places are ours; null asks what stands there and changes nothing.
        unsafe { libc::sigaction(libc::SIGBUS, null(), &raw mut action) };
        Before { action, page }
    });
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_missing_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: a function of the kind that the flags name, which does nothing that a signal must not.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
    });
    GOES_ON.set(true);
}

/// Whether this thread had a file in its memory that was cut short.
pub fn met_cut_file() -> bool {
    MET.get()
}

/// Puts an empty page where one is missing.
extern "C" fn on_missing_page(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: the system gives what it knows of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code == libc::BUS_ADRERR && GOES_ON.get() {
        let page = address & !(before.page - 1);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page is in use, and no memory is behind it; nothing is lost. It is memory of a file, so nothing of
        // Rust's lies there.
        let mapped =
            unsafe { libc::mmap(page as *mut c_void, before.page, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
        if mapped != libc::MAP_FAILED {
            MET.set(true);
            return;
        }
    }
    // The instruction is tried once more, and whoever stood here before us gets it.
    // SAFETY: what the system said stood there.
    unsafe { libc::sigaction(signal, &raw const before.action, null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_thread_that_says_so_goes_on_with_empty_memory() {
        let path = std::env::temp_dir().join(format!("pijs-cut-{}", std::process::id()));
        std::fs::write(&path, vec![7; 3 << 16]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let done = std::thread::spawn(move || {
            survive_cut_files();
            let (kind, length) = (libc::PROT_READ | libc::PROT_WRITE, 3 << 16);
            // SAFETY: a new mapping of an open file.
            let memory = unsafe { libc::mmap(null_mut(), length, kind, libc::MAP_SHARED, file.as_raw_fd(), 0) };
            assert_ne!(memory, libc::MAP_FAILED);
            let byte = memory.cast::<u8>();
            // SAFETY: in the mapping.
            let read = |at: usize| unsafe { byte.add(at).read_volatile() };
            assert_eq!((read(0), read(2 << 16)), (7, 7));
            assert!(!met_cut_file());
            file.set_len(1 << 16).unwrap();
            assert_eq!((read(0), met_cut_file()), (7, false));
            assert_eq!((read(2 << 16), met_cut_file()), (0, true));
            // SAFETY: in the mapping, which can be written.
            unsafe { byte.add(1 << 17 | 5).write_volatile(3) };
            assert_eq!(read(1 << 17 | 5), 3);
        });
        done.join().unwrap();
        assert!(!met_cut_file(), "another thread met nothing");
        std::fs::remove_file(path).unwrap();
    }
}
