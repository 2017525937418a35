//! Token counts of conversations: reported by the provider, and estimated for later messages.
//!
//! As in pi, a token is estimated as four characters, and an image as 4,800 characters, so that both programs make the same
//! decisions.

use crate::agent::Agent;
use crate::transcript;
use pijs_llm::message::Message;
use pijs_llm::tokens::{counted, estimate};
use pijs_session_store::context::{self, Projected};
use pijs_session_store::{Body, Entry, EntryId, Session, refs};
use serde_json::{Value, json};

/// Returns the tokens of a conversation: the last count that the provider reported, unless messages before it were removed, plus
/// an estimate for later messages.
pub(crate) fn of_conversation(projection: &[Projected<'_>], branch: &[&Entry]) -> u64 {
    let last = projection.iter().enumerate().rev().find_map(|(at, projected)| {
        projected.messages.iter().find_map(|message| match message {
            Message::Assistant(reply) => Some((at, projected.entry, counted(reply)?)),
            _ => None,
        })
    });
    let place = |id: &EntryId| branch.iter().position(|entry| entry.id == *id);
    let changed =
        branch.iter().rposition(|entry| matches!(entry.body, Body::ContextEdit { .. } | Body::Compaction { .. }));
    let trusted = last.filter(|(_, entry, _)| changed.is_none_or(|changed| place(&entry.id) > Some(changed)));
    let messages = |from: usize| projection[from..].iter().flat_map(|projected| &projected.messages);
    match trusted {
        Some((at, _, tokens)) => tokens.saturating_add(messages(at + 1).map(estimate).sum()),
        None => {
            let system = transcript::combined(messages(0).filter_map(transcript::system));
            let said = messages(0).filter(|message| transcript::system(message).is_none());
            system.map_or(0, |system| estimate(&Message::System(system))) + said.map(estimate).sum::<u64>()
        }
    }
}

impl Agent {
    /// Returns the result of `ctx.getContextUsage()`; `null` when the context window is unknown.
    pub(crate) fn context_usage(&self) -> Value {
        let Some(window) = self.control.model().and_then(|model| model.context_window()) else { return Value::Null };
        // The next model request reports an unreadable session.
        let Ok(seen) = self.control.with_session(Session::seen) else { return Value::Null };
        let branch = refs(&seen);
        let projection = context::projection(&branch);
        let compacted = branch.iter().rposition(|entry| matches!(entry.body, Body::Compaction { .. }));
        let counted_since = |compacted: usize| {
            branch[compacted + 1..].iter().any(|entry| match &entry.body {
                Body::Message { message: Message::Assistant(reply) } => counted(reply).is_some(),
                _ => false,
            })
        };
        if compacted.is_some_and(|compacted| !counted_since(compacted)) {
            // The last count includes the messages before the compaction.
            return json!({"tokens": null, "contextWindow": window, "percent": null});
        }
        let tokens = of_conversation(&projection, &branch);
        // As in JavaScript, an integer has no fraction.
        let percent = tokens as f64 / window as f64 * 100.0;
        json!({"tokens": tokens, "contextWindow": window, "percent": percent})
    }

    pub(crate) fn publish_usage(&self) {
        self.control.publish("contextUsage", self.context_usage());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use pijs_llm::message::{AssistantMessage, Block, StopReason, Usage};
    use pijs_session_store::Session;
    use serde_json::Map;
    use std::path::Path;

    fn reply(tokens: u64) -> Message {
        Message::Assistant(AssistantMessage {
            content: vec![Block::text("abcd")],
            api: String::new(),
            provider: String::new(),
            model: String::new(),
            usage: Usage { total_tokens: tokens, ..Usage::default() },
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp: 0,
            extra: Map::new(),
        })
    }

    fn tokens(session: &Session) -> u64 {
        let entries = session.branch(None).unwrap();
        let branch = refs(&entries);
        of_conversation(&context::projection(&branch), &branch)
    }

    #[test]
    fn a_token_count_is_invalid_after_a_removal() {
        let mut session = Session::in_memory(Path::new("/w"), testing::ambient());
        let first = session.append_message(&Message::user("12345678", 0)).unwrap().id.clone();
        assert_eq!(tokens(&session), 2);
        session.append_message(&reply(100)).unwrap();
        session.append_message(&Message::user("12345", 0)).unwrap();
        assert_eq!(tokens(&session), 102);
        session.append(Body::ContextEdit { target_id: first, replacement: Value::Null }).unwrap();
        assert_eq!(tokens(&session), 1 + 2);
    }

    #[test]
    fn characters_are_counted_as_javascript_counts_them() {
        assert_eq!(estimate(&Message::user("😀😀", 0)), 1);
        let image = Block::Image { data: "AA==".into(), mime_type: "image/png".into() };
        let user =
            pijs_llm::message::UserMessage { content: vec![image].into(), timestamp: 0, authors: Default::default() };
        assert_eq!(estimate(&Message::User(user)), 1200);
    }
}
