//! The streams of the current reply: text, thinking, and the arguments of its calls.

use super::calls::CallStream;
use super::compiled::CompiledRules;
use super::streams::MessageStream;
use crate::rule::StreamKind;

/// Maximum number of calls whose arguments stream concurrently.
const MAX_CALLS: usize = 64;
/// Maximum number of calls whose buffers are kept for later ones.
const MAX_SPARE: usize = 2;

/// All streams of a reply, and the session's counts of bytes.
#[derive(Debug, Default)]
pub(crate) struct ReplyStreams {
    pub(crate) text: MessageStream,
    pub(crate) thinking: MessageStream,
    pub(crate) calls: Vec<CallStream>,
    spare: Vec<CallStream>,
    /// Whether a message is being read.
    pub(crate) is_reading: bool,
    /// Number of bytes of the deltas that were read.
    pub(crate) bytes: u64,
    /// Number of bytes that discarded automata read.
    discarded: u64,
}

impl ReplyStreams {
    /// Switches to other rules.
    pub(crate) fn take_rules(&mut self, rules: &CompiledRules, is_traced: bool) {
        self.discarded = self.scanned();
        self.text = MessageStream::new(&rules.text, is_traced);
        self.thinking = MessageStream::new(&rules.thinking, is_traced);
        self.calls.clear();
        self.spare.clear();
    }

    /// Begins a message.
    pub(crate) fn restart(&mut self) {
        self.text.restart();
        self.thinking.restart();
        for call in std::mem::take(&mut self.calls) {
            self.keep(call);
        }
    }

    /// Returns the stream of text or of thinking.
    pub(crate) fn message(&mut self, stream: StreamKind) -> &mut MessageStream {
        match stream {
            StreamKind::Thinking => &mut self.thinking,
            StreamKind::Text | StreamKind::Tool => &mut self.text,
        }
    }

    /// Returns the index of a streaming call.
    pub(crate) fn find_call(&self, id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.id == id)
    }

    /// Returns the index of a call. An unknown id begins a new call.
    pub(crate) fn call(&mut self, id: &str, tool: &str, rules: &CompiledRules, is_traced: bool) -> usize {
        self.is_reading = true;
        self.calls.iter().rposition(|call| call.id == id).unwrap_or_else(|| {
            let mut call = self.spare.pop().unwrap_or_else(|| CallStream::new(&rules.tool, is_traced));
            call.restart(id, tool);
            if self.calls.len() == MAX_CALLS {
                let oldest = self.calls.remove(0);
                self.discarded += oldest.scanned();
            }
            self.calls.push(call);
            self.calls.len() - 1
        })
    }

    /// Removes a call that has ended.
    pub(crate) fn end_call(&mut self, at: usize) {
        let call = self.calls.remove(at);
        self.keep(call);
    }

    /// Keeps the buffers of a call for a later one.
    fn keep(&mut self, call: CallStream) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(call);
        } else {
            self.discarded += call.scanned();
        }
    }

    /// Returns the number of bytes that automata read, in all messages.
    pub(crate) fn scanned(&self) -> u64 {
        let calls = self.calls.iter().chain(&self.spare).map(CallStream::scanned).sum::<u64>();
        self.discarded + self.text.scanned() + self.thinking.scanned() + calls
    }
}
