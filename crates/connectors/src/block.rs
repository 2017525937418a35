//! Waiting for asynchronous work on behalf of a synchronous call.

use pijs_protocol::{ErrorCode, HostcallError};

/// Runs `work` to its end on a thread of its own: the calling thread may be inside a runtime,
/// which would not let it wait.
pub(crate) fn on<T: Send>(work: impl Future<Output = Result<T, HostcallError>> + Send) -> Result<T, HostcallError> {
    let broken = |what: String| HostcallError::new(ErrorCode::Internal, what).with("reason", "invariant");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(work),
                Err(error) => Err(broken(format!("cannot wait: {error}"))),
            }
        });
        thread.join().unwrap_or_else(|_| Err(broken("the connector failed; this is a bug of the host".to_owned())))
    })
}
