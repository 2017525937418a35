//! Delivers the results of an extension's file-system calls in the order in which the calls began.
//!
//! The operations run concurrently on threads and finish in an order that depends on the load of the machine. Node leaves that
//! order open, although it rarely varies there; here it is fixed, so that a session is reproducible on a busy machine. Calls
//! whose duration depends on the size of their data, and watchers, are exempt, so that they delay no other call.
//! [`Dispatcher`](crate::Dispatcher) selects the calls.
//!
//! [`CompletionOrder::enter`] chains each call to the one before it. [`InOrder`] withholds an outcome until the previous call has
//! ended; a cancelled call ends at once and releases its successor.

use crate::output::Output;
use pijs_protocol::{ExtensionId, HostcallError};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// The latest ordered call of each extension.
#[derive(Debug, Default)]
pub(crate) struct CompletionOrder {
    latest: Mutex<BTreeMap<ExtensionId, Predecessor>>,
}

/// Resolves when the previous call has ended.
type Predecessor = oneshot::Receiver<NeverSent>;

/// Held by a call until its result is delivered; dropping it releases the next call.
pub(crate) type Release = oneshot::Sender<NeverSent>;

/// Type of a message that is never sent: dropping the sender signals the end.
#[derive(Debug)]
pub(crate) enum NeverSent {}

impl CompletionOrder {
    /// Appends a call to those of its extension.
    pub(crate) fn enter(&self, extension: &ExtensionId) -> (Option<Predecessor>, Release) {
        let (release, ended) = oneshot::channel();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        (latest.insert(extension.clone(), ended), release)
    }

    /// Removes an extension whose realm has ended.
    pub(crate) fn forget(&self, extension: &ExtensionId) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }
}

/// A running connector whose outcome is withheld until the previous call has ended.
pub(crate) struct InOrder<W> {
    work: W,
    predecessor: Option<Predecessor>,
    outcome: Option<Result<Output, HostcallError>>,
}

impl<W: Future<Output = Result<Output, HostcallError>> + Unpin> InOrder<W> {
    pub(crate) fn new(work: W, predecessor: Option<Predecessor>) -> Self {
        Self { work, predecessor, outcome: None }
    }

    /// Polls the connector, and stores its outcome.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>) {
        if self.outcome.is_none()
            && let Poll::Ready(outcome) = Pin::new(&mut self.work).poll(cx)
        {
            self.outcome = Some(outcome);
        }
    }
}

impl<W: Future<Output = Result<Output, HostcallError>> + Unpin> Future for InOrder<W> {
    type Output = Result<Output, HostcallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin(cx);
        if self.outcome.is_none() {
            return Poll::Pending;
        }
        if let Some(before) = &mut self.predecessor {
            // An error is the only outcome: the sender is dropped.
            let _ended = ready!(Pin::new(before).poll(cx));
            self.predecessor = None;
        }
        Poll::Ready(self.outcome.take().expect("the future was polled after it completed"))
    }
}
