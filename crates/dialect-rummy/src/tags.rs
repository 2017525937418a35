//! Parses the commands of a model's reply.
//!
//! A command is a tag with the name of a tool: `<get path="a.js"/>` or `<set path="a.js">body</set>`. Everything else is text.
//!
//! - A body is opaque: it ends at the balancing close tag of the same name, regardless of its content. In `set`, text between
//!   edit markers (`<<:::REPLACE ... :::REPLACE`) is skipped.
//! - Code in backticks outside of a body is text, because models quote their instructions.
//! - Tool calls in the formats of several vendors are converted to commands.
//! - A malformed command is repaired if its intent is clear, with a warning that the model sees in its next turn.
//!
//! ```
//! use pijs_dialect_rummy::{Profile, tags};
//!
//! let parsed = tags::parse("Look:\n<get path=\"a.js\"/>\n<update status=\"102\">Reading", &Profile::v2(), 99);
//! assert_eq!(parsed.commands[0].text("path"), Some("a.js"));
//! assert_eq!(parsed.commands[1].text("body"), Some("Reading"));
//! assert_eq!(parsed.warnings, ["Unclosed <update> tag: its content was taken up to the end; close it with </update>."]);
//! assert_eq!(parsed.unparsed, "Look:");
//! ```

mod body;
mod edits;
mod foreign;
mod resolve;

pub use edits::{Edit, EditError, edits};

use crate::profile::Profile;
use serde_json::{Map, Value};

/// A command, with the fields for its handler.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Name of the tool.
    pub name: String,
    /// Fields such as `path` and `body`; a field that the tag does not set is missing.
    pub fields: Map<String, Value>,
}

impl Command {
    /// Returns a field, if it is a string.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    /// Returns the command in the format for handlers: its fields and the name.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".to_owned(), self.name.clone().into());
        object.extend(self.fields.clone());
        Value::Object(object)
    }
}

/// A parsed reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// Commands in the order of the reply.
    pub commands: Vec<Command>,
    /// Warnings, one sentence for each repair.
    pub warnings: Vec<String>,
    /// Text outside of commands, trimmed.
    pub unparsed: String,
}

/// Parses a reply with the tools of a profile, up to `max_commands` commands.
pub fn parse(reply: &str, profile: &Profile, max_commands: usize) -> Parsed {
    parse_with(reply, profile.tools, max_commands)
}

/// Parses a reply with these tools, usually those of the profile and of plugins.
pub fn parse_with(reply: &str, tools: &[&str], max_commands: usize) -> Parsed {
    let mut reader = Reader { text: reply, tools, out: Parsed::default(), outside: String::new(), is_fenced: false };
    let mut at = 0;
    let mut is_capped = false;
    while at < reply.len() && !is_capped {
        at = reader.step(at);
        if reader.out.commands.len() > max_commands {
            reader.out.commands.truncate(max_commands);
            is_capped = true;
        }
    }
    if is_capped {
        reader.out.warnings.push(format!(
            "Tool call limit ({max_commands}) reached: the remaining commands were dropped; send them in the next turn."
        ));
    }
    reader.out.unparsed = reader.outside.trim().to_owned();
    reader.out
}

struct Reader<'a> {
    text: &'a str,
    tools: &'a [&'a str],
    out: Parsed,
    outside: String,
    /// Whether a fence around commands is open.
    is_fenced: bool,
}

/// An opening tag.
struct Open {
    name: String,
    attributes: Map<String, Value>,
    is_closed: bool,
    /// Byte offset just past the tag.
    end: usize,
    was_repaired: bool,
}

impl Reader<'_> {
    /// Parses one item outside of bodies at a position, and returns the position of the next item.
    fn step(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let end = match rest.as_bytes()[0] {
            b'`' => self.fence(at).or_else(|| self.code(at)),
            b'<' | b'{' | b'[' => self.foreign(at).or_else(|| self.command(at)).or_else(|| self.stray_close(at)),
            _ => None,
        };
        end.unwrap_or_else(|| {
            let special = |next: &char| matches!(next, '`' | '<' | '{' | '[');
            let length =
                rest.char_indices().skip(1).find(|(_, next)| special(next)).map_or(rest.len(), |(place, _)| place);
            self.outside.push_str(&rest[..length]);
            at + length
        })
    }

    /// Skips a line that begins or ends a fence around commands; returns the position after it.
    fn fence(&mut self, at: usize) -> Option<usize> {
        let (length, begins) = foreign::fence(&self.text[at..], self.is_fenced)?;
        self.is_fenced = begins;
        Some(at + length)
    }

    /// Takes code in backticks as text; returns the position after it. A span of one or two backticks does not cross an empty
    /// line.
    fn code(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let mut from = ticks;
        let end = loop {
            let place = from + rest[from..].find('`')?;
            let run = rest[place..].len() - rest[place..].trim_start_matches('`').len();
            if run == ticks {
                break place + run;
            }
            from = place + run;
        };
        let span = &rest[..end];
        if ticks < 3 && span.contains("\n\n") {
            self.outside.push_str(&rest[..ticks]);
            return Some(at + ticks);
        }
        self.outside.push_str(span);
        Some(at + end)
    }

    fn foreign(&mut self, at: usize) -> Option<usize> {
        let (found, length) = foreign::call(&self.text[at..])?;
        for call in found {
            match call {
                foreign::Call::Text(text) => self.outside.push_str(&text),
                foreign::Call::Refused(warning) => self.out.warnings.push(warning),
                foreign::Call::Command { name, arguments } => match self.tools.iter().find(|tool| **tool == name) {
                    Some(tool) => self.out.commands.push(resolve::foreign(tool, &arguments)),
                    None => self.out.warnings.push(format!(
                        "Unknown tool '{name}' in a native tool call: use the XML commands that are listed above."
                    )),
                },
            }
        }
        Some(at + length)
    }

    fn command(&mut self, at: usize) -> Option<usize> {
        let open = self.open(at)?;
        if open.was_repaired {
            self.out
                .warnings
                .push("Repaired a malformed attribute: close all attribute values with a quote.".to_owned());
        }
        let (body, end) = if open.is_closed {
            ("", open.end)
        } else {
            let close = body::close(self.text, &open.name, open.end, self.tools);
            self.out.warnings.extend(close.warning);
            (&self.text[open.end..close.body_end], close.end)
        };
        let (command, warning) = resolve::command(&open.name, &open.attributes, body);
        self.out.commands.push(command);
        self.out.warnings.extend(warning);
        Some(end)
    }

    /// Skips the close tag of a tool without an open tag; returns the position after it.
    fn stray_close(&self, at: usize) -> Option<usize> {
        let (name, end) = body::close_tag(self.text, at)?;
        self.tools.contains(&name.as_str()).then_some(end)
    }

    /// Parses the opening tag of a tool.
    fn open(&self, at: usize) -> Option<Open> {
        let name = body::name_at(self.text, at + 1)?;
        let mut place = at + 1 + name.len();
        let name = name.to_ascii_lowercase();
        if !self.tools.contains(&name.as_str()) {
            return None;
        }
        let mut attributes = Map::new();
        let mut was_repaired = false;
        loop {
            let rest = &self.text[place..];
            place += rest.len() - rest.trim_start().len();
            let rest = &self.text[place..];
            if rest.starts_with("/>") {
                return Some(Open { name, attributes, is_closed: true, end: place + 2, was_repaired });
            }
            match rest.chars().next() {
                Some('>') => return Some(Open { name, attributes, is_closed: false, end: place + 1, was_repaired }),
                // The tag is not ended before the next tag begins or the text ends.
                None | Some('<') => return Some(Open { name, attributes, is_closed: false, end: place, was_repaired }),
                Some('/' | '"' | '\'' | '=') => place += 1,
                Some(_) => {
                    let length =
                        rest.find(|one: char| one.is_whitespace() || "=/><".contains(one)).unwrap_or(rest.len());
                    let key = rest[..length].to_ascii_lowercase();
                    place += length.max(1);
                    let (value, end, is_repaired) = self.value(place);
                    place = end;
                    attributes.entry(key).or_insert_with(|| value.into());
                    if is_repaired {
                        return Some(Open { name, attributes, is_closed: false, end: place, was_repaired: true });
                    }
                    was_repaired |= is_repaired;
                }
            }
        }
    }

    /// Parses the value of an attribute whose name ends at `place`. Returns the value, its end, and whether the closing quote was
    /// missing.
    fn value(&self, place: usize) -> (String, usize, bool) {
        let rest = &self.text[place..];
        let trimmed = rest.trim_start();
        let Some(after) = trimmed.strip_prefix('=') else { return (String::new(), place, false) };
        let after = after.trim_start();
        let start = self.text.len() - after.len();
        let Some(quote) = after.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
            let end = after.find(|one: char| one.is_whitespace() || matches!(one, '>' | '<')).unwrap_or(after.len());
            // In `<get path=a/>` the slash ends the tag.
            let end = if after[end..].starts_with('>') && after[..end].ends_with('/') { end - 1 } else { end };
            return (unescape(&after[..end]), start + end, false);
        };
        let inside = &after[1..];
        let mut from = 0;
        while let Some(next) = inside[from..].find([quote, '<']).map(|next| next + from) {
            if inside[next..].starts_with(quote) {
                return (unescape(&inside[..next]), start + 1 + next + 1, false);
            }
            let begins = inside[next + 1..].strip_prefix('/').unwrap_or(&inside[next + 1..]);
            let name = body::name_at(begins, 0).map(str::to_ascii_lowercase);
            if name.is_some_and(|name| self.tools.contains(&name.as_str())) {
                return (unescape(inside[..next].trim_end_matches(['>', '/'])), start + 1 + next, true);
            }
            from = next + 1;
        }
        (unescape(inside.trim_end_matches(['>', '/'])), self.text.len(), true)
    }
}

/// Replaces the five predefined entities of XML.
fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    plain.replace("&#39;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests;
