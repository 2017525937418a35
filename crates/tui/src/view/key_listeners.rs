//! Manages the key listeners of extensions, and the keys that wait for their results.

use super::component_pictures::ComponentId;
use crate::input::{TerminalInput, marked};
use crate::task::UiTask;
use pijs_protocol::ExtensionId;
use std::collections::VecDeque;

/// Maximum number of keys that wait for a listener; later ones are dropped.
const MAX_WAITING_KEYS: usize = 10_000;

/// The listeners, which handle one key at a time.
#[derive(Debug, Default)]
pub(crate) struct KeyListeners {
    listeners: Vec<ComponentId>,
    /// The key that listeners are handling.
    current: Option<TerminalInput>,
    /// Later keys, oldest first.
    waiting: VecDeque<TerminalInput>,
}

impl KeyListeners {
    /// Adds a listener. It replaces an earlier one of the same extension, because each key waits for all listeners.
    pub(crate) fn add(&mut self, id: ComponentId) {
        self.remove(&id.0);
        self.listeners.push(id);
    }

    /// Removes the listener of an extension.
    pub(crate) fn remove(&mut self, extension: &ExtensionId) {
        self.listeners.retain(|listener| listener.0 != *extension);
    }

    /// Removes the listeners of extensions whose realms are gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&ExtensionId) -> bool) {
        self.listeners.retain(|(extension, _)| !is_gone(extension));
    }

    /// Returns the extension that changed a key.
    pub(crate) fn author(&self) -> ExtensionId {
        match self.listeners.as_slice() {
            [(only, _)] => only.clone(),
            _ => ExtensionId::new("an extension that changes keys"),
        }
    }

    /// Returns whether listeners are handling a key.
    pub(crate) fn are_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Keeps a key until the listeners are ready.
    pub(crate) fn hold(&mut self, input: &TerminalInput) {
        if self.waiting.len() < MAX_WAITING_KEYS {
            self.waiting.push_back(input.clone());
        }
    }

    /// Returns the next key that was held.
    pub(crate) fn next_held(&mut self) -> Option<TerminalInput> {
        self.waiting.pop_front()
    }

    /// Passes a key to all listeners, or to the listener of one extension. Returns `None` if there is no listener.
    pub(crate) fn begin(&mut self, input: &TerminalInput, only: Option<&ExtensionId>) -> Option<UiTask> {
        let is_asked = |listener: &&ComponentId| only.is_none_or(|only| listener.0 == *only);
        let listeners: Vec<ComponentId> = self.listeners.iter().filter(is_asked).cloned().collect();
        if listeners.is_empty() {
            return None;
        }
        let data = match input {
            TerminalInput::Key(data) => data.clone(),
            TerminalInput::Paste(text) => marked(text),
        };
        self.current = Some(input.clone());
        Some(UiTask::Listen { data, listeners })
    }

    /// Returns the key that listeners were handling, and ends its handling.
    pub(crate) fn end(&mut self) -> Option<TerminalInput> {
        self.current.take()
    }
}
