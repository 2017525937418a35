//! Markdown with YAML front matter.

use pijs_protocol::guard;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::{Yaml, YamlLoader};

/// Maximum size of a skill or template in bytes; no model context holds more.
pub(super) const MAX_BYTES: u64 = 4 << 20;

/// Maximum nesting of lists and maps in front matter. A description needs no nesting, and a list one level.
const MAX_DEPTH: usize = 32;

/// A Markdown file: front matter and body.
pub(super) struct MarkdownDocument {
    front: Yaml,
    /// The Markdown after the front matter.
    pub(super) body: String,
}

impl MarkdownDocument {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
        let end = text.strip_prefix("---").and_then(|rest| rest.find("\n---")).map(|at| at + 3);
        let Some(end) = end else { return Ok(Self { front: Yaml::Null, body: text }) };
        let yaml = text.get(4..end).unwrap_or_default();
        let words = |why: String| format!("its front matter is not valid YAML: {why}");
        if guard!(ResourcesFrontMatter) {
            is_plain(yaml).map_err(words)?;
        }
        let front = YamlLoader::load_from_str(yaml).map_err(|error| words(error.to_string()))?;
        let body = text[end + 4..].trim().to_owned();
        Ok(Self { front: front.into_iter().next().unwrap_or(Yaml::Null), body })
    }

    /// Returns a text member.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.front[key].as_str().map(str::to_owned)
    }

    /// Returns whether a member is `true`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.front[key].as_bool() == Some(true)
    }
}

/// Rejects YAML with aliases or with deep nesting: aliases multiply memory when they are expanded, and the loader is recursive.
fn is_plain(yaml: &str) -> Result<(), String> {
    let mut parser = Parser::new_from_str(yaml);
    let mut depth = 0_usize;
    loop {
        let (event, _) = parser.next_token().map_err(|error| error.to_string())?;
        match event {
            Event::StreamEnd => return Ok(()),
            Event::Alias(_) => return Err("an alias (`*name`) is not supported".to_owned()),
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(front: &str) -> Result<Option<String>, String> {
        MarkdownDocument::parse(&format!("---\n{front}\n---\nbody")).map(|document| document.text("description"))
    }

    #[test]
    fn front_matter_with_aliases_or_deep_nesting_is_rejected() {
        assert_eq!(read("description: words\ntags: [a, [b]]\nmore:\n  - x: {y: 1}"), Ok(Some("words".to_owned())));
        assert_eq!(read(&format!("description: x\na: {}{}", "[".repeat(31), "]".repeat(31))), Ok(Some("x".to_owned())));
        for hostile in [
            "a: &a [x]\nb: *a".to_owned(),
            format!("a: {}{}", "[".repeat(32), "]".repeat(32)),
            format!("a:\n  {}x", "- ".repeat(100_000)),
            format!("{}x", "? ".repeat(100_000)),
        ] {
            let refused = read(&hostile).expect_err("hostile YAML");
            assert!(refused.starts_with("its front matter is not valid YAML: "), "{refused}");
        }
    }
}
