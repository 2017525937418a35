//! Markdown with YAML in front.

use std::fs;
use std::path::Path;
use serde_norway::Value;

/// A file in two parts.
pub(super) struct Document {
    front: Value,
    /// What follows.
    pub(super) body: String,
}

impl Document {
    /// Reads a file; the error is a sentence.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
        let end = text.strip_prefix("---").and_then(|rest| rest.find("\n---")).map(|at| at + 3);
        let Some(end) = end else { return Ok(Self { front: Value::Null, body: text }) };
        let yaml = text.get(4..end).unwrap_or_default();
        let front = serde_norway::from_str(yaml).map_err(|error| format!("its front matter is no YAML: {error}"))?;
        let body = text[end + 4..].trim().to_owned();
        Ok(Self { front, body })
    }

    /// A member that is text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.front.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    /// Whether a member is `true`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.front.get(key).and_then(Value::as_bool) == Some(true)
    }
}
