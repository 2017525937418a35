//! What the host itself asks the gate and writes to the ledger: verdicts and lifecycle.
//!
//! Hostcalls write their own lines in the dispatcher; these are the events that are no hostcalls.

use crate::host::Core;
use pijs_hostcall::Caller;
use pijs_protocol::log::Level;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::stream::Injection;
use pijs_protocol::{EntryIndex, StreamDelta, Termination};
use serde_json::{Map, Value, json};

/// The capability that an abort needs.
const VERDICT: &str = "verdict";

/// An abort that a handler asks for.
pub(crate) struct Abort<'a> {
    pub(crate) delta: &'a StreamDelta,
    pub(crate) entry: EntryIndex,
    pub(crate) path: &'a str,
    pub(crate) latency_us: u64,
    pub(crate) retry: Option<&'a Injection>,
}

/// Decides whether an abort counts, and records it either way. The error is for people.
pub(crate) fn verdict(core: &Core, caller: &Caller, abort: &Abort<'_>) -> Result<(), String> {
    let decision = core.dispatcher.gate().holds(caller, VERDICT);
    let Abort { delta, entry, path, latency_us, retry } = abort;
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
    core.dispatcher.ledger().stream_verdict(core.timer.now(), caller, data);
    if decision.allowed {
        return Ok(());
    }
    let reason = decision.reason.map_or("denied", pijs_hostcall::Reason::as_str);
    Err(format!("the capability \"{VERDICT}\" is not granted ({reason})"))
}

/// Whether an extension holds a model-facing capability; a refusal is recorded.
pub(crate) fn may(core: &Core, caller: &Caller, capability: &'static str) -> bool {
    let decision = core.dispatcher.gate().holds(caller, capability);
    if !decision.allowed {
        let reason = decision.reason.map_or("denied", pijs_hostcall::Reason::as_str);
        let data = json!({ "capability": capability, "reason": reason });
        event(core, caller, Level::Warn, "event_hook.denied", "an answer does not count", data);
    }
    decision.allowed
}

/// An entry has been loaded, or has failed to.
pub(crate) fn loaded(core: &Core, caller: &Caller, path: &str, error: Option<&ErrorReport>) {
    match error {
        None => event(core, caller, Level::Info, "extension.ready", "entry loaded", json!({ "path": path })),
        Some(error) => {
            let data = json!({ "path": path, "error": error.message });
            event(core, caller, Level::Error, "extension.error", "entry failed to load", data);
        }
    }
}

/// Something was registered; only the kinds and names a reader of the ledger wants to see.
pub(crate) fn registered(core: &Core, caller: &Caller, kind: &str, name: &str) {
    let data = json!({ "kind": kind, "name": name });
    event(core, caller, Level::Debug, "extension.register", "registered", data);
}

/// A handler, tool or command threw.
pub(crate) fn threw(core: &Core, caller: &Caller, error: &ErrorReport) {
    let data = json!({ "phase": error.phase, "error": error.message });
    event(core, caller, Level::Error, "event_hook.error", "an extension threw", data);
}

/// A realm was discarded.
pub(crate) fn ended(core: &Core, caller: &Caller, reason: &Termination) {
    let error = reason.error();
    let data = json!({ "reason": reason.to_string(), "error": { "code": error.code, "details": error.details } });
    event(core, caller, Level::Error, "realm.terminated", "realm discarded", data);
}

fn event(core: &Core, caller: &Caller, level: Level, name: &str, message: &str, data: Value) {
    core.dispatcher.ledger().event(core.timer.now(), caller, level, name, message, members(data));
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
