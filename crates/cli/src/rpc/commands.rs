//! What a client can ask for.

use super::wire::Wire;
use crate::session::Assembled;
use pijs_agent::message::{Block, Content, Message};
use pijs_agent::session::{Body, Entry, EntryId, Session};
use pijs_agent::{AgentControl, ControlError, DeliverAs, Ending, InputSource};
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The session of one client.
pub(super) struct Commands {
    pub(super) session: Rc<Assembled>,
    pub(super) wire: Wire,
    /// Prompts that are being answered.
    pub(super) running: Cell<usize>,
    /// Shell commands that run.
    pub(super) shells: RefCell<Vec<CancellationToken>>,
}

/// Data of a response, or why there is none.
pub(super) type Answer = Result<Option<Value>, String>;

impl Commands {
    /// Handles one record and responds to it.
    pub(super) async fn handle(self: Rc<Self>, record: Value) {
        let id = record.get("id").cloned();
        let Some(kind) = record.get("type").and_then(Value::as_str).map(str::to_owned) else {
            self.wire.respond(id.as_ref(), "unknown", Err("Unknown command: undefined".to_owned()));
            return;
        };
        let answer = match kind.as_str() {
            // Responds by itself, before the run begins.
            "prompt" => return self.prompt(id.as_ref(), &record).await,
            "bash" => self.bash(id.as_ref(), &record).await,
            other => match self.change(other, &record).await {
                Some(answer) => answer,
                None => self.answer(other, &record).await,
            },
        };
        self.wire.respond(id.as_ref(), &kind, answer);
    }

    async fn answer(&self, kind: &str, record: &Value) -> Answer {
        let control = self.control();
        let text = |key: &str| record[key].as_str().ok_or_else(|| format!("{kind}: {key} must be a text"));
        match kind {
            "steer" | "follow_up" => {
                let how = if kind == "steer" { DeliverAs::Steer } else { DeliverAs::FollowUp };
                text("message")?;
                let queued = self.session.agent.queue_input(content(record), InputSource::Rpc, how).await;
                queued.map(|()| None).map_err(|error| error.to_string())
            }
            "abort" => {
                control.abort();
                // A command or a hook belongs to no run, and has to end as well.
                self.session.host.hurry();
                self.idle().await;
                Ok(None)
            }
            "clear_queue" => {
                let (steering, follow_up) = control.clear_waiting();
                Ok(Some(json!({"steering": steering, "followUp": follow_up})))
            }
            "get_state" => self.state().map(Some).map_err(|error| error.to_string()),
            "get_messages" => {
                let messages = self.session.agent.messages().map_err(|error| error.to_string())?;
                Ok(Some(json!({"messages": messages.iter().map(Message::to_value).collect::<Vec<_>>()})))
            }
            "get_entries" => self.entries(record.get("since").and_then(Value::as_str)),
            "get_tree" => control.with_session(|session| {
                if depth(session) > DEEPEST_TREE {
                    return Err(format!(
                        "get_tree: the session is deeper than {DEEPEST_TREE} entries; use get_entries"
                    ));
                }
                let entries = session.entries().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
                Ok(Some(json!({"tree": tree(&entries), "leafId": session.leaf()})))
            }),
            "get_fork_messages" => self.fork_messages().map(|said| Some(json!({"messages": said}))),
            "get_last_assistant_text" => {
                let text = self.session.agent.last_reply().map_err(|error| error.to_string())?;
                Ok(Some(json!({"text": text})))
            }
            "get_session_stats" => self.stats().map(Some),
            "get_commands" => {
                let commands = self.session.host.state().get("commands").unwrap_or_else(|| json!([]));
                Ok(Some(json!({"commands": commands})))
            }
            "set_session_name" => {
                let name = text("name")?.trim();
                if name.is_empty() {
                    return Err("Session name cannot be empty".to_owned());
                }
                control.set_session_name(name).map_err(|error| error.to_string())?;
                Ok(None)
            }
            other => Err(format!("Unknown command: {other}")),
        }
    }

    async fn prompt(&self, id: Option<&Value>, record: &Value) {
        let accept = |outcome: Answer| self.wire.respond(id, "prompt", outcome);
        let Some(text) = record["message"].as_str() else {
            return accept(Err("prompt: message must be a text".to_owned()));
        };
        let control = self.control();
        let content = content(record);
        if self.is_command(text) {
            self.run(content).await;
            return accept(Ok(None));
        }
        if control.is_idle() && self.running.get() == 0 {
            accept(Ok(None));
            return self.run(content).await;
        }
        let how = match record["streamingBehavior"].as_str() {
            Some("steer") => Some(DeliverAs::Steer),
            Some("followUp") => Some(DeliverAs::FollowUp),
            _ => None,
        };
        accept(match how {
            None => Err(
                "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
                    .to_owned(),
            ),
            how => control.send_user_message(content, how, true).map(|()| None).map_err(|error| error.to_string()),
        });
    }

    /// Answers a prompt to its end, and what extensions ask for meanwhile.
    async fn run(&self, content: Content) {
        self.running.set(self.running.get() + 1);
        let command = content.text().split(' ').next().unwrap_or_default().replacen('/', "command:", 1);
        let outcome = self.session.agent.submit(content, InputSource::Rpc).await;
        self.running.set(self.running.get() - 1);
        match outcome {
            Ok(outcome) => {
                if let Ending::CommandFailed(error) = outcome.ending {
                    let record = json!({
                        "type": "extension_error", "extensionPath": command, "event": "command", "error": error,
                    });
                    // A client that is gone hears of nothing.
                    let _ = self.wire.send(&record);
                }
            }
            Err(error) => crate::output::stderr(&crate::output::clean(&error.to_string())),
        }
    }

    /// Waits until no prompt is being answered.
    pub(super) async fn idle(&self) {
        self.control().settled().await;
    }

    pub(super) fn control(&self) -> &AgentControl {
        self.session.agent.control()
    }

    fn is_command(&self, text: &str) -> bool {
        let Some(line) = text.strip_prefix('/') else { return false };
        let name = line.split(' ').next().unwrap_or_default();
        self.session.host.commands().iter().any(|command| command.invocation == name)
    }

    fn state(&self) -> Result<Value, ControlError> {
        let state = self.session.host.state();
        let (steering, follow_up) = self.control().waiting();
        let (file, id, name) = self.control().with_session(|session| {
            (session.path().map(ToOwned::to_owned), session.header().id.clone(), session.name().map(str::to_owned))
        });
        let settings = self.session.agent.settings();
        let mode = |all: bool| if all { "all" } else { "one-at-a-time" };
        let mut members = json!({
            "model": state.get("model"), "thinkingLevel": state.get("thinkingLevel"),
            "isStreaming": !self.control().is_idle(), "isCompacting": self.control().is_summarising(),
            "steeringMode": mode(settings.steer_all), "followUpMode": mode(settings.follow_up_all),
            "sessionFile": file, "sessionId": id, "sessionName": name,
            "autoCompactionEnabled": settings.compaction.enabled, "messageCount": self.session.agent.messages()?.len(),
            "pendingMessageCount": steering.len() + follow_up.len(),
        });
        if let Value::Object(members) = &mut members {
            members.retain(|_, value| !value.is_null());
        }
        Ok(members)
    }

    fn entries(&self, since: Option<&str>) -> Answer {
        self.control().with_session(|session| {
            let from = match since {
                None => 0,
                Some(since) => {
                    let at = session.place(&EntryId(since.to_owned()));
                    at.ok_or_else(|| format!("Entry not found: {since}"))? + 1
                }
            };
            let shown = session.entries_from(from).map(|entry| entry.map(|entry| entry.to_value()));
            let shown = shown.collect::<Result<Vec<Value>, _>>().map_err(|error| error.to_string())?;
            Ok(Some(json!({"entries": shown, "leafId": session.leaf()})))
        })
    }

    fn fork_messages(&self) -> Result<Vec<Value>, String> {
        self.control().with_session(|session| {
            let mut said = Vec::new();
            for entry in session.along_branch() {
                let entry = entry.map_err(|error| error.to_string())?;
                if let Body::Message { message: Message::User(user) } = &entry.body {
                    said.push(json!({"entryId": entry.id, "text": user.content.text()}));
                }
            }
            Ok(said)
        })
    }

    fn stats(&self) -> Result<Value, String> {
        let (file, id) =
            self.control().with_session(|session| (session.path().map(ToOwned::to_owned), session.header().id.clone()));
        let mut roles: BTreeMap<String, usize> = BTreeMap::new();
        let mut tokens: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut calls, mut cost) = (0, 0.0);
        self.control().with_session(|session| {
            for entry in session.along_branch() {
                let entry = entry.map_err(|error| error.to_string())?;
                let role = match &entry.body {
                    Body::Message { message } => message.role(),
                    Body::CustomMessage { .. } => "custom",
                    _ => continue,
                };
                *roles.entry(role.to_owned()).or_default() += 1;
                // What tools used themselves was paid for, too.
                if let Body::Message { message: Message::ToolResult(result) } = &entry.body
                    && let Some(usage) = &result.usage
                {
                    for key in ["input", "output", "cacheRead", "cacheWrite"] {
                        *tokens.entry(key).or_default() += usage[key].as_u64().unwrap_or(0);
                    }
                    cost += usage["cost"]["total"].as_f64().unwrap_or(0.0);
                }
                let Body::Message { message: Message::Assistant(reply) } = &entry.body else { continue };
                calls += reply.tool_calls().count();
                let usage = &reply.usage;
                for (key, count) in [
                    ("input", usage.input),
                    ("output", usage.output),
                    ("cacheRead", usage.cache_read),
                    ("cacheWrite", usage.cache_write),
                ] {
                    *tokens.entry(key).or_default() += count;
                }
                cost += usage.cost.total;
            }
            Ok::<(), String>(())
        })?;
        let of = |role: &str| roles.get(role).copied().unwrap_or(0);
        let total: u64 = tokens.values().sum();
        let mut tokens: Map<String, Value> =
            tokens.into_iter().map(|(key, count)| (key.to_owned(), count.into())).collect();
        tokens.insert("total".to_owned(), total.into());
        let mut stats = json!({
            "sessionFile": file, "sessionId": id, "userMessages": of("user"), "assistantMessages": of("assistant"),
            "toolCalls": calls, "toolResults": of("toolResult"), "totalMessages": roles.values().sum::<usize>(), "tokens": tokens,
            "cost": cost, "contextUsage": self.session.host.state().get("contextUsage"),
        });
        if let Value::Object(members) = &mut stats {
            members.retain(|_, value| !value.is_null());
        }
        Ok(stats)
    }
}

/// How deep a tree may be that is written as one record.
const DEEPEST_TREE: usize = 2000;

/// How deep the tree of a session is, told without reading it.
fn depth(session: &Session) -> usize {
    // An entry follows its parent in the file.
    let mut depths: Vec<usize> = Vec::with_capacity(session.len());
    for (_, parent) in session.ids() {
        let above = parent.and_then(|parent| session.place(&parent)).and_then(|at| depths.get(at));
        depths.push(above.map_or(1, |above| above + 1));
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Nodes `{entry, children}`; entries without a parent in the file are roots.
fn tree(entries: &[Arc<Entry>]) -> Value {
    // An entry follows its parent in the file, so backwards every node is complete when it is met.
    let mut children: BTreeMap<&EntryId, Vec<Value>> = BTreeMap::new();
    let mut labels: BTreeMap<&EntryId, (&str, &str)> = BTreeMap::new();
    for entry in entries {
        match &entry.body {
            Body::Label { target_id, label: Some(label) } => {
                labels.insert(target_id, (label, &entry.timestamp));
            }
            Body::Label { target_id, label: None } => {
                labels.remove(target_id);
            }
            _ => {}
        }
    }
    let known: BTreeSet<&EntryId> = entries.iter().map(|entry| &entry.id).collect();
    let mut roots = Vec::new();
    for entry in entries.iter().rev() {
        let mut below = children.remove(&entry.id).unwrap_or_default();
        below.reverse();
        let mut node = json!({"entry": entry.to_value(), "children": below});
        if let Some((label, since)) = labels.get(&entry.id) {
            node["label"] = json!(label);
            node["labelTimestamp"] = json!(since);
        }
        match entry.parent.as_ref().filter(|parent| known.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(node),
            None => roots.push(node),
        }
    }
    roots.reverse();
    Value::Array(roots)
}

fn content(record: &Value) -> Content {
    let mut blocks = vec![Block::text(record["message"].as_str().unwrap_or_default())];
    let images = record.get("images").cloned().and_then(|images| serde_json::from_value::<Vec<Block>>(images).ok());
    blocks.extend(images.unwrap_or_default());
    blocks.into()
}
