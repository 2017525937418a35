//! Counts tokens of conversations: uses the provider's counts where available, and estimates otherwise.
//!
//! As in pi, a token is estimated as four characters, and an image as 4,800 characters, so that both programs make the same
//! decisions.

use crate::message::{AssistantMessage, Block, Content, Message, StopReason, SystemMessage, Usage};
use crate::provider::{Request, ToolDescription};
use serde_json::{Map, Value, json};

const CHARACTERS_PER_TOKEN: usize = 4;
const IMAGE_CHARACTERS: usize = 4800;

/// Estimates the tokens of a message.
pub fn estimate(message: &Message) -> u64 {
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

/// Returns the length of a text in UTF-16 units, as in JavaScript.
fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Returns the total number of tokens of a usage.
pub fn total(usage: &Usage) -> u64 {
    match usage.total_tokens {
        0 => usage.all(),
        total => total,
    }
}

/// Returns the provider's token count for a reply; `None` if the reply failed or has no count.
pub fn counted(reply: &AssistantMessage) -> Option<u64> {
    let failed = matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted);
    Some(total(&reply.usage)).filter(|tokens| !failed && *tokens > 0)
}

/// Returns the tokens of a request: the last count in its conversation plus an estimate of later messages, or an estimate of
/// everything. A summary that was inserted before a counted reply invalidates the reply's count.
pub fn of_request(request: &Request) -> u64 {
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
