//! An assistant message during streaming.
//!
//! [`Partial`] takes the events that passed all checks, in order, and returns the changes as [`Step`]s, from which updates for
//! front ends are derived. A verdict drops the whole value; no other state refers to it.

use crate::argument_paths::ArgumentPaths;
use crate::message::bytes_of;
use crate::message::{AssistantMessage, Block, Cost, Message, StopReason, TextBlock, ThinkingBlock, ToolCall, Usage};
use crate::provider::adapt::{CALL_SIGNATURE, TEXT_SIGNATURE};
use crate::provider::{ErrorKind, Model, Note, ProviderError, ProviderEvent, SignedBlock};
use crate::streaming_json;
use crate::update::{Update, UpdateKind};
use pijs_protocol::wire::count_values;
use pijs_protocol::{StreamSource, guard};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of tool calls of one reply. More indicate a malfunctioning model or server.
const MAX_CALLS: usize = 128;

/// Maximum size of one reply as JSON text, in bytes; ten times the size of real replies. The host keeps it in memory, writes it
/// to the session and passes it to every realm in one message together with earlier replies.
const MAX_BYTES: usize = 8 << 20;

/// A change of the message.
#[derive(Debug)]
pub enum Step {
    /// A block began.
    Start(usize),
    /// Text was added to a block.
    Delta(usize, String),
    /// A block is complete.
    End(usize),
}

/// A reply during streaming.
pub struct Partial {
    model: Model,
    /// The message so far.
    pub message: AssistantMessage,
    /// The text or thinking block that the next piece continues.
    open: Option<usize>,
    /// Whether a block of each kind continues wherever its pieces arrive, and all blocks end with the reply.
    is_interleaved: bool,
    /// Whether arguments are added to the message only after their call has ended.
    calls_stay_empty: bool,
    calls: Vec<PartialCall>,
    text_units: usize,
    thinking_units: usize,
    /// Approximate size as JSON text, in bytes.
    bytes: usize,
}

/// A view of an incomplete assistant message for front ends and extensions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartialMessage<'a> {
    message: &'a AssistantMessage,
    /// Calls with unparsed arguments. They are parsed on demand, because parsing takes time proportional to their length.
    calls: &'a [PartialCall],
}

impl<'a> PartialMessage<'a> {
    /// Returns the tokens so far.
    pub fn usage(self) -> &'a Usage {
        &self.message.usage
    }

    /// Returns the tool call at this position.
    pub fn call(self, index: usize) -> Option<&'a ToolCall> {
        match self.message.content.get(index)? {
            Block::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the message without its content.
    pub fn head(self) -> Value {
        let head = AssistantMessage {
            content: Vec::new(),
            api: self.message.api.clone(),
            provider: self.message.provider.clone(),
            model: self.message.model.clone(),
            usage: self.message.usage,
            stop_reason: self.message.stop_reason,
            error_message: self.message.error_message.clone(),
            timestamp: self.message.timestamp,
            extra: self.message.extra.clone(),
        };
        Message::Assistant(head).to_value()
    }

    /// Returns a block in its current state.
    pub fn block(self, index: usize) -> Value {
        let Some(mut block) = self.message.content.get(index).cloned() else { return Value::Null };
        self.complete(index, &mut block);
        json!(block)
    }

    /// Returns whether a piece of text is the whole block.
    pub fn is_all(self, index: usize, piece: &str) -> bool {
        match self.message.content.get(index) {
            Some(Block::Text(block)) => block.text.len() == piece.len(),
            Some(Block::Thinking(block)) => block.thinking.len() == piece.len(),
            _ => false,
        }
    }

    /// Sets the arguments of a call to the part that has arrived so far.
    fn complete(self, index: usize, block: &mut Block) {
        if let (Block::ToolCall(call), Some(arguments)) = (block, self.arguments(index)) {
            call.arguments = arguments;
        }
    }

    /// Returns the message in its current state, with parsed arguments.
    pub fn so_far(self) -> AssistantMessage {
        let mut message = self.message.clone();
        message.content.iter_mut().enumerate().for_each(|(index, block)| self.complete(index, block));
        message
    }

    /// Returns the parsed arguments of an incomplete call.
    pub fn arguments(self, block: usize) -> Option<Value> {
        let call = self.calls.iter().find(|call| call.block == block && !call.is_ended)?;
        Some(streaming_json::so_far(&call.json))
    }
}

#[derive(Debug, PartialEq)]
struct PartialCall {
    /// Index of the call in the provider's stream.
    index: u32,
    /// Index of the call's block in the message.
    block: usize,
    /// JSON text of the arguments.
    json: String,
    units: usize,
    paths: ArgumentPaths,
    /// Whether the end of the call was reported.
    is_ended: bool,
}

/// Returns the size that an event adds to a reply as JSON text.
fn weight(event: &ProviderEvent) -> usize {
    let text = |text: &str| {
        let escaped = |byte: u8| match byte {
            0..=0x1f => 6,
            b'"' | b'\\' => 2,
            _ => 1,
        };
        text.bytes().map(escaped).sum()
    };
    match event {
        ProviderEvent::Text(chunk) | ProviderEvent::Thinking(chunk) => text(chunk),
        ProviderEvent::ToolCall { arguments, .. } => text(arguments),
        ProviderEvent::Note(Note::ThinkingSignature(piece)) => text(piece),
        ProviderEvent::Note(Note::Signed(_, signature)) => text(signature),
        // A new usage replaces the previous one.
        ProviderEvent::Note(Note::Members(members)) => {
            bytes_of(members.iter().filter(|(key, _)| *key != "usage").map(|(_, value)| value))
        }
        ProviderEvent::RulesOnly(event) => weight(event),
        _ => 0,
    }
}

impl PartialCall {
    /// Returns the arguments so far as JSON text; an empty object without any.
    fn text(&self) -> &str {
        if self.json.trim().is_empty() { "{}" } else { &self.json }
    }
}

impl Partial {
    /// Begins a reply of a model. `timestamp` is in milliseconds since 1970.
    pub fn new(model: &Model, timestamp: u64) -> Self {
        let message = AssistantMessage {
            content: Vec::new(),
            api: model.api.clone(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Pending,
            error_message: None,
            timestamp,
            extra: Map::new(),
        };
        Self {
            model: model.clone(),
            message,
            open: None,
            is_interleaved: false,
            calls_stay_empty: false,
            calls: Vec::new(),
            text_units: 0,
            thinking_units: 0,
            bytes: 0,
        }
    }

    /// Adds the size of an event before it is applied, and returns it. Fails when the reply exceeds its size limit.
    pub fn has_room_for(&mut self, event: &ProviderEvent) -> Result<usize, ProviderError> {
        let bytes = weight(event);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES && guard!(ReplySize) {
            let message = format!("the reply is larger than {} MB", MAX_BYTES >> 20);
            return Err(ProviderError::new(ErrorKind::TooLarge, message));
        }
        Ok(bytes)
    }

    /// Returns the number of UTF-16 units of one stream so far.
    pub fn offset(&self, source: StreamSource, stream: u32) -> usize {
        match source {
            StreamSource::Text => self.text_units,
            StreamSource::Thinking => self.thinking_units,
            StreamSource::Tool => self.call(stream).map_or(0, |call| call.units),
        }
    }

    /// Returns the output tokens so far, estimated at four bytes per token until the provider reports them.
    pub fn tokens(&self, dropped: usize) -> u64 {
        let bytes: usize = self
            .message
            .content
            .iter()
            .map(|block| match block {
                Block::Text(block) => block.text.len(),
                Block::Thinking(block) => block.thinking.len(),
                _ => 0,
            })
            .sum::<usize>()
            + self.calls.iter().map(|call| call.json.len()).sum::<usize>()
            + dropped;
        self.message.usage.output.max(bytes.div_ceil(4) as u64)
    }

    /// Returns the name and paths of a tool call, including this piece of its arguments.
    pub fn tool_facts(&mut self, index: u32, chunk: &str) -> (Option<String>, Vec<String>) {
        let Some(call) = self.calls.iter_mut().find(|call| call.index == index) else { return (None, Vec::new()) };
        call.paths.catch_up(&call.json);
        call.paths.push(chunk);
        let name = match &self.message.content[call.block] {
            Block::ToolCall(call) => Some(call.name.clone()),
            _ => None,
        };
        (name, call.paths.found().to_vec())
    }

    /// Returns a copy of a call's path scanner, which continues with text that has arrived but is not applied yet.
    pub fn paths_of(&self, index: u32) -> ArgumentPaths {
        self.calls.iter().find(|call| call.index == index).map(|call| call.paths.clone()).unwrap_or_default()
    }

    /// Adds a piece of text; returns the changes.
    pub fn push_text(&mut self, chunk: String) -> Vec<Step> {
        self.text_units += chunk.encode_utf16().count();
        let open = self.standing(|block| matches!(block, Block::Text(_)));
        let (at, mut steps) = self.continue_or_begin(open, || Block::Text(TextBlock::default()));
        if let Block::Text(block) = &mut self.message.content[at] {
            block.text.push_str(&chunk);
        }
        steps.push(Step::Delta(at, chunk));
        steps
    }

    /// Adds a piece of thinking; returns the changes.
    pub fn push_thinking(&mut self, chunk: String) -> Vec<Step> {
        self.thinking_units += chunk.encode_utf16().count();
        let open = self.standing(|block| matches!(block, Block::Thinking(_)));
        let (at, mut steps) = self.continue_or_begin(open, || Block::Thinking(ThinkingBlock::default()));
        if let Block::Thinking(block) = &mut self.message.content[at] {
            block.thinking.push_str(&chunk);
        }
        steps.push(Step::Delta(at, chunk));
        steps
    }

    /// Returns the block that a piece of this kind continues.
    fn standing(&self, is_kind: impl Fn(&Block) -> bool) -> Option<usize> {
        if self.is_interleaved {
            return self.message.content.iter().position(is_kind);
        }
        self.open.filter(|at| is_kind(&self.message.content[*at]))
    }

    /// Applies a note, which is not a part of the content.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Interleaved => self.is_interleaved = true,
            Note::CallsStayEmpty => self.calls_stay_empty = true,
            Note::ThinkingSignature(piece) => self.sign_thinking(&piece),
            Note::Signed(signs, signature) => self.sign(signs, signature),
            Note::CallSignature { index, signature } => self.sign_call(index, signature),
            Note::Members(members) => self.take(members),
            Note::Trimmed => self.trim_thinking(),
            Note::Usage(usage) => self.count(usage),
        }
    }

    /// Begins a text or thinking block, which may be empty.
    pub fn begin(&mut self, block: Block) -> Vec<Step> {
        self.continue_or_begin(None, || block).1
    }

    fn latest_thinking(&mut self) -> Option<&mut ThinkingBlock> {
        self.message.content.iter_mut().rev().find_map(|block| match block {
            Block::Thinking(block) => Some(block),
            _ => None,
        })
    }

    /// Appends a piece of a signature to the latest thinking block.
    fn sign_thinking(&mut self, signature: &str) {
        if let Some(block) = self.latest_thinking() {
            block.thinking_signature.get_or_insert_default().push_str(signature);
        }
    }

    /// Sets the signature of the latest block of a kind.
    fn sign(&mut self, signs: SignedBlock, signature: String) {
        match signs {
            SignedBlock::Thinking => {
                if let Some(block) = self.latest_thinking() {
                    block.thinking_signature = Some(signature);
                }
            }
            SignedBlock::Text => {
                let latest = self.message.content.iter_mut().rev().find_map(|block| match block {
                    Block::Text(block) => Some(block),
                    _ => None,
                });
                if let Some(block) = latest {
                    block.extra.insert(TEXT_SIGNATURE.to_owned(), Value::String(signature));
                }
            }
        }
    }

    /// Removes the blank lines at the end of the latest thinking block.
    fn trim_thinking(&mut self) {
        if let Some(block) = self.latest_thinking() {
            block.thinking.truncate(block.thinking.trim_end_matches('\n').len());
        }
    }

    /// Sets the signature of a tool call.
    fn sign_call(&mut self, index: u32, signature: String) {
        let Some(block) = self.calls.iter().find(|call| call.index == index).map(|call| call.block) else { return };
        if let Block::ToolCall(call) = &mut self.message.content[block] {
            call.extra.insert(CALL_SIGNATURE.to_owned(), Value::String(signature));
        }
    }

    /// Sets the tokens so far, and their cost unless it is reported.
    fn count(&mut self, usage: Usage) {
        let cost = if usage.cost == Cost::default() { self.model.price(&usage) } else { usage.cost };
        self.message.usage = Usage { cost, ..usage };
    }

    /// Applies members of the reply that the provider reports; its usage is taken unchanged, including the cost.
    fn take(&mut self, mut members: Map<String, Value>) {
        let usage = members.shift_remove("usage").and_then(|usage| serde_json::from_value(usage).ok());
        if let Some(usage) = usage {
            self.message.usage = usage;
        }
        // A stream function may delegate to a client of another API.
        if let Some(Value::String(api)) = members.shift_remove("api") {
            self.message.api = api;
        }
        self.message.extra.extend(members);
    }

    /// Begins a tool call unless it has begun. A missing or repeated id is replaced, since ids must be unique.
    pub fn begin_call(
        &mut self,
        index: u32,
        id: Option<String>,
        name: Option<String>,
    ) -> Result<Vec<Step>, ProviderError> {
        if self.call(index).is_some() {
            return Ok(Vec::new());
        }
        if self.calls.len() == MAX_CALLS {
            return Err(ProviderError::new(
                ErrorKind::TooLarge,
                format!("the reply has more than {MAX_CALLS} tool calls"),
            ));
        }
        let taken = |id: &str| self.message.tool_calls().any(|call| call.id == id);
        let id = match id {
            Some(id) if !id.is_empty() && !taken(&id) => id,
            other => {
                let stem = other.filter(|id| !id.is_empty()).unwrap_or_else(|| "call".to_owned());
                (1..=MAX_CALLS + 1)
                    .map(|n| format!("{stem}_{n}"))
                    .find(|id| !taken(id))
                    .expect("there are fewer calls than candidates")
            }
        };
        let mut steps = self.close();
        let block = self.message.content.len();
        let call =
            ToolCall { id, name: name.unwrap_or_default(), arguments: Value::Object(Map::new()), extra: Map::new() };
        self.message.content.push(Block::ToolCall(call));
        self.calls.push(PartialCall {
            index,
            block,
            json: String::new(),
            units: 0,
            paths: ArgumentPaths::default(),
            is_ended: false,
        });
        steps.push(Step::Start(block));
        Ok(steps)
    }

    /// Adds a piece of a call's arguments; returns the changes.
    pub fn push_arguments(&mut self, index: u32, chunk: String) -> Vec<Step> {
        let Some(call) = self.calls.iter_mut().find(|call| call.index == index) else { return Vec::new() };
        call.units += chunk.encode_utf16().count();
        call.json.push_str(&chunk);
        vec![Step::Delta(call.block, chunk)]
    }

    /// Ends the open blocks because another one begins. Interleaved blocks stay open.
    pub fn close(&mut self) -> Vec<Step> {
        if self.is_interleaved { Vec::new() } else { self.end() }
    }

    /// Ends the open blocks: text or thinking, tool calls, and all interleaved ones.
    pub fn end(&mut self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.open.take().map(Step::End).into_iter().collect();
        if std::mem::take(&mut self.is_interleaved) {
            let is_call = |at: &usize| matches!(self.message.content[*at], Block::ToolCall(_));
            steps = (0..self.message.content.len()).filter(|at| !is_call(at)).map(Step::End).collect();
        }
        let mut room = room(&self.message);
        for call in self.calls.iter_mut().filter(|call| !call.is_ended) {
            call.is_ended = true;
            // Incomplete arguments are added when the message is complete.
            if let (Block::ToolCall(block), Ok(arguments @ Value::Object(_))) =
                (&mut self.message.content[call.block], streaming_json::whole(call.text()))
                && let Some(left) = room.checked_sub(count_values(&arguments))
            {
                room = left;
                block.arguments = arguments;
            }
            steps.push(Step::End(call.block));
        }
        steps.sort_by_key(|step| match step {
            Step::Start(at) | Step::Delta(at, _) | Step::End(at) => *at,
        });
        steps
    }

    /// Ends the message. Arguments that are not a JSON object stay empty; the errors of such calls, which must not run, are
    /// returned by call id.
    pub fn finish(&mut self) -> (Vec<Step>, BTreeMap<String, String>) {
        let mut steps = self.end();
        let mut bad = BTreeMap::new();
        let mut room = room(&self.message);
        for call in &mut self.calls {
            let Block::ToolCall(block) = &mut self.message.content[call.block] else { continue };
            match streaming_json::whole(call.text()) {
                Ok(arguments @ Value::Object(_)) if arguments == block.arguments => {}
                Ok(arguments @ Value::Object(_)) => match room.checked_sub(count_values(&arguments)) {
                    Some(left) => {
                        room = left;
                        block.arguments = arguments;
                    }
                    None => {
                        bad.insert(
                            block.id.clone(),
                            format!("the reply has more than {MAX_VALUES} values in its calls"),
                        );
                    }
                },
                Ok(_) => {
                    bad.insert(block.id.clone(), "they are not a JSON object".to_owned());
                }
                Err(error) => {
                    bad.insert(block.id.clone(), error.to_string());
                }
            }
            if !call.is_ended {
                call.is_ended = true;
                steps.push(Step::End(call.block));
            }
        }
        (steps, bad)
    }

    /// Returns a view of the message.
    pub fn shown(&self) -> PartialMessage<'_> {
        let calls = if self.calls_stay_empty { &[] } else { self.calls.as_slice() };
        PartialMessage { message: &self.message, calls }
    }

    /// Returns the update that reports a step to front ends.
    pub fn update<'a>(&'a self, step: &'a Step) -> Update<'a> {
        let (Step::Start(index) | Step::Delta(index, _) | Step::End(index)) = *step;
        let kind = match (&self.message.content[index], step) {
            (Block::Text(_), Step::Start(_)) => UpdateKind::TextStart,
            (Block::Text(_), Step::Delta(_, delta)) => UpdateKind::TextDelta(delta),
            (Block::Text(block), Step::End(_)) => UpdateKind::TextEnd(&block.text),
            (Block::Thinking(_), Step::Start(_)) => UpdateKind::ThinkingStart,
            (Block::Thinking(_), Step::Delta(_, delta)) => UpdateKind::ThinkingDelta(delta),
            (Block::Thinking(block), Step::End(_)) => UpdateKind::ThinkingEnd(&block.thinking),
            (Block::ToolCall(_), Step::Start(_)) => UpdateKind::ToolCallStart,
            (Block::ToolCall(_), Step::Delta(_, delta)) => UpdateKind::ToolCallDelta(delta),
            (Block::ToolCall(call), Step::End(_)) => UpdateKind::ToolCallEnd(call),
            (Block::Image { .. } | Block::Other(_), _) => unreachable!("a partial message holds no such block"),
        };
        Update { index, kind }
    }

    fn continue_or_begin(&mut self, open: Option<usize>, block: impl FnOnce() -> Block) -> (usize, Vec<Step>) {
        if let Some(at) = open {
            return (at, Vec::with_capacity(1));
        }
        let mut steps = self.close();
        let at = self.message.content.len();
        self.message.content.push(block());
        self.open = Some(at);
        steps.push(Step::Start(at));
        (at, steps)
    }

    /// Returns whether a tool call has begun.
    pub fn knows_call(&self, index: u32) -> bool {
        self.call(index).is_some()
    }

    /// Returns a call by its index in the provider's stream.
    pub fn tool_call(&self, index: u32) -> Option<&ToolCall> {
        self.shown().call(self.call(index)?.block)
    }

    fn call(&self, index: u32) -> Option<&PartialCall> {
        self.calls.iter().find(|call| call.index == index)
    }
}

/// Maximum number of JSON values in the arguments of all calls of a reply. Each subscribed extension receives them several times,
/// and a realm is terminated when a message exceeds its limits.
const MAX_VALUES: usize = 100_000;

/// Returns the number of values left within the limit.
fn room(message: &AssistantMessage) -> usize {
    let taken: usize = message.tool_calls().map(|call| count_values(&call.arguments)).sum();
    if guard!(ReplyValues) { MAX_VALUES.saturating_sub(taken) } else { usize::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial() -> Partial {
        let model = Model::new("p", "m", "a");
        Partial::new(&model, 1)
    }

    #[test]
    fn truncated_arguments_are_not_a_call() {
        let whole = r#"{"a":{"b":[1,"x"]}}"#;
        for cut in 1..whole.len() {
            let mut partial = partial();
            partial.begin_call(0, Some("1".into()), Some("t".into())).unwrap();
            partial.push_arguments(0, whole[..cut].to_owned());
            let (_, bad) = partial.finish();
            assert!(bad.contains_key("1"), "cut at {cut}");
        }
    }

    #[test]
    fn call_ids_are_unique_and_their_number_is_limited() {
        let mut partial = partial();
        for index in 0..128 {
            partial.begin_call(index, Some("same".into()).filter(|_| index % 2 == 0), Some("t".into())).unwrap();
        }
        let ids: std::collections::BTreeSet<_> = partial.message.tool_calls().map(|call| call.id.clone()).collect();
        assert_eq!(ids.len(), 128);
        assert_eq!(partial.begin_call(128, None, None).unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn a_block_ends_before_the_next_one_begins() {
        let mut partial = partial();
        let mut told = Vec::new();
        told.extend(partial.push_text("a".into()));
        told.extend(partial.begin_call(0, Some("1".into()), Some("t".into())).unwrap());
        told.extend(partial.push_arguments(0, "{\"x\":1}".into()));
        told.extend(partial.begin_call(1, Some("2".into()), Some("t".into())).unwrap());
        told.extend(partial.push_text("b".into()));
        told.extend(partial.finish().0);
        let told: Vec<String> = told
            .iter()
            .map(|step| match step {
                Step::Start(at) => format!("start {at}"),
                Step::Delta(at, _) => format!("delta {at}"),
                Step::End(at) => format!("end {at}"),
            })
            .collect();
        let expected = "start 0, delta 0, end 0, start 1, delta 1, end 1, start 2, end 2, start 3, delta 3, end 3";
        assert_eq!(told.join(", "), expected);
    }

    #[test]
    fn arguments_that_arrive_late_still_count() {
        let mut partial = partial();
        for index in 0..2 {
            partial.begin_call(index, Some(format!("{index}")), Some("t".into())).unwrap();
        }
        partial.push_arguments(0, "{\"late\":true}".into());
        let (_, bad) = partial.finish();
        assert!(bad.is_empty());
        assert_eq!(partial.message.tool_calls().next().unwrap().arguments, serde_json::json!({"late": true}));
    }

    #[test]
    fn incomplete_arguments_are_visible() {
        let mut partial = partial();
        partial.begin_call(0, Some("1".into()), Some("write".into())).unwrap();
        let shown = |partial: &Partial| partial.shown().so_far().tool_calls().next().unwrap().arguments.clone();
        assert_eq!(shown(&partial), serde_json::json!({}));
        partial.push_arguments(0, r#"{"path":"a.ts","content":"one"#.into());
        assert_eq!(shown(&partial), serde_json::json!({"path": "a.ts", "content": "one"}));
        partial.note(Note::CallsStayEmpty);
        assert_eq!(shown(&partial), serde_json::json!({}));
        partial.push_arguments(0, "\ntwo\"}".into());
        assert!(partial.finish().1.is_empty());
        assert_eq!(shown(&partial), serde_json::json!({"path": "a.ts", "content": "one\ntwo"}));
    }

    #[test]
    fn interleaved_text_and_thinking_form_one_block_each() {
        let mut partial = partial();
        partial.push_thinking("a".into());
        partial.push_text("b".into());
        partial.push_text("c😀".into());
        partial.close();
        partial.push_text("d".into());
        let texts: Vec<_> = partial.message.content.iter().filter_map(Block::as_text).collect();
        assert_eq!(texts, ["bc😀", "d"]);
        assert_eq!(partial.offset(StreamSource::Text, 0), 5);
        assert_eq!(partial.offset(StreamSource::Thinking, 0), 1);
    }
}
