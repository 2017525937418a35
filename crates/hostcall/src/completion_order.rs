//! Delivers the results of an extension's file-system calls in the order in which the calls began.
//!
//! The operations run concurrently on threads, which finish in an order that depends on what else the machine does.
//! Node leaves that order open, although it hardly ever varies there; here it is fixed, so that a session takes the same course on
//! a busy machine. A call that takes as long as its data is large, and a watcher, delays nobody: it stays outside of the
//! order. [`Dispatcher`](crate::Dispatcher) decides which calls take part.
//!
//! [`CompletionOrder::enter`] chains each call to the one before it. [`InOrder`] withholds an outcome until that one has
//! ended; a cancelled call ends at once and releases its successor.

use crate::connector::Output;
use crate::flight::Contained;
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

/// Resolves once the call before has ended.
type Predecessor = oneshot::Receiver<Ended>;

/// Held by a call until its result has been delivered; dropping it releases the next call.
pub(crate) type Release = oneshot::Sender<Ended>;

/// Never sent: the end is the drop of the sender.
#[derive(Debug)]
pub(crate) enum Ended {}

impl CompletionOrder {
    /// Appends a call to those of its extension.
    pub(crate) fn enter(&self, extension: &ExtensionId) -> (Option<Predecessor>, Release) {
        let (release, ended) = oneshot::channel();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        (latest.insert(extension.clone(), ended), release)
    }

    /// Forgets an extension whose realm is gone.
    pub(crate) fn forget(&self, extension: &ExtensionId) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }
}

/// A connector at work whose outcome waits for that of the call before.
pub(crate) struct InOrder {
    work: Contained,
    predecessor: Option<Predecessor>,
    outcome: Option<Result<Output, HostcallError>>,
}

impl InOrder {
    pub(crate) fn new(work: Contained, predecessor: Option<Predecessor>) -> Self {
        Self { work, predecessor, outcome: None }
    }

    /// Polls the connector, and keeps its outcome.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>) {
        if self.outcome.is_none()
            && let Poll::Ready(outcome) = Pin::new(&mut self.work).poll(cx)
        {
            self.outcome = Some(outcome);
        }
    }
}

impl Future for InOrder {
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
        Poll::Ready(self.outcome.take().expect("polled after its end"))
    }
}
