//! Sanitises foreign text for the user.

use pijs_protocol::guard;

/// Removes control sequences from foreign text; line breaks stay.
pub fn clean(text: &str) -> String {
    pijs_terminal::text(text)
}

/// Indents all lines of foreign text but the first: text at the left edge is pi's own, such as its questions.
pub fn indented(text: &str) -> String {
    if guard!(PromptFrame) { text.replace('\n', "\n  ") } else { text.to_owned() }
}

/// Formats an option of `ctx.ui.select`: extensions can pass objects and get them back.
pub fn option_text(option: &serde_json::Value) -> String {
    match option {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Object(_) => "[object Object]".to_owned(),
        other => other.to_string(),
    }
}
