//! Earlier prompts with their authors, and the position among them.

use crate::inserted_text::InsertedText;
use crate::text_field::{LONGEST, TextField};
use pijs_protocol::ExtensionId;

/// Maximum number of prompts in the history.
const MAX_HISTORY: usize = 200;
/// Maximum size of the history in bytes.
const MAX_HISTORY_BYTES: usize = 16 << 20;

/// An earlier prompt.
#[derive(Debug, PartialEq, Eq)]
struct EarlierPrompt {
    text: String,
    /// Extension that wrote the prompt; `None` for the user.
    by: Option<ExtensionId>,
}

/// Prompts of the session, newest last.
#[derive(Debug, Default)]
pub(crate) struct PromptHistory {
    prompts: Vec<EarlierPrompt>,
    /// Position from the end; 0 is the text that the user is typing.
    back: usize,
    /// The text that was in the editor, and its author, while an earlier prompt is shown.
    draft: Option<(TextField, Option<InsertedText>)>,
}

impl PromptHistory {
    /// Adds a prompt. `by` is the extension that wrote it, `None` the user.
    pub(crate) fn remember(&mut self, text: String, by: Option<ExtensionId>) {
        let prompt = EarlierPrompt { text, by };
        // The editor would truncate a longer prompt.
        if self.prompts.last() == Some(&prompt) || prompt.text.len() > LONGEST {
            return;
        }
        self.prompts.push(prompt);
        let mut bytes: usize = self.prompts.iter().map(|prompt| prompt.text.len()).sum();
        while self.prompts.len() > MAX_HISTORY || bytes > MAX_HISTORY_BYTES {
            bytes -= self.prompts.remove(0).text.len();
        }
    }

    /// Returns whether an earlier prompt is shown.
    pub(crate) fn is_browsed(&self) -> bool {
        self.back > 0
    }

    /// Continues from the text in the editor.
    pub(crate) fn reset(&mut self) {
        (self.back, self.draft) = (0, None);
    }

    /// Shows the previous or next prompt in the editor, and returns its author to `inserted`.
    pub(crate) fn recall(&mut self, field: &mut TextField, inserted: &mut Option<InsertedText>, is_back: bool) {
        let back = if is_back { (self.back + 1).min(self.prompts.len()) } else { self.back.saturating_sub(1) };
        if back == self.back {
            return;
        }
        if self.back == 0 {
            self.draft = Some((field.clone(), inserted.take()));
        }
        self.back = back;
        match back {
            0 => (*field, *inserted) = self.draft.take().unwrap_or_default(),
            back => {
                let prompt = &self.prompts[self.prompts.len() - back];
                field.put(&prompt.text, if is_back { 0 } else { prompt.text.len() });
                *inserted = prompt.by.as_ref().map(InsertedText::whole);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_bounded() {
        let mut history = PromptHistory::default();
        for number in 0..100 {
            history.remember(format!("{number}{}", "x".repeat(LONGEST - 10)), None);
        }
        assert!(history.prompts.iter().map(|prompt| prompt.text.len()).sum::<usize>() <= MAX_HISTORY_BYTES);
        assert!(history.prompts.last().is_some_and(|last| last.text.starts_with("99")));
    }
}
