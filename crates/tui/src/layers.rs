//! Layers that receive the keys instead of the editor: dialogs, components of extensions, built-in lists, and above all of these
//! the permission prompts.
//!
//! The layer that was brought to the front last is on top; the topmost visible one that accepts keys has the focus.

use super::dialog::ExtensionDialog;
use super::floating::{CustomComponent, Overlay};
use super::permission_prompt::PermissionPrompt;
use super::picker::Picker;
use super::secret_input::SecretInput;
use super::view::{ComponentId, MAX_KEPT, used_up};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};

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

/// Maximum size in bytes of one extension's open dialogs.
const MAX_ASKED: usize = 32 << 20;

impl Layer {
    /// Returns the position in the stack; the highest is on top.
    pub(super) fn order(&self) -> u64 {
        match self {
            Self::Dialog(dialog) => dialog.order,
            Self::Picker(picker) => picker.order,
            Self::Custom(custom) => custom.order,
            Self::Entry(_) => u64::MAX,
        }
    }

    /// Returns the extension that opened the layer; `None` for a built-in layer.
    pub(super) fn extension(&self) -> Option<&ExtensionId> {
        match self {
            Self::Dialog(dialog) => Some(&dialog.extension),
            Self::Custom(custom) => Some(&custom.id.0),
            Self::Picker(_) | Self::Entry(_) => None,
        }
    }

    fn takes_keys(&self) -> bool {
        match self {
            Self::Custom(custom) => custom.is_seen() && custom.wants_keys,
            Self::Dialog(_) | Self::Picker(_) | Self::Entry(_) => true,
        }
    }

    fn replaces_editor(&self) -> bool {
        match self {
            Self::Custom(custom) => custom.is_seen() && custom.overlay.is_none(),
            Self::Dialog(_) | Self::Picker(_) | Self::Entry(_) => true,
        }
    }
}

/// All layers, and the permission prompts above them.
#[derive(Debug, Default)]
pub(super) struct LayerStack {
    layers: Vec<Layer>,
    /// Prompts, the open one first.
    pub(super) prompts: VecDeque<PermissionPrompt>,
    /// Counter of the stacking order.
    orders: u64,
}

impl LayerStack {
    /// Adds a layer on top.
    pub(super) fn push(&mut self, mut layer: Layer) {
        let next = self.next_order();
        match &mut layer {
            Layer::Dialog(dialog) => dialog.order = next,
            Layer::Picker(picker) => picker.order = next,
            Layer::Custom(custom) => custom.order = next,
            Layer::Entry(_) => {}
        }
        self.layers.push(layer);
    }

    fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    fn focus(&self) -> Option<usize> {
        let layers = self.layers.iter().enumerate().filter(|(_, layer)| layer.takes_keys());
        layers.max_by_key(|(_, layer)| layer.order()).map(|(at, _)| at)
    }

    /// Returns the layer with the focus.
    pub(super) fn focused(&self) -> Option<&Layer> {
        self.focus().map(|at| &self.layers[at])
    }

    /// Returns the layer with the focus, for changing it.
    pub(super) fn focused_mut(&mut self) -> Option<&mut Layer> {
        self.focus().map(|at| &mut self.layers[at])
    }

    /// Returns the component with the focus.
    pub(super) fn focused_component(&self) -> Option<ComponentId> {
        match self.focused() {
            Some(Layer::Custom(custom)) => Some(custom.id.clone()),
            _ => None,
        }
    }

    /// Returns the layer in place of the editor.
    pub(super) fn in_place_of_editor(&self) -> Option<&Layer> {
        self.layers.iter().filter(|layer| layer.replaces_editor()).max_by_key(|layer| layer.order())
    }

    /// Returns the components of extensions, in no particular order.
    pub(super) fn customs(&self) -> impl Iterator<Item = &CustomComponent> {
        self.layers.iter().filter_map(|layer| match layer {
            Layer::Custom(custom) => Some(custom),
            _ => None,
        })
    }

    /// Returns the ids of the components of extensions.
    pub(super) fn custom_ids(&self) -> BTreeSet<ComponentId> {
        self.customs().map(|custom| custom.id.clone()).collect()
    }

    /// Returns a component of an extension.
    pub(super) fn custom(&mut self, id: &ComponentId) -> Option<&mut CustomComponent> {
        self.layers.iter_mut().find_map(|layer| match layer {
            Layer::Custom(custom) if custom.id == *id => Some(custom),
            _ => None,
        })
    }

    /// Returns whether a dialog shows a countdown.
    pub(super) fn counts_down(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::Dialog(dialog) if dialog.deadline.is_some()))
    }

    /// Checks whether an extension may open another component.
    pub(super) fn expect_custom_quota(&self, extension: &ExtensionId) -> Result<(), HostcallError> {
        let open = self.customs().filter(|custom| custom.id.0 == *extension).count();
        match open >= MAX_KEPT && guard!(TuiComponents) {
            true => Err(used_up("layers", MAX_KEPT)),
            false => Ok(()),
        }
    }

    /// Checks whether an extension may open another dialog.
    pub(super) fn expect_dialog_quota(&self, asked: &ExtensionDialog) -> Result<(), HostcallError> {
        let open = self.layers.iter().filter_map(|layer| match layer {
            Layer::Dialog(dialog) if dialog.extension == asked.extension => Some(dialog.bytes),
            _ => None,
        });
        let (count, bytes) = open.fold((0, asked.bytes), |(count, sum), bytes| (count + 1, sum + bytes));
        match () {
            () if !guard!(TuiComponents) => Ok(()),
            () if count >= MAX_KEPT => Err(used_up("dialogs", MAX_KEPT)),
            () if bytes > MAX_ASKED => Err(used_up("dialog_bytes", MAX_ASKED)),
            () => Ok(()),
        }
    }

    /// Removes a dialog.
    pub(super) fn close_dialog(&mut self, number: u64) {
        self.layers.retain(|layer| !matches!(layer, Layer::Dialog(dialog) if dialog.number == number));
    }

    /// Removes a built-in list by its order.
    pub(super) fn close_list(&mut self, order: u64) {
        self.layers.retain(|layer| !matches!(layer, Layer::Picker(picker) if picker.order == order));
    }

    /// Removes the built-in input line.
    pub(super) fn close_entry(&mut self) {
        self.layers.retain(|layer| !matches!(layer, Layer::Entry(_)));
    }

    /// Removes a component.
    pub(super) fn close_component(&mut self, id: &ComponentId) {
        self.layers.retain(|layer| !matches!(layer, Layer::Custom(custom) if custom.id == *id));
    }

    /// Removes the layers of extensions whose realms are gone.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&ExtensionId) -> bool) {
        self.layers.retain(|layer| !layer.extension().is_some_and(&is_gone));
    }

    /// Cancels all prompts and layers.
    pub(super) fn cancel_all(&mut self) {
        self.prompts.clear();
        for layer in self.layers.drain(..) {
            if let Layer::Custom(custom) = layer {
                // A component that has ended no longer waits.
                let _ = custom.end.send(());
            }
        }
    }

    /// Applies an operation of an overlay's handle. Returns the component that takes the focus next.
    pub(super) fn steer(
        &mut self,
        id: Option<&ComponentId>,
        set: Option<&str>,
        target: Option<&Value>,
    ) -> Option<ComponentId> {
        let order = self.next_order();
        match (set, id.and_then(|id| self.custom(id))) {
            (Some("hidden"), Some(custom)) => custom.is_hidden = true,
            (Some("shown"), Some(custom)) => {
                let was_hidden = std::mem::take(&mut custom.is_hidden);
                if was_hidden && !custom.overlay.as_ref().is_some_and(Overlay::lets_keys_through) {
                    (custom.wants_keys, custom.order) = (true, order);
                }
            }
            (Some("focus"), Some(custom)) if custom.is_seen() => (custom.wants_keys, custom.order) = (true, order),
            (Some("unfocus"), Some(custom)) => {
                custom.wants_keys = false;
                let owner = custom.id.0.clone();
                match target.map(Value::as_u64) {
                    Some(Some(handle)) => return u32::try_from(handle).ok().map(|handle| (owner, handle)),
                    // With an explicit `null`, the extension's other overlays release the focus as well.
                    Some(None) => self.release(&owner),
                    None => {}
                }
            }
            _ => {}
        }
        None
    }

    /// Releases the focus of an extension's overlays.
    pub(super) fn release(&mut self, extension: &ExtensionId) {
        for layer in &mut self.layers {
            if let Layer::Custom(custom) = layer
                && custom.overlay.is_some()
                && custom.id.0 == *extension
            {
                custom.wants_keys = false;
            }
        }
    }

    /// Returns the state of an overlay for its handle, and the focused component of its realm.
    pub(super) fn about(&mut self, id: &ComponentId) -> Value {
        let focused = self.focused_component();
        let focus = focused.as_ref().filter(|focused| focused.0 == id.0).map(|focused| focused.1);
        let bounds = self.custom(id).filter(|custom| custom.is_seen()).and_then(|custom| custom.bounds);
        let is_hidden = self.custom(id).is_some_and(|custom| custom.is_hidden);
        let mut about = json!({"hidden": is_hidden, "focused": focused.as_ref() == Some(id), "focus": focus});
        if let Some([row, col, width, height]) = bounds {
            about["bounds"] = json!({"row": row, "col": col, "width": width, "height": height});
        }
        about
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn components_and_dialogs_are_limited() {
        let (mut stack, extension) = (LayerStack::default(), ExtensionId::new("x"));
        for handle in 0..1_000 {
            if stack.expect_custom_quota(&extension).is_ok() {
                let (end, _) = oneshot::channel();
                stack.push(Layer::Custom(CustomComponent::new((extension.clone(), handle), None, 0, end)));
            }
        }
        assert_eq!(stack.customs().count(), MAX_KEPT);
        let params = |text: &str| json!({"title": text, "options": [text]}).as_object().cloned().expect("an object");
        let mut asked = 0;
        for number in 0..100 {
            let dialog = ExtensionDialog::new(number, extension.clone(), "select", &params("small"));
            if stack.expect_dialog_quota(&dialog).is_ok() {
                stack.push(Layer::Dialog(dialog));
                asked += 1;
            }
        }
        assert_eq!(asked, MAX_KEPT);
        let large = ExtensionDialog::new(0, ExtensionId::new("y"), "select", &params(&"x".repeat(10 << 20)));
        assert!(stack.expect_dialog_quota(&large).is_err());
    }
}
