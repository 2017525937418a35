//! How large the conversation is, in tokens: what the provider counted, and estimates for the rest.
//!
//! A token is taken for four characters and an image for 4,800, as pi does, so that both come to the
//! same decisions.

use crate::agent::Agent;
use crate::context::{self, Projected};
use crate::message::{AssistantMessage, Block, Content, Message, StopReason, SystemMessage, Usage};
use crate::provider::{Request, ToolDescription};
use crate::session::{Body, Entry, EntryId, Session, refs};
use crate::transcript;
use serde_json::{Map, Value, json};

const CHARACTERS_PER_TOKEN: usize = 4;
const IMAGE_CHARACTERS: usize = 4800;

/// Tokens of a message, estimated.
pub(crate) fn estimate(message: &Message) -> u64 {
    let characters = match message {
        Message::User(user) => of_content(&user.content),
        Message::Custom(custom) => of_content(&custom.content),
        Message::ToolResult(result) => of_content(&result.content),
        Message::Assistant(reply) => reply.content.iter().map(of_block).sum(),
        Message::BashExecution(run) => units(&run.command) + units(&run.output),
        Message::System(system) => of_system(system),
        Message::Other(value) => value.get("summary").and_then(Value::as_str).map_or(0, units),
    };
    characters.div_ceil(CHARACTERS_PER_TOKEN) as u64
}

fn of_content(content: &Content) -> usize {
    match content {
        Content::Text(text) => units(text),
        Content::Blocks(blocks) => blocks
            .iter()
            .map(|block| match block {
                Block::Image { .. } => IMAGE_CHARACTERS,
                Block::Text(block) => units(&block.text),
                _ => 0,
            })
            .sum(),
    }
}

fn of_system(system: &SystemMessage) -> usize {
    let sections = system.sections.iter().flat_map(Map::values).filter_map(Value::as_str).map(units).sum::<usize>();
    let tools = if system.tools_added.is_empty() { 0 } else { units(&json!(system.tools_added).to_string()) };
    of_content(&system.content) + sections + tools
}

fn of_block(block: &Block) -> usize {
    match block {
        Block::Text(block) => units(&block.text),
        Block::Thinking(block) => units(&block.thinking),
        Block::ToolCall(call) => units(&call.name) + units(&call.arguments.to_string()),
        Block::Image { .. } | Block::Other(_) => 0,
    }
}

/// Characters as JavaScript counts them.
fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// All tokens of a usage.
pub(crate) fn total(usage: &Usage) -> u64 {
    match usage.total_tokens {
        0 => usage.all(),
        total => total,
    }
}

/// What the provider counted for a reply, if that can be trusted.
fn counted(reply: &AssistantMessage) -> Option<u64> {
    let failed = matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted);
    Some(total(&reply.usage)).filter(|tokens| !failed && *tokens > 0)
}

/// Tokens of a conversation: the last count, if nothing was taken away since, and what came after it.
pub(crate) fn of_conversation(projection: &[Projected<'_>], branch: &[&Entry]) -> u64 {
    let last = projection.iter().enumerate().rev().find_map(|(at, projected)| {
        projected.messages.iter().find_map(|message| match message {
            Message::Assistant(reply) => Some((at, projected.entry, counted(reply)?)),
            _ => None,
        })
    });
    let place = |id: &EntryId| branch.iter().position(|entry| entry.id == *id);
    let changed =
        branch.iter().rposition(|entry| matches!(entry.body, Body::ContextEdit { .. } | Body::Compaction { .. }));
    let trusted = last.filter(|(_, entry, _)| changed.is_none_or(|changed| place(&entry.id) > Some(changed)));
    let messages = |from: usize| projection[from..].iter().flat_map(|projected| &projected.messages);
    match trusted {
        Some((at, _, tokens)) => tokens.saturating_add(messages(at + 1).map(estimate).sum()),
        None => {
            let system = transcript::holds(messages(0).filter_map(transcript::system));
            let said = messages(0).filter(|message| transcript::system(message).is_none());
            system.map_or(0, |system| estimate(&Message::System(system))) + said.map(estimate).sum::<u64>()
        }
    }
}

/// Tokens of a request: the last count of its conversation and what came after it, or all of it estimated. What was put in
/// front of a counted reply later, a summary, makes that count worthless.
pub(crate) fn of_request(request: &Request) -> u64 {
    let mut newest = None;
    let mut last = None;
    for (at, message) in request.conversation.iter().enumerate() {
        let told = match message {
            Message::User(user) => Some(user.timestamp),
            Message::ToolResult(result) => Some(result.timestamp),
            Message::Assistant(reply) => {
                if let Some(tokens) = counted(reply).filter(|_| newest <= Some(reply.timestamp)) {
                    last = Some((at, tokens));
                }
                Some(reply.timestamp)
            }
            _ => None,
        };
        newest = newest.max(told);
    }
    if let Some((at, tokens)) = last {
        return tokens.saturating_add(request.conversation[at + 1..].iter().map(estimate).sum());
    }
    let tokens = |characters: usize| characters.div_ceil(CHARACTERS_PER_TOKEN) as u64;
    let tool = |tool: &ToolDescription| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let told = if tools.is_empty() { 0 } else { tokens(units(&Value::Array(tools).to_string())) };
    tokens(units(&request.system)) + told + request.conversation.iter().map(estimate).sum::<u64>()
}

impl Agent {
    /// What `ctx.getContextUsage()` answers: `null` when the model's window is not known.
    pub(crate) fn context_usage(&self) -> Value {
        let Some(window) = self.control.model().and_then(|model| model.context_window()) else { return Value::Null };
        // What cannot be read is told to whoever asks the model; here its size is not known.
        let Ok(seen) = self.control.with_session(Session::seen) else { return Value::Null };
        let branch = refs(&seen);
        let projection = context::projection(&branch);
        let compacted = branch.iter().rposition(|entry| matches!(entry.body, Body::Compaction { .. }));
        let counted_since = |compacted: usize| {
            branch[compacted + 1..].iter().any(|entry| match &entry.body {
                Body::Message { message: Message::Assistant(reply) } => counted(reply).is_some(),
                _ => false,
            })
        };
        if compacted.is_some_and(|compacted| !counted_since(compacted)) {
            // The last count is of the conversation before it was summarised.
            return json!({"tokens": null, "contextWindow": window, "percent": null});
        }
        let tokens = of_conversation(&projection, &branch);
        // An integer stays one, as in JavaScript.
        let percent = tokens as f64 / window as f64 * 100.0;
        json!({"tokens": tokens, "contextWindow": window, "percent": percent})
    }

    pub(crate) fn publish_usage(&self) {
        self.control.publish("contextUsage", self.context_usage());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::testing;
    use std::path::Path;

    fn reply(tokens: u64) -> Message {
        Message::Assistant(AssistantMessage {
            content: vec![Block::text("abcd")],
            api: String::new(),
            provider: String::new(),
            model: String::new(),
            usage: Usage { total_tokens: tokens, ..Usage::default() },
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp: 0,
            extra: Map::new(),
        })
    }

    fn tokens(session: &Session) -> u64 {
        let entries = session.branch(None).unwrap();
        let branch = refs(&entries);
        of_conversation(&context::projection(&branch), &branch)
    }

    #[test]
    fn a_count_is_trusted_until_something_is_taken_away() {
        let mut session = Session::in_memory(Path::new("/w"), testing::ambient());
        let first = session.append_message(&Message::user("12345678", 0)).unwrap().id.clone();
        assert_eq!(tokens(&session), 2);
        session.append_message(&reply(100)).unwrap();
        session.append_message(&Message::user("12345", 0)).unwrap();
        assert_eq!(tokens(&session), 102);
        session.append(Body::ContextEdit { target_id: first, replacement: Value::Null }).unwrap();
        assert_eq!(tokens(&session), 1 + 2);
    }

    #[test]
    fn characters_are_counted_as_javascript_counts_them() {
        assert_eq!(estimate(&Message::user("😀😀", 0)), 1);
        let image = Block::Image { data: "AA==".into(), mime_type: "image/png".into() };
        let user = crate::message::UserMessage { content: vec![image].into(), timestamp: 0 };
        assert_eq!(estimate(&Message::User(user)), 1200);
    }
}
