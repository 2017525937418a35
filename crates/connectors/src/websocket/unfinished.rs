//! What has come of messages that are not complete yet. It is in memory, and the other side decides how much there is.

use crate::net::Reader;
use pijs_protocol::guard;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// What all connections of one extension may have of unfinished messages: four of the largest.
const MOST: usize = 4 * super::MESSAGE;

/// Bytes of the head of a frame that says how long a ping is.
const HEAD: usize = 2;

/// What one connection has of a message that is not complete.
pub(super) struct Unfinished {
    /// Of all connections of the extension.
    all: Arc<AtomicUsize>,
    own: AtomicUsize,
}

impl Unfinished {
    pub(super) fn new(all: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self { all, own: AtomicUsize::new(0) })
    }

    /// Counts what has come; whether that is still little enough.
    fn add(&self, bytes: usize) -> bool {
        self.own.fetch_add(bytes, Ordering::AcqRel);
        self.all.fetch_add(bytes, Ordering::AcqRel) + bytes <= MOST || !guard!(WebsocketUnfinished)
    }

    /// A message is complete. What has come of the next one by then is one read at most, and not counted.
    pub(super) fn complete(&self) {
        let own = self.own.swap(0, Ordering::AcqRel);
        self.all.fetch_sub(own, Ordering::AcqRel);
    }

    /// A ping, which may come in the middle of a message, and belongs to none.
    pub(super) fn ping(&self, payload: usize) {
        let mut gone = 0;
        let _ = self.own.fetch_update(Ordering::AcqRel, Ordering::Acquire, |own| {
            gone = own.min(payload + HEAD);
            Some(own - gone)
        });
        self.all.fetch_sub(gone, Ordering::AcqRel);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.complete();
    }
}

/// The reading side of a connection, counted.
pub(super) struct Counted {
    pub(super) inner: Reader,
    pub(super) unfinished: Arc<Unfinished>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        let read = into.filled().len() - before;
        Poll::Ready(match self.unfinished.add(read) {
            true => Ok(()),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        })
    }
}
