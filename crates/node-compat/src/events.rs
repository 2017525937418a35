//! The events of pi: names, permitted changes, and the combination of results.
//!
//! [`EVENTS`] is the whole table, sorted by name; the shapes are those of pi 0.87.1. Registering a handler for an event that is
//! not in the table is a warning, and the handler is never called. `extc` reports this warning at the build; the host dispatches
//! events according to the table.

/// The rule of an event.
#[derive(Debug, PartialEq, Eq)]
pub struct EventRule {
    /// Name of the event.
    pub name: &'static str,
    /// Members of the event object that handlers may change in place.
    pub mutable: &'static [&'static str],
    /// How the results of several handlers are combined.
    pub combine: Combine,
    /// The effect of an exception in a handler.
    pub on_throw: OnThrow,
    /// The capability that an extension's results and changes need; `None` where they are ignored anyway, only steer the
    /// extension's own session commands, or where the result decides about the capability.
    pub capability: Option<&'static str>,
}

/// The combination of several handlers' results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// Results are ignored.
    Ignore,
    /// The last truthy result wins; a result whose named member is truthy ends the dispatch.
    LastUntil(&'static str),
    /// The first result wins, `null` included.
    First,
    /// The first result whose `trusted` is `yes` or `no` wins.
    FirstDecided,
    /// The named member of a result replaces that of the event. The combined result is an object
    /// with only this member, or none if no handler replaced it.
    Replace(&'static str),
    /// Like `Replace("message")`, but the new message must have the same role.
    ReplaceMessage,
    /// The result itself replaces the named member of the event.
    ReplaceWhole(&'static str),
    /// Each named member of a result replaces that of the event. The combined result has all of them if a handler replaced one.
    Fields(&'static [&'static str]),
    /// Like `Fields`, but the combined result is always present, even if no handler replaced a member.
    Chain(&'static [&'static str]),
    /// Concatenates the lists of the named members; each item is labelled with its extension.
    Collect(&'static [&'static str]),
    /// Collects `message` of each result; each `systemPrompt` replaces the previous one.
    AgentStart,
    /// `transform` replaces the text for later handlers; `handled` ends the dispatch.
    Input,
}

/// The effect of an exception in a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnThrow {
    /// The exception is reported; the next handler runs.
    Report,
    /// The exception blocks the operation, with its message as the reason; it is not reported.
    Block,
    /// The exception is reported and ends the dispatch; the caller fails.
    Fail,
}

const fn quiet(name: &'static str) -> EventRule {
    rule(name, &[], Combine::Ignore)
}

const fn rule(name: &'static str, mutable: &'static [&'static str], combine: Combine) -> EventRule {
    EventRule { name, mutable, combine, on_throw: OnThrow::Report, capability: None }
}

impl EventRule {
    /// Restricts the rule to extensions with a capability.
    const fn held_by(self, capability: &'static str) -> Self {
        Self { capability: Some(capability), ..self }
    }

    const fn on_throw(self, on_throw: OnThrow) -> Self {
        Self { on_throw, ..self }
    }
}

/// Fields of a tool's result that handlers may replace one by one.
const RESULT_FIELDS: &[&str] = &["content", "details", "isError", "usage"];

/// All events of the dialect but `stream_text`, sorted by name.
pub const EVENTS: &[EventRule] = &[
    quiet("after_provider_response"),
    rule("agent_before_settle", &[], Combine::Chain(&["entries", "continue"])),
    quiet("agent_end"),
    quiet("agent_settled"),
    quiet("agent_start"),
    rule("before_agent_start", &["systemPromptOptions"], Combine::AgentStart).held_by("prompt.modify"),
    rule("before_provider_headers", &["headers"], Combine::Ignore).held_by("provider"),
    rule("before_provider_request", &["payload"], Combine::ReplaceWhole("payload")).held_by("provider"),
    rule("cache_warming_decision", &[], Combine::Chain(&["action"])),
    rule("context", &["messages"], Combine::Replace("messages")).held_by("context.modify"),
    rule("context_with_system", &["messages"], Combine::Replace("messages")).held_by("context.modify"),
    rule("input", &[], Combine::Input).held_by("context.modify"),
    quiet("mcp_servers_change"),
    rule("message_end", &[], Combine::ReplaceMessage).held_by("context.modify"),
    quiet("message_start"),
    quiet("message_update"),
    quiet("model_select"),
    rule("project_trust", &[], Combine::FirstDecided).held_by("trust"),
    quiet("provider_stream_event"),
    rule("resources_discover", &[], Combine::Collect(&["skillPaths", "promptPaths", "themePaths"]))
        .held_by("resources"),
    quiet("rule_fired"),
    rule("session_before_compact", &[], Combine::LastUntil("cancel")).held_by("compaction"),
    rule("session_before_fork", &[], Combine::LastUntil("cancel")),
    rule("session_before_switch", &[], Combine::LastUntil("cancel")),
    rule("session_before_tree", &[], Combine::LastUntil("cancel")),
    quiet("session_compact"),
    quiet("session_compact_failed"),
    quiet("session_info_changed"),
    quiet("session_shutdown"),
    quiet("session_start"),
    quiet("session_tree"),
    quiet("thinking_level_select"),
    rule("tool_call", &["input"], Combine::LastUntil("block")).on_throw(OnThrow::Block).held_by("tool.modify"),
    quiet("tool_execution_end"),
    quiet("tool_execution_start"),
    quiet("tool_execution_update"),
    rule("tool_result", RESULT_FIELDS, Combine::Fields(RESULT_FIELDS)).held_by("tool.modify"),
    rule("turn_end", &[], Combine::Chain(&["entries", "continue"])),
    quiet("turn_start"),
    quiet("ui_prompt_end"),
    quiet("ui_prompt_start"),
    rule("user_bash", &[], Combine::First).on_throw(OnThrow::Fail).held_by("tool.modify"),
];

/// The event of a piece of a reply, which the host fires itself.
pub const STREAM_TEXT: &str = "stream_text";

/// The rule of unknown names, which an embedder may emit.
static UNKNOWN: EventRule = quiet("");

/// Returns whether handlers of this name can ever be called.
pub fn is_known(name: &str) -> bool {
    name == STREAM_TEXT || find(name).is_some()
}

/// Returns the rule of an event; an unknown name has a rule without effects.
pub fn rule_for(name: &str) -> &'static EventRule {
    find(name).unwrap_or(&UNKNOWN)
}

fn find(name: &str) -> Option<&'static EventRule> {
    let at = EVENTS.binary_search_by(|rule| rule.name.cmp(name)).ok()?;
    EVENTS.get(at)
}

/// Maximum edit distance (insertions, deletions, substitutions, transpositions) of a misspelt name; one for a short name.
const MAX_EDITS: usize = 2;

/// Returns the event with the most similar name, if there is one.
pub fn similar(name: &str) -> Option<&'static str> {
    most_like(name, EVENTS.iter().map(|rule| rule.name).chain([STREAM_TEXT]))
}

/// Describes an event that no handler is ever called for: the problem, and help. Returns `None` for a known event.
pub fn unknown(name: &str) -> Option<(String, String)> {
    let problem = || format!("`{name}` is not an event of pi, so this handler never runs");
    let help = || similar(name).map_or_else(|| "check the spelling".to_owned(), did_you_mean);
    (!is_known(name)).then(|| (problem(), help()))
}

/// Returns help with the most similar known name, if there is one.
pub fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    most_like(name, known).map(did_you_mean)
}

fn did_you_mean(known: &str) -> String {
    format!("did you mean `{known}`?")
}

/// Returns the most similar known name, if there is one.
pub fn most_like<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = if name.len() < 6 { 1 } else { MAX_EDITS };
    let edits = |known: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    // An abbreviation, as `registerCmd`.
    let abbreviates = |known: &str| name.len() >= MIN_ABBREVIATION && is_abbreviation(name, known);
    let found = known.map(|known| (edits(known), known)).filter(|(edits, known)| *edits <= most || abbreviates(known));
    found.min_by_key(|(edits, known)| (*edits, known.len().abs_diff(name.len()), *known)).map(|(_, known)| known)
}

/// Minimum length of an abbreviation; a shorter text is the start of many names.
const MIN_ABBREVIATION: usize = 6;

/// Returns whether a name has the first half of another one's letters in the same order, and no others.
fn is_abbreviation(name: &str, known: &str) -> bool {
    let start = name.len() / 2;
    let mut letters = known.chars();
    name.get(..start).is_some_and(|start| known.starts_with(start))
        && name.chars().all(|c| letters.any(|other| other == c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_it_can_be_searched() {
        assert!(EVENTS.is_sorted_by(|a, b| a.name < b.name));
        for rule in EVENTS {
            assert_eq!(rule_for(rule.name), rule);
        }
        assert!(is_known("stream_text") && !is_known("nonsense"));
    }
}
