//! Sanitises text of unknown origin for terminals: text of an extension, a model, a package, a registry or a file.
//!
//! The sanitiser is based on a parser ([`vte`]), because removing escape sequences by pattern leaves gaps. It keeps printable
//! characters, line feeds, tabs and a subset of SGR (colours, bold, dim, italic, underline, inverse, strike-through), and drops
//! everything else a terminal would act on or hide: all other escape sequences, C0 and C1 controls, bidirectional controls, tag
//! characters, invisible characters (a zero-width joiner stays between emoji), and more than a few marks on one character. Styles
//! that are still on at the end are reset, so that they do not affect later output.
//!
//! [`text`] sanitises several lines, [`line()`] joins them to one line, [`Stream`] sanitises text that arrives in pieces, and
//! [`hidden`] finds characters that a reader of source code does not see. [`Limits`] bound width and number of lines. [`layout`]
//! arranges sanitised text in columns, [`markdown`] renders a reply as styled lines, [`counted()`] writes
//! counts, and [`similar()`] suggests names.
//!
//! ```
//! assert_eq!(pijs_terminal::text("a\u{1b}]0;title\u{7}b\u{202e}c"), "abc");
//! assert_eq!(pijs_terminal::text("\u{1b}[31mred"), "\u{1b}[31mred\u{1b}[0m");
//! assert_eq!(pijs_terminal::line("two\nlines"), "two lines");
//! ```
//!
//! Everything written to stderr passes through this crate, and so does stdout if it is a terminal. A program that reads stdout
//! gets the bytes unchanged.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

mod characters;
mod counted;
pub mod layout;
pub mod markdown;
mod sgr;
mod similar;
mod stream;

use std::borrow::Cow;

pub use characters::{HiddenCharacter, hidden};
pub use counted::counted;
pub use similar::{similar, similar_models, similar_names};
pub use stream::{Limits, Stream};

/// Sanitises text of several lines under the default [`Limits`].
#[must_use]
pub fn text(text: &str) -> String {
    within(text, Limits::default())
}

/// Sanitises text under `limits`.
#[must_use]
pub fn within(text: &str, limits: Limits) -> String {
    let mut out = String::with_capacity(text.len());
    let mut stream = Stream::new(limits);
    stream.push(text, &mut out);
    stream.finish(&mut out);
    out
}

/// Sanitises text into one line: line ends become blanks.
#[must_use]
pub fn line(text: &str) -> String {
    let clean = self::text(text);
    clean.trim_end_matches('\n').replace(['\n', '\t'], " ")
}

/// Escapes the control and invisible characters of JSON text as `\uXXXX`. The parsed values stay the same, and each line ends
/// only at its line feed, even if a reader treats other characters as line ends.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let acts = |c: char| !c.is_ascii() && (characters::is_control(c) || characters::is_hidden(c)) || c == '\u{7f}';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if acts(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Sanitises text and removes its styles, for output with a fixed appearance, such as a permission prompt.
#[must_use]
pub fn plain(text: &str) -> String {
    within(text, Limits { styles: false, ..Limits::default() })
}

#[cfg(test)]
mod tests;
