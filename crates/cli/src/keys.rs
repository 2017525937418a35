//! Keys that pi keeps for itself: a shortcut of an extension on one of them is left out.

use pijs_host::{Host, Owner};
use pijs_protocol::Handle;
use pijs_protocol::registration::Registration;
use std::collections::{BTreeMap, BTreeSet};

/// The default keys of the actions that pi 0.87.1 lets no extension override: interrupt, clear, exit, suspend,
/// submit, confirm, cancel, copy, model and thinking switches, folding, the external editor.
const RESERVED: [&str; 15] = [
    "alt+enter",
    "ctrl+c",
    "ctrl+d",
    "ctrl+g",
    "ctrl+k",
    "ctrl+l",
    "ctrl+o",
    "ctrl+p",
    "ctrl+t",
    "ctrl+x",
    "ctrl+z",
    "enter",
    "escape",
    "ctrl+shift+p",
    "shift+tab",
];

/// A key as it is compared: lower case, modifiers in one order, one name for what has several.
pub(crate) fn canonical(key: &str) -> String {
    let lower = key.to_lowercase();
    // The key itself may be a plus.
    let (held, own) = match lower.strip_suffix("++") {
        Some(held) => (held, "+"),
        None if lower == "+" => ("", "+"),
        None => lower.rsplit_once('+').unwrap_or(("", lower.as_str())),
    };
    let own = match own {
        "esc" => "escape",
        "return" => "enter",
        own => own,
    };
    let is_held = |modifier: &str| held.split('+').any(|held| held == modifier);
    let held = ["ctrl", "shift", "alt"].into_iter().filter(|modifier| is_held(modifier));
    held.map(|modifier| format!("{modifier}+")).chain([own.to_owned()]).collect()
}

/// Keys of pi's editor and lists that an extension may take over; it is told whose they were.
const BUILT_IN: [(&str, &str); 34] = [
    ("alt+b", "tui.editor.cursorWordLeft"),
    ("alt+backspace", "tui.editor.deleteWordBackward"),
    ("alt+d", "tui.editor.deleteWordForward"),
    ("alt+delete", "tui.editor.deleteWordForward"),
    ("alt+f", "tui.editor.cursorWordRight"),
    ("alt+left", "tui.editor.cursorWordLeft"),
    ("alt+right", "tui.editor.cursorWordRight"),
    ("alt+up", "app.message.dequeue"),
    ("alt+y", "tui.editor.yankPop"),
    ("backspace", "tui.editor.deleteCharBackward"),
    ("ctrl+-", "tui.editor.undo"),
    ("ctrl+]", "tui.editor.jumpForward"),
    ("ctrl+a", "tui.editor.cursorLineStart"),
    ("ctrl+b", "tui.editor.cursorLeft"),
    ("ctrl+e", "tui.editor.cursorLineEnd"),
    ("ctrl+f", "tui.editor.cursorRight"),
    ("ctrl+j", "tui.input.newLine"),
    ("ctrl+left", "tui.editor.cursorWordLeft"),
    ("ctrl+right", "tui.editor.cursorWordRight"),
    ("ctrl+u", "tui.editor.deleteToLineStart"),
    ("ctrl+v", "app.clipboard.pasteImage"),
    ("ctrl+w", "tui.editor.deleteWordBackward"),
    ("ctrl+y", "tui.editor.yank"),
    ("delete", "tui.editor.deleteCharForward"),
    ("down", "tui.editor.cursorDown"),
    ("end", "tui.editor.cursorLineEnd"),
    ("home", "tui.editor.cursorLineStart"),
    ("left", "tui.editor.cursorLeft"),
    ("pagedown", "tui.editor.pageDown"),
    ("pageup", "tui.editor.pageUp"),
    ("right", "tui.editor.cursorRight"),
    ("shift+enter", "tui.input.newLine"),
    ("tab", "tui.input.tab"),
    ("up", "tui.editor.cursorUp"),
];

/// The shortcuts of extensions in load order: key, owner, what it does.
fn registered(host: &Host) -> Vec<(String, Owner, Handle, Option<String>)> {
    let shortcut = |(owner, other)| match other {
        Registration::Shortcut { key, handle, description } => Some((key, owner, handle, description)),
        _ => None,
    };
    host.other_registrations().into_iter().filter_map(shortcut).collect()
}

/// The keys that extensions have shortcuts on, as [`canonical`] writes them, and in pi's words what is in the way of some.
pub(crate) fn shortcuts(host: &Host) -> (BTreeSet<String>, Vec<String>) {
    let mut bound: BTreeMap<String, Owner> = BTreeMap::new();
    let mut warnings = Vec::new();
    for (key, owner, ..) in registered(host) {
        let name = canonical(&key);
        let path = owner.path.clone();
        if RESERVED.contains(&name.as_str()) {
            warnings
                .push(format!("Extension shortcut '{key}' from {path} conflicts with built-in shortcut. Skipping."));
            continue;
        }
        if let Some((_, action)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            warnings.push(format!(
                "Extension shortcut conflict: '{key}' is built-in shortcut for {action} and {path}. Using {path}."
            ));
        }
        if let Some(before) = bound.insert(name, owner) {
            let before = before.path;
            warnings.push(format!(
                "Extension shortcut conflict: '{key}' registered by both {before} and {path}. Using {path}."
            ));
        }
    }
    (bound.into_keys().collect(), warnings)
}

/// The shortcuts of extensions with what they say they do.
pub(crate) fn described(host: &Host) -> BTreeMap<String, String> {
    let all = registered(host).into_iter().filter(|(key, ..)| !RESERVED.contains(&canonical(key).as_str()));
    all.map(|(key, owner, _, what)| (canonical(&key), what.unwrap_or_else(|| format!("of {}", owner.path)))).collect()
}

/// The shortcut on a key: of several the last one loaded.
pub(crate) fn shortcut(host: &Host, key: &str) -> Option<(Owner, Handle)> {
    let wanted = canonical(key);
    if RESERVED.contains(&wanted.as_str()) {
        return None;
    }
    registered(host)
        .into_iter()
        .rev()
        .find_map(|(key, owner, handle, _)| (canonical(&key) == wanted).then_some((owner, handle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_name() {
        for (key, expected) in [
            ("CTRL+C", "ctrl+c"),
            ("shift+ctrl+p", "ctrl+shift+p"),
            ("alt+shift+ctrl+x", "ctrl+shift+alt+x"),
            ("esc", "escape"),
            ("alt+Return", "alt+enter"),
            ("ctrl++", "ctrl++"),
            ("+", "+"),
            ("pageUp", "pageup"),
        ] {
            assert_eq!(canonical(key), expected, "{key}");
        }
        assert!(RESERVED.iter().chain(BUILT_IN.iter().map(|(key, _)| key)).all(|key| canonical(key) == *key));
    }
}
