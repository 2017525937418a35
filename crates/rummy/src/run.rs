//! Drives runs: queues their loops and decides when one ends.
//!
//! Hooks are called in the order of rummy 2.2's turn pipeline. `turn.rs` implements one turn, `proposals.rs` the proposals that
//! wait for a decision. If a plugin defines a function of 2.0 (`hooks.error.verdict`, `hooks.budget.enforce`), it is called in
//! place of the corresponding hook of 2.2. All state is in the store, so a run can continue after its process was killed.

use crate::error::RummyError;
use crate::proposals::{Decision, Proposal, Resolving};
use crate::realm::{Fault, PluginRealm};
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use pijs_dialect_rummy::rpc::Notification;
use pijs_dialect_rummy::run::{Loop as Claimed, Mode, Start, status};
use pijs_dialect_rummy::verdict::{self, Judge};
use pijs_dialect_rummy::{Set, State, StoreError, Writer, budget};
use pijs_environment::Ambient;
use pijs_llm::provider::Provider;
use pijs_rules::RuleEngine;
use pijs_runtime::rules::RuleSet;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Flags that disable features of a run, or accept its proposals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunFlags {
    /// Whether files of the project are left out.
    pub no_repo: bool,
    /// Whether questions to the user are disabled.
    pub no_interaction: bool,
    /// Whether web search is disabled.
    pub no_web: bool,
    /// Whether actions that need acceptance are disabled.
    pub no_proposals: bool,
    /// Whether proposals are accepted without asking the user.
    pub yolo: bool,
}

impl RunFlags {
    /// Reads the flags of a loop.
    fn of(config: &Value) -> Self {
        let flag = |name: &str| config[name] == Value::Bool(true);
        Self {
            no_repo: flag("noRepo"),
            no_interaction: flag("noInteraction"),
            no_web: flag("noWeb"),
            no_proposals: flag("noProposals"),
            yolo: flag("yolo"),
        }
    }

    /// Returns the flags with the names that loops, hooks and clients use.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "noRepo": self.no_repo, "noInteraction": self.no_interaction, "noWeb": self.no_web,
            "noProposals": self.no_proposals, "yolo": self.yolo,
        })
    }
}

/// A request to start or continue a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    /// Name of the run; an existing run with this name continues.
    pub alias: String,
    /// Prompt of the user.
    pub prompt: String,
    /// Mode, which limits the available commands.
    pub mode: Mode,
    /// The flags.
    pub flags: RunFlags,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Name of the run.
    pub alias: String,
    /// HTTP status: 200 done, 204 nothing to do, 422 not possible, 499 aborted or cancelled, 500 failed.
    pub status: u16,
    /// Number of turns of this loop.
    pub turns: u64,
    /// The last text of the model.
    pub summary: Option<String>,
    /// Reason why the run was aborted; `None` if it was not.
    pub reason: Option<String>,
}

/// The client of a run.
pub trait RunClient {
    /// Receives a notification of the client protocol about a run of a project.
    fn notify(&self, project: i64, notification: &Notification);

    /// Decides about a proposal. An implementation that never decides leaves it to other callers that resolve the entry.
    fn decide<'a>(&'a self, proposal: &'a Proposal) -> LocalBoxFuture<'a, Decision>;

    /// Returns whether the client runs the commands that it accepts, and streams their output.
    fn runs_commands(&self) -> bool {
        false
    }
}

/// Opens the models of runs.
pub trait ModelSource {
    /// Opens the model of an alias; `None` opens the default model.
    fn open<'m>(&'m self, alias: Option<&'m str>) -> LocalBoxFuture<'m, Result<Arc<dyn Provider>, RummyError>>;
}

/// Uses one model for all runs.
impl ModelSource for Arc<dyn Provider> {
    fn open<'m>(&'m self, _: Option<&'m str>) -> LocalBoxFuture<'m, Result<Arc<dyn Provider>, RummyError>> {
        std::future::ready(Ok(Arc::clone(self))).boxed_local()
    }
}

/// Limits of a run; [`settings`](crate::settings) has the defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    /// Maximum number of turns of one loop.
    pub turns: u64,
    /// Maximum number of commands of one turn.
    pub commands: usize,
    /// Numbers of strikes and cycles after which a run is aborted.
    pub verdict: verdict::Limits,
    /// Share of the model's context that may be used.
    pub budget: budget::Limits,
    /// Size of the model's context in tokens, for models that do not state it.
    pub context: i64,
}

impl Default for RunLimits {
    fn default() -> Self {
        let (verdict, budget) = (verdict::Limits::default(), budget::Limits::default());
        Self { turns: 15, commands: 99, verdict, budget, context: 128_000 }
    }
}

/// A project of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Number of the project in the store.
    pub id: i64,
    /// Name of the project.
    pub name: String,
    /// Folder of the project.
    pub root: PathBuf,
}

/// Drives the runs of one store. Clones share everything except the cancellation token.
#[derive(Clone)]
pub struct RunDriver<'a> {
    pub(crate) realm: &'a PluginRealm,
    pub(crate) models: &'a dyn ModelSource,
    pub(crate) ambient: Ambient,
    pub(crate) limits: RunLimits,
    pub(crate) client: &'a dyn RunClient,
    pub(crate) cancel: CancellationToken,
    pub(crate) resolving: Rc<Resolving>,
    pub(crate) rules: Option<&'a RuleSet>,
    /// Number of requests to models, for handlers that read their streams.
    pub(crate) attempts: Rc<Cell<u32>>,
}

/// A running loop.
pub(crate) struct Loop {
    pub(crate) project: Project,
    pub(crate) run_id: i64,
    pub(crate) loop_id: i64,
    pub(crate) alias: String,
    pub(crate) prompt: String,
    pub(crate) mode: Mode,
    pub(crate) flags: RunFlags,
    pub(crate) model: Arc<dyn Provider>,
    pub(crate) context_size: i64,
    pub(crate) tools: Vec<Value>,
    pub(crate) start_turn: i64,
    pub(crate) iteration: u64,
    pub(crate) judge: Judge,
    pub(crate) rules: RefCell<Option<RuleEngine>>,
}

/// The outcome of a turn.
pub(crate) struct TurnEnd {
    pub(crate) goes_on: bool,
    pub(crate) status: u16,
    pub(crate) summary: Option<String>,
    pub(crate) reason: Option<String>,
}

impl TurnEnd {
    pub(crate) fn stop(status: u16, reason: impl Into<Option<String>>) -> Self {
        Self { goes_on: false, status, summary: None, reason: reason.into() }
    }
}

impl<'a> RunDriver<'a> {
    /// Creates a driver.
    pub fn new(
        realm: &'a PluginRealm,
        models: &'a dyn ModelSource,
        ambient: Ambient,
        limits: RunLimits,
        client: &'a dyn RunClient,
    ) -> Self {
        let (cancel, resolving, attempts) = (CancellationToken::new(), Rc::default(), Rc::default());
        Self { realm, models, ambient, limits, client, cancel, resolving, rules: None, attempts }
    }

    /// Sets the native rules that are applied to replies.
    #[must_use]
    pub fn with_rules(self, rules: Option<&'a RuleSet>) -> Self {
        Self { rules, ..self }
    }

    /// Returns the token that cancels the driver's runs.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns a clone with another cancellation token, for individual runs.
    #[must_use]
    pub fn with_cancel(&self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self.clone() }
    }

    /// Creates a project in the store, or returns the existing one.
    ///
    /// # Errors
    ///
    /// Fails if the store or a plugin rejects the project.
    pub async fn project(&self, name: &str, root: PathBuf) -> Result<Project, RummyError> {
        self.emit("project.init.started", json!({ "projectName": name, "projectRoot": root })).await?;
        let shown = root.to_string_lossy();
        let id = self.store(|store| store.upsert_project(name, Some(&shown), None))?;
        let made = json!({ "id": id, "name": name, "project_root": root, "config_path": null });
        self.emit("project.init.completed", made).await?;
        Ok(Project { id, name: name.to_owned(), root })
    }

    /// Queues a prompt, and returns the number of its run. If the run is in progress, its current loop is cancelled.
    ///
    /// # Errors
    ///
    /// Fails when the run belongs to another project, when no model is available, and when the store fails.
    pub async fn begin(&self, project: &Project, request: &RunRequest) -> Result<i64, RummyError> {
        let RunRequest { alias, prompt, mode, flags } = request;
        let model = self.models.open(None).await?.model().id.clone();
        let existing = self.store(|store| store.run_by_alias(alias))?;
        if let Some(run_id) = existing
            && self.run_row(run_id)?["project_id"].as_i64() != Some(project.id)
        {
            return Err(RummyError::Store(format!("the run {alias} belongs to another project")));
        }
        self.store(|store| {
            let run_id = match existing {
                Some(run_id) => {
                    store.interrupt(run_id, "interrupted")?;
                    run_id
                }
                None => store.start_run(&Start {
                    project_id: project.id,
                    alias: alias.clone(),
                    model: model.clone(),
                    prompt: prompt.clone(),
                    ..Start::default()
                })?,
            };
            store.enqueue_loop(run_id, *mode, Some(&model), prompt, &flags.to_json())?;
            Ok(run_id)
        })
    }

    /// Runs a prompt to its end.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin) and [`drain`](Self::drain).
    pub async fn run(&self, project: &Project, request: &RunRequest) -> Result<RunOutcome, RummyError> {
        let run_id = self.begin(project, request).await?;
        let outcome = self.drain(run_id).await?;
        outcome.ok_or_else(|| RummyError::Store(format!("the run {} is running already", request.alias)))
    }

    /// Runs the queued loops of a run. Returns the outcome of the last one; `None` if the queue was empty.
    ///
    /// # Errors
    ///
    /// Fails when the plugins' realm or the store fails. Mistakes of a model or a tool are not errors.
    pub async fn drain(&self, run_id: i64) -> Result<Option<RunOutcome>, RummyError> {
        let mut last = None;
        while !self.cancel.is_cancelled()
            && let Some(claimed) = self.store(|store| store.claim_loop(run_id))?
        {
            last = Some(self.run_loop(run_id, claimed).await?);
        }
        Ok(last)
    }

    /// Runs a loop that was claimed.
    async fn run_loop(&self, run_id: i64, claimed: Claimed) -> Result<RunOutcome, RummyError> {
        let alias = self.alias(run_id)?;
        self.store(|store| store.set_run_status(run_id, &alias, status::RUNNING))?;
        let (loop_id, mode) = (claimed.id, claimed.mode.as_str());
        let done = match self.open_loop(run_id, claimed).await {
            Ok(mut state) => self.turns(&mut state).await.map(|end| (end, state.iteration)),
            Err(RummyError::Model(message)) => Ok((TurnEnd::stop(500, message), 0)),
            Err(error) => Err(error),
        };
        // Every subscriber that was notified of the start is also notified of the end, even after an error.
        let (end, turns) = match &done {
            Ok((end, turns)) => (end.status, *turns),
            Err(_) => (500, 0),
        };
        let of_run = match end {
            200 | 204 => status::COMPLETED,
            499 => status::ABORTED,
            _ => status::FAILED,
        };
        let alias = self.alias(run_id)?;
        self.store(|store| {
            store.complete_loop(loop_id, i64::from(end), &Value::Null)?;
            store.set_run_status(run_id, &alias, of_run)?;
            match pijs_dialect_rummy::run::entry_state(of_run).filter(|state| *state != State::Resolved) {
                Some(state) => {
                    let set = Set::new(run_id, &format!("run://{alias}")).state(state);
                    store.set(&set.outcome(format!("status:{end}")), Writer::System)
                }
                None => Ok(()),
            }
        })?;
        let project_id = self.run_row(run_id)?["project_id"].as_i64().unwrap_or_default();
        if let Ok((end, _)) = &done {
            let turn = self.run_row(run_id)?["next_turn"].as_i64().unwrap_or(1) - 1;
            let summary = end.summary.as_deref().unwrap_or_default();
            self.notify_state(project_id, run_id, (turn, i64::from(end.status)), summary, true).await?;
        }
        if !matches!(done, Err(RummyError::Ended(_))) {
            let facts = json!({ "projectId": project_id, "run": alias, "status": end, "turn": turns });
            self.emit(&format!("{mode}.completed"), facts).await?;
            let over = json!({ "runId": run_id, "loopId": loop_id, "mode": mode, "turns": turns });
            self.emit("loop.completed", over).await?;
        }
        let (end, turns) = done?;
        Ok(RunOutcome { alias, status: end.status, turns, summary: end.summary, reason: end.reason })
    }

    /// Creates the state of a claimed loop from the run's configuration and from the turns of a killed process.
    async fn open_loop(&self, run_id: i64, claimed: Claimed) -> Result<Loop, RummyError> {
        let row = self.run_row(run_id)?;
        let project_row =
            self.store(|store| store.statement("get_project_by_id", "get", &json!({ "id": row["project_id"] })))?;
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let project = Project {
            id: project_row["id"].as_i64().unwrap_or_default(),
            name: text(&project_row, "name"),
            root: text(&project_row, "project_root").into(),
        };
        let turns = self.store(|store| store.turns_of_loop(claimed.id))?;
        let (mode, flags) = (claimed.mode, RunFlags::of(&claimed.config));
        let model = self.models.open(claimed.model.as_deref().or(row["model"].as_str())).await?;
        let alias = text(&row, "alias");
        let started = json!({
            "projectId": project.id, "model": model.model().id, "prompt": claimed.prompt, "run": alias,
            "projectBufferFiles": [],
        });
        self.emit(&format!("{}.started", mode.as_str()), started).await?;
        let row = match claimed.sequence == 1 && turns.is_empty() {
            true => self.configure(run_id, row).await?,
            false => row,
        };
        let size =
            model.model().context_window().and_then(|size| i64::try_from(size).ok()).unwrap_or(self.limits.context);
        let context_size = row["context_limit"].as_i64().map_or(size, |limit| limit.min(size));
        let started = json!({ "runId": run_id, "loopId": claimed.id, "mode": mode.as_str(), "prompt": claimed.prompt });
        self.emit("loop.started", started).await?;
        let wanted = json!({ "mode": mode.as_str(), "flags": flags.to_json() });
        let tools = self.realm.deliver("toolset", wanted).await?.value;
        Ok(Loop {
            project,
            run_id,
            loop_id: claimed.id,
            alias,
            prompt: claimed.prompt,
            mode,
            flags,
            model,
            context_size,
            tools: tools.as_array().cloned().unwrap_or_default(),
            start_turn: turns.first().copied().unwrap_or_default(),
            iteration: turns.len() as u64,
            judge: Judge::new(self.limits.verdict),
            rules: RefCell::new(self.rules.map(|rules| rules.engine(0))),
        })
    }

    /// Lets plugins change the configuration of a new run, and notifies them of the run.
    async fn configure(&self, run_id: i64, row: Value) -> Result<Value, RummyError> {
        let config = self.realm.filter("run.config", row.clone(), vec![]).await?;
        if config != row {
            let mut values = config.as_object().cloned().unwrap_or_default();
            values.insert("id".to_owned(), run_id.into());
            self.store(|store| store.statement("update_run_config", "run", &Value::Object(values)))?;
        }
        let created = json!({ "runId": run_id, "alias": row["alias"], "forkedFrom": row["parent_run_id"] });
        self.emit("run.created", created).await?;
        self.run_row(run_id)
    }

    async fn turns(&self, state: &mut Loop) -> Result<TurnEnd, RummyError> {
        if state.iteration > 0 {
            self.settle_left_open(state).await?;
        }
        while state.iteration < self.limits.turns {
            if self.cancel.is_cancelled() {
                return Ok(TurnEnd::stop(499, "the run was cancelled".to_owned()));
            }
            state.iteration += 1;
            let end = self.turn(state).await?;
            if self.cancel.is_cancelled() {
                return Ok(TurnEnd { summary: end.summary, ..TurnEnd::stop(499, "the run was cancelled".to_owned()) });
            }
            if !end.goes_on {
                return Ok(end);
            }
        }
        let reason = format!("the run did not end within {} turns; RUMMY_MAX_TURNS allows more", self.limits.turns);
        Ok(TurnEnd::stop(499, reason))
    }

    /// Accesses the store as the host.
    pub(crate) fn store<T>(
        &self,
        work: impl FnOnce(&mut pijs_dialect_rummy::Store) -> Result<T, StoreError>,
    ) -> Result<T, RummyError> {
        self.realm.entries().with(work)
    }

    pub(crate) fn run_row(&self, run_id: i64) -> Result<Value, RummyError> {
        self.store(|store| store.statement("get_run_by_id", "get", &json!({ "id": run_id })))
    }

    /// Returns the alias of a run, which clients may change while it runs.
    pub(crate) fn alias(&self, run_id: i64) -> Result<String, RummyError> {
        Ok(self.run_row(run_id)?["alias"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn set_status(&self, run_id: i64, status: i64) -> Result<(), RummyError> {
        let alias = self.alias(run_id)?;
        self.store(|store| store.set_run_status(run_id, &alias, status))
    }

    pub(crate) async fn emit(&self, hook: &str, payload: Value) -> Result<Vec<Fault>, RummyError> {
        self.realm.emit(hook, vec![payload]).await
    }

    /// Notifies clients and plugins of a run's state.
    pub(crate) async fn notify_state(
        &self,
        project: i64,
        run_id: i64,
        at: (i64, i64),
        summary: &str,
        has_ended_turn: bool,
    ) -> Result<(), RummyError> {
        let facts = self.store(|store| store.run_state(run_id, at, summary, has_ended_turn))?;
        self.client.notify(project, &facts);
        let mut payload = serde_json::to_value(&facts).unwrap_or_default()["params"].take();
        payload["projectId"] = project.into();
        self.emit("run.state", payload).await.map(drop)
    }
}

/// Parses the attributes of a row, which the store keeps as JSON text.
pub(crate) fn attributes_of(row: &Value) -> Map<String, Value> {
    match &row["attributes"] {
        Value::Object(attributes) => attributes.clone(),
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        _ => Map::new(),
    }
}
