//! Writing to the two streams. Text that came from a package, a model or a server is cleaned first.

use pijs_protocol::guard;
use std::io::Write;

/// One line on stdout. A reader that went away (`pi list | head -1`) is no error of ours.
pub(crate) fn stdout(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// One line on stderr.
pub(crate) fn stderr(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Makes foreign text harmless for a terminal: no control or bidirectional formatting characters but
/// line ends and tabs.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Foreign text with its later lines indented: what begins at the left edge is pi's own, its questions above all.
pub(crate) fn indented(text: &str) -> String {
    if guard::is_up("prompt.frame") { text.replace('\n', "\n  ") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn foreign_text_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{9b}c\u{202e}d\ne\tf\rg"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\ne\tf\u{fffd}g");
    }
}
