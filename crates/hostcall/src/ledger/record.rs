//! Records, from which the lines of a ledger are made.

use super::params_hash::ParamsHash;
use super::resume::OpenCall;
use crate::caller::{Caller, Profile};
use crate::decision::Decision;
use pijs_protocol::log::Level;
use pijs_protocol::{CallId, ErrorCode, ExtensionId, Method, Now};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The source of one or two lines.
pub(super) struct LedgerRecord {
    pub(super) now: Now,
    pub(super) profile: Arc<Profile>,
    pub(super) tool_call_id: Option<Arc<str>>,
    pub(super) event_id: Option<Arc<str>>,
    pub(super) body: RecordBody,
}

impl LedgerRecord {
    /// Estimates the size of the record's text in bytes.
    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            RecordBody::Start { start, decided } => {
                let subject = decided.as_ref().and_then(|decided| decided.subject.as_ref());
                [subject, start.claimed.as_ref()].into_iter().flatten().map(String::len).sum()
            }
            RecordBody::End(_) | RecordBody::Lost(_) => 0,
            RecordBody::Event(event) => event.message.len() + event.data.values().map(bytes_of).sum::<usize>(),
        }
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + bytes_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

pub(super) enum RecordBody {
    /// Start of a call: one line, or two with a decision.
    Start {
        start: CallStart,
        decided: Option<DecisionRecord>,
    },
    End(CallEnd),
    /// The end of a call whose host was killed.
    Lost(Box<OpenCall>),
    Event(Box<EventBody>),
}

/// The decision about a call, and its time.
pub(super) struct DecisionRecord {
    pub(super) at: Now,
    pub(super) subject: Option<String>,
    pub(super) decision: Decision,
}

pub(super) struct EventBody {
    pub(super) level: Level,
    pub(super) event: String,
    pub(super) message: String,
    pub(super) data: Map<String, Value>,
    pub(super) from_extension: bool,
}

/// Members that the first and the last line of a call share; cloning allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct CallFacts {
    pub(crate) call_id: CallId,
    /// Method of the call; `unknown` if it has no connector, so that an extension cannot write arbitrary text here.
    pub(crate) method: Method,
    /// The derived capability; `unknown` if the call is malformed.
    pub(crate) capability: &'static str,
    /// Hash of the parameters; `None` if they are too large.
    pub(crate) params_hash: Option<ParamsHash>,
}

/// The start of a call.
pub(crate) struct CallStart {
    pub(crate) call: CallFacts,
    pub(crate) claimed: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
}

/// The end of a call.
pub(crate) struct CallEnd {
    pub(crate) call: CallFacts,
    pub(crate) duration_us: u64,
    pub(crate) error: Option<(ErrorCode, Option<Arc<str>>)>,
}

pub(super) fn record(now: Now, caller: &Caller, body: RecordBody) -> LedgerRecord {
    LedgerRecord {
        now,
        profile: Arc::clone(&caller.profile),
        tool_call_id: caller.tool_call_id.clone(),
        event_id: caller.event_id.clone(),
        body,
    }
}

/// Creates a record of the ledger about itself.
pub(super) fn ledger_event<const N: usize>(
    now: Now,
    event: &str,
    message: &str,
    data: [(String, Value); N],
) -> LedgerRecord {
    let profile = Arc::new(Profile::new(ExtensionId::new("host")));
    host_event(now, profile, Level::Error, event, message, Map::from_iter(data))
}

pub(super) fn host_event(
    now: Now,
    profile: Arc<Profile>,
    level: Level,
    event: &str,
    message: &str,
    data: Map<String, Value>,
) -> LedgerRecord {
    let (event, message) = (event.to_owned(), message.to_owned());
    let body = RecordBody::Event(Box::new(EventBody { level, event, message, data, from_extension: false }));
    LedgerRecord { now, profile, tool_call_id: None, event_id: None, body }
}
