//! Gate decisions and ledger lines of the host itself: verdicts and lifecycle.
//!
//! The dispatcher records hostcalls; this module records everything else.

use crate::message_limits::{REGISTRATION_BYTES, is_within};
use crate::services::Services;
use pijs_hostcall::prompt::shown;
use pijs_hostcall::vocabulary::BUILT_IN_TOOLS;
use pijs_hostcall::{Caller, Decision};
use pijs_protocol::guard;
use pijs_protocol::log::Level;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::registration::{FlagSpec, LONGEST_TOOL_NAME, Registration, ToolSpec, tool_name_problem};
use pijs_protocol::stream::Injection;
use pijs_protocol::{EntryIndex, StreamDelta, Termination};
use serde_json::{Map, Value, json};

/// Capability that an abort requires.
const VERDICT: &str = "verdict";

/// An abort that a handler requests.
pub(crate) struct AbortRequest<'a> {
    pub(crate) delta: &'a StreamDelta,
    pub(crate) entry: EntryIndex,
    pub(crate) path: &'a str,
    pub(crate) latency_us: u64,
    pub(crate) retry: Option<&'a Injection>,
}

/// Decides whether an abort takes effect, and records the decision. The error is a message for the user.
pub(crate) fn verdict(services: &Services, caller: &Caller, abort: &AbortRequest<'_>) -> Result<(), String> {
    let decision = services.dispatcher.gate().holds(caller, VERDICT);
    let AbortRequest { delta, entry, path, latency_us, retry } = abort;
    let mut data = members(json!({
        "path": path,
        "entry": entry.0,
        "source": delta.source.as_str(),
        "attempt": delta.attempt,
        "stream": delta.stream,
        "latency_us": latency_us,
        "verdict": if retry.is_some() { "retry" } else { "end" },
        "allowed": decision.allowed,
    }));
    if let Some(retry) = retry {
        data.insert("injected_bytes".to_owned(), retry.content.len().into());
    }
    if let Some(reason) = decision.reason {
        data.insert("reason".to_owned(), reason.as_str().into());
    }
    services.dispatcher.ledger().stream_verdict(services.timer.now(), caller, data);
    if decision.allowed {
        return Ok(());
    }
    let reason = decision.reason.map_or("denied", pijs_hostcall::Reason::as_str);
    Err(format!("the capability \"{VERDICT}\" is not granted ({reason})"))
}

/// Returns whether an extension has one of the capabilities that affect the model; a refusal is recorded.
pub(crate) fn may(services: &Services, caller: &Caller, capability: &'static str) -> bool {
    let decision = services.dispatcher.gate().holds(caller, capability);
    if !guard!(RegistrationCapability) {
        return true;
    }
    if !decision.allowed {
        let reason = decision.reason.map_or("denied", pijs_hostcall::Reason::as_str);
        let data = json!({ "capability": capability, "reason": reason });
        event(services, caller, Level::Warn, "event_hook.denied", "the answer of a handler is ignored", data);
    }
    decision.allowed
}

/// Checks whether a registration takes effect; a refusal is recorded and returned as a message.
pub(crate) fn registration(services: &Services, caller: &Caller, registration: &Registration) -> Result<(), String> {
    let (kind, name, problem) = match registration {
        Registration::Tool(spec) => ("tool", spec.name.as_str(), tool(services, caller, spec)),
        Registration::Provider { name, .. } => {
            let refused = !may(services, caller, "provider");
            let refused = refused.then(|| "the capability \"provider\" is not granted".to_owned());
            ("provider", name.as_str(), refused.or_else(|| oversized(registration)))
        }
        Registration::McpServer { name, .. } => ("mcp server", name.as_str(), oversized(registration)),
        Registration::Command(spec) => ("command", spec.name.as_str(), oversized(registration)),
        Registration::Flag(spec) => ("flag", spec.name.as_str(), flag(spec).or_else(|| oversized(registration))),
        _ => ("registration", "", oversized(registration)),
    };
    let Some(problem) = problem.filter(|_| guard!(RegistrationValid)) else { return Ok(()) };
    let name = shown(name, LONGEST_TOOL_NAME);
    let data = json!({ "kind": kind, "name": name, "code": "invalid_request", "problem": problem });
    event(services, caller, Level::Warn, "extension.register.refused", "a registration is ignored", data);
    Err(format!("the {kind} {name:?} is not registered: {problem}"))
}

/// Maximum size of a tool definition as JSON, in bytes; far above any that is useful to a model.
const LARGEST_DEFINITION: usize = 256 << 10;

/// Returns the reason to refuse a registration that is too large to copy to every realm.
fn oversized(registration: &Registration) -> Option<String> {
    (!is_within(registration, REGISTRATION_BYTES)).then(|| format!("it has more than {REGISTRATION_BYTES} bytes"))
}

/// Maximum size of a flag's default as JSON, in bytes; far above what a user would type. Every realm has a copy.
const LONGEST_DEFAULT: usize = 64 << 10;

/// Returns the reason to refuse a flag, if there is one.
fn flag(spec: &FlagSpec) -> Option<String> {
    let fits = spec.default.as_ref().is_none_or(|default| is_within(default, LONGEST_DEFAULT));
    (!fits).then(|| format!("its default has more than {LONGEST_DEFAULT} bytes"))
}

/// Returns the reason to refuse a tool, if there is one.
fn tool(services: &Services, caller: &Caller, spec: &ToolSpec) -> Option<String> {
    let name = spec.name.as_str();
    if let Some(problem) = tool_name_problem(name) {
        return Some(problem);
    }
    let size = serde_json::to_vec(spec).map_or(usize::MAX, |bytes| bytes.len());
    if size > LARGEST_DEFINITION {
        return Some(format!("its definition has {size} bytes, more than {LARGEST_DEFINITION}"));
    }
    let taken = BUILT_IN_TOOLS.iter().any(|built_in| built_in.eq_ignore_ascii_case(name));
    (taken && !may(services, caller, "tool.shadow")).then(|| {
        format!(
            "{name} is a tool of pi's own; taking its place needs the capability \"tool.shadow\" (pi ext grants allow)"
        )
    })
}

/// Records the user's answer about a changed description of a tool.
pub(crate) fn redefined(services: &Services, caller: &Caller, tool: &str, agreed: bool) {
    let data = json!({ "tool": shown(tool, LONGEST_TOOL_NAME), "agreed": agreed });
    let level = if agreed { Level::Info } else { Level::Warn };
    event(services, caller, level, "tool.redefined", "the description of a tool changed", data);
}

/// Records a call of one of pi's tools that an extension's message led to.
pub(crate) fn tainted(services: &Services, caller: &Caller, tool: &str, decision: &Decision, passes: bool) {
    let level = if decision.allowed { Level::Debug } else { Level::Warn };
    let reason = decision.reason.map(pijs_hostcall::Reason::as_str);
    let data = json!({
        "tool": shown(tool, LONGEST_TOOL_NAME), "capability": decision.capability, "allowed": passes, "reason": reason,
    });
    event(services, caller, level, "tool.tainted", "the model calls a tool after a message of the extension", data);
}

/// Records a request to a model at an address that the extension chose.
pub(crate) fn reached(services: &Services, caller: &Caller, decision: &Decision) {
    let level = if decision.allowed { Level::Debug } else { Level::Warn };
    let reason = decision.reason.map(pijs_hostcall::Reason::as_str);
    let data = json!({ "capability": decision.capability, "allowed": decision.allowed, "reason": reason });
    event(
        services,
        caller,
        level,
        "model.reached",
        "the extension sends a request to a model on a server of its own choice",
        data,
    );
}

/// Records the load of an entry, or its failure.
pub(crate) fn loaded(services: &Services, caller: &Caller, path: &str, error: Option<&ErrorReport>) {
    match error {
        None => event(services, caller, Level::Info, "extension.ready", "entry loaded", json!({ "path": path })),
        Some(error) => {
            let data = json!({ "path": path, "error": error.message });
            event(services, caller, Level::Error, "extension.error", "entry failed to load", data);
        }
    }
}

/// Records a registration whose kind matters to readers of the ledger.
pub(crate) fn registered(services: &Services, caller: &Caller, kind: &str, name: &str) {
    let data = json!({ "kind": kind, "name": name });
    event(services, caller, Level::Debug, "extension.register", "registered", data);
}

/// Records an error of a handler, tool or command.
pub(crate) fn threw(services: &Services, caller: &Caller, error: &ErrorReport) {
    let data = json!({ "phase": error.phase, "error": error.message });
    event(services, caller, Level::Error, "event_hook.error", "an extension threw", data);
}

/// Records the number of dropped reports.
pub(crate) fn left_out(services: &Services, caller: &Caller, errors: u64, lines: u64) {
    let data = json!({ "errors": errors, "lines": lines });
    event(services, caller, Level::Warn, "extension.left_out", "reports past the budget of a turn", data);
}

/// Records the end of a realm.
pub(crate) fn ended(services: &Services, caller: &Caller, reason: &Termination) {
    let error = reason.error();
    let data = json!({ "reason": reason.to_string(), "error": { "code": error.code, "details": error.details } });
    event(services, caller, Level::Error, "realm.terminated", "realm discarded", data);
}

fn event(services: &Services, caller: &Caller, level: Level, name: &str, message: &str, data: Value) {
    services.dispatcher.ledger().event(services.timer.now(), caller, level, name, message, members(data));
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
