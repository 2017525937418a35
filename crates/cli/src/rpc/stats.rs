//! Statistics of a session: messages by kind, and the usage of models. Abandoned branches and summarised messages are included.

use pijs_llm::message::{Message, Usage};
use pijs_session_store::{Body, Session};
use serde_json::{Map, Value, json};

/// Returns the data of `get_session_stats`; `context_usage` is the model's current context.
pub(super) fn stats(session: &Session, context_usage: Option<Value>) -> Result<Value, String> {
    let (mut users, mut replies, mut results, mut all, mut calls) = (0, 0, 0, 0, 0);
    let mut used = Usage::default();
    for entry in session.entries() {
        let entry = entry.map_err(|error| error.to_string())?;
        let message = match &entry.body {
            Body::Message { message } => message,
            Body::Compaction { extra, .. } | Body::BranchSummary { extra, .. } => {
                used = used + read(extra.get("usage"));
                continue;
            }
            Body::Other(members) if members.get("type").is_some_and(|kind| kind == "usage") => {
                used = used + read(members.get("usage"));
                continue;
            }
            _ => continue,
        };
        all += 1;
        match message {
            Message::User(_) => users += 1,
            Message::ToolResult(result) => {
                results += 1;
                // Model requests of a tool are billed as well.
                used = used + read(result.usage.as_ref());
            }
            Message::Assistant(reply) => {
                replies += 1;
                calls += reply.tool_calls().count();
                used = used + reply.usage;
            }
            _ => {}
        }
    }
    let mut stats = Map::new();
    if let Some(file) = session.path() {
        stats.insert("sessionFile".to_owned(), json!(file));
    }
    let counted = json!({
        "sessionId": session.header().id, "userMessages": users, "assistantMessages": replies, "toolCalls": calls,
        "toolResults": results, "totalMessages": all,
        "tokens": {
            "input": used.input, "output": used.output, "cacheRead": used.cache_read, "cacheWrite": used.cache_write,
            "total": used.all(),
        },
        "cost": used.cost.total,
    });
    stats.extend(counted.as_object().cloned().into_iter().flatten());
    stats.extend(context_usage.filter(|usage| !usage.is_null()).map(|usage| ("contextUsage".to_owned(), usage)));
    Ok(Value::Object(stats))
}

/// Returns a recorded usage; zero if it is malformed.
fn read(usage: Option<&Value>) -> Usage {
    usage.and_then(|usage| serde_json::from_value(usage.clone()).ok()).unwrap_or_default()
}
