//! Turns a record into a line and links it to the chain.
//!
//! Written by hand rather than through a JSON value: a call makes three lines, and their members
//! are known. What an extension supplied is escaped as JSON strings and redacted.

use super::canonical::string;
use super::redact::Redactor;
use super::{Body, CallFacts, ChainHead, LONGEST_LINE, Record};
use pijs_protocol::Now;
use pijs_protocol::log::{LOG_SCHEMA, Level};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::Write;

pub(super) struct LineWriter<'a> {
    pub(super) scenario_id: &'a str,
    pub(super) session_id: &'a str,
    pub(super) redactor: &'a Redactor,
}

impl LineWriter<'_> {
    /// Appends the line of `record` to `out` and moves the chain on.
    pub(super) fn write(&mut self, record: &Record, head: &mut ChainHead, out: &mut Vec<u8>) {
        let start = out.len();
        let (level, event, message) = words(record);
        raw(out, "{\"schema\":\"");
        raw(out, LOG_SCHEMA);
        raw(out, "\",\"ts\":\"");
        timestamp(record.now, out);
        raw(out, "\",\"level\":\"");
        raw(out, level_name(level));
        raw(out, "\",\"event\":");
        // Words of the host need no looking at.
        if matches!(record.body, Body::Event(_)) {
            string(&self.redactor.text(event), out);
            raw(out, ",\"message\":");
            string(&self.redactor.text(message), out);
        } else {
            string(event, out);
            raw(out, ",\"message\":");
            string(message, out);
        }
        self.correlation(record, out);
        let component = match &record.body {
            Body::Event(event) if event.from_extension => "extension",
            _ => "runtime",
        };
        raw(out, ",\"source\":{\"component\":\"");
        raw(out, component);
        raw(out, "\"},\"data\":{");
        let data = out.len();
        self.data(record, out);
        if out.len() - start > LONGEST_LINE {
            let size = out.len() - data;
            out.truncate(data);
            number(out, "\"omitted_bytes\":", size as u64);
            out.push(b',');
        }
        number(out, "\"elapsed_us\":", record.now.elapsed_us);
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

    fn correlation(&self, record: &Record, out: &mut Vec<u8>) {
        raw(out, ",\"correlation\":{\"extension_id\":");
        string(record.profile.extension.as_str(), out);
        raw(out, ",\"scenario_id\":");
        string(self.scenario_id, out);
        let mut id = |key: &str, value: Option<&str>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                raw(out, key);
                string(value, out);
            }
        };
        id(",\"session_id\":", Some(self.session_id));
        id(",\"artifact_id\":", record.profile.artifact_id.as_deref());
        id(",\"tool_call_id\":", record.tool_call_id.as_deref());
        id(",\"event_id\":", record.event_id.as_deref());
        id(",\"host_call_id\":", record.call_id.as_deref());
        out.push(b'}');
    }

    /// The members of `data` before the common ones, each with a comma after it.
    fn data(&self, record: &Record, out: &mut Vec<u8>) {
        match &record.body {
            Body::Decision { method, subject, decision } => {
                member(out, "\"capability\":", decision.capability);
                member(out, "\"method\":", method);
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
                raw(out, "\"expected_loss\":");
                // Finite by construction: probabilities are clamped.
                let loss = &decision.loss;
                let _ = write!(out, "{{\"p\":{},\"grant\":{},\"deny\":{}}},", loss.p, loss.grant, loss.deny);
            }
            Body::Start { call, claimed, timeout_ms } => {
                call_facts(call, out);
                if let Some(claimed) = claimed {
                    member(out, "\"claimed\":", &self.redactor.text(claimed));
                }
                if let Some(timeout_ms) = timeout_ms {
                    number(out, "\"timeout_ms\":", *timeout_ms);
                    out.push(b',');
                }
            }
            Body::End { call, duration_us, error } => {
                call_facts(call, out);
                let _ = write!(out, "\"duration_ms\":{}.{:03},", duration_us / 1000, duration_us % 1000);
                match error {
                    None => raw(out, "\"is_error\":false,"),
                    Some((code, reason)) => {
                        raw(out, "\"is_error\":true,\"error\":{\"code\":\"");
                        raw(out, code.as_str());
                        raw(out, "\"");
                        if let Some(reason) = reason {
                            raw(out, ",\"reason\":");
                            string(reason, out);
                        }
                        raw(out, "},");
                    }
                }
            }
            Body::Lost(call) => {
                member(out, "\"capability\":", &call.capability);
                member(out, "\"method\":", &call.method);
                match &call.params_hash {
                    Some(hash) => member(out, "\"params_hash\":", hash),
                    None => raw(out, "\"params_hash\":null,"),
                }
                if call.params_hash_keyed {
                    raw(out, "\"params_hash_keyed\":true,");
                }
                // How long it ran nobody knows.
                raw(
                    out,
                    "\"duration_ms\":null,\"is_error\":true,\"error\":{\"code\":\"internal\",\"reason\":\"host_crash\"},",
                );
            }
            Body::Event(event) => {
                let data = self.redactor.members(&event.data);
                if event.from_extension {
                    // One value under one key: an extension cannot write over the host's members.
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

/// What document 004 wants of every line about a call.
fn call_facts(call: &CallFacts, out: &mut Vec<u8>) {
    member(out, "\"capability\":", call.capability);
    member(out, "\"method\":", &call.method);
    match &call.params_hash {
        Some(hash) => {
            raw(out, "\"params_hash\":\"");
            hex(out, &hash.digest);
            raw(out, if hash.keyed { "\",\"params_hash_keyed\":true," } else { "\"," });
        }
        None => raw(out, "\"params_hash\":null,"),
    }
}

fn words(record: &Record) -> (Level, &str, &str) {
    match &record.body {
        Body::Decision { decision, .. } if decision.allowed && decision.rule == crate::gate::Rule::Permissive => {
            (Level::Warn, "policy.decision", "allowed by permissive mode")
        }
        Body::Decision { decision, .. } if decision.allowed => (Level::Info, "policy.decision", "allowed"),
        Body::Decision { .. } => (Level::Warn, "policy.decision", "denied"),
        Body::Start { .. } => (Level::Info, "host_call.start", "call dispatched"),
        Body::End { error: None, .. } => (Level::Info, "host_call.end", "call ended"),
        Body::End { error: Some((code, _)), .. } => (
            if *code == pijs_protocol::ErrorCode::Internal { Level::Error } else { Level::Warn },
            "host_call.end",
            "call failed",
        ),
        Body::Lost(_) => (Level::Error, "host_call.end", "the host ended before the call did"),
        Body::Event(event) => (event.level, &event.event, &event.message),
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

/// RFC 3339 with milliseconds and `Z`.
fn timestamp(now: Now, out: &mut Vec<u8>) {
    let nanos = i128::from(now.epoch_ms) * 1_000_000;
    // A clock beyond the year 9999 is written as the last moment before.
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

fn member(out: &mut Vec<u8>, key: &str, value: &str) {
    raw(out, key);
    string(value, out);
    out.push(b',');
}

fn number(out: &mut Vec<u8>, key: &str, value: u64) {
    raw(out, key);
    let _ = write!(out, "{value}");
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

// `Map` and `Value` serialise without failing; the two are what `json` is called with.
const _: fn(&Map<String, Value>, &mut Vec<u8>) = json;
