//! Lays out sanitised text in columns: measures, slices, wraps and pads it.
//!
//! The input has passed the sanitiser: printable characters, line feeds, and styles as `ESC [ ... m`. Styles have no width.

use crate::characters::{EMOJI_STYLE, ZWJ, is_pictograph};
use crate::sgr::ActiveStyles;
use crate::stream::Limits;
use unicode_width::UnicodeWidthChar;

/// Replacement of a tab, whose width would depend on its column.
const TAB: &str = "   ";
/// Maximum length of the style sequences in one line, in bytes.
const MAX_STYLE_BYTES: usize = 1 << 16;

/// A piece of a line: a style sequence or a grapheme cluster.
struct LinePiece<'a> {
    text: &'a str,
    columns: usize,
}

/// Returns whether a character is a regional indicator, one of the two letters of a flag.
fn is_flag(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Returns whether a character is an emoji modifier for skin colour.
fn is_skin(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// Splits a line into pieces. Joiners and combining marks belong to the character before them.
fn pieces(line: &str) -> impl Iterator<Item = LinePiece<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (end, columns) = if first == '\u{1b}' {
            (rest.find('m').map_or(rest.len(), |at| at + 1), 0)
        } else {
            let width = |c: char| c.width().unwrap_or(0);
            let (mut end, mut columns) = (first.len_utf8(), width(first));
            // Two regional indicators form one flag.
            let mut joined = is_flag(first) && rest[end..].starts_with(is_flag);
            for c in rest[end..].chars() {
                let belongs = joined || width(c) == 0 || (is_skin(c) && is_pictograph(first));
                if c.is_control() || !belongs {
                    break;
                }
                columns = match c {
                    // With emoji presentation a character is two columns wide.
                    EMOJI_STYLE if columns > 0 && is_pictograph(first) => 2,
                    c if is_flag(c) => 2,
                    _ => columns,
                };
                joined = c == ZWJ;
                end += c.len_utf8();
            }
            (end, columns)
        };
        let (text, left) = rest.split_at(end);
        rest = left;
        Some(LinePiece { text, columns })
    })
}

/// Returns the width of a line in columns.
#[must_use]
pub fn width(line: &str) -> usize {
    pieces(line).map(|piece| piece.columns).sum()
}

/// Returns the byte offsets at which a cursor can be placed: the start, and the end of each grapheme cluster.
#[must_use]
pub fn boundaries(text: &str) -> Vec<usize> {
    let behind = pieces(text).scan(0, |at, piece| {
        *at += piece.text.len();
        Some(*at)
    });
    std::iter::once(0).chain(behind).collect()
}

/// Returns the last of the [`boundaries`] before `at`. The cost does not depend on the length of the text.
#[must_use]
pub fn boundary_before(text: &str, at: usize) -> usize {
    // A character that neither joins nor combines starts a cluster, whatever precedes it.
    let begins = |place: usize, c: char| {
        c.is_control() || c.width().unwrap_or(0) > 0 && !is_flag(c) && !is_skin(c) && !text[..place].ends_with(ZWJ)
    };
    let head = &text[..at];
    let from = head.char_indices().rev().find(|(place, c)| begins(*place, *c)).map_or(0, |(place, _)| place);
    let mut last = from;
    for piece in pieces(&head[from..]) {
        if last + piece.text.len() >= at {
            break;
        }
        last += piece.text.len();
    }
    last
}

/// Returns the first of the [`boundaries`] after `at`, which must be a boundary, or the end of the text.
#[must_use]
pub fn boundary_behind(text: &str, at: usize) -> usize {
    at + pieces(&text[at..]).next().map_or(0, |piece| piece.text.len())
}

/// Returns the last of the [`boundaries`] at which the line is at most `columns` wide.
#[must_use]
pub fn boundary_at(line: &str, columns: usize) -> usize {
    let (mut at, mut wide) = (0, 0);
    for piece in pieces(line) {
        wide += piece.columns;
        if wide > columns {
            break;
        }
        at += piece.text.len();
    }
    at
}

/// Converts unsanitised text to one line of at most `columns`; a longer one is cut and ends with `…`.
#[must_use]
pub fn clamp(text: &str, columns: usize) -> String {
    // Style sequences have no width, so the length in bytes is limited as well.
    let longest = columns.saturating_mul(64).saturating_add(MAX_STYLE_BYTES);
    let line = text.lines().next().unwrap_or_default();
    let line = line[..line.floor_char_boundary(longest)].replace('\t', TAB);
    let whole = crate::within(&line, Limits { columns: usize::MAX, lines: 2, styles: true });
    if width(&whole) <= columns {
        return slice(&whole, 0, columns);
    }
    if columns == 0 {
        return String::new();
    }
    // The ellipsis takes one column.
    format!("{}…", slice(&whole, 0, columns - 1))
}

/// Returns the columns `from..to` of a line with the styles that apply to them. A wide character that is cut is replaced by
/// blanks.
///
/// The styles at the end are not reset. Sequences without visible text are reduced to the styles in effect, so that repeated
/// slicing does not accumulate sequences.
#[must_use]
pub fn slice(line: &str, from: usize, to: usize) -> String {
    let mut out = String::new();
    let mut active = ActiveStyles::default();
    let mut at = 0;
    for piece in pieces(line) {
        let end = at + piece.columns;
        if piece.text.starts_with('\u{1b}') {
            active.take(piece.text);
        } else if piece.columns == 0 {
            // A combining mark outside of the slice is dropped.
            if (from..to).contains(&at) {
                out.push_str(piece.text);
            }
        } else if at < to && end > from {
            active.write(&mut out);
            if at >= from && end <= to {
                out.push_str(piece.text);
            } else {
                out.extend(std::iter::repeat_n(' ', end.min(to) - at.max(from)));
            }
        }
        at = end;
    }
    // A reset before any style has no effect.
    if !out.is_empty() || !active.on().is_empty() {
        active.write(&mut out);
    }
    out
}

/// Returns a line of exactly `columns`: cut, or padded with blanks. Its styles are reset at the end.
#[must_use]
pub fn fit(line: &str, columns: usize) -> String {
    let mut out = slice(line, 0, columns);
    if out.contains('\u{1b}') {
        out.push_str("\u{1b}[0m");
    }
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(line))));
    out
}

/// Wraps unsanitised text into lines of at most `columns`, between words where possible. Removes its styles.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let clean = crate::within(&text.replace('\t', TAB), Limits { styles: false, ..Limits::unbounded() });
    clean.split('\n').flat_map(|line| wrap_line(line, columns)).collect()
}

/// Wraps a clean line into lines of at most `columns`. Styles are kept, and reset at the end of each line.
#[must_use]
pub fn wrap_styled(line: &str, columns: usize) -> Vec<String> {
    let lines = wrap_line(line, columns.max(1));
    let mut open = ActiveStyles::default();
    let wrap = |line| {
        let mut out = slice(&format!("{}{line}", open.on()), 0, usize::MAX);
        pieces(line).filter(|piece| piece.text.starts_with('\u{1b}')).for_each(|piece| open.take(piece.text));
        if !open.on().is_empty() {
            out.push_str("\u{1b}[0m");
        }
        out
    };
    lines.iter().map(String::as_str).map(wrap).collect()
}

fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut start, mut at, mut wide) = (0, 0, 0);
    // Offset after the last blank of this line, and the width up to it.
    let mut blank: Option<(usize, usize)> = None;
    for piece in pieces(line) {
        // A word longer than a line is broken again.
        while wide + piece.columns > columns && at > start {
            let (end, kept) = blank.take().unwrap_or((at, wide));
            lines.push(line[start..end].trim_end_matches(' ').to_owned());
            (start, wide) = (end, wide - kept);
        }
        at += piece.text.len();
        wide += piece.columns;
        if piece.text == " " {
            blank = Some((at, wide));
        }
    }
    lines.push(line[start..].to_owned());
    lines
}
