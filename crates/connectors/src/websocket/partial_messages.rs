//! Limits the received bytes of incomplete messages, which are kept in memory and whose size the other side chooses.

use crate::net::Reader;
use pijs_protocol::guard;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Maximum number of bytes of incomplete messages of all connections of one extension: four messages of the maximum size.
const MAX_PARTIAL_BYTES: usize = 4 * super::MESSAGE_BYTES;

/// Bytes of a ping's frame header.
const HEAD: usize = 2;

/// Counts the incomplete message of one connection.
pub(super) struct IncompleteMessage {
    /// Bytes of incomplete messages of all connections of the extension.
    all: Arc<AtomicUsize>,
    own: AtomicUsize,
}

impl IncompleteMessage {
    pub(super) fn new(all: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self { all, own: AtomicUsize::new(0) })
    }

    /// Counts received bytes; returns whether they are within the limit.
    fn add(&self, bytes: usize) -> bool {
        self.own.fetch_add(bytes, Ordering::AcqRel);
        self.all.fetch_add(bytes, Ordering::AcqRel) + bytes <= MAX_PARTIAL_BYTES || !guard!(WebsocketUnfinished)
    }

    /// Resets the count when a message is complete. Bytes of the next message in the same read are not counted; they are at most
    /// one read.
    pub(super) fn complete(&self) {
        let own = self.own.swap(0, Ordering::AcqRel);
        self.all.fetch_sub(own, Ordering::AcqRel);
    }

    /// Subtracts a ping, which may arrive in the middle of a message and is not part of it.
    pub(super) fn ping(&self, payload: usize) {
        let mut gone = 0;
        let _ = self.own.fetch_update(Ordering::AcqRel, Ordering::Acquire, |own| {
            gone = own.min(payload + HEAD);
            Some(own - gone)
        });
        self.all.fetch_sub(gone, Ordering::AcqRel);
    }
}

impl Drop for IncompleteMessage {
    fn drop(&mut self) {
        self.complete();
    }
}

/// The reading side of a connection; counts the bytes of incomplete messages.
pub(super) struct CountedReader {
    pub(super) inner: Reader,
    pub(super) partial: Arc<IncompleteMessage>,
}

impl AsyncRead for CountedReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        let read = into.filled().len() - before;
        Poll::Ready(match self.partial.add(read) {
            true => Ok(()),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        })
    }
}
