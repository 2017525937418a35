//! Sends the request of a turn to its model, and runs the rules and handlers that may stop the reply.
//!
//! Native rules read each piece of a reply first, then the `stream_text` and `stream_thinking` handlers of extensions. The first
//! rule that matches, or handler that aborts, discards the reply: no part of it is recorded or executed. The text of the rule or
//! handler is appended to the messages, and the request is sent again.

use crate::error::RummyError;
use crate::run::{Loop, RunDriver};
use crate::turn::Turn;
use pijs_host::{Host, StreamOutcome};
use pijs_llm::message::Block;
use pijs_llm::one_reply::{self, Listener};
use pijs_llm::overflow::is_context_overflow;
use pijs_llm::partial::{Partial, Step};
use pijs_llm::provider::{Request, RequestMessage};
use pijs_protocol::{StreamDelta, StreamSource};
use pijs_rules::{FiredRule, Firing, MatchContext, RuleEngine};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Maximum number of replies that extensions may discard in one turn. Rules have separate limits.
const MAX_DISCARDED: usize = 8;

/// The reason why a reply was discarded.
struct Discarded {
    /// Name of the rule or the extension.
    by: String,
    /// Text for the model; `None` ends the run.
    retry: Option<String>,
}

/// Evaluates a reply while it arrives, and may stop it.
struct Judge<'j> {
    host: &'j Host,
    rules: &'j RefCell<Option<RuleEngine>>,
    attempt: u32,
    now_ms: u64,
    cancel: CancellationToken,
    discarded: RefCell<Option<Discarded>>,
    reminders: RefCell<Vec<Firing>>,
}

impl Judge<'_> {
    fn discard(&self, by: String, retry: Option<String>) {
        self.discarded.replace(Some(Discarded { by, retry }));
        self.cancel.cancel();
    }

    /// Handles a firing: if it interrupts, the reply is discarded; otherwise it is reported at the end of the reply.
    fn fired(&self, firing: Firing) {
        match firing.interrupts() {
            true => self.discard(names(&firing.rules), Some(words(&firing.rules, true))),
            false => self.reminders.borrow_mut().push(firing),
        }
    }
}

impl Listener for Judge<'_> {
    fn response(&self, _: u16, _: &BTreeMap<String, String>) {}

    fn step(&self, partial: &Partial, step: &Step) {
        let Step::Delta(block, chunk) = step else { return };
        let source = match partial.message.content.get(*block) {
            Some(Block::Thinking(_)) => StreamSource::Thinking,
            Some(Block::Text(_)) => StreamSource::Text,
            _ => return,
        };
        if self.discarded.borrow().is_some() {
            return;
        }
        let context = match source {
            StreamSource::Thinking => MatchContext::thinking(self.now_ms),
            _ => MatchContext::text(self.now_ms),
        };
        let fired = self.rules.borrow_mut().as_mut().and_then(|rules| rules.check_delta(chunk, &context));
        if let Some(firing) = fired {
            self.fired(firing);
        }
        if self.discarded.borrow().is_some() || !self.host.has_stream_handler(source) {
            return;
        }
        let (attempt, chunk) = (self.attempt, chunk.clone());
        let delta = StreamDelta { attempt, source, stream: 0, chunk, tool_name: None, file_paths: Vec::new() };
        if let StreamOutcome::Abort(verdict) = self.host.stream(&delta) {
            self.discard(verdict.extension.to_string(), verdict.retry.map(|injection| injection.content));
        }
    }
}

impl RunDriver<'_> {
    /// Sends the request until a reply is accepted; returns the reply in the form of chat completions.
    pub(crate) async fn complete(
        &self,
        state: &Loop,
        turn: &mut Turn<'_>,
        messages: &Value,
        system: &str,
    ) -> Result<Value, RummyError> {
        let mut request = Request { system: system.to_owned(), ..Request::default() };
        for message in messages.as_array().into_iter().flatten() {
            let words = message["content"].as_str().unwrap_or_default();
            match message["role"].as_str() {
                Some("system") => words.clone_into(&mut request.system),
                _ => request.messages.push(RequestMessage::user(words)),
            }
        }
        if let Some(rules) = state.rules.borrow_mut().as_mut() {
            rules.begin_turn();
        }
        for _ in 0..=MAX_DISCARDED {
            let (reply, reminders) = self.attempt(state, &request).await?;
            for firing in &reminders {
                self.log_error(state, turn, &words(&firing.rules, false), 409, true).await?;
            }
            let Discarded { by, retry } = match reply {
                Ok(reply) => return Ok(reply),
                Err(discarded) => discarded,
            };
            let Some(retry) = retry else {
                return Err(RummyError::Stopped(format!("{by} stopped the model")));
            };
            self.log_error(state, turn, &format!("409: the reply was stopped by {by}: {retry}"), 409, true).await?;
            self.progress(state, turn, "retrying").await?;
            request.messages.push(RequestMessage::user(retry));
        }
        Err(RummyError::Model(format!("gave up after {MAX_DISCARDED} stopped replies in one turn")))
    }

    /// Sends the request once. Returns the reply, or the reason why it was discarded, and the rules to remind the model of.
    async fn attempt(
        &self,
        state: &Loop,
        request: &Request,
    ) -> Result<(Result<Value, Discarded>, Vec<Firing>), RummyError> {
        self.attempts.set(self.attempts.get().wrapping_add(1));
        if let Some(rules) = state.rules.borrow_mut().as_mut() {
            rules.reset_buffers();
        }
        let model = &state.model;
        let judge = Judge {
            host: self.realm.host(),
            rules: &state.rules,
            attempt: self.attempts.get(),
            now_ms: self.ambient.epoch_ms(),
            cancel: self.cancel.child_token(),
            discarded: RefCell::default(),
            reminders: RefCell::default(),
        };
        let mut partial = Partial::new(model.model(), self.ambient.epoch_ms());
        let stream = model.send(model.payload(request).into(), judge.cancel.clone());
        let done = one_reply::collect(&mut partial, stream, &judge).await;
        judge.host.stream_over();
        if judge.discarded.borrow().is_none() {
            done.map_err(|error| {
                let message = error.to_string();
                match is_context_overflow(&state.model.model().provider, &message) {
                    true => RummyError::TooLong(message),
                    false => RummyError::Model(message),
                }
            })?;
            partial.finish();
            let at_end = state.rules.borrow_mut().as_mut().map(|rules| rules.end_of_message(judge.now_ms));
            at_end.into_iter().flatten().for_each(|firing| judge.fired(firing));
        }
        if let (Some(_), Some(rules)) = (judge.discarded.borrow().as_ref(), state.rules.borrow_mut().as_mut()) {
            rules.burned(partial.tokens(0));
        }
        let Judge { discarded, reminders, .. } = judge;
        Ok((discarded.into_inner().map_or_else(|| Ok(completion(&partial)), Err), reminders.into_inner()))
    }
}

/// Converts a reply to the format of chat completions.
fn completion(partial: &Partial) -> Value {
    let reply = partial.shown().so_far();
    let thinking: Vec<&str> = reply.content.iter().filter_map(thinking_of).collect();
    let usage = &reply.usage;
    json!({
        "model": reply.model,
        "choices": [{ "index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": reply.text(), "reasoning_content": thinking.join("\n"),
        } }],
        "usage": {
            "prompt_tokens": usage.input + usage.cache_read, "cached_tokens": usage.cache_read,
            "completion_tokens": usage.output, "total_tokens": usage.total_tokens,
        },
    })
}

fn thinking_of(block: &Block) -> Option<&str> {
    match block {
        Block::Thinking(block) => Some(&block.thinking),
        _ => None,
    }
}

fn names(rules: &[FiredRule]) -> String {
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    format!("the rule {}", names.join(", "))
}

/// Returns the message that tells the model which rules its reply violated.
fn words(rules: &[FiredRule], was_stopped: bool) -> String {
    let what = match was_stopped {
        true => "Your reply was stopped because it broke this rule. Answer again, and keep to it.",
        false => "Your last reply broke this rule. Keep to it from now on.",
    };
    let one = |rule: &FiredRule| format!("{what} ({})\n{}", rule.name.as_str(), rule.content.trim());
    rules.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
