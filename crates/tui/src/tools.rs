//! Renders calls of built-in tools and shell commands of the user: a title, and a part of the result. If an extension has a
//! renderer for its tool, that has precedence; other tools show their arguments and text.

use super::clip;
use super::images;
use super::transcript::ToolBlock;
use pijs_terminal::layout::{clamp, wrap};
use serde_json::Value;

/// Maximum number of lines of a folded title, and of a folded result without a separate limit.
const FOLDED_LINES: usize = 10;
/// Maximum number of lines of a folded result: of the `bash` tool, of the user's command, of searches, and of listings.
const BASH_LINES: usize = 5;
const USER_COMMAND_LINES: usize = 20;
const SEARCH_LINES: usize = 15;
const LISTING_LINES: usize = 20;

/// Name for shell commands of the user, in place of a tool's; no tool has this name.
pub(super) const USER_COMMAND: &str = "$";

/// The part of a folded text that is shown.
#[derive(Debug, Clone, Copy)]
enum KeptPart {
    First(usize),
    Last(usize),
    Nothing,
}

/// Describes a call; `None` for a tool that does not have the arguments of a built-in one.
fn said(call: &ToolBlock) -> Option<String> {
    let text = |key: &str| call.args.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let number = |key: &str| call.args.get(key).and_then(Value::as_u64);
    let path = || text("path").or_else(|| text("file_path"));
    let limit = |words: &str| number("limit").map(|limit| format!(" ({words}{limit})")).unwrap_or_default();
    Some(match call.name.as_str() {
        USER_COMMAND => format!("$ {}", call.args.as_str()?),
        "bash" => {
            let timeout = number("timeout").map(|seconds| format!(" (timeout {seconds}s)")).unwrap_or_default();
            format!("$ {}{timeout}", text("command")?)
        }
        "read" => {
            let from = number("offset").unwrap_or(1);
            let lines = match (number("offset"), number("limit")) {
                (None, None) => String::new(),
                (_, Some(limit)) => format!(":{from}-{}", (from + limit).saturating_sub(1)),
                (Some(_), None) => format!(":{from}"),
            };
            format!("read {}{lines}", path()?)
        }
        "write" => format!("write {}", path()?),
        "edit" => format!("edit {}", path()?),
        "ls" => format!("ls {}{}", path().unwrap_or("."), limit("limit ")),
        "find" => format!("find {} in {}{}", text("pattern")?, path().unwrap_or("."), limit("limit ")),
        "grep" => {
            let glob = text("glob").map(|glob| format!(" ({glob})")).unwrap_or_default();
            format!("grep /{}/ in {}{glob}{}", text("pattern")?, path().unwrap_or("."), limit("limit "))
        }
        _ => return None,
    })
}

/// Returns the title lines of a call.
pub(super) fn title(call: &ToolBlock, columns: usize, expanded: bool) -> Vec<String> {
    let colour = match (call.is_done, call.is_error) {
        (false, _) => "33",
        (true, false) => "32",
        (true, true) => "31",
    };
    let room = columns.saturating_sub(2);
    let mut lines = match said(call) {
        Some(said) => wrap(&clip::first(&said, clip::MESSAGE), room),
        None => {
            let args =
                if call.args.as_object().is_some_and(serde_json::Map::is_empty) { &Value::Null } else { &call.args };
            let args = if args.is_null() { String::new() } else { format!(" {args}") };
            vec![clamp(&pijs_terminal::line(clip::clipped(&format!("{}{args}", call.name), clip::MESSAGE)), room)]
        }
    };
    let more = lines.len().saturating_sub(FOLDED_LINES);
    if !expanded && more > 0 {
        lines.truncate(FOLDED_LINES);
        lines.push(format!("... ({more} more lines, ctrl+o to expand)"));
    }
    let mark = |(index, line): (usize, String)| match index {
        0 => format!("\u{1b}[{colour}m*\u{1b}[0m \u{1b}[1m{line}\u{1b}[0m"),
        _ => format!("  \u{1b}[1m{line}\u{1b}[0m"),
    };
    lines.into_iter().enumerate().map(mark).collect()
}

/// Returns the lines below the title: the result, or the content of a file that is written.
pub(super) fn result(call: &ToolBlock, columns: usize, expanded: bool) -> Vec<String> {
    let own = said(call).is_some();
    let output = text(call);
    let is_failed = call.is_done && call.is_error;
    let (shown, part) = match call.name.as_str() {
        USER_COMMAND => (output, KeptPart::Last(USER_COMMAND_LINES)),
        _ if !own => (output, KeptPart::First(FOLDED_LINES)),
        "bash" => (output, KeptPart::Last(BASH_LINES)),
        _ if is_failed => (output, KeptPart::First(FOLDED_LINES)),
        "read" if images::of(call.result.as_ref()).next().is_none() => (output, KeptPart::Nothing),
        "write" => (call.args["content"].as_str().unwrap_or_default().to_owned(), KeptPart::First(FOLDED_LINES)),
        "edit" => {
            let diff = call.result.as_ref().and_then(|result| result["details"]["diff"].as_str()).unwrap_or_default();
            return diff_lines(diff, columns);
        }
        "grep" => (output, KeptPart::First(SEARCH_LINES)),
        "find" | "ls" => (output, KeptPart::First(LISTING_LINES)),
        _ => (output, KeptPart::First(FOLDED_LINES)),
    };
    let mut lines = folded(&shown, part, columns, expanded);
    lines.extend(
        call.ending.as_ref().map(|ending| format!("\u{1b}[33m  {}\u{1b}[0m", clamp(ending, columns.saturating_sub(2)))),
    );
    lines
}

/// Returns the whole text, or its visible part with the number of hidden lines.
fn folded(text: &str, part: KeptPart, columns: usize, expanded: bool) -> Vec<String> {
    let text = text.trim_end();
    if text.trim().is_empty() {
        return Vec::new();
    }
    let part_of = match part {
        KeptPart::Last(_) => clip::last(text, clip::TEXT),
        _ => clip::first(text, clip::TEXT),
    };
    let mut lines = wrap(&part_of, columns.saturating_sub(2));
    let left_out = text.lines().count().saturating_sub(part_of.lines().count());
    let count = lines.len() + left_out;
    if !expanded {
        match part {
            KeptPart::First(most) if count > most => {
                lines.truncate(most);
                lines.push(format!("... ({} more lines, ctrl+o to expand)", count - most));
            }
            KeptPart::Last(most) if count > most => {
                lines.drain(..lines.len().saturating_sub(most));
                lines.insert(0, format!("... ({} earlier lines, ctrl+o to expand)", count - most));
            }
            KeptPart::Nothing => lines.clear(),
            _ => {}
        }
    }
    lines.into_iter().map(|line| format!("\u{1b}[2m  {}\u{1b}[0m", clamp(&line, columns.saturating_sub(2)))).collect()
}

/// Colours a diff in the format of `edit`: sign, number and line.
fn diff_lines(diff: &str, columns: usize) -> Vec<String> {
    let coloured = |line: &str| {
        let colour = match line.chars().next() {
            Some('+') => "32",
            Some('-') => "31",
            _ => "2",
        };
        let lines = wrap(line, columns.saturating_sub(2)).into_iter();
        lines.map(|line| format!("\u{1b}[{colour}m  {line}\u{1b}[0m")).collect::<Vec<_>>()
    };
    clip::first(diff.trim_end(), clip::TEXT).lines().flat_map(coloured).collect()
}

/// Returns the text of a result with a line for each image.
fn text(call: &ToolBlock) -> String {
    let content = call.result.as_ref().map(|result| &result["content"]);
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let shown = blocks.iter().map(|block| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None if block["type"] == "image" => images::in_words(block),
                None => format!("[{}]", block["type"].as_str().unwrap_or("content")),
            });
            shown.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(name: &str, args: Value, result: &str) -> ToolBlock {
        let (name, result) = (name.to_owned(), Some(json!({"content": [{"type": "text", "text": result}]})));
        ToolBlock { name, args, result, is_done: true, ..ToolBlock::default() }
    }

    fn plain(lines: Vec<String>) -> Vec<String> {
        lines.iter().map(|line| pijs_terminal::plain(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn calls_are_described_as_in_pi() {
        for (name, args, expected) in [
            ("bash", json!({"command": "ls -l"}), "* $ ls -l"),
            ("bash", json!({"command": "make", "timeout": 9}), "* $ make (timeout 9s)"),
            ("read", json!({"path": "a.txt"}), "* read a.txt"),
            ("read", json!({"path": "a.txt", "offset": 3, "limit": 4}), "* read a.txt:3-6"),
            ("read", json!({"file_path": "a.txt", "offset": 3}), "* read a.txt:3"),
            ("write", json!({"path": "b", "content": "x"}), "* write b"),
            ("ls", json!({}), "* ls ."),
            ("find", json!({"pattern": "*.rs", "limit": 5}), "* find *.rs in . (limit 5)"),
            ("grep", json!({"pattern": "fn", "path": "src", "glob": "*.rs"}), "* grep /fn/ in src (*.rs)"),
            ("read", json!({"url": "x"}), "* read {\"url\":\"x\"}"),
            ("other", json!({"a": 1}), "* other {\"a\":1}"),
            ("other", json!({}), "* other"),
            ("$", json!("date"), "* $ date"),
            ("bash", json!({"command": "a\u{1b}[2J\u{202e}b\u{7}"}), "* $ ab"),
        ] {
            assert_eq!(plain(title(&call(name, args, ""), 60, false)), [expected]);
        }
    }

    #[test]
    fn results_are_folded_by_tool() {
        let long: String = (1..=30).map(|line| format!("{line}\n")).collect();
        for (name, args, count, first, last) in [
            ("bash", json!({"command": "x"}), 6, "  ... (25 earlier lines, ctrl+o to expand)", "  30"),
            ("$", json!("x"), 21, "  ... (10 earlier lines, ctrl+o to expand)", "  30"),
            ("grep", json!({"pattern": "x"}), 16, "  1", "  ... (15 more lines, ctrl+o to expand)"),
            ("ls", json!({}), 21, "  1", "  ... (10 more lines, ctrl+o to expand)"),
            ("other", json!({}), 11, "  1", "  ... (20 more lines, ctrl+o to expand)"),
        ] {
            let call = call(name, args, &long);
            let lines = plain(result(&call, 60, false));
            assert_eq!((lines.len(), lines[0].as_str(), lines[count - 1].as_str()), (count, first, last), "{name}");
            assert_eq!(result(&call, 60, true).len(), 30, "{name}");
        }
        let read = call("read", json!({"path": "a"}), "text");
        assert_eq!(result(&read, 60, false), Vec::<String>::new());
        assert_eq!(plain(result(&ToolBlock { is_error: true, ..read }, 60, false)), ["  text"]);
        let write = call("write", json!({"path": "a", "content": "one\ntwo\n"}), "Successfully wrote");
        assert_eq!(plain(result(&write, 60, false)), ["  one", "  two"]);
        let mut edit = call("edit", json!({"path": "a"}), "Successfully replaced");
        edit.result = Some(json!({"content": [], "details": {"diff": " 1 a\n-2 b\n+2 \u{1b}[31mB"}}));
        assert_eq!(
            result(&edit, 60, false),
            ["\u{1b}[2m   1 a\u{1b}[0m", "\u{1b}[31m  -2 b\u{1b}[0m", "\u{1b}[32m  +2 B\u{1b}[0m"]
        );
    }
}
