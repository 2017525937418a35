//! Clean text in columns: how wide it is, a part of it, lines that fit.
//!
//! Everything here takes text that went through the sanitiser: printable characters, line feeds, and styles as
//! `ESC [ ... m`. Styles have no width.

use crate::characters::{EMOJI_STYLE, ZWJ, is_pictograph};
use crate::sgr::Held;
use crate::stream::Limits;
use unicode_width::UnicodeWidthChar;

/// What stands in for a tab, whose own width depends on where it is.
const TAB: &str = "   ";
/// Bytes of styles that a line may have.
const LONGEST_STYLES: usize = 1 << 16;

/// A piece of a line: a style sequence, or a character as a reader sees it.
struct Piece<'a> {
    text: &'a str,
    columns: usize,
}

/// A letter of a flag.
fn is_flag(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

/// A colour of the skin of the emoji before it.
fn is_skin(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// The pieces of a line, in order. What joins or marks a character belongs to it.
fn pieces(line: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (end, columns) = if first == '\u{1b}' {
            (rest.find('m').map_or(rest.len(), |at| at + 1), 0)
        } else {
            let width = |c: char| c.width().unwrap_or(0);
            let (mut end, mut columns) = (first.len_utf8(), width(first));
            // Two letters are one flag.
            let mut joined = is_flag(first) && rest[end..].starts_with(is_flag);
            for c in rest[end..].chars() {
                let belongs = joined || width(c) == 0 || (is_skin(c) && is_pictograph(first));
                if c.is_control() || !belongs {
                    break;
                }
                columns = match c {
                    // Text becomes an emoji, which is wide.
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
        Some(Piece { text, columns })
    })
}

/// How many columns a line takes.
#[must_use]
pub fn width(line: &str) -> usize {
    pieces(line).map(|piece| piece.columns).sum()
}

/// Byte offsets between the characters of a text, as a cursor moves: the beginning, and behind each.
#[must_use]
pub fn boundaries(text: &str) -> Vec<usize> {
    let behind = pieces(text).scan(0, |at, piece| {
        *at += piece.text.len();
        Some(*at)
    });
    std::iter::once(0).chain(behind).collect()
}

/// The last of the [`boundaries`] before `at`, or the beginning. What it costs does not depend on how long the text is.
#[must_use]
pub fn boundary_before(text: &str, at: usize) -> usize {
    // Here one character ends for certain, whatever stands before: nothing joins or marks what is there.
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

/// The first of the [`boundaries`] behind `at`, which is one, or the end.
#[must_use]
pub fn boundary_behind(text: &str, at: usize) -> usize {
    at + pieces(&text[at..]).next().map_or(0, |piece| piece.text.len())
}

/// The last of the [`boundaries`] of a line up to which it takes no more than `columns`.
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

/// Foreign text as one line of at most `columns`; what is too long ends with `…`.
#[must_use]
pub fn clamp(text: &str, columns: usize) -> String {
    // Styles take no columns; of a line that is nothing but them, a part is enough.
    let longest = columns.saturating_mul(64).saturating_add(LONGEST_STYLES);
    let line = text.lines().next().unwrap_or_default();
    let line = line[..line.floor_char_boundary(longest)].replace('\t', TAB);
    let whole = crate::within(&line, Limits { columns: usize::MAX, lines: 2, styles: true });
    if width(&whole) <= columns {
        return slice(&whole, 0, columns);
    }
    if columns == 0 {
        return String::new();
    }
    // The ellipsis needs a column, too.
    format!("{}…", slice(&whole, 0, columns - 1))
}

/// The columns `from..to` of a line, with the styles that hold there. A wide character that is cut becomes blanks.
///
/// The styles that hold at its end hold behind it as well. Of styles that nothing is shown in there are only as many as say
/// what holds: who puts pieces of lines together again and again has not more of them each time.
#[must_use]
pub fn slice(line: &str, from: usize, to: usize) -> String {
    let mut out = String::new();
    let mut held = Held::default();
    let mut at = 0;
    for piece in pieces(line) {
        let end = at + piece.columns;
        if piece.text.starts_with('\u{1b}') {
            held.take(piece.text);
        } else if piece.columns == 0 {
            // A stray mark counts inside only.
            if (from..to).contains(&at) {
                out.push_str(piece.text);
            }
        } else if at < to && end > from {
            held.write(&mut out);
            if at >= from && end <= to {
                out.push_str(piece.text);
            } else {
                out.extend(std::iter::repeat_n(' ', end.min(to) - at.max(from)));
            }
        }
        at = end;
    }
    // What switches off what was never on is nothing.
    if !out.is_empty() || !held.on().is_empty() {
        held.write(&mut out);
    }
    out
}

/// `line`, `columns` wide: cut, or filled with blanks. No style goes beyond its end.
#[must_use]
pub fn fit(line: &str, columns: usize) -> String {
    let mut out = slice(line, 0, columns);
    if out.contains('\u{1b}') {
        out.push_str("\u{1b}[0m");
    }
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(line))));
    out
}

/// Foreign text as lines of at most `columns`, broken between words where that is possible. Its styles are left out.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let clean = crate::within(&text.replace('\t', TAB), Limits { styles: false, ..Limits::unbounded() });
    clean.split('\n').flat_map(|line| wrap_line(line, columns)).collect()
}

/// A clean line as lines of at most `columns`. Its styles stay, and none goes beyond the end of a line.
#[must_use]
pub fn wrap_styled(line: &str, columns: usize) -> Vec<String> {
    let lines = wrap_line(line, columns.max(1));
    let mut open = Held::default();
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
    // Behind the last blank of this line, and how wide it was up to there.
    let mut blank: Option<(usize, usize)> = None;
    for piece in pieces(line) {
        // Twice, when what follows the last blank is too long itself.
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
