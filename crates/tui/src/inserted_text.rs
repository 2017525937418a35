//! Tracks text that an extension inserted into the editor.
//!
//! Enter submits the text as the user's, and a line that begins with `!` is run. Enter is therefore ignored until the text could
//! be read, as with a permission prompt: an extension that listens to keys could otherwise replace the text with the very key.
//! Only the end of a long text is visible, so a command that an extension wrote is judged as the extension's.

use super::permission_prompt::DEAD_TIME;
use super::transcript::Style;
use super::view::View;
use pijs_protocol::{ExtensionId, guard};
use std::time::Instant;

/// Author of the text in the editor.
#[derive(Debug)]
pub(super) struct InsertedText {
    by: ExtensionId,
    /// Time since which the text is visible.
    pub(super) since: Option<Instant>,
    /// Whether the whole text is the extension's; otherwise it continued the user's.
    is_whole: bool,
}

impl View {
    /// Records that the text is an extension's, until it is submitted or deleted.
    pub(super) fn note_inserted(&mut self, extension: &ExtensionId) {
        self.inserted = Some(InsertedText { by: extension.clone(), since: None, is_whole: true });
    }

    /// Records that the extension continued the user's text.
    pub(super) fn note_continued(&mut self, extension: &ExtensionId) {
        self.inserted = Some(InsertedText { by: extension.clone(), since: None, is_whole: false });
    }

    /// Returns whether Enter submits the text: `None` for not yet, or the author of the text.
    pub(super) fn submits(&mut self, now: Instant) -> Option<Option<ExtensionId>> {
        let Some(put) = self.inserted.as_ref().filter(|_| guard!(TuiInsertedText)) else { return Some(None) };
        if put.since.is_none_or(|since| now.duration_since(since) < DEAD_TIME) {
            let words = format!("{} has just changed the text; press Enter again to send it", put.by);
            self.say(Style::Warning, &words);
            return None;
        }
        Some(self.inserted.take().filter(|put| put.is_whole).map(|put| put.by))
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::TerminalInput;
    use super::super::task::UiTask;
    use super::*;

    #[test]
    fn text_replaced_during_the_key_is_not_submitted() {
        let mut view = View { size: (80, 24), ..View::default() };
        let start = Instant::now();
        let enter = |view: &mut View, at: Instant| match view.typed(&TerminalInput::Key("\r".to_owned()), at).as_slice()
        {
            [] => None,
            [UiTask::Say { text, by, .. }] => Some((text.clone(), by.as_ref().map(ToString::to_string))),
            other => panic!("{other:?}"),
        };
        view.editor.set("theirs");
        view.note_inserted(&ExtensionId::new("x"));
        assert_eq!(enter(&mut view, start), None, "nobody could read it");
        view.inserted.as_mut().unwrap().since = Some(start);
        assert_eq!(enter(&mut view, start + DEAD_TIME / 2), None);
        assert_eq!(enter(&mut view, start + DEAD_TIME), Some(("theirs".to_owned(), Some("x".to_owned()))));
        view.editor.set("mine");
        assert_eq!(enter(&mut view, start + DEAD_TIME), Some(("mine".to_owned(), None)));
    }
}
