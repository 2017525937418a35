//! Waiting on threads: for asynchronous work on behalf of a synchronous call, and for work that blocks.
//!
//! A thread that the system does not start is the caller's `EAGAIN`: it may try again later.

use pijs_protocol::{ErrorCode, HostcallError};
use std::io;

/// Runs `work` to its end on a thread of its own: the calling thread may be inside a runtime,
/// which would not let it wait.
pub(crate) fn on<T: Send>(work: impl Future<Output = Result<T, HostcallError>> + Send) -> Result<T, HostcallError> {
    let broken = |what: String| HostcallError::new(ErrorCode::Internal, what).with("reason", "invariant");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(work),
                Err(error) => Err(broken(format!("cannot wait: {error}"))),
            }
        });
        let thread = thread.map_err(|error| refused(&error))?;
        thread.join().unwrap_or_else(|_| Err(broken("the connector panicked; this is a bug in the host".to_owned())))
    })
}

/// Runs what blocks on a thread of its own. The runtime's helpers are not asked: it panics when it can start none.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (tell, told) = tokio::sync::oneshot::channel();
    // Who asked may be gone by then.
    std::thread::Builder::new().name("pijs-blocking".to_owned()).spawn(move || drop(tell.send(work())))?;
    told.await.map_err(|_| io::Error::other("the connector panicked; this is a bug in the host"))
}

/// A thread that could not be had is the system's refusal, anything else our bug.
pub(crate) fn refused(error: &io::Error) -> HostcallError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            HostcallError::io("EAGAIN", "clone", "EAGAIN: resource temporarily unavailable, clone")
        }
        _ => HostcallError::new(ErrorCode::Internal, error.to_string()).with("reason", "invariant"),
    }
}
