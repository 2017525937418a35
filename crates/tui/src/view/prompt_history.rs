//! Earlier prompts, and the position among them.

use crate::text_field::{LONGEST, TextField};

/// Maximum number of prompts in the history.
const MAX_HISTORY: usize = 200;
/// Maximum size of the history in bytes.
const MAX_HISTORY_BYTES: usize = 16 << 20;

/// Prompts of the session, newest last.
#[derive(Debug, Default)]
pub(crate) struct PromptHistory {
    prompts: Vec<String>,
    /// Position from the end; 0 is the text that the user is typing.
    back: usize,
    /// The text that the user was typing, while an earlier prompt is shown.
    draft: Option<TextField>,
}

impl PromptHistory {
    /// Adds a prompt.
    pub(crate) fn remember(&mut self, text: String) {
        // The editor would truncate a longer prompt.
        if self.prompts.last() == Some(&text) || text.len() > LONGEST {
            return;
        }
        self.prompts.push(text);
        let mut bytes: usize = self.prompts.iter().map(String::len).sum();
        while self.prompts.len() > MAX_HISTORY || bytes > MAX_HISTORY_BYTES {
            bytes -= self.prompts.remove(0).len();
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

    /// Shows the previous or next prompt in the editor.
    pub(crate) fn recall(&mut self, field: &mut TextField, is_back: bool) {
        let back = if is_back { (self.back + 1).min(self.prompts.len()) } else { self.back.saturating_sub(1) };
        if back == self.back {
            return;
        }
        if self.back == 0 {
            self.draft = Some(field.clone());
        }
        self.back = back;
        match back {
            0 => *field = self.draft.take().unwrap_or_default(),
            back => {
                let text = &self.prompts[self.prompts.len() - back];
                field.put(text, if is_back { 0 } else { text.len() });
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
            history.remember(format!("{number}{}", "x".repeat(LONGEST - 10)));
        }
        assert!(history.prompts.iter().map(String::len).sum::<usize>() <= MAX_HISTORY_BYTES);
        assert!(history.prompts.last().is_some_and(|last| last.starts_with("99")));
    }
}
