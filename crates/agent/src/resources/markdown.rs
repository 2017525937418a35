//! Markdown with YAML in front.

use pijs_durable::read_regular;
use std::path::Path;
use yaml_rust2::{Yaml, YamlLoader};

/// Longest skill or template, in bytes: more than any model reads.
const LONGEST: u64 = 4 << 20;

/// A file in two parts.
pub(super) struct Document {
    front: Yaml,
    /// What follows.
    pub(super) body: String,
}

impl Document {
    /// Reads a file; the error is a sentence.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = read_regular(path, LONGEST).map_err(|error| error.to_string())?;
        Self::parse(&String::from_utf8(text).map_err(|error| error.to_string())?)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
        let end = text.strip_prefix("---").and_then(|rest| rest.find("\n---")).map(|at| at + 3);
        let Some(end) = end else { return Ok(Self { front: Yaml::Null, body: text }) };
        let yaml = text.get(4..end).unwrap_or_default();
        let front = YamlLoader::load_from_str(yaml).map_err(|error| format!("its front matter is no YAML: {error}"))?;
        let body = text[end + 4..].trim().to_owned();
        Ok(Self { front: front.into_iter().next().unwrap_or(Yaml::Null), body })
    }

    /// A member that is text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.front[key].as_str().map(str::to_owned)
    }

    /// Whether a member is `true`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.front[key].as_bool() == Some(true)
    }
}
