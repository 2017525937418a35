//! An input line for secrets of the built-in interface, such as API keys. It is above all layers, and no extension receives its
//! keys.

use super::rule::rule;
use super::text_field::TextField;
use pijs_terminal::layout::clamp;

/// Maximum number of mask characters that are shown.
const MAX_MARKS: usize = 40;

/// The input line.
#[derive(Debug)]
pub(super) struct SecretInput {
    /// Name of the provider that the key is for.
    pub(super) provider: String,
    title: String,
    field: TextField,
}

impl SecretInput {
    pub(super) fn new(provider: &str, title: String) -> Self {
        Self { provider: provider.to_owned(), title, field: TextField::default() }
    }

    /// Handles a key. `Some` ends the input: with a text, or cancelled if the inner value is `None`.
    pub(super) fn key(&mut self, name: &str, data: &str) -> Option<Option<String>> {
        match name {
            "escape" | "ctrl+c" => return Some(None),
            "enter" => {
                let text = self.field.take().trim().to_owned();
                return Some(Some(text).filter(|text| !text.is_empty()));
            }
            "ctrl+j" | "shift+enter" | "up" | "down" => {}
            name => drop(self.field.key(name, data)),
        }
        None
    }

    /// Handles a paste.
    pub(super) fn paste(&mut self, text: &str) {
        self.field.insert(&text.replace(['\r', '\n'], ""));
    }

    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let marks = "*".repeat(self.field.text().chars().count().min(MAX_MARKS));
        let hint = "enter to store, escape to cancel; the input is hidden";
        vec![
            rule(&self.title, columns),
            clamp(&format!("{marks}\u{1b}[7m \u{1b}[27m"), columns),
            format!("\u{1b}[2m{}\u{1b}[0m", clamp(hint, columns)),
            rule("", columns),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked() {
        let mut entry = SecretInput::new("groq", "Key of Groq".to_owned());
        entry.paste("gsk-\n1");
        assert_eq!(entry.key("2", "2"), None);
        let shown = entry.lines(40).concat();
        assert!(shown.contains("******") && !shown.contains("gsk"), "{shown}");
        assert_eq!(entry.key("enter", "\r"), Some(Some("gsk-12".to_owned())));
        assert_eq!(entry.key("enter", "\r"), Some(None), "nothing is no key");
    }
}
