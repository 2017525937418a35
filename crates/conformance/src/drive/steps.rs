//! The steps of a scenario: actions of a user, an RPC client or another program.

use super::Driver;
use super::files;
use super::trace::{first_line, present};
use super::ui::{KeyWork, key_presses, shown_lines};
use pijs_agent::{AgentError, DeliverAs, Ending, InputSource, NavigateOptions};
use pijs_host::CallbackOutcome;
use pijs_llm::message::{Block, Content};
use pijs_protocol::{EntryIndex, Handle};
use serde_json::{Map, Value, json};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Result of a step; the error is the message of the item `step_error`.
type StepResult = Result<(), String>;

impl Driver {
    /// Plays one step. With `inside`, the step is part of a model call, so it does not wait for anything that waits for the
    /// model.
    pub(super) async fn step(self: &Rc<Self>, raw: &Map<String, Value>, label: &str, inside: bool) {
        let step = self.fill.map(raw);
        let Some((kind, value)) = step.iter().next().map(|(kind, value)| (kind.clone(), value.clone())) else { return };
        self.trace.record("step", json!({"i": label, "do": kind}));
        let starts_a_run = ["prompt", "command", "userMessage", "customMessage"].contains(&kind.as_str());
        let in_background = step.get("async") == Some(&Value::Bool(true));
        let driver = Rc::clone(self);
        self.background.set(self.background.get() + 1);
        let mut playing = Box::pin(async move {
            if let Err(error) = driver.play(&kind, &value, &step, inside).await {
                driver.trace.record("step_error", json!({"error": first_line(&error)}));
            }
            driver.background.set(driver.background.get() - 1);
        });
        // A step begins at once, like a called function, and continues after other tasks have run.
        let is_over = futures_util::poll!(playing.as_mut()).is_ready();
        let running = tokio::task::spawn_local(async move {
            if !is_over {
                playing.await;
            }
        });
        if in_background || (inside && starts_a_run) {
            // Synchronous effects of the extension precede the next step.
            let _ = tokio::time::timeout(self.scenario.limit(), self.host.next_turn_over()).await;
            if inside {
                // A message is delivered at the latest when its handlers have finished.
                tokio::select! {
                    biased;
                    () = self.control.delivered() => {}
                    () = self.host.at_rest() => {}
                }
            }
            return;
        }
        // A step that exceeds the limit continues in the background and is recorded as `unsettled`.
        if tokio::time::timeout(self.scenario.limit(), running).await.is_err() {
            self.trace.record("unsettled", json!({}));
            self.background.set(self.background.get().saturating_sub(1));
        }
        if !inside {
            self.settle().await;
        }
    }

    async fn play(&self, kind: &str, value: &Value, step: &Map<String, Value>, inside: bool) -> StepResult {
        let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("{kind}: not a text"));
        match kind {
            "prompt" | "command" => self.prompt(&text()?, step).await,
            "userMessage" => {
                let content = content_of(value, step);
                self.control.send_user_message(content, deliver_as(step), false).map_err(|error| error.to_string())?;
                self.run_pending().await
            }
            "steer" | "followUp" => {
                let how = if kind == "steer" { DeliverAs::Steer } else { DeliverAs::FollowUp };
                let queued = self.agent.queue_input(content_of(value, step), InputSource::Interactive, how).await;
                queued.map(drop).map_err(shown)
            }
            "customMessage" => {
                let message = json!({
                    "customType": value["customType"], "content": value["content"],
                    "display": value.get("display").cloned().unwrap_or(true.into()), "details": value.get("details"),
                });
                let message = serde_json::from_value(present(message)).map_err(|error| error.to_string())?;
                let triggers = step.get("triggerTurn").and_then(Value::as_bool);
                self.control.send_message(message, deliver_as(step), triggers).map_err(|error| error.to_string())?;
                self.run_pending().await
            }
            "abort" => {
                self.control.abort();
                while !inside && !self.control.is_idle() {
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            "wait_ms" => {
                tokio::time::sleep(Duration::from_secs_f64(value.as_f64().unwrap_or(0.0) / 1000.0)).await;
                Ok(())
            }
            "setFlag" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    self.host.set_flag(name, value.clone());
                }
                Ok(())
            }
            "write" => {
                let written: std::collections::BTreeMap<String, String> =
                    serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
                files::put(&self.surroundings.dirs.cwd, &written, &self.fill, false).map_err(|error| error.to_string())
            }
            "emit" => {
                let channel = value["channel"].as_str().unwrap_or_default();
                self.trace.record("bus", present(json!({"channel": channel, "data": value.get("data")})));
                self.host.emit_bus(channel, value.get("data").cloned().unwrap_or_default());
                Ok(())
            }
            "shortcut" => {
                let result = self.shortcut(&text()?).await;
                if let Err(error) = result {
                    self.trace.record("step_result", json!({"error": error}));
                }
                Ok(())
            }
            "completions" => {
                let result = self.completions(value).await?;
                self.trace.record("step_result", json!({"result": result}));
                Ok(())
            }
            "userBash" => self.user_bash(&text()?, step).await,
            "render" => {
                self.render().await;
                Ok(())
            }
            "reload" | "setModel" | "thinking" | "newSession" | "fork" | "navigateTree" | "compact" => {
                self.control_session(kind, value, step).await
            }
            other => Err(format!("the step {other} cannot be played yet")),
        }
    }

    async fn prompt(&self, text: &str, step: &Map<String, Value>) -> StepResult {
        let source = self.source();
        let content = content_of(&text.into(), step);
        let command = text.strip_prefix('/').map(|line| line.split(' ').next().unwrap_or_default());
        let outcome = self.agent.prompt_with(content, source, deliver_as(step)).await.map_err(shown)?;
        if let (Ending::CommandFailed(error), Some(name)) = (&outcome.ending, command) {
            let item = json!({
                "extension": format!("command:{name}"), "event": "command", "error": first_line(&error.message),
            });
            self.trace.record("error", item);
        }
        Ok(())
    }

    fn source(&self) -> InputSource {
        match self.scenario.ui.mode {
            super::scenario::UiMode::Rpc => InputSource::Rpc,
            _ => InputSource::Interactive,
        }
    }

    /// Performs the runs that were requested while the agent was idle.
    pub(super) async fn run_pending(&self) -> StepResult {
        if !self.control.is_idle() {
            return Ok(());
        }
        self.agent.settle().await.map(drop).map_err(shown)
    }

    async fn shortcut(&self, key: &str) -> StepResult {
        let (owner, handle) = pijs_runtime::keys::written(&self.host, key).ok_or("no such shortcut")?;
        match self.host.call_back(&owner.extension, owner.entry, handle, Vec::new()).await {
            CallbackOutcome::Returned(_) => Ok(()),
            other => Err(broken(other)),
        }
    }

    async fn completions(&self, asked: &Value) -> Result<Value, String> {
        let name = asked["command"].as_str().unwrap_or_default();
        let prefix = asked["prefix"].as_str().unwrap_or_default();
        let command = self.host.commands().into_iter().find(|command| command.invocation == name);
        let Some((owner, handle)) = command.and_then(|command| Some((command.owner, command.spec.completions?))) else {
            return Ok(Value::Null);
        };
        match self.host.call_back(&owner.extension, owner.entry, handle, vec![prefix.into()]).await {
            CallbackOutcome::Returned(value) => Ok(value.unwrap_or_default()),
            other => Err(broken(other)),
        }
    }

    async fn user_bash(&self, command: &str, step: &Map<String, Value>) -> StepResult {
        let exclude = step.get("exclude").and_then(Value::as_bool);
        let result = self.agent.user_bash(command, exclude, CancellationToken::new()).await?;
        self.trace.record("step_result", json!({"result": result}));
        Ok(())
    }

    /// Returns the id of an entry by its index, or by a role or custom type and the index among its entries.
    fn nth(&self, wanted: &Value) -> String {
        let at = |index: i64, length: usize| {
            let length = i64::try_from(length).unwrap_or(0);
            usize::try_from(if index < 0 { index + length } else { index }).ok()
        };
        self.control.with_session(|session| {
            let entries: Vec<Value> = session.entries().filter_map(Result::ok).map(|entry| entry.to_value()).collect();
            let chosen: Vec<&Value> = match wanted {
                Value::Number(_) => entries.iter().collect(),
                _ => entries
                    .iter()
                    .filter(|entry| match wanted.get("customType") {
                        Some(custom_type) => entry.get("customType") == Some(custom_type),
                        None => entry.pointer("/message/role") == wanted.get("role"),
                    })
                    .collect(),
            };
            let index = wanted.as_i64().or(wanted.get("at").and_then(Value::as_i64)).unwrap_or(0);
            let found = at(index, chosen.len()).and_then(|index| chosen.get(index).copied());
            found.and_then(|entry| entry["id"].as_str()).unwrap_or("missing").to_owned()
        })
    }

    /// Performs the steps that change the session.
    async fn control_session(&self, kind: &str, value: &Value, step: &Map<String, Value>) -> StepResult {
        let result = match kind {
            "reload" => return self.agent.reload().await.map(drop).map_err(shown),
            "setModel" => {
                let id = value.as_str().unwrap_or_default();
                let model = self.agent.find_model("faux", id).ok_or_else(|| format!("there is no model {id}"))?;
                return self.agent.set_model(&model).await;
            }
            "thinking" => {
                let level = value.as_str().unwrap_or_default();
                return self.control.set_thinking(level).map_err(|error| error.to_string());
            }
            "newSession" => {
                let parent = value.get("parentSession").and_then(Value::as_str).map(str::to_owned);
                json!({"cancelled": self.agent.new_session(parent, false).await.map_err(shown)?})
            }
            "fork" => {
                let at = step.get("position").and_then(Value::as_str) == Some("at");
                let forked = self.agent.fork(&self.nth(value), at).await.map_err(shown)?;
                present(json!({"cancelled": forked.cancelled, "selectedText": forked.selected_text}))
            }
            "navigateTree" => {
                let options = NavigateOptions {
                    summarize: step.get("summarize") == Some(&Value::Bool(true)),
                    label: step.get("label").and_then(Value::as_str).map(str::to_owned),
                    ..NavigateOptions::default()
                };
                let moved = self.agent.navigate_tree(&self.nth(value), options).await?;
                present(json!({"cancelled": moved.cancelled, "editorText": moved.editor_text}))
            }
            _ => match self.agent.compact(value.as_str()).await {
                Ok(result) => {
                    let shown = json!({
                        "summary": result["summary"], "tokensBefore": "<n>", "details": result.get("details"),
                    });
                    present(shown)
                }
                Err(error) => {
                    self.trace.record("step_result", json!({"error": error}));
                    return Ok(());
                }
            },
        };
        self.trace.record("step_result", json!({"result": result}));
        Ok(())
    }

    /// Waits until nothing is running and nothing has been recorded for `quiet` of the scenario.
    pub(super) async fn settle(self: &Rc<Self>) {
        let (quiet, limit) = (self.scenario.quiet(), Instant::now() + self.scenario.limit());
        // A realm that is still computing or waiting for the host gets more time than an idle one.
        let patience = (quiet * 10).max(Duration::from_secs(1));
        self.trace.touch();
        loop {
            if self.control.is_idle() && self.background.get() == 0 {
                let driver = Rc::clone(self);
                let pending = tokio::task::spawn_local(async move { driver.run_pending().await });
                let _ = tokio::time::timeout(self.scenario.limit(), pending).await;
            }
            let is_busy = self.is_busy();
            tokio::time::sleep(if is_busy {
                Duration::from_millis(4)
            } else {
                (quiet / 4).max(Duration::from_millis(4))
            })
            .await;
            let still = self.trace.quiet_for();
            if !self.is_busy() && still >= quiet && (self.host.calls_under_way() == 0 || still >= patience) {
                // A realm that has not been scheduled yet, on a busy machine, records more when it runs.
                let _ = tokio::time::timeout(self.scenario.limit(), self.host.at_rest()).await;
                if self.trace.quiet_for() >= quiet {
                    return;
                }
            }
            if Instant::now() > limit {
                self.trace.record("unsettled", json!({}));
                return;
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.trace.runs_programs() || !self.control.is_idle() || self.background.get() > 0
    }

    /// Presses the keys that are scripted for a custom component, then closes it if the script says so.
    pub(super) async fn press_keys(&self, work: KeyWork) {
        let KeyWork { extension, component, item, answer, close, gone, mut first_key } = work;
        let component = u32::try_from(component).unwrap_or(u32::MAX);
        let ask = async |request: Value| {
            let outcome = self.host.call_back(&extension, EntryIndex(0), Handle(component), vec![request]).await;
            match outcome {
                CallbackOutcome::Returned(Some(answer)) => answer,
                CallbackOutcome::Returned(None) => json!({}),
                other => json!({"lines": [format!("<render error: {}>", broken(other))]}),
            }
        };
        let scripted = |key: &str| answer.as_ref().and_then(|answer| answer.get(key));
        let mut is_closed = false;
        for key in scripted("keys").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            for data in key_presses(key) {
                if is_closed {
                    break;
                }
                let was_idle = self.control.is_idle();
                is_closed = ask(json!({"type": "input", "data": data})).await["closed"] == Value::Bool(true);
                drop(first_key.take());
                if !is_closed {
                    self.after_key(was_idle).await;
                }
            }
            // The component may have closed itself.
            is_closed |= gone.is_cancelled();
            let shown = match is_closed {
                true => "<closed>".into(),
                false => {
                    let drawn = ask(json!({"type": "render", "width": self.scenario.width()})).await;
                    shown_lines(&drawn["lines"])
                }
            };
            self.trace.push(item, "after", json!({"key": key, "render": shown}));
        }
        if is_closed {
            return;
        }
        // A component that closed itself has no receiver, which is not an error.
        if let Some(value) = scripted("value") {
            let _ = close.send(Some(value.clone()));
        } else if let Some(wait) = scripted("wait").and_then(Value::as_f64).filter(|wait| *wait > 0.0) {
            tokio::time::sleep(Duration::from_secs_f64(wait / 1000.0)).await;
            let _ = close.send(None);
        } else if scripted("hang") == Some(&Value::Bool(true)) {
            // The dialog's own timeout or signal closes it; the sender must live until then.
            tokio::time::sleep(self.scenario.limit()).await;
        } else {
            let _ = close.send(None);
        }
    }
}

fn shown(error: AgentError) -> String {
    error.to_string()
}

pub(super) fn broken(outcome: CallbackOutcome) -> String {
    match outcome {
        CallbackOutcome::Threw(error) => error.message,
        CallbackOutcome::Ended(reason) => reason.to_string(),
        CallbackOutcome::Gone => "the extension was reloaded in the meantime".to_owned(),
        CallbackOutcome::Returned(_) => String::new(),
    }
}

fn content_of(value: &Value, step: &Map<String, Value>) -> Content {
    let mut blocks = match serde_json::from_value::<Content>(value.clone()) {
        Ok(content) => content.blocks(),
        Err(_) => vec![Block::text(value.to_string())],
    };
    let images = step.get("images").cloned().and_then(|images| serde_json::from_value::<Vec<Block>>(images).ok());
    blocks.extend(images.unwrap_or_default());
    blocks.into()
}

fn deliver_as(step: &Map<String, Value>) -> Option<DeliverAs> {
    match step.get("deliverAs").and_then(Value::as_str) {
        Some("steer") => Some(DeliverAs::Steer),
        Some("followUp") => Some(DeliverAs::FollowUp),
        Some("nextTurn") => Some(DeliverAs::NextTurn),
        _ => None,
    }
}
