//! Tracing of hostcalls and of the events of the ledger.
//!
//! A call is one span, from its decision until its end, with an event for each decision about it. The ledger is always written;
//! spans exist for subscribers, and each costs one branch without a subscriber.

use crate::caller::Caller;
use crate::decision::Decision;
use pijs_protocol::log::Level;
use pijs_protocol::{CallId, ErrorCode, HostcallError, Method};
use serde_json::{Map, Value};
use tracing::{Span, field};

/// Opens the span of a call.
pub(crate) fn call(caller: &Caller, call_id: &CallId, method: &Method, capability: &str) -> Span {
    tracing::debug_span!(
        "host_call",
        extension_id = caller.extension().as_str(),
        host_call_id = call_id.as_str(),
        event_id = caller.event_id.as_deref(),
        tool_call_id = caller.tool_call_id.as_deref(),
        method = method.as_str(),
        capability,
        is_error = field::Empty,
        code = field::Empty,
    )
}

/// Records the outcome of a call in its span.
pub(crate) fn ended(span: &Span, error: Option<&HostcallError>) {
    if span.is_disabled() {
        return;
    }
    span.record("is_error", error.is_some());
    if let Some(code) = error.map(|error| ErrorCode::as_str(error.code)) {
        span.record("code", code);
    }
}

/// Emits the decision about a call.
pub(crate) fn decided(span: &Span, decision: &Decision) {
    tracing::debug!(
        parent: span,
        event = "policy.decision",
        capability = decision.capability,
        allowed = decision.allowed,
        rule = decision.rule.as_str(),
        reason = decision.reason.map(|reason| reason.as_str()),
        "{}",
        if decision.allowed { "allowed" } else { "denied" },
    );
}

/// Emits an event of the ledger: lifecycle, verdicts, and log lines of extensions.
pub(crate) fn event(caller: &Caller, level: Level, name: &str, message: &str, data: &Map<String, Value>) {
    macro_rules! emit {
        ($level:ident) => {
            tracing::event!(
                tracing::Level::$level,
                event = name,
                extension_id = caller.extension().as_str(),
                event_id = caller.event_id.as_deref(),
                tool_call_id = caller.tool_call_id.as_deref(),
                data = %Json(data),
                "{message}",
            )
        };
    }
    match level {
        Level::Debug => emit!(DEBUG),
        Level::Info => emit!(INFO),
        Level::Warn => emit!(WARN),
        Level::Error => emit!(ERROR),
    }
}

/// Serialises members when a subscriber formats them.
struct Json<'a>(&'a Map<String, Value>);

impl std::fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| std::fmt::Error)?)
    }
}
