//! Keys that pi keeps for itself: a shortcut of an extension on one of them is left out.

use pijs_host::{Host, Owner};
use pijs_protocol::Handle;
use pijs_protocol::registration::Registration;
use std::collections::BTreeSet;

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

/// The keys that extensions have shortcuts on, as [`canonical`] writes them.
pub(crate) fn shortcuts(host: &Host) -> BTreeSet<String> {
    let keys = host.other_registrations().into_iter().filter_map(|(_, other)| match other {
        Registration::Shortcut { key, .. } => Some(canonical(&key)),
        _ => None,
    });
    keys.filter(|key| !RESERVED.contains(&key.as_str())).collect()
}

/// The shortcut on a key: of several the last one loaded.
pub(crate) fn shortcut(host: &Host, key: &str) -> Option<(Owner, Handle)> {
    let wanted = canonical(key);
    if RESERVED.contains(&wanted.as_str()) {
        return None;
    }
    host.other_registrations().into_iter().rev().find_map(|(owner, other)| match other {
        Registration::Shortcut { key, handle, .. } if canonical(&key) == wanted => Some((owner, handle)),
        _ => None,
    })
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
        assert!(RESERVED.iter().all(|key| canonical(key) == *key));
    }
}
