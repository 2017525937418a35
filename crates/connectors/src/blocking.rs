//! Runs work on dedicated threads: asynchronous work for a synchronous call, and blocking work for an asynchronous call.
//!
//! If the system cannot start a thread, the caller gets `EAGAIN` and may retry.

use pijs_protocol::{ErrorCode, HostcallError};
use std::io;

/// Runs `work` to completion on a dedicated thread, because the calling thread may belong to a tokio runtime, on which `block_on`
/// panics.
pub(crate) fn block_on<T: Send>(
    work: impl Future<Output = Result<T, HostcallError>> + Send,
) -> Result<T, HostcallError> {
    let broken = |what: String| HostcallError::new(ErrorCode::Internal, what).with("reason", "invariant");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(work),
                Err(error) => Err(broken(format!("cannot wait: {error}"))),
            }
        });
        let thread = thread.map_err(|error| thread_error(&error))?;
        thread.join().unwrap_or_else(|_| Err(broken("the connector panicked; this is a bug in the host".to_owned())))
    })
}

/// Runs blocking `work` on a dedicated thread. `spawn_blocking` is not used, because it panics if the system refuses a thread.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The receiver may have been dropped.
    std::thread::Builder::new().name("pijs-blocking".to_owned()).spawn(move || drop(sender.send(work())))?;
    receiver.await.map_err(|_| io::Error::other("the connector panicked; this is a bug in the host"))
}

/// Converts a failure to start a thread: `EAGAIN` if resources are exhausted, otherwise `internal`.
pub(crate) fn thread_error(error: &io::Error) -> HostcallError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            HostcallError::io("EAGAIN", "clone", "EAGAIN: resource temporarily unavailable, clone")
        }
        _ => HostcallError::new(ErrorCode::Internal, error.to_string()).with("reason", "invariant"),
    }
}
