//! Evaluates XPath 1.0 on XML text with a step limit.
//!
//! Expressions are limited in length and nesting, because their parser recurses. The nodes of a text and the steps of an
//! evaluation are limited; every node visited and every 64 bytes of text read cost one step. When the steps are exhausted, the
//! tree appears to end, so the evaluation ends soon after, and its result is an error.

use super::{PatternError, PatternErrorKind};
use roxmltree::{Document, NodeType, ParsingOptions};
use std::cell::Cell;
use std::cmp::Ordering;
use xpath_eval::{EvaluationContext, ExpandedName, Expr, Node, NodeKind, Value};

/// Maximum length of an expression in bytes.
const MAX_EXPRESSION: usize = 512;
/// Maximum depth of brackets, and maximum number of minus signs, in an expression.
const MAX_NESTED: usize = 16;
/// Maximum size of a text in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of nodes of a text.
const MAX_NODES: u32 = 10_000;
/// Maximum number of steps of one evaluation; a step is a node, or 64 bytes of text.
const MAX_STEPS: u64 = 400_000;
const BYTES_OF_STEP: usize = 64;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) struct XPath(Expr);

impl XPath {
    /// Compiles an expression.
    pub(super) fn parse(expression: &str) -> Result<Self, PatternError> {
        let limit = |what: String| Err(PatternError::new(PatternErrorKind::Limit, what));
        if expression.len() > MAX_EXPRESSION {
            return limit(format!("an XPath of {} bytes: at most {MAX_EXPRESSION} are allowed", expression.len()));
        }
        if nesting(expression) > MAX_NESTED {
            return limit(format!("an XPath with more than {MAX_NESTED} nested brackets or minus signs"));
        }
        let syntax = |error| {
            PatternError::new(PatternErrorKind::Syntax, format!("`{expression}` is not a valid XPath: {error}"))
        };
        xpath_eval::parse(expression).map(Self).map_err(syntax)
    }

    /// Returns the first result of the expression: the string value of a node, or any other value that is true. Returns `None`
    /// for text that is not XML.
    pub(super) fn first(&self, text: &str) -> Result<Option<String>, PatternError> {
        if !text.trim_start().starts_with('<') {
            return Ok(None);
        }
        let too_long = |what: String| {
            let message = format!("a text of more than {what}: search it with a glob or /regex/ instead of an XPath");
            Err(PatternError::new(PatternErrorKind::Limit, message))
        };
        if text.len() > MAX_TEXT {
            return too_long(format!("{MAX_TEXT} bytes"));
        }
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let document = match Document::parse_with_options(text, options) {
            Ok(document) => document,
            Err(roxmltree::Error::NodesLimitReached) => return too_long(format!("{MAX_NODES} nodes")),
            Err(_) => return Ok(None),
        };
        let steps = StepBudget { left: Cell::new(MAX_STEPS) };
        let root = XmlNode { place: XmlPlace::Tree(document.root()), steps: &steps };
        let value = xpath_eval::evaluate(&self.0, &EvaluationContext::new(root));
        if steps.left.get() == 0 {
            let message = format!("the XPath took more than {MAX_STEPS} steps: use a shorter path, or /regex/");
            return Err(PatternError::new(PatternErrorKind::Limit, message));
        }
        let value = value.map_err(|error| PatternError::new(PatternErrorKind::Syntax, format!("XPath: {error}")))?;
        Ok(match value {
            Value::NodeSet(nodes) => nodes.first().map(|node| node.string_value()),
            other if other.to_boolean() => Some(other.to_xpath_string()),
            _ => None,
        })
    }
}

/// Counts brackets within brackets, and minus signs, outside of quotes.
fn nesting(expression: &str) -> usize {
    let (mut depth, mut deepest, mut signs) = (0_usize, 0, 0);
    let mut quote = None;
    for character in expression.chars() {
        match (quote, character) {
            (Some(open), character) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (None, ')' | ']') => depth = depth.saturating_sub(1),
            (None, '-') => signs += 1,
            _ => {}
        }
    }
    deepest.max(signs)
}

/// Remaining steps of an evaluation.
struct StepBudget {
    left: Cell<u64>,
}

impl StepBudget {
    /// Takes steps from the budget. Returns `false` if too few remain, and then for all later calls as well.
    fn take(&self, steps: u64) -> bool {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        left > 0
    }

    fn read(&self, text: &str) -> bool {
        self.take(1 + (text.len() / BYTES_OF_STEP) as u64)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum XmlPlace<'a, 'input> {
    Tree(roxmltree::Node<'a, 'input>),
    /// An attribute, as its element and its index.
    Attribute(roxmltree::Node<'a, 'input>, usize),
}

/// A node of a text, as the evaluator sees it.
#[derive(Clone, Copy)]
struct XmlNode<'a, 'input> {
    place: XmlPlace<'a, 'input>,
    steps: &'a StepBudget,
}

impl PartialEq for XmlNode<'_, '_> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for XmlNode<'_, '_> {}

impl<'a, 'input> XmlNode<'a, 'input> {
    fn at(self, place: XmlPlace<'a, 'input>) -> Self {
        Self { place, ..self }
    }

    /// Returns the element while steps remain; `None` for other nodes.
    fn inside(self) -> Option<roxmltree::Node<'a, 'input>> {
        match self.place {
            XmlPlace::Tree(node) if self.steps.take(1) => Some(node),
            _ => None,
        }
    }

    fn order(self) -> (u32, usize) {
        match self.place {
            XmlPlace::Tree(node) => (node.id().get(), 0),
            XmlPlace::Attribute(owner, number) => (owner.id().get(), number + 1),
        }
    }
}

impl<'a, 'input: 'a> Node<'a> for XmlNode<'a, 'input> {
    fn kind(self) -> NodeKind {
        match self.place {
            XmlPlace::Attribute(..) => NodeKind::Attribute,
            XmlPlace::Tree(node) => match node.node_type() {
                NodeType::Root => NodeKind::Root,
                NodeType::Element => NodeKind::Element,
                NodeType::PI => NodeKind::ProcessingInstruction,
                NodeType::Comment => NodeKind::Comment,
                NodeType::Text => NodeKind::Text,
            },
        }
    }

    fn parent(self) -> Option<Self> {
        match self.place {
            XmlPlace::Tree(node) => node.parent().map(|parent| self.at(XmlPlace::Tree(parent))),
            XmlPlace::Attribute(owner, _) => Some(self.at(XmlPlace::Tree(owner))),
        }
    }

    fn children(self) -> impl Iterator<Item = Self> + 'a {
        let children = self.inside().into_iter().flat_map(|node| node.children());
        children.take_while(move |_| self.steps.take(1)).map(move |child| self.at(XmlPlace::Tree(child)))
    }

    fn attributes(self) -> impl Iterator<Item = Self> + 'a {
        let owner = self.inside();
        let count = owner.map_or(0, |owner| owner.attributes().len());
        let each = move |number| owner.map(|owner| self.at(XmlPlace::Attribute(owner, number)));
        (0..count).take_while(move |_| self.steps.take(1)).filter_map(each)
    }

    /// Returns an empty iterator, because expressions cannot declare namespaces.
    fn namespaces(self) -> impl Iterator<Item = Self> + 'a {
        std::iter::empty()
    }

    fn expanded_name(self) -> Option<ExpandedName> {
        let name = |namespace: Option<&str>, local: &str| ExpandedName {
            namespace_uri: namespace.map(str::to_owned),
            local_name: local.to_owned(),
        };
        match self.place {
            XmlPlace::Attribute(owner, number) => {
                owner.attributes().nth(number).map(|attribute| name(attribute.namespace(), attribute.name()))
            }
            XmlPlace::Tree(node) if node.is_element() => {
                Some(name(node.tag_name().namespace(), node.tag_name().name()))
            }
            XmlPlace::Tree(node) => node.pi().map(|instruction| name(None, instruction.target)),
        }
    }

    fn string_value(self) -> String {
        let kept = |text: &str| if self.steps.read(text) { text.to_owned() } else { String::new() };
        match self.place {
            XmlPlace::Attribute(owner, number) => {
                owner.attributes().nth(number).map(|attribute| kept(attribute.value())).unwrap_or_default()
            }
            XmlPlace::Tree(node) if node.is_element() || node.is_root() => {
                let texts = node.descendants().filter(roxmltree::Node::is_text).filter_map(|text| text.text());
                texts.take_while(|text| self.steps.read(text)).collect()
            }
            XmlPlace::Tree(node) if node.is_pi() => {
                node.pi().and_then(|instruction| instruction.value).map(kept).unwrap_or_default()
            }
            XmlPlace::Tree(node) => node.text().map(kept).unwrap_or_default(),
        }
    }

    fn document_order(self, other: Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}
