//! Resolves the proposals of a run, and calls the plugins that handle the decision.
//!
//! A run waits for its proposal at the store, so any caller that resolves the entry lets it continue: the run's client, a call of
//! another client, or a plugin. The run waits for a resolution in progress to end, including the work of plugins.

use crate::error::RummyError;
use crate::run::{Loop, RunDriver, attributes_of};
use pijs_dialect_rummy::proposal::{Action, Resolution, Settled, Veto};
use pijs_dialect_rummy::rpc::Notification;
use pijs_dialect_rummy::run::status;
use pijs_dialect_rummy::{State, text};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// A change or command that waits for the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Alias of the run.
    pub alias: String,
    /// Path of the proposal's log entry.
    pub path: String,
    /// Name of the tool.
    pub action: String,
    /// Text that is shown to the user, for example a diff or a question.
    pub body: String,
    /// Attributes of the log entry.
    pub attributes: Map<String, Value>,
}

/// The decision about a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Accepted, with the user's answer.
    Accept(Option<String>),
    /// Rejected, with a reason.
    Reject(Option<String>),
}

/// Resolutions in progress, by run and path.
#[derive(Debug, Default)]
pub(crate) struct Resolving {
    paths: RefCell<BTreeSet<(i64, String)>>,
    ended: Notify,
}

impl Resolving {
    /// Begins a resolution; `None` if another caller already resolves the entry.
    fn begin(&self, resolution: &Resolution) -> Option<Underway<'_>> {
        let key = (resolution.run_id, resolution.path.clone());
        let is_first = self.paths.borrow_mut().insert(key.clone());
        is_first.then(|| Underway { resolving: self, key })
    }

    fn is_underway(&self, run_id: i64, path: &str) -> bool {
        self.paths.borrow().contains(&(run_id, text::normalize_path(path)))
    }

    /// Waits until no resolution of an entry is in progress.
    async fn over(&self, run_id: i64, path: &str) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.is_underway(run_id, path) {
                return;
            }
            ended.await;
        }
    }
}

/// Marks a resolution as in progress until it is dropped.
struct Underway<'r> {
    resolving: &'r Resolving,
    key: (i64, String),
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.resolving.paths.borrow_mut().remove(&self.key);
        self.resolving.ended.notify_waiters();
    }
}

impl RunDriver<'_> {
    /// Resolves all proposals of a run. Returns whether all were accepted.
    pub(crate) async fn settle_all(&self, state: &Loop, rummy: &Value) -> Result<bool, RummyError> {
        let mut accepted = true;
        let open = self.store(|store| {
            store.entries("getUnresolved", &json!([state.run_id]), pijs_dialect_rummy::Writer::System)
        })?;
        for row in open.as_array().into_iter().flatten() {
            let alias = self.alias(state.run_id)?;
            let pending = json!({ "projectId": state.project.id, "run": alias, "proposed": [row], "rummy": rummy });
            self.emit("proposal.pending", pending).await?;
            let told = Notification::RunProposal { run: alias.clone(), proposed: vec![row.clone()] };
            self.client.notify(state.project.id, &told);
            accepted &= self.settle(state, alias, row).await?;
        }
        Ok(accepted)
    }

    /// Resolves the proposals that a killed process left open.
    pub(crate) async fn settle_left_open(&self, state: &Loop) -> Result<(), RummyError> {
        let facts = self.facts(state, 0, &Value::Null, "plugin");
        let name = format!("run{}/loop{}", state.run_id, state.loop_id);
        let rummy = self.realm.context(&name, facts, crate::service::CallPath::Plugin).await?;
        let settled = self.settle_all(state, &rummy.reference()).await;
        rummy.close().await?;
        settled.map(drop)
    }

    /// Lets the run's client decide about a proposal, and returns whether it was accepted.
    async fn settle(&self, state: &Loop, alias: String, row: &Value) -> Result<bool, RummyError> {
        let run_id = state.run_id;
        let path = row["path"].as_str().unwrap_or_default().to_owned();
        let attributes = attributes_of(row);
        let action = attributes.get("action").and_then(Value::as_str).map(str::to_owned);
        let action = action.or_else(|| text::action_of(&path).map(str::to_owned));
        let body = row["body"].as_str().unwrap_or_default().to_owned();
        let proposal = Proposal { alias, path, action: action.unwrap_or_default(), body, attributes };
        self.set_status(run_id, status::PROPOSED)?;
        let decide = async {
            match state.flags.yolo {
                true => Decision::Accept(None),
                false => self.client.decide(&proposal).await,
            }
        };
        let decision = tokio::select! {
            biased;
            () = self.realm.entries().resolved(run_id, &proposal.path) => None,
            () = self.cancel.cancelled() => Some(Decision::Reject(Some("interrupted".to_owned()))),
            decision = decide => Some(decision),
        };
        if let Some(decision) = decision
            && !self.resolving.is_underway(run_id, &proposal.path)
        {
            let (action, output) = match decision {
                Decision::Accept(output) => (Action::Accept, output),
                Decision::Reject(reason) => (Action::Reject, reason),
            };
            let begun = self.store(|store| store.begin_resolution(run_id, &proposal.path, action, output))?;
            if let Ok(resolution) = begun {
                let runs_command = state.flags.yolo || !self.client.runs_commands();
                self.resolve(&resolution, runs_command).await?;
            }
        }
        self.resolving.over(run_id, &proposal.path).await;
        self.set_status(run_id, status::RUNNING)?;
        let entry = self.store(|store| store.entry(run_id, &proposal.path))?;
        Ok(entry.is_some_and(|entry| entry.state == State::Resolved))
    }

    /// Resolves a proposal: plugins may veto the decision and filter its outcome, then the decision takes effect. With
    /// `runs_command`, a command runs on the host instead of the client that accepted it.
    ///
    /// # Errors
    ///
    /// Fails if another caller is resolving the proposal, or if the realm or the store fails.
    pub async fn resolve(&self, resolution: &Resolution, runs_command: bool) -> Result<Settled, RummyError> {
        let Some(_underway) = self.resolving.begin(resolution) else {
            return Err(RummyError::Store(format!(
                "{}: another client is resolving it; wait for run/state",
                resolution.path
            )));
        };
        let ctx = self.proposal_context(resolution, runs_command)?;
        let output = resolution.output.clone().unwrap_or_default();
        match resolution.action {
            Action::Accept => {
                let veto = self.realm.filter("proposal.accepting", Value::Null, vec![ctx.clone()]).await?;
                if let Some(veto) = Veto::of_json(&veto) {
                    return self.store(|store| store.veto(resolution, &veto));
                }
                let content = self.realm.filter("proposal.content", output.into(), vec![ctx.clone()]).await?;
                let settled = self.store(|store| store.settle(resolution, content.as_str().unwrap_or_default()))?;
                let mut accepted = ctx;
                accepted["resolvedBody"] = content;
                let faults = self.emit("proposal.accepted", accepted).await?;
                // A handler failed to apply an accepted proposal.
                match faults.into_iter().find(|fault| fault.hook == "proposal.accepted") {
                    Some(fault) => {
                        let veto = Veto { outcome: "error".to_owned(), body: fault.message };
                        self.store(|store| store.veto(resolution, &veto))
                    }
                    None => Ok(settled),
                }
            }
            Action::Reject => {
                let settled = self.store(|store| store.settle(resolution, &output))?;
                self.emit("proposal.rejected", ctx).await?;
                Ok(settled)
            }
            Action::Error => self.store(|store| store.settle(resolution, &output)),
        }
    }

    fn proposal_context(&self, resolution: &Resolution, runs_command: bool) -> Result<Value, RummyError> {
        let run = self.run_row(resolution.run_id)?;
        let about = json!({ "id": run["project_id"] });
        let project = self.store(|store| store.statement("get_project_by_id", "get", &about))?;
        Ok(json!({
            "runId": resolution.run_id, "runRow": run, "projectId": project["id"], "projectRoot": project["project_root"],
            "path": resolution.path, "attrs": resolution.attributes, "output": resolution.output.as_deref().unwrap_or_default(),
            "runsCommand": runs_command, "db": { "$db": true }, "entries": { "$entries": null },
        }))
    }
}
