//! Copies of a process: how one is made, which descriptors and memory it begins with, and how its pages stay shared.
//!
//! A worker is a copy of a zygote, a process whose engine has evaluated the runtime. This file forks it, replaces its stdin, closes
//! inherited descriptors and maps sealed memory. Before the zygote forks, [`heap_padding`] fills the gaps of its heap and
//! [`cow_heap`] lays the heap on a file; a worker at rest returns the pages that it has not changed.

pub(crate) mod cow_heap;
pub(crate) mod heap_padding;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Which of the two processes this is, after [`fork_for_parent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The one that called, with the number of the copy.
    Caller(i32),
    /// The copy.
    Copy,
}

/// Makes a copy of this process, whose parent is this process's own parent: that one waits for both, and whoever asked
/// to die with it does.
///
/// # Errors
///
/// When this process has other threads, of which a copy would have the memory and not the course; when the system has
/// no room for a process; what it says when its `/proc` cannot be read.
pub fn fork_for_parent() -> io::Result<Forked> {
    refuse_threads()?;
    const NOTHING: libc::c_long = 0;
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as `fork` does it: neither memory nor descriptors are shared, and without a stack of its own the copy goes
    // on with a copy of this one. The C library's handlers around a fork are left out, which care for other threads, and
    // there are none.
    match unsafe { libc::syscall(libc::SYS_clone, flags, NOTHING, NOTHING, NOTHING, NOTHING) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Copy),
        copy => i32::try_from(copy).map(Forked::Caller).map_err(io::Error::other),
    }
}

/// An error, when this process has other threads than the one that asks.
pub(crate) fn refuse_threads() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        threads => Err(io::Error::other(format!("{threads} threads; a copy would have one of them"))),
    }
}

/// Makes `file` what stdin was.
///
/// # Errors
///
/// What the system says.
pub fn replace_stdin(file: OwnedFd) -> io::Result<()> {
    // SAFETY: an open descriptor, and one that belongs to nobody: the standard ones are the process's.
    let replaced = unsafe { libc::dup2(file.as_raw_fd(), libc::STDIN_FILENO) };
    if replaced == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every file descriptor but stdin.
///
/// For a process that has just begun and will only ever use its stdin: a worker. Descriptors that the program which
/// started us leaked (a terminal, a log, somebody's socket) end here. Nothing that is opened through Rust may be open
/// yet, and nothing may be printed afterwards.
///
/// # Errors
///
/// What the system says, on kernels that neither close a range (before 5.9) nor have a `/proc`.
pub fn close_inherited_files() -> io::Result<()> {
    const FIRST: libc::c_uint = 1;
    // SAFETY: plain numbers go in; the caller is a process that has just begun, so no descriptor beyond stdin has an
    // owner in this program that could use or close it later.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    // Collected first: the folder's own descriptor is among them, and closed by then.
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 0)
        .collect();
    for descriptor in open {
        // SAFETY: as above; one that is closed already is an error that changes nothing.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Maps memory for as long as this process lives, and closes its descriptor. The pages are those of whoever made it: many
/// processes share them.
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for what is no memory, or memory that somebody can still change or
/// shorten; else what the system says.
pub fn map_sealed_memory(memory: OwnedFd) -> io::Result<&'static [u8]> {
    const FOR_GOOD: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: an open descriptor and a command without an argument.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 || seals & FOR_GOOD != FOR_GOOD {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no memory that stays as it is"));
    }
    let memory = std::fs::File::from(memory);
    let length = usize::try_from(memory.metadata()?.len()).unwrap_or(usize::MAX);
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: a new mapping at an address of the system's choice, of an open descriptor.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, memory.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `length` bytes are mapped, are never unmapped, and by the seals nobody can change or shorten them.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::exit, reason = "a copy that should not be there must not go on with the tests")]
    fn a_process_with_threads_is_not_copied() {
        // The test runner has some, and here is one that stays until the end.
        let (stay, stays) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stays.recv());
        match fork_for_parent() {
            Ok(Forked::Copy) => std::process::exit(1),
            Ok(Forked::Caller(copy)) => panic!("{copy} is a copy of one thread of several"),
            Err(error) => assert!(error.to_string().contains("threads"), "{error}"),
        }
        drop(stay);
        assert!(other.join().expect("it ends").is_err());
    }
}
