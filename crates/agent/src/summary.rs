//! Writes summaries of a conversation, of the beginning of a turn, and of an abandoned branch.
//!
//! The conversation is sent as one quoted text, so that the model does not continue it. Files that tool calls read or changed are
//! appended to the summary.

use crate::agent::Agent;
use pijs_llm::conversation;
use pijs_llm::message::{AssistantMessage, Block, Message, StopReason, Usage};
use pijs_llm::provider::{Request, RequestMessage};
use pijs_session_store::context;
use pijs_session_store::{Body, Entry};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum number of characters of a tool's result that are included.
const RESULT_CHARACTERS: usize = 2000;
/// Token limit of a branch summary.
const BRANCH_TOKENS: u64 = 4096;
/// Context window of models whose limit is unknown.
const DEFAULT_WINDOW: u64 = 128_000;

/// Text and usage of a summary; the usage is `None` if no request was made.
#[derive(Debug, Clone)]
pub(crate) struct SummaryText {
    pub(crate) text: String,
    pub(crate) usage: Option<Usage>,
}

/// Files that tool calls named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileOps {
    read: BTreeSet<String>,
    written: BTreeSet<String>,
    edited: BTreeSet<String>,
}

impl FileOps {
    /// Adds the files of a message's tool calls.
    pub(crate) fn note(&mut self, message: &Message) {
        let Message::Assistant(reply) = message else { return };
        for call in reply.tool_calls() {
            let Some(path) = call.arguments.get("path").and_then(Value::as_str) else { continue };
            let files = match call.name.as_str() {
                "read" => &mut self.read,
                "write" => &mut self.written,
                "edit" => &mut self.edited,
                _ => continue,
            };
            files.insert(path.to_owned());
        }
    }

    /// Adds the files of an earlier summary, unless an extension wrote it.
    pub(crate) fn take_over(&mut self, entry: &Entry) {
        let (Body::Compaction { extra, .. } | Body::BranchSummary { extra, .. }) = &entry.body else { return };
        if extra.get("fromHook").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let files = |key: &str| -> Vec<String> {
            let listed = extra.get("details").and_then(|details| details.get(key)).and_then(Value::as_array);
            listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        self.read.extend(files("readFiles"));
        self.edited.extend(files("modifiedFiles"));
    }

    fn lists(&self) -> (Vec<&str>, Vec<&str>) {
        let modified: BTreeSet<&str> = self.edited.iter().chain(&self.written).map(String::as_str).collect();
        let read = self.read.iter().map(String::as_str).filter(|file| !modified.contains(file)).collect();
        (read, modified.into_iter().collect())
    }

    /// Returns the tagged list of files that is appended to a summary.
    pub(crate) fn tags(&self) -> String {
        let (read, modified) = self.lists();
        let mut text = String::new();
        for (tag, files) in [("read-files", read), ("modified-files", modified)] {
            if !files.is_empty() {
                text.push_str(&format!("\n\n<{tag}>\n{}\n</{tag}>", files.join("\n")));
            }
        }
        text
    }

    /// Returns the `details` member of a summary entry.
    pub(crate) fn details(&self) -> Value {
        let (read, modified) = self.lists();
        json!({"readFiles": read, "modifiedFiles": modified})
    }

    /// Returns the files for handlers.
    pub(crate) fn to_value(&self) -> Value {
        json!({"read": self.read, "written": self.written, "edited": self.edited})
    }
}

/// Formats a conversation as text, including aborted replies and calls without a result.
pub(crate) fn conversation_text(messages: &[Message]) -> String {
    let parts: Vec<String> = messages.iter().flat_map(part).collect();
    parts.join("\n\n")
}

fn part(message: &Message) -> Vec<String> {
    if let Message::Custom(custom) = message
        && let RequestMessage::System(text) = conversation::custom_message(custom)
    {
        return vec![format!("[System]: {text}")];
    }
    match conversation::for_models(std::slice::from_ref(message)).pop() {
        Some(Message::User(user)) => {
            let whole = text(&user.content.blocks(), "");
            some(format!("[User]: {whole}"), whole.is_empty())
        }
        Some(Message::ToolResult(result)) => {
            let whole = text(&result.content.blocks(), "");
            let shown: String = whole.chars().take(RESULT_CHARACTERS).collect();
            let rest = whole.chars().count().saturating_sub(RESULT_CHARACTERS);
            let tail = if rest == 0 { String::new() } else { format!("\n\n[... {rest} more characters truncated]") };
            some(format!("[Tool result]: {shown}{tail}"), whole.is_empty())
        }
        Some(Message::Assistant(reply)) => parts_of_reply(&reply.content),
        _ => Vec::new(),
    }
}

fn parts_of_reply(blocks: &[Block]) -> Vec<String> {
    let mut parts = Vec::new();
    let thinking: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Thinking(block) => Some(block.thinking.as_str()),
            _ => None,
        })
        .collect();
    if !thinking.is_empty() {
        parts.push(format!("[Assistant thinking]: {}", thinking.join("\n")));
    }
    if blocks.iter().any(|block| block.as_text().is_some()) {
        parts.push(format!("[Assistant]: {}", text(blocks, "\n")));
    }
    let calls: Vec<String> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => {
                let arguments = call.arguments.as_object().into_iter().flatten();
                let arguments: Vec<String> = arguments.map(|(key, value)| format!("{key}={value}")).collect();
                Some(format!("{}({})", call.name, arguments.join(", ")))
            }
            _ => None,
        })
        .collect();
    if !calls.is_empty() {
        parts.push(format!("[Assistant tool calls]: {}", calls.join("; ")));
    }
    parts
}

fn text(blocks: &[Block], between: &str) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join(between)
}

fn some(part: String, empty: bool) -> Vec<String> {
    if empty { Vec::new() } else { vec![part] }
}

impl Agent {
    /// Summarises a conversation, based on an earlier summary if there is one.
    pub(crate) async fn summary_of(
        &self,
        messages: &[Message],
        previous: Option<&str>,
        instructions: Option<&str>,
        reserve_tokens: u64,
        cancel: &CancellationToken,
    ) -> Result<SummaryText, String> {
        let words = &self.words().summaries;
        let mut prompt = format!("<conversation>\n{}\n</conversation>\n\n", conversation_text(messages));
        if let Some(previous) = previous {
            prompt.push_str(&format!("<previous-summary>\n{previous}\n</previous-summary>\n\n"));
        }
        prompt.push_str(if previous.is_some() { &words.update } else { &words.form });
        if let Some(instructions) = instructions.filter(|text| !text.is_empty()) {
            prompt.push_str(&format!("\n\nAdditional focus: {instructions}"));
        }
        self.asked("Summarization", prompt, reserve_tokens.saturating_mul(4) / 5, cancel).await
    }

    /// Summarises the beginning of a turn.
    pub(crate) async fn summary_of_turn(
        &self,
        messages: &[Message],
        reserve_tokens: u64,
        cancel: &CancellationToken,
    ) -> Result<SummaryText, String> {
        let turn = &self.words().summaries.turn;
        let prompt = format!("# Conversation\n{}\n\n# Instructions\n{turn}", conversation_text(messages));
        self.asked("Turn prefix summarization", prompt, reserve_tokens / 2, cancel).await
    }

    /// Summarises a branch; returns the summary and its details.
    pub(crate) async fn summary_of_branch(
        &self,
        entries: &[Arc<Entry>],
        instructions: Option<&str>,
        replace: bool,
        cancel: &CancellationToken,
    ) -> Result<(SummaryText, Value), String> {
        let window = self.control.model().and_then(|model| model.context_window()).unwrap_or(DEFAULT_WINDOW);
        let budget = window.saturating_sub(self.settings.borrow().compaction.reserve_tokens);
        let mut files = FileOps::default();
        entries.iter().for_each(|entry| files.take_over(entry));
        let mut messages: Vec<Message> = Vec::new();
        let mut used = 0;
        // Newest first, because these matter most if not all of them fit.
        for message in entries.iter().rev().filter_map(|entry| context::message_of(entry)) {
            if matches!(message, Message::ToolResult(_)) {
                continue;
            }
            files.note(&message);
            used += pijs_llm::tokens::estimate(&message);
            if used > budget {
                break;
            }
            messages.push(message);
        }
        messages.reverse();
        if messages.is_empty() {
            let written = SummaryText { text: "No content to summarize".to_owned(), usage: None };
            return Ok((written, files.details()));
        }
        let instructions = instructions.filter(|text| !text.is_empty());
        let words = self.words();
        let branch = &words.summaries.branch;
        let asked = match instructions {
            Some(instructions) if replace => instructions.to_owned(),
            Some(instructions) => format!("{branch}\n\nAdditional focus: {instructions}"),
            None => branch.clone(),
        };
        let prompt = format!("<conversation>\n{}\n</conversation>\n\n{asked}", conversation_text(&messages));
        let SummaryText { text, usage } = self.asked("Branch summarization", prompt, BRANCH_TOKENS, cancel).await?;
        let text = format!("{}{text}{}", words.summaries.branch_head, files.tags());
        Ok((SummaryText { text, usage }, files.details()))
    }

    async fn asked(
        &self,
        what: &str,
        prompt: String,
        max_tokens: u64,
        cancel: &CancellationToken,
    ) -> Result<SummaryText, String> {
        let provider = self.provider();
        let limit = provider.model().max_tokens().map_or(max_tokens, |limit| limit.min(max_tokens));
        let request = Request {
            system: self.words().summaries.system.clone(),
            messages: vec![RequestMessage::user(prompt.clone())],
            conversation: vec![Message::user(prompt, self.now())],
            transcript: Vec::new(),
            tools: Vec::new(),
            thinking: Some(self.control.thinking()).filter(|level| level != "off"),
            max_tokens: Some(limit),
            session: None,
        };
        if cancel.is_cancelled() {
            // A request that was cancelled before it was sent has failed; only one in flight is aborted.
            return Err(format!("{what} failed: This operation was aborted"));
        }
        let reply = self.request_once(&*provider, &request, cancel.clone()).await;
        usable(what, &reply)?;
        let text = reply.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
        Ok(SummaryText { text, usage: Some(reply.usage) })
    }
}

/// Checks that a reply is complete and contains text.
fn usable(what: &str, reply: &AssistantMessage) -> Result<(), String> {
    match reply.stop_reason {
        StopReason::Error => {
            Err(format!("{what} failed: {}", reply.error_message.as_deref().unwrap_or("Unknown error")))
        }
        StopReason::Aborted => Err("Compaction cancelled".to_owned()),
        StopReason::Length => Err(format!("{what} failed: generation hit the token cap and the summary is incomplete")),
        StopReason::ToolUse | StopReason::Stop if reply.tool_calls().next().is_some() => {
            Err(format!("{what} attempted to call a tool"))
        }
        StopReason::ToolUse | StopReason::Stop | StopReason::Pending => Ok(()),
    }
}

/// Returns a member of a handler's summary; null is treated as absent.
pub(crate) fn given(theirs: &Value, key: &str) -> Option<Value> {
    theirs.get(key).filter(|value| !value.is_null()).cloned()
}
