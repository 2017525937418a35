//! Compaction: replaces the older part of the conversation by a summary.
//!
//! [`prepare`] chooses the parts as pi does: the newest `keep_recent_tokens` stay, a tool result stays with its call, and when
//! the cut is inside a turn, the beginning of the turn gets its own summary. A handler of `session_before_compact` may cancel or
//! provide the summary. Automatic compaction happens when the context window is nearly full, or when the provider reports an
//! overflow.

use crate::agent::Agent;
use crate::events::AgentEvent;
use crate::extensions::Event;
use crate::outcome::{AgentError, Ending};
use crate::run::Run;
use crate::settings::CompactionSettings;
use crate::summary::{self, FileOps, SummaryText};
use crate::tokens;
use pijs_llm::message::{AssistantMessage, Message, StopReason};
use pijs_llm::overflow;
use pijs_llm::provider::ProviderError;
use pijs_protocol::{ExtensionId, guard};
use pijs_session_store::context::{self, Projected};
use pijs_session_store::summary::ConversationSummary;
use pijs_session_store::{Body, Entry, EntryId, Session, refs};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

/// A planned compaction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preparation {
    first_kept: EntryId,
    to_summarize: Vec<Message>,
    /// Beginning of a turn that is split.
    turn_prefix: Vec<Message>,
    is_split: bool,
    tokens_before: u64,
    previous_summary: Option<String>,
    files: FileOps,
    settings: CompactionSettings,
}

impl Preparation {
    fn to_value(&self) -> Value {
        let mut value = json!({
            "firstKeptEntryId": self.first_kept,
            "messagesToSummarize": self.to_summarize,
            "turnPrefixMessages": self.turn_prefix,
            "isSplitTurn": self.is_split,
            "tokensBefore": self.tokens_before,
            "fileOps": self.files.to_value(),
            "settings": {
                "enabled": self.settings.enabled,
                "reserveTokens": self.settings.reserve_tokens,
                "keepRecentTokens": self.settings.keep_recent_tokens,
            },
        });
        if let Some(summary) = &self.previous_summary {
            value["previousSummary"] = json!(summary);
        }
        value
    }
}

/// Whether a run continues after a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCompaction {
    /// The failed request is sent again.
    Retry,
    /// The run does not continue.
    Done,
}

/// Reasons for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompactionReason {
    Manual,
    Threshold,
    Overflow,
}

impl CompactionReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Threshold => "threshold",
            Self::Overflow => "overflow",
        }
    }

    /// Returns the words with which pi's message about a failed compaction begins.
    fn failure(self) -> &'static str {
        match self {
            Self::Manual => "Compaction failed",
            Self::Threshold => "Auto-compaction failed",
            Self::Overflow => "Context overflow recovery failed",
        }
    }
}

/// Instructions for a summary with the extension that wrote them, or `None` for the user.
#[derive(Debug, Clone, Copy, Default)]
struct SummaryInstructions<'a> {
    instructions: Option<&'a str>,
    asker: Option<&'a ExtensionId>,
}

/// Chooses the parts to summarise and to keep; `None` when there is nothing to summarise.
pub(crate) fn prepare(branch: &[&Entry], settings: CompactionSettings) -> Option<Preparation> {
    if matches!(branch.last()?.body, Body::Compaction { .. }) {
        return None;
    }
    let projection = context::projection(branch);
    let is_summary = |projected: &Projected<'_>| matches!(projected.entry.body, Body::Compaction { .. });
    let previous = projection.iter().position(|projected| is_summary(projected) && !projected.messages.is_empty());
    let previous_summary = previous.and_then(|at| match &projection[at].entry.body {
        Body::Compaction { summary, .. } => Some(summary.clone()),
        _ => None,
    });
    let start = previous.map_or(0, |at| at + 1);
    let cut = cut(&projection, start, settings.keep_recent_tokens);
    let first_kept = projection.get(cut.first_kept)?.entry.id.clone();
    let messages = |from: usize, to: usize| -> Vec<Message> {
        let kept = projection.get(from..to).unwrap_or_default().iter().filter(|projected| !is_summary(projected));
        kept.flat_map(|projected| projected.messages.clone()).filter(|message| message.role() != "system").collect()
    };
    let to_summarize = messages(start, cut.turn_start.unwrap_or(cut.first_kept));
    let turn_prefix = cut.turn_start.map_or_else(Vec::new, |turn| messages(turn, cut.first_kept));
    if to_summarize.is_empty() && turn_prefix.is_empty() {
        return None;
    }
    let mut files = FileOps::default();
    if let Some(at) = previous {
        files.take_over(projection[at].entry);
    }
    to_summarize.iter().chain(&turn_prefix).for_each(|message| files.note(message));
    Some(Preparation {
        first_kept,
        to_summarize,
        is_split: cut.turn_start.is_some(),
        turn_prefix,
        tokens_before: tokens::of_conversation(&projection, branch),
        previous_summary,
        files,
        settings,
    })
}

struct CutPoint {
    first_kept: usize,
    /// Index at which the split turn begins.
    turn_start: Option<usize>,
}

fn cut(projection: &[Projected<'_>], start: usize, keep_recent: u64) -> CutPoint {
    let begins_turn = |projected: &Projected<'_>| {
        !matches!(projected.entry.body, Body::Compaction { .. })
            && projected.messages.iter().any(|message| !matches!(message.role(), "assistant" | "toolResult" | "system"))
    };
    let can_cut = |projected: &Projected<'_>| {
        !matches!(projected.entry.body, Body::Compaction { .. })
            && projected.messages.iter().any(|message| !matches!(message.role(), "toolResult" | "system"))
    };
    let points: Vec<usize> = (start..projection.len()).filter(|at| can_cut(&projection[*at])).collect();
    let Some(first) = points.first().copied() else { return CutPoint { first_kept: start, turn_start: None } };
    let mut at = first;
    let mut kept = 0;
    for candidate in (start..projection.len()).rev() {
        kept += projection[candidate].messages.iter().map(pijs_llm::tokens::estimate).sum::<u64>();
        if kept >= keep_recent {
            let later = points.iter().copied().find(|point| *point >= candidate);
            at = later.or(points.last().copied()).unwrap_or(first);
            break;
        }
    }
    // Entries without messages belong to the entry after them.
    while at > start
        && projection[at - 1].messages.is_empty()
        && !matches!(projection[at - 1].entry.body, Body::Compaction { .. })
    {
        at -= 1;
    }
    let turn_start =
        if begins_turn(&projection[at]) { None } else { (start..=at).rev().find(|at| begins_turn(&projection[*at])) };
    CutPoint { first_kept: at, turn_start }
}

impl Agent {
    /// Compacts the conversation. Aborts an active run first.
    ///
    /// # Errors
    ///
    /// Fails with pi's message: nothing to compact, cancelled by a handler, or an error of the summary.
    pub async fn compact(&self, instructions: Option<&str>) -> Result<Value, String> {
        self.control.observe_act("compact", || json!(instructions));
        self.compact_for(None, instructions).await
    }

    /// Compacts for an extension, or for the user when `asker` is `None`.
    pub(crate) async fn compact_for(
        &self,
        asker: Option<&ExtensionId>,
        instructions: Option<&str>,
    ) -> Result<Value, String> {
        let focus = SummaryInstructions { instructions, asker };
        self.attend(async {
            self.control.abort();
            self.control.idle().await;
            let cancel = CancellationToken::new();
            self.compact_because(CompactionReason::Manual, false, focus, cancel).await
        })
        .await
    }

    async fn compact_because(
        &self,
        reason: CompactionReason,
        will_retry: bool,
        focus: SummaryInstructions<'_>,
        cancel: CancellationToken,
    ) -> Result<Value, String> {
        self.control.begin_summary(cancel.clone());
        self.keep(self.emit_to_front_end(&AgentEvent::Notice {
            name: "compaction_start",
            payload: &json!({"reason": reason.as_str()}),
        }));
        let mut from_extension = false;
        let result = self.summarised(reason, will_retry, focus, &cancel, &mut from_extension).await;
        self.control.end_summary();
        let aborted = cancel.is_cancelled() || matches!(&result, Err(message) if message == "Compaction cancelled");
        let failed = match &result {
            Err(message) if !aborted => Some(format!("{}: {message}", reason.failure())),
            _ => None,
        };
        let mut payload =
            json!({"reason": reason.as_str(), "aborted": aborted, "willRetry": will_retry && result.is_ok()});
        if let Ok(result) = &result {
            payload["aborted"] = json!(false);
            payload["result"] = result.clone();
        }
        if let Some(message) = &failed {
            payload["errorMessage"] = json!(message);
        }
        self.keep(self.emit_to_front_end(&AgentEvent::Notice { name: "compaction_end", payload: &payload }));
        if result.is_err() {
            self.notify("session_compact_failed", || {
                let event = Event::new("session_compact_failed").with("reason", reason.as_str());
                let event = match failed {
                    Some(message) => event.with("errorMessage", message),
                    None => event,
                };
                event.with("aborted", aborted).with("willRetry", false).with("fromExtension", from_extension)
            })
            .await;
        }
        result
    }

    async fn summarised(
        &self,
        reason: CompactionReason,
        will_retry: bool,
        SummaryInstructions { instructions, asker }: SummaryInstructions<'_>,
        cancel: &CancellationToken,
        from_extension: &mut bool,
    ) -> Result<Value, String> {
        let settings = self.settings.borrow().compaction;
        let seen = self.control.with_session(Session::seen).map_err(|error| error.to_string())?;
        let preparation = prepare(&refs(&seen), settings).ok_or_else(|| {
            let compacted = matches!(seen.last().map(|entry| &entry.body), Some(Body::Compaction { .. }));
            if compacted { "Already compacted" } else { "Nothing to compact (session too small)" }.to_owned()
        })?;
        drop(seen);
        let mut theirs = None;
        let mut authors = BTreeSet::new();
        if instructions.is_some_and(|text| !text.is_empty()) && guard!(AttributionAuthor) {
            authors.extend(asker.map(ToString::to_string));
        }
        if self.extensions.has_handlers("session_before_compact") {
            let branch = self.control.branch_for_extensions().map_err(|error| error.to_string())?;
            let mut event = Event::new("session_before_compact")
                .with("preparation", preparation.to_value())
                .with("branchEntries", branch);
            if let Some(instructions) = instructions {
                event = event.with("customInstructions", instructions);
            }
            let event = event.with("reason", reason.as_str()).with("willRetry", will_retry).with_signal(cancel.clone());
            let outcome = self.extensions.emit(event).await;
            if outcome.field("cancel").is_some_and(|cancel| *cancel == Value::Bool(true)) {
                return Err("Compaction cancelled".to_owned());
            }
            if guard!(AttributionAuthor) {
                authors.extend(outcome.authors.iter().cloned());
            }
            theirs = outcome.field("compaction").filter(|compaction| compaction.is_object()).cloned();
        }
        *from_extension = theirs.is_some();
        let summary = match theirs {
            Some(theirs) => ConversationSummary {
                text: theirs.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned(),
                details: summary::given(&theirs, "details"),
                usage: summary::given(&theirs, "usage"),
                first_kept: theirs.get("firstKeptEntryId").and_then(Value::as_str).map(|id| EntryId(id.to_owned())),
                tokens_before: theirs.get("tokensBefore").and_then(Value::as_u64).unwrap_or(preparation.tokens_before),
            },
            None => {
                authors.extend(self.answers_as(&self.provider().model().provider));
                self.summarise(&preparation, instructions, cancel).await?
            }
        };
        if cancel.is_cancelled() {
            return Err("Compaction cancelled".to_owned());
        }
        let appended = self.control.append_compaction(summary.clone(), *from_extension, authors);
        let id = appended.map_err(|error| error.to_string())?;
        self.publish_usage();
        let left = self.messages().map_err(|error| error.to_string())?;
        let tokens_after: u64 = left.iter().map(pijs_llm::tokens::estimate).sum();
        let entry = self.control.with_session(|session| session.entry(&id)).map_err(|error| error.to_string())?;
        let entry = entry.map(|entry| entry.to_value());
        let from_extension = *from_extension;
        self.notify("session_compact", || {
            Event::new("session_compact")
                .with("compactionEntry", entry.unwrap_or_default())
                .with("fromExtension", from_extension)
                .with("reason", reason.as_str())
                .with("willRetry", will_retry)
        })
        .await;
        Ok(answer_of(summary, tokens_after))
    }

    async fn summarise(
        &self,
        preparation: &Preparation,
        instructions: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<ConversationSummary, String> {
        let reserve = preparation.settings.reserve_tokens;
        let previous = preparation.previous_summary.as_deref();
        let unasked = |text: &str| SummaryText { text: text.to_owned(), usage: None };
        let SummaryText { mut text, mut usage } = match (preparation.to_summarize.is_empty(), previous) {
            (true, Some(previous)) => unasked(previous),
            (true, None) => unasked("No prior history."),
            (false, previous) => {
                self.summary_of(&preparation.to_summarize, previous, instructions, reserve, cancel).await?
            }
        };
        if !preparation.turn_prefix.is_empty() {
            let prefix = self.summary_of_turn(&preparation.turn_prefix, reserve, cancel).await?;
            text.push_str(&format!("\n\n---\n\n**Turn Context (split turn):**\n\n{}", prefix.text));
            usage = usage.into_iter().chain(prefix.usage).reduce(|one, other| one + other);
        }
        text.push_str(&preparation.files.tags());
        Ok(ConversationSummary {
            text,
            details: Some(preparation.files.details()),
            usage: usage.map(|usage| json!(usage)),
            first_kept: Some(preparation.first_kept.clone()),
            tokens_before: preparation.tokens_before,
        })
    }

    /// Returns whether the conversation exceeds the context window minus the space for a reply.
    fn is_nearly_full(&self) -> bool {
        let settings = self.settings.borrow().compaction;
        let Some(window) = self.control.model().and_then(|model| model.context_window()) else { return false };
        // An unreadable session is not compacted; the request reports the error.
        let Ok(seen) = self.control.with_session(Session::seen) else { return false };
        let branch = refs(&seen);
        let tokens = tokens::of_conversation(&context::projection(&branch), &branch);
        settings.enabled && tokens > window.saturating_sub(settings.reserve_tokens)
    }

    /// Compacts before a prompt of the user when the context is nearly full.
    pub(crate) async fn compact_before_prompt(&self) -> Result<(), AgentError> {
        if self.is_nearly_full() {
            self.compact_automatically(CompactionReason::Threshold, false, &CancellationToken::new()).await;
        }
        self.expect_unbroken()
    }

    /// Compacts between two turns of a run when the context is nearly full.
    pub(crate) async fn compact_before_turn(&self, cancel: &CancellationToken) -> Result<(), AgentError> {
        if self.is_nearly_full() {
            self.compact_automatically(CompactionReason::Threshold, false, cancel).await;
        }
        self.expect_unbroken()
    }

    /// Compacts after a loop of a run. The last turn is removed and tried again once, if its request exceeded the context window
    /// or its reply was truncated below the model's limit.
    pub(crate) async fn compact_after(
        &self,
        ending: &Ending,
        run: &Run,
        overflowed: &mut bool,
    ) -> Result<AfterCompaction, AgentError> {
        if !self.settings.borrow().compaction.enabled {
            return Ok(AfterCompaction::Done);
        }
        let (did_not_fit, reply) = match ending {
            Ending::Failed(error) => (self.was_too_long(error), None),
            Ending::Done => (false, run.reply()),
            _ => (false, None),
        };
        if did_not_fit || reply.is_some_and(|reply| self.was_truncated(reply)) {
            if std::mem::replace(overflowed, true) {
                self.recovery_failed(did_not_fit).await;
            } else {
                self.omit(&run.last_turn)?;
                if self.compact_automatically(CompactionReason::Overflow, true, &run.cancel).await {
                    return Ok(AfterCompaction::Retry);
                }
            }
        } else if let Some(reply) = reply {
            *overflowed = false;
            if self.exceeded_window(reply) {
                self.compact_automatically(CompactionReason::Overflow, false, &run.cancel).await;
            } else if self.is_nearly_full() {
                self.compact_automatically(CompactionReason::Threshold, false, &run.cancel).await;
            }
        }
        self.expect_unbroken().map(|()| AfterCompaction::Done)
    }

    /// Returns whether a reply ended with `length` below the model's limit.
    fn was_truncated(&self, reply: &AssistantMessage) -> bool {
        let limit = self.control.model().filter(|model| reply.is_of(model)).and_then(|model| model.max_tokens());
        reply.stop_reason == StopReason::Length && limit.is_some_and(|limit| reply.usage.output < limit)
    }

    /// Returns whether a model replied to a request larger than its context window.
    fn exceeded_window(&self, reply: &AssistantMessage) -> bool {
        let window = self.control.model().filter(|model| reply.is_of(model)).and_then(|model| model.context_window());
        let sent = reply.usage.input.saturating_add(reply.usage.cache_read);
        reply.stop_reason == StopReason::Stop && window.is_some_and(|window| sent > window)
    }

    /// Reports that the attempt after the compaction failed as well.
    async fn recovery_failed(&self, did_not_fit: bool) {
        let message = if did_not_fit {
            "Context overflow recovery failed after one compact-and-retry attempt. Try reducing context or switching to a larger-context model."
        } else {
            "Truncated response recovery failed after one compact-and-retry attempt."
        };
        let told = json!({"reason": "overflow", "errorMessage": message, "aborted": false, "willRetry": false});
        self.keep(self.emit_to_front_end(&AgentEvent::Notice { name: "compaction_end", payload: &told }));
        self.notify("session_compact_failed", || {
            let event = Event::new("session_compact_failed").with("reason", "overflow").with("errorMessage", message);
            event.with("aborted", false).with("willRetry", false).with("fromExtension", false)
        })
        .await;
    }

    /// Returns whether a request failed because it exceeds the context window.
    pub(crate) fn was_too_long(&self, error: &ProviderError) -> bool {
        let model = self.control.model();
        overflow::is_context_overflow(model.as_ref().map_or("", |model| &model.provider), error.message())
    }

    /// Compacts automatically and reports errors. Returns whether a summary was written; nothing to summarise is not an error.
    async fn compact_automatically(
        &self,
        reason: CompactionReason,
        will_retry: bool,
        cancel: &CancellationToken,
    ) -> bool {
        let settings = self.settings.borrow().compaction;
        let seen = self.control.with_session(Session::seen);
        if seen.is_ok_and(|seen| prepare(&refs(&seen), settings).is_none()) {
            return false;
        }
        let cancel = cancel.child_token();
        self.compact_because(reason, will_retry, SummaryInstructions::default(), cancel).await.is_ok()
    }

    fn expect_unbroken(&self) -> Result<(), AgentError> {
        self.runs.broken.take().map_or(Ok(()), Err)
    }
}

/// Returns the result of `compact` for its caller.
fn answer_of(
    ConversationSummary { text, details, usage, first_kept, tokens_before }: ConversationSummary,
    tokens_after: u64,
) -> Value {
    let mut answer = json!({"summary": text});
    let more = [
        ("firstKeptEntryId", first_kept.map(|id| json!(id))),
        ("tokensBefore", Some(json!(tokens_before))),
        ("estimatedTokensAfter", Some(json!(tokens_after))),
        ("usage", usage),
        ("details", details),
    ];
    for (key, value) in more.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        answer[key] = value;
    }
    answer
}

#[cfg(test)]
mod tests;
