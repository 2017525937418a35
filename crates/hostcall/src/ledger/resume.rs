//! Reads the ledger of an earlier run: the end of its chain, and its open calls.

use super::chain::ChainHead;
use super::verify::read_line;
use pijs_protocol::log::LogEntry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// State of a ledger that is continued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resumed {
    /// Chain position of the next line.
    pub head: ChainHead,
    /// Calls without an end, oldest first; empty after a clean shutdown.
    pub open: Vec<OpenCall>,
    /// Number of bytes of a torn line that were cut off.
    pub torn: u64,
}

/// A call with a start but without an end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCall {
    /// Extension of the call.
    pub extension_id: String,
    /// Id of the call.
    pub call_id: String,
    /// Artifact id from the first line of the call.
    pub artifact_id: Option<String>,
    /// Tool call id from the first line of the call.
    pub tool_call_id: Option<String>,
    /// Event id from the first line of the call.
    pub event_id: Option<String>,
    /// Capability from the first line of the call.
    pub capability: String,
    /// Method from the first line of the call.
    pub method: String,
    /// Hash of the parameters from the first line of the call.
    pub params_hash: Option<String>,
    /// Whether `params_hash` is keyed.
    pub params_hash_keyed: bool,
}

/// Matches starts and ends of calls in the lines of a ledger.
#[derive(Debug, Default)]
pub(super) struct OpenCallTracker {
    open: BTreeMap<(String, String), Vec<(u64, OpenCall)>>,
    count: u64,
}

impl OpenCallTracker {
    /// Processes a line; fails if the line ends a call that is not open.
    pub(super) fn take(&mut self, entry: &LogEntry) -> Result<(), String> {
        let starts = match entry.event.as_str() {
            "host_call.start" => true,
            "host_call.end" => false,
            _ => return Ok(()),
        };
        let ids = &entry.correlation;
        let Some(call_id) = &ids.host_call_id else {
            return Err(format!("{} has no call id", entry.event));
        };
        let key = (ids.extension_id.clone(), call_id.clone());
        if starts {
            let text = |name: &str| entry.data.get(name).and_then(Value::as_str).map(str::to_owned);
            let call = OpenCall {
                extension_id: ids.extension_id.clone(),
                call_id: call_id.clone(),
                artifact_id: ids.artifact_id.clone(),
                tool_call_id: ids.tool_call_id.clone(),
                event_id: ids.event_id.clone(),
                capability: text("capability").unwrap_or_default(),
                method: text("method").unwrap_or_default(),
                params_hash: text("params_hash"),
                params_hash_keyed: entry.data.get("params_hash_keyed") == Some(&Value::Bool(true)),
            };
            self.count += 1;
            self.open.entry(key).or_default().push((self.count, call));
            return Ok(());
        }
        let hash = entry.data.get("params_hash").and_then(Value::as_str);
        let Some(open) = self.open.get_mut(&key) else {
            return Err(format!("ends the call {call_id:?}, which is not open"));
        };
        // A second call under an open id is refused at once: until then both are open, and differ in their parameters.
        let at = open.iter().position(|(_, call)| call.params_hash.as_deref() == hash).unwrap_or(0);
        open.remove(at);
        if open.is_empty() {
            self.open.remove(&key);
        }
        Ok(())
    }

    /// Returns the open calls, oldest first.
    pub(super) fn open(self) -> Vec<OpenCall> {
        let mut open: Vec<_> = self.open.into_values().flatten().collect();
        open.sort_by_key(|(at, _)| *at);
        open.into_iter().map(|(_, call)| call).collect()
    }
}

/// Returns the open calls of a ledger that is read from its first line; ignores invalid lines, which
/// [`verify()`](super::verify()) reports.
pub(super) fn open_calls(readers: impl IntoIterator<Item = io::Result<impl BufRead>>) -> io::Result<Vec<OpenCall>> {
    let mut calls = OpenCallTracker::default();
    for reader in readers {
        let mut reader = reader?;
        let mut line = Vec::new();
        while read_line(&mut reader, &mut line)? > 0 {
            // Most lines are decisions and events; only lines about calls are parsed.
            let about_call = line.windows(11).take(256).any(|window| window == b"\"host_call.");
            if about_call && let Ok(entry) = serde_json::from_slice::<LogEntry>(&line) {
                let _ = calls.take(&entry);
            }
        }
    }
    Ok(calls.open())
}
