//! The visible conversation: blocks of text, tool calls, and content rendered by extensions.
//!
//! A block keeps its lines until the width, the folding or the block changes. Rendering by an extension is requested by
//! [`Transcript::wanted`] and stored by [`Transcript::drawn`]; until then, and without a renderer, the block's own text is shown.

use super::{clip, tools};
use pijs_terminal::layout::{clamp, wrap};
use pijs_terminal::markdown;
use serde_json::Value;

/// Maximum number of blocks; the oldest are evicted. The session file has all of them.
pub(super) const MAX_BLOCKS: usize = 4_000;
/// Maximum approximate memory of all blocks in bytes; the oldest are evicted.
const MAX_BYTES: usize = 128 << 20;

/// Maximum number of content blocks shown of a streamed reply, whose indexes the provider chooses.
const MAX_PIECES: usize = 10_000;

/// Styles of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    User,
    Plain,
    Thinking,
    Info,
    Warning,
    Error,
}

impl Style {
    /// Returns the prefix of the first line and the SGR parameters.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::User => ("> ", "1"),
            Self::Plain => ("", ""),
            Self::Thinking => ("", "2;3"),
            Self::Info => ("", "2"),
            Self::Warning => ("", "33"),
            Self::Error => ("", "31"),
        }
    }

    fn lines(self, text: &str, columns: usize) -> Vec<String> {
        let (mark, style) = self.parts();
        let text = clip::first(text.trim_end_matches('\n'), clip::TEXT);
        let lines = wrap(&text, columns.saturating_sub(mark.len()));
        let lines = lines.into_iter().enumerate().map(|(index, line)| {
            let mark = if index == 0 { mark.to_owned() } else { " ".repeat(mark.len()) };
            if style.is_empty() { format!("{mark}{line}") } else { format!("\u{1b}[{style}m{mark}{line}\u{1b}[0m") }
        });
        lines.collect()
    }
}

/// A tool call, or a shell command of the user.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolBlock {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: Value,
    /// The result so far: `{content, details}`.
    pub(super) result: Option<Value>,
    pub(super) is_done: bool,
    pub(super) is_error: bool,
    /// Note about the end of a shell command of the user.
    pub(super) ending: Option<String>,
}

/// Contents of a block.
#[derive(Debug, Clone)]
pub(super) enum BlockContent {
    Text(Style, String),
    /// A reply of the model: its content blocks by index.
    Reply(Vec<(Style, String)>),
    Call(ToolBlock),
    /// A message of an extension: `{role, customType, content, ...}`.
    Message(Value),
    /// An entry of an extension, shown only when a renderer exists.
    Entry(Value),
}

/// A block of the transcript.
#[derive(Debug, Clone)]
pub(super) struct TranscriptBlock {
    pub(super) id: u64,
    pub(super) content: BlockContent,
    /// Number of changes.
    revision: u64,
    /// Key for which the lines were rendered; `None` if they have to be rendered again.
    made: Option<RenderKey>,
    lines: Vec<String>,
    /// Lines rendered by extensions: of the block, or of a call's title and of its result.
    drawn: [Option<Vec<String>>; 2],
    /// Texts transformed by extensions.
    changed: Option<Vec<String>>,
    /// Key for which rendering by an extension was last requested.
    asked: Option<RenderKey>,
    /// Approximate memory in bytes.
    bytes: usize,
}

/// Key of rendered lines: revision, columns, and whether they are expanded.
type RenderKey = (u64, usize, bool);

impl TranscriptBlock {
    /// Returns the lines. `label` replaces hidden thinking.
    fn lines(&mut self, columns: usize, expanded: bool, label: Option<&str>) -> &[String] {
        let made = (self.revision, columns, expanded);
        if self.made != Some(made) {
            self.lines = self.make(columns, expanded, label);
            self.made = Some(made);
        }
        &self.lines
    }

    /// Returns the approximate memory of content and transformed texts.
    fn weigh(&self) -> usize {
        let texts = |pieces: &[(Style, String)]| pieces.iter().map(|(_, text)| text.len()).sum::<usize>();
        let held: usize = match &self.content {
            BlockContent::Text(_, text) => text.len(),
            BlockContent::Reply(pieces) => texts(pieces),
            BlockContent::Call(call) => clip::weight(&call.args) + call.result.as_ref().map_or(0, clip::weight),
            BlockContent::Message(value) | BlockContent::Entry(value) => clip::weight(value),
        };
        let drawn = self.drawn.iter().flatten().flatten().map(String::len).sum::<usize>();
        let changed = self.changed.iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>() + held + drawn + changed
    }

    fn make(&self, columns: usize, expanded: bool, label: Option<&str>) -> Vec<String> {
        let drawn = |index: usize| {
            let lines = self.drawn[index].as_ref()?;
            Some(lines.iter().map(|line| clamp(line, columns)).collect::<Vec<_>>())
        };
        let changed = |index: usize| self.changed.as_ref()?.get(index).map(String::as_str);
        match &self.content {
            BlockContent::Text(style, text) => style.lines(changed(0).unwrap_or(text), columns),
            BlockContent::Reply(pieces) => {
                let mut lines = Vec::new();
                let pieces =
                    pieces.iter().enumerate().map(|(index, (style, text))| (style, changed(index).unwrap_or(text)));
                for (style, text) in pieces.filter(|(_, text)| !text.trim().is_empty()) {
                    if !lines.is_empty() {
                        lines.push(String::new());
                    }
                    lines.extend(match (style, label) {
                        // Of a long streamed text, the end is shown.
                        (Style::Plain, _) => markdown::lines(&clip::last(text.trim(), clip::TEXT), columns),
                        (Style::Thinking, Some(label)) => style.lines(&pijs_terminal::plain(label), columns),
                        _ => style.lines(text.trim(), columns),
                    });
                }
                lines
            }
            BlockContent::Call(call) => {
                let title = drawn(0).unwrap_or_else(|| tools::title(call, columns, expanded));
                let result = drawn(1).unwrap_or_else(|| tools::result(call, columns, expanded));
                [title, result].concat()
            }
            BlockContent::Message(message) => drawn(0).unwrap_or_else(|| {
                let label = clamp(message["customType"].as_str().unwrap_or_default(), columns.saturating_sub(2));
                let text = pijs_runtime::export::text_of(&message["content"]);
                let text = clip::first(&text, clip::MESSAGE);
                [vec![format!("\u{1b}[34m[{label}]\u{1b}[0m")], markdown::lines(&text, columns)].concat()
            }),
            BlockContent::Entry(_) => drawn(0).unwrap_or_default(),
        }
    }
}

/// All blocks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    blocks: std::collections::VecDeque<TranscriptBlock>,
    next: u64,
    /// Approximate memory of all blocks in bytes.
    bytes: usize,
    /// Id of the block of the streamed reply.
    reply: Option<u64>,
    hides_thinking: bool,
    /// Text in place of hidden thinking.
    label: Option<String>,
    /// Whether extensions transform Markdown.
    pub(super) transforms: bool,
}

/// Default text in place of hidden thinking.
const THINKING: &str = "Thinking...";

impl Transcript {
    /// Appends a block and returns its id.
    pub(super) fn push(&mut self, content: BlockContent) -> u64 {
        self.next += 1;
        let id = self.next;
        let block = TranscriptBlock {
            id,
            content,
            revision: 0,
            made: None,
            lines: Vec::new(),
            drawn: [None, None],
            changed: None,
            asked: None,
            bytes: 0,
        };
        self.blocks.push_back(block);
        self.weigh(id);
        id
    }

    /// Updates the memory of a block and evicts the oldest ones, but never the last one.
    fn weigh(&mut self, id: u64) {
        let Some(block) = self.blocks.iter_mut().rev().find(|block| block.id == id) else { return };
        let bytes = block.weigh();
        self.bytes = (self.bytes + bytes).saturating_sub(std::mem::replace(&mut block.bytes, bytes));
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.blocks.len() > MAX_BLOCKS || (self.bytes > MAX_BYTES && self.blocks.len() > 1) {
            let gone = self.blocks.pop_front();
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
    }

    /// Appends a text.
    pub(super) fn say(&mut self, style: Style, text: &str) {
        let text = match style {
            Style::Info | Style::Warning | Style::Error => clip::first(text, clip::TEXT),
            // Kept whole, because an extension may transform it.
            Style::User | Style::Plain | Style::Thinking => text.into(),
        };
        self.push(BlockContent::Text(style, text.into_owned()));
    }

    /// Removes and returns all blocks, for [`Transcript::put_back`].
    pub(super) fn take(&mut self) -> std::collections::VecDeque<TranscriptBlock> {
        self.bytes = 0;
        std::mem::take(&mut self.blocks)
    }

    /// Appends blocks that were taken.
    pub(super) fn put_back(&mut self, blocks: std::collections::VecDeque<TranscriptBlock>) {
        self.bytes += blocks.iter().map(|block| block.bytes).sum::<usize>();
        self.blocks.extend(blocks);
        self.make_room();
    }

    /// Removes all blocks, when another session begins.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.bytes = 0;
        self.reply = None;
    }

    /// Toggles the visibility of thinking. Returns whether it is hidden afterwards.
    pub(super) fn toggle_thinking(&mut self) -> bool {
        self.hides_thinking = !self.hides_thinking;
        self.make_anew();
        self.hides_thinking
    }

    /// Sets the text in place of hidden thinking; `None` for pi's default.
    pub(super) fn label_thinking(&mut self, label: Option<String>) {
        self.label = label;
        self.make_anew();
    }

    fn make_anew(&mut self) {
        for block in &mut self.blocks {
            block.made = None;
        }
    }

    /// Requests new rendering of a tool call, or of everything for `None`.
    pub(super) fn redraw(&mut self, call: Option<&str>) {
        for block in &mut self.blocks {
            let is_it = call.is_none_or(|id| matches!(&block.content, BlockContent::Call(call) if call.id == id));
            if is_it {
                block.asked = None;
            }
        }
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut BlockContent)) {
        if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.id == id) {
            change(&mut block.content);
            block.revision += 1;
            self.weigh(id);
        }
    }

    /// Begins a reply of the model.
    pub(super) fn begin_reply(&mut self) {
        self.reply = Some(self.push(BlockContent::Reply(Vec::new())));
    }

    /// Appends to content block `index` of the reply.
    pub(super) fn extend_reply(&mut self, index: usize, style: Style, more: &str) {
        let Some(id) = self.reply else { return };
        self.change(id, |content| {
            let BlockContent::Reply(pieces) = content else { return };
            if pieces.len() <= index && index < MAX_PIECES {
                pieces.resize(index + 1, (style, String::new()));
            }
            let Some(piece) = pieces.get_mut(index) else { return };
            piece.0 = style;
            piece.1.push_str(more);
        });
    }

    /// Ends the reply with its final content.
    pub(super) fn end_reply(&mut self, pieces: Vec<(Style, String)>) {
        let id = self.reply.take().unwrap_or_else(|| self.push(BlockContent::Reply(Vec::new())));
        self.change(id, |content| *content = BlockContent::Reply(pieces));
    }

    /// Removes the reply.
    pub(super) fn drop_reply(&mut self) {
        if let Some(id) = self.reply.take() {
            let gone: usize = self.blocks.iter().filter(|block| block.id == id).map(|block| block.bytes).sum();
            self.bytes -= gone;
            self.blocks.retain(|block| block.id != id);
        }
    }

    /// Changes the incomplete tool call with an id, or begins a new one, because a model may repeat an id.
    pub(super) fn call(&mut self, id: &str, change: impl FnOnce(&mut ToolBlock)) {
        let known = self.blocks.iter().rev().find_map(|block| match &block.content {
            BlockContent::Call(call) if call.id == id => Some((block.id, call.is_done)),
            _ => None,
        });
        let known = known.filter(|(_, is_done)| !is_done).map(|(block, _)| block);
        let known = known
            .unwrap_or_else(|| self.push(BlockContent::Call(ToolBlock { id: id.to_owned(), ..ToolBlock::default() })));
        self.change(known, |content| {
            if let BlockContent::Call(call) = content {
                change(call);
            }
        });
    }

    /// Returns the last `rows` lines above the last `skip`, and the blocks whose rendering is requested. A blank line separates
    /// blocks.
    pub(super) fn tail(
        &mut self,
        head: &[String],
        columns: usize,
        rows: usize,
        skip: usize,
        expanded: bool,
    ) -> (Vec<String>, Vec<u64>) {
        let wanted = rows + skip;
        let label = self.hides_thinking.then(|| self.label.as_deref().unwrap_or(THINKING));
        let mut found: Vec<Vec<String>> = Vec::new();
        let mut undrawn = Vec::new();
        let mut count = 0;
        for block in self.blocks.iter_mut().rev() {
            if count >= wanted {
                break;
            }
            let asked = Some((block.revision, columns, expanded));
            if wants_drawing(&block.content, self.transforms) && block.asked != asked {
                // Requested only once for each state.
                block.asked = asked;
                undrawn.push(block.id);
            }
            let lines = block.lines(columns, expanded, label);
            if lines.is_empty() {
                continue;
            }
            let mut lines = lines[lines.len().saturating_sub(wanted - count)..].to_vec();
            lines.push(String::new());
            count += lines.len();
            found.push(lines);
        }
        if count < wanted && !head.is_empty() {
            found.push(head.iter().cloned().chain([String::new()]).collect());
        }
        let mut lines: Vec<String> = found.into_iter().rev().flatten().collect();
        lines.truncate(lines.len().saturating_sub(skip));
        let lines = lines.split_off(lines.len().saturating_sub(rows));
        (lines, undrawn)
    }

    /// Returns the content of a block to render, and records the request.
    pub(super) fn wanted(&mut self, id: u64, columns: usize, expanded: bool) -> Option<BlockContent> {
        let block = self.blocks.iter_mut().rev().find(|block| block.id == id)?;
        block.asked = Some((block.revision, columns, expanded));
        Some(block.content.clone())
    }

    /// Stores the lines that extensions rendered for a block.
    pub(super) fn drawn(&mut self, id: u64, drawn: [Option<Vec<String>>; 2]) {
        if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.id == id) {
            block.drawn = drawn;
            block.made = None;
            self.weigh(id);
        }
    }

    /// Stores the transformed texts of a block.
    pub(super) fn changed(&mut self, id: u64, texts: Vec<String>) {
        if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.id == id) {
            block.changed = Some(texts);
            block.made = None;
            self.weigh(id);
        }
    }

    /// Returns whether a block is the streamed reply.
    pub(super) fn is_streaming(&self, id: u64) -> bool {
        self.reply == Some(id)
    }
}

fn wants_drawing(content: &BlockContent, transforms: bool) -> bool {
    match content {
        BlockContent::Call(_) | BlockContent::Message(_) | BlockContent::Entry(_) => true,
        BlockContent::Reply(_) | BlockContent::Text(Style::User, _) => transforms,
        BlockContent::Text(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_call_id_begins_another_call() {
        let mut transcript = Transcript::default();
        for path in ["first", "second"] {
            transcript.call("call_1", |call| {
                (call.name, call.args) = ("ls".to_owned(), serde_json::json!({"path": path}));
            });
            transcript.call("call_1", |call| call.is_done = true);
        }
        let lines = transcript.tail(&[], 40, 100, 0, false).0.join("\n");
        assert!(lines.contains("ls first") && lines.contains("ls second"), "{lines}");
    }

    #[test]
    fn the_oldest_blocks_are_evicted() {
        let mut transcript = Transcript::default();
        let large = "x".repeat(1 << 20);
        for _ in 0..300 {
            transcript.say(Style::Info, &large);
            transcript.call("a", |call| call.result = Some(serde_json::json!({"content": large})));
            transcript.call("a", |call| call.is_done = true);
        }
        assert!(transcript.bytes <= MAX_BYTES && transcript.blocks.len() > 100, "{}", transcript.bytes);
        let taken = transcript.take();
        transcript.put_back(taken);
        transcript.say(Style::Plain, &"y".repeat(MAX_BYTES + 1));
        assert_eq!(transcript.blocks.len(), 1);
        transcript.say(Style::Info, "last");
        assert_eq!(transcript.blocks.len(), 1);
        let weighed: usize = transcript.blocks.iter().map(TranscriptBlock::weigh).sum();
        assert_eq!(transcript.bytes, weighed);
    }

    #[test]
    fn rendering_is_requested_once_for_each_revision() {
        let mut transcript = Transcript::default();
        transcript.call("a", |call| call.name = "x".to_owned());
        let asked = |transcript: &mut Transcript| transcript.tail(&[], 80, 20, 0, false).1.len();
        assert_eq!((asked(&mut transcript), asked(&mut transcript)), (1, 0));
        transcript.call("a", |call| call.is_done = true);
        assert_eq!((asked(&mut transcript), asked(&mut transcript)), (1, 0));
        transcript.redraw(None);
        assert_eq!((asked(&mut transcript), asked(&mut transcript)), (1, 0));
    }
}
