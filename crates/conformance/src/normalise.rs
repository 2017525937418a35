//! Makes a document comparable between runs and machines: `oracle/format.md`, normalisation rules 1 to 4.
//!
//! ```text
//! /tmp/snap-a1b2c3/cwd/x.md           <cwd>/x.md
//! .../NAME@1.0.0/node_modules/NAME/i  <pkg:NAME>/i
//! 6f1c...-...                         <uuid:1>
//! "\u001b[31mred\u001b[0m"            "red"
//! ```
//!
//! One [`Normaliser`] is used for one document: ids are numbered in the order of their first appearance.

use regex::{Captures, Regex};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "\u{1b}\\[[0-9;:?<=>]*[ -/]*[@-~]|\u{1b}\\][^\u{1b}\u{7}]*(?:\u{7}|\u{1b}\\\\)|\u{1b}_[^\u{1b}\u{7}]*(?:\u{7}|\u{1b}\\\\)",
    )
    .expect("a constant pattern")
});
static PACKAGES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"<packages>/((?:@[^/+\s]+\+)?[^@/\s]+)@[^/\s]+/node_modules/(@[^/\s"']+/[^/\s"']+|[^/\s"']+)"#)
        .expect("a constant pattern")
});
static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
        .expect("a constant pattern")
});
static NODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\(node:\d+\)").expect("a constant pattern"));

/// Returns a text without terminal escape sequences.
pub(crate) fn without_escapes(text: &str) -> String {
    ESCAPES.replace_all(text, "").into_owned()
}

/// Rewrites the texts of one document.
#[derive(Debug, Default)]
pub(crate) struct Normaliser {
    /// Paths and the names that replace them, longest path first.
    places: Vec<(String, String)>,
    /// A folder that is replaced before all paths, and its name.
    folder: Option<(String, String)>,
    uuids: BTreeMap<String, usize>,
    /// Ids of session entries that are numbered wherever they occur, in the order of creation.
    entries: Vec<String>,
    entry_numbers: BTreeMap<String, usize>,
    rules: Vec<Replacement>,
}

/// Rule 4: a JavaScript regular expression and the text that replaces its matches.
#[derive(Debug)]
pub(crate) struct Replacement {
    pattern: regress::Regex,
    is_global: bool,
    with: String,
}

impl Replacement {
    /// Compiles a pattern with JavaScript's flags; `None` means `g`.
    pub(crate) fn new(pattern: &str, flags: Option<&str>, with: &str) -> Result<Self, regress::Error> {
        let flags = flags.unwrap_or("g");
        let others: String = flags.chars().filter(|flag| *flag != 'g').collect();
        let pattern = regress::Regex::with_flags(pattern, others.as_str())?;
        Ok(Self { pattern, is_global: flags.contains('g'), with: with.to_owned() })
    }

    fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        let found = self.pattern.find_iter(text).take(if self.is_global { usize::MAX } else { 1 });
        for found in found {
            out.push_str(&text[end..found.start()]);
            self.expand(text, &found, &mut out);
            end = found.end();
        }
        out.push_str(&text[end..]);
        out
    }

    /// Appends the replacement of a match to `out`: expands `$$`, `$&`, `$1` to `$99` and `$<name>`, as
    /// `String.prototype.replace` does.
    fn expand(&self, text: &str, found: &regress::Match, out: &mut String) {
        let groups = found.captures.len();
        let group = |number: usize| found.group(number).map_or("", |range| &text[range]);
        let mut rest = self.with.as_str();
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
            let number = |count: usize| after[..count].parse::<usize>().ok().filter(|n| (1..=groups).contains(n));
            let numbered = (1..=digits).rev().find_map(|count| Some((count, number(count)?)));
            rest = if let Some((count, number)) = numbered {
                out.push_str(group(number));
                &after[count..]
            } else if let Some(after) = after.strip_prefix('$') {
                out.push('$');
                after
            } else if let Some(after) = after.strip_prefix('&') {
                out.push_str(group(0));
                after
            } else if let Some((name, after)) = after.strip_prefix('<').and_then(|after| after.split_once('>')) {
                out.push_str(found.named_group(name).map_or("", |range| &text[range]));
                after
            } else {
                out.push('$');
                after
            };
        }
        out.push_str(rest);
    }
}

impl Normaliser {
    /// Writes `name` for a path and its descendants; the longest matching path has precedence.
    #[must_use]
    pub(crate) fn place(mut self, path: &Path, name: &str) -> Self {
        self.text_for(&path.display().to_string(), name);
        self
    }

    /// Writes `name` for a folder whose name may be the prefix of others.
    #[must_use]
    pub(crate) fn folder(mut self, path: &Path, name: &str) -> Self {
        self.folder = Some((path.display().to_string(), name.to_owned()));
        self
    }

    /// Removes `root/`, so that paths below it are relative.
    #[must_use]
    pub(crate) fn relative_to(mut self, root: &Path) -> Self {
        self.text_for(&format!("{}/", root.display()), "");
        self
    }

    /// Writes `name` for a text that is not a path.
    #[must_use]
    pub(crate) fn literal(mut self, text: &str, name: &str) -> Self {
        self.text_for(text, name);
        self
    }

    /// Numbers these ids wherever they occur, by first appearance.
    #[must_use]
    pub(crate) fn numbering(mut self, ids: Vec<String>) -> Self {
        self.entries = ids;
        self
    }

    /// Adds replacements that are applied last, in this order.
    #[must_use]
    pub(crate) fn rules(mut self, rules: Vec<Replacement>) -> Self {
        self.rules = rules;
        self
    }

    fn text_for(&mut self, from: &str, to: &str) {
        self.places.push((from.to_owned(), to.to_owned()));
        // The sort is stable, so the first of two names for one path is used.
        self.places.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    }

    /// Returns the document with every string and key rewritten.
    pub(crate) fn document(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.document(item)).collect(),
            Value::Object(members) => {
                let mut members: Vec<(String, Value)> = members.into_iter().collect();
                members.sort_by(|(a, _), (b, _)| a.cmp(b));
                let rewritten = members.into_iter().map(|(key, value)| {
                    let is_pid = key.eq_ignore_ascii_case("pid") || key.eq_ignore_ascii_case("ppid");
                    let value = if is_pid && value.is_number() { "<pid>".into() } else { self.document(value) };
                    (self.text(&key), value)
                });
                Value::Object(rewritten.collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    /// Returns one text rewritten.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = without_escapes(text);
        if let Some((from, to)) = &self.folder {
            text = replace_whole(&text, from, to);
        }
        for (from, to) in &self.places {
            text = text.replace(from, to);
        }
        text = PACKAGES
            .replace_all(&text, |found: &Captures<'_>| {
                let (folder, name) = (found[1].replace('+', "/"), &found[2]);
                let kind = if folder == *name { "pkg" } else { "dep" };
                format!("<{kind}:{name}>")
            })
            .into_owned();
        for id in &self.entries {
            if text.contains(id.as_str()) {
                let next = self.entry_numbers.len() + 1;
                let number = *self.entry_numbers.entry(id.clone()).or_insert(next);
                text = text.replace(id.as_str(), &format!("<entry:{number}>"));
            }
        }
        text = UUID
            .replace_all(&text, |found: &Captures<'_>| {
                let next = self.uuids.len() + 1;
                format!("<uuid:{}>", self.uuids.entry(found[0].to_lowercase()).or_insert(next))
            })
            .into_owned();
        text = NODE.replace_all(&text, "(node:<pid>)").into_owned();
        self.rules.iter().fold(text, |text, rule| rule.apply(&text))
    }
}

/// Replaces `from` unless it is the prefix of a longer name.
fn replace_whole(text: &str, from: &str, to: &str) -> String {
    let mut pieces = text.split(from);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let goes_on = piece.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '-' | '_' | '.'));
        out.push_str(if goes_on { from } else { to });
        out.push_str(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_matching_place_is_replaced() {
        let mut normaliser =
            Normaliser::default().place("/t/home".as_ref(), "<home>").place("/t/home/.pi".as_ref(), "<pi>");
        assert_eq!(normaliser.text("/t/home/.pi/a and /t/home/b"), "<pi>/a and <home>/b");
    }

    #[test]
    fn files_of_packages_and_of_their_dependencies_are_told_apart() {
        let mut normaliser = Normaliser::default().place("/p".as_ref(), "<packages>");
        assert_eq!(normaliser.text("/p/@a+b@1.2.0/node_modules/@a/b/x.ts"), "<pkg:@a/b>/x.ts");
        assert_eq!(normaliser.text("/p/@a+b@1.2.0/node_modules/yaml/x.js"), "<dep:yaml>/x.js");
    }

    #[test]
    fn ids_are_numbered_by_first_appearance_under_sorted_keys() {
        let (one, two) = ("6f1c0a52-1111-4222-8333-444455556666", "0A0B0C0D-1111-4222-9333-444455556666");
        let document = json!({"b": one, "a": format!("{two} {}", two.to_lowercase()), "pid": 12, "c": "(node:77) x"});
        let expected = json!({"a": "<uuid:1> <uuid:1>", "b": "<uuid:2>", "pid": "<pid>", "c": "(node:<pid>) x"});
        assert_eq!(Normaliser::default().document(document), expected);
    }

    #[test]
    fn replacements_follow_javascript() {
        let cases = [
            (r"v0\.\d+", None, "v<version>", "v0.87 and v0.9", "v<version> and v<version>"),
            (r"(a)(?<x>b)", None, "$2$1$<x>$$$&$3", "ab", "bab$ab$3"),
            (r"A", Some("i"), "x", "aA", "xA"),
            (r#"("id": ?")[a-z]+(?=")"#, None, "$1<job>", r#"{"id": "abc"}"#, r#"{"id": "<job>"}"#),
        ];
        for (pattern, flags, with, text, expected) in cases {
            let rule = Replacement::new(pattern, flags, with).expect("a sound pattern");
            assert_eq!(Normaliser::default().rules(vec![rule]).text(text), expected, "{pattern}");
        }
        assert!(Replacement::new("(", None, "").is_err());
    }

    #[test]
    fn entry_ids_are_numbered_by_first_appearance() {
        let mut normaliser = Normaliser::default().numbering(vec!["0a0b0c0d".into(), "11112222".into()]);
        assert_eq!(normaliser.text("leaf 11112222"), "leaf <entry:1>");
        assert_eq!(normaliser.text("0a0b0c0d, 11112222"), "<entry:2>, <entry:1>");
    }

    #[test]
    fn terminal_sequences_are_removed() {
        let text = "\u{1b}[1;31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\ end";
        assert_eq!(Normaliser::default().text(text), "red link end");
    }
}
