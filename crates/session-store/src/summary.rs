//! A summary of a conversation as an entry of the session.

use crate::entry::EntryId;
use serde_json::{Map, Value};

/// A summary with its position in the session.
#[derive(Debug, Clone)]
pub struct ConversationSummary {
    /// Text for the model.
    pub text: String,
    /// Value of `details` in the entry.
    pub details: Option<Value>,
    /// Token usage of the request that wrote the summary.
    pub usage: Option<Value>,
    /// First entry that stays; `None` if none does.
    pub first_kept: Option<EntryId>,
    /// Tokens of the conversation before the summary.
    pub tokens_before: u64,
}

/// Returns `details`, `usage` and `fromHook` for an entry.
pub fn rest(details: Option<Value>, usage: Option<Value>, from_hook: bool) -> Map<String, Value> {
    let mut rest = Map::new();
    let known = [("details", details), ("usage", usage)];
    rest.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    rest.insert("fromHook".to_owned(), from_hook.into());
    rest
}
