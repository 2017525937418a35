//! Tracks open dialogs and notifies extensions (`ui_prompt_start`, `ui_prompt_end`).
//!
//! As in pi, concurrent dialogs are reported as one, with kind and title of the first.

use super::{AgentControl, ControlShared};
use crate::extensions::Event;
use serde_json::json;
use std::sync::{MutexGuard, PoisonError};

/// State of the open dialogs.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    open: usize,
    /// Kind and title of the first dialog.
    first: Option<(String, String)>,
    /// Number of reloads of extensions; dialogs of earlier loads are ignored.
    loads: u64,
    /// Whether an extension subscribes to these events.
    heard: bool,
}

/// An open dialog, until it is dropped.
#[derive(Debug)]
pub struct UiPrompt {
    control: AgentControl,
    loads: u64,
}

impl AgentControl {
    /// Opens a dialog: `select`, `confirm`, `input`, `editor` or `custom`, with its title.
    pub fn ui_prompt(&self, kind: &str, title: &str) -> UiPrompt {
        let mut prompts = self.prompts();
        prompts.open += 1;
        if prompts.open == 1 {
            prompts.first = Some((kind.to_owned(), title.to_owned()));
            self.tell_prompt("ui_prompt_start", kind, title);
        }
        UiPrompt { control: self.clone(), loads: prompts.loads }
    }

    /// Forgets open dialogs when extensions are reloaded, so that no `ui_prompt_end` is sent for them.
    pub(crate) fn forget_prompts(&self) {
        let mut prompts = self.prompts();
        *prompts = Prompts { loads: prompts.loads + 1, heard: prompts.heard, ..Prompts::default() };
    }

    /// Returns whether an extension subscribes to the events of dialogs.
    pub fn has_prompt_handlers(&self) -> bool {
        self.prompts().heard
    }

    pub(crate) fn set_prompt_handlers(&self, heard: bool) {
        self.prompts().heard = heard;
    }

    fn prompts(&self) -> MutexGuard<'_, Prompts> {
        let ControlShared { prompts, .. } = &*self.0;
        prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_prompt(&self, name: &'static str, kind: &str, title: &str) {
        let event = Event::new(name).with("reason", "ui_prompt").with("kind", kind);
        self.send_event(if title.is_empty() { event } else { event.with("title", json!(title)) });
    }
}

impl Drop for UiPrompt {
    fn drop(&mut self) {
        let mut prompts = self.control.prompts();
        if prompts.loads != self.loads {
            return;
        }
        prompts.open = prompts.open.saturating_sub(1);
        if prompts.open == 0
            && let Some((kind, title)) = prompts.first.take()
        {
            self.control.tell_prompt("ui_prompt_end", &kind, &title);
        }
    }
}
