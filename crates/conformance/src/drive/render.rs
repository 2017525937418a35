//! Implements the step `render`: records every message, entry and tool call of the branch that an extension renders, as screen
//! lines, collapsed and expanded (`+`).

use super::Driver;
use super::steps::broken;
use super::ui::shown_lines;
use pijs_host::Host;
use pijs_llm::message::{Message, ToolCall};
use pijs_runtime::renderers::{CallState, Renderer, call_context, custom_message, options};
use pijs_session_store::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Driver {
    pub(super) async fn render(&self) {
        let branch = self.control.with_session(|session| session.branch(None)).unwrap_or_default();
        let cwd = &self.surroundings.dirs.cwd;
        let mut calls: BTreeMap<String, ToolCall> = BTreeMap::new();
        for entry in &branch {
            match &entry.body {
                Body::CustomMessage { custom_type, .. } => {
                    let message = custom_message(&entry.to_value());
                    self.renderer("message", custom_type, message, Renderer::of_message).await;
                }
                Body::Custom { custom_type, .. } => {
                    self.renderer("entry", custom_type, entry.to_value(), Renderer::of_entry).await;
                }
                Body::Message { message: Message::Assistant(reply) } => {
                    for call in reply.tool_calls() {
                        calls.insert(call.id.clone(), call.clone());
                        let state = CallState { is_partial: false, expanded: false, is_error: false };
                        let context = call_context(&call.arguments, &call.id, cwd, state);
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
                        let state = CallState { is_partial: false, expanded, is_error: result.is_error };
                        let context = call_context(&given, &result.tool_call_id, cwd, state);
                        let what = if expanded { "tool_result+" } else { "tool_result" };
                        self.tool_renderer(what, &result.tool_name, "renderResult", vec![shown, options, context])
                            .await;
                    }
                }
                _ => {}
            }
        }
    }

    async fn renderer(&self, what: &str, name: &str, value: Value, of: fn(&Host, &str) -> Option<Renderer>) {
        let Some(renderer) = of(&self.host, name) else { return };
        for expanded in [false, true] {
            let what = if expanded { format!("{what}+") } else { what.to_owned() };
            self.draw(&what, name, &renderer, vec![value.clone(), options(expanded)]).await;
        }
    }

    async fn tool_renderer(&self, what: &str, name: &str, function: &str, args: Vec<Value>) {
        if let Some(renderer) = Renderer::of_tool(&self.host, name, function) {
            self.draw(what, name, &renderer, args).await;
        }
    }

    async fn draw(&self, what: &str, name: &str, renderer: &Renderer, args: Vec<Value>) {
        match renderer.draw(&self.host, args, self.scenario.width()).await {
            Ok(Some(drawn)) => {
                let lines = shown_lines(&drawn["lines"]);
                self.trace.record("render", json!({"what": what, "name": name, "lines": lines}));
            }
            // The extension renders nothing for it.
            Ok(None) => {}
            Err(other) => {
                self.trace.record("render", json!({"what": what, "name": name, "error": broken(other)}));
            }
        }
    }
}
