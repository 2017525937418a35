//! Decodes the JSON of a tool call's arguments while it streams.
//!
//! The decoder passes on the characters of each string value as they arrive, with escapes resolved. It accepts the text that
//! models send: cut off anywhere, with raw newlines in strings, unknown escapes, or text after the end. It reads each byte once.

/// Maximum nesting of objects and lists; deeper keys are read as values.
const MAX_DEPTH: usize = 64;
/// Number of the first object in a JSON text inside a string. The arguments themselves have fewer objects.
const INNER_OBJECTS: u32 = 1 << 31;
/// Maximum length of a key that is kept, in bytes.
const MAX_KEY: usize = 256;

/// Receives the string values.
pub(crate) trait ArgumentSink {
    /// Begins a string value.
    fn open(&mut self, key: &KeyPath<'_>);
    /// Receives the next characters of the value.
    fn piece(&mut self, text: &str);
    /// Ends the string value.
    fn close(&mut self);
}

/// Position of a string value in the arguments.
#[derive(Debug)]
pub(crate) struct KeyPath<'a> {
    /// The innermost enclosing key; empty if there is none.
    pub(crate) key: &'a str,
    /// Whether the value is a member of a list.
    pub(crate) in_list: bool,
    frames: &'a [Frame],
}

impl KeyPath<'_> {
    /// Returns the number of objects and lists around the value.
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of the innermost object around the value. Objects are numbered from 0 in the order in which they begin.
    pub(crate) fn object(&self) -> u32 {
        self.objects().last().unwrap_or(0)
    }

    /// Returns the numbers of the objects around the value, the outermost first.
    pub(crate) fn objects(&self) -> impl Iterator<Item = u32> {
        self.frames.iter().filter_map(|frame| frame.object)
    }
}

/// An open object or list.
#[derive(Debug, Default)]
struct Frame {
    /// The number of the object; `None` for a list.
    object: Option<u32>,
    /// The object's current key, or the key of the list.
    key: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Value,
    /// In an object, before a key.
    Member,
    Key,
    Colon,
    Text,
    /// A number or a word.
    Literal,
    /// After a value.
    Behind,
    /// The arguments have ended.
    Done,
}

#[derive(Debug, Clone, Copy, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    Hex {
        digits: u8,
        unit: u16,
    },
}

/// Reads a JSON text piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    state: State,
    escape: Escape,
    /// The first half of a surrogate pair.
    half: Option<u16>,
    /// The frames; those at `depth` and above are unused and kept for their buffers.
    frames: Vec<Frame>,
    depth: usize,
    objects: u32,
    /// Number of open objects and lists deeper than [`MAX_DEPTH`].
    beyond: usize,
}

impl Decoder {
    /// Restarts with other arguments.
    pub(crate) fn restart(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        *self = Self { frames, ..Self::default() };
    }

    /// Restarts with a JSON text that is the value of a string: its values get the position of the string.
    pub(crate) fn restart_inside(&mut self, around: &KeyPath<'_>) {
        self.restart();
        self.depth = around.frames.len();
        self.frames.resize_with(self.depth.max(self.frames.len()), Frame::default);
        for (frame, outer) in self.frames.iter_mut().zip(around.frames) {
            frame.object = outer.object;
            frame.key.clone_from(&outer.key);
        }
        // Keeps the numbers of inner objects distinct from those around the string.
        self.objects = INNER_OBJECTS;
    }

    /// Reads the next piece of the arguments.
    pub(crate) fn push(&mut self, piece: &str, sink: &mut impl ArgumentSink) {
        let bytes = piece.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if matches!(self.state, State::Text | State::Key) {
                at = self.string(piece, at, sink);
                continue;
            }
            let byte = bytes[at];
            at += 1;
            if self.beyond > 0 {
                match byte {
                    b'"' => {
                        self.state = State::Text;
                        sink.open(&self.key_path());
                    }
                    b'{' | b'[' => self.beyond += 1,
                    b'}' | b']' => self.beyond -= 1,
                    _ => {}
                }
                continue;
            }
            match (self.state, byte) {
                (State::Done, _) => return,
                (_, b' ' | b'\t' | b'\n' | b'\r') if self.state != State::Literal => {}
                (State::Value, b'"') => {
                    self.state = State::Text;
                    sink.open(&self.key_path());
                }
                (State::Value, b'{') => self.begin(true),
                (State::Value, b'[') => self.begin(false),
                (State::Member, b'"') => {
                    self.frames[self.depth - 1].key.clear();
                    self.state = State::Key;
                }
                (State::Colon, b':') => self.state = State::Value,
                (_, b'}' | b']') => self.end(),
                (_, b',') => self.next(),
                (State::Value | State::Literal, _) => self.state = State::Literal,
                // Skips bytes that are not JSON.
                _ => {}
            }
        }
    }

    /// Ends the arguments: a string that is still open ends.
    pub(crate) fn finish(&mut self, sink: &mut impl ArgumentSink) {
        if matches!(self.state, State::Text) {
            self.lone_half(sink);
            sink.close();
        }
        self.state = State::Done;
    }

    /// Returns the key path of the value about to be read.
    fn key_path(&self) -> KeyPath<'_> {
        let frames = &self.frames[..self.depth];
        let innermost = frames.last();
        KeyPath {
            key: innermost.map_or("", |frame| &frame.key),
            in_list: innermost.is_some_and(|frame| frame.object.is_none()),
            frames,
        }
    }

    fn begin(&mut self, is_object: bool) {
        if self.depth == MAX_DEPTH {
            self.beyond = 1;
            self.state = State::Behind;
            return;
        }
        if self.depth == self.frames.len() {
            self.frames.push(Frame::default());
        }
        let (around, inside) = self.frames.split_at_mut(self.depth);
        let frame = &mut inside[0];
        frame.key.clear();
        frame.object = is_object.then_some(self.objects);
        if is_object {
            self.objects += 1;
        } else if let Some(around) = around.last() {
            frame.key.push_str(&around.key);
        }
        self.depth += 1;
        self.state = if is_object { State::Member } else { State::Value };
    }

    fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.state = if self.depth == 0 { State::Done } else { State::Behind };
    }

    fn next(&mut self) {
        self.state = match self.depth.checked_sub(1).map(|innermost| self.frames[innermost].object) {
            Some(Some(_)) => State::Member,
            Some(None) => State::Value,
            None => State::Done,
        };
    }

    /// Continues a key or a value at this byte of the piece. Returns the index of the byte after the part that was read.
    fn string(&mut self, piece: &str, at: usize, sink: &mut impl ArgumentSink) -> usize {
        let bytes = piece.as_bytes();
        match self.escape {
            Escape::None => {
                let plain = bytes[at..].iter().position(|&byte| byte == b'"' || byte == b'\\');
                let end = plain.map_or(bytes.len(), |end| at + end);
                if end > at {
                    self.lone_half(sink);
                    self.text(&piece[at..end], sink);
                }
                if end == bytes.len() {
                    return end;
                }
                if bytes[end] == b'\\' {
                    self.escape = Escape::Backslash;
                } else {
                    self.lone_half(sink);
                    if self.state == State::Text {
                        self.state = State::Behind;
                        sink.close();
                        if self.depth == 0 {
                            self.state = State::Done;
                        }
                    } else {
                        self.state = State::Colon;
                    }
                }
                end + 1
            }
            Escape::Backslash => {
                self.escape = Escape::None;
                let text = match bytes[at] {
                    b'u' => {
                        self.escape = Escape::Hex { digits: 0, unit: 0 };
                        return at + 1;
                    }
                    b'n' => "\n",
                    b't' => "\t",
                    b'r' => "\r",
                    b'b' => "\u{8}",
                    b'f' => "\u{c}",
                    b'"' => "\"",
                    b'\\' => "\\",
                    b'/' => "/",
                    _ => {
                        // The escape is invalid in JSON: the backslash is literal.
                        self.lone_half(sink);
                        self.text("\\", sink);
                        return at;
                    }
                };
                self.lone_half(sink);
                self.text(text, sink);
                at + 1
            }
            Escape::Hex { digits, unit } => {
                let Some(digit) = char::from(bytes[at]).to_digit(16) else {
                    self.escape = Escape::None;
                    self.lone_half(sink);
                    self.text("\u{fffd}", sink);
                    return at;
                };
                let unit = (unit << 4) | digit as u16;
                self.escape = Escape::Hex { digits: digits + 1, unit };
                if digits == 3 {
                    self.escape = Escape::None;
                    self.unit(unit, sink);
                }
                at + 1
            }
        }
    }

    /// Handles an escaped UTF-16 unit.
    fn unit(&mut self, unit: u16, sink: &mut impl ArgumentSink) {
        if let Some(half) = self.half
            && (0xdc00..0xe000).contains(&unit)
        {
            self.half = None;
            let character = char::decode_utf16([half, unit]).next();
            let character = character.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text(character.encode_utf8(&mut [0; 4]), sink);
            return;
        }
        self.lone_half(sink);
        if (0xd800..0xdc00).contains(&unit) {
            self.half = Some(unit);
        } else {
            let character = char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text(character.encode_utf8(&mut [0; 4]), sink);
        }
    }

    /// Writes a replacement character for the first half of a pair without its second half.
    fn lone_half(&mut self, sink: &mut impl ArgumentSink) {
        if self.half.take().is_some() {
            self.text("\u{fffd}", sink);
        }
    }

    fn text(&mut self, text: &str, sink: &mut impl ArgumentSink) {
        if self.state == State::Text {
            sink.piece(text);
        } else {
            let key = &mut self.frames[self.depth - 1].key;
            if key.len() + text.len() <= MAX_KEY {
                key.push_str(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, PartialEq, Eq, Clone)]
    struct Values(Vec<(String, bool, String)>);

    impl ArgumentSink for Values {
        fn open(&mut self, key: &KeyPath<'_>) {
            self.0.push((key.key.to_owned(), key.in_list, String::new()));
        }
        fn piece(&mut self, text: &str) {
            self.0.last_mut().expect("a value was opened").2.push_str(text);
        }
        fn close(&mut self) {}
    }

    fn decode(text: &str) -> Values {
        let mut whole = Values::default();
        let mut decoder = Decoder::default();
        decoder.push(text, &mut whole);
        decoder.finish(&mut whole);
        let mut single = Values::default();
        let mut decoder = Decoder::default();
        for character in text.chars() {
            decoder.push(character.encode_utf8(&mut [0; 4]), &mut single);
        }
        decoder.finish(&mut single);
        assert_eq!(single, whole, "{text}");
        whole
    }

    fn texts(text: &str) -> Vec<String> {
        decode(text).0.into_iter().map(|value| value.2).collect()
    }

    #[test]
    fn values_come_with_their_key() {
        let value = |key: &str, in_list, text: &str| (key.to_owned(), in_list, text.to_owned());
        assert_eq!(
            decode(
                r#"{"path":"a/b","n":-1.5e3,"edits":[{"new":"x","b":true},{"new":"y"}],"paths":["p",{"k":"v"},"q"]}"#
            )
            .0,
            [
                value("path", false, "a/b"),
                value("new", false, "x"),
                value("new", false, "y"),
                value("paths", true, "p"),
                value("k", false, "v"),
                value("paths", true, "q"),
            ]
        );
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(texts(r#"["a\n\t\"\\\/\u00f6\ud83d\ude80b"]"#), ["a\n\t\"\\/ö🚀b"]);
        assert_eq!(texts(r#"["\ud83dx\ud83d\ud83d\ude80\ude80"]"#), ["\u{fffd}x\u{fffd}🚀\u{fffd}"]);
        assert_eq!(texts(r#"["\d \u12x"]"#), ["\\d \u{fffd}x"]);
    }

    #[test]
    fn broken_text_is_read_as_far_as_it_goes() {
        assert_eq!(texts("{\"a\":\"x\ny"), ["x\ny"]);
        assert_eq!(texts(r#"{"a":"x"} "trailing" {"#), ["x"]);
        assert_eq!(texts(r#"{"a":"x",,"b":"y"]}"#), ["x", "y"]);
        assert_eq!(texts(r#"{"a" "b":"y"}"#), ["y"]);
        assert_eq!(texts("\"whole\" x"), ["whole"]);
        assert_eq!(texts("}{\"a\":\"b\"}"), Vec::<String>::new());
    }

    #[test]
    fn depth_is_bounded() {
        let depth = 100_000;
        let text = format!("{}\"x\"{},\"y\"]", "[".repeat(depth), "]".repeat(depth - 1));
        let mut decoder = Decoder::default();
        let mut values = Values::default();
        decoder.push(&text, &mut values);
        assert_eq!(values.0.iter().map(|value| value.2.as_str()).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(decoder.frames.len(), MAX_DEPTH);
    }

    proptest! {
        #[test]
        fn serialised_json_is_read_back(values in proptest::collection::vec(any::<String>(), 0..6)) {
            prop_assert_eq!(texts(&serde_json::json!({ "list": values }).to_string()), values);
        }

        #[test]
        fn any_text_is_read(text in r#"(["{}\[\],:\\u0-9a-fn x]|🚀){0,40}"#) {
            decode(&text);
        }
    }
}
