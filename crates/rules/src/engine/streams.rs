//! Reads the text or the thinking of a message, and splits it by region.

use super::compiled::StreamRules;
use super::fallback::Search;
use super::fences::{Fences, Segment};
use super::history::History;
use super::lane::{Lane, Match};
use crate::rule::Region;
use std::sync::Arc;

/// Maximum number of bytes of a code block that are kept for AST conditions.
const MAX_BLOCK: usize = crate::ast::MAX_TEXT;

/// A text that grows until the message ends. All blocks of the message are read as a single text.
#[derive(Debug, Default)]
pub(crate) struct MessageStream {
    lanes: Vec<Lane>,
    /// Tracks the regions; `None` when no rule needs them.
    fences: Option<Fences>,
    /// The open code block, if a rule has AST conditions.
    block: Option<CodeBlock>,
    pub(crate) history: History,
    pub(crate) matches: Vec<Match>,
    pub(crate) blocks: Vec<CodeBlock>,
    keeps_blocks: bool,
}

/// A fenced code block.
#[derive(Debug, Default)]
pub(crate) struct CodeBlock {
    pub(crate) info: String,
    pub(crate) text: String,
    /// Byte of the stream at which the block begins.
    pub(crate) offset: usize,
}

impl MessageStream {
    pub(crate) fn new(rules: &StreamRules, is_traced: bool) -> Self {
        let keeps_blocks = !rules.ast.is_empty();
        let has_regions = rules.lanes.iter().any(|lane| lane.region != Region::Any);
        Self {
            lanes: rules.lanes.iter().map(|lane| Lane::new(Arc::clone(lane), is_traced)).collect(),
            fences: (has_regions || keeps_blocks).then(Fences::default),
            block: None,
            history: History::default(),
            matches: Vec::new(),
            blocks: Vec::new(),
            keeps_blocks,
        }
    }

    /// Begins a new message.
    pub(crate) fn restart(&mut self) {
        for lane in &mut self.lanes {
            lane.restart();
        }
        if let Some(fences) = &mut self.fences {
            fences.restart();
        }
        self.block = None;
        self.history.restart();
        self.matches.clear();
        self.blocks.clear();
    }

    /// Returns the number of bytes that automata read.
    pub(crate) fn scanned(&self) -> u64 {
        self.lanes.iter().map(Lane::scanned).sum()
    }

    /// Returns whether no rule reads this stream.
    #[inline]
    pub(crate) fn is_unread(&self) -> bool {
        self.lanes.is_empty() && !self.keeps_blocks
    }

    /// Returns whether there are no matches to judge.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.matches.is_empty() && self.blocks.is_empty()
    }

    /// Reads a delta. The matches are added to `matches` and `blocks`.
    #[inline]
    pub(crate) fn push(&mut self, delta: &str, search: &mut dyn Search) {
        let at = self.history.len();
        self.history.push(delta);
        match &mut self.fences {
            None => {
                for lane in &mut self.lanes {
                    lane.push(at, delta, search, &mut self.matches);
                }
            }
            Some(fences) => {
                for lane in self.lanes.iter_mut().filter(|lane| lane.region() == Region::Any) {
                    lane.push(at, delta, search, &mut self.matches);
                }
                let mut regions = Regions {
                    lanes: &mut self.lanes,
                    block: &mut self.block,
                    blocks: &mut self.blocks,
                    matches: &mut self.matches,
                    search,
                    keeps_blocks: self.keeps_blocks,
                };
                fences.push(delta, &mut |segment| regions.take(segment));
            }
        }
        for lane in &mut self.lanes {
            lane.end_delta(search, &mut self.matches);
        }
    }

    /// Ends the text.
    pub(crate) fn close(&mut self, search: &mut dyn Search) {
        if let Some(fences) = &mut self.fences {
            let mut regions = Regions {
                lanes: &mut self.lanes,
                block: &mut self.block,
                blocks: &mut self.blocks,
                matches: &mut self.matches,
                search,
                keeps_blocks: self.keeps_blocks,
            };
            fences.finish(&mut |segment| regions.take(segment));
        }
        for lane in &mut self.lanes {
            lane.close(search, &mut self.matches);
        }
    }
}

/// Passes the parts of a text to the lanes of their region.
struct Regions<'a> {
    lanes: &'a mut Vec<Lane>,
    block: &'a mut Option<CodeBlock>,
    blocks: &'a mut Vec<CodeBlock>,
    matches: &'a mut Vec<Match>,
    search: &'a mut dyn Search,
    keeps_blocks: bool,
}

impl Regions<'_> {
    fn take(&mut self, segment: Segment<'_>) {
        match segment {
            Segment::Prose(at, text) => self.push(Region::Prose, at, text),
            Segment::Code(at, text) => {
                self.push(Region::Code, at, text);
                if let Some(block) = self.block {
                    if block.text.is_empty() {
                        block.offset = at;
                    }
                    if block.text.len() <= MAX_BLOCK {
                        block.text.push_str(text);
                    }
                }
            }
            Segment::Open(info) => {
                *self.block = self.keeps_blocks.then(|| CodeBlock { info: info.to_owned(), ..CodeBlock::default() });
            }
            Segment::Close => {
                self.blocks.extend(self.block.take());
                for lane in self.lanes.iter_mut().filter(|lane| lane.region() == Region::Code) {
                    lane.close(self.search, self.matches);
                }
            }
        }
    }

    fn push(&mut self, region: Region, at: usize, text: &str) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.region() == region) {
            lane.push(at, text, self.search, self.matches);
        }
    }
}
