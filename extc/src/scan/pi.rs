//! Maps pi's API to capabilities: events, methods of `pi` and methods of `ctx` that have power over the model or the session.

use std::collections::BTreeSet;

/// Returns the capability that `pi.on(event, ...)` needs; `None` for events that only notify, and for unknown names.
pub(super) fn of_event(event: &str) -> Option<&'static str> {
    Some(match event {
        "stream_text" => "verdict",
        "context" | "context_with_system" | "input" | "message_end" => "context.modify",
        "session_before_compact" => "compaction",
        "tool_call" | "tool_result" | "user_bash" => "tool.modify",
        "before_agent_start" => "prompt.modify",
        "before_provider_request" | "before_provider_headers" | "after_provider_response" => "provider",
        "project_trust" => "trust",
        _ => return None,
    })
}

/// Returns the capability that an event needs to return system messages.
pub(super) fn of_system_messages(event: &str) -> Option<&'static str> {
    (event == "context_with_system").then_some("prompt.modify")
}

/// Returns the event if only some of its results need a capability; see [`of_answers`].
pub(super) fn by_answer(event: &str) -> Option<&'static str> {
    ["agent_before_settle", "session_before_tree", "turn_end"].into_iter().find(|known| *known == event)
}

/// Returns the member name or `type` of a result if it needs a capability; see [`of_answers`].
pub(super) fn of_answer(word: &str) -> Option<&'static str> {
    let words = [
        "compaction",
        "context_edit",
        "continue",
        "custom_message",
        "customInstructions",
        "replaceInstructions",
        "summary",
    ];
    words.into_iter().find(|known| *known == word)
}

/// Returns the capabilities that the results of these events need, given the strings that occur in the code.
pub(super) fn of_answers(
    events: &BTreeSet<&'static str>,
    words: &BTreeSet<&'static str>,
) -> impl Iterator<Item = &'static str> {
    let boundary = events.contains("turn_end") || events.contains("agent_before_settle");
    let tree = events.contains("session_before_tree");
    words.iter().filter_map(move |word| match *word {
        "continue" | "custom_message" if boundary => Some("verdict"),
        "compaction" if boundary => Some("compaction"),
        "context_edit" if boundary => Some("context.modify"),
        "customInstructions" | "replaceInstructions" | "summary" if tree => Some("compaction"),
        _ => None,
    })
}

/// Returns whether a function of pi's creates a working tool under a built-in's name: `createReadTool`,
/// `createBashToolDefinition`.
pub(super) fn makes_own_tool(function: &str) -> bool {
    let name = function.strip_suffix("Definition").unwrap_or(function);
    let name = name.strip_prefix("create").and_then(|rest| rest.strip_suffix("Tool"));
    name.is_some_and(|name| OWN_TOOLS.contains(&name))
}

/// Returns whether a name is that of one of pi's built-in tools.
pub(super) fn is_own_tool(name: &str) -> bool {
    OWN_TOOLS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// pi's built-in tools, as spelled in the names of their constructors.
const OWN_TOOLS: [&str; 7] = ["Bash", "Edit", "Find", "Grep", "Ls", "Read", "Write"];

/// Returns the capability that `pi.method(...)` needs, where the method's name alone shows that it is pi's.
pub(super) fn of_method(method: &str) -> Option<&'static str> {
    Some(match method {
        "registerTool" | "unregisterTool" | "getAllTools" => "tools",
        "registerCommand" | "registerSlashCommand" | "registerShortcut" => "commands",
        "registerProvider" | "unregisterProvider" => "provider",
        "sendMessage" | "sendUserMessage" => "session.inject",
        "setModel" | "setThinkingLevel" | "setActiveTools" | "newSession" | "switchSession" | "navigateTree" => {
            "session.control"
        }
        "appendEntry" | "setSessionName" | "setLabel" => "session",
        "registerMessageRenderer" | "registerEntryRenderer" => "ui",
        _ => return None,
    })
}

/// Returns the capability that `ctx.method(...)` needs, where the name `ctx` shows that it is pi's context.
pub(super) fn of_context_method(method: &str) -> Option<&'static str> {
    Some(match method {
        "abort" | "compact" | "fork" | "reload" | "shutdown" => "session.control",
        _ => return None,
    })
}

/// Returns the capabilities that `ctx.ui.method(...)` needs besides screen access: a custom editor submits the user's input.
pub(super) fn of_screen_method(method: &str) -> &'static [&'static str] {
    match method {
        "setEditorComponent" => &["session.control", "session.inject"],
        _ => &[],
    }
}

/// Returns the capability that `pi.member.method(...)` and `ctx.member.method(...)` need.
pub(super) fn of_member(member: &str) -> Option<&'static str> {
    Some(match member {
        "ui" => "ui",
        "events" => "events",
        _ => return None,
    })
}
