//! The model: a server with OpenAI's protocol that replies from a fixture, in order.

use super::fixture::Reply;
use super::loopback::{Server, ServerRequest, ServerResponse, serve};
use super::observations::Observations;
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Tools of pi itself; only the package's tools are recorded.
const BUILT_IN: [&str; 7] = ["bash", "edit", "find", "grep", "ls", "read", "write"];

/// Starts the server, and records each request in `seen`.
pub(super) async fn open(replies: Vec<Reply>, seen: Observations) -> Result<Server> {
    let replies = Mutex::new((VecDeque::from(replies), 0));
    serve(0, move |request: &ServerRequest| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        seen.note("model", noted(&body));
        let mut replies = replies.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = replies.0.pop_front().unwrap_or_else(|| Reply::Text("there is no more reply".to_owned()));
        replies.1 += 1;
        answer(&reply, replies.1)
    })
    .await
}

/// Returns the recorded form of a request: the model, its tools other than pi's own, and the last message.
fn noted(body: &Value) -> Value {
    let tools = body["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str());
    let mut tools: Vec<&str> = tools.filter(|name| !BUILT_IN.contains(name)).collect();
    tools.sort_unstable();
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    // A text may be sent as a list with one block.
    let blocks = last["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let text = last["content"].as_str().map_or_else(|| blocks.collect::<String>(), str::to_owned);
    json!({ "model": body["model"], "tools": tools, "role": last["role"], "told": text })
}

fn answer(reply: &Reply, number: usize) -> ServerResponse {
    let chunk = |delta: Value, end: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": end });
        format!("data: {}\n\n", json!({ "id": "reply", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let (delta, end) = match reply {
        Reply::Error { status, error } => {
            let body = json!({ "error": { "message": error } });
            return ServerResponse { status: *status, ..ServerResponse::new("application/json", body.to_string()) };
        }
        Reply::Text(text) => (json!({ "content": text }), "stop"),
        Reply::Call { tool, input } => {
            let function = json!({ "name": tool, "arguments": input.to_string() });
            let call = json!({ "index": 0, "id": format!("call_{number}"), "type": "function", "function": function });
            (json!({ "tool_calls": [call] }), "tool_calls")
        }
    };
    let body = [chunk(delta, None), chunk(json!({}), Some(end)), "data: [DONE]\n\n".to_owned()].concat();
    ServerResponse::new("text/event-stream", body)
}
