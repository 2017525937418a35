//! Parses terminal input into keys with names such as `ctrl+p`, and pastes.
//!
//! A key also keeps its raw bytes, which components of extensions receive.

/// Maximum length of a paste in bytes; the rest is dropped.
pub(super) const LONGEST_PASTE: usize = 1 << 20;
/// Maximum length of one key's sequence in bytes.
const LONGEST_SEQUENCE: usize = 64;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// The byte of Ctrl-C.
const INTERRUPT: &[u8] = b"\x03";

/// An input event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TerminalInput {
    /// A key as sent by the terminal.
    Key(String),
    /// A pasted text.
    Paste(String),
}

/// Splits bytes into [`TerminalInput`]s.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    pending: Vec<u8>,
    /// An incomplete paste.
    paste: Option<PendingPaste>,
}

/// An incomplete paste.
#[derive(Debug, Default)]
struct PendingPaste {
    kept: Vec<u8>,
    /// The last bytes, which may be the start of the end marker.
    tail: Vec<u8>,
}

impl PendingPaste {
    /// Takes bytes. At the end marker, returns the number of bytes after it.
    fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        self.tail.extend_from_slice(bytes);
        let end = self.tail.windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS);
        let body = end.unwrap_or_else(|| self.tail.len().saturating_sub(PASTE_ENDS.len() - 1));
        let room = LONGEST_PASTE.saturating_sub(self.kept.len()).min(body);
        self.kept.extend_from_slice(&self.tail[..room]);
        self.tail.drain(..body);
        end.map(|_| self.tail.len() - PASTE_ENDS.len())
    }

    fn text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        if self.kept.len() >= LONGEST_PASTE {
            // The last character may be incomplete.
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        }
        text
    }
}

impl Splitter {
    /// Takes bytes; incomplete sequences are kept.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<TerminalInput> {
        // Ctrl-C also ends a paste whose end marker is missing.
        if bytes == INTERRUPT {
            self.paste = None;
        }
        self.pending.extend_from_slice(bytes);
        let (mut found, mut at) = (Vec::new(), 0);
        loop {
            let rest = &self.pending[at..];
            if let Some(paste) = &mut self.paste {
                let Some(behind) = paste.take(rest) else {
                    at = self.pending.len();
                    break;
                };
                at = self.pending.len() - behind;
                found.extend(self.paste.take().map(|paste| TerminalInput::Paste(paste.text())));
            } else if rest.starts_with(PASTE_BEGINS) {
                self.paste = Some(PendingPaste::default());
                at += PASTE_BEGINS.len();
            } else if let Some((input, length)) = first(rest) {
                found.extend(input);
                at += length;
            } else {
                break;
            }
        }
        self.pending.drain(..at);
        found
    }

    /// Returns whether an incomplete sequence is pending, for which [`Splitter::end`] is called after a delay.
    pub(super) fn is_open(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends pending input: a sequence becomes keys, and an incomplete paste is returned.
    pub(super) fn end(&mut self) -> Vec<TerminalInput> {
        if let Some(mut paste) = self.paste.take() {
            let tail = std::mem::take(&mut paste.tail);
            paste.kept.extend(tail);
            return vec![TerminalInput::Paste(paste.text())];
        }
        let rest = std::mem::take(&mut self.pending);
        let text = String::from_utf8_lossy(&rest).into_owned();
        if text.is_empty() { Vec::new() } else { vec![TerminalInput::Key(text)] }
    }
}

/// Parses the first event and its length; `None` if it is incomplete. Invalid text produces no event.
fn first(bytes: &[u8]) -> Option<(Option<TerminalInput>, usize)> {
    let length = match *bytes.first()? {
        0x1b => escape_length(bytes)?,
        lead if lead < 0x80 => 1,
        lead => {
            let wanted = lead.leading_ones().clamp(1, 4) as usize;
            let there = bytes.iter().skip(1).take(wanted - 1).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            // Truncated text may continue, unless an invalid byte follows.
            if 1 + there < wanted && 1 + there == bytes.len() {
                return None;
            }
            1 + there
        }
    };
    let text = std::str::from_utf8(&bytes[..length]).ok();
    Some((text.map(|text| TerminalInput::Key(text.to_owned())), length))
}

/// Returns the length of an escape sequence.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match *bytes.get(1)? {
        b'[' => {
            let body = &bytes[2..];
            let end = body.iter().take(LONGEST_SEQUENCE).position(|byte| (0x40..=0x7e).contains(byte));
            // The Linux console sends `ESC [ [ A` for its first function keys.
            let end = if body.first() == Some(&b'[') { (body.len() > 1).then_some(1) } else { end };
            match end {
                Some(end) => Some(2 + end + 1),
                None if body.len() >= LONGEST_SEQUENCE => Some(2),
                None => None,
            }
        }
        b'O' => (bytes.len() > 2).then_some(3),
        // ESC followed by another sequence: two keys.
        0x1b => Some(1),
        lead if lead < 0x80 => Some(2),
        lead => {
            let wanted = 1 + lead.leading_ones().clamp(1, 4) as usize;
            (bytes.len() >= wanted).then_some(wanted)
        }
    }
}

/// Returns the name of a key in pi's vocabulary: `enter`, `ctrl+c`, `alt+left`, `a`. Modifiers are in the order of
/// [`pijs_runtime::keys::canonical`]. `None` for an unknown key.
pub(super) fn name(data: &str) -> Option<String> {
    if is_release(data) {
        return None;
    }
    let mut characters = data.chars();
    let (first, second) = (characters.next()?, characters.next());
    if second.is_none() {
        return Some(plain(first));
    }
    let rest = data.strip_prefix('\u{1b}')?;
    if let Some(sequence) = rest.strip_prefix('[') {
        return csi(sequence);
    }
    if let Some(letter) = rest.strip_prefix('O') {
        return of_letter(letter.chars().next()?).map(str::to_owned);
    }
    let mut rest = rest.chars();
    match (rest.next(), rest.next()) {
        (Some(c), None) => Some(pijs_runtime::keys::canonical(&format!("alt+{}", plain(c)))),
        _ => None,
    }
}

/// Returns whether a sequence reports a key release: `ESC [ 97;5:3u`.
pub(super) fn is_release(data: &str) -> bool {
    let Some(sequence) = data.strip_prefix("\u{1b}[") else { return false };
    let end = sequence.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '~');
    let is_sequence = end.chars().all(|c| c.is_ascii_digit() || c == ';' || c == ':');
    is_sequence && end.rsplit(';').next().is_some_and(|modifiers| modifiers.split(':').nth(1) == Some("3"))
}

/// Returns the name of a single-character key.
fn plain(c: char) -> String {
    match c {
        '\r' => "enter".to_owned(),
        '\n' => "ctrl+j".to_owned(),
        '\t' => "tab".to_owned(),
        '\u{1b}' => "escape".to_owned(),
        '\u{7f}' | '\u{8}' => "backspace".to_owned(),
        ' ' => "space".to_owned(),
        '\0' => "ctrl+space".to_owned(),
        '\u{1}'..='\u{1a}' => {
            let letter = char::from(b'a' + (u32::from(c) as u8 - 1));
            format!("ctrl+{letter}")
        }
        '\u{1c}'..='\u{1f}' => {
            let sign = ['\\', ']', '^', '-'][u32::from(c) as usize - 0x1c];
            format!("ctrl+{sign}")
        }
        c if c.is_uppercase() => format!("shift+{}", c.to_lowercase()),
        c => c.to_string(),
    }
}

/// Parses a CSI sequence: letters, numbers with a tilde, and the forms with modifiers.
fn csi(sequence: &str) -> Option<String> {
    let last = sequence.chars().next_back()?;
    let numbers: Vec<u32> = sequence[..sequence.len() - last.len_utf8()]
        .split(';')
        .map(|part| part.split(':').next().unwrap_or_default().parse().unwrap_or(0))
        .collect();
    let (key, modifiers) = match last {
        '~' if numbers.first() == Some(&27) => (character(*numbers.get(2)?)?, numbers.get(1)),
        '~' => (of_number(*numbers.first()?)?.to_owned(), numbers.get(1)),
        'u' => (character(*numbers.first()?)?, numbers.get(1)),
        'Z' => return Some("shift+tab".to_owned()),
        letter => (of_letter(letter)?.to_owned(), numbers.get(1)),
    };
    let bits = modifiers.map_or(0, |modifiers| modifiers.saturating_sub(1));
    let held = [(4, "ctrl+"), (1, "shift+"), (2, "alt+")].into_iter().filter(|(bit, _)| bits & bit != 0);
    let name: String = held.map(|(_, name)| name).chain([key.as_str()]).collect();
    Some(pijs_runtime::keys::canonical(&name))
}

fn character(code: u32) -> Option<String> {
    match keypad(code) {
        Some(key) => Some(key.to_owned()),
        None => char::from_u32(code).map(plain),
    }
}

/// Returns the key of a keypad code of the Kitty protocol, which is treated like the ordinary key.
fn keypad(code: u32) -> Option<&'static str> {
    const FIRST: u32 = 57_399;
    const KEYS: [&str; 28] = [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", ".", "/", "*", "-", "+", "enter", "=", ",", "left", "right",
        "up", "down", "pageup", "pagedown", "home", "end", "insert", "delete",
    ];
    KEYS.get(usize::try_from(code.checked_sub(FIRST)?).ok()?).copied()
}

fn of_letter(letter: char) -> Option<&'static str> {
    Some(match letter {
        'A' => "up",
        'B' => "down",
        'C' => "right",
        'D' => "left",
        'H' => "home",
        'F' => "end",
        'P' => "f1",
        'Q' => "f2",
        'R' => "f3",
        'S' => "f4",
        _ => return None,
    })
}

fn of_number(number: u32) -> Option<&'static str> {
    Some(match number {
        1 | 7 => "home",
        2 => "insert",
        3 => "delete",
        4 | 8 => "end",
        5 => "pageup",
        6 => "pagedown",
        11 => "f1",
        12 => "f2",
        13 => "f3",
        14 => "f4",
        15 => "f5",
        17 => "f6",
        18 => "f7",
        19 => "f8",
        20 => "f9",
        21 => "f10",
        23 => "f11",
        24 => "f12",
        _ => return None,
    })
}

/// Wraps text in the markers of a bracketed paste.
pub(super) fn marked(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_input_becomes_the_same_keys() {
        let typed = "aä\u{1b}[A\u{1b}OP\u{1b}x\r\u{1b}[1;5C\u{1b}[200~one\rtwo\u{1b}[201~z\u{3}";
        let expected: Vec<TerminalInput> = ["a", "ä", "\u{1b}[A", "\u{1b}OP", "\u{1b}x", "\r", "\u{1b}[1;5C"]
            .map(|key| TerminalInput::Key(key.to_owned()))
            .into_iter()
            .chain([TerminalInput::Paste("one\rtwo".to_owned())])
            .chain(["z", "\u{3}"].map(|key| TerminalInput::Key(key.to_owned())))
            .collect();
        for size in 1..typed.len() {
            let mut splitter = Splitter::default();
            let found: Vec<TerminalInput> =
                typed.as_bytes().chunks(size).flat_map(|chunk| splitter.push(chunk)).collect();
            assert_eq!(found, expected, "in pieces of {size}");
            assert!(!splitter.is_open());
        }
    }

    #[test]
    fn a_lone_escape_is_a_key_after_a_delay() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"\x1b"), []);
        assert!(splitter.is_open());
        assert_eq!(splitter.end(), [TerminalInput::Key("\u{1b}".to_owned())]);
        assert!(!splitter.is_open());
    }

    /// Input is parsed in one pass, and a paste never becomes keys.
    #[test]
    fn a_long_paste_is_one_event_and_input_takes_linear_time() {
        let begun = std::time::Instant::now();
        let long = format!("\u{1b}[200~{}\r\u{1b}[201~x", "ä\r".repeat(LONGEST_PASTE));
        let mut splitter = Splitter::default();
        let found: Vec<TerminalInput> = long.as_bytes().chunks(4096).flat_map(|chunk| splitter.push(chunk)).collect();
        let [TerminalInput::Paste(text), TerminalInput::Key(key)] = found.as_slice() else {
            panic!("{} pieces", found.len())
        };
        assert_eq!((text.len(), key.as_str()), (LONGEST_PASTE - 1, "x"));
        assert_eq!(splitter.push(&b"a".repeat(2 << 20)).len(), 2 << 20);
        // One pass takes tens of milliseconds; a pass for each key would take minutes.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        splitter.push(b"\x1b[200~never ends");
        assert_eq!(splitter.push(b"\x03"), [TerminalInput::Key("\u{3}".to_owned())], "the user can leave");
    }

    #[test]
    fn invalid_utf8_is_dropped() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"\xff\xc3a\x80b"), ["a", "b"].map(|key| TerminalInput::Key(key.to_owned())));
    }

    #[test]
    fn keys_have_pis_names() {
        for (data, expected) in [
            ("\r", Some("enter")),
            ("\u{1b}", Some("escape")),
            ("\u{3}", Some("ctrl+c")),
            ("\u{10}", Some("ctrl+p")),
            ("\u{7f}", Some("backspace")),
            ("a", Some("a")),
            ("A", Some("shift+a")),
            ("\u{1b}[A", Some("up")),
            ("\u{1b}[1;2A", Some("shift+up")),
            ("\u{1b}[1;6A", Some("ctrl+shift+up")),
            ("\u{1b}[3~", Some("delete")),
            ("\u{1b}[15~", Some("f5")),
            ("\u{1b}[Z", Some("shift+tab")),
            ("\u{1b}x", Some("alt+x")),
            ("\u{1b}\r", Some("alt+enter")),
            ("\u{1b}[112;6u", Some("ctrl+shift+p")),
            ("\u{1b}[27;5;99~", Some("ctrl+c")),
            ("\u{1b}OP", Some("f1")),
            ("\u{1b}[57406u", Some("7")),
            ("\u{1b}[57414;5u", Some("ctrl+enter")),
            ("\u{1b}[27u", Some("escape")),
            ("\u{1b}[13;2u", Some("shift+enter")),
            ("\u{1b}[?25h", None),
            ("\u{1b}[112:80;6u", Some("ctrl+shift+p")),
            ("\u{1b}[1;1:2A", Some("up")),
            ("\u{1b}[1;1:3A", None),
            ("\u{1b}[97;5:3u", None),
            ("\u{1b}[3;1:3~", None),
        ] {
            assert_eq!(name(data).as_deref(), expected, "{data:?}");
        }
    }
}
