//! Counts the records of a tape.

use crate::agent_record::AgentRecord;
use crate::error::TapeError;
use crate::reader::TapeReader;
use crate::record::{Event, RealmNumber};
use pijs_protocol::wire::Task;
use pijs_protocol::{ExtensionId, Message};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// Counts of a tape's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Realms in the order in which they were opened.
    pub realms: Vec<RealmSummary>,
    /// Number of turns, over all realms.
    pub ticks: u64,
    /// Number of records, including the header.
    pub records: u64,
    /// Microseconds from the first turn to the last record.
    pub duration_us: u64,
    /// Numbers of records by kind; deliveries and calls are counted by message type and method.
    pub kinds: Vec<KindCount>,
    /// Whether the recording ended by itself.
    pub complete: bool,
}

/// One realm of a tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RealmSummary {
    /// Number of the realm on the tape.
    pub realm: RealmNumber,
    /// The extension of the realm.
    pub extension: ExtensionId,
    /// Name of the extension's package.
    pub package: String,
    /// Number of the realm's turns.
    pub ticks: u64,
    /// Reason why the realm ended; `None` if it did not.
    pub ended: Option<String>,
    /// Digest of all turns of the realm.
    pub digest: String,
}

impl RealmSummary {
    /// Returns whether a name is the extension's id or the name of its package.
    pub fn is_called(&self, name: &str) -> bool {
        self.extension.as_str() == name || self.package == name
    }
}

/// Number of a tape's records of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KindCount {
    /// `yield`, `delivery host_result`, `call fs`, ...
    pub kind: String,
    /// Number of records of this kind.
    pub records: u64,
}

impl Summary {
    /// Reads a tape to its end. A tape that was cut off is counted as far as it is valid.
    ///
    /// # Errors
    ///
    /// Fails if the tape is damaged in any other way.
    pub fn of(tape: &mut TapeReader<impl Read>) -> Result<Self, TapeError> {
        let mut realms: BTreeMap<RealmNumber, RealmSummary> = BTreeMap::new();
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        let (mut ticks, mut first_us, mut last_us) = (0, None, 0);
        kinds.insert("header".to_owned(), 1);
        loop {
            let record = match tape.next() {
                None => break,
                Some(Err(error)) if error.is_cut() => break,
                Some(record) => record?,
            };
            *kinds.entry(name(&record.event)).or_default() += 1;
            let now = match &record.event {
                Event::Open(opening) => {
                    let extension = opening.extension().clone();
                    let (realm, digest) = (record.realm, String::new());
                    let package = opening.package().to_owned();
                    realms.insert(realm, RealmSummary { realm, extension, package, ticks: 0, ended: None, digest });
                    Some(opening.now)
                }
                Event::Delivery(delivery) => Some(delivery.now),
                Event::Reply(reply) => Some(reply.now),
                _ => None,
            };
            if let Some(now) = now {
                first_us.get_or_insert(now.elapsed_us);
                last_us = last_us.max(now.elapsed_us);
            }
            let Some(realm) = realms.get_mut(&record.realm) else { continue };
            if record.event.begins_tick() {
                ticks += 1;
                realm.ticks += 1;
            }
            let Some(digest) = record.digest else { continue };
            realm.digest = digest;
            if let Event::Termination(reason) = &record.event {
                realm.ended = Some(reason.to_string());
            }
        }
        Ok(Self {
            realms: realms.into_values().collect(),
            ticks,
            records: tape.number(),
            duration_us: last_us.saturating_sub(first_us.unwrap_or_default()),
            kinds: kinds.into_iter().map(|(kind, records)| KindCount { kind, records }).collect(),
            complete: tape.is_complete(),
        })
    }
}

/// Returns the kind of a record, with its message type or method.
fn name(event: &Event) -> String {
    let about = match event {
        Event::Delivery(delivery) => match &delivery.task {
            Task::Message(message) => type_of(message),
            Task::Stream(_) => "stream".to_owned(),
        },
        Event::Call(call) => call.method.to_string(),
        Event::Agent(record) => match record.as_ref() {
            AgentRecord::Part { .. } => "part".to_owned(),
            AgentRecord::Answer { .. } => "answer".to_owned(),
            AgentRecord::Fact { .. } => "fact".to_owned(),
            record => record.name(),
        },
        _ => return event.kind().to_owned(),
    };
    format!("{} {about}", event.kind())
}

/// Returns the type of a message as written in JSON.
fn type_of(message: &Message) -> String {
    let written = serde_json::to_value(message).unwrap_or_default();
    written.get("type").and_then(Value::as_str).unwrap_or_default().to_owned()
}
