//! Stores runs and their queue of loops.
//!
//! A run is an entry, `run://ALIAS`, whose state mirrors the run's status. Each prompt is a loop; the loops of a run are claimed
//! in order, one at a time. A trigger of the database enforces the valid transitions between statuses.

use crate::entry::State;
use crate::error::StoreError;
use crate::store::{Set, Store};
use crate::writer::Writer;
use serde_json::{Value, json};

/// Mode of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The model answers questions; files are not changed.
    Ask,
    /// The model works; it may change files and run commands.
    Act,
}

impl Mode {
    /// Returns the name of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Act => "act",
        }
    }

    /// Parses the name of a mode.
    ///
    /// Fails for any name other than `ask` and `act`.
    pub fn parse(word: &str) -> Result<Self, StoreError> {
        match word {
            "ask" => Ok(Self::Ask),
            "act" => Ok(Self::Act),
            _ => Err(StoreError::invalid(format!("mode: unknown value `{word}`; use ask or act"))),
        }
    }
}

/// Statuses of runs and loops.
pub mod status {
    /// Waiting in the queue.
    pub const QUEUED: i64 = 100;
    /// Running now.
    pub const RUNNING: i64 = 102;
    /// Completed successfully.
    pub const COMPLETED: i64 = 200;
    /// Waiting for a decision about a proposal.
    pub const PROPOSED: i64 = 202;
    /// Stopped by a client.
    pub const ABORTED: i64 = 499;
    /// Failed with an error.
    pub const FAILED: i64 = 500;
}

/// Returns the state of a run's entry for a status.
pub fn entry_state(status: i64) -> Option<State> {
    match status {
        status::QUEUED => Some(State::Proposed),
        status::RUNNING | status::PROPOSED => Some(State::Streaming),
        status::COMPLETED => Some(State::Resolved),
        status::ABORTED => Some(State::Cancelled),
        status::FAILED => Some(State::Failed),
        _ => None,
    }
}

/// A claimed loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Id of the loop.
    pub id: i64,
    /// Position of the loop in the run.
    pub sequence: i64,
    /// Mode of the loop.
    pub mode: Mode,
    /// Alias of the model.
    pub model: Option<String>,
    /// The prompt.
    pub prompt: String,
    /// Flags such as `noWeb` and `yolo`.
    pub config: Value,
}

/// Initial values of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Start {
    /// Id of the project.
    pub project_id: i64,
    /// Alias of the run; the caller generates one if the client does not name the run.
    pub alias: String,
    /// Alias of the model.
    pub model: String,
    /// The prompt, which becomes the body of the run's entry.
    pub prompt: String,
    /// Id of the run to fork.
    pub parent: Option<i64>,
    /// Text to add to the system message.
    pub persona: Option<String>,
    /// Sampling temperature of the model.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of context that the run may use.
    pub context_limit: Option<i64>,
}

impl Store {
    /// Starts a run: creates its row, its entry, and views of the run that it forks.
    pub fn start_run(&mut self, start: &Start) -> Result<i64, StoreError> {
        let values = json!({
            "project_id": start.project_id, "parent_run_id": start.parent, "model": start.model, "alias": start.alias,
            "temperature": start.temperature, "persona": start.persona, "context_limit": start.context_limit,
        });
        let run_id = self.statement("create_run", "get", &values)?["id"].as_i64().unwrap_or_default();
        if let Some(parent) = start.parent {
            self.fork(parent, run_id)?;
        }
        let attributes = json!({
            "projectId": start.project_id, "parentRunId": start.parent, "model": start.model, "persona": start.persona,
            "temperature": start.temperature, "contextLimit": start.context_limit,
        });
        let set = Set::new(run_id, &format!("run://{}", start.alias)).body(start.prompt.clone()).state(State::Proposed);
        self.set(&set.attributes(attributes), Writer::System)?;
        Ok(run_id)
    }

    /// Sets a run's status and the state of its entry. Has no effect if the status is the same.
    ///
    /// Fails for an invalid transition.
    pub fn set_run_status(&mut self, run_id: i64, alias: &str, status: i64) -> Result<(), StoreError> {
        self.statement("update_run_status", "run", &json!({ "id": run_id, "status": status }))?;
        if let Some(state) = entry_state(status) {
            self.set(&Set::new(run_id, &format!("run://{alias}")).state(state), Writer::System)?;
        }
        Ok(())
    }

    /// Queues a prompt, and returns the id of its loop.
    pub fn enqueue_loop(
        &mut self,
        run_id: i64,
        mode: Mode,
        model: Option<&str>,
        prompt: &str,
        config: &Value,
    ) -> Result<i64, StoreError> {
        let sequence = self.statement("next_loop", "get", &json!({ "run_id": run_id }))?["sequence"].take();
        let values = json!({
            "run_id": run_id, "sequence": sequence, "mode": mode.as_str(), "model": model, "prompt": prompt,
            "config": config.to_string(),
        });
        Ok(self.statement("enqueue_loop", "get", &values)?["id"].as_i64().unwrap_or_default())
    }

    /// Claims the oldest queued loop of a run. Returns `None` if no loop is queued, or while another loop is running.
    pub fn claim_loop(&mut self, run_id: i64) -> Result<Option<Loop>, StoreError> {
        if !self.statement("get_current_loop", "get", &json!({ "run_id": run_id }))?.is_null() {
            return Ok(None);
        }
        let row = self.statement("claim_next_loop", "get", &json!({ "run_id": run_id }))?;
        let Some(id) = row["id"].as_i64() else { return Ok(None) };
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        Ok(Some(Loop {
            id,
            sequence: row["sequence"].as_i64().unwrap_or_default(),
            mode: Mode::parse(row["mode"].as_str().unwrap_or_default())?,
            model: text("model"),
            prompt: text("prompt").unwrap_or_default(),
            config: text("config").and_then(|config| serde_json::from_str(&config).ok()).unwrap_or_default(),
        }))
    }

    /// Completes a loop with a status and a result.
    pub fn complete_loop(&mut self, loop_id: i64, status: i64, result: &Value) -> Result<(), StoreError> {
        let values = json!({ "id": loop_id, "status": status, "result": result.to_string() });
        self.statement("complete_loop", "run", &values).map(drop)
    }

    /// Returns the numbers of the turns in which a loop has received a reply, in order.
    pub fn turns_of_loop(&self, loop_id: i64) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT sequence FROM turns WHERE loop_id = ?1 AND context_tokens > 0 ORDER BY sequence";
        let mut statement = self.connection().prepare_cached(sql)?;
        let rows = statement.query_map([loop_id], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the run that was started last.
    pub fn latest_run(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.runs_with("SELECT id FROM runs ORDER BY created_at DESC, id DESC LIMIT 1")?.pop())
    }

    /// Stops the current work of a run: ends its loops, including queued ones, and cancels its open proposals and streams.
    pub fn interrupt(&mut self, run_id: i64, why: &str) -> Result<(), StoreError> {
        self.connection()
            .prepare_cached("UPDATE loops SET status = 499 WHERE run_id = ?1 AND status IN (100, 102)")?
            .execute([run_id])?;
        self.cancel_proposals(run_id, why)?;
        self.cancel_streams(run_id)
    }

    /// Cancels the streaming entries of a run, whose producers have ended.
    fn cancel_streams(&mut self, run_id: i64) -> Result<(), StoreError> {
        for entry in self.entries_where("v.run_id = ?1 AND v.state = 'streaming' ORDER BY v.id", [run_id])? {
            if entry.scheme.as_deref() != Some("run") {
                let set = Set::new(run_id, &entry.path).state(State::Cancelled).outcome("interrupted");
                self.set(&set, self.writer_of(&entry.path))?;
            }
        }
        Ok(())
    }

    /// Recovers a database whose process was killed: running loops are queued again, and streaming channels, whose producers were
    /// killed as well, are cancelled. Proposals stay open. Returns the runs that have queued loops.
    pub fn recover(&mut self) -> Result<Vec<i64>, StoreError> {
        self.statement("reset_active_loops", "run", &Value::Null)?;
        for run_id in self.runs_with("SELECT DISTINCT run_id FROM run_views WHERE state = 'streaming' ORDER BY 1")? {
            self.cancel_streams(run_id)?;
        }
        self.runs_with("SELECT DISTINCT run_id FROM loops WHERE status = 100 ORDER BY 1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::demo;

    fn started(store: &mut Store, alias: &str, parent: Option<i64>) -> i64 {
        let start = Start {
            project_id: 1,
            alias: alias.to_owned(),
            model: "m".to_owned(),
            prompt: "do".to_owned(),
            parent,
            ..Start::default()
        };
        store.start_run(&start).unwrap()
    }

    /// The state of a run's entry mirrors the run's status: rummy's specification, "Runs Are Entries" and "Run State Machine".
    #[test]
    fn a_run_s_entry_mirrors_its_status() {
        let (mut store, _) = demo();
        let run = started(&mut store, "work", None);
        let state = |store: &Store| store.entry(run, "run://work").unwrap().unwrap().state;
        assert_eq!(state(&store), State::Proposed);
        store.set_run_status(run, "work", status::RUNNING).unwrap();
        assert_eq!(state(&store), State::Streaming);
        store.set_run_status(run, "work", status::COMPLETED).unwrap();
        assert_eq!(state(&store), State::Resolved);
        assert!(store.set_run_status(run, "work", status::FAILED).is_err());
        assert_eq!(state(&store), State::Resolved);
        assert_eq!(store.entry(run, "run://work").unwrap().unwrap().body, "do");
    }

    /// Follows rummy's specification, "Loops Table": first in, first out, one at a time; an abort stops the current loop.
    #[test]
    fn loops_are_taken_in_their_order() {
        let (mut store, run) = demo();
        for (mode, prompt) in [(Mode::Ask, "one"), (Mode::Act, "two")] {
            store.enqueue_loop(run, mode, Some("m"), prompt, &json!({"noWeb": true})).unwrap();
        }
        let first = store.claim_loop(run).unwrap().unwrap();
        assert_eq!((first.sequence, first.mode, first.prompt.as_str()), (1, Mode::Ask, "one"));
        assert_eq!(first.config["noWeb"], true);
        assert_eq!(store.claim_loop(run).unwrap(), None);
        store.statement("abort_active_loop", "run", &json!({"run_id": run})).unwrap();
        let second = store.claim_loop(run).unwrap().unwrap();
        assert_eq!(second.prompt, "two");
        store.complete_loop(second.id, 200, &json!({})).unwrap();
        assert_eq!(store.claim_loop(run).unwrap(), None);
    }

    #[test]
    fn a_fork_has_an_entry_of_its_own() {
        let (mut store, _) = demo();
        let parent = started(&mut store, "one", None);
        store.set(&Set::new(parent, "known://a").body("x"), Writer::Model).unwrap();
        let child = started(&mut store, "two", Some(parent));
        assert_eq!(store.body(child, "known://a").unwrap().as_deref(), Some("x"));
        assert!(store.entry(child, "run://two").unwrap().is_some());
    }

    #[test]
    fn a_killed_process_leaves_loops_to_do_and_no_open_channel() {
        let (mut store, run) = demo();
        store.enqueue_loop(run, Mode::Act, None, "one", &json!({})).unwrap();
        store.claim_loop(run).unwrap();
        store.set(&Set::new(run, "sh://turn_1/x_1").body("half").state(State::Streaming), Writer::Plugin).unwrap();
        store.set(&Set::new(run, "log://turn_1/sh/y").body("").state(State::Proposed), Writer::Plugin).unwrap();
        assert_eq!(store.recover().unwrap(), [run]);
        let channel = store.entry(run, "sh://turn_1/x_1").unwrap().unwrap();
        assert_eq!((channel.state, channel.outcome.as_deref()), (State::Cancelled, Some("interrupted")));
        assert_eq!(store.entry(run, "log://turn_1/sh/y").unwrap().unwrap().state, State::Proposed);
        assert_eq!(store.claim_loop(run).unwrap().unwrap().prompt, "one");
    }
}
