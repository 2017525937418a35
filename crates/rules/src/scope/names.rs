//! Names in scopes that are probably mistakes: a stream in other words, or a misspelt tool.

use crate::diagnostic::{quoted, similar};

/// Tools that come with pi.
pub(super) const TOOLS: [&str; 7] = ["bash", "edit", "find", "grep", "ls", "read", "write"];

/// Streams and their plurals, which people write instead, each with the token.
const STREAMS: [(&str, &str); 7] = [
    ("text", "text"),
    ("texts", "text"),
    ("thinking", "thinking"),
    ("tool", "tool"),
    ("tools", "tool"),
    ("toolcall", "tool"),
    ("toolcalls", "tool"),
];

/// Returns the message and the hint for a token that names a tool and is probably a mistake. `is_own` is set for a file of PiJS;
/// other programs have other tools, and name them without `tool:`.
pub(crate) fn doubt(token: &str, name: &str, is_own: bool) -> Option<(String, String)> {
    let is_bare = !token.to_ascii_lowercase().starts_with("tool:");
    if is_bare && let Some(meant) = probably_meant(name) {
        let message = format!("scope {} is taken as the name of a tool", quoted(token));
        return Some((message, format!("did you mean `{meant}`? To name a tool write `tool:{name}`")));
    }
    if let Some(meant) = misspelt_tool(name) {
        let message = format!("scope {}: no tool of pi is called `{name}`", quoted(token));
        return Some((message, format!("did you mean `tool:{meant}`?")));
    }
    // Tools of extensions and servers are not known here.
    let is_unknown = is_bare && is_own && !TOOLS.contains(&name) && !name.starts_with("mcp__");
    is_unknown.then(|| {
        let message = format!("scope {} is neither a stream nor a tool of pi", quoted(token));
        (message, format!("write `text`, `thinking` or `tool`; to name a tool of an extension write `tool:{name}`"))
    })
}

/// Finds the tool of pi that a name is probably a misspelling of.
pub(super) fn misspelt_tool(name: &str) -> Option<&'static str> {
    // `lsp` is a tool of other programs.
    let long = TOOLS.into_iter().filter(|known| known.len() > 2);
    if TOOLS.contains(&name) { None } else { similar(name, long) }
}

/// Returns the stream that a bare word probably means, instead of the name of a tool.
fn probably_meant(name: &str) -> Option<&'static str> {
    match name {
        "prose" | "message" | "reply" | "output" | "assistant" => Some("text"),
        "reasoning" | "thought" | "thoughts" | "think" => Some("thinking"),
        "tool_call" | "tool-call" | "tool_calls" => Some("tool"),
        "any" | "all" => Some("text, thinking, tool"),
        name if TOOLS.contains(&name) => None,
        _ => {
            let near = similar(name, STREAMS.map(|(written, _)| written))?;
            STREAMS.into_iter().find(|(written, _)| *written == near).map(|(_, token)| token)
        }
    }
}
