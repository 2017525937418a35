//! Formats a record as a line and links it to the chain.
//!
//! Writes JSON directly rather than through a JSON value: a call makes three lines with known members. Text of an extension is
//! escaped as JSON strings and redacted. Members that consecutive lines share are formatted once, because the writing thread is
//! the bottleneck for cheap calls.

use super::chain::{ChainHead, LONGEST_LINE};
use super::record::{CallEnd, CallFacts, CallStart, DecisionRecord, EventBody, LedgerRecord, RecordBody};
use super::resume::OpenCall;
use crate::caller::Profile;
use crate::decision::Rule;
use crate::risk::ExpectedLoss;
use pijs_protocol::ErrorCode;
use pijs_protocol::canonical::string;
use pijs_protocol::log::{LOG_SCHEMA, Level};
use pijs_redact::Redactor;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::sync::Arc;

pub(super) struct LineWriter<'a> {
    scenario_id: &'a str,
    session_id: &'a str,
    redactor: &'a Redactor,
    time: CachedPiece<u64>,
    correlation: CachedPiece<CorrelationKey>,
    loss: CachedPiece<ExpectedLoss>,
}

/// Cached piece of the latest line, and the input that it was made from.
struct CachedPiece<T> {
    of: Option<T>,
    text: Vec<u8>,
}

impl<T> Default for CachedPiece<T> {
    fn default() -> Self {
        Self { of: None, text: Vec::new() }
    }
}

impl<T> CachedPiece<T> {
    /// Appends the piece; calls `make` only if `of` differs from the cached input.
    fn append(
        &mut self,
        out: &mut Vec<u8>,
        is_of: impl FnOnce(&T) -> bool,
        of: impl FnOnce() -> T,
        make: impl FnOnce(&mut Vec<u8>),
    ) {
        if !self.of.as_ref().is_some_and(is_of) {
            self.text.clear();
            make(&mut self.text);
            self.of = Some(of());
        }
        out.extend_from_slice(&self.text);
    }
}

/// The content of one line.
enum LineContent<'a> {
    Decision(&'a DecisionRecord, &'a CallFacts),
    Start(&'a CallStart),
    End(&'a CallEnd),
    Lost(&'a OpenCall),
    Event(&'a EventBody),
}

impl LineContent<'_> {
    fn call_id(&self) -> Option<&str> {
        match self {
            Self::Decision(_, call) => Some(&call.call_id),
            Self::Start(start) => Some(&start.call.call_id),
            Self::End(end) => Some(&end.call.call_id),
            Self::Lost(call) => Some(&call.call_id),
            Self::Event(_) => None,
        }
    }
}

/// The members of a correlation except the call id.
struct CorrelationKey {
    profile: Arc<Profile>,
    tool_call_id: Option<Arc<str>>,
    event_id: Option<Arc<str>>,
}

impl CorrelationKey {
    fn of(record: &LedgerRecord) -> Self {
        let LedgerRecord { profile, tool_call_id, event_id, .. } = record;
        Self { profile: Arc::clone(profile), tool_call_id: tool_call_id.clone(), event_id: event_id.clone() }
    }

    fn is_of(&self, record: &LedgerRecord) -> bool {
        Arc::ptr_eq(&self.profile, &record.profile)
            && self.tool_call_id == record.tool_call_id
            && self.event_id == record.event_id
    }
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(scenario_id: &'a str, session_id: &'a str, redactor: &'a Redactor) -> Self {
        let (time, correlation, loss) = Default::default();
        Self { scenario_id, session_id, redactor, time, correlation, loss }
    }

    /// Appends the lines of `record` to `out` and advances the chain.
    pub(super) fn write(&mut self, record: &LedgerRecord, head: &mut ChainHead, out: &mut Vec<u8>) {
        match &record.body {
            RecordBody::Start { start, decided } => {
                if let Some(decided) = decided {
                    self.line(record, &LineContent::Decision(decided, &start.call), head, out);
                }
                self.line(record, &LineContent::Start(start), head, out);
            }
            RecordBody::End(end) => self.line(record, &LineContent::End(end), head, out),
            RecordBody::Lost(call) => self.line(record, &LineContent::Lost(call), head, out),
            RecordBody::Event(event) => self.line(record, &LineContent::Event(event), head, out),
        }
    }

    fn line(&mut self, record: &LedgerRecord, line: &LineContent<'_>, head: &mut ChainHead, out: &mut Vec<u8>) {
        let start = out.len();
        let (level, event, message) = words(line);
        let now = if let LineContent::Decision(decided, _) = line { decided.at } else { record.now };
        raw(out, "{\"schema\":\"");
        raw(out, LOG_SCHEMA);
        raw(out, "\",\"ts\":\"");
        let epoch_ms = now.epoch_ms;
        self.time.append(out, |made| *made == epoch_ms, || epoch_ms, |out| timestamp(epoch_ms, out));
        raw(out, "\",\"level\":\"");
        raw(out, level_name(level));
        raw(out, "\",\"event\":");
        // Text of the host needs no redaction.
        if matches!(line, LineContent::Event(_)) {
            string(&self.redactor.text(event), out);
            raw(out, ",\"message\":");
            string(&self.redactor.text(message), out);
        } else {
            quoted(out, event);
            raw(out, ",\"message\":");
            quoted(out, message);
        }
        self.correlation(record, line.call_id(), out);
        let component = match line {
            LineContent::Event(event) if event.from_extension => "extension",
            _ => "runtime",
        };
        raw(out, ",\"source\":{\"component\":\"");
        raw(out, component);
        raw(out, "\"},\"data\":{");
        let data = out.len();
        self.data(line, out);
        if out.len() - start > LONGEST_LINE {
            let size = out.len() - data;
            out.truncate(data);
            number(out, "\"omitted_bytes\":", size as u64);
            out.push(b',');
        }
        number(out, "\"elapsed_us\":", now.elapsed_us);
        number(out, ",\"chain\":{\"seq\":", head.next_seq);
        raw(out, ",\"prev\":\"");
        hex(out, &head.hash);
        raw(out, "\"");
        head.hash = Sha256::digest(&out[start..]).into();
        head.next_seq += 1;
        raw(out, ",\"hash\":\"");
        hex(out, &head.hash);
        raw(out, "\"}}}\n");
    }

    fn correlation(&mut self, record: &LedgerRecord, call_id: Option<&str>, out: &mut Vec<u8>) {
        let (scenario_id, session_id) = (self.scenario_id, self.session_id);
        let make = |out: &mut Vec<u8>| {
            raw(out, ",\"correlation\":{\"extension_id\":");
            string(record.profile.extension.as_str(), out);
            raw(out, ",\"scenario_id\":");
            string(scenario_id, out);
            id(out, ",\"session_id\":", Some(session_id));
            id(out, ",\"artifact_id\":", record.profile.artifact_id.as_deref());
            id(out, ",\"tool_call_id\":", record.tool_call_id.as_deref());
            id(out, ",\"event_id\":", record.event_id.as_deref());
        };
        self.correlation.append(out, |made| made.is_of(record), || CorrelationKey::of(record), make);
        id(out, ",\"host_call_id\":", call_id);
        out.push(b'}');
    }

    /// Appends those members of `data` that precede the common ones, each followed by a comma.
    fn data(&mut self, line: &LineContent<'_>, out: &mut Vec<u8>) {
        match line {
            LineContent::Decision(DecisionRecord { subject, decision, .. }, call) => {
                member(out, "\"capability\":", decision.capability);
                member(out, "\"method\":", &call.method);
                raw(out, if decision.allowed { "\"allowed\":true," } else { "\"allowed\":false," });
                member(out, "\"rule\":", decision.rule.as_str());
                if let Some(grant) = &decision.grant {
                    member(out, "\"grant\":", grant);
                }
                if let Some(reason) = decision.reason {
                    member(out, "\"reason\":", reason.as_str());
                }
                if let Some(subject) = subject {
                    member(out, "\"subject\":", &self.redactor.text(subject));
                }
                let loss = decision.loss;
                // Finite, because probabilities are clamped.
                let make = |out: &mut Vec<u8>| {
                    let ExpectedLoss { p, grant, deny } = loss;
                    let _ = write!(out, "\"expected_loss\":{{\"p\":{p},\"grant\":{grant},\"deny\":{deny}}},");
                };
                self.loss.append(out, |made| *made == loss, || loss, make);
            }
            LineContent::Start(CallStart { call, claimed, timeout_ms }) => {
                call_facts(call, out);
                if let Some(claimed) = claimed {
                    member(out, "\"claimed\":", &self.redactor.text(claimed));
                }
                if let Some(timeout_ms) = timeout_ms {
                    number(out, "\"timeout_ms\":", *timeout_ms);
                    out.push(b',');
                }
            }
            LineContent::End(CallEnd { call, duration_us, error }) => {
                call_facts(call, out);
                milliseconds(*duration_us, out);
                outcome(error.as_ref(), out);
            }
            LineContent::Lost(call) => {
                member(out, "\"capability\":", &call.capability);
                member(out, "\"method\":", &call.method);
                match &call.params_hash {
                    Some(hash) => member(out, "\"params_hash\":", hash),
                    None => raw(out, "\"params_hash\":null,"),
                }
                if call.params_hash_keyed {
                    raw(out, "\"params_hash_keyed\":true,");
                }
                // The duration is unknown.
                raw(
                    out,
                    "\"duration_ms\":null,\"is_error\":true,\"error\":{\"code\":\"internal\",\"reason\":\"host_crash\"},",
                );
            }
            LineContent::Event(event) => {
                let data = self.redactor.members(&event.data);
                if event.from_extension {
                    // A single member, so that an extension cannot overwrite the host's members.
                    raw(out, "\"extension\":");
                    json(&data, out);
                    out.push(b',');
                } else {
                    for (key, value) in data.iter().filter(|(key, _)| !matches!(key.as_str(), "chain" | "elapsed_us")) {
                        string(key, out);
                        out.push(b':');
                        json(value, out);
                        out.push(b',');
                    }
                }
            }
        }
    }
}

/// Appends the outcome of a call, with its error.
fn outcome(error: Option<&(ErrorCode, Option<Arc<str>>)>, out: &mut Vec<u8>) {
    let Some((code, reason)) = error else { return raw(out, "\"is_error\":false,") };
    raw(out, "\"is_error\":true,\"error\":{\"code\":\"");
    raw(out, code.as_str());
    raw(out, "\"");
    if let Some(reason) = reason {
        raw(out, ",\"reason\":");
        string(reason, out);
    }
    raw(out, "},");
}

/// Appends the member `duration_ms`, with thousandths.
fn milliseconds(duration_us: u64, out: &mut Vec<u8>) {
    number(out, "\"duration_ms\":", duration_us / 1000);
    let thousandths = duration_us % 1000;
    let zeros = match thousandths {
        0..10 => ".00",
        10..100 => ".0",
        _ => ".",
    };
    raw(out, zeros);
    number(out, "", thousandths);
    out.push(b',');
}

/// Appends the members that every line about a call has (`docs/spec/hostcalls.md`, Ledger).
fn call_facts(call: &CallFacts, out: &mut Vec<u8>) {
    member(out, "\"capability\":", call.capability);
    member(out, "\"method\":", &call.method);
    match &call.params_hash {
        Some(hash) => {
            raw(out, "\"params_hash\":\"");
            hex(out, hash.digest());
            raw(out, if hash.is_keyed() { "\",\"params_hash_keyed\":true," } else { "\"," });
        }
        None => raw(out, "\"params_hash\":null,"),
    }
}

fn words<'a>(line: &LineContent<'a>) -> (Level, &'a str, &'a str) {
    match line {
        LineContent::Decision(DecisionRecord { decision, .. }, _) => match (decision.allowed, decision.rule) {
            (true, Rule::Permissive) => (Level::Warn, "policy.decision", "allowed by permissive mode"),
            (true, _) => (Level::Info, "policy.decision", "allowed"),
            (false, _) => (Level::Warn, "policy.decision", "denied"),
        },
        LineContent::Start(_) => (Level::Info, "host_call.start", "call dispatched"),
        LineContent::End(CallEnd { error: None, .. }) => (Level::Info, "host_call.end", "call ended"),
        LineContent::End(CallEnd { error: Some((code, _)), .. }) => (
            if *code == pijs_protocol::ErrorCode::Internal { Level::Error } else { Level::Warn },
            "host_call.end",
            "call failed",
        ),
        LineContent::Lost(_) => (Level::Error, "host_call.end", "the host stopped before the call ended"),
        LineContent::Event(event) => (event.level, &event.event, &event.message),
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}

/// Appends RFC 3339 with milliseconds and `Z`.
fn timestamp(epoch_ms: u64, out: &mut Vec<u8>) {
    let nanos = i128::from(epoch_ms) * 1_000_000;
    // A clock beyond the year 9999 is clamped.
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .unwrap_or(time::macros::datetime!(9999-12-31 23:59:59.999 UTC));
    let _ = write!(
        out,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    );
}

fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a constant string of the host, without escaping.
fn quoted(out: &mut Vec<u8>, word: &str) {
    out.push(b'"');
    raw(out, word);
    out.push(b'"');
}

/// Appends a member of the correlation, unless it is `None`.
fn id(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        raw(out, key);
        string(value, out);
    }
}

fn member(out: &mut Vec<u8>, key: &str, value: &str) {
    raw(out, key);
    string(value, out);
    out.push(b',');
}

fn number(out: &mut Vec<u8>, key: &str, value: u64) {
    raw(out, key);
    json(&value, out);
}

fn json(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    if let Err(error) = serde_json::to_writer(&mut *out, value) {
        unreachable!("a JSON value serialises: {error}");
    }
}

fn hex(out: &mut Vec<u8>, bytes: &[u8; 32]) {
    let mut text = [0_u8; 64];
    if let Err(error) = hex::encode_to_slice(bytes, &mut text) {
        unreachable!("64 characters hold 32 bytes: {error}");
    }
    out.extend_from_slice(&text);
}

// `Map` and `Value`, the two argument types of `json`, serialize without failing.
const _: fn(&Map<String, Value>, &mut Vec<u8>) = json;
