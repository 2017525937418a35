//! Stores streamed output: one entry per channel, numbered like file descriptors.
//!
//! An accepted proposal becomes the log entry. Its channels `{base}_1` and `{base}_2` are streaming until the producer ends, and
//! then resolved, failed, or cancelled. Callers may pass the path of the log entry or the base.

use crate::entry::{Entry, State, Visibility};
use crate::error::StoreError;
use crate::store::{Set, Store};
use crate::text;
use serde_json::{Map, Value, json};

/// The way in which a producer of output ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The producer ended by itself.
    Completed {
        /// Exit code; 0 for success, and for producers other than processes.
        exit_code: i64,
    },
    /// The client stopped the producer.
    Aborted {
        /// Reason, if the client passed one.
        reason: Option<String>,
    },
    /// The server stopped the producer. The hook `stream.cancelled` notifies clients.
    Cancelled {
        /// Reason, if one was given.
        reason: Option<String>,
    },
}

impl Store {
    /// Creates the channels of an accepted command, and records them in its log entry. Returns their paths.
    pub fn open_channels(
        &mut self,
        run_id: i64,
        path: &str,
        command: &str,
        channels: &[u32],
        turn: Option<i64>,
        loop_id: Option<i64>,
    ) -> Result<Vec<String>, StoreError> {
        let (log, base) = ends(path);
        let mut paths = Vec::new();
        for channel in channels {
            let path = format!("{base}_{channel}");
            let attributes = json!({ "command": command, "summary": command, "channel": channel });
            let set = Set::new(run_id, &path).body("").state(State::Streaming).visibility(Visibility::Summarized);
            self.set(&Set { turn, loop_id, ..set.attributes(attributes) }, self.writer_of(&path))?;
            paths.push(path);
        }
        let body = format!("ran '{command}' (in progress). Output: {}", paths.join(", "));
        self.rewrite_log(run_id, &log, &body)?;
        Ok(paths)
    }

    /// Appends a chunk to a channel.
    ///
    /// Fails if the channel is not streaming.
    pub fn append_chunk(&mut self, run_id: i64, path: &str, channel: u32, chunk: &str) -> Result<(), StoreError> {
        let path = format!("{}_{channel}", ends(path).1);
        let state = self.entry(run_id, &path)?.map(|entry| entry.state);
        if state != Some(State::Streaming) {
            let what = state.map_or("it does not exist".to_owned(), |state| format!("it is {state}"));
            return Err(StoreError::invalid(format!("stream: channel {path} does not accept chunks, because {what}")));
        }
        self.set(&Set::new(run_id, &path).body(chunk).appending(), self.writer_of(&path))
    }

    /// Ends all streaming channels of a producer, and records the end in the log entry. Returns the number of ended channels.
    pub fn end_stream(
        &mut self,
        run_id: i64,
        path: &str,
        end: &End,
        duration: Option<&str>,
    ) -> Result<usize, StoreError> {
        let (log, base) = ends(path);
        let channels = self.channels(run_id, &base)?;
        let is_log = log.starts_with("log://") || self.options().profile.has_numeric_status;
        if channels.is_empty() || !is_log {
            return Err(StoreError::invalid(format!(
                "stream: {path} has no channels; name the log entry of a command"
            )));
        }
        let (state, outcome) = match end {
            End::Completed { exit_code: 0 } => (State::Resolved, None),
            End::Completed { exit_code } => (State::Failed, Some(format!("exit:{exit_code}"))),
            End::Aborted { reason } => (State::Cancelled, Some(reason.clone().unwrap_or_else(|| "aborted".to_owned()))),
            End::Cancelled { reason } => {
                (State::Cancelled, Some(reason.clone().unwrap_or_else(|| "cancelled".to_owned())))
            }
        };
        for channel in channels.iter().filter(|channel| channel.state == State::Streaming) {
            let set = Set { outcome: outcome.clone(), ..Set::new(run_id, &channel.path).state(state) };
            self.set(&set, self.writer_of(&channel.path))?;
        }
        let attributes = self.entry(run_id, &log)?.map(|entry| entry.attributes).unwrap_or_default();
        let attributes: Map<String, Value> = serde_json::from_str(&attributes).unwrap_or_default();
        let from = |attributes: &Map<String, Value>| {
            let text = |key: &str| attributes.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            text("command").or_else(|| text("summary")).map(str::to_owned)
        };
        let of_channel = || channels.first().and_then(|one| from(&serde_json::from_str(&one.attributes).ok()?));
        let command = from(&attributes).or_else(of_channel).unwrap_or_default();
        let sizes: Vec<String> = channels
            .iter()
            .map(|channel| match channel.tokens {
                0 => format!("{} (empty)", channel.path),
                tokens => format!("{} ({tokens} tokens)", channel.path),
            })
            .collect();
        let qualifiers = |words: &[Option<&str>]| {
            let words: Vec<&str> = words.iter().copied().flatten().collect();
            if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
        };
        let what = match end {
            End::Completed { exit_code } => format!("ran '{command}', exit={exit_code}{}", qualifiers(&[duration])),
            End::Aborted { reason } => format!("aborted '{command}'{}", qualifiers(&[reason.as_deref(), duration])),
            End::Cancelled { reason } => format!("cancelled '{command}'{}", qualifiers(&[reason.as_deref()])),
        };
        self.rewrite_log(run_id, &log, &format!("{what}. Output: {}", sizes.join(", ")))?;
        Ok(channels.len())
    }

    /// Returns the channels of a base, ordered by number.
    pub fn channels(&self, run_id: i64, base: &str) -> Result<Vec<Entry>, StoreError> {
        let prefix = format!("{}_", text::normalize_path(base));
        let mut found = self
            .entries_where("v.run_id = ?1 AND v.path >= ?2 AND v.path < ?3", (run_id, &prefix, format!("{prefix}:")))?;
        let number = |entry: &Entry| entry.path.strip_prefix(&prefix).and_then(|rest| rest.parse::<u32>().ok());
        found.retain(|entry| number(entry).is_some());
        found.sort_by_key(number);
        Ok(found)
    }

    fn rewrite_log(&mut self, run_id: i64, log: &str, body: &str) -> Result<(), StoreError> {
        let Some(entry) = self.entry(run_id, log)? else { return Ok(()) };
        let set = Set::new(run_id, log).body(body).state(State::Resolved).visibility(entry.visibility);
        self.set(&set, self.writer_of(log))
    }
}

/// Returns the path of the log entry and the base of its channels, given either of them.
fn ends(path: &str) -> (String, String) {
    let path = text::normalize_path(path);
    let log = text::data_base_to_log_path(&path).unwrap_or_else(|| path.clone());
    (log, text::log_path_to_data_base(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;
    use crate::store::tests::demo;

    fn started() -> (Store, i64) {
        let (mut store, run) = demo();
        let set = Set::new(run, "log://turn_1/sh/npm_test").body("").state(State::Resolved);
        store.set(&set.attributes(json!({"command": "npm test"})), Writer::Plugin).unwrap();
        let paths = store.open_channels(run, "log://turn_1/sh/npm_test", "npm test", &[1, 2], Some(1), None).unwrap();
        assert_eq!(paths, ["sh://turn_1/npm_test_1", "sh://turn_1/npm_test_2"]);
        (store, run)
    }

    fn body(store: &Store, run: i64, path: &str) -> String {
        store.body(run, path).unwrap().unwrap()
    }

    /// Follows rummy's specification, "Streaming Entries"; rummy's plugin guide, "Producer plugin contract":
    /// a command streams output and completes.
    #[test]
    fn a_command_streams_and_completes() {
        let (mut store, run) = started();
        let channel = store.entry(run, "sh://turn_1/npm_test_1").unwrap().unwrap();
        assert_eq!((channel.state, channel.visibility), (State::Streaming, Visibility::Summarized));
        assert_eq!(
            body(&store, run, "log://turn_1/sh/npm_test"),
            "ran 'npm test' (in progress). Output: sh://turn_1/npm_test_1, sh://turn_1/npm_test_2"
        );
        store.append_chunk(run, "log://turn_1/sh/npm_test", 1, "ok ").unwrap();
        store.append_chunk(run, "sh://turn_1/npm_test", 1, "42").unwrap();
        let count =
            store.end_stream(run, "log://turn_1/sh/npm_test", &End::Completed { exit_code: 1 }, Some("2s")).unwrap();
        assert_eq!(count, 2);
        assert_eq!(body(&store, run, "sh://turn_1/npm_test_1"), "ok 42");
        let channel = store.entry(run, "sh://turn_1/npm_test_2").unwrap().unwrap();
        assert_eq!((channel.state, channel.outcome.as_deref()), (State::Failed, Some("exit:1")));
        assert_eq!(
            body(&store, run, "log://turn_1/sh/npm_test"),
            "ran 'npm test', exit=1 (2s). Output: sh://turn_1/npm_test_1 (3 tokens), sh://turn_1/npm_test_2 (empty)"
        );
        let error = store.append_chunk(run, "log://turn_1/sh/npm_test", 1, "late").unwrap_err();
        assert!(error.to_string().contains("it is failed"), "{error}");
    }

    /// Ending a stream does not change an entry without channels.
    #[test]
    fn ending_a_stream_keeps_entries_without_channels() {
        let (mut store, run) = demo();
        store.set(&Set::new(run, "known://x").body("kept"), Writer::Plugin).unwrap();
        store.set(&Set::new(run, "known://x_1").body("kept"), Writer::Plugin).unwrap();
        for path in ["known://x", "log://turn_1/sh/none"] {
            let error = store.end_stream(run, path, &End::Completed { exit_code: 0 }, None).unwrap_err();
            assert!(error.to_string().contains("has no channels"), "{error}");
        }
        assert_eq!(body(&store, run, "known://x"), "kept");
        let args = json!([run, "log://turn_1/instructions/x", "c", [1]]);
        let error = store.entries("openStream", &args, Writer::Plugin).unwrap_err();
        assert!(error.to_string().starts_with("403"), "{error}");
    }

    /// A client aborts a stream, or the server cancels it: rummy's specification, "Streaming" methods.
    #[test]
    fn a_command_is_stopped_from_outside() {
        for (end, outcome, says) in [
            (End::Aborted { reason: None }, "aborted", "aborted 'npm test'. Output:"),
            (End::Cancelled { reason: Some("stale".to_owned()) }, "stale", "cancelled 'npm test' (stale). Output:"),
        ] {
            let (mut store, run) = started();
            store.end_stream(run, "log://turn_1/sh/npm_test", &end, None).unwrap();
            let channel = store.entry(run, "sh://turn_1/npm_test_1").unwrap().unwrap();
            assert_eq!((channel.state, channel.outcome.as_deref()), (State::Cancelled, Some(outcome)));
            assert!(body(&store, run, "log://turn_1/sh/npm_test").starts_with(says));
        }
    }
}
