//! Layers that take the keys from the editor: dialogs, components of extensions, and built-in lists.

use super::dialog::ExtensionDialog;
use super::floating::CustomComponent;
use super::picker::Picker;
use super::secret_input::SecretInput;
use pijs_protocol::ExtensionId;

/// Id of a component: extension, and handle in its realm.
pub(super) type ComponentId = (ExtensionId, u32);

/// A layer in place of the editor or above it.
#[derive(Debug)]
pub(super) enum Layer {
    Dialog(ExtensionDialog),
    Custom(CustomComponent),
    /// A built-in list.
    Picker(Picker),
    /// A built-in input line.
    Entry(SecretInput),
}
