//! One run: its loop over turns, proposals that wait, and when it ends.
//!
//! The hooks come in the order of the turn pipeline of rummy 2.2; `turn.rs` has one turn. What a plugin assigned in the form of
//! 2.0 (`hooks.error.verdict`, `hooks.budget.enforce`) is called where the hook of 2.2 is.

use crate::error::RummyError;
use crate::realm::{Fault, PluginRealm};
use crate::service::CallPath;
use futures_util::future::LocalBoxFuture;
use pijs_dialect_rummy::Pattern;
use pijs_dialect_rummy::verdict::{self, Judge};
use pijs_environment::Ambient;
use pijs_llm::provider::{Model, Provider};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The rights of a run: a run that asks changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// Questions only; files and commands that change something are rejected.
    Ask,
    /// Everything that the user accepts.
    Act,
}

impl RunMode {
    /// The word of hooks and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Act => "act",
        }
    }
}

/// Parts of a run that are left out, and whether it asks before it acts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunFlags {
    /// No files of the project.
    pub no_repo: bool,
    /// No questions to the user.
    pub no_interaction: bool,
    /// No search.
    pub no_web: bool,
    /// Nothing that has to be accepted.
    pub no_proposals: bool,
    /// Proposals are accepted unasked.
    pub yolo: bool,
}

/// A run that is to begin, or to continue.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    /// Its name; an existing one continues.
    pub alias: String,
    /// The request of the user.
    pub prompt: String,
    /// The mode, which says what it may do.
    pub mode: RunMode,
    /// The parts that are left out.
    pub flags: RunFlags,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Its name.
    pub alias: String,
    /// 200 done, 204 nothing to do, 422 not possible, 499 given up or cancelled, 500 failed.
    pub status: u16,
    /// Turns of this loop.
    pub turns: u64,
    /// The last words of the model.
    pub summary: Option<String>,
    /// Why it was given up.
    pub reason: Option<String>,
}

/// A change or command that waits for the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The run.
    pub alias: String,
    /// Path of its log entry.
    pub path: String,
    /// The tool.
    pub action: String,
    /// The text that is shown: a difference, a question.
    pub body: String,
    /// Attributes of its entry.
    pub attributes: Map<String, Value>,
}

/// The decision about a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Accepted, with what the user answered.
    Accept(Option<String>),
    /// Rejected, with a reason.
    Reject(Option<String>),
    /// Somebody else resolves the entry; the run waits for that.
    Elsewhere,
}

/// The client at the other side of a run.
pub trait RunClient {
    /// Takes a notification of the client protocol: `run/state`, `run/progress`, `run/proposal`.
    fn notify(&self, method: &str, params: &Value);

    /// Decides about a proposal.
    fn decide<'a>(&'a self, proposal: &'a Proposal) -> LocalBoxFuture<'a, Decision>;
}

/// Bounds of a run; [`settings`](crate::settings) has the defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    /// Turns of one loop.
    pub turns: u64,
    /// Commands of one turn.
    pub commands: usize,
    /// Strikes and cycles after which a run is given up.
    pub verdict: verdict::Limits,
    /// Share of the model's context that is used.
    pub budget: f64,
    /// UTF-16 units of a token.
    pub divisor: u32,
    /// Tokens of the model's context, where the model does not say.
    pub context: i64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { turns: 15, commands: 99, verdict: verdict::Limits::default(), budget: 0.9, divisor: 2, context: 128_000 }
    }
}

/// A project of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its folder.
    pub root: PathBuf,
}

/// Runs runs of one project. Clones share everything but what cancels them.
#[derive(Clone)]
pub struct RunDriver<'a> {
    pub(crate) realm: &'a PluginRealm,
    pub(crate) model: Arc<dyn Provider>,
    pub(crate) ambient: Ambient,
    pub(crate) project: Project,
    pub(crate) limits: RunLimits,
    pub(crate) client: &'a dyn RunClient,
    pub(crate) cancel: CancellationToken,
}

/// A loop that runs.
pub(crate) struct Loop<'r> {
    pub(crate) request: &'r RunRequest,
    pub(crate) run_id: i64,
    pub(crate) loop_id: i64,
    pub(crate) tools: Vec<Value>,
    pub(crate) start_turn: i64,
    pub(crate) iteration: u64,
    pub(crate) judge: Judge,
}

/// The outcome of a turn.
pub(crate) struct TurnEnd {
    pub(crate) goes_on: bool,
    pub(crate) status: u16,
    pub(crate) summary: Option<String>,
    pub(crate) reason: Option<String>,
}

impl<'a> RunDriver<'a> {
    /// Makes a driver, and the project in the store.
    ///
    /// # Errors
    ///
    /// The store refuses the project, or the plugins do.
    pub async fn new(
        realm: &'a PluginRealm,
        model: Arc<dyn Provider>,
        ambient: Ambient,
        (name, root): (String, PathBuf),
        limits: RunLimits,
        client: &'a dyn RunClient,
    ) -> Result<Self, RummyError> {
        let said = json!({ "name": name, "project_root": root, "config_path": null });
        realm.emit("project.init.started", vec![json!({ "projectName": name, "projectRoot": root })]).await?;
        let id = realm.statement("upsert_project", "get", said.clone())?["id"].as_i64().unwrap_or_default();
        let mut project = said;
        project["id"] = id.into();
        realm.emit("project.init.completed", vec![project]).await?;
        let project = Project { id, name, root };
        Ok(Self { realm, model, ambient, project, limits, client, cancel: CancellationToken::new() })
    }

    /// Ends what runs when it is cancelled.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns the same driver with another token, which ends its runs alone.
    #[must_use]
    pub fn with_cancel(&self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self.clone() }
    }

    /// The project of its runs.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// The model that is asked.
    pub fn model(&self) -> &Model {
        self.model.model()
    }

    /// Runs a prompt to its end.
    ///
    /// # Errors
    ///
    /// The realm of the plugins or the store failed; what a model or a tool does wrong is no error.
    pub async fn run(&self, request: &RunRequest) -> Result<RunOutcome, RummyError> {
        let mode = request.mode.as_str();
        let run_id = self.run_of(request).await?;
        let sequence = self.realm.statement("next_loop", "get", json!({ "run_id": run_id }))?["sequence"].clone();
        let config = json!({ "yolo": request.flags.yolo, "noInteraction": request.flags.no_interaction });
        let queued = json!({
            "run_id": run_id, "sequence": sequence, "mode": mode, "model": self.model.model().id,
            "prompt": request.prompt, "config": config.to_string(),
        });
        self.realm.statement("enqueue_loop", "get", queued)?;
        let claimed = self.realm.statement("claim_next_loop", "get", json!({ "run_id": run_id }))?;
        let loop_id = claimed["id"].as_i64().ok_or_else(|| RummyError::Store("no loop is queued".to_owned()))?;
        self.status(run_id, 102)?;
        self.mirror(request, run_id, "streaming", None)?;
        let started = json!({
            "projectId": self.project.id, "model": self.model.model().id, "prompt": request.prompt,
            "run": request.alias, "projectBufferFiles": [],
        });
        self.emit(&format!("{mode}.started"), started).await?;
        self.emit(
            "loop.started",
            json!({ "runId": run_id, "loopId": loop_id, "mode": mode, "prompt": request.prompt }),
        )
        .await?;
        let done = self.turns(request, run_id, loop_id).await;
        // Whatever happened: who heard that it began hears that it is over.
        let (end, turns) = match &done {
            Ok((end, turns)) => (end.status, *turns),
            Err(_) => (500, 0),
        };
        let finished = json!({ "id": loop_id, "status": end, "result": null });
        self.realm.statement("complete_loop", "run", finished)?;
        let of_run = match end {
            200 | 204 => 200,
            499 => 499,
            _ => 500,
        };
        self.status(run_id, of_run)?;
        let state = if of_run == 200 {
            "resolved"
        } else if of_run == 499 {
            "cancelled"
        } else {
            "failed"
        };
        self.mirror(request, run_id, state, (of_run != 200).then(|| format!("status:{end}")))?;
        let told = json!({ "projectId": self.project.id, "run": request.alias, "status": end, "turn": turns });
        self.emit(&format!("{mode}.completed"), told).await?;
        let over = json!({ "runId": run_id, "loopId": loop_id, "mode": mode, "turns": turns });
        self.emit("loop.completed", over).await?;
        let (end, turns) = done?;
        let alias = request.alias.clone();
        Ok(RunOutcome { alias, status: end.status, turns, summary: end.summary, reason: end.reason })
    }

    async fn turns(&self, request: &RunRequest, run_id: i64, loop_id: i64) -> Result<(TurnEnd, u64), RummyError> {
        let flags = request.flags;
        let wanted = json!({
            "noInteraction": flags.no_interaction, "noWeb": flags.no_web, "noProposals": flags.no_proposals,
        });
        let tools = self.realm.deliver("toolset", json!({ "mode": request.mode.as_str(), "flags": wanted })).await?;
        let tools = tools.value.as_array().cloned().unwrap_or_default();
        let mut state = Loop {
            request,
            run_id,
            loop_id,
            tools,
            start_turn: 0,
            iteration: 0,
            judge: Judge::new(self.limits.verdict),
        };
        while state.iteration < self.limits.turns {
            state.iteration += 1;
            let end = self.turn(&mut state).await?;
            if self.cancel.is_cancelled() {
                let reason = Some("it was cancelled".to_owned());
                return Ok((TurnEnd { goes_on: false, status: 499, summary: end.summary, reason }, state.iteration));
            }
            if !end.goes_on {
                return Ok((end, state.iteration));
            }
        }
        let reason = Some(format!("it did not end within {} turns; RUMMY_MAX_TURNS allows more", self.limits.turns));
        Ok((TurnEnd { goes_on: false, status: 499, summary: None, reason }, state.iteration))
    }

    /// The run of an alias; a new one is made and told of.
    async fn run_of(&self, request: &RunRequest) -> Result<i64, RummyError> {
        let found = self.realm.statement("get_run_by_alias", "get", json!({ "alias": request.alias }))?;
        if let Some(id) = found["id"].as_i64() {
            if found["project_id"].as_i64() != Some(self.project.id) {
                return Err(RummyError::Store(format!("the run {} belongs to another project", request.alias)));
            }
            // One whose process died was left as it stood.
            self.realm.statement("abort_active_loop", "run", json!({ "run_id": id }))?;
            let rows = self.realm.system("getEntries", vec![id.into()])?;
            let is_open = |row: &&Value| matches!(row["state"].as_str(), Some("proposed" | "streaming"));
            for row in rows.as_array().into_iter().flatten().filter(is_open) {
                let ended = json!({
                    "runId": id, "path": row["path"], "state": "cancelled", "outcome": "interrupted", "writer": "system",
                });
                self.realm.system("set", vec![ended])?;
            }
            return Ok(id);
        }
        let made = json!({
            "project_id": self.project.id, "parent_run_id": null, "model": self.model.model().id,
            "alias": request.alias, "temperature": null, "persona": null, "context_limit": null,
        });
        let made = self.realm.filter("run.config", made, vec![]).await?;
        let id = self.realm.statement("create_run", "get", made)?["id"].as_i64().unwrap_or_default();
        self.emit("run.created", json!({ "runId": id, "alias": request.alias })).await?;
        Ok(id)
    }

    fn status(&self, run_id: i64, status: u16) -> Result<(), RummyError> {
        self.realm.statement("update_run_status", "run", json!({ "id": run_id, "status": status })).map(drop)
    }

    /// A run is an entry, too.
    fn mirror(
        &self,
        request: &RunRequest,
        run_id: i64,
        state: &str,
        outcome: Option<String>,
    ) -> Result<(), RummyError> {
        let entry = json!({
            "runId": run_id, "path": format!("run://{}", request.alias), "body": request.prompt, "state": state,
            "outcome": outcome, "writer": "system",
            "attributes": { "mode": request.mode.as_str(), "model": self.model.model().id },
        });
        self.realm.system("set", vec![entry]).map(drop)
    }

    pub(crate) async fn emit(&self, hook: &str, payload: Value) -> Result<Vec<Fault>, RummyError> {
        self.realm.emit(hook, vec![payload]).await
    }

    pub(crate) fn unresolved(&self, run_id: i64) -> Result<Vec<Value>, RummyError> {
        Ok(self.realm.system("getUnresolved", vec![run_id.into()])?.as_array().cloned().unwrap_or_default())
    }

    /// Has somebody decide about a proposal, and resolves it. Returns whether it was accepted.
    pub(crate) async fn settle(&self, state: &Loop<'_>, row: &Value) -> Result<bool, RummyError> {
        let Loop { request, run_id, .. } = state;
        let path = row["path"].as_str().unwrap_or_default().to_owned();
        let attributes = attributes_of(row);
        let action = attributes.get("action").and_then(Value::as_str).map(str::to_owned);
        let action = action.or_else(|| path.strip_prefix("log://")?.split('/').nth(1).map(str::to_owned));
        let proposal = Proposal {
            alias: request.alias.clone(),
            path: path.clone(),
            action: action.unwrap_or_default(),
            body: row["body"].as_str().unwrap_or_default().to_owned(),
            attributes,
        };
        self.status(*run_id, 202)?;
        self.mirror(request, *run_id, "proposed", None)?;
        let decision = if request.flags.yolo {
            Decision::Accept(None)
        } else {
            tokio::select! {
                decision = self.client.decide(&proposal) => decision,
                () = self.cancel.cancelled() => Decision::Reject(Some("interrupted".to_owned())),
            }
        };
        let accepted = match decision {
            Decision::Accept(output) => self.accept(*run_id, &path, output.as_deref()).await?,
            Decision::Reject(reason) => {
                self.reject(*run_id, &path, reason.as_deref()).await?;
                false
            }
            Decision::Elsewhere => {
                tokio::select! {
                    () = self.realm.entries().resolved(*run_id, &path) => {}
                    () = self.cancel.cancelled() => self.reject(*run_id, &path, Some("interrupted")).await?,
                }
                self.state_of(*run_id, &path)?.0 == "resolved"
            }
        };
        self.status(*run_id, 102)?;
        self.mirror(request, *run_id, "streaming", None)?;
        Ok(accepted)
    }

    /// Resolves a proposal that somebody accepted: a plugin may veto, what it comes to is filtered, then it happens. Returns
    /// whether it did.
    ///
    /// # Errors
    ///
    /// The realm or the store failed.
    pub async fn accept(&self, run_id: i64, path: &str, output: Option<&str>) -> Result<bool, RummyError> {
        let ctx = self.proposal_context(run_id, path, output)?;
        let set = |more: Value| {
            let mut entry = json!({ "runId": run_id, "path": path, "writer": "system" });
            if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), more) {
                entry.extend(more);
            }
            self.realm.system("set", vec![entry])
        };
        if let Some(file) = self.read_only_target(&ctx["attrs"])? {
            set(json!({ "state": "failed", "outcome": "readonly" }))?;
            self.rewrite(run_id, path, &format!("refused: {file} is readonly"))?;
            return Ok(false);
        }
        let veto = self.realm.filter("proposal.accepting", Value::Null, vec![ctx.clone()]).await?;
        if veto["allow"] == Value::Bool(false) {
            let outcome = veto["outcome"].as_str().unwrap_or("permission");
            set(json!({ "state": "failed", "outcome": outcome }))?;
            if let Some(body) = veto["body"].as_str() {
                self.rewrite(run_id, path, body)?;
            }
            return Ok(false);
        }
        let given = output.unwrap_or_default();
        let content = self.realm.filter("proposal.content", given.into(), vec![ctx.clone()]).await?;
        set(json!({ "state": "resolved" }))?;
        if let Some(body) = content.as_str().filter(|body| !body.is_empty()) {
            self.rewrite(run_id, path, body)?;
        }
        let mut accepted = ctx;
        accepted["resolvedBody"] = content;
        let faults = self.emit("proposal.accepted", accepted).await?;
        // A proposal that was accepted and did not happen is no success.
        if let Some(fault) = faults.iter().find(|fault| fault.hook == "proposal.accepted") {
            set(json!({ "state": "failed", "outcome": "error" }))?;
            self.rewrite(run_id, path, &fault.message)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// The file that a proposal changes although the project has marked it as read-only: no plugin allows that.
    fn read_only_target(&self, attributes: &Value) -> Result<Option<String>, RummyError> {
        let about = json!({ "project_id": self.project.id });
        let constraints = self.realm.statement("get_file_constraints", "all", about)?;
        let patterns = constraints.as_array().into_iter().flatten().filter(|row| row["visibility"] == "readonly");
        let patterns: Vec<&str> = patterns.filter_map(|row| row["pattern"].as_str()).collect();
        for file in
            ["path", "to"].iter().filter_map(|key| attributes[*key].as_str()).filter(|path| !path.contains("://"))
        {
            // As files are named everywhere: `./a` is `a`.
            let plain = file.trim_start_matches("./");
            for pattern in &patterns {
                let matches = Pattern::parse(pattern).and_then(|pattern| pattern.matches(plain));
                if matches.map_err(|error| RummyError::Store(error.to_string()))? {
                    return Ok(Some(file.to_owned()));
                }
            }
        }
        Ok(None)
    }

    /// Resolves a proposal that somebody rejected.
    ///
    /// # Errors
    ///
    /// The realm or the store failed.
    pub async fn reject(&self, run_id: i64, path: &str, reason: Option<&str>) -> Result<(), RummyError> {
        let entry =
            json!({ "runId": run_id, "path": path, "state": "failed", "outcome": "permission", "writer": "system" });
        self.realm.system("set", vec![entry])?;
        self.rewrite(run_id, path, reason.unwrap_or("rejected"))?;
        let ctx = self.proposal_context(run_id, path, reason)?;
        self.emit("proposal.rejected", ctx).await.map(drop)
    }

    /// Replaces the body of a log entry and keeps everything else.
    fn rewrite(&self, run_id: i64, path: &str, body: &str) -> Result<(), RummyError> {
        let row = self.row(run_id, path)?;
        let entry = json!({
            "runId": run_id, "path": path, "body": body, "state": row["state"], "outcome": row["outcome"],
            "visibility": row["visibility"], "turn": row["turn"], "writer": "system",
        });
        self.realm.system("set", vec![entry]).map(drop)
    }

    fn proposal_context(&self, run_id: i64, path: &str, output: Option<&str>) -> Result<Value, RummyError> {
        let row = self.row(run_id, path)?;
        let run = self.realm.statement("get_run_by_id", "get", json!({ "id": run_id }))?;
        Ok(json!({
            "runId": run_id, "runRow": run, "projectId": self.project.id, "projectRoot": self.project.root,
            "path": path, "attrs": attributes_of(&row), "output": output.unwrap_or_default(),
            "db": { "$db": true }, "entries": { "$entries": null },
        }))
    }

    /// An entry as the store has it; null where there is none.
    pub(crate) fn row(&self, run_id: i64, path: &str) -> Result<Value, RummyError> {
        let args = vec![run_id.into(), path.into(), Value::Null];
        let found = self.realm.system("getEntriesByPattern", args)?;
        let is_it = |row: &&Value| row["path"].as_str() == Some(path);
        Ok(found.as_array().and_then(|rows| rows.iter().find(is_it).or(rows.first()).cloned()).unwrap_or_default())
    }

    /// State and outcome of an entry; two empty strings where there is none.
    pub(crate) fn state_of(&self, run_id: i64, path: &str) -> Result<(String, String), RummyError> {
        let row = self.realm.system("getState", vec![run_id.into(), path.into()])?;
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Ok((text("state"), text("outcome")))
    }
}

/// The attributes of a row, which the store keeps as JSON.
pub(crate) fn attributes_of(row: &Value) -> Map<String, Value> {
    match &row["attributes"] {
        Value::Object(attributes) => attributes.clone(),
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        _ => Map::new(),
    }
}

impl PluginRealm {
    /// Calls a method of the store as the host.
    ///
    /// # Errors
    ///
    /// The store refuses.
    pub fn system(&self, method: &str, args: Vec<Value>) -> Result<Value, RummyError> {
        let done = self.entries().with(|store| store.entries(method, &args, CallPath::System));
        done.map(|answer| answer.value).map_err(|error| RummyError::Store(error.message))
    }

    /// Runs a named statement of the store.
    ///
    /// # Errors
    ///
    /// The store refuses.
    pub fn statement(&self, name: &str, op: &str, params: Value) -> Result<Value, RummyError> {
        let done = self.entries().with(|store| store.statement(name, op, &params, CallPath::System));
        done.map_err(|error| RummyError::Store(error.message))
    }
}
