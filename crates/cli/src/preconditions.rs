//! Checks the system's resources before anything starts. Without randomness, the standard library would panic at the first hash
//! table, and without threads, the runtime would panic or hang. These checks report an error with the reason instead.

use pijs_runtime::{Result, UserError};
use std::sync::mpsc;
use std::thread;

/// Minimum number of concurrent threads of a session: two of the runtime, one of its helpers, the ledger's, the compiler's, and
/// one in reserve.
const THREADS: usize = 6;

/// Raises the limit on open files of this process and its children to the user's maximum, as Node does: file handles of
/// extensions must not exhaust it.
pub(crate) fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            limit.current = limit.maximum;
            // Some systems allow less than they report; the current limit is sufficient as well.
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
}

/// Fails if the system lacks a required resource.
pub(crate) fn check() -> Result<()> {
    pijs_durable::entropy(&mut [0; 16]).map_err(|error| {
        UserError::failed(format!("the system provides no randomness: {error}"))
            .help("make /dev/urandom or the system call getrandom available")
    })?;
    let (release, wait) = mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let mut threads = Vec::new();
    let mut refused = None;
    for _ in 0..THREADS {
        let wait = std::sync::Arc::clone(&wait);
        // Each thread waits until all have started and the sender is dropped.
        match thread::Builder::new().spawn(move || drop(wait.lock().map(|wait| wait.recv()))) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    drop(release);
    for thread in threads {
        // The thread cannot panic.
        let _ = thread.join();
    }
    match refused {
        None => Ok(()),
        Some(error) => Err(UserError::failed(format!("the system cannot start more threads: {error}"))
            .help("raise the limit of processes (ulimit -u), or stop some processes")),
    }
}
