//! A parsed text that counts the steps of matching at its nodes.
//!
//! ast-grep matches any document that implements its traits. This one charges each visited child and each copied node to
//! [`Work`]; when the budget is spent, nodes have no more children, so matching ends by itself.

use super::{AstLanguage, AstLimit, MAX_COMPARED_DEPTH, MAX_PATTERN_DEPTH};
use ast_grep_core::source::{Edit, SgNode};
use ast_grep_core::{Doc, Position};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use tree_sitter::{ParseOptions, ParseState, Parser, Tree, TreeCursor};

/// Operations between two calls of the parser's progress callback, a constant of tree-sitter.
const OPERATIONS_PER_CALL: u64 = 100;

/// Tokens whose absence is a syntax error; a missing separator is not one.
const CLOSERS: [&str; 7] = [")", "]", "}", ">", "\"", "'", "`"];

/// Steps for parsing a pattern, which is a short text.
const PATTERN_BUDGET: u64 = 2_000_000;

/// The remaining budget of steps, and the limit that was reached.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// Remaining steps.
    left: Cell<u64>,
    /// First limit reached since [`Work::take_limit`]; `None` if there was none.
    limit: Cell<Option<AstLimit>>,
}

impl Work {
    /// Creates a budget.
    pub(super) fn new(steps: u64) -> Self {
        Self { left: Cell::new(steps), limit: Cell::new(None) }
    }

    /// Charges steps to the budget. Returns false, then and from then on, if too few remain.
    pub(super) fn charge(&self, steps: u64) -> bool {
        match self.left.get().checked_sub(steps) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => {
                self.left.set(0);
                self.limit.set(Some(AstLimit::OutOfBudget));
                false
            }
        }
    }

    /// Returns the remaining steps.
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Returns the limit that was reached since the last call. A match during which a limit was reached has an unreliable result.
    pub(super) fn take_limit(&self) -> Option<AstLimit> {
        self.limit.take()
    }
}

/// A text and its tree.
#[derive(Clone)]
pub(super) struct Document {
    /// The text.
    source: String,
    /// Language of the text.
    language: AstLanguage,
    /// Syntax tree of the text.
    tree: Tree,
    /// The remaining budget.
    work: Work,
}

impl Document {
    /// Parses a text within a budget of steps.
    pub(super) fn parse(source: String, language: AstLanguage, budget: u64) -> Result<Self, AstLimit> {
        let work = Work::new(budget);
        let mut parser = Parser::new();
        parser.set_language(&language.grammar()).expect("the library supports the version of the grammar");
        let bytes = source.as_bytes();
        let mut progress = |_: &ParseState| match work.charge(OPERATIONS_PER_CALL) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let tree = parser
            .parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
            .ok_or(AstLimit::OutOfBudget)?;
        Ok(Self { source, language, tree, work })
    }

    /// Parses a pattern; the error is a message.
    pub(super) fn parse_pattern(source: &str, language: AstLanguage) -> Result<Self, String> {
        let document = Self::parse(source.to_owned(), language, PATTERN_BUDGET)
            .map_err(|_| "takes too long to parse; write a shorter pattern".to_owned())?;
        if document.is_deeper_than(MAX_PATTERN_DEPTH) {
            return Err(format!("is nested deeper than {MAX_PATTERN_DEPTH} levels; write a flatter pattern"));
        }
        Ok(document)
    }

    /// Returns the tree.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the text.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the remaining budget.
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// Returns a counting node for ast-grep, as the root of a match.
    pub(super) fn counted<'r>(&'r self, node: tree_sitter::Node<'r>) -> CountedNode<'r> {
        CountedNode { inner: node, work: &self.work, depth: 0 }
    }

    /// Returns the byte offset of the first syntax error of a pattern.
    ///
    /// An error node around the whole pattern is ignored: ast-grep uses the only child of a node as the pattern, and grammars
    /// produce such a node where a file ends without a `;` or a line break.
    pub(super) fn first_error(&self) -> Option<usize> {
        let mut top = self.tree.root_node();
        while let Some(only) = top.child(0).filter(|_| match top.child_count() {
            1 => true,
            2 => top.child(1).is_some_and(|second| second.is_missing() || second.kind().is_empty()),
            _ => false,
        }) {
            top = only;
        }
        Preorder::new(top)
            .find(|node| node.is_error() || node.is_missing() && (node.is_named() || CLOSERS.contains(&node.kind())))
            .map(|node| node.start_byte())
    }

    /// Returns whether the pattern as a whole is not code of the grammar, or has an unclosed bracket or quote. A pattern with any
    /// other error inside may still match, because grammars reject some metavariables.
    pub(super) fn is_broken(&self) -> bool {
        let mut top = self.tree.root_node();
        while top.child_count() == 1 && !top.is_error() {
            top = top.child(0).expect("the node has one child");
        }
        top.is_error() || Preorder::new(top).any(|node| node.is_missing() && CLOSERS.contains(&node.kind()))
    }

    /// Returns whether the tree has more than `levels` levels.
    fn is_deeper_than(&self, levels: usize) -> bool {
        let mut walk = Preorder::new(self.tree.root_node());
        while walk.next().is_some() {
            if walk.depth > levels {
                return true;
            }
        }
        false
    }
}

/// Iterates over a node and its descendants in text order, parents before their children, without recursion.
struct Preorder<'t> {
    /// The node that was returned last.
    cursor: TreeCursor<'t>,
    /// Depth of the node.
    depth: usize,
    /// The position of the cursor: on a node that has not been returned, or past the last one.
    state: PreorderState,
}

/// State of [`Preorder`].
#[derive(PartialEq, Eq)]
enum PreorderState {
    /// At the root.
    Start,
    /// On a node that was returned.
    Within,
    /// Past the last node.
    End,
}

impl<'t> Preorder<'t> {
    /// Starts at a node. Only the node and its descendants are visited.
    fn new(node: tree_sitter::Node<'t>) -> Self {
        Self { cursor: node.walk(), depth: 0, state: PreorderState::Start }
    }
}

impl<'t> Iterator for Preorder<'t> {
    type Item = tree_sitter::Node<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.state {
            PreorderState::Start => self.state = PreorderState::Within,
            PreorderState::End => return None,
            PreorderState::Within => {
                if self.cursor.goto_first_child() {
                    self.depth += 1;
                } else {
                    while !self.cursor.goto_next_sibling() {
                        if !self.cursor.goto_parent() {
                            self.state = PreorderState::End;
                            return None;
                        }
                        self.depth -= 1;
                    }
                }
            }
        }
        Some(self.cursor.node())
    }
}

impl Doc for Document {
    type Source = String;
    type Lang = AstLanguage;
    type Node<'r> = CountedNode<'r>;

    fn get_lang(&self) -> &Self::Lang {
        &self.language
    }

    fn get_source(&self) -> &Self::Source {
        &self.source
    }

    fn do_edit(&mut self, _edit: &Edit<Self::Source>) -> Result<(), String> {
        Err("a text that is searched is never edited".to_owned())
    }

    fn root_node(&self) -> Self::Node<'_> {
        self.counted(self.tree.root_node())
    }

    fn get_node_text<'a>(&'a self, node: &Self::Node<'a>) -> Cow<'a, str> {
        Cow::Borrowed(self.source.get(node.range()).unwrap_or_default())
    }
}

/// A node that charges visits to the budget of its document.
pub(super) struct CountedNode<'r> {
    /// The node.
    inner: tree_sitter::Node<'r>,
    /// The budget.
    work: &'r Work,
    /// Levels below the root of the match.
    depth: u32,
}

impl<'r> CountedNode<'r> {
    /// Wraps a node for the same match.
    fn related(&self, inner: tree_sitter::Node<'r>, depth: u32) -> Self {
        Self { inner, work: self.work, depth }
    }
}

/// ast-grep clones the nodes bound by `$$$A` for each candidate that follows, so clones are charged as well.
impl Clone for CountedNode<'_> {
    fn clone(&self) -> Self {
        self.work.charge(1);
        Self { inner: self.inner, work: self.work, depth: self.depth }
    }
}

/// The children of a node, until the budget is spent.
struct Children<'r> {
    /// Cursor on the next child.
    cursor: TreeCursor<'r>,
    /// Number of remaining children.
    left: usize,
    /// The budget.
    work: &'r Work,
    /// Depth of the nodes.
    depth: u32,
}

impl<'r> Iterator for Children<'r> {
    type Item = CountedNode<'r>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || !self.work.charge(1) {
            return None;
        }
        self.left -= 1;
        let node = CountedNode { inner: self.cursor.node(), work: self.work, depth: self.depth };
        self.cursor.goto_next_sibling();
        Some(node)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Children<'_> {}

impl<'r> SgNode<'r> for CountedNode<'r> {
    fn parent(&self) -> Option<Self> {
        self.inner.parent().map(|node| self.related(node, self.depth.saturating_sub(1)))
    }

    fn children(&self) -> impl ExactSizeIterator<Item = Self> {
        let mut cursor = self.inner.walk();
        let left = if self.depth >= MAX_COMPARED_DEPTH {
            self.work.limit.set(Some(self.work.limit.get().unwrap_or(AstLimit::TooDeep)));
            0
        } else if cursor.goto_first_child() {
            self.inner.child_count() as usize
        } else {
            0
        };
        Children { cursor, left, work: self.work, depth: self.depth + 1 }
    }

    /// Returns the nodes in text order, each as the root of a separate match.
    fn dfs(&self) -> impl Iterator<Item = Self> {
        let work = self.work;
        Preorder::new(self.inner).map(move |inner| Self { inner, work, depth: 0 })
    }

    fn kind(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.inner.kind())
    }

    fn kind_id(&self) -> u16 {
        self.inner.kind_id()
    }

    fn node_id(&self) -> usize {
        self.inner.id()
    }

    fn range(&self) -> Range<usize> {
        self.inner.byte_range()
    }

    fn start_pos(&self) -> Position {
        let point = self.inner.start_position();
        Position::new(point.row, point.column, self.inner.start_byte())
    }

    fn end_pos(&self) -> Position {
        let point = self.inner.end_position();
        Position::new(point.row, point.column, self.inner.end_byte())
    }

    fn is_named(&self) -> bool {
        self.inner.is_named()
    }

    fn is_named_leaf(&self) -> bool {
        self.inner.named_child_count() == 0
    }

    fn is_leaf(&self) -> bool {
        self.inner.child_count() == 0
    }

    fn is_missing(&self) -> bool {
        self.inner.is_missing()
    }

    fn is_error(&self) -> bool {
        self.inner.is_error()
    }

    fn is_extra(&self) -> bool {
        self.inner.is_extra()
    }

    fn field(&self, name: &str) -> Option<Self> {
        self.inner.child_by_field_name(name).map(|node| self.related(node, self.depth + 1))
    }

    fn field_children(&self, field_id: Option<u16>) -> impl Iterator<Item = Self> {
        self.child_by_field_id(field_id.unwrap_or_default()).into_iter()
    }

    fn child_by_field_id(&self, field_id: u16) -> Option<Self> {
        self.inner.child_by_field_id(field_id).map(|node| self.related(node, self.depth + 1))
    }
}
