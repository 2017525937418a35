//! Extracts the lines that a patch adds, file by file, while it streams.
//!
//! It reads unified diffs, `apply_patch` envelopes (`*** Update File: a.rs`) and hashline edits (`[a.rs#1A2B]`): a line that
//! begins with `+` is new, and is passed on without the sign.

/// Maximum number of bytes kept of a line that names a file.
const MAX_HEADER: usize = 4096;

/// A part of a patch. Parts are passed on in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatchPart<'a> {
    /// Begins the lines of this file.
    File(&'a str),
    /// The next characters of the new lines. A line break precedes each line except the first of a file.
    Text(&'a str),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Start,
    New,
    /// A line that may name a file.
    Header,
    Other,
}

/// Reads a patch piece by piece.
#[derive(Debug, Default)]
pub(crate) struct NewLines {
    line: Line,
    header: String,
    /// Whether the previous line was the header of a unified diff's old file.
    is_behind_old: bool,
    /// Whether the current file has a new line.
    has_text: bool,
}

impl NewLines {
    /// Reads the next piece of the patch.
    pub(crate) fn push(&mut self, piece: &str, part: &mut impl FnMut(PatchPart<'_>)) {
        let bytes = piece.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if self.line == Line::Start {
                let byte = bytes[at];
                self.header.clear();
                self.line = match byte {
                    b'+' if !self.is_behind_old => Line::New,
                    b'+' | b'-' | b'*' | b'[' => Line::Header,
                    _ => Line::Other,
                };
                if self.line == Line::New {
                    at += 1;
                    if self.has_text {
                        part(PatchPart::Text("\n"));
                    }
                    self.has_text = true;
                    continue;
                }
            }
            let end = bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| at + end);
            match self.line {
                Line::New if end > at => part(PatchPart::Text(&piece[at..end])),
                Line::Header if self.header.len() + end - at <= MAX_HEADER => self.header.push_str(&piece[at..end]),
                Line::Header => self.line = Line::Other,
                _ => {}
            }
            at = end;
            if at < bytes.len() {
                at += 1;
                self.end_line(part);
            }
        }
    }

    /// Ends the patch.
    pub(crate) fn finish(&mut self, part: &mut impl FnMut(PatchPart<'_>)) {
        self.end_line(part);
        *self = Self::default();
    }

    fn end_line(&mut self, part: &mut impl FnMut(PatchPart<'_>)) {
        let was_behind_old = std::mem::take(&mut self.is_behind_old);
        if std::mem::take(&mut self.line) != Line::Header {
            return;
        }
        let header = self.header.trim_end();
        if let Some(file) = file_of(header) {
            self.has_text = false;
            part(PatchPart::File(file));
        } else if header.starts_with("--- ") {
            self.is_behind_old = true;
        } else if was_behind_old && header.starts_with('+') {
            if let Some(file) = header.strip_prefix("+++ ") {
                let file = file.split('\t').next().unwrap_or(file);
                self.has_text = false;
                part(PatchPart::File(file.strip_prefix("b/").unwrap_or(file)));
            } else {
                // The previous line was one that the patch removes.
                if self.has_text {
                    part(PatchPart::Text("\n"));
                }
                self.has_text = true;
                part(PatchPart::Text(&header[1..]));
            }
        }
    }
}

/// Returns the file that a header line of an envelope names.
fn file_of(header: &str) -> Option<&str> {
    if let Some(rest) = header.strip_prefix("*** ") {
        let named = ["Update File:", "Add File:", "Move to:"].iter().find_map(|word| rest.strip_prefix(word));
        return named.map(str::trim).filter(|file| !file.is_empty());
    }
    let inside = header.strip_prefix('[')?.strip_suffix(']')?;
    let file = inside.rsplit_once('#').map_or(inside, |(file, _)| file);
    (!file.is_empty()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(patch: &str) -> Vec<(String, String)> {
        let mut results = Vec::new();
        for size in [1, 3, patch.len().max(1)] {
            let mut lines = NewLines::default();
            let mut files = vec![(String::new(), String::new())];
            let mut take = |part: PatchPart<'_>| match part {
                PatchPart::File(file) => files.push((file.to_owned(), String::new())),
                PatchPart::Text(text) => files.last_mut().expect("there is always one").1.push_str(text),
            };
            let characters: Vec<char> = patch.chars().collect();
            for piece in characters.chunks(size) {
                lines.push(&piece.iter().collect::<String>(), &mut take);
            }
            lines.finish(&mut take);
            results.push(files);
        }
        assert!(results.iter().all(|files| files == &results[0]), "{results:?}");
        results.remove(0)
    }

    fn file(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn a_hunk_counts_by_its_new_lines() {
        assert_eq!(read("@@ f\n keep\n-old\n+new größe\n+\n+x"), [file("", "new größe\n\nx")]);
    }

    #[test]
    fn an_envelope_names_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n+z\n*** End Patch\n";
        assert_eq!(read(patch), [file("", ""), file("a.rs", "y"), file("b.rs", "z")]);
    }

    #[test]
    fn a_hashline_edit_names_its_file() {
        assert_eq!(read("[src/h.ts#1A2B]\nSWAP 3.=3:\n+const x\n"), [file("", ""), file("src/h.ts", "const x")]);
    }

    #[test]
    fn a_unified_diff_names_its_file() {
        let patch = "--- a/x.rs\n+++ b/x.rs\t2026\n@@ -1 +1 @@\n--- gone\n++ added\n";
        assert_eq!(read(patch), [file("", ""), file("x.rs", "+ added")]);
    }
}
