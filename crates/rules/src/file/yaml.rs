//! YAML as a tree with positions, bounded in depth and size.

use std::collections::BTreeMap;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

/// Maximum nesting of lists and maps; a rule has a list in a map. The tree is built and dropped recursively.
pub(super) const MAX_DEPTH: usize = 32;
/// Maximum number of values. Each alias adds the size of its target, and a long text is charged as several values: a few lines of
/// aliases can expand to gigabytes.
pub(super) const MAX_NODES: usize = 10_000;
/// Number of bytes of a text that are charged as one more value.
const BYTES_A_NODE: usize = 256;

/// A value, and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    pub(super) at: usize,
    pub(super) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Scalar { text: String, kind: Kind, style: Style },
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

/// The type of a scalar under YAML 1.2's core schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Bool(bool),
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Block,
}

/// A mistake, and the byte at which it was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Value {
    /// Returns the byte of the YAML that a byte of a scalar's text comes from; the scalar's beginning if that is unknown.
    pub(super) fn offset_of(&self, yaml: &str, byte: usize) -> usize {
        let Node::Scalar { text, style, .. } = &self.node else { return self.at };
        let mut at = match style {
            Style::Plain => self.at,
            Style::Single | Style::Double => self.at + 1,
            Style::Block => return self.at,
        };
        for c in text[..text.floor_char_boundary(byte.min(text.len()))].chars() {
            let rest = yaml.get(at..).unwrap_or_default();
            at += match (style, rest.as_bytes()) {
                (Style::Single, [b'\'', b'\'', ..]) if c == '\'' => 2,
                (Style::Double, [b'\\', b'x', ..]) => 4,
                (Style::Double, [b'\\', b'u', ..]) => 6,
                (Style::Double, [b'\\', b'U', ..]) => 10,
                (Style::Double, [b'\\', b'\n', ..]) => return self.at,
                (Style::Double, [b'\\', ..]) => 2,
                _ if rest.starts_with(c) => c.len_utf8(),
                // A folded line has no single position.
                _ => return self.at,
            };
        }
        at
    }
}

/// Parses the first document; `base` is added to all positions.
pub(super) fn parse(yaml: &str, base: usize) -> Result<Option<Value>, YamlError> {
    let mut offsets: Vec<usize> = yaml.char_indices().map(|(at, _)| at).collect();
    offsets.push(yaml.len());
    let byte = |index: usize| base + offsets.get(index).copied().unwrap_or(yaml.len());
    let mut parser = Parser::new_from_str(yaml);
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: BTreeMap<usize, (Value, usize)> = BTreeMap::new();
    let mut nodes = 0_usize;
    loop {
        let (event, marker) = parser
            .next_token()
            .map_err(|error| YamlError { at: byte(error.marker().index()), message: error.info().to_owned() })?;
        let at = byte(marker.index());
        let begun = nodes;
        nodes += 1;
        let (value, anchor, size) = match event {
            Event::StreamEnd | Event::DocumentEnd => return Ok(None),
            Event::Nothing | Event::StreamStart | Event::DocumentStart => continue,
            Event::SequenceStart(anchor, _) => {
                open.push(Open { at, anchor, begun, values: Vec::new(), is_map: false });
                if open.len() > MAX_DEPTH {
                    return Err(YamlError { at, message: format!("it is nested more than {MAX_DEPTH} deep") });
                }
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push(Open { at, anchor, begun, values: Vec::new(), is_map: true });
                if open.len() > MAX_DEPTH {
                    return Err(YamlError { at, message: format!("it is nested more than {MAX_DEPTH} deep") });
                }
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = open.pop() else { return Ok(None) };
                let (anchor, begun) = (closed.anchor, closed.begun);
                (closed.into_value(), anchor, nodes - begun)
            }
            Event::Alias(anchor) => {
                let Some((value, size)) = anchors.get(&anchor) else {
                    return Err(YamlError { at, message: "the alias has no anchor".to_owned() });
                };
                nodes += size;
                if nodes > MAX_NODES {
                    return Err(YamlError { at, message: format!("it expands to more than {MAX_NODES} values") });
                }
                (Value { at, ..value.clone() }, 0, *size)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    TScalarStyle::Plain => Style::Plain,
                    TScalarStyle::SingleQuoted => Style::Single,
                    TScalarStyle::DoubleQuoted => Style::Double,
                    TScalarStyle::Literal | TScalarStyle::Folded => Style::Block,
                };
                let kind = if style == Style::Plain && tag.is_none() { kind(&text) } else { Kind::Text };
                let size = 1 + text.len() / BYTES_A_NODE;
                (Value { at, node: Node::Scalar { text, kind, style } }, anchor, size)
            }
        };
        if nodes > MAX_NODES {
            return Err(YamlError { at, message: format!("it has more than {MAX_NODES} values") });
        }
        if anchor > 0 {
            anchors.insert(anchor, (value.clone(), size));
            // The copy is charged, too.
            nodes += size;
        }
        match open.last_mut() {
            Some(parent) => parent.values.push(value),
            None => return finished(&mut parser, byte, value),
        }
    }
}

/// Reads to the end of the document, because a mistake after the value invalidates all of it.
fn finished<T: Iterator<Item = char>>(
    parser: &mut Parser<T>,
    byte: impl Fn(usize) -> usize,
    value: Value,
) -> Result<Option<Value>, YamlError> {
    loop {
        match parser.next_token() {
            Ok((Event::StreamEnd | Event::DocumentStart, _)) => return Ok(Some(value)),
            Ok(_) => {}
            Err(error) => return Err(YamlError { at: byte(error.marker().index()), message: error.info().to_owned() }),
        }
    }
}

struct Open {
    at: usize,
    anchor: usize,
    begun: usize,
    values: Vec<Value>,
    is_map: bool,
}

impl Open {
    fn into_value(self) -> Value {
        if !self.is_map {
            return Value { at: self.at, node: Node::List(self.values) };
        }
        let mut pairs = Vec::with_capacity(self.values.len() / 2);
        let mut values = self.values.into_iter();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            pairs.push((key, value));
        }
        Value { at: self.at, node: Node::Map(pairs) }
    }
}

fn kind(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ if is_number(text) => Kind::Number,
        _ => Kind::Text,
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"].contains(&unsigned) {
        return true;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    }
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().any(|c| c.is_ascii_digit())
        && unsigned.parse::<f64>().is_ok()
}
