//! pi's own surface, as far as it is power over the model or the session: which capability an event,
//! a method of `pi` or a method of `ctx` stands for.

use std::collections::BTreeSet;

/// The capability behind `pi.on(event, ...)`; `None` for events that only inform and for names that are
/// not pi's.
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

/// The capability for the system messages in an event's answer.
pub(super) fn of_system_messages(event: &str) -> Option<&'static str> {
    (event == "context_with_system").then_some("prompt.modify")
}

/// Events whose answers need a capability only for what some of them say; see [`of_answers`].
pub(super) fn by_answer(event: &str) -> Option<&'static str> {
    ["agent_before_settle", "session_before_tree", "turn_end"].into_iter().find(|known| *known == event)
}

/// A member of an object, or the `type` of one, that gives an answer of such an event its power.
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

/// What the answers of these events need, given the words that occur in the code.
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

/// Whether a function of pi's makes a tool that works and is named like one of its own: `createReadTool`,
/// `createBashToolDefinition`.
pub(super) fn makes_own_tool(function: &str) -> bool {
    let name = function.strip_suffix("Definition").unwrap_or(function);
    let name = name.strip_prefix("create").and_then(|rest| rest.strip_suffix("Tool"));
    name.is_some_and(|name| OWN_TOOLS.contains(&name))
}

/// Whether a tool has the name of one of pi's own.
pub(super) fn is_own_tool(name: &str) -> bool {
    OWN_TOOLS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// pi's own tools, as the functions that make them are named.
const OWN_TOOLS: [&str; 7] = ["Bash", "Edit", "Find", "Grep", "Ls", "Read", "Write"];

/// The capability behind `pi.method(...)`, where the method's name alone says that it is pi's.
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

/// The capability behind `ctx.method(...)`, where `ctx` is known to be pi's context by its name.
pub(super) fn of_context_method(method: &str) -> Option<&'static str> {
    Some(match method {
        "abort" | "compact" | "fork" | "reload" | "shutdown" => "session.control",
        _ => return None,
    })
}

/// What `ctx.ui.method(...)` needs beside the screen: an editor of one's own says what the person says.
pub(super) fn of_screen_method(method: &str) -> &'static [&'static str] {
    match method {
        "setEditorComponent" => &["session.control", "session.inject"],
        _ => &[],
    }
}

/// The capability behind `pi.member.method(...)` and `ctx.member.method(...)`.
pub(super) fn of_member(member: &str) -> Option<&'static str> {
    Some(match member {
        "ui" => "ui",
        "events" => "events",
        _ => return None,
    })
}
