//! Truncates text for a model: to 2,000 lines or 50 KB, whichever comes first.
//!
//! Keeps whole lines. [`head`] keeps the beginning (for files), [`tail`] the end (for commands).

use serde::Serialize;

/// Maximum number of lines of a result.
pub const MAX_LINES: usize = 2000;
/// Maximum number of bytes of a result.
pub const MAX_BYTES: usize = 50 * 1024;

/// A truncated text with its counts. Serialises as the `truncation` member of pi's details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncation {
    /// The kept text.
    pub content: String,
    /// Whether text was removed.
    pub truncated: bool,
    /// Limit that was reached; `None` if no text was removed.
    pub truncated_by: Option<TruncationLimit>,
    /// Number of lines of the original text.
    pub total_lines: usize,
    /// Number of bytes of the original text.
    pub total_bytes: usize,
    /// Number of lines of the kept text.
    pub output_lines: usize,
    /// Number of bytes of the kept text.
    pub output_bytes: usize,
    /// Whether the last line alone exceeds the limit and was cut at its beginning ([`tail`]).
    pub last_line_partial: bool,
    /// Whether the first line alone exceeds the limit, so that nothing is kept ([`head`]).
    pub first_line_exceeds_limit: bool,
    /// The line limit.
    pub max_lines: usize,
    /// The byte limit.
    pub max_bytes: usize,
}

/// Limits of a [`Truncation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TruncationLimit {
    /// [`MAX_LINES`].
    Lines,
    /// [`MAX_BYTES`].
    Bytes,
}

/// Keeps the beginning of a text.
pub fn head(text: &str) -> Truncation {
    head_of(text, MAX_LINES)
}

/// Keeps the beginning of a text, with a different line limit.
pub fn head_of(text: &str, max_lines: usize) -> Truncation {
    let lines = lines(text);
    if lines.len() <= max_lines && text.len() <= MAX_BYTES {
        return Truncation { max_lines, ..result(text, lines.len(), text.to_owned(), lines.len(), None) };
    }
    let (count, limit) = fitting(lines.iter(), max_lines);
    let count = count.min(lines.len());
    let mut kept = result(text, lines.len(), lines[..count].join("\n"), count, limit);
    kept.max_lines = max_lines;
    kept.first_line_exceeds_limit = count == 0;
    kept
}

/// Keeps the end of a text. A last line that alone exceeds the limit is cut at its beginning.
pub fn tail(text: &str) -> Truncation {
    let lines = lines(text);
    if lines.len() <= MAX_LINES && text.len() <= MAX_BYTES {
        return result(text, lines.len(), text.to_owned(), lines.len(), None);
    }
    let (count, limit) = fitting(lines.iter().rev(), MAX_LINES);
    let count = count.min(lines.len());
    if count == 0 {
        let last = lines.last().expect("a text beyond a limit has lines");
        let mut from = last.len() - MAX_BYTES;
        while !last.is_char_boundary(from) {
            from += 1;
        }
        let mut kept = result(text, lines.len(), last[from..].to_owned(), 1, Some(TruncationLimit::Bytes));
        kept.last_line_partial = true;
        return kept;
    }
    result(text, lines.len(), lines[lines.len() - count..].join("\n"), count, limit)
}

/// Splits text into lines. A final line break does not start another line.
pub(super) fn lines(text: &str) -> Vec<&str> {
    match text.strip_suffix('\n').unwrap_or(text) {
        "" if text.is_empty() => Vec::new(),
        text => text.split('\n').collect(),
    }
}

/// Returns the number of lines within the limits, and the limit that excludes the next line.
fn fitting<'a>(
    lines: impl ExactSizeIterator<Item = &'a &'a str>,
    max_lines: usize,
) -> (usize, Option<TruncationLimit>) {
    let mut bytes = 0;
    for (count, line) in lines.enumerate() {
        if count == max_lines {
            return (count, Some(TruncationLimit::Lines));
        }
        bytes += line.len() + usize::from(count > 0);
        if bytes > MAX_BYTES {
            return (count, Some(TruncationLimit::Bytes));
        }
    }
    // Only a part of the last line fits; pi reports this as the line limit.
    (usize::MAX, Some(TruncationLimit::Lines))
}

fn result(
    text: &str,
    total_lines: usize,
    content: String,
    output_lines: usize,
    limit: Option<TruncationLimit>,
) -> Truncation {
    Truncation {
        truncated: limit.is_some(),
        truncated_by: limit,
        total_lines,
        total_bytes: text.len(),
        output_lines,
        output_bytes: content.len(),
        content,
        last_line_partial: false,
        first_line_exceeds_limit: false,
        max_lines: MAX_LINES,
        max_bytes: MAX_BYTES,
    }
}

/// Formats a size like pi: `50.0KB`.
pub fn size(bytes: usize) -> String {
    const KB: f64 = 1024.0;
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let bytes_f = bytes as f64;
    if bytes < 1024 {
        format!("{bytes}B")
    } else if bytes < 1024 * 1024 {
        format!("{:.1}KB", bytes_f / KB)
    } else {
        format!("{:.1}MB", bytes_f / KB / KB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_whole() {
        for text in ["", "a", "a\nb\n"] {
            assert_eq!(head(text).content, text);
            assert_eq!(tail(text).content, text);
            assert!(!head(text).truncated && !tail(text).truncated);
        }
    }

    #[test]
    fn the_2001st_line_is_cut_at_either_end() {
        let text: Vec<String> = (1..=2001).map(|n| n.to_string()).collect();
        let text = text.join("\n");
        let (head, tail) = (head(&text), tail(&text));
        assert_eq!(
            (head.truncated_by, head.output_lines, head.total_lines),
            (Some(TruncationLimit::Lines), 2000, 2001)
        );
        assert!(head.content.ends_with("\n2000"));
        assert!(tail.content.starts_with("2\n"));
    }

    #[test]
    fn only_whole_lines_fit_into_the_bytes() {
        let text = ["x".repeat(MAX_BYTES - 1), "yy".to_owned()].join("\n");
        assert_eq!(head(&text).output_lines, 1);
        assert_eq!(tail(&text).content, "yy");
        assert_eq!(head(&text).truncated_by, Some(TruncationLimit::Bytes));
    }

    #[test]
    fn one_line_that_is_too_long_keeps_nothing_or_its_end() {
        let text = "é".repeat(MAX_BYTES);
        assert!(head(&text).first_line_exceeds_limit && head(&text).content.is_empty());
        let tail = tail(&text);
        assert!(tail.last_line_partial && tail.output_bytes <= MAX_BYTES && tail.content.starts_with('é'));
    }
}
