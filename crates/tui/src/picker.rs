//! A built-in list that is filtered by typing: models, sessions, prompts, the tree.

use super::clip::clipped;
use super::rule::rule;
use super::text_field::TextField;
use pijs_terminal::layout::{clamp, width};

/// Kinds of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Model,
    Thinking,
    Session,
    /// The entry at which another session begins.
    Fork,
    /// The entry at which this session continues.
    Tree,
    Theme,
    Setting,
    /// A model to include in or exclude from model cycling.
    Scope,
    /// A provider for which a key is stored.
    Login,
    /// A provider whose credentials are removed.
    Logout,
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PickerItem {
    /// Value of the item, which is returned when it is chosen.
    pub(super) value: String,
    pub(super) label: String,
    pub(super) detail: String,
}

/// An open list.
#[derive(Debug)]
pub(super) struct Picker {
    pub(super) choice: ListKind,
    /// Stacking order; the highest is on top.
    pub(super) order: u64,
    title: String,
    items: Vec<PickerItem>,
    filter: TextField,
    /// Indexes of the items that match the filter.
    fitting: Vec<usize>,
    at: usize,
}

/// Maximum number of items of a list. If there are more, the last ones are kept, which are the newest.
pub(super) const MAX_ITEMS: usize = 10_000;
/// Maximum length of the filter in bytes.
const LONGEST_FILTER: usize = 1 << 10;

impl Picker {
    /// Creates a list. Selects the item with the value `current`, or otherwise the first.
    pub(super) fn new(choice: ListKind, title: &str, items: Vec<PickerItem>, current: Option<&str>) -> Self {
        let at = items.iter().position(|item| Some(item.value.as_str()) == current).unwrap_or(0);
        let fitting = (0..items.len()).collect();
        Self { choice, order: 0, title: title.to_owned(), items, filter: TextField::default(), fitting, at }
    }

    /// Handles a key. `Some` closes the list: with a value, or cancelled if the inner value is `None`.
    pub(super) fn key(&mut self, name: &str, data: &str) -> Option<Option<String>> {
        let count = self.fitting.len();
        match name {
            "escape" | "ctrl+c" => return Some(None),
            "enter" => return Some(Some(self.items[*self.fitting.get(self.at)?].value.clone())),
            "up" | "ctrl+p" if count > 0 => self.at = (self.at + count - 1) % count,
            "down" | "ctrl+n" | "tab" if count > 0 => self.at = (self.at + 1) % count,
            "pageup" => self.at = self.at.saturating_sub(10),
            "pagedown" => self.at = (self.at + 10).min(count.saturating_sub(1)),
            "ctrl+j" | "shift+enter" | "up" | "down" | "tab" => {}
            name => {
                let before = self.filter.text().len();
                self.filter.key(name, data);
                if self.filter.text().len() != before {
                    self.narrow();
                }
            }
        }
        None
    }

    /// Handles a paste.
    pub(super) fn paste(&mut self, text: &str) {
        self.filter.insert(&clipped(text, LONGEST_FILTER).replace(['\r', '\n'], " "));
        self.narrow();
    }

    /// Updates the items that contain all words of the filter.
    fn narrow(&mut self) {
        self.at = 0;
        let text = clipped(self.filter.text(), LONGEST_FILTER);
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let fits = |at: &usize| {
            let item = &self.items[*at];
            let text = format!("{} {}", item.label, item.detail).to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        };
        self.fitting = (0..self.items.len()).filter(fits).collect();
    }

    /// Returns at most `rows` lines with the selected item.
    pub(super) fn lines(&self, columns: usize, rows: usize) -> Vec<String> {
        let shown = &self.fitting;
        let room = rows.saturating_sub(4).max(1);
        let from = self.at.saturating_sub(room / 2).min(shown.len().saturating_sub(room));
        let mut lines = vec![rule(&self.title, columns)];
        lines.extend(self.filter.shown(columns, 1));
        if shown.is_empty() {
            lines.push("\u{1b}[2m  no match\u{1b}[0m".to_owned());
        }
        for (index, item) in shown.iter().map(|at| &self.items[*at]).enumerate().skip(from).take(room) {
            let label = clamp(&pijs_terminal::line(&item.label), columns.saturating_sub(2));
            let left = columns.saturating_sub(width(&label) + 4);
            let detail = if left > 3 { clamp(&pijs_terminal::line(&item.detail), left) } else { String::new() };
            let mark = if index == self.at { "\u{1b}[36m> " } else { "  " };
            lines.push(format!("{mark}{label}\u{1b}[0m  \u{1b}[2m{detail}\u{1b}[0m"));
        }
        let hint =
            format!("{} of {}; type to filter, enter to select, escape to cancel", shown.len(), self.items.len());
        lines.push(format!("\u{1b}[2m{}\u{1b}[0m", clamp(&hint, columns)));
        lines.push(rule("", columns));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picker() -> Picker {
        let item = |value: &str| PickerItem {
            value: value.to_owned(),
            label: format!("Label {value}"),
            detail: String::new(),
        };
        Picker::new(ListKind::Model, "Which?", ["one", "two", "three"].map(item).to_vec(), Some("two"))
    }

    #[test]
    fn keys_select_and_filter_items() {
        for (keys, expected) in [
            (&["enter"][..], Some("two")),
            (&["down", "enter"], Some("three")),
            (&["down", "down", "enter"], Some("one")),
            (&["t", "enter"], Some("two")),
            (&["t", "h", "enter"], Some("three")),
            (&["t", "h", "backspace", "enter"], Some("two")),
            (&["escape"], None),
        ] {
            let mut picker = picker();
            let end = keys.iter().find_map(|key| picker.key(key, if key.len() == 1 { key } else { "" }));
            assert_eq!(end.expect("an end").as_deref(), expected, "{keys:?}");
        }
        let mut picker = picker();
        assert_eq!(picker.key("x", "x"), None);
        assert_eq!(picker.key("enter", ""), None, "there is nothing to take");
    }
}
