//! Converts positions in the editor's text to the coordinates of extensions.

use serde_json::{Value, json};

/// A text with the cursor position in the coordinates of extensions: line, and UTF-16 offset in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompletionRequest {
    pub(super) lines: Vec<String>,
    pub(super) line: usize,
    pub(super) col: usize,
    /// Whether the user requested completion explicitly.
    pub(super) force: bool,
}

impl CompletionRequest {
    /// Creates a request from a text and the byte offset of the cursor.
    pub(super) fn new(text: &str, at: usize, force: bool) -> Self {
        let head = &text[..at];
        let line = head.matches('\n').count();
        let col = head.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
        Self { lines: text.split('\n').map(str::to_owned).collect(), line, col, force }
    }

    /// Parses the request of an extension; `None` if the position is invalid.
    pub(super) fn read(params: &serde_json::Map<String, Value>) -> Option<Self> {
        let number = |key: &str| usize::try_from(params.get(key)?.as_u64()?).ok();
        let lines: Vec<String> =
            params.get("lines")?.as_array()?.iter().filter_map(|line| line.as_str().map(str::to_owned)).collect();
        let (line, col) = (number("line")?, number("col")?);
        let force = params.get("force") == Some(&Value::Bool(true));
        (line < lines.len()).then_some(Self { lines, line, col, force })
    }

    /// Returns the part of the line before the cursor.
    pub(super) fn head(&self) -> &str {
        let line = self.lines.get(self.line).map_or("", String::as_str);
        &line[..byte_of(line, self.col)]
    }

    fn value(&self, kind: &str) -> Value {
        json!({"type": kind, "lines": self.lines, "line": self.line, "col": self.col, "force": self.force})
    }

    /// Returns the parameters for a provider of an extension.
    pub(super) fn to_suggest(&self) -> Value {
        self.value("suggest")
    }

    /// Returns the parameters with which a provider inserts a chosen item.
    pub(super) fn to_apply(&self, item: &Value, prefix: &str) -> Value {
        let mut request = self.value("apply");
        (request["item"], request["prefix"]) = (item.clone(), prefix.into());
        request
    }
}

/// Converts a UTF-16 offset to a byte offset.
pub(super) fn byte_of(line: &str, col: usize) -> usize {
    let mut units = 0;
    for (at, c) in line.char_indices() {
        if units >= col {
            return at;
        }
        units += c.len_utf16();
    }
    line.len()
}
