//! Adds the expression that failed to an error message: `config.load is not a function`.
//!
//! V8 quotes the source in these errors; QuickJS does not. The error's position refers to the module that ran, whose text is
//! available as the compiler printed it: one expression per line, no comments. Only plain chains of names, indices and calls are
//! quoted; for other expressions, the engine's message is kept.

/// Messages of the engine, as in `pi:web/wording`, that V8 completes with a quotation.
const QUOTED_MESSAGES: &[(&str, QuoteKind)] = &[
    ("not a function", QuoteKind::Call),
    ("not a constructor", QuoteKind::Call),
    ("value is not iterable", QuoteKind::Iteration),
    ("undefined is not iterable", QuoteKind::Iteration),
    ("null is not iterable", QuoteKind::Iteration),
];

/// Maximum number of bytes of a line that are scanned on either side of a position: an extension may forge the position, and a
/// line may be a whole bundle.
const MAX_SCAN: usize = 2048;

#[derive(Clone, Copy, PartialEq)]
enum QuoteKind {
    Call,
    Iteration,
}

/// Returns the message with the expression. `line` and `column` are those of the innermost frame, 1-based.
pub fn quoted(message: &str, source: &str, line: u32, column: u32) -> Option<String> {
    let (before, quote) =
        QUOTED_MESSAGES.iter().find_map(|(words, quote)| Some((message.strip_suffix(words)?, *quote)))?;
    if !before.is_empty() && !before.ends_with(": ") {
        return None;
    }
    let text = source.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let column = usize::try_from(column).ok()?;
    // In the first line, the engine counts columns from 0 and reports both 0 and 1 as 1.
    let places = [column.checked_sub(1), (line == 1).then_some(column)];
    let words = places.into_iter().rev().flatten().find_map(|at| {
        // Columns count UTF-16 units, which are bytes in ASCII text.
        if !text.is_ascii() || at >= text.len() {
            return None;
        }
        let from = at.saturating_sub(MAX_SCAN);
        let (near, at) = (&text[from..text.len().min(at + MAX_SCAN)], at - from);
        match quote {
            QuoteKind::Call => called(near, at, from > 0),
            QuoteKind::Iteration => iterated(near, at),
        }
    })?;
    Some(format!("{before}{words}"))
}

/// Quotes the called expression. `is_cut`: the line continues before the text.
fn called(text: &str, at: usize, is_cut: bool) -> Option<String> {
    let start = chain_start(text, at)?;
    let (start, end) = match chain_end(text, at) {
        Some(end) => (start, end),
        None => enclosing_call(text, at)?,
    };
    // The chain, or the `new` before it, may begin before the text.
    if is_cut && start < "new ".len() {
        return None;
    }
    // The extension itself throws an error with this text, and the engine reports the position of its constructor.
    if ["Error", "super", "construct"].iter().any(|maker| text[start..end].ends_with(maker)) {
        return None;
    }
    let words = &text[start..end];
    let Some(outside) = text[..start].strip_suffix("new ") else {
        return Some(format!("{} is not a function", shown(words)));
    };
    // A member of the constructed object is called.
    if let Some(open) = words.find('(') {
        let member = &words[open + brackets_length(&words[open..], b'(')?..];
        return Some(format!("(intermediate value){} is not a function", shown(member)));
    }
    // The engine may have reported the last position before the call.
    let rest = &text[end..];
    let after = if rest.starts_with('(') { &rest[brackets_length(rest, b'(')?..] } else { rest };
    if outside.trim_end().ends_with(['(', ',']) || after.starts_with('[') {
        return None;
    }
    Some(format!("{} is not a constructor", shown(words)))
}

/// Finds the call that has the expression at `at` among its arguments. The engine evaluates a variable of an outer function at
/// the position where it is passed, and reports that position for the call. An enclosing call would have the same position, so
/// the result is ambiguous.
fn enclosing_call(text: &str, at: usize) -> Option<(usize, usize)> {
    let end = opening_bracket(text, at)?;
    let start = chain_start(text, operand_start(&text[..end])?)?;
    let rest = text[at..].split_once(')').map(|(rest, _)| rest);
    if rest.is_none_or(|rest| rest.contains('(')) {
        return None;
    }
    let is_passed = opening_bracket(text, start).is_some_and(|outer| {
        let body = text[outer..start].rsplit_once("=>").map(|(_, body)| body.trim_start());
        let is_own =
            |body: &str| ["", "{", "await", "return", "void", "{ return", "{ await"].contains(&body.trim_end());
        text[..outer].ends_with(|before: char| is_part(before) || matches!(before, ')' | ']'))
            && !body.is_some_and(is_own)
    });
    (!is_passed).then_some((start, end))
}

/// Finds the opening bracket around `at`.
fn opening_bracket(text: &str, at: usize) -> Option<usize> {
    bracket_start(&format!("{})", &text[..at]), b'(', b')')
}

/// Quotes an iterated expression: `for (const x of items)`, `[...items]`. For destructuring (`const [x] = items`) the engine
/// reports no position.
fn iterated(text: &str, at: usize) -> Option<String> {
    let items = looped(text, at).or_else(|| spread(text, at))?;
    Some(match items.strip_suffix(')') {
        // The call and its result are indistinguishable.
        Some(_) => {
            let call = &items[..bracket_start(items, b'(', b')')?];
            format!("{} is not a function or its return value is not iterable", shown(call))
        }
        None => format!("{} is not iterable", shown(items)),
    })
}

fn looped(text: &str, at: usize) -> Option<&str> {
    let head = ["for (", "for await ("].iter().filter_map(|head| Some(text[..at].rfind(head)? + head.len())).max()?;
    let start = head + text[head..].find(" of ")? + " of ".len();
    let items = &text[start..start + chain_length(&text[start..])?];
    (start <= at && at < start + items.len() && text[start + items.len()..].starts_with(')')).then_some(items)
}

fn spread(text: &str, at: usize) -> Option<&str> {
    let start = text[..=at].rfind("[...")? + "[...".len();
    let items = &text[start..start + chain_length(&text[start..])?];
    let is_whole = text[start + items.len()..].starts_with([']', ',']);
    (is_whole && start <= at && at < start + items.len()).then_some(items)
}

/// Returns the length of the plain chain at the start of a text: names, indices and calls.
fn chain_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut end = 0;
    loop {
        let name = text[end..].len() - text[end..].trim_start_matches(is_part).len();
        end += name;
        if name == 0 || bytes[end - name].is_ascii_digit() {
            return None;
        }
        while let Some(open @ (b'(' | b'[')) = bytes.get(end).copied() {
            end += brackets_length(&text[end..], open)?;
        }
        match text[end..].strip_prefix("?.").or_else(|| text[end..].strip_prefix('.')) {
            Some(rest) => end = text.len() - rest.len(),
            None => return Some(end),
        }
    }
}

/// Returns the length of the brackets at the start of a text; `None` for those with strings or expressions, which may contain
/// anything.
fn brackets_length(text: &str, open: u8) -> Option<usize> {
    let close = if open == b'(' { b')' } else { b']' };
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' | b'\'' | b'`' | b'/' => return None,
            byte if byte == open => depth += 1,
            byte if byte == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Finds the start of the chain whose last or first name is at `at`.
fn chain_start(text: &str, at: usize) -> Option<usize> {
    let mut start = at;
    loop {
        let before = &text[..start];
        let object = match before.strip_suffix("?.").or_else(|| before.strip_suffix('.')) {
            Some(object) => object,
            None if before.ends_with(is_part) => return None,
            None => return Some(start),
        };
        start = operand_start(object)?;
    }
}

/// Finds the start of the last operand of a text: a name with its calls and indices.
fn operand_start(mut text: &str) -> Option<usize> {
    loop {
        text = match text.as_bytes().last()? {
            b')' => &text[..bracket_start(text, b'(', b')')?],
            b']' => &text[..bracket_start(text, b'[', b']')?],
            _ => {
                let name = text.trim_end_matches(is_part).len();
                return (name < text.len() && !text.as_bytes()[name].is_ascii_digit()).then_some(name);
            }
        };
    }
}

/// Finds the opening bracket that matches the closing bracket at the end of a text. Skips strings; fails for a regular
/// expression, which may contain anything.
fn bracket_start(text: &str, open: u8, close: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut end) = (0_usize, bytes.len());
    while let Some(at) = end.checked_sub(1) {
        end = at;
        match bytes[at] {
            b'/' => return None,
            quote @ (b'"' | b'\'' | b'`') => end = string_start(&bytes[..at], quote)?,
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

/// Finds the start of a string literal whose closing quote follows these bytes.
fn string_start(before: &[u8], quote: u8) -> Option<usize> {
    let is_escaped = |at: usize| before[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    (0..before.len()).rev().find(|at| before[*at] == quote && !is_escaped(*at))
}

/// Finds the end of the chain that continues at `at`, where its arguments begin.
fn chain_end(text: &str, at: usize) -> Option<usize> {
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
            b'[' => {
                1 + match string_member(&after[1..]) {
                    Some(member) => member.len() + 3,
                    None => {
                        after.find(']').filter(|close| after[1..*close].bytes().all(|byte| is_part(byte.into())))?
                    }
                }
            }
            _ => return None,
        };
    }
}

fn is_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '$' || character == '#'
}

/// Returns the member name in `"name"]`, the rest of an index expression after its opening bracket.
fn string_member(rest: &str) -> Option<&str> {
    let (name, _) = rest.strip_prefix('"')?.split_once('"')?;
    let is_plain = !name.contains('\\') && rest[name.len() + 2..].starts_with(']');
    is_plain.then_some(name)
}

/// Formats the chain as V8 does: without arguments, with every member as a name, and with original names where the bundle added
/// numbers.
fn shown(chain_length: &str) -> String {
    let (mut shown, mut depth) = (String::new(), 0_usize);
    let mut characters = chain_length.chars();
    while let Some(character) = characters.next() {
        let rest = characters.as_str();
        if let (0, '[', Some(name)) = (depth, character, string_member(rest)) {
            shown = format!("{}.{name}", without_suffix(&shown));
            characters = rest[name.len() + 3..].chars();
            continue;
        }
        match character {
            '"' | '\'' | '`' => skip_string(&mut characters, character),
            '(' => {
                depth += 1;
                if depth == 1 {
                    shown = without_suffix(&shown);
                    shown.push_str("(...)");
                }
            }
            ')' => depth = depth.saturating_sub(1),
            '.' | '[' | ']' | '?' if depth == 0 => {
                shown = without_suffix(&shown);
                shown.push(character);
            }
            _ if depth == 0 => shown.push(character),
            _ => {}
        }
    }
    without_suffix(&shown)
}

/// Skips the rest of a string literal.
fn skip_string(characters: &mut std::str::Chars<'_>, quote: char) {
    while let Some(character) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            _ if character == quote => return,
            _ => {}
        }
    }
}

/// Removes the suffix that a bundler adds to a name (`$1` in `load$1`).
fn without_suffix(text: &str) -> String {
    let name = text.trim_end_matches(|character: char| character.is_ascii_digit());
    match name.strip_suffix('$') {
        Some(stem) if name.len() < text.len() && stem.ends_with(is_part) => stem.to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_A_FUNCTION: &str = "not a function";

    fn quote_at_mark(marked: &str) -> Option<String> {
        quote_message_at_mark(NOT_A_FUNCTION, marked)
    }

    /// Quotes at the position marked by `^`.
    fn quote_message_at_mark(words: &str, marked: &str) -> Option<String> {
        let column = u32::try_from(marked.find('^').expect("a mark")).expect("short") + 1;
        quoted(words, &format!("first\n{}\nlast", marked.replace('^', "")), 2, column)
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
            ("new Foo().^run();", "(intermediate value).run is not a function"),
            ("new Foo(1).made().^run();", "(intermediate value).made(...).run is not a function"),
            ("x = a.b(1, c(2)).^d();", "a.b(...).d is not a function"),
            ("x = list[0].^run();", "list[0].run is not a function"),
            ("x = a?.b.^c?.(2);", "a?.b.c is not a function"),
            ("o.^list[index]();", "o.list[index] is not a function"),
            (r#"o.^list["a b"]();"#, "o.list.a b is not a function"),
            (r#"o.^list["a"].b["c-d"](1);"#, "o.list.a.b.c-d is not a function"),
            (r#"o["a"](1)["b"].^c();"#, "o.a(...).b.c is not a function"),
            ("this.#own.^go();", "this.#own.go is not a function"),
            ("f(1)(2).^g()", "f(...)(...).g is not a function"),
            (r#"a.split("/)\"", '"').^b()"#, "a.split(...).b is not a function"),
            // The position is that of the last argument, a variable of an outer function.
            ("await ctx.newSession(^options);", "ctx.newSession is not a function"),
            ("ctx.ui.show(1, ^options$1, [2]);", "ctx.ui.show is not a function"),
            ("ctx.newSession({ setup: ^setup, parent: \"a\" });", "ctx.newSession is not a function"),
            ("if (!ctx.check(^options.level)) {", "ctx.check is not a function"),
            ("new o.Thing(^options);", "o.Thing is not a constructor"),
            ("pi.on(\"x\", async () => { await ctx.newSession(^options); });", "ctx.newSession is not a function"),
            ("a.b(c(1)).d(^e)", "a.b(...).d is not a function"),
        ] {
            assert_eq!(quote_at_mark(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_expressions_keep_the_message_of_the_engine() {
        for line in [
            "({}).^foo(1);",
            "o.run(new ^Foo());",
            // Either call may have failed.
            "run(ctx.newSession(^options));",
            "run((x) => x, ctx.newSession(^options));",
            "run(^options, other());",
            "x = [^options];",
            "(^options);",
            "o.run(1, new ^Foo(2));",
            "new ^Foo()[name]();",
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
            r#"o.^a["\""]()"#,
            r#"o.^a["b" + c]()"#,
        ] {
            assert_eq!(quote_at_mark(line), None, "{line}");
        }
        assert_eq!(quoted("boom", "a()", 1, 1), None);
        assert_eq!(quoted(NOT_A_FUNCTION, "a()", 2, 1), None);
        assert_eq!(quoted(NOT_A_FUNCTION, "a()", 0, 0), None);
        assert_eq!(quoted(NOT_A_FUNCTION, "a()", 1, 9), None);
    }

    #[test]
    fn columns_of_the_first_line_begin_with_0() {
        let quote_at_mark = |line: &str, column| quoted(NOT_A_FUNCTION, line, 1, column);
        assert_eq!(quote_at_mark("pi.setUp()", 3).as_deref(), Some("pi.setUp is not a function"));
        assert_eq!(quote_at_mark("load()", 1).as_deref(), Some("load is not a function"));
        assert_eq!(quote_at_mark("\tload()", 1).as_deref(), Some("load is not a function"));
    }

    #[test]
    fn iterated_expressions_are_quoted_as_v8_quotes_them() {
        for (line, expected) in [
            ("\tfor (const x of ^items) {", Some("items is not iterable")),
            ("\tfor (const [a, b] of ctx.^items) use(a);", Some("ctx.items is not iterable")),
            ("for await (const x of ctx.list[0].^all) {", Some("ctx.list[0].all is not iterable")),
            ("for (const x of ctx.^f()) {", Some("ctx.f is not a function or its return value is not iterable")),
            (
                "for (const x of a.b(1).^c(f(2), [3])) {",
                Some("a.b(...).c is not a function or its return value is not iterable"),
            ),
            ("return [...^ctx.items];", Some("ctx.items is not iterable")),
            ("x = [0, ...a, [...^items$1, 1]];", Some("items is not iterable")),
            ("const [a] = ^items;", None),
            ("Math.max(...^items);", None),
            ("[0, ...^items]", None),
            ("for (const x of ^a ?? b) {", None),
            ("for (const x of ^f('a)')) {", None),
            ("for (const x of items) ^use(x);", None),
            ("new ^Map(items)", None),
        ] {
            assert_eq!(quote_message_at_mark("value is not iterable", line).as_deref(), expected, "{line}");
            assert_eq!(quote_message_at_mark("undefined is not iterable", line).as_deref(), expected, "{line}");
        }
        assert_eq!(
            quote_message_at_mark("not a constructor", "new a.^B()").as_deref(),
            Some("a.B is not a constructor")
        );
    }

    #[test]
    fn a_prefix_of_the_message_stays() {
        let quote_at_mark = quoted("Failed to load extension: not a function", "pi.setUp()", 1, 4);
        assert_eq!(quote_at_mark.as_deref(), Some("Failed to load extension: pi.setUp is not a function"));
        assert_eq!(quoted("that is not a function", "pi.setUp()", 1, 4), None);
    }

    #[test]
    fn a_forged_position_in_a_long_line_is_cheap() {
        let calls = "()".repeat(200_000);
        assert_eq!(operand_start(&format!("f{calls}")), Some(0));
        for line in [format!("f{calls}.^g()"), format!("^f{calls}"), format!("f{calls}^"), format!("f{calls}^()")] {
            let quote_at_mark = quote_at_mark(&line);
            assert!(
                quote_at_mark.as_deref().is_none_or(|quote_at_mark| quote_at_mark == "f is not a function"),
                "{}",
                quote_at_mark.is_some()
            );
        }
        assert_eq!(quote_at_mark(&format!("f{calls}.^g()")), None, "it begins too far away");
        let items = format!("for (const x of ^f{calls}) {{");
        assert_eq!(quote_message_at_mark("value is not iterable", &items), None, "it ends too far away");
    }

    #[test]
    fn nearby_expressions_are_quoted_in_a_long_line() {
        let code = "f(1);".repeat(2_000);
        assert_eq!(
            quote_at_mark(&format!("{code}new o.^Thing();{code}")).as_deref(),
            Some("o.Thing is not a constructor")
        );
        let items = format!("{code}for (const x of ^items) {{{code}");
        assert_eq!(quote_message_at_mark("value is not iterable", &items).as_deref(), Some("items is not iterable"));
        for name in [MAX_SCAN - 3, MAX_SCAN - 2, MAX_SCAN - 1, MAX_SCAN, MAX_SCAN + 1] {
            let line = format!("{code}{}.^b()", "y".repeat(name));
            assert_eq!(quote_at_mark(&line), None, "{name}: what stands before it is too far away");
        }
    }
}
