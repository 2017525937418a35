//! The end of a turn and of a run, where handlers may append entries and have the model go on.
//!
//! `turn_end` and `agent_before_settle` answer `{entries?, continue?}`. Each handler sees what the ones
//! before it drafted. Drafts become session entries once all have answered; `continue` counts only when
//! the conversation then ends with something that the model can answer.

use crate::agent::{Agent, AgentError, Ending};
use crate::context;
use crate::control::ControlError;
use crate::events::AgentEvent;
use crate::extensions::Event;
use crate::message::{Content, Message, ToolResultMessage};
use crate::provider::RequestMessage;
use crate::session::{Body, EntryId, Session, refs};
use crate::summary::Summary;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// An entry as a handler drafts it.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Draft {
    #[serde(rename_all = "camelCase")]
    Custom { custom_type: String, data: Option<Value> },
    #[serde(rename_all = "camelCase")]
    CustomMessage { custom_type: String, content: Content, display: bool, details: Option<Value> },
    #[serde(rename_all = "camelCase")]
    ContextEdit { target_id: EntryId, replacement: Value },
    #[serde(rename_all = "camelCase")]
    Compaction { summary: String, first_kept_entry_id: Option<EntryId>, details: Option<Value>, usage: Option<Value> },
}

impl Agent {
    /// `turn_end`. Answers whether a handler asks for one more request.
    pub(crate) async fn end_turn(
        &self,
        index: u32,
        message: &Message,
        entry: Option<EntryId>,
        tool_results: &[ToolResultMessage],
        result_entries: Vec<EntryId>,
    ) -> Result<bool, AgentError> {
        let event = AgentEvent::TurnEnd { index, message, tool_results };
        let mut goes_on = false;
        if self.extensions.has_handlers("turn_end") {
            let mut payload = event.payload();
            let outcome = match message {
                Message::Assistant(reply) => match reply.stop_reason {
                    crate::message::StopReason::Aborted => "aborted",
                    crate::message::StopReason::Error => "error",
                    _ => "completed",
                },
                _ => "completed",
            };
            payload.insert("messageEntryId".to_owned(), json!(entry));
            payload.insert("toolResultEntryIds".to_owned(), json!(result_entries));
            goes_on = self.boundary("turn_end", payload, outcome).await?;
        }
        self.show_only(&event)?;
        self.control.flush_after_turn()?;
        self.control.sync_session()?;
        Ok(goes_on)
    }

    /// `agent_before_settle`. Answers whether the run goes on.
    pub(crate) async fn before_settle(&self, ending: &Ending) -> Result<bool, AgentError> {
        if !self.extensions.has_handlers("agent_before_settle") {
            return Ok(false);
        }
        let outcome = match ending {
            Ending::Aborted => "aborted",
            Ending::Failed(_) => "error",
            _ => "completed",
        };
        let goes_on = self.boundary("agent_before_settle", Map::new(), outcome).await?;
        self.control.flush_after_turn()?;
        Ok(goes_on || self.control.has_queued())
    }

    async fn boundary(
        &self,
        name: &'static str,
        mut payload: Map<String, Value>,
        outcome: &str,
    ) -> Result<bool, AgentError> {
        payload.insert("entries".to_owned(), json!([]));
        payload.insert("continue".to_owned(), json!(false));
        payload.insert("context".to_owned(), self.preview()?);
        payload.insert("outcome".to_owned(), json!(outcome));
        let answered = self.extensions.emit(Event { name, payload, cancel: None }).await;
        for author in &answered.authors {
            self.control.note_message(author, false, true);
        }
        let drafts = answered.field("entries").cloned().unwrap_or_else(|| json!([]));
        let drafts: Vec<Draft> = match serde_json::from_value(drafts) {
            Ok(drafts) => drafts,
            Err(error) => {
                self.extensions.report("<boundary>", name, &format!("Invalid boundary entries: {error}"));
                return Ok(false);
            }
        };
        for draft in drafts {
            if let Err(message) = self.append_draft(draft)? {
                self.extensions.report("<boundary>", name, &format!("Invalid boundary entries: {message}"));
                return Ok(false);
            }
        }
        let wanted = answered.field("continue").and_then(Value::as_bool).unwrap_or(false);
        if wanted && !self.can_continue() {
            let message = "the run cannot continue: the conversation does not end with a message for the model";
            self.extensions.report("<boundary>", name, message);
            return Ok(false);
        }
        Ok(wanted)
    }

    fn append_draft(&self, draft: Draft) -> Result<Result<(), String>, ControlError> {
        let known = |id: &EntryId| self.control.with_session(|session| session.place(id).is_some());
        let body = match draft {
            Draft::Custom { custom_type, data } => Body::Custom { custom_type, data },
            Draft::CustomMessage { custom_type, .. } if custom_type == crate::control::VERDICT_TYPE => {
                return Ok(Err(format!("the custom type {custom_type:?} is reserved")));
            }
            Draft::CustomMessage { custom_type, content, display, details } => {
                Body::CustomMessage { custom_type, content, display, details }
            }
            Draft::ContextEdit { target_id, .. } if !known(&target_id) => {
                return Ok(Err(format!("Entry {target_id} not found")));
            }
            Draft::ContextEdit { target_id, replacement } => Body::ContextEdit { target_id, replacement },
            Draft::Compaction { summary, first_kept_entry_id, details, usage } => {
                let seen = self.control.with_session(Session::seen)?;
                let branch = refs(&seen);
                let tokens_before = crate::tokens::of_conversation(&context::projection(&branch), &branch);
                let summary = Summary { text: summary, details, usage, first_kept: first_kept_entry_id, tokens_before };
                return self.control.append_compaction(summary, true).map(|_| Ok(()));
            }
        };
        self.control.append(body).map(|_| Ok(()))
    }

    /// Whether the model could be asked now: the conversation ends with something it can answer.
    fn can_continue(&self) -> bool {
        let Ok(messages) = self.messages() else { return false };
        let sent = context::request_messages(&messages);
        matches!(sent.last(), Some(RequestMessage::User(_) | RequestMessage::ToolResult { .. }))
            || !self.control.queued().is_empty()
    }

    /// The conversation as it stands, for handlers that decide whether it goes on.
    fn preview(&self) -> Result<Value, ControlError> {
        let seen = self.control.with_session(Session::seen)?;
        let branch = refs(&seen);
        let projection = context::projection(&branch);
        let entries: Vec<Value> = projection
            .iter()
            .map(|projected| json!({"sourceEntry": projected.entry.to_value(), "messages": projected.messages}))
            .collect();
        let messages: Vec<Message> = projection.into_iter().flat_map(|projected| projected.messages).collect();
        let sent: Vec<Value> = context::request_messages(&messages).iter().map(RequestMessage::to_value).collect();
        Ok(json!({
            "contextEntries": entries,
            "contextMessages": messages,
            "llmMessages": sent,
            "pendingMessages": self.control.queued(),
            "canContinue": self.can_continue(),
        }))
    }

    /// Brings the prompt of the run up to date with the tools that are active now.
    pub(crate) fn refresh_run_prompt(&self) {
        let base = self.base_prompt.borrow();
        if let Some(options) = &mut *self.run_prompt.borrow_mut() {
            options.selected_tools.clone_from(&base.selected_tools);
            for (name, snippet) in &base.tool_snippets {
                options.tool_snippets.entry(name.clone()).or_insert_with(|| snippet.clone());
            }
            for (name, bullets) in &base.tool_guidelines {
                options.tool_guidelines.entry(name.clone()).or_insert_with(|| bullets.clone());
            }
        }
    }
}
