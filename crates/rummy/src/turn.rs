//! Runs one turn: sends the entries to the model, and executes the commands of its reply in order.

use crate::error::RummyError;
use crate::packet::Packet;
use crate::realm::{Dispatched, TurnContext};
use crate::run::{Loop, RunDriver, TurnEnd};
use crate::service::CallPath;
use pijs_dialect_rummy::rpc::Notification;
use pijs_dialect_rummy::tags::{self, Command};
use pijs_dialect_rummy::verdict::{self, Verdict};
use pijs_dialect_rummy::{Profile, Set, State, Visibility, Writer};
use serde_json::{Value, json};

/// Maximum length of a command's path.
const LONGEST_PATH: usize = 512;

/// Outcomes that are not strikes, because they inform the model about the state.
const SOFT_OUTCOMES: &[&str] = &["not_found", "conflict", "permission"];

/// A running turn.
pub(crate) struct Turn<'t> {
    pub(crate) number: i64,
    /// Id of the turn's row in the store.
    pub(crate) id: Value,
    pub(crate) hooks: TurnContext<'t>,
    /// Context of handlers, whose writes count as the model's.
    pub(crate) handlers: TurnContext<'t>,
    /// Number of errors that belong to no action.
    pub(crate) errors: usize,
}

/// A command that was recorded.
struct Recorded {
    scheme: String,
    path: String,
    entry: Value,
    /// Whether a filter rejected it.
    is_rejected: bool,
}

impl RunDriver<'_> {
    /// Runs the next turn of a loop.
    pub(crate) async fn turn(&self, state: &mut Loop) -> Result<TurnEnd, RummyError> {
        let run_id = state.run_id;
        let number = self.store(|store| store.next_turn(run_id))?;
        if state.start_turn == 0 {
            state.start_turn = number;
        }
        let made = json!({ "run_id": run_id, "loop_id": state.loop_id, "sequence": number });
        let turn_id = self.store(|store| store.statement("create_turn", "get", &made))?["id"].take();
        let facts = |writer: &str| self.facts(state, number, &turn_id, writer);
        let hooks = self.realm.context(&format!("run{run_id}/turn{number}"), facts("plugin"), CallPath::Plugin).await?;
        let name = format!("run{run_id}/turn{number}/model");
        let handlers = self.realm.context(&name, facts("model"), CallPath::Model).await?;
        let mut turn = Turn { number, id: turn_id, hooks, handlers, errors: 0 };
        let end = self.turn_in(state, &mut turn).await;
        let Turn { hooks, handlers, .. } = turn;
        // A stopped realm cannot close contexts.
        if !matches!(end, Err(RummyError::Ended(_))) {
            handlers.close().await?;
            hooks.close().await?;
        }
        end
    }

    /// Returns the facts of a turn for the `rummy` object.
    pub(crate) fn facts(&self, state: &Loop, turn: i64, turn_id: &Value, writer: &str) -> Value {
        let mut facts = state.flags.to_json();
        let project = &state.project;
        let more = json!({
            "project": { "id": project.id, "name": project.name, "project_root": project.root },
            "projectId": project.id, "runId": state.run_id, "turnId": turn_id, "loopId": state.loop_id, "sequence": turn,
            "type": state.mode.as_str(), "toolSet": { "$set": state.tools }, "contextSize": state.context_size,
            "loopPrompt": state.prompt, "writer": writer,
        });
        if let (Some(facts), Value::Object(more)) = (facts.as_object_mut(), more) {
            facts.extend(more);
        }
        facts
    }

    async fn turn_in(&self, state: &mut Loop, turn: &mut Turn<'_>) -> Result<TurnEnd, RummyError> {
        let started = json!({
            "rummy": turn.hooks.reference(), "mode": state.mode.as_str(), "prompt": state.prompt,
            "isContinuation": state.iteration > 1, "loopIteration": state.iteration,
        });
        self.emit("turn.started", started).await?;
        let about = json!({ "toolSet": state.tools, "persona": self.run_row(state.run_id)?["persona"] });
        self.keep_audit(state, turn.number, "instructions://system", "", about)?;
        let packet = self.packet(state, turn).await?;
        self.progress(state, turn, "thinking").await?;
        let messages = match self.checked(state, turn, &packet).await? {
            Ok(messages) => messages,
            Err(message) => {
                self.log_error(state, turn, &message, 413, false).await?;
                return self.verdict(state, turn, &[], None).await;
            }
        };
        let model = state.model.model().id.clone();
        let about = json!({
            "model": model, "projectId": state.project.id, "runId": state.run_id, "runAlias": state.alias,
            "turn": turn.number,
        });
        let messages = self.realm.filter("llm.messages", messages, vec![about.clone()]).await?;
        for message in messages.as_array().into_iter().flatten() {
            if let (Some(role @ ("system" | "user")), Some(words)) =
                (message["role"].as_str(), message["content"].as_str())
            {
                self.keep_audit(state, turn.number, &format!("{role}://{}", turn.number), words, Value::Null)?;
            }
        }
        self.emit("llm.request.started", json!({ "model": model, "turn": turn.number })).await?;
        let reply = match self.complete(state, turn, &messages, &packet.system).await {
            Ok(reply) => reply,
            Err(RummyError::Model(_)) if self.cancel.is_cancelled() => return Ok(TurnEnd::stop(499, None)),
            Err(RummyError::Stopped(reason)) => return Ok(TurnEnd::stop(499, reason)),
            Err(RummyError::TooLong(message)) => {
                self.log_error(state, turn, &format!("413: {message}"), 413, false).await?;
                return self.verdict(state, turn, &[], None).await;
            }
            Err(RummyError::Model(message)) => {
                self.log_error(state, turn, &format!("504: {message}"), 504, false).await?;
                return self.verdict(state, turn, &[], None).await;
            }
            Err(error) => return Err(error),
        };
        let usage = reply["usage"].clone();
        let raw = self.realm.filter("llm.response", reply, vec![about]).await?;
        self.emit("llm.request.completed", json!({ "model": model, "turn": turn.number, "usage": usage })).await?;
        self.progress(state, turn, "processing").await?;
        let (content, commands) = self.read_reply(state, turn, &packet, raw).await?;
        let mut recorded = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            recorded.push(self.record(state, turn, at, command).await?);
        }
        if commands.iter().any(|command| command.name == "update") {
            self.dispatch_all(state, turn, &recorded).await?;
        } else {
            let words =
                "422: the turn has no <update>, so none of its commands was carried out; end each turn with one";
            self.log_error(state, turn, words, 422, false).await?;
            for one in recorded.iter().filter(|one| !one.is_rejected) {
                self.abort(state, one)?;
            }
        }
        self.after_dispatch(state, turn, &packet).await?;
        let commands: Vec<Value> = commands.iter().map(Command::to_json).collect();
        self.verdict(state, turn, &recorded, Some((&content, &commands))).await
    }

    /// Parses the commands of a reply and notifies plugins. Returns the text and the commands.
    async fn read_reply(
        &self,
        state: &Loop,
        turn: &mut Turn<'_>,
        packet: &Packet,
        raw: Value,
    ) -> Result<(String, Vec<Command>), RummyError> {
        let mut message = raw["choices"][0]["message"].clone();
        let content = message["content"].as_str().unwrap_or_default().to_owned();
        // A tag that is not advertised, for example in mode `ask`, is parsed as a command as well, so that the policy can reject
        // it.
        let of_plugins = state.tools.iter().filter_map(Value::as_str);
        let tools: Vec<&str> = Profile::v2().tools.iter().copied().chain(of_plugins).collect();
        let parsed = tags::parse_with(&content, &tools, self.limits.commands);
        for warning in &parsed.warnings {
            self.log_error(state, turn, warning, 422, true).await?;
        }
        let commands: Vec<Value> = parsed.commands.iter().map(Command::to_json).collect();
        let seed = message["reasoning_content"].take();
        let reasoning = self.realm.filter("llm.reasoning", seed, vec![json!({ "commands": commands })]).await?;
        self.stats(turn, &raw["usage"], packet.tokens, &reasoning)?;
        self.keep_audit(state, turn.number, &format!("assistant://{}", turn.number), &content, Value::Null)?;
        if let Some(thoughts) = reasoning.as_str().filter(|thoughts| !thoughts.is_empty()) {
            self.keep_audit(state, turn.number, &format!("reasoning://{}", turn.number), thoughts, Value::Null)?;
        }
        message["reasoning_content"] = reasoning;
        let response = json!({
            "rummy": turn.hooks.reference(), "turn": turn.number, "result": raw, "responseMessage": message,
            "content": content, "commands": commands, "unparsed": parsed.unparsed, "assembledTokens": packet.tokens,
            "contextSize": state.context_size, "systemMsg": packet.system, "userMsg": packet.messages[1]["content"],
        });
        self.emit("turn.response", response).await?;
        Ok((content, parsed.commands))
    }

    /// Records the request or reply of the model in an entry that the model does not see.
    fn keep_audit(&self, state: &Loop, turn: i64, path: &str, body: &str, attributes: Value) -> Result<(), RummyError> {
        let set = Set::new(state.run_id, path).body(body).attributes(attributes).visibility(Visibility::Archived);
        self.store(|store| store.set(&set.during(turn, Some(state.loop_id)), Writer::System))
    }

    pub(crate) async fn progress(&self, state: &Loop, turn: &Turn<'_>, status: &str) -> Result<(), RummyError> {
        let (run, number) = (self.alias(state.run_id)?, turn.number);
        let facts = json!({ "projectId": state.project.id, "run": run, "turn": number, "status": status });
        let notification = Notification::RunProgress { run, turn: number, status: status.to_owned() };
        self.client.notify(state.project.id, &notification);
        self.emit("run.progress", facts).await.map(drop)
    }

    fn stats(&self, turn: &Turn<'_>, usage: &Value, measured: i64, reasoning: &Value) -> Result<(), RummyError> {
        let count = |key: &str| usage[key].as_i64().unwrap_or_default();
        // The provider's count takes precedence over the estimate. The next turn's budget is based on it.
        let context = if count("prompt_tokens") > 0 { count("prompt_tokens") } else { measured };
        let said = json!({
            "id": turn.id, "context_tokens": context, "reasoning_content": reasoning, "prompt_tokens": count("prompt_tokens"),
            "cached_tokens": count("cached_tokens"), "completion_tokens": count("completion_tokens"),
            "reasoning_tokens": 0, "total_tokens": count("total_tokens"), "cost": 0,
        });
        self.store(|store| store.statement("update_turn_stats", "run", &said)).map(drop)
    }

    /// Records an error without an action, through the plugin that creates the entry. It is a strike unless its outcome is soft.
    pub(crate) async fn log_error(
        &self,
        state: &Loop,
        turn: &mut Turn<'_>,
        message: &str,
        status: u16,
        soft: bool,
    ) -> Result<(), RummyError> {
        turn.errors += usize::from(!soft);
        let error = json!({
            "store": turn.hooks.store(), "runId": state.run_id, "turn": turn.number, "loopId": state.loop_id,
            "message": message, "status": status, "soft": soft,
        });
        self.emit("error.log", error).await.map(drop)
    }

    /// Records a command before its execution.
    async fn record(
        &self,
        state: &Loop,
        turn: &Turn<'_>,
        at: usize,
        command: &Command,
    ) -> Result<Recorded, RummyError> {
        let target = ["path", "command", "question", "query", "body"].into_iter().find_map(|field| command.text(field));
        let target = target.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        let path = self.store(|store| store.log_path(state.run_id, turn.number, &command.name, &target))?;
        let mut attributes = command.fields.clone();
        let body = attributes.remove("body").and_then(|body| body.as_str().map(str::to_owned)).unwrap_or_default();
        let given = command.text("path").unwrap_or_default();
        let is_wrong = given.len() > LONGEST_PATH || given.chars().any(char::is_control);
        let (kept, outcome) = if is_wrong { ("failed", json!("validation")) } else { ("resolved", Value::Null) };
        let entry = json!({
            "scheme": command.name, "path": format!("{}://{target}", command.name), "body": body,
            "attributes": attributes, "resultPath": path, "state": kept, "outcome": outcome, "turn": turn.number,
        });
        let about = json!({
            "store": turn.hooks.store(), "runId": state.run_id, "turn": turn.number, "loopId": state.loop_id,
            "mode": state.mode.as_str(),
        });
        let entry = self.realm.filter("entry.recording", entry, vec![about]).await?;
        let is_rejected = matches!(entry["state"].as_str(), Some("failed" | "cancelled"));
        // An entry stays in progress until its handler has ended, so that a killed process leaves no entry that looks complete.
        let kept = entry["state"].as_str().and_then(|state| State::parse(state).ok()).filter(|_| is_rejected);
        let set = Set {
            outcome: entry["outcome"].as_str().map(str::to_owned),
            ..Set::new(state.run_id, &path).body(entry["body"].as_str().unwrap_or_default())
        };
        let set = set.state(kept.unwrap_or(State::Streaming)).visibility(Visibility::Visible);
        let set = set.during(turn.number, Some(state.loop_id)).attributes(entry["attributes"].clone());
        self.store(|store| if is_rejected { store.set(&set, Writer::System) } else { store.record(&set) })?;
        let entry = turn.hooks.shared(&format!("entry{at}"), entry);
        Ok(Recorded { scheme: command.name.clone(), path, entry, is_rejected })
    }

    /// Executes recorded commands in order. After a command that failed or was rejected, the remaining ones are aborted.
    async fn dispatch_all(&self, state: &Loop, turn: &mut Turn<'_>, recorded: &[Recorded]) -> Result<(), RummyError> {
        let mut aborted = false;
        for one in recorded {
            if one.is_rejected {
                continue;
            }
            // A signal that ends the turn takes effect even after an error.
            if aborted && one.scheme != "update" {
                self.abort(state, one)?;
                continue;
            }
            let succeeded = self.dispatch(state, turn, one).await?;
            aborted |= !succeeded;
            if self.cancel.is_cancelled() {
                aborted = true;
            }
        }
        Ok(())
    }

    /// Aborts a recorded command without executing it.
    fn abort(&self, state: &Loop, one: &Recorded) -> Result<(), RummyError> {
        let set = Set::new(state.run_id, &one.path).state(State::Cancelled).outcome("aborted");
        self.store(|store| store.set(&set, Writer::System))
    }

    async fn dispatch(&self, state: &Loop, turn: &mut Turn<'_>, one: &Recorded) -> Result<bool, RummyError> {
        let around = json!({ "entry": one.entry, "rummy": turn.handlers.reference() });
        self.emit("tool.before", around.clone()).await?;
        match self.realm.dispatch(&one.scheme, one.entry.clone(), &turn.handlers).await {
            Ok(Dispatched { refused: None, .. }) => {}
            // The store refused the handler's write; the refusal becomes the outcome of the action.
            Ok(Dispatched { refused: Some(refusal), .. }) => {
                let failed = Set::new(state.run_id, &one.path).body(refusal.message).state(State::Failed);
                let failed = failed.outcome(refusal.outcome).visibility(Visibility::Visible);
                self.store(|store| store.set(&failed, Writer::System))?;
            }
            Err(RummyError::Threw(error)) => {
                let failed = Set::new(state.run_id, &one.path).state(State::Failed).outcome("error");
                self.store(|store| store.set(&failed, Writer::System))?;
                let message = format!("500: {}: {}", one.scheme, error.message);
                self.log_error(state, turn, &message, 500, false).await?;
            }
            Err(error) => return Err(error),
        }
        self.store(|store| match store.entry(state.run_id, &one.path)? {
            Some(entry) if entry.state == State::Streaming => {
                store.set(&Set::new(state.run_id, &one.path).state(State::Resolved), Writer::System)
            }
            _ => Ok(()),
        })?;
        self.emit("tool.after", around).await?;
        self.emit("entry.created", one.entry.clone()).await?;
        self.notify_state(state.project.id, state.run_id, (turn.number, 102), "", false).await?;
        let prepared = json!({ "rummy": turn.hooks.reference(), "recorded": [one.entry] });
        self.emit("proposal.prepare", prepared).await?;
        let accepted = self.settle_all(state, &turn.hooks.reference()).await?;
        let entry = self.store(|store| store.entry(state.run_id, &one.path))?;
        let is_soft = |outcome: &str| SOFT_OUTCOMES.iter().any(|soft| outcome.starts_with(soft));
        Ok(accepted
            && entry.is_none_or(|entry| {
                entry.state != State::Failed || is_soft(entry.outcome.as_deref().unwrap_or_default())
            }))
    }

    /// Decides whether the loop continues.
    async fn verdict(
        &self,
        state: &mut Loop,
        turn: &mut Turn<'_>,
        recorded: &[Recorded],
        said: Option<(&str, &[Value])>,
    ) -> Result<TurnEnd, RummyError> {
        let mut entries = Vec::new();
        let mut judged = Vec::new();
        for one in recorded {
            let row = self.store(|store| store.entry(state.run_id, &one.path))?;
            let attributes = row.as_ref().and_then(|row| serde_json::from_str(&row.attributes).ok());
            let (reached, outcome) = row.map_or((None, None), |row| (Some(row.state), row.outcome));
            let mut entry = one.entry.clone();
            entry["value"] = json!({ "state": reached, "outcome": outcome });
            entries.push(entry);
            judged.push(verdict::Recorded {
                scheme: one.scheme.clone(),
                attributes: attributes.unwrap_or_default(),
                state: reached,
                outcome,
            });
        }
        let (content, commands) = said.unzip();
        let about = json!({
            "recorded": entries, "content": content, "commands": commands, "runId": state.run_id, "turn": turn.number,
            "loopId": state.loop_id, "rummy": turn.hooks.reference(),
        });
        let resolved = self.realm.call("update.resolve", vec![about]).await?.unwrap_or_default();
        let summary = resolved["summaryText"].as_str().map(str::to_owned);
        let judged = verdict::Turn {
            recorded: judged,
            errors: turn.errors,
            terminal: summary.as_ref().map(|_| resolved["status"].as_i64().unwrap_or(200)),
            update: resolved["updateText"].as_str().map(str::to_owned),
        };
        let judged = state.judge.judge(&judged);
        let end = self.voted(state, turn, &entries, summary, judged).await?;
        let result = json!({
            "turn": turn.number, "turnId": turn.id, "recorded": entries, "summaryText": end.summary,
            "updateText": resolved["updateText"], "model": state.model.model().id, "contextSize": state.context_size,
            "usage": null,
        });
        self.emit("turn.completed", result).await?;
        let at = (turn.number, 102);
        self.notify_state(state.project.id, state.run_id, at, end.summary.as_deref().unwrap_or_default(), true).await?;
        let step = json!({ "projectId": state.project.id, "run": self.alias(state.run_id)?, "turn": turn.number });
        self.emit("run.step.completed", step).await?;
        Ok(end)
    }

    /// Lets plugins vote on a verdict. A vote that ends the loop takes precedence over the judge.
    async fn voted(
        &self,
        state: &Loop,
        turn: &Turn<'_>,
        entries: &[Value],
        summary: Option<String>,
        judged: Verdict,
    ) -> Result<TurnEnd, RummyError> {
        let facts = json!({
            "store": turn.hooks.store(), "runId": state.run_id, "loopId": state.loop_id, "turn": turn.number,
            "recorded": entries, "summaryText": summary,
        });
        let voted = self.realm.filter("turn.verdict", json!({ "continue": true }), vec![facts.clone()]).await?;
        let voted = match self.realm.call("error.verdict", vec![facts]).await? {
            Some(verdict) if verdict["continue"] == Value::Bool(false) => verdict,
            _ => voted,
        };
        let stop = |status: Option<u16>, reason: Option<String>| TurnEnd {
            summary: summary.clone(),
            ..TurnEnd::stop(status.unwrap_or(499), reason)
        };
        if voted["continue"] == Value::Bool(false) {
            let status = voted["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            return Ok(stop(status, voted["reason"].as_str().map(str::to_owned)));
        }
        Ok(match judged {
            Verdict::End { status, reason } => stop(u16::try_from(status).ok(), reason),
            Verdict::Continue { reason } => TurnEnd { goes_on: true, status: 102, summary: None, reason },
        })
    }
}
