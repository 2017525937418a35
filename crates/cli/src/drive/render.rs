//! The step `render`: every message, entry and tool call of the branch that an extension draws, as it would
//! stand on the screen, folded and unfolded (`+`).

use super::Driver;
use super::steps::broken;
use super::ui::shown_lines;
use pijs_agent::message::{Message, ToolCall};
use pijs_agent::session::Body;
use pijs_host::{CallbackOutcome, Owner};
use pijs_protocol::Handle;
use pijs_protocol::registration::Registration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Driver {
    pub(super) async fn render(&self) {
        let branch: Vec<_> = self.control.with_session(|session| session.branch(None).into_iter().cloned().collect());
        let mut calls: BTreeMap<String, ToolCall> = BTreeMap::new();
        for entry in &branch {
            match &entry.body {
                Body::CustomMessage { custom_type, content, display, details } => {
                    let message = json!({
                        "role": "custom", "customType": custom_type, "content": content, "display": display,
                        "details": details, "timestamp": epoch_ms(&entry.timestamp),
                    });
                    self.renderer("message", custom_type, message, message_renderer).await;
                }
                Body::Custom { custom_type, .. } => {
                    self.renderer("entry", custom_type, entry.to_value(), entry_renderer).await;
                }
                Body::Message { message: Message::Assistant(reply) } => {
                    for call in reply.tool_calls() {
                        calls.insert(call.id.clone(), call.clone());
                        let context = self.context(&call.arguments, &call.id, false, false);
                        let args = vec![call.arguments.clone(), context];
                        self.tool_renderer("tool_call", &call.name, "renderCall", args).await;
                    }
                }
                Body::Message { message: Message::ToolResult(result) } => {
                    let given =
                        calls.get(&result.tool_call_id).map_or_else(|| json!({}), |call| call.arguments.clone());
                    for expanded in [false, true] {
                        let shown = json!({"content": result.content, "details": result.details});
                        let options = json!({"expanded": expanded, "isPartial": false});
                        let context = self.context(&given, &result.tool_call_id, expanded, result.is_error);
                        let what = if expanded { "tool_result+" } else { "tool_result" };
                        self.tool_renderer(what, &result.tool_name, "renderResult", vec![shown, options, context])
                            .await;
                    }
                }
                _ => {}
            }
        }
    }

    /// What a tool's renderer is told beside the call.
    fn context(&self, args: &Value, id: &str, expanded: bool, is_error: bool) -> Value {
        json!({
            "args": args, "toolCallId": id, "cwd": self.surroundings.dirs.cwd, "executionStarted": true,
            "argsComplete": true, "isPartial": false, "expanded": expanded, "showImages": false, "isError": is_error,
        })
    }

    async fn renderer(&self, what: &str, name: &str, value: Value, of: fn(&Registration) -> Option<(&str, Handle)>) {
        let found = self.host.other_registrations().into_iter().find_map(|(owner, other)| {
            let (custom_type, handle) = of(&other)?;
            (custom_type == name).then_some((owner, handle))
        });
        let Some((owner, handle)) = found else { return };
        for expanded in [false, true] {
            let what = if expanded { format!("{what}+") } else { what.to_owned() };
            let args = vec![value.clone(), json!({"expanded": expanded, "outputPad": 1})];
            self.draw(&what, name, &owner, handle, args).await;
        }
    }

    async fn tool_renderer(&self, what: &str, name: &str, function: &str, args: Vec<Value>) {
        let tool = self.host.tools().into_iter().find(|tool| tool.spec.name == name);
        let found = tool.and_then(|tool| {
            let function = tool.spec.functions.iter().find(|known| known.name == function)?;
            Some((function.handle, tool.owner))
        });
        if let Some((handle, owner)) = found {
            self.draw(what, name, &owner, handle, args).await;
        }
    }

    async fn draw(&self, what: &str, name: &str, owner: &Owner, handle: Handle, mut args: Vec<Value>) {
        args.push(self.scenario.width().into());
        match self.host.call_back(&owner.extension, owner.entry, handle, args).await {
            CallbackOutcome::Returned(Some(drawn)) => {
                let item = json!({"what": what, "name": name, "lines": shown_lines(&drawn["lines"])});
                self.trace.record("render", item);
            }
            // It draws nothing.
            CallbackOutcome::Returned(None) => {}
            other => {
                self.trace.record("render", json!({"what": what, "name": name, "error": broken(other)}));
            }
        }
    }
}

fn message_renderer(registration: &Registration) -> Option<(&str, Handle)> {
    match registration {
        Registration::MessageRenderer { custom_type, handle } => Some((custom_type, *handle)),
        _ => None,
    }
}

fn entry_renderer(registration: &Registration) -> Option<(&str, Handle)> {
    match registration {
        Registration::EntryRenderer { custom_type, handle } => Some((custom_type, *handle)),
        _ => None,
    }
}

fn epoch_ms(timestamp: &str) -> i64 {
    let parsed = time::OffsetDateTime::parse(timestamp, &time::format_description::well_known::Rfc3339);
    parsed.map_or(0, |moment| i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
}
