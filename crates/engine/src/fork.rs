//! Forks worker processes from a zygote: descriptors, sealed memory and copy-on-write pages.
//!
//! A worker is a copy of a zygote, a process whose engine has evaluated the runtime. This file forks it, replaces its stdin,
//! closes inherited descriptors and maps sealed memory. Before the zygote forks, [`heap_padding`] fills the gaps of its heap, and
//! [`cow_heap`] maps the heap from a memory file; an idle worker returns the pages that it has not changed. [`heap_growth`] faults
//! in new pages of a worker.

#![expect(clippy::disallowed_methods, reason = "`/proc` lists the threads and files of this process")]

pub(crate) mod cow_heap;
pub(crate) mod heap_growth;
pub(crate) mod heap_padding;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The side of a fork on which [`fork_for_parent`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkSide {
    /// The zygote, with the process id of the copy.
    Zygote(i32),
    /// The copy of the zygote.
    Worker,
}

/// Forks this process. The parent of the copy is this process's own parent, which waits for both; both end when it dies.
///
/// # Errors
///
/// Fails when this process has other threads, whose memory a copy would have without the threads themselves; when the system
/// cannot create a process; when `/proc` cannot be read.
pub fn fork_for_parent() -> io::Result<ForkSide> {
    refuse_threads()?;
    const NOTHING: libc::c_long = 0;
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as with `fork`, neither memory nor descriptors are shared, and without a stack argument the copy continues on a
    // copy of this stack. The C library's fork handlers do not run; they serve other threads, and there are none.
    match unsafe { libc::syscall(libc::SYS_clone, flags, NOTHING, NOTHING, NOTHING, NOTHING) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkSide::Worker),
        copy => i32::try_from(copy).map(ForkSide::Zygote).map_err(io::Error::other),
    }
}

/// Returns an error when this process has more than one thread.
pub(crate) fn refuse_threads() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        threads => Err(io::Error::other(format!("cannot fork a process with {threads} threads"))),
    }
}

/// Replaces standard input by `file`.
///
/// # Errors
///
/// Returns the error of the system call.
pub fn replace_stdin(file: OwnedFd) -> io::Result<()> {
    // SAFETY: an open descriptor is duplicated onto stdin, which no Rust object owns.
    let replaced = unsafe { libc::dup2(file.as_raw_fd(), libc::STDIN_FILENO) };
    if replaced == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every file descriptor but stdin.
///
/// For a worker that has just started and only uses its stdin. Closes descriptors that the program which started the worker
/// leaked (a terminal, a log, a socket of another component). The caller must not have opened anything through Rust yet, and must
/// not print afterwards.
///
/// # Errors
///
/// Fails on kernels that neither close a range (before 5.9) nor have a `/proc`.
pub fn close_inherited_files() -> io::Result<()> {
    const FIRST: libc::c_uint = 1;
    // SAFETY: the arguments are plain numbers; the caller is a process that has just begun, so no Rust object owns a descriptor
    // beyond stdin.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    // Collected first, because the list contains the directory's own descriptor, which is closed afterwards.
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 0)
        .collect();
    for descriptor in open {
        // SAFETY: as above; closing a closed descriptor is an error without an effect.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Maps sealed memory until this process ends, and closes its descriptor. All processes that map it share its pages.
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for a descriptor that is not a memory file, or whose content can still be
/// changed or truncated; otherwise the error of the system call.
pub fn map_sealed_memory(memory: OwnedFd) -> io::Result<&'static [u8]> {
    const FOR_GOOD: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: an open descriptor and a command without an argument.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 || seals & FOR_GOOD != FOR_GOOD {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory file is not sealed against changes"));
    }
    let memory = std::fs::File::from(memory);
    let length = usize::try_from(memory.metadata()?.len()).unwrap_or(usize::MAX);
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: a new mapping of an open descriptor, at an address of the kernel's choice.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, memory.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `length` bytes are mapped and never unmapped; the seals prevent changes and truncation.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::exit, reason = "a copy that should not be there must not go on with the tests")]
    fn a_process_with_threads_is_not_copied() {
        // A second thread that lives until the end of the test.
        let (stay, stays) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stays.recv());
        match fork_for_parent() {
            Ok(ForkSide::Worker) => std::process::exit(1),
            Ok(ForkSide::Zygote(copy)) => panic!("{copy} is a copy of one thread of several"),
            Err(error) => assert!(error.to_string().contains("threads"), "{error}"),
        }
        drop(stay);
        assert!(other.join().expect("it ends").is_err());
    }
}
