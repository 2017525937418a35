//! The event stream of one reply, with lookahead.
//!
//! Passing a delta to a realm in another process wakes that process, so deltas that have already arrived are passed together.
//! [`ReplyStream::follow`] looks ahead without waiting; [`ReplyStream::next`] returns the events in order regardless of the
//! lookahead.

use crate::extensions::Extensions;
use futures_util::{FutureExt, StreamExt};
use pijs_llm::argument_paths::ArgumentPaths;
use pijs_llm::provider::{ErrorKind, ProviderError, ProviderEvent, ProviderStream};
use pijs_protocol::{StreamDelta, StreamSource};
use std::collections::VecDeque;
use tokio_util::sync::CancellationToken;

/// Bytes of text that are passed together, which bounds the memory of the lookahead.
const MAX_BYTES: usize = 64 << 10;

type StreamItem = Result<ProviderEvent, ProviderError>;

/// The event stream of one reply. Dropping it ends the deltas of the attempt for extensions.
pub(crate) struct ReplyStream<'a> {
    stream: ProviderStream,
    cancel: CancellationToken,
    extensions: &'a dyn Extensions,
    /// Events that have arrived and have not been returned yet. `None` is the end of the stream.
    ready: VecDeque<Option<StreamItem>>,
    /// Number of the next deltas in `ready` that have already passed their verdict.
    passed: usize,
}

impl<'a> ReplyStream<'a> {
    pub(crate) fn new(stream: ProviderStream, cancel: CancellationToken, extensions: &'a dyn Extensions) -> Self {
        Self { stream, cancel, extensions, ready: VecDeque::new(), passed: 0 }
    }

    /// Returns the next event, waiting for it if necessary.
    pub(crate) async fn next(&mut self) -> Option<StreamItem> {
        if !self.ready.is_empty() && self.cancel.is_cancelled() {
            match self.stream.next().now_or_never() {
                // The request was cancelled, so events that arrived before are dropped.
                Some(Some(Err(error))) if error.kind() == ErrorKind::Cancelled => {
                    self.ready.clear();
                    self.passed = 0;
                    return Some(Err(error));
                }
                Some(event) => self.ready.push_back(event),
                None => {}
            }
        }
        match self.ready.pop_front() {
            Some(event) => event,
            None => self.stream.next().await,
        }
    }

    /// Records that the next `count` deltas have passed.
    pub(crate) fn pass(&mut self, count: usize) {
        self.passed = count;
    }

    /// Returns whether the current delta has already passed.
    pub(crate) fn has_passed(&mut self) -> bool {
        let has_passed = self.passed > 0;
        self.passed -= usize::from(has_passed);
        has_passed
    }

    /// Appends at most `most` deltas that have arrived and continue the same text or call. `paths` are those of the call.
    pub(crate) fn follow(&mut self, deltas: &mut Vec<StreamDelta>, most: usize, mut paths: ArgumentPaths) {
        let (source, stream) = (deltas[0].source, deltas[0].stream);
        let mut bytes = deltas[0].chunk.len();
        let mut at = 0;
        while deltas.len() <= most && bytes < MAX_BYTES {
            if at == self.ready.len() {
                let Some(event) = self.stream.next().now_or_never() else { return };
                self.ready.push_back(event);
            }
            let Some(Ok(event)) = &self.ready[at] else { return };
            at += 1;
            let chunk = match event {
                ProviderEvent::Text(chunk) if source == StreamSource::Text => chunk,
                ProviderEvent::Thinking(chunk) if source == StreamSource::Thinking => chunk,
                ProviderEvent::ToolCall { index, id: None, name: None, arguments }
                    if source == StreamSource::Tool && *index == stream =>
                {
                    paths.push(arguments);
                    arguments
                }
                _ => return,
            };
            // An empty delta needs no verdict.
            if !chunk.is_empty() {
                bytes += chunk.len();
                let file_paths = paths.found().to_vec();
                deltas.push(StreamDelta {
                    chunk: chunk.clone(),
                    file_paths,
                    tool_name: deltas[0].tool_name.clone(),
                    ..deltas[0]
                });
            }
        }
    }
}

impl Drop for ReplyStream<'_> {
    fn drop(&mut self) {
        self.extensions.stream_over();
    }
}
