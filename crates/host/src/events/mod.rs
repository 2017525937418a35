//! Events, and how their handlers' answers are combined.
//!
//! An [`Event`] is a name and an object. The host selects and orders the handlers ([`Host::emit`](crate::Host::emit)); the
//! dialect defines what they may change and how their answers combine ([`pijs_node_compat::events`]). A `Round` passes one event
//! from handler to handler; it does not depend on realms.

mod answer;
mod needs;

use crate::outcome::Outcome;
use crate::profile::PiProfile;
use crate::signal::Signal;
use answer::CombinedAnswer;
use pijs_node_compat::events::{EventRule, OnThrow, rule_for};
use pijs_protocol::ExtensionId;
use pijs_protocol::message::{ErrorReport, EventResult};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One event.
///
/// ```
/// use pijs_host::Event;
/// let event = Event::new("session_start").with("reason", "startup");
/// assert_eq!(event.name(), "session_start");
/// assert_eq!(event.payload()["reason"], "startup");
/// ```
#[derive(Debug, Clone)]
pub struct Event {
    name: Cow<'static, str>,
    payload: Map<String, Value>,
    signals: Vec<(&'static str, Signal)>,
}

impl Event {
    /// Creates an event without members.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), payload: Map::new(), signals: Vec::new() }
    }

    /// Adds a member of the event object.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.payload.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a member if there is a value; handlers see `undefined` otherwise.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a member that handlers see as an `AbortSignal`.
    #[must_use]
    pub fn with_signal(mut self, key: &'static str, signal: &Signal) -> Self {
        self.signals.push((key, signal.clone()));
        self
    }

    /// Removes members that this version of pi does not have.
    pub(crate) fn trimmed(mut self, profile: PiProfile) -> Self {
        profile.trim(&self.name, &mut self.payload);
        self
    }

    /// Returns the name of the event.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the members of the event object, without signals.
    pub fn payload(&self) -> &Map<String, Value> {
        &self.payload
    }

    pub(crate) fn signals(&self) -> &[(&'static str, Signal)] {
        &self.signals
    }
}

/// Events before which 0.73.1 handles all queued events.
const BARRIERS: &[&str] = &["message_end", "tool_call"];

impl PiProfile {
    /// Returns whether queued events are handled before this one, as also happens at the end of the program.
    pub fn is_barrier(self, event: &Event) -> bool {
        let ends = event.name() == "session_shutdown" && event.payload().get("reason").is_some_and(|why| why == "quit");
        self == Self::Legacy && (ends || BARRIERS.contains(&event.name()))
    }
}

/// Returns whether handlers decide about an event: a handler that throws refuses.
pub(crate) fn is_decided(event: &str) -> bool {
    rule_for(event).on_throw != OnThrow::Report
}

/// Next step of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundStep {
    Next,
    Stop,
}

/// State of one event that passes through its handlers.
pub(crate) struct Round {
    rule: &'static EventRule,
    /// Payload for the next handler.
    payload: Map<String, Value>,
    answer: CombinedAnswer,
    stopped: bool,
    thrown: Option<ErrorReport>,
    authors: Vec<ExtensionId>,
}

/// Result of combining an answer into the event.
pub(crate) struct TakenAnswer {
    pub(crate) step: RoundStep,
    /// Problem of the answer, reported for the extension.
    pub(crate) complaint: Option<String>,
    /// Error of the handler, reported unless the rule passes it to the caller only.
    pub(crate) error: Option<ErrorReport>,
}

impl Round {
    pub(crate) fn new(event: &Event) -> Self {
        let rule = rule_for(event.name());
        Self {
            rule,
            payload: event.payload.clone(),
            answer: CombinedAnswer::new(),
            stopped: false,
            thrown: None,
            authors: Vec::new(),
        }
    }

    pub(crate) fn payload(&self) -> &Map<String, Value> {
        &self.payload
    }

    pub(crate) fn payload_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.payload
    }

    pub(crate) fn mutable(&self) -> &'static [&'static str] {
        self.rule.mutable
    }

    /// Returns the capabilities that an extension needs for this result of its handler.
    pub(crate) fn needs(&self, result: &EventResult) -> Vec<&'static str> {
        needs::of(self.rule, &self.payload, result)
    }

    /// Records the author of the next result, if the result adds text to the conversation.
    pub(crate) fn note_author(&mut self, extension: &ExtensionId, result: &EventResult) {
        if needs::speaks(self.rule, result) && !self.authors.contains(extension) {
            self.authors.push(extension.clone());
        }
    }

    /// Adds one handler's result. `path` names the extension in answers that contain their source.
    pub(crate) fn take(&mut self, result: EventResult, path: &str) -> TakenAnswer {
        for (key, value) in result.changed {
            if self.rule.mutable.contains(&key.as_str()) {
                self.payload.insert(key, value);
            }
        }
        if let Some(error) = result.error {
            return self.threw(error);
        }
        let (step, complaint) = match result.value {
            None => (RoundStep::Next, None),
            Some(value) => self.answer.take(self.rule, &mut self.payload, value, path),
        };
        self.stopped |= step == RoundStep::Stop;
        TakenAnswer { step, complaint, error: None }
    }

    fn threw(&mut self, error: ErrorReport) -> TakenAnswer {
        match self.rule.on_throw {
            OnThrow::Report => TakenAnswer { step: RoundStep::Next, complaint: None, error: Some(error) },
            OnThrow::Block => {
                self.answer.block(&error);
                self.stopped = true;
                self.thrown = Some(error);
                TakenAnswer { step: RoundStep::Stop, complaint: None, error: None }
            }
            OnThrow::Fail => {
                self.stopped = true;
                self.thrown = Some(error.clone());
                TakenAnswer { step: RoundStep::Stop, complaint: None, error: Some(error) }
            }
        }
    }

    pub(crate) fn finish(self) -> Outcome {
        Outcome {
            answer: self.answer.finish(self.rule, &self.payload),
            payload: self.payload,
            stopped: self.stopped,
            thrown: self.thrown,
            authors: self.authors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_queued_comes_before_a_tool_call_and_before_the_end() {
        assert!(BARRIERS.iter().all(|event| PiProfile::Legacy.fires(event)));
        let shutdown = |reason: &str| Event::new("session_shutdown").with("reason", reason);
        assert!(
            PiProfile::Legacy.is_barrier(&Event::new("tool_call")) && PiProfile::Legacy.is_barrier(&shutdown("quit"))
        );
        assert!(
            !PiProfile::Legacy.is_barrier(&shutdown("reload")) && !PiProfile::Legacy.is_barrier(&Event::new("input"))
        );
        assert!(!PiProfile::Current.is_barrier(&Event::new("tool_call")) && !PiProfile::Current.queues("agent_end"));
    }
}
