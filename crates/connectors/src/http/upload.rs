//! Streams request bodies that an extension sends in pieces.

use bytes::Bytes;
use futures_util::StreamExt as _;
use pijs_hostcall::connector::cancelled;
use pijs_hostcall::{Output, Request};
use pijs_protocol::{ExtensionId, HostcallError};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Maximum number of uploads in progress of one extension.
const MAX_UPLOADS: usize = 1024;

type Key = (ExtensionId, String);

/// The uploads of all extensions, by the caller's id.
#[derive(Default)]
pub(super) struct Uploads {
    in_progress: Arc<Mutex<BTreeMap<Key, mpsc::Sender<Bytes>>>>,
}

/// The receiving end of an upload. Dropping it cancels the upload.
pub(super) struct Upload {
    in_progress: Arc<Mutex<BTreeMap<Key, mpsc::Sender<Bytes>>>>,
    key: Key,
    pieces: Option<mpsc::Receiver<Bytes>>,
}

impl Drop for Upload {
    fn drop(&mut self) {
        lock(&self.in_progress).remove(&self.key);
    }
}

fn lock(in_progress: &Mutex<BTreeMap<Key, mpsc::Sender<Bytes>>>) -> MutexGuard<'_, BTreeMap<Key, mpsc::Sender<Bytes>>> {
    in_progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upload {
    /// Returns the body; the second call returns `None`.
    pub(super) fn body(&mut self) -> Option<reqwest::Body> {
        let mut pieces = self.pieces.take()?;
        let stream = futures_util::stream::poll_fn(move |cx| pieces.poll_recv(cx)).map(Ok::<_, Infallible>);
        Some(reqwest::Body::wrap_stream(stream))
    }
}

impl Uploads {
    /// Begins an upload; fails if the id is in use.
    pub(super) fn begin(&self, extension: &ExtensionId, id: &str) -> Result<Upload, HostcallError> {
        let key = (extension.clone(), id.to_owned());
        let mut in_progress = lock(&self.in_progress);
        if in_progress.contains_key(&key) {
            return Err(HostcallError::invalid(
                "duplicate_id",
                format!("http: the upload {id:?} is already in progress"),
            ));
        }
        if in_progress.keys().filter(|(of, _)| of == extension).count() >= MAX_UPLOADS {
            return Err(HostcallError::denied("quota", format!("http: {MAX_UPLOADS} uploads are in progress"))
                .with("quota", "uploads")
                .with("limit", MAX_UPLOADS)
                .retryable());
        }
        // One piece is queued while another is sent, so a caller that awaits each `send` never has more than two pieces in
        // memory.
        let (send, pieces) = mpsc::channel(1);
        in_progress.insert(key.clone(), send);
        Ok(Upload { in_progress: Arc::clone(&self.in_progress), key, pieces: Some(pieces) })
    }

    /// Performs `send`: completes when the piece is queued for the connection.
    pub(super) async fn send(&self, request: &Request, id: &str, data: &[u8]) -> Result<Output, HostcallError> {
        let data = Bytes::copy_from_slice(data);
        let key = (request.caller.extension().clone(), id.to_owned());
        let sender = lock(&self.in_progress).get(&key).cloned();
        let over =
            || HostcallError::io("EPIPE", "write", format!("EPIPE: the request of the upload {id:?} is over, write"));
        let sender = sender.ok_or_else(over)?;
        tokio::select! {
            biased;
            () = request.cancel.cancelled() => Err(cancelled("http")),
            sent = sender.send(data) => sent.map(|()| Output::empty()).map_err(|_| over()),
        }
    }

    /// Performs `finish`: ends the body.
    pub(super) fn finish(&self, request: &Request, id: &str) -> Output {
        lock(&self.in_progress).remove(&(request.caller.extension().clone(), id.to_owned()));
        Output::empty()
    }

    /// Removes the uploads of an extension that has ended.
    pub(super) fn end(&self, extension: &ExtensionId) {
        lock(&self.in_progress).retain(|(of, _), _| of != extension);
    }
}
