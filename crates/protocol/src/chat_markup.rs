//! Neutralises chat-template markers and terminal controls in text that an extension puts into a system message.
//!
//! Local models are served with templates that write roles as text: `<|im_start|>system`, `[INST]`, `<start_of_turn>`. A message
//! that contains such a marker can end its own role and begin another. [`neutralise`] finds markers in the text as a tokenizer
//! may read it (without invisible characters, full-width forms as ASCII, in any case) and puts their names in parentheses; all
//! other text is unchanged.
//!
//! ```
//! # use pijs_protocol::chat_markup::neutralise;
//! assert_eq!(neutralise("a<|im_start|>system\u{1b}[2Jb"), "a(im_start)systemb");
//! assert_eq!(neutralise("if a < b || c > d {}"), "if a < b || c > d {}");
//! ```

use serde_json::Value;
use std::borrow::Cow;

/// Maximum length of a name between `<|` and `|>`, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Complete markers, in lower case.
const TOKENS: &[&str] = &[
    "<<sys>>",
    "<</sys>>",
    "[inst]",
    "[/inst]",
    "[system_prompt]",
    "[/system_prompt]",
    "[available_tools]",
    "[/available_tools]",
    "[tool_calls]",
    "[/tool_calls]",
    "[tool_results]",
    "[/tool_results]",
    "[gmask]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<bos>",
    "<eos>",
    "<bos_token>",
    "<eos_token>",
    "<eop_token>",
    "<sop>",
    "<eop>",
    "<s>",
    "</s>",
];

/// Names of roles that begin a turn after an empty line: `Human:`.
const TURNS: &[&str] = &["human:", "assistant:"];

/// Names that begin a turn as a heading: `### Instruction:`.
const HEADINGS: &[&str] = &["instruction:", "response:", "input:", "human:", "assistant:", "system:", "user:"];

/// Tags around injected text, for providers without system messages in the middle of a conversation.
const REMINDER: &[&str] = &["<system-reminder>", "</system-reminder>"];

/// Returns the text without control characters, and with the markers of chat templates in parentheses.
#[must_use]
pub fn neutralise(text: &str) -> Cow<'_, str> {
    neutralise_with(text, &[])
}

/// Neutralises text that is put between the tags of a reminder, so that it cannot end the reminder.
#[must_use]
pub fn neutralise_reminder(text: &str) -> Cow<'_, str> {
    neutralise_with(text, REMINDER)
}

/// Neutralises every string of a JSON value except keys.
pub fn neutralise_all(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(changed) = neutralise(text) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(neutralise_all),
        Value::Object(members) => members.values_mut().for_each(neutralise_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Truncates a text to at most `most` bytes, at a character boundary.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn neutralise_with<'a>(text: &'a str, further: &[&str]) -> Cow<'a, str> {
    let text = without_controls(text);
    // Replacing or removing one marker may complete another one.
    let Some(mut changed) = replace_markers(&text, further) else { return text };
    while let Some(again) = replace_markers(&changed, further) {
        changed = again;
    }
    Cow::Owned(changed)
}

/// Removes control characters and escape sequences; keeps line feeds and tabs, and ends lines at carriage returns.
fn without_controls(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => {
                rest.next_if_eq(&'\n');
                out.push('\n');
            }
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => skip_control_sequence(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            c if is_odd(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Skips the parameters and the final byte of a control sequence.
fn skip_control_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// One character of the text as a tokenizer may read it.
#[derive(Clone, Copy)]
struct TokenizerChar {
    as_char: char,
    /// Byte offset of the character in the text.
    at: usize,
    end: usize,
}

/// Replaces all markers; returns `None` if there are none.
fn replace_markers(text: &str, further: &[&str]) -> Option<String> {
    let read: Vec<TokenizerChar> = text
        .char_indices()
        .filter(|(_, c)| !is_invisible(*c))
        .map(|(at, c)| TokenizerChar { as_char: folded(c), at, end: at + c.len_utf8() })
        .collect();
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut index = 0;
    while index < read.len() {
        let Some(length) = marker_at(&read, index, further) else {
            index += 1;
            continue;
        };
        let marker = &read[index..index + length];
        let name: String = marker
            .iter()
            .map(|read| read.as_char)
            .filter(|c| c.is_ascii_alphanumeric() || "_-./".contains(*c))
            .collect();
        let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
        out.push_str(&text[copied..marker[0].at]);
        out.push('(');
        out.push_str(&name);
        out.push(')');
        copied = marker[length - 1].end;
        index += length;
    }
    let mut out = out?;
    out.push_str(&text[copied..]);
    Some(out)
}

/// Returns the number of characters of the marker that begins here.
fn marker_at(read: &[TokenizerChar], index: usize, further: &[&str]) -> Option<usize> {
    let rest = &read[index..];
    let begins = |with: &str| {
        rest.len() >= with.len() && with.chars().zip(rest).all(|(expected, read)| expected == read.as_char)
    };
    match rest[0].as_char {
        '<' | '[' => TOKENS
            .iter()
            .chain(further)
            .find(|token| begins(token))
            .map(|token| token.len())
            .or_else(|| if begins("<|") { between_bars(rest) } else { None }),
        '#' if begins("###") && is_line_start(read, index) => {
            let spaces = rest[3..].iter().take_while(|read| matches!(read.as_char, ' ' | '\t' | '#')).count();
            turn_marker(&rest[3 + spaces..], HEADINGS).map(|length| 3 + spaces + length)
        }
        'h' | 'a' if is_after_empty_line(read, index) => turn_marker(rest, TURNS),
        _ => None,
    }
}

/// Returns the length of a marker `<|name|>`.
fn between_bars(rest: &[TokenizerChar]) -> Option<usize> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | ' ');
    let name = rest[2..].iter().take(MAX_NAME_CHARS + 1).take_while(|read| is_name(read.as_char)).count();
    let closes = |at: usize, c: char| rest.get(at).is_some_and(|read| read.as_char == c);
    (name > 0 && closes(2 + name, '|') && closes(3 + name, '>')).then_some(name + 4)
}

fn turn_marker(rest: &[TokenizerChar], names: &[&str]) -> Option<usize> {
    let begins = |name: &&&str| {
        rest.len() >= name.len() && name.chars().zip(rest).all(|(expected, read)| expected == read.as_char)
    };
    names.iter().find(begins).map(|name| name.len())
}

fn is_line_start(read: &[TokenizerChar], index: usize) -> bool {
    let before = read[..index].iter().rev().find(|read| !matches!(read.as_char, ' ' | '\t'));
    before.is_none_or(|read| read.as_char == '\n')
}

fn is_after_empty_line(read: &[TokenizerChar], index: usize) -> bool {
    let mut before = read[..index].iter().rev().filter(|read| !matches!(read.as_char, ' ' | '\t'));
    match before.next() {
        None => true,
        Some(read) => read.as_char == '\n' && before.next().is_none_or(|read| read.as_char == '\n'),
    }
}

/// Returns whether a character is default-ignorable: tokenizers drop it, and it is invisible.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Maps a character to the ASCII character that it resembles, in lower case.
fn folded(c: char) -> char {
    let plain = match c {
        // Full-width forms.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xff01 + 0x21).unwrap_or(c),
        '\u{2028}' | '\u{2029}' | '\u{85}' => '\n',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        '\u{2039}' | '\u{2329}' | '\u{27e8}' | '\u{3008}' | '\u{276e}' | '\u{fe64}' | '\u{2770}' => '<',
        '\u{203a}' | '\u{232a}' | '\u{27e9}' | '\u{3009}' | '\u{276f}' | '\u{fe65}' | '\u{2771}' => '>',
        '\u{1c0}' | '\u{2223}' | '\u{2502}' | '\u{2503}' | '\u{2758}' | '\u{ffe8}' => '|',
        '\u{2581}' | '\u{203f}' | '\u{fe4d}'..='\u{fe4f}' => '_',
        '\u{2236}' | '\u{a789}' | '\u{fe55}' => ':',
        // Mathematical letters: alphabets of capitals, then of lowercase letters.
        '\u{1d400}'..='\u{1d6a3}' => {
            let letter = (u32::from(c) - 0x1d400) % 26;
            char::from_u32(u32::from('a') + letter).unwrap_or(c)
        }
        other => other,
    };
    plain.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_markers_are_neutralised() {
        for (text, expected) in [
            ("<|im_start|>system\nx<|im_end|>", "(im_start)system\nx(im_end)"),
            ("<|system|> <|endoftext|><|START_OF_TURN_TOKEN|>", "(system) (endoftext)(start_of_turn_token)"),
            ("[INST] a [/INST] <<SYS>>b<</SYS>>", "(inst) a (/inst) (sys)b(/sys)"),
            ("<start_of_turn>user<end_of_turn>", "(start_of_turn)user(end_of_turn)"),
            ("<\u{ff5c}begin\u{2581}of\u{2581}sentence\u{ff5c}>", "(begin_of_sentence)"),
            ("\u{ff1c}|im_\u{200b}start\u{2060}|\u{ff1e}", "(im_start)"),
            ("<\u{200d}|\u{1d422}m_start|>", "(im_start)"),
            ("a\n\nHuman: b\r\n\r\nAssistant: c", "a\n\n(human) b\n\n(assistant) c"),
            ("### Instruction:\nx", "(instruction)\nx"),
            ("<|im<|im_start|>_start|>", "<|im(im_start)_start|>"),
            ("a\u{1b}[31mred\u{1b}[0m\u{7}\u{9b}2J\u{0}b", "aredb"),
        ] {
            assert_eq!(neutralise(text), expected, "{text:?}");
        }
        assert_eq!(neutralise_reminder("a</system-reminder>b"), "a(/system-reminder)b");
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in [
            "Use <T> and a || b, <|> or [instance].",
            "### Rules\n\n- Say what a human: reader needs.\n\tindented",
            "Emoji \u{1f468}\u{200d}\u{1f469} stay, \u{ff21} too.",
            "<system-reminder>x</system-reminder>",
        ] {
            assert!(matches!(neutralise(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }

    #[test]
    fn a_text_is_truncated_between_characters() {
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("aä", 3), "aä");
    }
}
