//! A summary of a conversation as an entry of the session.

use pijs_session_store::EntryId;
use serde_json::{Map, Value};

/// A summary with its position in the session.
#[derive(Debug, Clone)]
pub(crate) struct ConversationSummary {
    pub(crate) text: String,
    pub(crate) details: Option<Value>,
    /// Token usage of the request that wrote the summary.
    pub(crate) usage: Option<Value>,
    pub(crate) first_kept: Option<EntryId>,
    pub(crate) tokens_before: u64,
}

/// Returns `details`, `usage` and `fromHook` for an entry.
pub(crate) fn rest(details: Option<Value>, usage: Option<Value>, from_hook: bool) -> Map<String, Value> {
    let mut rest = Map::new();
    let known = [("details", details), ("usage", usage)];
    rest.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    rest.insert("fromHook".to_owned(), from_hook.into());
    rest
}
