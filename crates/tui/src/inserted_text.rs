//! Tracks text that an extension inserted into the editor.
//!
//! Enter submits the text as the user's, and runs a line that begins with `!`. Enter is therefore ignored until the user has had
//! time to read the text, as with a permission prompt: otherwise an extension that listens to keys could replace the text at the
//! moment Enter is pressed. Only the end of a long text is visible, so a command that an extension wrote is decided as a command
//! of the extension: by `setEditorText`, in an editor of its own, by a completion, or by changing the user's keys. The history
//! keeps the authors of its prompts.

use super::permission_prompt::DEAD_TIME;
use pijs_protocol::{ExtensionId, guard};
use std::time::Instant;

/// Author of the text in the editor.
#[derive(Debug)]
pub(super) struct InsertedText {
    by: ExtensionId,
    /// Time since which the text is visible; `None` while it is not.
    pub(super) since: Option<Instant>,
    /// Whether the extension wrote the whole text; otherwise it continued a text of the user.
    pub(super) is_whole: bool,
}

/// Returns how a text begins, if it is a command.
pub(super) fn command_sign(text: &str) -> Option<char> {
    text.trim_start().chars().next().filter(|first| matches!(first, '!' | '/'))
}

/// Returns whether only the rest of a word was added to a text, which the user sees at a glance.
pub(super) fn is_word_added(was: &str, is: &str) -> bool {
    const LONGEST_ADDED: usize = 80;
    let same: usize = was.chars().zip(is.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-_./+@:,~".contains(c);
    is[same..].strip_suffix(&was[same..]).is_some_and(|added| {
        added.len() <= LONGEST_ADDED && added.strip_suffix(' ').unwrap_or(added).chars().all(is_of_word)
    })
}

/// Returns the author of an earlier message that begins like a command; `None` for any other. The user's commands are never
/// messages, so it may be a message of an extension.
pub(super) fn author_of_message(text: &str) -> Option<ExtensionId> {
    command_sign(text).map(|_| ExtensionId::new("a message that was put back"))
}

impl InsertedText {
    /// Creates the record of a text that the extension wrote.
    pub(super) fn whole(extension: &ExtensionId) -> Self {
        Self { by: extension.clone(), since: None, is_whole: true }
    }

    /// Creates the record of a text of the user that the extension continued.
    pub(super) fn continued(extension: &ExtensionId) -> Self {
        Self { by: extension.clone(), since: None, is_whole: false }
    }

    /// Takes the author of a text that Enter submits now; `None` means the user. Fails with the author of a text that the user
    /// could not read yet.
    pub(super) fn take_author(inserted: &mut Option<Self>, now: Instant) -> Result<Option<ExtensionId>, ExtensionId> {
        let Some(put) = inserted.as_ref().filter(|_| guard!(TuiInsertedText)) else { return Ok(None) };
        if put.since.is_none_or(|since| now.duration_since(since) < DEAD_TIME) {
            return Err(put.by.clone());
        }
        Ok(inserted.take().filter(|put| put.is_whole).map(|put| put.by))
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::TerminalInput;
    use super::super::task::UiTask;
    use super::super::view::View;
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
        view.editor.field.set("theirs");
        view.editor.note_inserted(&ExtensionId::new("x"));
        assert_eq!(enter(&mut view, start), None, "nobody could read it");
        view.editor.inserted.as_mut().unwrap().since = Some(start);
        assert_eq!(enter(&mut view, start + DEAD_TIME / 2), None);
        assert_eq!(enter(&mut view, start + DEAD_TIME), Some(("theirs".to_owned(), Some("x".to_owned()))));
        view.editor.field.set("mine");
        assert_eq!(enter(&mut view, start + DEAD_TIME), Some(("mine".to_owned(), None)));
    }

    #[test]
    fn a_message_that_was_put_back_runs_no_command_of_the_user() {
        for (message, by) in [("!touch a", Some("a message that was put back")), ("hello !x", None)] {
            let mut view = View { size: (80, 24), ..View::default() };
            let start = Instant::now();
            view.put_back(message);
            if let Some(put) = &mut view.editor.inserted {
                put.since = Some(start);
            }
            let work = view.typed(&TerminalInput::Key("\r".to_owned()), start + DEAD_TIME * 2);
            let [UiTask::Say { text, by: author, .. }] = work.as_slice() else { panic!("{work:?}") };
            assert_eq!((text.as_str(), author.as_ref().map(ExtensionId::as_str)), (message, by));
        }
    }
}
