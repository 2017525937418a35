//! Keyboard shortcuts of extensions. Keys that pi reserves are skipped.

use pijs_host::{Host, RegistrationOwner};
use pijs_protocol::Handle;
use pijs_protocol::registration::Registration;
use std::collections::{BTreeMap, BTreeSet};

/// The default keys of the actions that pi 0.87.1 lets no extension override: interrupt, clear, exit, suspend, submit, confirm,
/// cancel, copy, model and thinking switches, folding, the external editor. Written as in pi, in lower case. pi compares strings,
/// so `ctrl+shift+p` is free although `shift+ctrl+p` is reserved.
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
    "shift+ctrl+p",
    "shift+tab",
];

/// Normalises a key: lower case, modifiers in one order, one name for synonyms.
pub fn canonical(key: &str) -> String {
    let lower = key.to_lowercase();
    // The key after the modifiers can be a plus.
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

/// Keys of pi's editor and lists that an extension may override with a warning, written like [`RESERVED`].
const BUILT_IN: [(&str, &str); 53] = [
    ("alt+b", "tui.editor.cursorWordLeft"),
    ("alt+backspace", "tui.editor.deleteWordBackward"),
    ("alt+d", "tui.editor.deleteWordForward"),
    ("alt+delete", "tui.editor.deleteWordForward"),
    ("alt+down", "app.models.reorderDown"),
    ("alt+f", "tui.editor.cursorWordRight"),
    ("alt+left", "app.tree.foldOrUp"),
    ("alt+right", "app.tree.unfoldOrDown"),
    ("alt+up", "app.models.reorderUp"),
    ("alt+y", "tui.editor.yankPop"),
    ("backspace", "tui.editor.deleteCharBackward"),
    ("ctrl+-", "tui.editor.undo"),
    ("ctrl+]", "tui.editor.jumpForward"),
    ("ctrl+a", "app.tree.filter.all"),
    ("ctrl+alt+]", "tui.editor.jumpBackward"),
    ("ctrl+b", "tui.editor.cursorLeft"),
    ("ctrl+backspace", "app.session.deleteNoninvasive"),
    ("ctrl+down", "tui.altScreen.nextPrompt"),
    ("ctrl+e", "tui.editor.cursorLineEnd"),
    ("ctrl+end", "tui.editor.cursorLineEnd"),
    ("ctrl+f", "tui.editor.cursorRight"),
    ("ctrl+home", "tui.editor.cursorLineStart"),
    ("ctrl+j", "tui.input.newLine"),
    ("ctrl+left", "app.tree.foldOrUp"),
    ("ctrl+n", "app.session.toggleNamedFilter"),
    ("ctrl+pagedown", "tui.editor.pageDown"),
    ("ctrl+pageup", "tui.editor.pageUp"),
    ("ctrl+r", "app.session.rename"),
    ("ctrl+right", "app.tree.unfoldOrDown"),
    ("ctrl+s", "app.models.save"),
    ("ctrl+shift+down", "tui.altScreen.nextPrompt"),
    ("ctrl+shift+f", "tui.altScreen.search"),
    ("ctrl+shift+g", "tui.altScreen.searchPrevious"),
    ("ctrl+shift+up", "tui.altScreen.previousPrompt"),
    ("ctrl+u", "app.tree.filter.userOnly"),
    ("ctrl+up", "tui.altScreen.previousPrompt"),
    ("ctrl+v", "app.clipboard.pasteImage"),
    ("ctrl+w", "tui.editor.deleteWordBackward"),
    ("ctrl+y", "tui.editor.yank"),
    ("delete", "tui.editor.deleteCharForward"),
    ("down", "tui.select.down"),
    ("end", "tui.altScreen.bottom"),
    ("home", "tui.altScreen.top"),
    ("left", "tui.editor.cursorLeft"),
    ("pagedown", "tui.altScreen.pageDown"),
    ("pageup", "tui.altScreen.pageUp"),
    ("right", "tui.editor.cursorRight"),
    ("shift+ctrl+o", "app.tree.filter.cycleBackward"),
    ("shift+enter", "tui.altScreen.searchPrevious"),
    ("shift+l", "app.tree.editLabel"),
    ("shift+t", "app.tree.toggleLabelTimestamp"),
    ("tab", "tui.input.tab"),
    ("up", "tui.select.up"),
];

/// Lists the shortcuts of extensions in load order: key, owner, handler, description.
fn registered(host: &Host) -> Vec<(String, RegistrationOwner, Handle, Option<String>)> {
    let shortcut = |(owner, other)| match other {
        Registration::Shortcut { key, handle, description } => Some((key, owner, handle, description)),
        _ => None,
    };
    host.other_registrations().into_iter().filter_map(shortcut).collect()
}

/// Returns the keys of extensions' shortcuts, as [`canonical`] writes them, and pi's warnings about conflicts.
pub fn shortcuts(host: &Host) -> (BTreeSet<String>, Vec<String>) {
    let mut bound: BTreeMap<String, RegistrationOwner> = BTreeMap::new();
    let mut warnings = Vec::new();
    for (key, owner, ..) in registered(host) {
        let name = canonical(&key);
        let path = owner.path.clone();
        let written = key.to_lowercase();
        if RESERVED.contains(&written.as_str()) {
            warnings
                .push(format!("Extension shortcut '{key}' from {path} conflicts with built-in shortcut. Skipping."));
            continue;
        }
        if let Some((_, action)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == written) {
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

/// Returns the shortcuts of extensions with their descriptions.
pub fn described(host: &Host) -> BTreeMap<String, String> {
    let all = registered(host).into_iter().filter(|(key, ..)| is_free(key));
    all.map(|(key, owner, _, what)| (canonical(&key), what.unwrap_or_else(|| format!("of {}", owner.path)))).collect()
}

/// Returns the shortcut for a pressed key. If several extensions registered it, the one loaded last has precedence.
pub fn shortcut(host: &Host, key: &str) -> Option<(RegistrationOwner, Handle)> {
    let wanted = canonical(key);
    last(host, |key| canonical(key) == wanted)
}

/// Returns the shortcut that was registered with exactly this text, as pi looks it up.
pub fn written(host: &Host, key: &str) -> Option<(RegistrationOwner, Handle)> {
    last(host, |registered| registered.to_lowercase() == key.to_lowercase())
}

fn last(host: &Host, is_it: impl Fn(&str) -> bool) -> Option<(RegistrationOwner, Handle)> {
    let found = registered(host).into_iter().rev().find(|(key, ..)| is_free(key) && is_it(key));
    found.map(|(_, owner, handle, _)| (owner, handle))
}

fn is_free(key: &str) -> bool {
    !RESERVED.contains(&key.to_lowercase().as_str())
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
        assert!(RESERVED.iter().chain(BUILT_IN.iter().map(|(key, _)| key)).all(|key| key.to_lowercase() == *key));
    }
}
