//! Prompt templates: `/NAME ARGS` expands to the text of a file.

use super::markdown::MarkdownDocument;
use pijs_protocol::guard;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

/// Maximum length in characters of a description that is taken from the first line.
const DESCRIBED: usize = 60;
/// Maximum size of an expanded template in bytes; no model context holds more.
pub(super) const MAX_EXPANSION_BYTES: usize = 16 << 20;

/// A prompt template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptTemplate {
    /// Name after the slash: the stem of the file name.
    pub name: String,
    /// Description from the front matter, otherwise the first line.
    pub description: String,
    /// Hint about the arguments; `None` without one.
    pub argument_hint: Option<String>,
    /// Text with placeholders.
    pub content: String,
    /// Origin of the template, in pi's format.
    pub source_info: Value,
}

impl PromptTemplate {
    pub(super) fn new(path: &Path, document: MarkdownDocument, source_info: Value) -> Self {
        let described = document.text("description").filter(|text| !text.is_empty());
        let description = described.unwrap_or_else(|| {
            let first = document.body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let short: String = first.chars().take(DESCRIBED).collect();
            if short.len() < first.len() { format!("{short}...") } else { short }
        });
        Self {
            name: path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            description,
            argument_hint: document.text("argument-hint"),
            content: document.body,
            source_info,
        }
    }
}

/// Expands a typed line; `None` if it does not name a template.
///
/// # Errors
///
/// Returns the template if the expansion is longer than [`MAX_EXPANSION_BYTES`].
pub(super) fn expand<'a>(line: &str, templates: &'a [PromptTemplate]) -> Result<Option<String>, &'a PromptTemplate> {
    let Some(rest) = line.strip_prefix('/') else { return Ok(None) };
    let (name, args) = match rest.find(char::is_whitespace) {
        Some(at) => (&rest[..at], rest[at..].trim_start()),
        None => (rest, ""),
    };
    let Some(template) = templates.iter().find(|template| template.name == name) else { return Ok(None) };
    let most = if guard!(ResourcesTemplateSize) { MAX_EXPANSION_BYTES } else { usize::MAX };
    fill(&template.content, &arguments(args), most).map(Some).ok_or(template)
}

/// Splits a line into words. Quotes keep blanks in a word.
fn arguments(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for character in line.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => word.push(character),
            None if matches!(character, '"' | '\'') => quote = Some(character),
            None if character.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            None => word.push(character),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Replaces `$1`, `$@`, `$ARGUMENTS`, `${1:-default}`, `${@:2}` and `${@:2:1}`. Arguments are not expanded again. Returns `None`
/// if the text becomes longer than `most`, because each placeholder may insert all arguments.
fn fill(content: &str, args: &[String], most: usize) -> Option<String> {
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\$\{(\d+|ARGUMENTS|@):-([^}]*)\}|\$\{@:(\d+)(?::(\d+))?\}|\$(ARGUMENTS|@|\d+)")
            .expect("a valid pattern")
    });
    let number = |text: &str| text.parse::<usize>().unwrap_or(usize::MAX);
    let value = |target: &str| match target {
        "@" | "ARGUMENTS" => args,
        position => number(position).checked_sub(1).and_then(|at| args.get(at)).map_or(&[][..], std::slice::from_ref),
    };
    let mut filled = BoundedText { text: String::new(), most };
    let mut behind = 0;
    for found in PLACEHOLDER.captures_iter(content) {
        let place = found.get(0).expect("a match has a range");
        filled.push(&content[behind..place.start()])?;
        behind = place.end();
        if let (Some(target), Some(default)) = (found.get(1), found.get(2)) {
            match value(target.as_str()) {
                words if words.iter().all(String::is_empty) && words.len() < 2 => filled.push(default.as_str())?,
                words => filled.push_words(words)?,
            }
        } else if let Some(start) = found.get(3) {
            let start = number(start.as_str()).saturating_sub(1).min(args.len());
            let length = found.get(4).map_or(usize::MAX, |length| number(length.as_str()));
            filled.push_words(&args[start..][..length.min(args.len() - start)])?;
        } else if let Some(target) = found.get(5) {
            filled.push_words(value(target.as_str()))?;
        }
    }
    filled.push(&content[behind..])?;
    Some(filled.text)
}

/// A text with a size limit.
struct BoundedText {
    text: String,
    most: usize,
}

impl BoundedText {
    fn push(&mut self, more: &str) -> Option<()> {
        self.text.push_str(more);
        (self.text.len() <= self.most).then_some(())
    }

    /// Appends words, separated by blanks.
    fn push_words(&mut self, words: &[String]) -> Option<()> {
        for (at, word) in words.iter().enumerate() {
            if at > 0 {
                self.push(" ")?;
            }
            self.push(word)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_expanded_as_in_pi() {
        let args = arguments("one 'two three' four");
        for (content, expected) in [
            ("$1|$2|$9", "one|two three|"),
            ("$@", "one two three four"),
            ("$ARGUMENTS!", "one two three four!"),
            ("${@:2}", "two three four"),
            ("${@:2:1}", "two three"),
            ("${9:-none} ${1:-none}", "none one"),
            ("${@:-x}", "one two three four"),
            ("$0 costs $", " costs $"),
            ("${@:0}", "one two three four"),
            ("${@:99}", ""),
        ] {
            assert_eq!(fill(content, &args, 100).as_deref(), Some(expected), "{content}");
        }
        assert_eq!(fill("${@:-nothing}", &[], 100).as_deref(), Some("nothing"));
        assert_eq!(fill("$1", &["$2".into(), "no".into()], 100).as_deref(), Some("$2"));
    }

    #[test]
    fn repeated_placeholders_are_bounded() {
        let source_info = Value::Null;
        let content = "$@ $ARGUMENTS ${@:1} ${9:-x} ".repeat(10_000);
        let (name, description) = ("many".to_owned(), String::new());
        let templates = [PromptTemplate { name, description, argument_hint: None, content, source_info }];
        let expanded = |length: usize| expand(&format!("/many {}", "word ".repeat(length / 5)), &templates);
        assert!(expanded(100).is_ok_and(|text| text.is_some_and(|text| text.len() > 3_000_000)));
        assert_eq!(expanded(100_000), Err(&templates[0]));
    }
}
