//! Makes a document comparable between runs and machines: `oracle/format.md`, normalisation rules 1 to 3.
//!
//! ```text
//! /tmp/snap-a1b2c3/cwd/x.md           <cwd>/x.md
//! .../NAME@1.0.0/node_modules/NAME/i  <pkg:NAME>/i
//! 6f1c...-...                         <uuid:1>
//! "\u001b[31mred\u001b[0m"            "red"
//! ```
//!
//! One [`Normaliser`] serves one document: ids are numbered in the order in which they are met.

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

/// Rewrites the texts of one document.
#[derive(Debug, Default)]
pub(crate) struct Normaliser {
    /// Longest first.
    places: Vec<(String, String)>,
    uuids: BTreeMap<String, usize>,
}

impl Normaliser {
    /// Writes `name` for a path, and for what lies below it; of two that fit the longer path counts.
    #[must_use]
    pub(crate) fn place(mut self, path: &Path, name: &str) -> Self {
        self.text_for(&path.display().to_string(), name);
        self
    }

    /// Takes `root/` off, so that paths below it are relative.
    #[must_use]
    pub(crate) fn relative_to(mut self, root: &Path) -> Self {
        self.text_for(&format!("{}/", root.display()), "");
        self
    }

    fn text_for(&mut self, from: &str, to: &str) {
        self.places.push((from.to_owned(), to.to_owned()));
        // A stable sort: of two names for one path the first stays first.
        self.places.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    }

    /// The document with every string and key rewritten.
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

    /// One text rewritten.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = ESCAPES.replace_all(text, "").into_owned();
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
        text = UUID
            .replace_all(&text, |found: &Captures<'_>| {
                let next = self.uuids.len() + 1;
                format!("<uuid:{}>", self.uuids.entry(found[0].to_lowercase()).or_insert(next))
            })
            .into_owned();
        NODE.replace_all(&text, "(node:<pid>)").into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_place_counts() {
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
    fn terminal_sequences_are_removed() {
        let text = "\u{1b}[1;31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\ end";
        assert_eq!(Normaliser::default().text(text), "red link end");
    }
}
