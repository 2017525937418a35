//! One turn: what the model is shown, what it says, and its commands one after the other.

use crate::error::RummyError;
use crate::realm::TurnContext;
use crate::run::{Loop, RunDriver, TurnEnd, attributes_of};
use crate::service::CallPath;
use pijs_dialect_rummy::tags::{self, Command};
use pijs_dialect_rummy::verdict::{self, Verdict};
use pijs_dialect_rummy::{Profile, State, text};
use pijs_llm::one_reply;
use pijs_llm::partial::Partial;
use pijs_llm::provider::{Request, RequestMessage};
use serde_json::{Map, Value, json};

/// Longest path of a command.
const LONGEST_PATH: usize = 512;

/// Failures that are no strike: the model learns something, and nothing is broken.
const SOFT_OUTCOMES: &[&str] = &["not_found", "conflict", "permission"];

/// A turn that runs.
struct Turn<'t> {
    number: i64,
    /// Its row.
    id: Value,
    hooks: TurnContext<'t>,
    /// The context that handlers get: it writes as the model.
    handlers: TurnContext<'t>,
    /// Errors that belong to no action.
    errors: u32,
}

/// The input that the model is shown.
struct Packet {
    ctx: Value,
    system: String,
    messages: Value,
    tokens: i64,
    ceiling: i64,
}

/// A command that was recorded.
struct Recorded {
    scheme: String,
    path: String,
    entry: Value,
    /// The filter rejected it.
    is_rejected: bool,
}

impl RunDriver<'_> {
    /// Runs the next turn of a loop.
    pub(crate) async fn turn(&self, state: &mut Loop<'_>) -> Result<TurnEnd, RummyError> {
        let (run_id, mode) = (state.run_id, state.request.mode.as_str());
        let number = self.realm.system("nextTurn", vec![run_id.into()])?.as_i64().unwrap_or_default();
        if state.iteration == 1 {
            state.start_turn = number;
        }
        let made = json!({ "run_id": run_id, "loop_id": state.loop_id, "sequence": number });
        let turn_id = self.realm.statement("create_turn", "get", made)?["id"].clone();
        let facts = |writer: &str| {
            let flags = state.request.flags;
            json!({
                "project": { "id": self.project.id, "name": self.project.name, "project_root": self.project.root },
                "projectId": self.project.id, "runId": run_id, "turnId": turn_id, "loopId": state.loop_id,
                "sequence": number, "type": mode, "toolSet": { "$set": state.tools }, "contextSize": self.context_size(),
                "loopPrompt": state.request.prompt, "writer": writer, "noRepo": flags.no_repo,
                "noInteraction": flags.no_interaction, "noWeb": flags.no_web, "noProposals": flags.no_proposals,
                "yolo": flags.yolo,
            })
        };
        let hooks = self.realm.context(&format!("run{run_id}/turn{number}"), facts("plugin"), CallPath::Plugin).await?;
        let name = format!("run{run_id}/turn{number}/model");
        let handlers = self.realm.context(&name, facts("model"), CallPath::Model).await?;
        let mut turn = Turn { number, id: turn_id.clone(), hooks, handlers, errors: 0 };
        let end = self.turn_in(state, &mut turn).await;
        let Turn { hooks, handlers, .. } = turn;
        // A realm that was stopped has nothing to close.
        if !matches!(end, Err(RummyError::Ended(_))) {
            handlers.close().await?;
            hooks.close().await?;
        }
        end
    }

    async fn turn_in(&self, state: &mut Loop<'_>, turn: &mut Turn<'_>) -> Result<TurnEnd, RummyError> {
        let (mode, rummy) = (state.request.mode.as_str(), turn.hooks.reference());
        let is_continuation = state.iteration > 1;
        let started = json!({
            "rummy": rummy, "mode": mode, "prompt": state.request.prompt, "isContinuation": is_continuation,
            "loopIteration": state.iteration,
        });
        self.emit("turn.started", started).await?;
        let packet = self.packet(state, turn, false).await?;
        let packet = match packet.tokens > packet.ceiling && state.iteration == 1 {
            true => self.packet(state, turn, true).await?,
            false => packet,
        };
        self.progress(state, turn, "thinking").await?;
        let told = json!({ "rummy": turn.hooks.reference(), "ctx": packet.ctx });
        let overflow = (packet.tokens - packet.ceiling).max(0);
        let asked = json!({
            "messages": packet.messages, "rows": packet.ctx["rows"], "contextSize": self.context_size(),
            "lastPromptTokens": packet.ctx["lastContextTokens"], "assembledTokens": packet.tokens,
            "ok": overflow == 0, "overflow": overflow,
        });
        let asked = self.realm.filter("turn.beforeDispatch", asked, vec![told]).await?;
        if asked["ok"] == Value::Bool(false) {
            let over = asked["overflow"].as_i64().unwrap_or(overflow);
            let message = format!("413: the context is {over} tokens over its ceiling of {}", packet.ceiling);
            self.log_error(state, turn, &message, 413, false).await?;
            return self.verdict(state, turn, &[], None, None).await;
        }
        let model = self.model.model().id.clone();
        let about = json!({
            "model": model, "projectId": self.project.id, "runId": state.run_id, "runAlias": state.request.alias,
            "turn": turn.number,
        });
        let messages = self.realm.filter("llm.messages", asked["messages"].clone(), vec![about.clone()]).await?;
        self.emit("llm.request.started", json!({ "model": model, "turn": turn.number })).await?;
        let reply = self.complete(&messages, &packet.system).await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(RummyError::Model(message)) if !self.cancel.is_cancelled() => {
                self.log_error(state, turn, &format!("504: {message}"), 504, false).await?;
                return self.verdict(state, turn, &[], None, None).await;
            }
            Err(RummyError::Model(_)) => {
                return Ok(TurnEnd { goes_on: false, status: 499, summary: None, reason: None });
            }
            Err(error) => return Err(error),
        };
        let usage = reply["usage"].clone();
        let raw = self.realm.filter("llm.response", reply, vec![about]).await?;
        self.emit("llm.request.completed", json!({ "model": model, "turn": turn.number, "usage": usage })).await?;
        self.progress(state, turn, "processing").await?;
        let message = raw["choices"][0]["message"].clone();
        let content = message["content"].as_str().unwrap_or_default().to_owned();
        // A tag that is not advertised, in a run that asks, say, is a command all the same: the policy rejects it.
        let of_plugins = state.tools.iter().filter_map(Value::as_str);
        let tools: Vec<&str> = Profile::v2().tools.iter().copied().chain(of_plugins).collect();
        let parsed = tags::parse_with(&content, &tools, self.limits.commands);
        for warning in &parsed.warnings {
            self.log_error(state, turn, warning, 422, true).await?;
        }
        let commands: Vec<Value> = parsed.commands.iter().map(Command::to_json).collect();
        let seed = message["reasoning_content"].as_str().unwrap_or_default();
        let reasoning = self.realm.filter("llm.reasoning", seed.into(), vec![json!({ "commands": commands })]).await?;
        self.stats(turn, &usage, packet.tokens, &reasoning)?;
        let mut response_message = message;
        response_message["reasoning_content"] = reasoning;
        let response = json!({
            "rummy": turn.hooks.reference(), "turn": turn.number, "result": raw, "responseMessage": response_message,
            "content": content, "commands": commands, "unparsed": parsed.unparsed, "assembledTokens": packet.tokens,
            "contextSize": self.context_size(), "systemMsg": packet.system, "userMsg": packet.messages[1]["content"],
        });
        self.emit("turn.response", response).await?;
        let mut recorded = Vec::new();
        for (at, command) in parsed.commands.iter().enumerate() {
            recorded.push(self.record(state, turn, at, command).await?);
        }
        let has_update = parsed.commands.iter().any(|command| command.name == "update");
        if has_update {
            self.dispatch_all(state, turn, &recorded).await?;
        } else {
            let words =
                "422: the turn has no <update>, so none of its commands was carried out; end each turn with one";
            self.log_error(state, turn, words, 422, false).await?;
            for one in recorded.iter().filter(|one| !one.is_rejected) {
                self.abort(state, one)?;
            }
        }
        let after = json!({ "contextSize": self.context_size(), "ctx": packet.ctx, "rummy": turn.hooks.reference() });
        self.emit("turn.dispatched", after.clone()).await?;
        self.realm.call("budget.postDispatch", vec![after]).await?;
        self.verdict(state, turn, &recorded, Some(&content), Some(&commands)).await
    }

    fn context_size(&self) -> i64 {
        let size = self.model.model().context_window().and_then(|size| i64::try_from(size).ok());
        size.unwrap_or(self.limits.context)
    }

    async fn progress(&self, state: &Loop<'_>, turn: &Turn<'_>, status: &str) -> Result<(), RummyError> {
        let told = json!({
            "projectId": self.project.id, "run": state.request.alias, "turn": turn.number, "status": status,
        });
        self.client.notify("run/progress", &told);
        self.emit("run.progress", told).await.map(drop)
    }

    fn stats(&self, turn: &Turn<'_>, usage: &Value, context: i64, reasoning: &Value) -> Result<(), RummyError> {
        let count = |key: &str| usage[key].as_i64().unwrap_or_default();
        let said = json!({
            "id": turn.id, "context_tokens": context, "reasoning_content": reasoning, "prompt_tokens": count("prompt_tokens"),
            "cached_tokens": count("cached_tokens"), "completion_tokens": count("completion_tokens"),
            "reasoning_tokens": 0, "total_tokens": count("total_tokens"), "cost": 0,
        });
        self.realm.statement("update_turn_stats", "run", said).map(drop)
    }

    /// Materialises the entries of the run and assembles the two messages.
    async fn packet(&self, state: &Loop<'_>, turn: &Turn<'_>, demotes: bool) -> Result<Packet, RummyError> {
        let run_id = state.run_id;
        if demotes {
            let prompts = json!({ "runId": run_id, "path": "prompt://*", "visibility": "summarized", "pattern": true });
            self.realm.system("set", vec![prompts])?;
        }
        let prompt = self.realm.call("instructions.resolveSystemPrompt", vec![turn.hooks.reference()]).await?;
        let prompt = prompt.and_then(|prompt| prompt.as_str().map(str::to_owned)).unwrap_or_default();
        turn.hooks.adopt(json!({ "systemPrompt": prompt })).await?;
        let rows = self.realm.statement("get_model_context", "all", json!({ "run_id": run_id }))?;
        let mut rows = rows.as_array().cloned().unwrap_or_default();
        let shown: Vec<Value> = rows.iter().map(viewed).collect();
        let views = self.realm.deliver("view", json!({ "rows": shown })).await?.value;
        self.realm.statement("clear_turn_context", "run", json!({ "run_id": run_id, "turn": turn.number }))?;
        let (mut floor, mut premium) = (0, 0);
        for (row, views) in rows.iter_mut().zip(views.as_array().into_iter().flatten()) {
            let (visible, summarized) = (views[0].as_str().unwrap_or_default(), views[1].as_str().unwrap_or_default());
            let [visible_tokens, summarized_tokens] = [visible, summarized].map(|text| self.tokens(text));
            let more = (visible_tokens - summarized_tokens).max(0);
            floor += summarized_tokens;
            let is_visible = row["visibility"] == "visible";
            premium += if is_visible { more } else { 0 };
            let state_of = row["state"].as_str().and_then(|state| State::parse(state).ok()).unwrap_or(State::Resolved);
            let status = text::state_to_status(state_of, row["outcome"].as_str());
            let attributes = attributes_of(row);
            let Some(members) = row.as_object_mut() else { continue };
            members.insert("body".to_owned(), if is_visible { visible } else { summarized }.into());
            members.insert("attributes".to_owned(), attributes.into());
            members.insert("source_turn".to_owned(), members.get("turn").cloned().unwrap_or_default());
            let numbers = [("vTokens", visible_tokens), ("sTokens", summarized_tokens), ("aTokens", more)];
            members.extend(numbers.map(|(name, tokens)| (name.to_owned(), tokens.into())));
            members.insert("vBody".to_owned(), visible.into());
            members.insert("sBody".to_owned(), summarized.into());
            members.insert("status".to_owned(), status.into());
            let mut kept = members.clone();
            kept.insert("attributes".to_owned(), Value::from(Value::Object(attributes_of(row)).to_string()));
            kept.extend(
                [("run_id", json!(run_id)), ("loop_id", json!(state.loop_id)), ("turn", json!(turn.number))]
                    .map(|(name, value)| (name.to_owned(), value)),
            );
            self.realm.statement("insert_turn_context", "run", Value::Object(kept))?;
        }
        let told = json!({ "runId": run_id, "turn": turn.number, "rowCount": rows.len() });
        self.emit("context.materialized", told).await?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "a context has far less than 2^52 tokens"
        )]
        let ceiling = (self.context_size() as f64 * self.limits.budget).floor() as i64;
        let usage = floor + premium + self.tokens(&prompt);
        let last = self.realm.statement("get_last_context_tokens", "get", json!({ "run_id": run_id }))?;
        let ctx = json!({
            "rows": rows, "loopStartTurn": state.start_turn, "type": state.request.mode.as_str(),
            "toolSet": { "$set": state.tools }, "contextSize": self.context_size(), "turn": turn.number,
            "lastContextTokens": last["context_tokens"].as_i64().unwrap_or_default(), "systemPrompt": prompt,
            "runId": run_id, "loopId": state.loop_id, "mode": state.request.mode.as_str(), "loopIteration": state.iteration,
            "budget": { "tokenUsage": usage, "tokensFree": (ceiling - usage).max(0), "ceiling": ceiling },
        });
        let system = self.realm.filter("assembly.system", prompt.into(), vec![ctx.clone()]).await?;
        let user = self.realm.filter("assembly.user", "".into(), vec![ctx.clone()]).await?;
        let [system, user] = [system, user].map(|text| text.as_str().unwrap_or_default().to_owned());
        let tokens = self.tokens(&system) + self.tokens(&user);
        let messages = json!([{ "role": "system", "content": system }, { "role": "user", "content": user }]);
        Ok(Packet { ctx, system, messages, tokens, ceiling })
    }

    fn tokens(&self, words: &str) -> i64 {
        text::count_tokens(words, self.limits.divisor)
    }

    /// Asks the model; its reply in the form of chat completions.
    async fn complete(&self, messages: &Value, system: &str) -> Result<Value, RummyError> {
        let mut request = Request { system: system.to_owned(), ..Request::default() };
        for message in messages.as_array().into_iter().flatten() {
            let words = message["content"].as_str().unwrap_or_default();
            match message["role"].as_str() {
                Some("system") => words.clone_into(&mut request.system),
                _ => request.messages.push(RequestMessage::user(words)),
            }
        }
        let mut partial = Partial::new(self.model.model(), self.ambient.epoch_ms());
        let stream = self.model.send(self.model.payload(&request).into(), self.cancel.child_token());
        let done = one_reply::collect(&mut partial, stream, &()).await;
        done.map_err(|error| RummyError::Model(error.to_string()))?;
        partial.finish();
        let reply = partial.shown().so_far();
        let thinking: Vec<String> = reply.content.iter().filter_map(thinking_of).collect();
        let usage = &reply.usage;
        Ok(json!({
            "model": reply.model,
            "choices": [{ "index": 0, "finish_reason": "stop", "message": {
                "role": "assistant", "content": reply.text(), "reasoning_content": thinking.join("\n"),
            } }],
            "usage": {
                "prompt_tokens": usage.input + usage.cache_read, "cached_tokens": usage.cache_read,
                "completion_tokens": usage.output, "total_tokens": usage.total_tokens,
            },
        }))
    }

    /// Keeps an error that belongs to no action, as a plugin makes it an entry; one that is not soft is a strike.
    async fn log_error(
        &self,
        state: &Loop<'_>,
        turn: &mut Turn<'_>,
        message: &str,
        status: u16,
        soft: bool,
    ) -> Result<(), RummyError> {
        turn.errors += u32::from(!soft);
        let error = json!({
            "store": turn.hooks.store(), "runId": state.run_id, "turn": turn.number, "loopId": state.loop_id,
            "message": message, "status": status, "soft": soft,
        });
        self.emit("error.log", error).await.map(drop)
    }

    /// Writes a command down before anything is done.
    async fn record(
        &self,
        state: &Loop<'_>,
        turn: &Turn<'_>,
        at: usize,
        command: &Command,
    ) -> Result<Recorded, RummyError> {
        let target = ["path", "command", "question", "query", "body"].into_iter().find_map(|field| command.text(field));
        let target = target.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        let path = self.realm.system(
            "logPath",
            vec![state.run_id.into(), turn.number.into(), command.name.as_str().into(), target.as_str().into()],
        )?;
        let path = path.as_str().unwrap_or_default().to_owned();
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
            "mode": state.request.mode.as_str(),
        });
        let entry = self.realm.filter("entry.recording", entry, vec![about]).await?;
        let is_rejected = matches!(entry["state"].as_str(), Some("failed" | "cancelled"));
        // Until its handler is through it is under way: a process that dies leaves nothing that looks done.
        let kept = if is_rejected { entry["state"].clone() } else { "streaming".into() };
        let written = json!({
            "runId": state.run_id, "turn": turn.number, "loopId": state.loop_id, "path": path, "body": entry["body"],
            "state": kept, "outcome": entry["outcome"], "attributes": entry["attributes"], "visibility": "visible",
            "writer": "system",
        });
        self.realm.system("set", vec![written])?;
        let entry = turn.hooks.shared(&format!("entry{at}"), entry);
        Ok(Recorded { scheme: command.name.clone(), path, entry, is_rejected })
    }

    /// Carries recorded commands out in order; after one that failed or was rejected the rest is aborted.
    async fn dispatch_all(
        &self,
        state: &Loop<'_>,
        turn: &mut Turn<'_>,
        recorded: &[Recorded],
    ) -> Result<(), RummyError> {
        let mut aborted = false;
        for one in recorded {
            if one.is_rejected {
                continue;
            }
            // The signal that ends the turn is heard whatever happened.
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

    /// Ends a command that was recorded and is not carried out.
    fn abort(&self, state: &Loop<'_>, one: &Recorded) -> Result<(), RummyError> {
        let entry = json!({
            "runId": state.run_id, "path": one.path, "state": "cancelled", "outcome": "aborted", "writer": "system",
        });
        self.realm.system("set", vec![entry]).map(drop)
    }

    async fn dispatch(&self, state: &Loop<'_>, turn: &mut Turn<'_>, one: &Recorded) -> Result<bool, RummyError> {
        let around = json!({ "entry": one.entry, "rummy": turn.handlers.reference() });
        self.emit("tool.before", around.clone()).await?;
        match self.realm.dispatch(&one.scheme, one.entry.clone(), &turn.handlers).await {
            Ok(_) => {}
            Err(RummyError::Threw(error)) => {
                let failed = json!({
                    "runId": state.run_id, "path": one.path, "state": "failed", "outcome": "error", "writer": "system",
                });
                self.realm.system("set", vec![failed])?;
                let message = format!("500: {}: {}", one.scheme, error.message);
                self.log_error(state, turn, &message, 500, false).await?;
            }
            Err(error) => return Err(error),
        }
        if self.state_of(state.run_id, &one.path)?.0 == "streaming" {
            let done = json!({ "runId": state.run_id, "path": one.path, "state": "resolved", "writer": "system" });
            self.realm.system("set", vec![done])?;
        }
        self.emit("tool.after", around).await?;
        self.emit("entry.created", one.entry.clone()).await?;
        self.tell_state(state, turn, 102, None).await?;
        let prepared = json!({ "rummy": turn.hooks.reference(), "recorded": [one.entry] });
        self.emit("proposal.prepare", prepared).await?;
        let mut accepted = true;
        for row in self.unresolved(state.run_id)? {
            let pending = json!({
                "projectId": self.project.id, "run": state.request.alias, "proposed": [row],
                "rummy": turn.hooks.reference(),
            });
            self.emit("proposal.pending", pending).await?;
            self.client.notify("run/proposal", &json!({ "run": state.request.alias, "proposed": [row] }));
            accepted &= self.settle(state, &row).await?;
        }
        let (reached, outcome) = self.state_of(state.run_id, &one.path)?;
        Ok(accepted && (reached != "failed" || is_soft(&outcome)))
    }

    /// Tells clients where the run stands.
    async fn tell_state(
        &self,
        state: &Loop<'_>,
        turn: &Turn<'_>,
        status: u16,
        summary: Option<&str>,
    ) -> Result<(), RummyError> {
        let run_id: Value = state.run_id.into();
        let history = self.realm.system("getLog", vec![run_id.clone()])?;
        let unknowns = self.realm.system("getUnknowns", vec![run_id])?;
        let told = json!({
            "projectId": self.project.id, "run": state.request.alias, "turn": turn.number, "status": status,
            "summary": summary, "history": history, "unknowns": unknowns, "telemetry": null,
        });
        self.client.notify("run/state", &told);
        self.emit("run.state", told).await.map(drop)
    }

    /// Decides whether the loop continues.
    async fn verdict(
        &self,
        state: &mut Loop<'_>,
        turn: &mut Turn<'_>,
        recorded: &[Recorded],
        content: Option<&str>,
        commands: Option<&[Value]>,
    ) -> Result<TurnEnd, RummyError> {
        let mut entries = Vec::new();
        let mut judged = Vec::new();
        for one in recorded {
            let row = self.row(state.run_id, &one.path)?;
            judged.push(verdict::Recorded {
                scheme: one.scheme.clone(),
                attributes: attributes_of(&row),
                state: row["state"].as_str().and_then(|state| State::parse(state).ok()),
                outcome: row["outcome"].as_str().map(str::to_owned),
            });
            let mut entry = one.entry.clone();
            entry["value"] = json!({ "state": row["state"], "outcome": row["outcome"] });
            entries.push(entry);
        }
        let about = json!({
            "recorded": entries, "content": content, "commands": commands, "runId": state.run_id, "turn": turn.number,
            "loopId": state.loop_id, "rummy": turn.hooks.reference(),
        });
        let resolved = self.realm.call("update.resolve", vec![about]).await?.unwrap_or_default();
        let summary = resolved["summaryText"].as_str().map(str::to_owned);
        let status = resolved["status"].as_i64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
        let judged = verdict::Turn {
            recorded: judged,
            errors: turn.errors as usize,
            terminal: summary.as_ref().map(|_| i64::from(status)),
            update: resolved["updateText"].as_str().map(str::to_owned),
        };
        let judged = state.judge.judge(&judged);
        let told = json!({
            "store": turn.hooks.store(), "runId": state.run_id, "loopId": state.loop_id, "turn": turn.number,
            "recorded": entries, "summaryText": summary,
        });
        let voted = self.realm.filter("turn.verdict", json!({ "continue": true }), vec![told.clone()]).await?;
        let voted = match self.realm.call("error.verdict", vec![told]).await? {
            Some(verdict) if verdict["continue"] == Value::Bool(false) => verdict,
            _ => voted,
        };
        let stop =
            |status: u16, reason: Option<String>| TurnEnd { goes_on: false, status, summary: summary.clone(), reason };
        let end = if voted["continue"] == Value::Bool(false) {
            let status = voted["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(499);
            stop(status, voted["reason"].as_str().map(str::to_owned))
        } else {
            match judged {
                Verdict::End { status, reason } => stop(u16::try_from(status).unwrap_or(500), reason),
                Verdict::Continue { reason } => TurnEnd { goes_on: true, status: 102, summary: None, reason },
            }
        };
        let result = json!({
            "turn": turn.number, "recorded": entries, "summaryText": summary, "updateText": resolved["updateText"],
            "model": self.model.model().id, "contextSize": self.context_size(), "usage": null,
        });
        self.emit("turn.completed", result).await?;
        self.tell_state(state, turn, end.status, end.summary.as_deref()).await?;
        let step = json!({ "projectId": self.project.id, "run": state.request.alias, "turn": turn.number });
        self.emit("run.step.completed", step).await?;
        Ok(end)
    }
}

/// A row as a view gets it: a log entry is shown by the tool whose action it records.
fn viewed(row: &Value) -> Value {
    let attributes = attributes_of(row);
    let action = attributes.get("action").cloned();
    let mut shown: Map<String, Value> = row.as_object().cloned().unwrap_or_default();
    if let (Some(action), Some("log")) = (action, row["scheme"].as_str()) {
        shown.insert("scheme".to_owned(), action);
    }
    shown.insert("attributes".to_owned(), attributes.into());
    Value::Object(shown)
}

fn is_soft(outcome: &str) -> bool {
    SOFT_OUTCOMES.iter().any(|soft| outcome.starts_with(soft))
}

fn thinking_of(block: &pijs_llm::message::Block) -> Option<String> {
    match block {
        pijs_llm::message::Block::Thinking(block) => Some(block.thinking.clone()),
        _ => None,
    }
}
