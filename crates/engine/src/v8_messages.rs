//! Translates syntax errors of the engine to V8's messages, for text that an extension compiles.
//!
//! ```text
//! return a b     expecting ';'                          →  Unexpected identifier 'b'
//! break          break must be inside loop or switch    →  Illegal break statement
//! ```
//!
//! V8 names the unexpected token, and the engine the expected one. The unexpected token is read from the text at the position
//! where the engine stopped.

use crate::compile::CompileError;

/// Messages that do not name a token.
const WHOLE: &[(&str, &str)] = &[
    ("break must be inside loop or switch", "Illegal break statement"),
    ("continue must be inside loop", "Illegal continue statement: no surrounding iteration statement"),
    ("unexpected end of string", "Invalid or unexpected token"),
    ("unexpected character", "Invalid or unexpected token"),
    ("invalid assignment left-hand side", "Invalid left-hand side in assignment"),
    ("rest element must be the last one", "Rest element must be last element"),
    ("invalid for in/of left hand-side", "Invalid left-hand side in for-loop"),
    ("return not in a function", "Illegal return statement"),
];

/// Beginnings of messages about an unexpected token.
const TOKEN: &[&str] = &[
    "unexpected token in expression",
    "Unexpected token",
    "expecting",
    "expected",
    "variable name expected",
    "identifier expected",
    "identifier or string expected",
    "function name expected",
    "missing binding pattern",
];

/// Reserved words of sloppy code.
const RESERVED: &[&str] = &[
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "new",
    "null",
    "return",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
];

/// Operators of more than one character, longest first.
const MARKS: &[&str] = &[
    ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=", "&&",
    "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**",
];

/// Returns V8's message for a syntax error in `text`.
pub(crate) fn v8_message(error: &CompileError, text: &str) -> String {
    let message = error.message.as_str();
    if let Some((_, words)) = WHOLE.iter().find(|(known, _)| message == *known) {
        return (*words).to_owned();
    }
    let at = offset(text, error.line, error.column);
    if message.starts_with("invalid redefinition")
        && let Some(name) = at.and_then(|at| name_at(text, at))
    {
        return format!("Identifier '{name}' has already been declared");
    }
    match at {
        Some(at) if TOKEN.iter().any(|start| message.starts_with(start)) => unexpected_token(text, at),
        _ => message.to_owned(),
    }
}

/// Converts a 1-based position to a byte offset.
pub(crate) fn offset(text: &str, line: u32, column: u32) -> Option<usize> {
    let before: usize =
        text.split_inclusive('\n').take(usize::try_from(line).ok()?.checked_sub(1)?).map(str::len).sum();
    let at = before + usize::try_from(column).ok()?.checked_sub(1)?;
    text.is_char_boundary(at).then_some(at)
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns the identifier that begins at an offset, or the last one before it.
fn name_at(text: &str, at: usize) -> Option<&str> {
    let here = word(&text[at..]);
    if !here.is_empty() && !RESERVED.contains(&here) {
        return Some(here);
    }
    let before = text[..at].trim_end_matches(|c| !is_part(c));
    let start = before.rfind(|c| !is_part(c)).map_or(0, |place| place + 1);
    before.get(start..).filter(|name| !name.is_empty())
}

fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// Returns V8's message for an unexpected token.
fn unexpected_token(text: &str, at: usize) -> String {
    let rest = text[at..].trim_start();
    let before = text[..at].trim_end();
    if before.strip_suffix("await").is_some_and(|before| !before.ends_with(is_part)) {
        return "await is only valid in async functions and the top level bodies of modules".to_owned();
    }
    let Some(first) = rest.chars().next() else { return "Unexpected end of input".to_owned() };
    match first {
        '"' | '\'' => "Unexpected string".to_owned(),
        '`' => "Unexpected template string".to_owned(),
        '0'..='9' => "Unexpected number".to_owned(),
        '#' | '@' | '\\' => "Invalid or unexpected token".to_owned(),
        first if is_part(first) => {
            let word = word(rest);
            let kind = if RESERVED.contains(&word) { "token" } else { "identifier" };
            format!("Unexpected {kind} '{word}'")
        }
        first => {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            mark.map_or_else(|| format!("Unexpected token '{first}'"), |mark| format!("Unexpected token '{mark}'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::v8_message;
    use crate::compile::compile_script_at_run_time;

    /// The messages equal those of Node 22.
    #[test]
    fn a_refusal_names_the_token_that_v8_names() {
        for (text, words) in [
            ("(function () { return a b })", "Unexpected identifier 'b'"),
            ("var = 1", "Unexpected token '='"),
            ("'abc", "Invalid or unexpected token"),
            ("let a; let a", "Identifier 'a' has already been declared"),
            ("break", "Illegal break statement"),
            ("(function () { await 1 })", "await is only valid in async functions and the top level bodies of modules"),
            ("(", "Unexpected end of input"),
            ("a => => b", "Unexpected token '=>'"),
            ("if (a) else b", "Unexpected token 'else'"),
            ("1 = 2", "Invalid left-hand side in assignment"),
        ] {
            let error = compile_script_at_run_time(&[], text).expect_err(text);
            assert_eq!(v8_message(&error, text), words, "{error}");
        }
    }
}
