//! Descriptors that a worker process was born with.

use std::io;

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
