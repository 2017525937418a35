//! Implements the methods of the protocol.

use super::catalogue::{self, Call, Offered, Tool, catalogue};
use super::{Connection, Incoming, PROTOCOL, Project, Reply};
use crate::entry::{Entry, State, Visibility};
use crate::error::StoreError;
use crate::proposal::{Action, Resolution};
use crate::run::{Mode, Start};
use crate::store::{Relocate, Removal, Set, Store, Target};
use crate::stream::End;
use crate::text;
use crate::writer::Writer;
use serde_json::{Map, Value, json};

/// Work that the host has to do for a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Runs the queued loops of a run, after the loop that is currently running.
    Drain {
        /// Id of the run.
        run_id: i64,
        /// Alias of the run.
        alias: String,
    },
    /// Stops the current loop of a run.
    Abort {
        /// Id of the run.
        run_id: i64,
        /// Alias of the run.
        alias: String,
    },
    /// Runs the filters of a proposal, and settles the proposal.
    Resolve(Box<Resolution>),
    /// Dispatches a tool to its handlers.
    Tool(ToolCall),
    /// Calls a method of a plugin.
    Plugin {
        /// Name of the method.
        method: String,
        /// Parameters of the call.
        params: Map<String, Value>,
    },
    /// Notifies clients that a producer was cancelled.
    Cancelled {
        /// Alias of the run.
        run: String,
        /// Path of the producer's log entry.
        path: String,
        /// Reason of the cancellation, if the client passed one.
        reason: Option<String>,
    },
}

/// A tool that a client called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Id of the run.
    pub run_id: i64,
    /// Name of the tool.
    pub name: String,
    /// The path attribute of the tag.
    pub path: String,
    /// Body of the tag.
    pub body: String,
    /// Attributes of the tag, including `to`.
    pub attributes: Map<String, Value>,
}

/// Attributes of a run that its loops store as flags.
const FLAGS: &[&str] = &["noRepo", "noInteraction", "noWeb", "noProposals", "yolo"];

impl Connection {
    pub(super) fn perform(
        &mut self,
        store: &mut Store,
        incoming: &Incoming,
        offered: &Offered,
        now: i64,
    ) -> Result<Reply, StoreError> {
        let method = incoming.method.as_str();
        let params = Value::Object(incoming.params.clone());
        let call = serde_json::from_value::<Call>(json!({ "method": method, "params": params }));
        let call = match call {
            Ok(call) => call,
            Err(_) if offered.methods.contains_key(method) && !is_method(method) => {
                let needs_project = offered.methods[method]["requiresInit"] == Value::Bool(true);
                if needs_project && self.project.is_none() {
                    return Err(no_project(method));
                }
                let params = incoming.params.clone();
                return Ok(Reply::Work(Work::Plugin { method: method.to_owned(), params }));
            }
            Err(_) if offered.tools.iter().any(|tool| tool == method) && !is_method(method) => {
                return self.tool(store, method, params);
            }
            Err(_) if !is_method(method) && replacement(method).is_some() => {
                let instead = replacement(method).unwrap_or_default();
                return Err(StoreError::invalid(format!("protocol {PROTOCOL} has no method {method}; use {instead}")));
            }
            Err(_) if !is_method(method) => {
                return Err(StoreError::invalid(format!(
                    "protocol {PROTOCOL} has no method {method}; call discover for the list"
                )));
            }
            Err(error) => return Err(StoreError::invalid(format!("{method}: {error}"))),
        };
        match call {
            Call::Ping(_) => return Ok(Reply::Done(json!({}))),
            Call::Discover(_) => return Ok(Reply::Done(catalogue(offered))),
            Call::Hello(hello) => return self.hello(store, &hello).map(Reply::Done),
            Call::GetModels(page) => {
                let page = json!({ "limit": page.limit, "offset": page.offset });
                let models = store.rows("get_models", &page)?;
                let named = |row: &Value| json!({ "alias": row["alias"], "actual": row["actual"], "context_length": row["context_length"] });
                return Ok(Reply::Done(models.as_array().into_iter().flatten().map(named).collect()));
            }
            Call::AddModel(model) => {
                let values =
                    json!({ "alias": model.alias, "actual": model.actual, "context_length": model.context_length });
                let row = store.statement("upsert_model", "get", &values)?;
                return Ok(Reply::Done(json!({ "id": row["id"], "alias": model.alias })));
            }
            Call::RemoveModel(model) => {
                store.statement("delete_model", "run", &json!({ "alias": model.alias }))?;
                return Ok(Reply::Done(json!({ "status": "ok" })));
            }
            _ => {}
        }
        let Some(project) = self.project.clone() else {
            return Err(no_project(method));
        };
        let model = offered.model.as_deref();
        InProject { store, project, now, model }.perform(call)
    }

    fn hello(&mut self, store: &mut Store, hello: &catalogue::Hello) -> Result<Value, StoreError> {
        let major = |version: &str| version.split('.').next().unwrap_or_default().to_owned();
        if let Some(client) = &hello.client_version
            && major(client) != major(PROTOCOL)
        {
            return Err(StoreError::invalid(format!(
                "protocol mismatch: server {PROTOCOL}, client {client}. Clients must match MAJOR."
            )));
        }
        if hello.name.is_empty() || hello.project_root.is_empty() {
            return Err(StoreError::invalid("rummy/hello: name and projectRoot are required"));
        }
        let id = store.upsert_project(&hello.name, Some(&hello.project_root), hello.config_path.as_deref())?;
        self.project = Some(Project { id, root: hello.project_root.clone() });
        Ok(json!({ "rummyVersion": PROTOCOL, "projectId": id, "projectRoot": hello.project_root }))
    }

    fn tool(&self, store: &mut Store, name: &str, params: Value) -> Result<Reply, StoreError> {
        let Some(project) = self.project.clone() else {
            return Err(no_project(name));
        };
        let tool: Tool =
            serde_json::from_value(params).map_err(|error| StoreError::invalid(format!("{name}: {error}")))?;
        let run_id = InProject { store, project, now: 0, model: None }.run(Some(&tool.run))?;
        let mut attributes = tool.attributes.unwrap_or_default();
        if let Some(to) = tool.to {
            attributes.insert("to".to_owned(), to.into());
        }
        Ok(Reply::Work(Work::Tool(ToolCall {
            run_id,
            name: name.to_owned(),
            path: tool.path,
            body: tool.body,
            attributes,
        })))
    }
}

/// Returns the call that replaces a method of protocol 1, from the table of rummy's plugin guide, "Retired Methods".
fn replacement(method: &str) -> Option<&'static str> {
    Some(match method {
        "init" => "rummy/hello",
        "ask" | "act" | "startRun" => "set { path: \"run://ALIAS\", body, attributes: { model, mode } }",
        "run/resolve" => "set { run, path, state, body }",
        "run/abort" | "run/cancel" => "set { path: \"run://ALIAS\", state: \"cancelled\" }",
        "run/rename" => "mv { run, from: \"run://OLD\", to: \"run://NEW\" }",
        "run/inject" => "set { path: \"run://ALIAS\", body }",
        "run/config" => "set { path: \"run://ALIAS\", attributes }",
        "store" => "set { run, path, visibility: \"summarized\", pattern: true }, or file/constraint and file/drop",
        _ => return None,
    })
}

/// Returns whether the protocol has the method.
fn is_method(method: &str) -> bool {
    catalogue(&Offered::default())["methods"].get(method).is_some()
}

fn no_project(method: &str) -> StoreError {
    StoreError::invalid(format!("{method}: the connection has no project; call rummy/hello first"))
}

/// The context of a call after the handshake.
struct InProject<'a> {
    store: &'a mut Store,
    project: Project,
    now: i64,
    /// Alias of the default model, for runs that do not name one.
    model: Option<&'a str>,
}

impl InProject<'_> {
    /// Performs a call. Has an arm for each method of the protocol.
    fn perform(&mut self, call: Call) -> Result<Reply, StoreError> {
        let ok = || Ok(Reply::Done(json!({ "ok": true })));
        match call {
            Call::Set(set) => self.set(*set),
            Call::Get(get) => {
                let run_id = self.run(Some(&get.run))?;
                let shown = self.visibility(get.visibility.as_deref())?.unwrap_or(Visibility::Visible);
                let turn = self.row(run_id)?["next_turn"].as_i64().unwrap_or(0);
                let target = Target { run_id, turn, path: get.path, body_filter: get.body_filter };
                self.store.get(&target, shown, Writer::Client)?;
                ok()
            }
            Call::Rm(rm) => {
                let run_id = self.run(Some(&rm.run))?;
                let target = Target { run_id, turn: 0, path: rm.path, body_filter: rm.body_filter };
                self.store.rm(&Removal { target, files_only: false }, Writer::Client)?;
                ok()
            }
            Call::Cp(relocate) | Call::Mv(relocate) if relocate.from.starts_with("run://") => self.rename(&relocate),
            Call::Cp(copy) => {
                let copy = self.relocate(copy)?;
                self.store.cp(&copy, Writer::Client)?;
                ok()
            }
            Call::Mv(movement) => {
                let movement = self.relocate(movement)?;
                self.store.mv(&movement, Writer::Client)?;
                ok()
            }
            Call::Update(update) => {
                let run_id = self.run(Some(&update.run))?;
                let set = Set { attributes: update.attributes, ..Set::new(run_id, "update://").body(update.body) };
                let path = self.store.update(&set, update.status.unwrap_or(102), Writer::Client)?;
                Ok(Reply::Done(json!({ "ok": true, "path": path })))
            }
            Call::GetRuns(page) => {
                let values = json!({ "project_id": self.project.id, "limit": page.limit, "offset": page.offset });
                let runs = self.store.rows("get_runs_by_project", &values)?;
                let named = |row: &Value| {
                    json!({
                        "run": row["alias"], "status": row["status"], "turn": row["turn"], "summary": row["summary"],
                        "created": row["created_at"],
                    })
                };
                Ok(Reply::Done(runs.as_array().into_iter().flatten().map(named).collect()))
            }
            Call::GetRun(run) => self.get_run(&run.run).map(Reply::Done),
            Call::GetEntries(query) => self.get_entries(&query).map(Reply::Done),
            Call::FileConstraint(constraint) => {
                if !matches!(constraint.visibility.as_str(), "active" | "add" | "readonly" | "ignore") {
                    return Err(StoreError::invalid(
                        "file/constraint: visibility must be one of active, readonly, ignore",
                    ));
                }
                let values = json!({
                    "project_id": self.project.id, "pattern": constraint.pattern, "visibility": constraint.visibility,
                });
                self.store.statement("upsert_file_constraint", "run", &values)?;
                Ok(Reply::Done(json!({ "ok": true, "pattern": constraint.pattern })))
            }
            Call::FileDrop(constraint) => {
                let values = json!({ "project_id": self.project.id, "pattern": constraint.pattern });
                self.store.statement("delete_file_constraint", "run", &values)?;
                Ok(Reply::Done(json!({ "ok": true, "pattern": constraint.pattern })))
            }
            Call::GetConstraints(_) => {
                Ok(Reply::Done(self.store.rows("get_file_constraints", &json!({ "project_id": self.project.id }))?))
            }
            Call::Stream(stream) => {
                let run_id = self.run(Some(&stream.run))?;
                self.store.append_chunk(run_id, &stream.path, stream.channel, &stream.chunk)?;
                Ok(Reply::Done(json!({ "status": "ok" })))
            }
            Call::StreamCompleted(end) => {
                let run_id = self.run(Some(&end.run))?;
                let exit_code = end.exit_code.unwrap_or(0);
                let channels =
                    self.store.end_stream(run_id, &end.path, &End::Completed { exit_code }, end.duration.as_deref())?;
                Ok(Reply::Done(json!({ "ok": true, "channels": channels })))
            }
            Call::StreamAborted(end) => {
                let run_id = self.run(Some(&end.run))?;
                let how = End::Aborted { reason: end.reason };
                let channels = self.store.end_stream(run_id, &end.path, &how, end.duration.as_deref())?;
                Ok(Reply::Done(json!({ "status": "ok", "channels": channels })))
            }
            Call::StreamCancel(end) => {
                let run_id = self.run(Some(&end.run))?;
                let how = End::Cancelled { reason: end.reason.clone() };
                let channels = self.store.end_stream(run_id, &end.path, &how, None)?;
                let work = Work::Cancelled { run: end.run, path: end.path, reason: end.reason };
                Ok(Reply::Begun(json!({ "ok": true, "channels": channels }), work))
            }
            Call::Ping(_)
            | Call::Discover(_)
            | Call::Hello(_)
            | Call::GetModels(_)
            | Call::AddModel(_)
            | Call::RemoveModel(_) => ok(),
        }
    }

    /// Returns the id of the run with this alias.
    ///
    /// Fails for a run of another project with the same error as for a run that does not exist.
    fn run(&mut self, alias: Option<&str>) -> Result<i64, StoreError> {
        let Some(alias) = alias.filter(|alias| !alias.is_empty()) else {
            return Err(StoreError::invalid("run is required: pass the alias of the run"));
        };
        match self.known(alias)? {
            Some(run_id) => Ok(run_id),
            None => Err(StoreError::invalid(format!("run not found: {alias}; list runs with getRuns"))),
        }
    }

    fn known(&mut self, alias: &str) -> Result<Option<i64>, StoreError> {
        let row = self.store.statement("get_run_by_alias", "get", &json!({ "alias": alias }))?;
        Ok(row["id"].as_i64().filter(|_| row["project_id"] == self.project.id))
    }

    fn row(&mut self, run_id: i64) -> Result<Value, StoreError> {
        self.store.statement("get_run_by_id", "get", &json!({ "id": run_id }))
    }

    fn visibility(&self, word: Option<&str>) -> Result<Option<Visibility>, StoreError> {
        let Some(word) = word else { return Ok(None) };
        match self.store.options().profile.visibility(word) {
            Some(visibility) => Ok(Some(visibility)),
            None => Visibility::parse(word).map(Some),
        }
    }

    fn relocate(&mut self, relocate: catalogue::Relocate) -> Result<Relocate, StoreError> {
        let run_id = self.run(relocate.run.as_deref())?;
        let visibility = self.visibility(relocate.visibility.as_deref())?;
        Ok(Relocate { from: relocate.from, to: Set { visibility, ..Set::new(run_id, &relocate.to) } })
    }

    /// Renames a run.
    fn rename(&mut self, relocate: &catalogue::Relocate) -> Result<Reply, StoreError> {
        let alias = |path: &str| path.strip_prefix("run://").filter(|alias| !alias.is_empty()).map(str::to_owned);
        let (Some(old), Some(new)) = (alias(&relocate.from), alias(&relocate.to)) else {
            return Err(StoreError::invalid("mv: a run is renamed to another run: pass run://ALIAS for both"));
        };
        let run_id = self.run(Some(&old))?;
        let values = json!({ "id": run_id, "old_alias": old, "new_alias": new });
        self.store.statement("rename_run", "run", &values)?;
        let to = Set::new(run_id, &relocate.to);
        if let Some(entry) = self.store.entry(run_id, &relocate.from)? {
            let attributes = serde_json::from_str(&entry.attributes).unwrap_or_default();
            let set = Set { state: Some(entry.state), body: Some(entry.body), ..to.attributes(attributes) };
            self.store.set(&set, Writer::System)?;
            let target = Target { run_id, path: relocate.from.clone(), ..Target::default() };
            self.store.rm(&Removal { target, files_only: false }, Writer::System)?;
        }
        Ok(Reply::Done(json!({ "ok": true, "alias": new })))
    }

    fn set(&mut self, set: catalogue::Set) -> Result<Reply, StoreError> {
        if text::scheme_of(&set.path).is_some_and(|scheme| scheme.eq_ignore_ascii_case("run")) {
            let path = text::normalize_path(&set.path);
            return self.set_run(catalogue::Set { path, ..set });
        }
        let run_id = self.run(set.run.as_deref())?;
        let state = set.state.as_deref().map(State::parse).transpose()?;
        if let Some(action) = state.and_then(Action::of_state).filter(|_| !set.append && !set.pattern) {
            let is_proposed = self.store.entry(run_id, &set.path)?.is_some_and(|entry| entry.state == State::Proposed);
            if is_proposed {
                return self.resolve(run_id, &set.path, action, set.body);
            }
        }
        let visibility = self.visibility(set.visibility.as_deref())?;
        let set = Set {
            project_id: Some(self.project.id),
            body: set.body,
            state,
            visibility,
            outcome: set.outcome,
            attributes: set.attributes,
            append: set.append,
            pattern: set.pattern,
            body_filter: set.body_filter,
            ..Set::new(run_id, &set.path)
        };
        self.store.set(&set, Writer::Client)?;
        Ok(Reply::Done(json!({ "ok": true })))
    }

    fn resolve(
        &mut self,
        run_id: i64,
        path: &str,
        action: Action,
        output: Option<String>,
    ) -> Result<Reply, StoreError> {
        Ok(match self.store.begin_resolution(run_id, path, action, output)? {
            Ok(resolution) => Reply::Work(Work::Resolve(Box::new(resolution))),
            Err(settled) => Reply::Done(json!({ "ok": true, "state": settled.state, "outcome": settled.outcome })),
        })
    }

    /// Starts, continues, configures or cancels a run.
    fn set_run(&mut self, set: catalogue::Set) -> Result<Reply, StoreError> {
        let attributes = set.attributes.unwrap_or_default();
        let model = attributes.get("model").and_then(Value::as_str).map(str::to_owned);
        let named = set.path.trim_start_matches("run://").to_owned();
        let existing = if named.is_empty() { None } else { self.known(&named)? };
        let is_fork = attributes.get("fork") == Some(&Value::Bool(true));
        let Some(run_id) = existing.filter(|_| !is_fork) else {
            let Some(model) = model.or_else(|| self.model.map(str::to_owned)) else {
                return Err(StoreError::invalid("set run://: attributes.model is required for a new run"));
            };
            if is_fork && existing.is_none() {
                return Err(StoreError::invalid(format!("run not found: {named}; fork an existing run")));
            }
            return self.start(if is_fork { String::new() } else { named }, &model, set.body, &attributes, existing);
        };
        let work = |alias: &str| Work::Drain { run_id, alias: alias.to_owned() };
        let answer = json!({ "ok": true, "alias": named });
        match set.state.as_deref().map(State::parse).transpose()? {
            Some(State::Cancelled) => {
                self.store.interrupt(run_id, set.outcome.as_deref().unwrap_or("the run was cancelled"))?;
                return Ok(Reply::Begun(answer, Work::Abort { run_id, alias: named }));
            }
            Some(state) => {
                let set = Set { outcome: set.outcome, ..Set::new(run_id, &set.path).state(state) };
                self.store.set(&set, Writer::Client)?;
                return Ok(Reply::Done(answer));
            }
            None => {}
        }
        if !attributes.is_empty() {
            let values = json!({
                "id": run_id, "model": model, "persona": attributes.get("persona"),
                "temperature": attributes.get("temperature"), "context_limit": attributes.get("contextLimit"),
            });
            self.store.statement("update_run_config", "run", &values)?;
            self.store.set_attributes(run_id, &set.path, attributes.clone(), Writer::Client)?;
        }
        let Some(body) = set.body.filter(|body| !body.is_empty()) else { return Ok(Reply::Done(answer)) };
        let mode = attributes.get("mode").and_then(Value::as_str).map_or(Ok(Mode::Ask), Mode::parse)?;
        let model = self.row(run_id)?["model"].as_str().map(str::to_owned);
        self.store.enqueue_loop(run_id, mode, model.as_deref(), &body, &flags(&attributes))?;
        Ok(Reply::Begun(answer, work(&named)))
    }

    fn start(
        &mut self,
        alias: String,
        model: &str,
        body: Option<String>,
        attributes: &Map<String, Value>,
        parent: Option<i64>,
    ) -> Result<Reply, StoreError> {
        let mode = attributes.get("mode").and_then(Value::as_str).map_or(Ok(Mode::Ask), Mode::parse)?;
        let alias = if alias.is_empty() { format!("{model}_{}", self.now) } else { alias };
        if text::normalize_path(&format!("run://{alias}")) != format!("run://{alias}") || alias.contains('/') {
            return Err(StoreError::invalid(format!(
                "set run://{alias}: an alias has letters, digits, `-`, `_` and `.` only"
            )));
        }
        if self.store.run_by_alias(&alias)?.is_some() {
            return Err(StoreError::invalid(format!("set run://{alias}: the alias is taken; choose another one")));
        }
        let start = Start {
            project_id: self.project.id,
            alias: alias.clone(),
            model: model.to_owned(),
            prompt: body.clone().unwrap_or_default(),
            parent,
            persona: attributes.get("persona").and_then(Value::as_str).map(str::to_owned),
            temperature: attributes.get("temperature").and_then(Value::as_f64),
            context_limit: attributes.get("contextLimit").and_then(Value::as_i64),
        };
        let run_id = self.store.start_run(&start)?;
        self.store.enqueue_loop(run_id, mode, Some(model), &body.unwrap_or_default(), &flags(attributes))?;
        Ok(Reply::Begun(json!({ "ok": true, "alias": alias }), Work::Drain { run_id, alias }))
    }

    fn get_entries(&mut self, query: &catalogue::GetEntries) -> Result<Value, StoreError> {
        let run_id = self.run(Some(&query.run))?;
        let pattern = query.pattern.as_deref().unwrap_or("**");
        let state = query.state.as_deref().map(State::parse).transpose()?;
        let visibility = self.visibility(query.visibility.as_deref())?;
        let fits = |entry: &Entry| {
            let scheme = text::registered_scheme(&entry.path);
            query.scheme.as_deref().is_none_or(|one| one == scheme)
                && state.is_none_or(|state| state == entry.state)
                && visibility.is_none_or(|visibility| visibility == entry.visibility)
        };
        let entries = self.store.entries_by_pattern(run_id, pattern, query.body_filter.as_deref())?;
        let row = |entry: &Entry| {
            let attributes: Value = serde_json::from_str(&entry.attributes).unwrap_or_default();
            json!({
                "path": entry.path, "scheme": entry.scheme, "state": entry.state, "outcome": entry.outcome,
                "visibility": entry.visibility, "turn": entry.turn, "tokens": entry.tokens, "attributes": attributes,
            })
        };
        Ok(entries.iter().filter(|entry| fits(entry)).map(row).collect())
    }

    fn get_run(&mut self, alias: &str) -> Result<Value, StoreError> {
        let run_id = self.run(Some(alias))?;
        let of_run = json!({ "run_id": run_id });
        let row = self.row(run_id)?;
        let usage = self.store.statement("get_run_usage", "get", &of_run)?;
        let history = self.store.rows("get_results", &of_run)?;
        let history: Vec<Value> = history.as_array().into_iter().flatten().map(history_line).collect();
        Ok(json!({
            "run": row["alias"], "turn": row["next_turn"].as_i64().unwrap_or(1) - 1, "status": row["status"],
            "model": row["model"], "temperature": row["temperature"], "persona": row["persona"],
            "context_limit": row["context_limit"],
            "context": {
                "telemetry": usage,
                "reasoning": self.store.rows("get_reasoning", &of_run)?,
                "content": self.store.rows("get_content", &of_run)?,
                "history": history,
                "unknowns": self.store.rows("get_unknowns", &of_run)?,
            },
            "last_user_prompt": self.store.statement("get_latest_user_prompt", "get", &of_run)?["body"].take(),
            "last_summary": self.store.statement("get_latest_summary", "get", &of_run)?["body"].take(),
        }))
    }
}

impl Store {
    /// Returns the state of a run for clients.
    pub fn run_state(
        &mut self,
        run_id: i64,
        (turn, status): (i64, i64),
        summary: &str,
        has_ended_turn: bool,
    ) -> Result<catalogue::Notification, StoreError> {
        let of_run = json!({ "run_id": run_id });
        let row = self.statement("get_run_by_id", "get", &json!({ "id": run_id }))?;
        let history = self.rows("get_results", &of_run)?;
        let unknowns = self.rows("get_unknowns", &of_run)?;
        let telemetry = match has_ended_turn {
            true => Some(self.statement("get_run_usage", "get", &of_run)?),
            false => None,
        };
        Ok(catalogue::Notification::RunState {
            run: row["alias"].as_str().unwrap_or_default().to_owned(),
            turn,
            status,
            summary: summary.to_owned(),
            history: history.as_array().into_iter().flatten().map(history_line).collect(),
            unknowns: unknowns.as_array().cloned().unwrap_or_default(),
            telemetry,
        })
    }
}

/// Returns a log entry in the format for clients: the action, and a status in place of state and outcome.
fn history_line(row: &Value) -> Value {
    let state = row["state"].as_str().and_then(|state| State::parse(state).ok());
    let status = state.map(|state| text::state_to_status(state, row["outcome"].as_str()));
    let path = row["path"].as_str().unwrap_or_default();
    let tool = text::action_of(path).map_or_else(|| row["tool"].clone(), Value::from);
    json!({
        "tool": tool, "path": path, "status": status, "body": row["body"], "turn": row["turn"],
        "attributes": row["attributes"],
    })
}

/// Returns the flags and the temperature that a loop stores.
fn flags(attributes: &Map<String, Value>) -> Value {
    let mut flags: Map<String, Value> = FLAGS
        .iter()
        .map(|flag| ((*flag).to_owned(), (attributes.get(*flag) == Some(&Value::Bool(true))).into()))
        .collect();
    if let Some(temperature) = attributes.get("temperature") {
        flags.insert("temperature".to_owned(), temperature.clone());
    }
    Value::Object(flags)
}
