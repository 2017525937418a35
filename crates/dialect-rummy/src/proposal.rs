//! Resolves proposals: entries that wait to be accepted or rejected.
//!
//! ```text
//! proposed ──accept──▶ filter `accepting` ──veto──▶ failed, the veto's outcome
//!    │                        └──▶ filter `content` ──▶ resolved ──▶ event `accepted`
//!    ├──error───▶ failed, `error`
//!    └──reject──▶ failed, `permission` ──▶ event `rejected`
//! ```
//!
//! Plugins provide the filters, so the driver calls them between [`Store::begin_resolution`] and [`Store::settle`]. The store
//! itself refuses edits of files that the project has marked as read-only; plugins cannot allow them.

use crate::entry::{Entry, State};
use crate::error::StoreError;
use crate::pattern::Pattern;
use crate::store::{Set, Store};
use crate::text;
use crate::writer::Writer;
use serde_json::{Map, Value, json};

/// The decision about a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The proposal is applied.
    Accept,
    /// Applying the proposal failed.
    Error,
    /// The proposal is not applied.
    Reject,
}

impl Action {
    /// Returns the decision that a client makes when it sets a proposed entry to a state.
    pub fn of_state(state: State) -> Option<Self> {
        match state {
            State::Resolved => Some(Self::Accept),
            State::Failed => Some(Self::Error),
            State::Cancelled => Some(Self::Reject),
            State::Proposed | State::Streaming => None,
        }
    }
}

/// A proposal that is being resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// Id of the run.
    pub run_id: i64,
    /// Path of the proposal.
    pub path: String,
    /// The decision.
    pub action: Action,
    /// Text of the decision.
    pub output: Option<String>,
    /// Attributes of the proposal.
    pub attributes: Map<String, Value>,
    entry: Entry,
}

/// The result of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The resulting state of the entry.
    pub state: State,
    /// The resulting outcome of the entry.
    pub outcome: Option<String>,
    /// The resulting body of the entry.
    pub body: String,
    /// The event to emit (accepted or rejected); `None` after an error or a veto.
    pub event: Option<Action>,
}

/// A refusal of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Veto {
    /// The outcome to set on the entry.
    pub outcome: String,
    /// The body to set on the entry.
    pub body: String,
}

impl Veto {
    /// Parses the result of the filter `proposal.accepting`: null, or `{allow: false, outcome, body}`.
    pub fn of_json(value: &Value) -> Option<Self> {
        if value.get("allow") != Some(&Value::Bool(false)) {
            return None;
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            outcome: text("outcome").unwrap_or_else(|| "permission".to_owned()),
            body: text("body").unwrap_or_default(),
        })
    }
}

impl Store {
    /// Begins to resolve a proposal. If the store itself refuses the edit, the result is already settled.
    ///
    /// Fails if the entry is not proposed.
    pub fn begin_resolution(
        &mut self,
        run_id: i64,
        path: &str,
        action: Action,
        output: Option<String>,
    ) -> Result<Result<Resolution, Settled>, StoreError> {
        let path = text::normalize_path(path);
        let entry = self.entry(run_id, &path)?.filter(|entry| entry.state == State::Proposed);
        let Some(entry) = entry else {
            return Err(StoreError::invalid(format!(
                "{path} is not proposed; list the open proposals with getUnresolved"
            )));
        };
        let attributes: Map<String, Value> = serde_json::from_str(&entry.attributes).unwrap_or_default();
        let resolution = Resolution { run_id, path, action, output, attributes, entry };
        if action == Action::Accept
            && let Some(file) = self.read_only_target(&resolution)?
        {
            let veto = Veto { outcome: "readonly".to_owned(), body: format!("refused: {file} is readonly") };
            return self.veto(&resolution, &veto).map(Err);
        }
        Ok(Ok(resolution))
    }

    /// Completes a resolution with the refusal of a filter.
    pub fn veto(&mut self, resolution: &Resolution, veto: &Veto) -> Result<Settled, StoreError> {
        self.end(resolution, State::Failed, Some(&veto.outcome), &veto.body, None)
    }

    /// Completes a resolution. For an accepted proposal, `body` is the result of the filter `content`; if it is empty, the
    /// proposal keeps its body.
    pub fn settle(&mut self, resolution: &Resolution, body: &str) -> Result<Settled, StoreError> {
        let body = if body.is_empty() && resolution.action != Action::Reject { &resolution.entry.body } else { body };
        match resolution.action {
            Action::Accept => self.end(resolution, State::Resolved, None, body, Some(Action::Accept)),
            Action::Error => self.end(resolution, State::Failed, Some("error"), body, None),
            Action::Reject => {
                let body = if body.is_empty() { "rejected" } else { body };
                self.end(resolution, State::Failed, Some("permission"), body, Some(Action::Reject))
            }
        }
    }

    /// Cancels all open proposals of a run, for example at the start of a new loop. Returns their paths.
    pub fn cancel_proposals(&mut self, run_id: i64, body: &str) -> Result<Vec<String>, StoreError> {
        let open = self.entries_where("v.run_id = ?1 AND v.state = 'proposed' ORDER BY v.id", [run_id])?;
        for entry in &open {
            let set = Set::new(run_id, &entry.path).body(body).state(State::Cancelled).outcome("interrupted");
            self.set(&set.visibility(entry.visibility), self.writer_of(&entry.path))?;
        }
        Ok(open.into_iter().map(|entry| entry.path).collect())
    }

    fn end(
        &mut self,
        resolution: &Resolution,
        state: State,
        outcome: Option<&str>,
        body: &str,
        event: Option<Action>,
    ) -> Result<Settled, StoreError> {
        let entry = &resolution.entry;
        let set = Set {
            outcome: outcome.map(str::to_owned),
            ..Set::new(resolution.run_id, &resolution.path).body(body).state(state).visibility(entry.visibility)
        };
        self.set(&set, self.writer_of(&resolution.path))?;
        Ok(Settled { state, outcome: outcome.map(str::to_owned), body: body.to_owned(), event })
    }

    /// Returns the file that an accepted edit would change, if the project has marked it as read-only.
    fn read_only_target(&mut self, resolution: &Resolution) -> Result<Option<String>, StoreError> {
        let file =
            |key: &str| resolution.attributes.get(key).and_then(Value::as_str).filter(|path| !path.contains("://"));
        let files: Vec<String> = ["path", "to", "from"].iter().filter_map(|key| file(key)).map(str::to_owned).collect();
        if files.is_empty() || matches!(text::action_of(&resolution.path), Some("get" | "sh" | "env" | "search")) {
            return Ok(None);
        }
        let run = self.statement("get_run_by_id", "get", &json!({ "id": resolution.run_id }))?;
        let constraints = self.rows("get_file_constraints", &json!({ "project_id": run["project_id"] }))?;
        for constraint in constraints.as_array().into_iter().flatten() {
            if constraint["visibility"] == "readonly"
                && let Some(pattern) = constraint["pattern"].as_str()
            {
                let pattern = Pattern::parse(pattern)?;
                for file in &files {
                    if pattern.matches(&plain(file))? {
                        return Ok(Some(file.clone()));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the writer that the host uses for an entry: plugin if the scheme permits it, otherwise system.
    pub(crate) fn writer_of(&self, path: &str) -> Writer {
        if self.admits(path, Writer::Plugin) { Writer::Plugin } else { Writer::System }
    }
}

/// Returns the path of a file with `.` and `..` resolved, as patterns require.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." && parts.last().is_some_and(|last| *last != "..") {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::demo;

    fn proposed(store: &mut Store, run: i64, path: &str, attributes: Value) {
        let set = Set::new(run, path).body("").state(State::Proposed).during(2, None).attributes(attributes);
        store.set(&set, Writer::Plugin).unwrap();
    }

    /// Follows rummy's specification, "Resolution"; rummy's plugin guide, "Run Lifecycle via Primitives":
    /// each decision resolves a proposal.
    #[test]
    fn decisions_end_a_proposal() {
        let (mut store, run) = demo();
        for (action, body, state, outcome) in [
            (Action::Accept, "done", State::Resolved, None),
            (Action::Error, "no", State::Failed, Some("error")),
            (Action::Reject, "", State::Failed, Some("permission")),
        ] {
            proposed(&mut store, run, "log://turn_2/sh/ls", json!({"command": "ls"}));
            let resolution = store.begin_resolution(run, "log://turn_2/sh/ls", action, None).unwrap().unwrap();
            let settled = store.settle(&resolution, body).unwrap();
            assert_eq!((settled.state, settled.outcome.as_deref()), (state, outcome));
            let entry = store.entry(run, "log://turn_2/sh/ls").unwrap().unwrap();
            assert_eq!((entry.state, entry.turn), (state, 2));
            assert_eq!(entry.body, if action == Action::Reject { "rejected" } else { body });
        }
        let error = store.begin_resolution(run, "log://turn_2/sh/ls", Action::Accept, None).unwrap_err();
        assert!(error.to_string().contains("is not proposed"), "{error}");
    }

    #[test]
    fn a_filter_may_veto() {
        let (mut store, run) = demo();
        proposed(&mut store, run, "log://turn_2/set/a", json!({}));
        let resolution = store.begin_resolution(run, "log://turn_2/set/a", Action::Accept, None).unwrap().unwrap();
        assert_eq!(Veto::of_json(&Value::Null), None);
        let veto = Veto::of_json(&json!({"allow": false, "outcome": "conflict", "body": "changed"})).unwrap();
        assert_eq!(store.veto(&resolution, &veto).unwrap().outcome.as_deref(), Some("conflict"));
    }

    /// `readonly` is enforced when an edit is accepted: rummy's plugin guide, "Config & Query Methods".
    #[test]
    fn a_read_only_file_is_not_edited() {
        let (mut store, run) = demo();
        let constraint = json!({"project_id": 1, "pattern": "src/**", "visibility": "readonly"});
        store.statement("upsert_file_constraint", "run", &constraint).unwrap();
        for file in ["src/a.js", "./src/a.js", "lib/../src/./a.js"] {
            proposed(&mut store, run, "log://turn_2/set/src/a.js", json!({ "path": file }));
            let settled =
                store.begin_resolution(run, "log://turn_2/set/src/a.js", Action::Accept, None).unwrap().unwrap_err();
            let told = (settled.state, settled.outcome.as_deref(), settled.event);
            assert_eq!(told, (State::Failed, Some("readonly"), None), "{file}");
        }
    }

    #[test]
    fn stale_proposals_are_cancelled() {
        let (mut store, run) = demo();
        proposed(&mut store, run, "log://turn_2/sh/ls", json!({}));
        assert_eq!(store.cancel_proposals(run, "stale").unwrap(), ["log://turn_2/sh/ls"]);
        let entry = store.entry(run, "log://turn_2/sh/ls").unwrap().unwrap();
        assert_eq!((entry.state, entry.outcome.as_deref()), (State::Cancelled, Some("interrupted")));
    }
}
