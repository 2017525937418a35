//! What was called, where something that is no function was: `config.load is not a function`.
//!
//! V8 quotes the source in these errors, the engine does not. An error that is reported has its place in the module that
//! ran, whose text is at hand, as the compiler printed it: one expression in a line, no comments. What is not a plain chain of
//! names, indices and calls is not quoted, and the engine's words stay.

/// What the engine says of a call of what cannot be called.
pub(crate) const NOT_A_FUNCTION: &str = "not a function";

/// The message with the expression in it. `line` and `column` are those of the innermost frame, 1-based.
pub(crate) fn quoted(message: &str, source: &str, line: u32, column: u32) -> Option<String> {
    let before = message.strip_suffix(NOT_A_FUNCTION).filter(|before| before.is_empty() || before.ends_with(": "))?;
    let text = source.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let at = usize::try_from(column).ok()?.checked_sub(1)?;
    // Columns count UTF-16 units, which are bytes here.
    if !text.is_ascii() || at >= text.len() {
        return None;
    }
    let (start, end) = (beginning(text, at)?, ending(text, at)?);
    // An error with these words that the extension made itself says what it was given.
    if ["Error", "super", "construct"].iter().any(|maker| text[start..end].ends_with(maker)) {
        return None;
    }
    let what = if text[..start].ends_with("new ") { "constructor" } else { "function" };
    Some(format!("{before}{} is not a {what}", shown(&text[start..end])))
}

/// Where the chain begins whose last name, or first, is at `at`.
fn beginning(text: &str, at: usize) -> Option<usize> {
    let mut start = at;
    loop {
        let before = &text[..start];
        let object = match before.strip_suffix("?.").or_else(|| before.strip_suffix('.')) {
            Some(object) => object,
            None if before.ends_with(is_part) => return None,
            None => return Some(start),
        };
        start = operand(object)?;
    }
}

/// Where the last operand of a text begins: a name with what is called and indexed behind it.
fn operand(text: &str) -> Option<usize> {
    match text.as_bytes().last()? {
        b')' => operand(&text[..opened(text, b'(', b')')?]),
        b']' => operand(&text[..opened(text, b'[', b']')?]),
        _ => {
            let name = text.trim_end_matches(is_part).len();
            (name < text.len() && !text.as_bytes()[name].is_ascii_digit()).then_some(name)
        }
    }
}

/// Where the bracket was opened that ends a text. Strings are passed over; an expression between slashes could hold anything.
fn opened(text: &str, open: u8, close: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut end) = (0_usize, bytes.len());
    while let Some(at) = end.checked_sub(1) {
        end = at;
        match bytes[at] {
            b'/' => return None,
            quote @ (b'"' | b'\'' | b'`') => end = string(&bytes[..at], quote)?,
            byte if byte == close => depth += 1,
            byte if byte == open => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where a string began whose last quote comes after these bytes.
fn string(before: &[u8], quote: u8) -> Option<usize> {
    let is_escaped = |at: usize| before[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    (0..before.len()).rev().find(|at| before[*at] == quote && !is_escaped(*at))
}

/// Where the chain ends that goes on at `at`, which is where its arguments begin.
fn ending(text: &str, at: usize) -> Option<usize> {
    let mut end = at;
    loop {
        let rest = &text[end..];
        let name = rest.len() - rest.trim_start_matches(is_part).len();
        let after = &rest[name..];
        end += name;
        if after.starts_with('(') || after.starts_with("?.(") {
            return (end > at).then_some(end);
        }
        end += match after.as_bytes().first()? {
            b'.' => 1,
            b'[' => after.find(']').filter(|close| after[1..*close].bytes().all(|byte| is_part(byte.into())))? + 1,
            _ => return None,
        };
    }
}

fn is_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '$' || character == '#'
}

/// The chain as V8 writes it: arguments left out, and names as they were before the bundle told equal ones apart.
fn shown(chain: &str) -> String {
    let (mut shown, mut depth) = (String::new(), 0_usize);
    let mut characters = chain.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' | '\'' | '`' => pass_over(&mut characters, character),
            '(' => {
                depth += 1;
                if depth == 1 {
                    shown = original(&shown);
                    shown.push_str("(...)");
                }
            }
            ')' => depth = depth.saturating_sub(1),
            '.' | '[' | ']' | '?' if depth == 0 => {
                shown = original(&shown);
                shown.push(character);
            }
            _ if depth == 0 => shown.push(character),
            _ => {}
        }
    }
    original(&shown)
}

/// The rest of a string.
fn pass_over(characters: &mut std::str::Chars<'_>, quote: char) {
    while let Some(character) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            _ if character == quote => return,
            _ => {}
        }
    }
}

/// Without the number that a bundle adds to a name (`load$1`).
fn original(text: &str) -> String {
    let name = text.trim_end_matches(|character: char| character.is_ascii_digit());
    match name.strip_suffix('$') {
        Some(stem) if name.len() < text.len() && stem.ends_with(is_part) => stem.to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place is marked by `^`.
    fn said(marked: &str) -> Option<String> {
        let column = u32::try_from(marked.find('^').expect("a mark")).expect("short") + 1;
        quoted(NOT_A_FUNCTION, &format!("first\n{}\nlast", marked.replace('^', "")), 2, column)
    }

    #[test]
    fn chains_are_quoted_as_v8_quotes_them() {
        for (line, expected) in [
            ("\to.^foo(1);", "o.foo is not a function"),
            ("await ctx.ui.^show({ a: 1 }, (x) => x);", "ctx.ui.show is not a function"),
            ("return ^load(x);", "load is not a function"),
            ("^load$1(x);", "load is not a function"),
            ("new o.^Thing();", "o.Thing is not a constructor"),
            ("new ^o.a.Thing();", "o.a.Thing is not a constructor"),
            ("x = a.b(1, c(2)).^d();", "a.b(...).d is not a function"),
            ("x = list[0].^run();", "list[0].run is not a function"),
            ("x = a?.b.^c?.(2);", "a?.b.c is not a function"),
            ("o.^list[index]();", "o.list[index] is not a function"),
            ("this.#own.^go();", "this.#own.go is not a function"),
            ("f(1)(2).^g()", "f(...)(...).g is not a function"),
            (r#"a.split("/)\"", '"').^b()"#, "a.split(...).b is not a function"),
        ] {
            assert_eq!(said(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_is_no_plain_chain_keeps_the_engines_words() {
        for line in [
            "({}).^foo(1);",
            "(0, ^a)();",
            "a(/[)]/).^b();",
            "{ a: 1 }.^b()",
            "`x`.^b()",
            "1..^b()",
            "^\u{e9}.b()",
            "x ^+ 1",
            "throw new ^TypeError(\"not a function\");",
            "throw new errors.^OwnError(words);",
            "^super(words);",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
        assert_eq!(quoted("boom", "a()", 1, 1), None);
        assert_eq!(quoted(NOT_A_FUNCTION, "a()", 2, 1), None);
        assert_eq!(quoted(NOT_A_FUNCTION, "a()", 0, 0), None);
        assert_eq!(quoted(NOT_A_FUNCTION, "a()", 1, 9), None);
    }

    #[test]
    fn what_stands_before_the_words_stays() {
        let said = quoted("Failed to load extension: not a function", "pi.setUp()", 1, 4);
        assert_eq!(said.as_deref(), Some("Failed to load extension: pi.setUp is not a function"));
        assert_eq!(quoted("that is not a function", "pi.setUp()", 1, 4), None);
    }
}
