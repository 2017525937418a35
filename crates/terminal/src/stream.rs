//! Sanitises text that arrives in pieces. A sequence may be split between two pieces.

use crate::characters::{EMOJI_STYLE, ZWJ, is_control, is_hidden, is_pictograph};
use crate::sgr;
use pijs_protocol::guard;
use unicode_width::UnicodeWidthChar;
use vte::{Params, Parser, Perform};

/// Maximum number of combining marks on one character: real scripts need a few, "zalgo" text has hundreds.
const MAX_MARKS: usize = 4;
/// Distance of tab stops in columns.
const TAB: usize = 8;

/// Limits of the displayed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of columns of a line; the rest of a longer line is replaced by `…`.
    pub columns: usize,
    /// Maximum number of lines; a final line states the number of omitted ones.
    pub lines: usize,
    /// Whether colours and other styles are kept.
    pub styles: bool,
}

impl Default for Limits {
    /// Returns limits of 4,000 columns and 1,000 lines, which legitimate text does not reach, and which keep other text from
    /// filling the screen.
    fn default() -> Self {
        Self { columns: 4_000, lines: 1_000, styles: true }
    }
}

impl Limits {
    /// Returns unlimited sizes, for a reply of the model, which may have any length.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self { columns: usize::MAX, lines: usize::MAX, styles: true }
    }

    /// Returns limits for one short line, such as a title.
    #[must_use]
    pub const fn columns(columns: usize) -> Self {
        Self { columns, lines: 1, styles: true }
    }
}

/// A sanitiser that keeps its state between pieces.
#[derive(Default)]
pub struct Stream {
    parser: Parser,
    state: StreamState,
}

#[derive(Default)]
struct StreamState {
    limits: Option<Limits>,
    column: usize,
    lines: usize,
    cut: bool,
    styled: bool,
    marks: usize,
    before: Option<char>,
    /// Whether a zero-width joiner is pending. It is kept only before a pictograph.
    joiner: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("lines", &self.state.lines).finish_non_exhaustive()
    }
}

impl Stream {
    /// Creates a stream at the start of a line.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { parser: Parser::new(), state: StreamState { limits: Some(limits), ..StreamState::default() } }
    }

    /// Appends the sanitised form of `text` to `out`.
    pub fn push(&mut self, text: &str, out: &mut String) {
        if !guard!(TerminalSanitise) {
            out.push_str(text);
            return;
        }
        let mut performer = Cleaner { state: &mut self.state, out };
        self.parser.advance(&mut performer, text.as_bytes());
    }

    /// Ends the text: drops an incomplete sequence, resets styles and reports omitted lines.
    pub fn finish(&mut self, out: &mut String) {
        let state = &mut self.state;
        let most = state.limits().lines;
        if std::mem::take(&mut state.styled) {
            out.push_str("\u{1b}[0m");
        }
        if state.lines >= most && most > 1 && most != usize::MAX {
            let more = state.lines + 1 - most;
            out.push_str(&format!("[{}]\n", crate::counted(more, "more line")));
        }
        *self = Self::new(self.state.limits());
    }
}

impl StreamState {
    fn limits(&self) -> Limits {
        self.limits.unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.lines >= self.limits().lines
    }
}

struct Cleaner<'a> {
    state: &'a mut StreamState,
    out: &'a mut String,
}

impl Cleaner<'_> {
    fn show(&mut self, c: char, width: usize) {
        if self.state.is_over() || self.state.cut {
            return;
        }
        if self.state.column.saturating_add(width) > self.state.limits().columns {
            self.state.cut = true;
            self.out.push('…');
            return;
        }
        self.state.column = self.state.column.saturating_add(width);
        self.out.push(c);
    }
}

impl Perform for Cleaner<'_> {
    fn print(&mut self, c: char) {
        let before = self.state.before.replace(c);
        // A variation selector alone would be invisible.
        if std::mem::take(&mut self.state.joiner) && is_pictograph(c) && c != EMOJI_STYLE {
            self.show(ZWJ, 0);
        }
        match c {
            ZWJ => self.state.joiner = before.is_some_and(is_pictograph),
            EMOJI_STYLE if before.is_some_and(|before| is_pictograph(before) && before != EMOJI_STYLE) => {
                self.show(c, 0);
            }
            EMOJI_STYLE => {}
            // vte reports invalid UTF-8 with this character; in a `str` it can only be literal.
            c if is_control(c) || is_hidden(c) => {}
            c => match c.width().unwrap_or(0) {
                0 => {
                    self.state.marks += 1;
                    if self.state.marks <= MAX_MARKS {
                        self.show(c, 0);
                    }
                }
                width => {
                    self.state.marks = 0;
                    self.show(c, width);
                }
            },
        }
    }

    fn execute(&mut self, byte: u8) {
        self.state.joiner = false;
        self.state.before = None;
        match byte {
            b'\n' => {
                if !self.state.is_over() {
                    self.out.push('\n');
                }
                self.state.lines = self.state.lines.saturating_add(1);
                self.state.column = 0;
                self.state.cut = false;
                self.state.marks = 0;
            }
            b'\t' => self.show('\t', TAB - self.state.column % TAB),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.state.joiner = false;
        if action != 'm' || !intermediates.is_empty() || ignore || !self.state.limits().styles || self.state.is_over() {
            return;
        }
        let groups: Vec<Vec<u16>> = params.iter().map(<[u16]>::to_vec).collect();
        if let Some(kept) = sgr::keep(&groups) {
            self.state.styled = !sgr::resets(&kept);
            self.out.push_str(&kept);
        }
    }
}
