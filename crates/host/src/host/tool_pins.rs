//! Pins the definitions of tools: a tool's description for the model does not change without the consent of the user who agreed
//! to the package (`docs/spec/capabilities.md`, The model).
//!
//! The first session with a package records digests of its tools' definitions with its grants, which are bound to its code. When
//! the same code describes a tool differently later, the change depends either on its environment (the folder, the date, the
//! project), or on a server or a program that the extension queried. The first kind passes, with a line in the ledger. The second
//! kind could turn a tool that the user agreed to into another one, so the tool is withheld until the user has seen the new
//! definition. The strict policy withholds both.

use super::Host;
use crate::extension::Slot;
use crate::record;
use crate::report::ReportKind;
use pijs_hostcall::grant_store::tool_digest;
use pijs_protocol::registration::{Registration, ToolSpec};
use pijs_protocol::{EntryIndex, ExtensionId, guard};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Digests of an extension's tools by name.
pub type Digests = BTreeMap<String, String>;

/// Pinned definitions, and tools that are withheld because their definition changed.
#[derive(Default)]
pub(crate) struct ToolPins {
    pinned: BTreeMap<ExtensionId, Digests>,
    withheld: Vec<Withheld>,
}

struct Withheld {
    slot: Rc<Slot>,
    entry: EntryIndex,
    spec: ToolSpec,
}

impl Host {
    /// Pins an extension's tools to known definitions. Call this before the extension is loaded.
    pub fn pin_tools(&self, extension: &ExtensionId, digests: Digests) {
        self.0.session.pins.borrow_mut().pinned.insert(extension.clone(), digests);
    }

    /// Returns the digests of an extension's current tools.
    pub fn tool_digests(&self, extension: &ExtensionId) -> Digests {
        let own = self.tools().into_iter().filter(|tool| tool.owner.extension == *extension);
        own.map(|tool| (tool.spec.name.clone(), tool_digest(&tool.spec))).collect()
    }

    /// Prompts about withheld tools; a tool that the user agrees to is available from then on. Others stay withheld, and the user
    /// is notified. Returns the extensions with changed definitions.
    pub async fn settle_tools(&self) -> Vec<ExtensionId> {
        let withheld = std::mem::take(&mut self.0.session.pins.borrow_mut().withheld);
        let mut changed = Vec::new();
        for Withheld { slot, entry, spec } in withheld {
            let caller = slot.cell.borrow().caller.clone();
            let name = spec.name.clone();
            let what = format!("change the description of its tool {name:?} for the model");
            let says = told(&spec);
            let agreed = self.0.services.dispatcher.gate().consult_change(&caller, "tools", what, &says).await;
            record::redefined(&self.0.services, &caller, &name, agreed);
            if agreed {
                if let Some(pinned) = self.0.session.pins.borrow_mut().pinned.get_mut(caller.extension()) {
                    pinned.insert(name.clone(), tool_digest(&spec));
                }
                slot.cell.borrow_mut().registry.add(entry, Registration::Tool(spec));
                self.note_tool(&slot, entry, &name);
                changed.push(caller.extension().clone());
            } else {
                let message = format!(
                    "the description of its tool {name:?} has changed since you agreed to it, so the tool is withheld; \
                     answer at a terminal, or accept the change: pi install --yes {}",
                    caller.extension().as_str().trim_start_matches("npm:")
                );
                self.report(&slot, Some(entry), ReportKind::Warning { message });
            }
        }
        changed.dedup();
        changed
    }

    /// Returns whether a definition differs from the pinned one and is withheld until the user agrees.
    pub(crate) fn withholds(&self, slot: &Rc<Slot>, entry: EntryIndex, spec: &ToolSpec) -> bool {
        if !guard!(ToolsPinnedDefinition) {
            return false;
        }
        let mut pins = self.0.session.pins.borrow_mut();
        let extension = slot.cell.borrow().package.id().clone();
        let Some(pinned) = pins.pinned.get(&extension) else { return false };
        if pinned.get(&spec.name).is_some_and(|known| *known == tool_digest(spec)) {
            return false;
        }
        if self.0.services.dispatcher.gate().speaks_for_itself(&extension) {
            drop(pins);
            record::redefined(&self.0.services, &slot.cell.borrow().caller, &spec.name, true);
            return false;
        }
        pins.withheld.retain(|other| other.spec.name != spec.name || !Rc::ptr_eq(&other.slot, slot));
        if pins.withheld.len() < MAX_WITHHELD {
            pins.withheld.push(Withheld { slot: Rc::clone(slot), entry, spec: spec.clone() });
        }
        true
    }
}

/// Returns all text of a tool for the model, to show it in the prompt, because any part may be new. Text of the system prompt
/// comes first, because the end of a long text is not shown.
fn told(spec: &ToolSpec) -> String {
    let description = spec.description.clone().unwrap_or_default();
    if !guard!(PromptDefinition) {
        return description;
    }
    let rules = spec.prompt_guidelines.iter().flatten().map(|rule| format!("rule: {rule}"));
    let listed = spec.prompt_snippet.iter().map(|snippet| format!("listed as: {snippet}"));
    let label = spec.label.iter().filter(|label| **label != spec.name).map(|label| format!("called: {label}"));
    let arguments = spec.parameters.iter().map(|parameters| format!("arguments: {parameters}"));
    let parts: Vec<String> =
        rules.chain(listed).chain([format!("described as: {description}")]).chain(label).chain(arguments).collect();
    parts.join("; ")
}

/// Maximum number of definitions that wait for consent; more than a user would read.
const MAX_WITHHELD: usize = 64;
