//! The streamed text of a tape, and the verdicts on it.
//!
//! Each extension that listens receives every delta, so a tape holds a reply once for each of them. The text is put
//! together from whichever realm is ahead; a realm that was ended, or stopped the reply, is behind from then on.

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
    /// The tick that received it.
    pub tick: u64,
    /// Attempt of the session: a retry is a new one.
    pub attempt: u32,
    /// `text`, `thinking` or `tool`.
    pub source: &'static str,
    /// Distinguishes parallel streams of one source.
    pub stream: u32,
    /// Name of the tool whose arguments these are.
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
    /// The turn that answered.
    pub tick: u64,
    /// Number of the extension's lane.
    pub lane: u32,
    /// The attempt that was discarded.
    pub attempt: u32,
    /// Text that was put into the conversation for the retry; absent when the run ended instead.
    pub retry: Option<String>,
    /// Role of that text.
    pub role: Option<&'static str>,
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Number of bytes of each stream that are in `chunks`.
    taken: BTreeMap<(u32, StreamSource, u32), usize>,
    /// Bytes of each stream that a realm received.
    received: BTreeMap<(RealmNumber, u32, StreamSource, u32), usize>,
    /// Last attempt that a realm received.
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
