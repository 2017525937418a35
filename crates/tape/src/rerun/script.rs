//! Answers the synchronous calls of a rerun turn from the tape.

use super::OwnRealm;
use crate::align::Output;
use crate::record::Event;
use pijs_protocol::{ErrorCode, HostCall, HostResult, HostcallError, Now, SyncReply};
use pijs_realm::SyncHost;
use serde_json::Value;

/// A recorded call and its answer.
struct Answered {
    output: Output,
    reply: Option<SyncReply>,
}

/// The synchronous calls of a turn.
pub(super) struct CallScript {
    recorded: Vec<Answered>,
    next: usize,
    pub(super) now: Now,
    /// Calls that were made and not written yet, in order.
    pub(super) made: Vec<(HostCall, SyncReply)>,
    /// Number of calls that were made.
    count: usize,
    /// Index of the new call, with the recorded and the new value.
    pub(super) changes: Vec<(Option<usize>, Value, Value)>,
}

impl CallScript {
    pub(super) fn new(turn: &[(u64, Event)]) -> Self {
        let mut recorded: Vec<Answered> = Vec::new();
        let mut now = Now::default();
        for (_, event) in turn {
            match event {
                Event::Call(call) => recorded.push(Answered { output: Output::of_call(call), reply: None }),
                Event::Reply(reply) => {
                    if let Some(answered) = recorded.last_mut() {
                        answered.reply = Some(reply.clone());
                    }
                }
                Event::Open(opening) => now = opening.now,
                Event::Delivery(delivery) => now = delivery.now,
                _ => {}
            }
        }
        Self { recorded, next: 0, now, made: Vec::new(), count: 0, changes: Vec::new() }
    }

    /// Skips the recorded calls before an index.
    fn skip_to(&mut self, index: usize, own: &mut OwnRealm) {
        for at in self.next..index {
            let Answered { output, reply } = &self.recorded[at];
            self.changes.push((None, output.value.clone(), Value::Null));
            own.names.lose(output);
            own.leave_out(reply.as_ref().and_then(|reply| reply.state.as_ref()));
        }
        self.next = index;
    }

    pub(super) fn skip_rest(&mut self, own: &mut OwnRealm) {
        self.skip_to(self.recorded.len(), own);
    }
}

/// Answers the synchronous calls of a turn from the tape.
pub(super) struct ScriptHost<'a> {
    pub(super) script: &'a mut CallScript,
    pub(super) own: &'a mut OwnRealm,
}

impl SyncHost for ScriptHost<'_> {
    fn call(&mut self, call: HostCall) -> SyncReply {
        let Self { script, own } = self;
        let (output, index) = (Output::of_call(&call), script.count);
        script.count += 1;
        let key = output.key();
        let rest = &script.recorded[script.next..];
        let equal = rest.iter().position(|recorded| recorded.output.value == output.value).map(|at| script.next + at);
        let is_known = own.answers.contains_key(&key);
        // A recorded call of the same kind can stand in, unless an answer to exactly this call is known.
        let stands_for =
            || rest.first().filter(|recorded| !is_known && recorded.output.is_of_kind(&output)).map(|_| script.next);
        let mut reply = None;
        if let Some(at) = equal.or_else(stands_for) {
            script.skip_to(at, own);
            script.next = at + 1;
            let Answered { output: recorded, reply: answer } = &script.recorded[at];
            own.names.pair(recorded, &output);
            if recorded.value != output.value {
                script.changes.push((Some(index), recorded.value.clone(), output.value.clone()));
            }
            reply.clone_from(answer);
        } else {
            script.changes.push((Some(index), Value::Null, output.value.clone()));
        }
        let mut reply = reply.unwrap_or_else(|| {
            let unknown = || {
                let error = HostcallError::new(ErrorCode::Internal, "the tape has no answer to this call");
                HostResult::failed(call.call_id.clone(), error)
            };
            let result = own.answers.get(&key).cloned().unwrap_or_else(unknown);
            SyncReply { result, now: script.now, state: None }
        });
        reply.result.call_id = call.call_id.clone();
        reply.state = own.with_state(reply.state.take());
        own.answers.insert(key, reply.result.clone());
        script.now = reply.now;
        script.made.push((call, reply.clone()));
        reply
    }
}
