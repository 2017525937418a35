//! Content as the user gave it, or as extensions wrote or changed it.
//!
//! Handlers of `input`, and `sendUserMessage`, produce text that the model reads as the user's. [`Authored`] carries the names of
//! those extensions to the message in the session, so that later tool calls are also judged as calls of these extensions.

use pijs_llm::message::{Content, UserMessage};
use pijs_protocol::ExtensionId;
use std::collections::BTreeSet;

/// Names of the extensions that wrote or changed a text; empty if the user wrote it.
pub type Authors = BTreeSet<String>;

/// Content, with the extensions that wrote or changed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Authored {
    /// Text and images.
    pub content: Content,
    /// The extensions.
    pub authors: Authors,
}

impl From<Content> for Authored {
    /// Returns content that the user wrote.
    fn from(content: Content) -> Self {
        Self { content, authors: BTreeSet::new() }
    }
}

impl Authored {
    /// Returns content that an extension wrote, or the user for `None`.
    pub fn by(author: Option<&ExtensionId>, content: Content) -> Self {
        Self { content, authors: author.iter().map(ToString::to_string).collect() }
    }

    /// Replaces the content, and keeps the authors.
    #[must_use]
    pub fn with_content(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Returns a user message with the content.
    pub fn message(&self, timestamp: u64) -> UserMessage {
        UserMessage { content: self.content.blocks().into(), timestamp, authors: self.authors.clone() }
    }
}
