//! Asynchronous work: boxed futures, and the signal that cancels them.

use std::pin::Pin;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Token that tells a running call that its result is no longer needed.
pub use tokio_util::sync::CancellationToken as CancelToken;
