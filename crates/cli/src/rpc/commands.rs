//! Executes the commands of a client.

use super::stats::stats;
use super::wire::Wire;
use pijs_agent::{AgentControl, ControlError, DeliverAs, Disposition, InputSource};
use pijs_llm::message::{Block, Content, Message};
use pijs_runtime::AgentSession;
use pijs_session_store::{Body, Entry, EntryId, Session};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Executes the commands of one client on its session.
pub(super) struct Commands {
    pub(super) session: Rc<AgentSession>,
    pub(super) wire: Wire,
    /// Running shell commands.
    pub(super) shells: RefCell<Vec<CancellationToken>>,
}

/// The data of a response, or the error.
pub(super) type CommandResult = Result<Option<Value>, String>;

impl Commands {
    /// Handles one record and responds to it.
    pub(super) async fn handle(self: Rc<Self>, record: Value) {
        let id = record.get("id").cloned();
        let given = record.get("type");
        let Some(kind) = given.and_then(Value::as_str).map(str::to_owned) else {
            let named = given.map_or_else(|| "undefined".to_owned(), Value::to_string);
            self.wire.respond_to(id.as_ref(), given, Err(format!("Unknown command: {named}")));
            return;
        };
        let answer = match kind.as_str() {
            // `prompt` sends its own response before the run begins.
            "prompt" => return self.prompt(id.as_ref(), &record).await,
            "bash" => self.bash(id.as_ref(), &record).await,
            other => match self.change(other, &record).await {
                Some(answer) => answer,
                None => self.answer(other, &record).await,
            },
        };
        // Immediate effects of the command are written before its response.
        self.control().barrier().await;
        self.wire.respond(id.as_ref(), &kind, answer);
    }

    async fn answer(&self, kind: &str, record: &Value) -> CommandResult {
        let control = self.control();
        let text = |key: &str| record[key].as_str().ok_or_else(|| format!("{kind}: {key} must be a string"));
        match kind {
            "steer" | "follow_up" => {
                let how = if kind == "steer" { DeliverAs::Steer } else { DeliverAs::FollowUp };
                text("message")?;
                let queued = self.session.agent.queue_input(content(record), InputSource::Rpc, how).await;
                queued.map(accepted).map_err(|error| error.to_string())
            }
            "abort" => {
                control.abort();
                // Commands and hooks of extensions do not belong to a run, but must end as well.
                self.session.host.limit_waits_after_abort();
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
            "get_entries" => self.entries(record.get("since")),
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
                Ok(Some(text.map_or_else(|| json!({}), |text| json!({"text": text}))))
            }
            "get_session_stats" => {
                let usage = self.session.host.state().get("contextUsage");
                control.with_session(|session| stats(session, usage)).map(Some)
            }
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

    /// Responds once the prompt is accepted, or with the refusal; then runs it to its end and handles requests of extensions
    /// meanwhile.
    async fn prompt(&self, id: Option<&Value>, record: &Value) {
        let respond = |outcome: CommandResult| self.wire.respond(id, "prompt", outcome);
        let Some(text) = record["message"].as_str() else {
            return respond(Err("prompt: message must be a string".to_owned()));
        };
        let deliver_as = match record["streamingBehavior"].as_str() {
            None | Some("") => None,
            Some("followUp") => Some(DeliverAs::FollowUp),
            Some(_) => Some(DeliverAs::Steer),
        };
        let is_accepted = Cell::new(false);
        let accepted = |disposition: Disposition<'_>| {
            if let Disposition::Failed(error) = disposition {
                let command = text.split(' ').next().unwrap_or_default().replacen('/', "command:", 1);
                let record = json!({
                    "type": "extension_error", "extensionPath": command, "event": "command", "error": error,
                });
                // A write to a disconnected client fails and is ignored.
                let _ = self.wire.send(&record);
            }
            is_accepted.set(true);
            respond(Ok(accepted(disposition)));
        };
        let agent = &self.session.agent;
        match agent.prompt_accepted(content(record), InputSource::Rpc, deliver_as, accepted).await {
            Ok(_) => {}
            Err(error) if is_accepted.get() => crate::output::stderr(&crate::output::clean(&error.to_string())),
            Err(error) => respond(Err(error.to_string())),
        }
    }

    /// Waits until no prompt is running.
    pub(super) async fn idle(&self) {
        self.control().settled().await;
    }

    pub(super) fn control(&self) -> &AgentControl {
        self.session.agent.control()
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

    fn entries(&self, since: Option<&Value>) -> CommandResult {
        self.control().with_session(|session| {
            let from = match since {
                None => 0,
                Some(Value::String(since)) => {
                    let at = session.index_of(&EntryId(since.clone()));
                    at.ok_or_else(|| format!("Entry not found: {since}"))? + 1
                }
                Some(since) => return Err(format!("Entry not found: {since}")),
            };
            let shown = session.entries_from(from).map(|entry| entry.map(|entry| entry.to_value()));
            let shown = shown.collect::<Result<Vec<Value>, _>>().map_err(|error| error.to_string())?;
            Ok(Some(json!({"entries": shown, "leafId": session.leaf()})))
        })
    }

    fn fork_messages(&self) -> Result<Vec<Value>, String> {
        self.control().with_session(|session| {
            let mut said = Vec::new();
            for entry in session.entries() {
                let entry = entry.map_err(|error| error.to_string())?;
                let Body::Message { message: Message::User(user) } = &entry.body else { continue };
                let text: String = user.content.blocks().iter().filter_map(Block::as_text).collect();
                if !text.is_empty() {
                    said.push(json!({"entryId": entry.id, "text": text}));
                }
            }
            Ok(said)
        })
    }
}

/// Returns the disposition of an accepted text for clients of pi 1.5; clients of older versions get no data.
fn accepted(disposition: Disposition<'_>) -> Option<Value> {
    Some(json!({"disposition": disposition.as_str()}))
}

/// Maximum depth of a tree that is written as one record.
const DEEPEST_TREE: usize = 2000;

/// Returns the depth of a session's tree, without recursion.
fn depth(session: &Session) -> usize {
    // An entry comes after its parent in the file.
    let mut depths: Vec<usize> = Vec::with_capacity(session.len());
    for (_, parent) in session.ids() {
        let above = parent.and_then(|parent| session.index_of(&parent)).and_then(|at| depths.get(at));
        depths.push(above.map_or(1, |above| above + 1));
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Returns nodes `{entry, children}`; entries without a parent in the file are roots.
fn tree(entries: &[Arc<Entry>]) -> Value {
    // An entry comes after its parent in the file, so in reverse order every node is complete when it is visited.
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
