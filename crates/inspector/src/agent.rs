//! Reads the agent's records of a tape: requests to the model, tool calls, and actions of the user become rows of a separate
//! lane.
//!
//! Records of the agent have no time. A row gets the last clock reading of the agent or of a realm, whichever is later.

use crate::report::Row;
use crate::stream::Chunk;
use pijs_protocol::Now;
use pijs_tape::AgentRecord;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of characters of a reply or a result in a row.
const SHOWN: usize = 4_000;

/// Prefixes of actions that are not the user's: actions of the agent, and of extensions, which the lanes of their realms show.
const NOT_OF_USER: [&str; 2] = ["session ", "slept"];

/// Collects the rows of the agent.
#[derive(Default)]
pub(crate) struct AgentRows {
    pub(crate) rows: Vec<Row>,
    /// The replies, as received from the provider.
    pub(crate) chunks: Vec<Chunk>,
    /// Requests without an answer, by id: index of the row, and the pieces so far.
    open: BTreeMap<u64, Open>,
    now: Now,
    at: u64,
    requests: u32,
}

struct Open {
    row: usize,
    request: Option<u32>,
    text: String,
    tools: BTreeMap<u64, String>,
}

impl AgentRows {
    /// Records the time of a realm.
    pub(crate) fn tick(&mut self, now: Now) {
        self.now = now;
        self.at = self.at.max(now.elapsed_us);
    }

    /// Reads a record that follows the start of tick `tick` on the tape.
    pub(crate) fn take(&mut self, record: &AgentRecord, tick: u64) {
        match record {
            AgentRecord::Clock { epoch_ms } => {
                let since_ms = epoch_ms.saturating_sub(self.now.epoch_ms);
                let is_known = self.now.epoch_ms > 0;
                self.at = self.at.max(self.now.elapsed_us + if is_known { since_ms * 1000 } else { 0 });
            }
            AgentRecord::Act { act, value } if !NOT_OF_USER.iter().any(|own| act.starts_with(own)) => {
                let content = value.get("content").unwrap_or(value);
                self.begin("act", act.clone(), tick, json!({ "input": content }));
            }
            AgentRecord::Ask { id, port, value } if port == "request" => {
                self.discard();
                self.requests += 1;
                let model = value["model"].as_str().unwrap_or("the model");
                let row = self.begin("model", format!("model {model}"), tick, json!({"provider": value["provider"]}));
                self.open.insert(*id, Open::of(row, Some(self.requests)));
            }
            AgentRecord::Ask { id, port, value } if port == "tool" => {
                let name = value["name"].as_str().unwrap_or_default();
                let row = self.begin("tool", format!("tool {name}"), tick, json!({"input": value["input"]}));
                self.open.insert(*id, Open::of(row, None));
            }
            AgentRecord::Part { id, value } => self.part(*id, value, tick),
            AgentRecord::Answer { id, value } => self.answer(*id, value),
            _ => {}
        }
    }

    /// Closes the rows that are still open at the end of the tape, and returns the collector.
    pub(crate) fn finish(mut self) -> Self {
        self.discard();
        self
    }

    fn begin(&mut self, kind: &'static str, name: String, tick: u64, more: Value) -> usize {
        let more = match more {
            Value::Object(more) => more.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        let at = self.at;
        let row = Row { kind, name, from: at, to: at, tick, more, ..Row::default() };
        self.rows.push(row);
        self.rows.len() - 1
    }

    fn part(&mut self, id: u64, value: &Value, tick: u64) {
        let at = self.at;
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some(attempt) = open.request else { return };
        let row = &mut self.rows[open.row];
        if let Some(error) = value.get("Err") {
            row.failed = true;
            row.more.insert("error".to_owned(), error.clone());
        }
        let Some(event) = value.get("Ok") else { return };
        let event = event.get("Untold").unwrap_or(event);
        let mut say = |source, stream, tool: Option<String>, text: &str| {
            let text = text.to_owned();
            self.chunks.push(Chunk { at, tick, attempt, source, stream, tool, text });
        };
        if let Some(text) = event.get("Text").and_then(Value::as_str) {
            open.text.push_str(text);
            say("text", 0, None, text);
        } else if let Some(text) = event.get("Thinking").and_then(Value::as_str) {
            say("thinking", 0, None, text);
        } else if let Some(call) = event.get("ToolCall") {
            let index = call["index"].as_u64().unwrap_or_default();
            if let Some(name) = call["name"].as_str() {
                open.tools.insert(index, name.to_owned());
            }
            let stream = u32::try_from(index).unwrap_or(u32::MAX);
            say("tool", stream, open.tools.get(&index).cloned(), call["arguments"].as_str().unwrap_or_default());
        } else if let Some(stop) = event.get("Done") {
            row.more.insert("stop".to_owned(), stop.clone());
        }
    }

    fn answer(&mut self, id: u64, value: &Value) {
        let Some(open) = self.open.remove(&id) else { return };
        let at = self.at;
        let row = &mut self.rows[open.row];
        row.to = at;
        if open.request.is_some() {
            open.finish(&mut row.more);
            return;
        }
        row.failed = value.get("error").is_some() || value.get("Failed").is_some() || value["isError"] == true;
        row.more.insert("result".to_owned(), short(value));
    }

    /// Closes requests whose reply was not read to its end because a verdict or an abort dropped it.
    fn discard(&mut self) {
        let requests = self.open.extract_if(.., |_, open| open.request.is_some()).map(|(_, open)| open);
        for open in requests.collect::<Vec<_>>() {
            let row = &mut self.rows[open.row];
            row.to = self.at;
            // The stream ends after its last event; only the record of its end may be missing.
            if !row.more.contains_key("stop") {
                row.more.insert("discarded".to_owned(), true.into());
            }
            open.finish(&mut row.more);
        }
    }
}

impl Open {
    fn of(row: usize, request: Option<u32>) -> Self {
        Self { row, request, text: String::new(), tools: BTreeMap::new() }
    }

    fn finish(self, more: &mut Map<String, Value>) {
        if !self.text.is_empty() {
            more.insert("said".to_owned(), short(&Value::from(self.text)));
        }
        if !self.tools.is_empty() {
            more.insert("calls".to_owned(), self.tools.into_values().collect());
        }
    }
}

/// Returns a value without the members that a row does not show.
fn short(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{} ... ({} bytes)", &text[..end], text.len()).into(),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(short).collect(),
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), short(value)))
            .collect(),
        value => value.clone(),
    }
}
