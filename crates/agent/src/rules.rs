//! Native streamed rules in the agent loop.
//!
//! Rules read each delta before extensions do. A rule that interrupts has the effect of an extension's *abort*: the attempt is
//! cancelled, the rule's text is injected, and another attempt is made. The engine counts the caps of rules; the session-wide
//! limits of [`Verdicts`](crate::verdicts) apply to rules and extensions together.
//!
//! The session file stores the state for resuming in another process: the message injected by an interrupt, and an entry
//! [`FIRED_TYPE`] for a reminder, contain [`InjectedRecord`]s. They are read along the branch, also before a compaction.

use crate::agent::Agent;
use crate::attempt::{Attempt, StoppedByRule};
use crate::events::{AgentEvent, RuleFiredEvent, VerdictAction, VerdictEvent};
use crate::outcome::AgentError;
use crate::system_prompt::escaped;
use crate::verdicts::Injected;
use pijs_llm::message::{AssistantMessage, Block, Message, StopReason, VERDICT_TYPE};
use pijs_llm::partial::{Partial, Step};
use pijs_protocol::StreamSource;
use pijs_protocol::stream::{Injection, InjectionRole};
use pijs_rules::session::{FIRED_TYPE, PREFIX, SessionRules};
use pijs_rules::{
    Action, ContextMode, FiredRule, Firing, InjectedRecord, MatchContext, RetryLedger, RuleEngine, StreamKind,
};
use pijs_session_store::{Body, Entry};
use serde_json::{Value, json};
use std::sync::Arc;

/// Member of a message's details: `true` if the received part of the interrupted reply stays in the conversation.
const KEPT: &str = "kept";

/// Member of a message's details with the [`InjectedRecord`]s.
const RECORDS: &str = "ruleRecords";

/// The state of the attempt in which rules fired.
pub(crate) struct FiringContext<'a> {
    pub(crate) attempt: u32,
    /// The reply without the delta.
    pub(crate) partial: &'a Partial,
    /// Number of bytes of the delta, which is dropped.
    pub(crate) dropped: usize,
    /// Whether the beginning of the reply was reported to front ends.
    pub(crate) began: bool,
}

impl Agent {
    /// Returns whether the session has native rules.
    pub(crate) fn has_rules(&self) -> bool {
        self.judging.rules.borrow().is_some()
    }

    /// Calls a function with the session's rules, if it has any.
    pub fn with_rules<T>(&self, read: impl FnOnce(&RuleEngine) -> T) -> Option<T> {
        self.judging.rules.borrow().as_ref().map(|rules| read(&rules.engine))
    }

    fn change_rules<T>(&self, change: impl FnOnce(&mut SessionRules) -> T) -> Option<T> {
        self.judging.rules.borrow_mut().as_mut().map(change)
    }

    /// Returns the section of the system prompt on rules.
    pub(crate) fn rules_section(&self) -> Option<String> {
        self.judging.rules.borrow().as_ref()?.prompt_section.clone()
    }

    /// Begins a turn: applies changed rules, and resets the caps of the previous turn.
    pub(crate) fn begin_rules_of_turn(&self) -> Result<(), AgentError> {
        self.take_changed_rules()?;
        self.change_rules(|rules| rules.engine.begin_turn());
        Ok(())
    }

    /// Applies changed rules, and reports errors in their files.
    pub(crate) fn take_changed_rules(&self) -> Result<(), AgentError> {
        for warning in self.change_rules(SessionRules::take_changed).unwrap_or_default() {
            let payload = json!({"message": warning});
            self.emit_to_front_end(&AgentEvent::Notice { name: "rule_report", payload: &payload })?;
        }
        Ok(())
    }

    /// Ends a turn: advances the repeat gaps of rules, and reports the rules that fired and the conditions that do not run.
    pub(crate) fn end_rules_of_turn(&self) -> Result<(), AgentError> {
        let ended = self.change_rules(|rules| (rules.engine.end_turn(), rules.take_reports()));
        let Some((ledger, reports)) = ended else { return Ok(()) };
        for report in reports {
            let payload = json!({"rule": report.rule, "message": report.to_string()});
            self.emit_to_front_end(&AgentEvent::Notice { name: "rule_report", payload: &payload })?;
        }
        if !ledger.is_empty() {
            self.emit_to_front_end(&AgentEvent::Notice { name: "rules_turn_end", payload: &json!(ledger) })?;
        }
        Ok(())
    }

    /// Begins an attempt: resets the text of the previous one.
    pub(crate) fn begin_rules_of_attempt(&self) {
        self.change_rules(|rules| rules.engine.reset_buffers());
    }

    /// Checks a delta of text, of thinking, or of the arguments of the call `index`. Costs a single branch if there are no rules.
    pub(crate) fn rules_at_delta(
        &self,
        partial: &Partial,
        source: StreamSource,
        index: u32,
        delta: &str,
    ) -> Option<Firing> {
        let mut rules = self.judging.rules.borrow_mut();
        let engine = &mut rules.as_mut()?.engine;
        engine.set_exhausted(!self.judging.verdicts.borrow().is_within_net());
        let now = self.now();
        let context = match source {
            StreamSource::Text => MatchContext::text(now),
            StreamSource::Thinking => MatchContext::thinking(now),
            StreamSource::Tool => {
                let call = partial.tool_call(index)?;
                MatchContext::tool(&call.name, &call.id, now)
            }
        };
        engine.check_delta(delta, &context)
    }

    /// Checks the tool calls that are complete after these steps.
    pub(crate) fn rules_at_end_of_calls(&self, partial: &Partial, steps: &[Step]) -> Vec<Firing> {
        let mut rules = self.judging.rules.borrow_mut();
        let Some(rules) = rules.as_mut() else { return Vec::new() };
        let engine = &mut rules.engine;
        engine.set_exhausted(!self.judging.verdicts.borrow().is_within_net());
        let now = self.now();
        let ended = steps.iter().filter_map(|step| match step {
            Step::End(block) => partial.shown().call(*block),
            _ => None,
        });
        ended.filter_map(|call| engine.end_of_call(&MatchContext::tool(&call.name, &call.id, now))).collect()
    }

    /// Checks the end of a reply.
    pub(crate) fn rules_at_end_of_message(&self) -> Vec<Firing> {
        let now = self.now();
        let is_exhausted = !self.judging.verdicts.borrow().is_within_net();
        let read = |rules: &mut SessionRules| {
            rules.engine.set_exhausted(is_exhausted);
            rules.engine.end_of_message(now)
        };
        self.change_rules(read).unwrap_or_default()
    }

    /// Returns the first firing that stops the attempt, after handling the reminders before it.
    pub(crate) async fn first_stopping(
        &self,
        firings: Vec<Firing>,
        at: &FiringContext<'_>,
    ) -> Result<Option<Firing>, AgentError> {
        for firing in firings {
            if firing.interrupts() {
                return Ok(Some(firing));
            }
            self.remind(firing, at).await?;
        }
        Ok(None)
    }

    /// Reports a firing that stops the attempt, and ends the attempt.
    pub(crate) async fn stop(&self, firing: Firing, at: FiringContext<'_>) -> Result<Attempt, AgentError> {
        let tokens_burned = at.partial.tokens(at.dropped);
        tracing::Span::current().record("outcome", "stopped");
        self.judging.verdicts.borrow_mut().burned(tokens_burned);
        self.change_rules(|rules| rules.engine.burned(tokens_burned));
        self.announce_firing(&firing, VerdictAction::Retry, &at).await?;
        let is_kept = matches!(firing.action, Action::Interrupt { context_mode: ContextMode::Keep });
        let kept = is_kept.then(|| kept(at.partial)).flatten();
        let mut injected = self.injected(&firing, VerdictAction::Retry, tokens_burned);
        if let (Some(details), true) = (&mut injected.details, kept.is_some()) {
            details[KEPT] = true.into();
        }
        match &kept {
            Some(message) if !at.began => {
                self.emit(AgentEvent::MessageStart { message: &Message::Assistant(message.clone()) }).await?;
            }
            Some(_) => {}
            None => {
                let extension = &injected.extension;
                let reason = "stream_verdict";
                self.emit(AgentEvent::MessageDiscarded { attempt: at.attempt, reason, extension, tokens_burned })
                    .await?;
            }
        }
        Ok(Attempt::Stopped(StoppedByRule { injected, kept }))
    }

    /// Reports a firing that lets the reply continue. The rules' text is added to the next request.
    async fn remind(&self, firing: Firing, at: &FiringContext<'_>) -> Result<(), AgentError> {
        self.announce_firing(&firing, VerdictAction::Remind, at).await?;
        let mut injected = self.injected(&firing, VerdictAction::Remind, 0);
        // Written at once, since the session may end before the next request.
        self.control.append_custom(FIRED_TYPE, injected.details.take())?;
        self.judging.verdicts.borrow_mut().remind(injected);
        Ok(())
    }

    async fn announce_firing(
        &self,
        firing: &Firing,
        action: VerdictAction,
        at: &FiringContext<'_>,
    ) -> Result<(), AgentError> {
        for rule in &firing.rules {
            tracing::info!(event = "rule.fired", rule = rule.name.as_str(), action = action.as_str(), "a rule fired");
            self.emit(AgentEvent::RuleFired(&fired_event(firing, rule, action))).await?;
        }
        let source = source_of(firing.stream);
        self.emit(AgentEvent::StreamVerdict(&VerdictEvent {
            extension: name_of(&firing.rules),
            source,
            offset: at.partial.offset(source, 0),
            latency_us: 0,
            attempt: at.attempt,
            action,
        }))
        .await
    }

    fn injected(&self, firing: &Firing, action: VerdictAction, tokens_burned: u64) -> Injected {
        let details = Some(self.details(firing, tokens_burned));
        Injected { details, ..injected_by(&firing.rules, action) }
    }

    /// Returns the data from which another process resumes.
    fn details(&self, firing: &Firing, tokens_burned: u64) -> Value {
        let records = self.with_rules(|engine| engine.injected_records()).unwrap_or_default();
        let is_of_firing = |record: &InjectedRecord| firing.rules.iter().any(|rule| rule.name == record.name);
        let records: Vec<InjectedRecord> = records.into_iter().filter(is_of_firing).collect();
        json!({ RECORDS: records, "rules": firing.rules, "stream": firing.stream, "tokensBurned": tokens_burned })
    }

    /// Restores the state of the rules from the branch of the session.
    pub(crate) fn restore_rules(&self) {
        if !self.has_rules() {
            return;
        }
        let mut turns: u64 = 0;
        let mut records = Vec::new();
        let mut ledger = RetryLedger::default();
        let mut reminders: Vec<Vec<FiredRule>> = Vec::new();
        self.control.with_session(|session| {
            // Entries of extensions and other programs are not trusted as records of rules.
            let is_ours = |entry: &Arc<Entry>| entry.authors.is_empty() || entry.is_edited;
            for entry in session.along_branch().flatten().filter(is_ours) {
                match &entry.body {
                    Body::Message { message: Message::Assistant(_) } => turns += 1,
                    Body::CustomMessage { custom_type, details: Some(details), .. } if custom_type == VERDICT_TYPE => {
                        if details["reminder"] == true {
                            let delivered =
                                reminders.iter().position(|rules| details["extension"] == name_of(rules).as_str());
                            if let Some(at) = delivered {
                                reminders.remove(at);
                            }
                            continue;
                        }
                        let Some(rules) = rules_of(details) else { continue };
                        let tokens_burned = details["tokensBurned"].as_u64().unwrap_or_default();
                        ledger.add(&RetryLedger::of_firing(&rules, true, tokens_burned));
                        records.extend(records_of(details));
                        // A kept partial reply did not end a turn, so it is not counted.
                        turns = turns.saturating_sub(u64::from(details[KEPT] == true));
                    }
                    Body::Custom { custom_type, data: Some(data) } if custom_type == FIRED_TYPE => {
                        let Some(rules) = rules_of(data) else { continue };
                        ledger.add(&RetryLedger::of_firing(&rules, false, 0));
                        records.extend(records_of(data));
                        reminders.push(rules);
                    }
                    _ => {}
                }
            }
        });
        self.change_rules(|rules| {
            // The text of a rule is taken from its file, not from the session.
            let running = |fired: &FiredRule| rules.engine.rules().find(|rule| rule.name == fired.name);
            for fired in &mut reminders {
                fired.retain_mut(|fired| {
                    let rule = running(fired);
                    fired.content = rule.map(|rule| rule.content.clone()).unwrap_or_default();
                    rule.is_some()
                });
            }
            rules.engine.restore(records);
            rules.engine.restore_ledger(ledger);
            rules.engine.set_current_turn(turns);
        });
        // Reminders that were not sent before the previous process ended.
        for rules in reminders.into_iter().filter(|rules| !rules.is_empty()) {
            self.judging.verdicts.borrow_mut().remind(injected_by(&rules, VerdictAction::Remind));
        }
    }
}

/// Parses the records from the details of a message or the data of an entry.
pub fn records_of(details: &Value) -> Vec<InjectedRecord> {
    let records = details.get(RECORDS).cloned().unwrap_or_default();
    serde_json::from_value(records).unwrap_or_default()
}

/// Parses the rules that fired from the details of a message or the data of an entry.
fn rules_of(details: &Value) -> Option<Vec<FiredRule>> {
    serde_json::from_value(details.get("rules")?.clone()).ok()
}

/// Returns the message about rules for the model. Its `details` are not set.
fn injected_by(rules: &[FiredRule], action: VerdictAction) -> Injected {
    Injected {
        extension: name_of(rules),
        injection: Injection { content: content(rules, action), role: InjectionRole::System },
        reminder: action == VerdictAction::Remind,
        details: None,
    }
}

/// Returns `PREFIX` and the names of the rules, which take the place of an extension's name.
fn name_of(rules: &[FiredRule]) -> String {
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    format!("{PREFIX}{}", names.join(","))
}

fn source_of(stream: StreamKind) -> StreamSource {
    match stream {
        StreamKind::Text => StreamSource::Text,
        StreamKind::Thinking => StreamSource::Thinking,
        StreamKind::Tool => StreamSource::Tool,
    }
}

fn fired_event(firing: &Firing, rule: &FiredRule, action: VerdictAction) -> RuleFiredEvent {
    RuleFiredEvent {
        rule: rule.name.as_str().to_owned(),
        source: source_of(firing.stream),
        tool: firing.tool.clone(),
        path: rule.site.path.clone(),
        excerpt: rule.site.excerpt.clone(),
        line: rule.site.line,
        column: rule.site.column,
        action,
        degraded: rule.degraded.map(|reason| reason.to_string()),
    }
}

/// Formats the message for the model: each rule with the matched text.
fn content(rules: &[FiredRule], action: VerdictAction) -> String {
    let what = match action {
        VerdictAction::Remind => "Your last reply broke this rule. Keep to it from now on.",
        _ => "Your reply was stopped because it broke this rule. Answer again, and keep to it.",
    };
    let one = |rule: &FiredRule| {
        // The model wrote or quoted the matched text, so it is escaped before it gets the system role.
        let path = rule.site.path.as_ref().map_or_else(String::new, |path| format!(" path=\"{}\"", escaped(path)));
        format!(
            "<rule name=\"{}\"{path}>\n{what} It matched: {}\n\n{}\n</rule>",
            escaped(rule.name.as_str()),
            escaped(rule.site.excerpt.trim()),
            rule.content.trim()
        )
    };
    rules.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

/// Returns the part of an interrupted reply that stays in the conversation: its content without tool calls.
fn kept(partial: &Partial) -> Option<AssistantMessage> {
    let mut message = partial.shown().so_far();
    message.content.retain(|block| !matches!(block, Block::ToolCall(_)));
    message.stop_reason = StopReason::Stop;
    (!message.content.is_empty()).then_some(message)
}
