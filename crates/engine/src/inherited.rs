//! Descriptors that a worker process was born with: a socket as stdin, and memory as stdout.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Closes every file descriptor but stdin and stdout.
///
/// For a process that has just begun and will only ever use these two: a worker. Descriptors that the program which
/// started us leaked (a terminal, a log, somebody's socket) end here. Nothing that is opened through Rust may be open
/// yet, and nothing may be printed afterwards.
///
/// # Errors
///
/// What the system says, on kernels that neither close a range (before 5.9) nor have a `/proc`.
pub fn close_inherited_files() -> io::Result<()> {
    const FIRST: libc::c_uint = 2;
    // SAFETY: plain numbers go in; the caller is a process that has just begun, so no descriptor beyond stdout has an
    // owner in this program that could use or close it later.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    // Collected first: the folder's own descriptor is among them, and closed by then.
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 1)
        .collect();
    for descriptor in open {
        // SAFETY: as above; one that is closed already is an error that changes nothing.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Maps the memory that this process was born with as stdout, and closes stdout. The pages are those of whoever made
/// the memory: many processes share them.
///
/// For a worker, once, before it is sealed; nothing may print afterwards.
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) when stdout is no memory, or memory that somebody can still change or
/// shorten; else what the system says. Stdout is closed all the same.
pub fn map_inherited_memory() -> io::Result<&'static [u8]> {
    const FOR_GOOD: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: the caller is a process that uses its stdout for nothing else, so nothing else owns the descriptor.
    let memory = unsafe { OwnedFd::from_raw_fd(libc::STDOUT_FILENO) };
    // SAFETY: an open descriptor and a command without an argument.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 || seals & FOR_GOOD != FOR_GOOD {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "stdout is no memory that stays as it is"));
    }
    let length = usize::try_from(std::fs::File::from(memory.try_clone()?).metadata()?.len()).unwrap_or(usize::MAX);
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
