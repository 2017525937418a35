//! The editor of prompts: its text and author, the history, and the editor of an extension in place of the built-in one.

use super::component_pictures::ComponentId;
use super::prompt_history::PromptHistory;
use super::quota::{too_large, used_up};
use crate::inserted_text::{InsertedText, command_sign, is_word_added};
use crate::pastes::MAX_BYTES;
use crate::task::UiTask;
use crate::text_field::TextField;
use pijs_protocol::{ExtensionId, HostcallError, guard};
use std::time::Instant;

/// Maximum size in bytes of undelivered text that extensions inserted into editors of other extensions.
const MAX_HANDED: usize = 4 << 20;

/// The editor of an extension that replaces the built-in one.
#[derive(Debug)]
struct ReplacementEditor {
    id: ComponentId,
    /// The key that the editor is handling; `None` while it handles none.
    handling: Option<String>,
    /// Whether the user has pressed Enter in the editor since its last submission.
    may_submit: bool,
}

/// The state of the editor.
#[derive(Debug, Default)]
pub(crate) struct EditorState {
    /// The text. While an extension's editor replaces the built-in one, a copy of its text.
    pub(crate) field: TextField,
    /// Author of the text, if an extension wrote it.
    pub(crate) inserted: Option<InsertedText>,
    /// Extension that last wrote a text, which the kill ring and undo may bring back.
    last_author: Option<ExtensionId>,
    pub(crate) history: PromptHistory,
    replacement: Option<ReplacementEditor>,
    /// Number of undelivered bytes that extensions inserted into editors of other extensions.
    handed: usize,
}

impl EditorState {
    /// Records that an extension wrote the text, until it is submitted or deleted.
    pub(crate) fn note_inserted(&mut self, extension: &ExtensionId) {
        self.inserted = Some(InsertedText::whole(extension));
        self.last_author = Some(extension.clone());
    }

    /// Records that a key brought back an earlier text, which an extension may have written.
    pub(crate) fn note_brought_back(&mut self) {
        if let (None, Some(by)) = (&self.inserted, &self.last_author) {
            self.inserted = Some(InsertedText::whole(by));
        }
    }

    /// Records that an extension changed the text, which was `was`. A command is then the extension's, unless only the rest of a word
    /// was added to a command of the user.
    pub(crate) fn note_changed(&mut self, extension: &ExtensionId, was: &str) {
        let is = self.field.whole();
        let sign = command_sign(&is);
        if is == was || (sign.is_none() && command_sign(was).is_none()) {
            return;
        }
        match sign == command_sign(was) && is_word_added(was, &is) {
            false => self.note_inserted(extension),
            true if sign == Some('!') => self.note_continued(extension),
            true => {}
        }
    }

    /// Records that the extension continued the text. A text that an extension wrote remains one.
    fn note_continued(&mut self, extension: &ExtensionId) {
        let is_users = self.inserted.as_ref().is_none_or(|put| !put.is_whole);
        let of = if is_users { InsertedText::continued } else { InsertedText::whole };
        self.inserted = Some(of(extension));
    }

    /// Returns the author of a text that Enter submits now; `None` means the user. Fails with the author of a text that the user
    /// could not read yet.
    pub(crate) fn take_author(&mut self, now: Instant) -> Result<Option<ExtensionId>, ExtensionId> {
        InsertedText::take_author(&mut self.inserted, now)
    }

    /// Replaces the text of the current editor.
    pub(crate) fn set_text(&mut self, text: &str) -> Vec<UiTask> {
        self.field.set(text);
        self.replacement_id().map(|id| UiTask::EditorText(id.clone(), text.to_owned())).into_iter().collect()
    }

    /// Inserts text of an extension. If the editor belongs to the same extension, it already has the text.
    pub(crate) fn insert_of(
        &mut self,
        extension: &ExtensionId,
        text: &str,
        is_paste: bool,
    ) -> Result<Vec<UiTask>, HostcallError> {
        let other = self.replacement_id().filter(|id| id.0 != *extension).cloned();
        if is_paste && self.field.size() + text.len() > MAX_BYTES && guard!(TuiInsertedSize) {
            return Err(too_large("editor_bytes", MAX_BYTES));
        }
        let work = match other {
            Some(id) => self.hand(id, text, is_paste)?,
            None => Vec::new(),
        };
        self.note_inserted(extension);
        match is_paste {
            false => self.field.set(text),
            true if work.is_empty() => self.field.paste_marked(text),
            true => {}
        }
        Ok(work)
    }

    /// Inserts a text of one extension into the editor of another one.
    fn hand(&mut self, to: ComponentId, text: &str, is_paste: bool) -> Result<Vec<UiTask>, HostcallError> {
        if self.handed + text.len() > MAX_HANDED && guard!(TuiInsertedSize) {
            return Err(used_up("handed_bytes", MAX_HANDED));
        }
        self.handed += text.len();
        Ok(vec![UiTask::Handed { to, text: text.to_owned(), is_paste }])
    }

    /// Counts a text of [`UiTask::Handed`] as delivered.
    pub(crate) fn delivered(&mut self, size: usize) {
        self.handed = self.handed.saturating_sub(size);
    }

    /// Returns the editor of an extension that replaces the built-in one.
    pub(crate) fn replacement_id(&self) -> Option<&ComponentId> {
        self.replacement.as_ref().map(|editor| &editor.id)
    }

    /// Sets or removes the editor of an extension. Returns the previous one.
    pub(crate) fn replace(&mut self, id: Option<ComponentId>) -> Option<ComponentId> {
        let editor = id.map(|id| ReplacementEditor { id, handling: None, may_submit: false });
        std::mem::replace(&mut self.replacement, editor).map(|before| before.id)
    }

    /// Returns to the built-in editor if the replacement is one of these.
    pub(crate) fn restore_if(&mut self, is_gone: impl Fn(&ComponentId) -> bool) {
        self.replacement.take_if(|editor| is_gone(&editor.id));
    }

    /// Records that a component handles a key. Effects of an editor during the key are attributed to the user.
    pub(crate) fn begin_handling(&mut self, id: &ComponentId, key: Option<String>) {
        if let Some(editor) = self.replacement.as_mut().filter(|editor| editor.id == *id) {
            editor.may_submit |= matches!(key.as_deref(), Some("enter" | "alt+enter"));
            editor.handling = key;
        }
    }

    /// Records that a component has handled its key.
    pub(crate) fn end_handling(&mut self) {
        if let Some(editor) = &mut self.replacement {
            editor.handling = None;
        }
    }

    /// Returns the user's key that the replacement is handling.
    pub(crate) fn handled_key(&self) -> Option<&str> {
        self.replacement.as_ref()?.handling.as_deref()
    }

    /// Returns whether the user has pressed Enter in the replacement since its last submission.
    pub(crate) fn take_submission(&mut self) -> bool {
        self.replacement.as_mut().is_some_and(|editor| std::mem::take(&mut editor.may_submit))
    }

    /// Moves to the line above or below. Beyond the first and the last line, moves through the history, or within the line.
    pub(crate) fn up_or_down(&mut self, name: &str, data: &str) {
        let (is_up, browses) = (name == "up", self.history.is_browsed());
        if self.field.key(name, data) {
            return;
        }
        match is_up {
            true if browses || self.field.at() == 0 => self.history.recall(&mut self.field, &mut self.inserted, true),
            false if browses => self.history.recall(&mut self.field, &mut self.inserted, false),
            true => drop(self.field.key("home", "")),
            false => drop(self.field.key("end", "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_field::LONGEST;

    #[test]
    fn text_inserted_by_an_extension_is_bounded() {
        let (mut editor, extension) = (EditorState::default(), ExtensionId::new("x"));
        let large = "x".repeat(LONGEST);
        let put = (0..1_000).filter(|_| editor.insert_of(&extension, &large, true).is_ok()).count();
        assert!(put < 17 && editor.field.size() <= MAX_BYTES, "{put}");
    }

    #[test]
    fn undelivered_texts_are_limited() {
        let (mut editor, other) = (EditorState::default(), (ExtensionId::new("y"), 1));
        let handed = (0..100).filter(|_| editor.hand(other.clone(), &"x".repeat(1 << 20), true).is_ok()).count();
        assert_eq!(handed, MAX_HANDED >> 20);
    }
}
