//! The streamed text of a tape, and the verdicts on it.
//!
//! Each extension that listens receives every delta, so a tape contains a reply once for each of them. The text is assembled from
//! the realm that is furthest ahead; a realm that was stopped, or that stopped the reply, stays behind from then on.

use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{InjectionRole, Now, StreamDelta, StreamSource};
use pijs_tape::RealmNumber;
use serde::Serialize;
use std::collections::BTreeMap;

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chunk {
    /// Microseconds since the start of the session.
    pub at: u64,
    /// Tick in which the piece was received.
    pub tick: u64,
    /// Number of the attempt in the session; a retry is a new attempt.
    pub attempt: u32,
    /// `text`, `thinking` or `tool`.
    pub source: &'static str,
    /// Distinguishes parallel streams of one source.
    pub stream: u32,
    /// Name of the tool, if the text is part of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The new text.
    pub text: String,
}

/// An extension's verdict that stopped a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Microseconds since the start of the session.
    pub at: u64,
    /// Tick in which the extension answered.
    pub tick: u64,
    /// Number of the extension's lane.
    pub lane: u32,
    /// Attempt that was discarded.
    pub attempt: u32,
    /// Text that was added to the conversation for the retry; absent if the run ended instead.
    pub retry: Option<String>,
    /// Role of the added text.
    pub role: Option<&'static str>,
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Number of bytes of each stream that are in `chunks`.
    taken: BTreeMap<(u32, StreamSource, u32), usize>,
    /// Number of bytes of each stream that each realm received.
    received: BTreeMap<(RealmNumber, u32, StreamSource, u32), usize>,
    /// Last attempt that each realm received.
    attempts: BTreeMap<RealmNumber, u32>,
}

impl Stream {
    pub(crate) fn delta(&mut self, realm: RealmNumber, delta: &StreamDelta, now: Now, tick: u64) {
        let StreamDelta { attempt, source, stream, ref chunk, .. } = *delta;
        self.attempts.insert(realm, attempt);
        let before = self.received.entry((realm, attempt, source, stream)).or_default();
        let after = *before + chunk.len();
        let taken = self.taken.entry((attempt, source, stream)).or_default();
        let new = chunk.get(taken.saturating_sub(*before)..).unwrap_or_default();
        *before = after;
        if new.is_empty() {
            return;
        }
        *taken = after;
        let (tool, text) = (delta.tool_name.clone(), new.to_owned());
        self.chunks.push(Chunk { at: now.elapsed_us, tick, attempt, source: source.as_str(), stream, tool, text });
    }

    pub(crate) fn answered(&mut self, realm: RealmNumber, answer: &StreamAnswer, now: Now, tick: u64) {
        let StreamAnswer::Abort(verdict) = answer else { return };
        let retry = verdict.retry.as_ref();
        self.verdicts.push(Verdict {
            at: now.elapsed_us,
            tick,
            lane: realm.0,
            attempt: self.attempts.get(&realm).copied().unwrap_or_default(),
            retry: retry.map(|injection| injection.content.clone()),
            role: retry.map(|injection| match injection.role {
                InjectionRole::System => "system",
                InjectionRole::User => "user",
            }),
        });
    }
}
