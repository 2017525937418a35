//! Exports a session: as JSON lines, Markdown or an HTML page.

use pijs_llm::message::{Content, Message};
use pijs_protocol::guard;
use pijs_session_store::{Body, Entry, Session, SessionError};
use pijs_terminal::{Limits, within};
use rustix::fs::OFlags;
use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Supported formats, by file extension.
pub const FORMS: &str = ".html, .md or .jsonl";

/// Origin of a file's name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NameOrigin {
    /// Given by the user: a symbolic link of that name is followed.
    Theirs,
    /// A default name: a symbolic link is not followed, because the folder's author may have put it there.
    Ours,
}

/// Writes an export.
pub fn put(to: &Path, text: &str, name: NameOrigin) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if name == NameOrigin::Ours && guard!(ExportLink) {
        // Converts the flag's bits to the type of the system call.
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    }
    options.open(to)?.write_all(text.as_bytes())
}

/// Exports the session in the format that the file's extension selects; `None` for an unknown extension.
pub fn in_form_of(session: &Session, file: &Path) -> Result<Option<String>, SessionError> {
    Ok(match file.extension().and_then(|form| form.to_str()) {
        Some("jsonl") => Some(as_lines(session)?),
        Some("md") => Some(as_markdown(session)?),
        Some("html") => Some(as_page(session)?),
        _ => None,
    })
}

/// Exports the lines of the session file.
fn as_lines(session: &Session) -> Result<String, SessionError> {
    let mut lines = serde_json::to_string(session.header()).unwrap_or_default() + "\n";
    for entry in session.entries() {
        lines.push_str(&format!("{}\n", entry?.written()));
    }
    Ok(lines)
}

/// Removes control and invisible characters from text for users: pages are viewed with `cat`, too.
pub fn readable(text: &str) -> String {
    within(text, Limits { styles: false, ..Limits::unbounded() })
}

/// Exports the branch as Markdown.
fn as_markdown(session: &Session) -> Result<String, SessionError> {
    let name = session.name().unwrap_or("Session").replace(['\n', '\r'], " ");
    let mut text = format!("# {name}\n");
    for entry in session.along_branch() {
        let Some(said) = paragraph(&*entry?) else { continue };
        let what = if said.is_plain { fenced(&said.what) } else { said.what };
        text.push_str(&format!("\n## {}\n\n{}\n", said.who, what.trim()));
    }
    Ok(readable(&text))
}

/// Exports the branch as a static page without scripts.
fn as_page(session: &Session) -> Result<String, SessionError> {
    let name = escaped(session.name().unwrap_or("Session"));
    let mut page = format!(
        "<!doctype html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>{name}</title>\n{STYLE}\n</head>\n<body>\n<h1>{name}</h1>\n"
    );
    for entry in session.along_branch() {
        let Some(said) = paragraph(&*entry?) else { continue };
        let class = if said.is_plain { "plain" } else { "text" };
        page.push_str(&format!("<h2>{}</h2>\n<pre class=\"{class}\">{}</pre>\n", said.who, escaped(said.what.trim())));
    }
    Ok(readable(&(page + "</body>\n</html>\n")))
}

const STYLE: &str = "<style>body{max-width:60em;margin:2em auto;font-family:sans-serif}pre{white-space:pre-wrap}.text{font-family:inherit}.plain{background:#f4f4f4;padding:.6em}</style>";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A message of the export.
struct Paragraph {
    who: &'static str,
    what: String,
    /// Whether the message is program output rather than prose.
    is_plain: bool,
}

fn paragraph(entry: &Entry) -> Option<Paragraph> {
    let said = |content: &Content| content.text();
    let (who, what, is_plain) = match &entry.body {
        Body::Message { message: Message::User(user) } => ("User", said(&user.content), false),
        Body::Message { message: Message::Assistant(reply) } => {
            let calls = reply.tool_calls().map(|call| format!("\n\n`{} {}`", call.name, call.arguments));
            ("Assistant", format!("{}{}", reply.text(), calls.collect::<String>()), false)
        }
        Body::Message { message: Message::ToolResult(result) } => {
            let blocks: Value = serde_json::to_value(&result.content).unwrap_or_default();
            ("Tool", text_of(&blocks), true)
        }
        Body::Message { message: Message::BashExecution(run) } => {
            ("Shell", format!("$ {}\n{}", run.command, run.output), true)
        }
        Body::Compaction { summary, .. } => ("Compaction", summary.clone(), false),
        Body::BranchSummary { summary, .. } => ("Branch", summary.clone(), false),
        _ => return None,
    };
    Some(Paragraph { who, what, is_plain })
}

/// Fences text with more backticks than it contains.
fn fenced(text: &str) -> String {
    let longest = text.lines().map(|line| line.chars().take_while(|c| *c == '`').count()).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

/// Returns the text of a message's content.
pub fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_environment::Ambient;

    #[test]
    fn fence_is_longer_than_backticks_inside() {
        assert_eq!(fenced("a\n````\nb\n"), "`````\na\n````\nb\n`````");
    }

    #[test]
    fn page_shows_messages_and_has_no_scripts() {
        let mut session = Session::in_memory(Path::new("/w"), Ambient::system());
        session.append(Body::SessionInfo { name: Some("a <b>".to_owned()) }).expect("in memory");
        let page = as_page(&session).expect("in memory");
        assert!(page.contains("<h1>a &lt;b&gt;</h1>") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn exports_contain_no_terminal_control_characters() {
        let mut session = Session::in_memory(Path::new("/w"), Ambient::system());
        session.append(Body::SessionInfo { name: Some("a\u{1b}]0;b\u{7}\n## User".to_owned()) }).expect("in memory");
        let said = Message::user("c\u{1b}[2J\u{202e}d", 0);
        session.append(Body::Message { message: said }).expect("in memory");
        for text in [as_page(&session), as_markdown(&session)] {
            let text = text.expect("in memory");
            assert!(text.contains("cd") && !text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        }
        assert!(as_markdown(&session).expect("in memory").starts_with("# a ## User\n"));
    }
}
