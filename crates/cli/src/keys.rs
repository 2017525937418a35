//! Keys that pi keeps for itself: a shortcut of an extension on one of them is left out.

use pijs_host::{Host, Owner};
use pijs_protocol::Handle;
use pijs_protocol::registration::Registration;

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
    "shift+ctrl+p",
    "shift+tab",
];

/// The shortcut on a key, written in any case: of several the last one loaded.
pub(crate) fn shortcut(host: &Host, key: &str) -> Option<(Owner, Handle)> {
    let wanted = key.to_lowercase();
    if RESERVED.contains(&wanted.as_str()) {
        return None;
    }
    host.other_registrations().into_iter().rev().find_map(|(owner, other)| match other {
        Registration::Shortcut { key, handle, .. } if key.to_lowercase() == wanted => Some((owner, handle)),
        _ => None,
    })
}
