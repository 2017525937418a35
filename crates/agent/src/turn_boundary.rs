//! The end of a turn and of a run, at which handlers may append entries and continue the run.
//!
//! Handlers of `turn_end` and `agent_before_settle` return `{entries?, continue?}`. Each handler sees the drafts of the handlers
//! before it and the resulting conversation. Drafts become session entries after all handlers have returned; `continue` has an
//! effect only if the conversation then ends with a message to which the model can reply.

use crate::agent::Agent;
use crate::control::is_reserved;
use crate::events::AgentEvent;
use crate::extensions::Event;
use crate::outcome::{AgentError, ControlError, Ending};
use pijs_inputs::Inputs;
use pijs_llm::conversation;
use pijs_llm::message::{Block, Content, Message, ToolResultMessage};
use pijs_protocol::guard;
use pijs_session_store::context;
use pijs_session_store::summary::ConversationSummary;
use pijs_session_store::{Body, Entry, EntryId, Session, refs};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// An entry drafted by a handler.
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
    #[serde(other)]
    Unknown,
}

fn invalid(message: &str) -> String {
    format!("Invalid boundary entries: {message}")
}

impl Agent {
    /// Emits `turn_end`. Returns whether a handler requests another reply of the model.
    pub(crate) async fn end_turn(
        &self,
        index: u32,
        message: &Message,
        entry: Option<EntryId>,
        tool_results: &[ToolResultMessage],
        result_entries: Vec<EntryId>,
    ) -> Result<bool, AgentError> {
        let event = AgentEvent::TurnEnd { index, message, tool_results };
        let mut charge_last_speaker = false;
        if self.extensions.has_handlers("turn_end") {
            let mut payload = event.payload();
            let outcome = match message {
                Message::Assistant(reply) => match reply.stop_reason {
                    pijs_llm::message::StopReason::Aborted => "aborted",
                    pijs_llm::message::StopReason::Error => "error",
                    _ => "completed",
                },
                _ => "completed",
            };
            payload.insert("messageEntryId".to_owned(), json!(entry));
            payload.insert("toolResultEntryIds".to_owned(), json!(result_entries));
            charge_last_speaker = self.boundary("turn_end", payload, outcome).await?;
        }
        self.end_rules_of_turn()?;
        self.emit_to_front_end(&event)?;
        self.control.flush_after_turn()?;
        self.control.sync_session()?;
        Ok(charge_last_speaker)
    }

    /// Emits `agent_before_settle`. Returns whether the run continues.
    pub(crate) async fn before_settle(&self, ending: &Ending) -> Result<bool, AgentError> {
        if !self.extensions.has_handlers("agent_before_settle") {
            return Ok(false);
        }
        let outcome = match ending {
            Ending::Aborted => "aborted",
            Ending::Failed(_) => "error",
            _ => "completed",
        };
        let charge_last_speaker = self.boundary("agent_before_settle", Map::new(), outcome).await?;
        self.control.flush_after_turn()?;
        Ok(charge_last_speaker || self.control.inputs(Inputs::has_queued))
    }

    async fn boundary(
        &self,
        name: &'static str,
        mut payload: Map<String, Value>,
        outcome: &str,
    ) -> Result<bool, AgentError> {
        payload.insert("outcome".to_owned(), json!(outcome));
        payload.insert("entries".to_owned(), json!([]));
        payload.insert("continue".to_owned(), json!(false));
        payload.insert("context".to_owned(), self.preview(name, &[])?);
        let mut drafted = Ok(Vec::new());
        let mut between = |payload: &mut Map<String, Value>| -> Result<(), String> {
            drafted = self.drafted(payload.get("entries"));
            let entries = drafted.as_ref().map_err(Clone::clone)?;
            let context = self.preview(name, entries).map_err(|error| error.to_string())?;
            payload.insert("context".to_owned(), context);
            Ok(())
        };
        let event = Event { name, payload, cancel: None };
        let answered = self.extensions.emit_between(event, &mut between).await;
        self.messages_read().await;
        for author in &answered.authors {
            self.control.note_message(author, true);
        }
        let Ok(drafted) = drafted else { return Ok(false) };
        for mut entry in drafted {
            if guard!(AttributionAuthor) {
                entry.authors.extend(answered.authors.iter().cloned());
            }
            let id = self.control.append_drafted(entry)?;
            self.show_appended(&id)?;
        }
        self.publish_usage();
        let wanted = answered.field("continue").and_then(Value::as_bool).unwrap_or(false);
        if wanted && self.preview(name, &[])?["canContinue"] != true {
            let message = format!("{name} requested continuation without runnable model context");
            self.extensions.report("<boundary>", name, &message);
            return Ok(false);
        }
        Ok(wanted)
    }

    /// Reports a new entry that is not a message to front ends.
    pub(crate) fn show_appended(&self, id: &EntryId) -> Result<(), AgentError> {
        let entry = self.control.with_session(|session| session.entry(id)).map_err(ControlError::from)?;
        let payload = json!({"entry": entry.map(|entry| entry.to_value())});
        self.emit_to_front_end(&AgentEvent::Notice { name: "entry_appended", payload: &payload })
    }

    /// Converts drafts to entries. The error is the message that handlers see.
    fn drafted(&self, drafts: Option<&Value>) -> Result<Vec<Entry>, String> {
        let drafts = match drafts {
            Some(Value::Array(drafts)) => drafts.as_slice(),
            // pi iterates over the value; the characters of a string are drafts of an unknown kind, which are ignored.
            None | Some(Value::String(_)) => &[],
            Some(_) => return Err(invalid("drafts is not iterable")),
        };
        let kinds = drafts.iter().filter(|draft| draft.get("type").is_some_and(Value::is_string) || draft.is_null());
        let drafts = kinds.map(|draft| serde_json::from_value(draft.clone()));
        let drafts: Vec<Draft> = drafts.collect::<Result<_, _>>().map_err(|error| invalid(&error.to_string()))?;
        let mut entries = Vec::new();
        for draft in drafts {
            // Temporary ids for the preview; the session assigns others.
            let id = EntryId(format!("{:08x}", u32::MAX - u32::try_from(entries.len()).unwrap_or(u32::MAX)));
            let Some(body) = self.body_of(draft, &id, &entries).map_err(|error| invalid(&error))? else { continue };
            entries.push(Entry {
                id,
                parent: None,
                timestamp: self.options.ambient.now_iso(),
                body,
                authors: BTreeSet::new(),
                is_edited: false,
            });
        }
        Ok(entries)
    }

    /// Returns the entry body of a draft that follows the drafts `before`; `None` for an unknown kind.
    fn body_of(&self, draft: Draft, own: &EntryId, before: &[Entry]) -> Result<Option<Body>, String> {
        Ok(Some(match draft {
            Draft::Custom { custom_type, .. } | Draft::CustomMessage { custom_type, .. }
                if is_reserved(&custom_type) =>
            {
                return Err(format!("the custom type {custom_type:?} is reserved"));
            }
            Draft::Custom { custom_type, data } => Body::Custom { custom_type, data },
            Draft::CustomMessage { custom_type, content, display, details } => {
                Body::CustomMessage { custom_type, content, display: Some(display), details }
            }
            Draft::ContextEdit { target_id, replacement } => {
                let replacement = self.replacement(&target_id, replacement)?;
                Body::ContextEdit { target_id, replacement }
            }
            Draft::Compaction { summary, first_kept_entry_id, details, usage } => {
                let seen = self.control.with_session(Session::seen).map_err(|error| error.to_string())?;
                let branch: Vec<&Entry> = refs(&seen).into_iter().chain(before).collect();
                let tokens_before = crate::tokens::of_conversation(&context::projection(&branch), &branch);
                let first_kept = first_kept_entry_id.or_else(|| Some(own.clone()));
                let summary = ConversationSummary { text: summary, details, usage, first_kept, tokens_before };
                self.control.compaction(summary, true, &branch)
            }
            Draft::Unknown => return Ok(None),
        }))
    }

    /// Checks a replacement for the content of an entry, and returns it in the form of the session file.
    fn replacement(&self, target: &EntryId, replacement: Value) -> Result<Value, String> {
        let content = replacement.get("content");
        if !replacement.is_null() && !content.is_some_and(|content| content.is_string() || content.is_array()) {
            return Err("Context edit replacement must be null or contain string/array content".to_owned());
        }
        let (entry, is_on_branch) = self.control.with_session(|session| {
            let on = session.leaf().and_then(|leaf| session.common_ancestor(leaf, target)).as_ref() == Some(target);
            (session.entry(target), on)
        });
        let entry = entry.map_err(|error| error.to_string())?.ok_or_else(|| format!("Entry {target} not found"))?;
        if !is_on_branch {
            return Err(format!("Entry {target} is not on the active branch"));
        }
        match (&entry.body, content.and_then(Value::as_str)) {
            (Body::Message { message: Message::Assistant(_) | Message::ToolResult(_) }, Some(text)) => {
                Ok(json!({"content": [Block::text(text)]}))
            }
            (Body::Message { message: Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) }, _)
            | (Body::CustomMessage { .. }, _) => Ok(replacement),
            _ => Err(format!("Entry {target} does not contribute editable model content")),
        }
    }

    /// Returns a preview of the conversation with these drafted entries, for handlers.
    fn preview(&self, boundary: &str, drafted: &[Entry]) -> Result<Value, ControlError> {
        let seen = self.control.with_session(Session::seen)?;
        let branch: Vec<&Entry> = refs(&seen).into_iter().chain(drafted).collect();
        let projection = context::projection(&branch);
        let entries: Vec<Value> = projection
            .iter()
            .map(|projected| json!({"sourceEntry": projected.entry.to_value(), "messages": projected.messages}))
            .collect();
        let messages: Vec<Message> = projection.into_iter().flat_map(|projected| projected.messages).collect();
        let sent = conversation::for_models(&messages);
        let is_said = |message: &Message| !matches!(message, Message::System(_));
        let awaits_reply = sent.iter().any(is_said) && !matches!(sent.last(), Some(Message::Assistant(_)));
        let (next, by_the_way) = {
            let settings = self.settings.borrow();
            self.control.inputs(|inputs| inputs.next_queued(settings.steer_all, settings.follow_up_all))
        };
        let goes_on_with_queue = !next.is_empty() && (boundary == "turn_end" || !awaits_reply);
        Ok(json!({
            "contextEntries": entries,
            "contextMessages": messages,
            "llmMessages": sent,
            "pendingMessages": next.iter().chain(&by_the_way).collect::<Vec<_>>(),
            "canContinue": awaits_reply || !by_the_way.is_empty() || goes_on_with_queue,
        }))
    }

    /// Updates the prompt of the run to list the active tools.
    pub(crate) fn refresh_run_prompt(&self) {
        let base = self.prompt.of_session.borrow();
        if let Some(options) = &mut *self.prompt.of_run.borrow_mut() {
            options.selected_tools.clone_from(&base.selected_tools);
            for (name, snippet) in &base.tool_snippets {
                options.tool_snippets.entry(name.clone()).or_insert_with(|| snippet.clone());
            }
            for (name, bullets) in &base.tool_guidelines {
                options.tool_guidelines.entry(name.clone()).or_insert_with(|| bullets.clone());
            }
        }
        drop(base);
        // Keeps the prompt that extensions see consistent with the prompt that the provider gets.
        self.publish_prompt();
    }
}
