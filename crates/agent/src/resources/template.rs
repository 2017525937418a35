//! Prompt templates: `/NAME ARGS` stands for the text of a file.

use super::markdown::Document;
use regex::{Captures, Regex};
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

/// Characters of the first line that serve as a description.
const DESCRIBED: usize = 60;

/// A text to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptTemplate {
    /// What follows the slash: the file's name.
    pub name: String,
    /// From the front matter, else the first line.
    pub description: String,
    /// What to type behind the name.
    pub argument_hint: Option<String>,
    /// With placeholders.
    pub content: String,
    /// Where it comes from.
    pub source_info: Value,
}

impl PromptTemplate {
    pub(super) fn new(path: &Path, document: Document, source_info: Value) -> Self {
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

/// The text that a typed line stands for; `None` when it names no template.
pub(super) fn expand(line: &str, templates: &[PromptTemplate]) -> Option<String> {
    let rest = line.strip_prefix('/')?;
    let (name, args) = match rest.find(char::is_whitespace) {
        Some(at) => (&rest[..at], rest[at..].trim_start()),
        None => (rest, ""),
    };
    let template = templates.iter().find(|template| template.name == name)?;
    Some(fill(&template.content, &arguments(args)))
}

/// Words of a line; quotes keep words together.
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

/// `$1`, `$@`, `$ARGUMENTS`, `${1:-default}`, `${@:2}`, `${@:2:1}`. What is filled in is not searched again.
fn fill(content: &str, args: &[String]) -> String {
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\$\{(\d+|ARGUMENTS|@):-([^}]*)\}|\$\{@:(\d+)(?::(\d+))?\}|\$(ARGUMENTS|@|\d+)")
            .expect("a valid pattern")
    });
    let number = |text: &str| text.parse::<usize>().unwrap_or(usize::MAX);
    let value = |target: &str| match target {
        "@" | "ARGUMENTS" => args.join(" "),
        position => number(position).checked_sub(1).and_then(|at| args.get(at)).cloned().unwrap_or_default(),
    };
    let replaced = PLACEHOLDER.replace_all(content, |found: &Captures<'_>| {
        if let (Some(target), Some(default)) = (found.get(1), found.get(2)) {
            let value = value(target.as_str());
            return if value.is_empty() { default.as_str().to_owned() } else { value };
        }
        if let Some(start) = found.get(3) {
            let start = number(start.as_str()).saturating_sub(1).min(args.len());
            let length = found.get(4).map_or(usize::MAX, |length| number(length.as_str()));
            return args[start..].iter().take(length).cloned().collect::<Vec<_>>().join(" ");
        }
        found.get(5).map(|target| value(target.as_str())).unwrap_or_default()
    });
    replaced.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_as_pi_fills_them() {
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
            assert_eq!(fill(content, &args), expected, "{content}");
        }
        assert_eq!(fill("${@:-nothing}", &[]), "nothing");
        assert_eq!(fill("$1", &["$2".into(), "no".into()]), "$2");
    }
}
