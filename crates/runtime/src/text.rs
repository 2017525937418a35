//! Foreign text on its way to a person.

use pijs_protocol::guard;

/// Makes foreign text harmless for a terminal; several lines stay several lines.
pub fn clean(text: &str) -> String {
    pijs_terminal::text(text)
}

/// Indents the later lines of foreign text: what begins at the left edge is pi's own, its questions above all.
pub fn indented(text: &str) -> String {
    if guard!(PromptFrame) { text.replace('\n', "\n  ") } else { text.to_owned() }
}

/// An option of `ctx.ui.select` as a person reads it: extensions that give objects get them back, and show none.
pub fn option_text(option: &serde_json::Value) -> String {
    match option {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Object(_) => "[object Object]".to_owned(),
        other => other.to_string(),
    }
}
