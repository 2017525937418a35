//! Extracts paths from the arguments of a tool call while they stream.
//!
//! Scans the JSON text once, however it is split, and collects the strings under keys such as `path` or `file_path`, also in
//! lists. Invalid JSON yields no paths.

/// Keys whose strings are paths.
const KEYS: &[&str] = &["path", "paths", "file", "files", "file_path", "filePath", "filename", "fileName"];
/// Maximum length of a path in bytes; longer strings are ignored.
const MAX_PATH: usize = 4096;
/// Nesting depth beyond which the arguments are ignored.
const MAX_DEPTH: usize = 64;

/// An incremental scanner for paths in tool call arguments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArgumentPaths {
    /// Bytes scanned so far.
    seen: usize,
    /// Open containers: `true` for an object, `false` for a list.
    containers: Vec<bool>,
    /// Whether the next string is a key.
    key_next: bool,
    /// Whether the latest key is one of [`KEYS`].
    wanted: bool,
    in_string: bool,
    escaped: bool,
    /// Source text of the current string, if it is a path or a key.
    capture: Option<String>,
    found: Vec<String>,
}

impl ArgumentPaths {
    /// Scans text that was not passed to [`ArgumentPaths::push`]; `all` is the whole text so far.
    pub fn catch_up(&mut self, all: &str) {
        if let Some(rest) = all.get(self.seen..) {
            self.push(rest);
        }
    }

    /// Scans the next piece.
    pub fn push(&mut self, piece: &str) {
        self.seen += piece.len();
        for c in piece.chars() {
            if self.in_string {
                self.string(c);
            } else {
                self.structure(c);
            }
        }
    }

    /// Returns the paths in order of appearance.
    pub fn found(&self) -> &[String] {
        &self.found
    }

    fn structure(&mut self, c: char) {
        match c {
            '"' => {
                self.in_string = true;
                self.capture = (self.key_next || self.wanted).then(String::new);
            }
            '{' | '[' if self.containers.len() < MAX_DEPTH => {
                self.containers.push(c == '{');
                self.key_next = c == '{';
                self.wanted &= c == '[';
            }
            '}' | ']' => {
                self.containers.pop();
                self.wanted = false;
            }
            ',' => {
                let in_object = self.containers.last() == Some(&true);
                self.key_next = in_object;
                self.wanted &= !in_object;
            }
            ':' => self.key_next = false,
            _ => {}
        }
    }

    fn string(&mut self, c: char) {
        if c == '"' && !self.escaped {
            self.in_string = false;
            self.end_of_string();
            return;
        }
        self.escaped = c == '\\' && !self.escaped;
        if let Some(capture) = &mut self.capture {
            capture.push(c);
            if capture.len() > MAX_PATH {
                self.capture = None;
            }
        }
    }

    fn end_of_string(&mut self) {
        let Some(text) = self.capture.take().and_then(|raw| serde_json::from_str::<String>(&format!("\"{raw}\"")).ok())
        else {
            if self.key_next {
                self.wanted = false;
            }
            return;
        };
        if self.key_next {
            self.wanted = KEYS.contains(&text.as_str());
        } else if !self.found.contains(&text) {
            self.found.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Vec<String> {
        let mut whole = ArgumentPaths::default();
        whole.push(json);
        let mut bytewise = ArgumentPaths::default();
        for (at, c) in json.char_indices() {
            bytewise.catch_up(&json[..at]);
            bytewise.push(&json[at..at + c.len_utf8()]);
        }
        assert_eq!(whole.found(), bytewise.found());
        whole.found
    }

    #[test]
    fn paths_are_found_however_the_text_is_split() {
        assert_eq!(found(r#"{"content":"path","path":"a\"b.ts","x":{"file_path":"c"}}"#), ["a\"b.ts", "c"]);
        assert_eq!(found(r#"{"paths":["a","b"],"other":["c"],"edits":[{"path":"d","oldText":"e"}]}"#), ["a", "b", "d"]);
        assert_eq!(found(r#"{"path":"x"}"#), ["x"]);
    }

    #[test]
    fn incomplete_text_yields_only_complete_paths() {
        assert_eq!(found(r#"{"path":"unfini"#), Vec::<String>::new());
        assert_eq!(found(r#"]]}}"path":"x"#), Vec::<String>::new());
        assert_eq!(found(&"[".repeat(1000)), Vec::<String>::new());
    }
}
