//! Implements commands that change the session (its model, queues and file), and shell commands.

use super::commands::{CommandResult, Commands};
use super::page::page;
use pijs_runtime::export::{self, NameOrigin};
use pijs_session_store::refs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

impl Commands {
    /// Executes a command; returns `None` if it is not implemented in this module.
    pub(super) async fn change(&self, kind: &str, record: &Value) -> Option<CommandResult> {
        let agent = &self.session.agent;
        let text = |key: &str| record[key].as_str().ok_or_else(|| format!("{kind}: {key} must be a string"));
        let switch = |key: &str| record[key].as_bool().ok_or_else(|| format!("{kind}: {key} must be true or false"));
        let nothing = |result: Result<(), String>| result.map(|()| None);
        Some(match kind {
            "get_available_models" => {
                let models: Vec<Value> = agent.available_models().iter().map(|model| model.to_value()).collect();
                Ok(Some(json!({"models": models})))
            }
            "set_model" => self.set_model(record).await,
            "cycle_model" => agent.cycle_model().await.map(|model| {
                Some(model.map_or(Value::Null, |model| {
                    let level = self.control().thinking();
                    json!({"model": model.to_value(), "thinkingLevel": level, "isScoped": false})
                }))
            }),
            "set_thinking_level" => nothing(
                text("level").and_then(|level| self.control().set_thinking(level).map_err(|error| error.to_string())),
            ),
            "cycle_thinking_level" => {
                agent.cycle_thinking().map(|level| Some(level.map_or(Value::Null, |level| json!({"level": level}))))
            }
            "get_available_thinking_levels" => Ok(Some(json!({"levels": agent.thinking_levels()}))),
            "set_steering_mode" | "set_follow_up_mode" => nothing(text("mode").and_then(|mode| {
                let all = match mode {
                    "all" => true,
                    "one-at-a-time" => false,
                    other => return Err(format!("{kind}: there is no mode {other:?}; use all or one-at-a-time")),
                };
                let mut settings = agent.settings();
                *(if kind == "set_steering_mode" { &mut settings.steer_all } else { &mut settings.follow_up_all }) =
                    all;
                agent.set_settings(settings);
                Ok(())
            })),
            "set_auto_compaction" | "set_auto_retry" => nothing(switch("enabled").map(|enabled| {
                let mut settings = agent.settings();
                match kind {
                    "set_auto_compaction" => settings.compaction.enabled = enabled,
                    _ => settings.retry.enabled = enabled,
                }
                agent.set_settings(settings);
            })),
            "abort_retry" => {
                agent.abort_retry();
                Ok(None)
            }
            "compact" => agent.compact(record["customInstructions"].as_str()).await.map(Some),
            "abort_bash" => {
                self.shells.borrow().iter().for_each(CancellationToken::cancel);
                Ok(None)
            }
            "new_session" => {
                let parent = record["parentSession"].as_str().map(str::to_owned);
                cancelled(agent.new_session(parent, false).await)
            }
            "switch_session" => match text("sessionPath") {
                Ok(path) => cancelled(agent.switch_session(Path::new(path)).await),
                Err(message) => Err(message),
            },
            // An empty id does not match any entry.
            "fork" => self.fork(text("entryId").unwrap_or_default()).await,
            "clone" => match self.control().with_session(|session| session.leaf().cloned()) {
                Some(leaf) => cancelled(agent.fork(&leaf.0, true).await.map(|forked| forked.cancelled)),
                None => Err("Cannot clone session: no current entry selected".to_owned()),
            },
            "export_html" => self.export(record["outputPath"].as_str()),
            _ => return None,
        })
    }

    async fn fork(&self, entry: &str) -> CommandResult {
        let forked = self.session.agent.fork(entry, false).await.map_err(|error| error.to_string())?;
        let mut data = json!({"cancelled": forked.cancelled});
        if let Some(text) = forked.selected_text {
            data["text"] = json!(text);
        }
        Ok(Some(data))
    }

    async fn set_model(&self, record: &Value) -> CommandResult {
        let part = |key: &str| record[key].as_str().unwrap_or("undefined");
        let (provider, id) = (part("provider"), part("modelId"));
        let available = self.session.agent.available_models();
        let model = available.into_iter().find(|model| model.provider == provider && model.id == id);
        let model = model.ok_or_else(|| format!("Model not found: {provider}/{id}"))?;
        self.session.agent.attend(self.session.agent.set_model(&model)).await?;
        Ok(Some(model.to_value()))
    }

    /// Runs a shell command of the client; events with the output precede the response.
    pub(super) async fn bash(&self, id: Option<&Value>, record: &Value) -> CommandResult {
        let command = record["command"].as_str().ok_or("bash: command must be a string")?;
        let exclude = record["excludeFromContext"].as_bool();
        let cancel = CancellationToken::new();
        self.shells.borrow_mut().push(cancel.clone());
        let result = self.session.agent.user_bash_as(id, command, exclude, Default::default(), cancel.clone()).await;
        // Marks the command as ended, so that it is not stopped again.
        cancel.cancel();
        self.shells.borrow_mut().retain(|shell| !shell.is_cancelled());
        result.map(|result| Some(json!(result)))
    }

    fn export(&self, to: Option<&str>) -> CommandResult {
        let (file, page) = self.control().with_session(|session| {
            let title = session.name().map_or_else(|| format!("Session {}", session.header().id), str::to_owned);
            let page = session.branch(None).map(|branch| page(&title, &refs(&branch)));
            page.map(|page| (session.path().map(Path::to_owned), page)).map_err(|error| error.to_string())
        })?;
        let file = file.ok_or("Cannot export in-memory session to HTML")?;
        if !file.exists() {
            return Err("Nothing to export yet - start a conversation first".to_owned());
        }
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let whose = if to.is_some() { NameOrigin::Theirs } else { NameOrigin::Ours };
        let to = to.map_or_else(|| PathBuf::from(format!("pi-session-{name}.html")), PathBuf::from);
        let to = self.session.cwd.join(to);
        export::put(&to, &page, whose).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(Some(json!({"path": to})))
    }
}

fn cancelled<E: std::fmt::Display>(result: Result<bool, E>) -> CommandResult {
    result.map(|cancelled| Some(json!({"cancelled": cancelled}))).map_err(|error| error.to_string())
}
