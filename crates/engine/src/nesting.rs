//! Limits the nesting of source text before a recursive parser parses it.

/// Caps of [`check_nesting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestingCaps {
    /// Maximum number of brackets that are open at once.
    pub brackets: usize,
    /// Maximum number of operators in one expression, including the operators of all enclosing expressions.
    pub operators: usize,
    /// Maximum of the sum, over all bytes, of the number of brackets that enclose the byte: a parser may read ahead to the end of
    /// each bracket to find out what it begins.
    pub depth_bytes: u64,
}

/// A position at which the nesting of the source exceeds the caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nested {
    /// Byte offset.
    pub at: usize,
    /// Message that names the exceeded cap.
    pub message: String,
}

/// Refuses source whose nesting exceeds the caps, without parsing it.
///
/// Works on bytes: brackets are counted everywhere except in comments, strings and templates, which are recognised by their
/// delimiters. Regular expressions are not recognised, so brackets and quotes in them are counted.
///
/// # Errors
///
/// Returns the first position beyond a cap.
pub fn check_nesting(source: &str, caps: &NestingCaps) -> Result<(), Nested> {
    let bytes = source.as_bytes();
    Nesting { bytes, at: 0, frames: vec![OpenBracket::default()], operators: 0, depth_bytes: 0 }.scan(caps)
}

/// One open bracket.
#[derive(Default)]
struct OpenBracket {
    /// Number of operators since the last boundary inside the bracket.
    operators: usize,
    /// Whether the bracket is `${`, after whose end the template text continues.
    template: bool,
}

struct Nesting<'a> {
    bytes: &'a [u8],
    at: usize,
    frames: Vec<OpenBracket>,
    /// Sum of `operators` over all frames.
    operators: usize,
    depth_bytes: u64,
}

impl Nesting<'_> {
    fn scan(&mut self, caps: &NestingCaps) -> Result<(), Nested> {
        while let Some(&byte) = self.bytes.get(self.at) {
            let position = self.at;
            self.at += 1;
            match byte {
                b'(' | b'[' | b'{' => self.frames.push(OpenBracket::default()),
                b')' | b']' => self.close(),
                b'}' => {
                    let template = self.frames.last().is_some_and(|frame| frame.template);
                    self.close();
                    if template {
                        self.template_text();
                    } else {
                        // A block ends a statement.
                        self.boundary();
                    }
                }
                b';' | b',' => self.boundary(),
                b'"' | b'\'' => self.string(byte),
                b'`' => {
                    self.operator();
                    self.template_text();
                }
                b'/' if self.bytes.get(self.at) == Some(&b'/') => self.skip_to(b"\n"),
                b'/' if self.bytes.get(self.at) == Some(&b'*') => {
                    self.at += 1;
                    self.skip_to(b"*/");
                }
                byte if byte.is_ascii_punctuation() && byte != b'_' && byte != b'$' => self.operator(),
                // Two words in sequence (`typeof typeof x`, `else if`) nest like an operator.
                b' ' if self.is_between_words() => self.operator(),
                _ => {}
            }
            let refused = |message| Err(Nested { at: position, message });
            if self.frames.len() > caps.brackets {
                return refused(format!("more than {} brackets are open here", caps.brackets));
            }
            if self.operators > caps.operators {
                return refused(format!("more than {} operators in one expression", caps.operators));
            }
            let depth = self.frames.len() as u64 - 1;
            self.depth_bytes = self.depth_bytes.saturating_add(depth * (self.at - position) as u64);
            if self.depth_bytes > caps.depth_bytes {
                return refused("too much text inside of brackets inside of brackets".to_owned());
            }
        }
        Ok(())
    }

    /// Returns whether the space before the position separates two words.
    fn is_between_words(&self) -> bool {
        self.at >= 2
            && self.bytes[self.at - 2].is_ascii_alphanumeric()
            && self.bytes.get(self.at).is_some_and(u8::is_ascii_alphabetic)
    }

    fn close(&mut self) {
        // The parser refuses unbalanced text later; the outermost frame is kept.
        if self.frames.len() > 1 {
            let frame = self.frames.pop().expect("at least two frames are open");
            self.operators -= frame.operators;
        }
        self.operator();
    }

    fn operator(&mut self) {
        self.operators += 1;
        self.top().operators += 1;
    }

    fn boundary(&mut self) {
        let ended = std::mem::take(&mut self.top().operators);
        self.operators -= ended;
    }

    fn top(&mut self) -> &mut OpenBracket {
        self.frames.last_mut().expect("the outermost frame is never closed")
    }

    fn string(&mut self, quote: u8) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return,
                byte if byte == quote => return,
                _ => {}
            }
        }
    }

    fn template_text(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'`' => return,
                b'$' if self.bytes.get(self.at) == Some(&b'{') => {
                    self.at += 1;
                    self.frames.push(OpenBracket { template: true, ..OpenBracket::default() });
                    return;
                }
                _ => {}
            }
        }
    }

    fn skip_to(&mut self, end: &[u8]) {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        self.at +=
            rest.windows(end.len()).position(|window| window == end).map_or(rest.len(), |found| found + end.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long comments in many brackets are refused, because a parser that reads ahead from each bracket to its end would read them
    /// many times.
    #[test]
    fn long_text_in_many_brackets_is_refused() {
        let caps = NestingCaps { brackets: 1000, operators: 1000, depth_bytes: 100_000 };
        let source = |depth| format!("{}/*{}*/{}", "(".repeat(depth), "x".repeat(2000), ")".repeat(depth));
        assert_eq!(check_nesting(&source(40), &caps), Ok(()));
        let refused = check_nesting(&source(60), &caps).expect_err("the source is nested too deeply");
        assert_eq!((refused.at, refused.message.contains("brackets")), (60, true));
    }
}
