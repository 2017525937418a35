//! Definitions of tools that were seen before: what the model is told about a tool does not change behind the back of
//! whoever agreed to the package (`docs/spec/capabilities.md`, The model).
//!
//! The first session with a package shows what its tools are; digests of their definitions are kept with its grants,
//! which are bound to its code. A tool that is described differently later, by the same code, says either something
//! about the place and time it runs in (the folder, the date, what a project has), or what somebody else has told it. The
//! first is what was agreed to and passes, with a line in the ledger. The second is how an agreed tool turns into another
//! one: when its extension has asked a server or a program, it is left out until a person has seen what it says now.
//! The strict policy leaves both out.

use crate::extension::Slot;
use crate::host::Host;
use crate::record;
use crate::report::ReportKind;
use pijs_hostcall::grant_store::tool_digest;
use pijs_protocol::registration::{Registration, ToolSpec};
use pijs_protocol::{EntryIndex, ExtensionId, guard};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Name to digest of each tool of an extension.
pub type Digests = BTreeMap<String, String>;

/// Pinned definitions, and tools that are left out because theirs changed.
#[derive(Default)]
pub(crate) struct Pins {
    pinned: BTreeMap<ExtensionId, Digests>,
    withheld: Vec<Withheld>,
}

struct Withheld {
    slot: Rc<Slot>,
    entry: EntryIndex,
    spec: ToolSpec,
}

impl Host {
    /// Holds an extension to the definitions that are known; before it is loaded.
    pub fn pin_tools(&self, extension: &ExtensionId, digests: Digests) {
        self.0.session.pins.borrow_mut().pinned.insert(extension.clone(), digests);
    }

    /// The definitions that an extension's tools have now.
    pub fn tool_digests(&self, extension: &ExtensionId) -> Digests {
        let own = self.tools().into_iter().filter(|tool| tool.owner.extension == *extension);
        own.map(|tool| (tool.spec.name.clone(), tool_digest(&tool.spec))).collect()
    }

    /// Asks about the tools that were left out; those a person agrees to are there from now on. What is not agreed to
    /// stays out, and the user is told. Answers whose definitions are other ones now.
    pub async fn settle_tools(&self) -> Vec<ExtensionId> {
        let withheld = std::mem::take(&mut self.0.session.pins.borrow_mut().withheld);
        let mut changed = Vec::new();
        for Withheld { slot, entry, spec } in withheld {
            let caller = slot.cell.borrow().caller.clone();
            let name = spec.name.clone();
            let what = format!("describe its tool {name:?} to the model in another way than before");
            let says = told(&spec);
            let agreed = self.0.services.dispatcher.gate().consult(&caller, "tools", what, &says).await;
            record::redefined(&self.0, &caller, &name, agreed);
            if agreed {
                if let Some(pinned) = self.0.session.pins.borrow_mut().pinned.get_mut(caller.extension()) {
                    pinned.insert(name.clone(), tool_digest(&spec));
                }
                slot.cell.borrow_mut().registry.add(entry, Registration::Tool(spec));
                self.note_tool(&slot, entry, &name);
                changed.push(caller.extension().clone());
            } else {
                let message = format!(
                    "its tool {name:?} says something else than when it was agreed to, and is left out; answer at a \
                     terminal, or agree to all of it again: pi install --yes {}",
                    caller.extension().as_str().trim_start_matches("npm:")
                );
                self.report(&slot, Some(entry), ReportKind::Warning { message });
            }
        }
        changed.dedup();
        changed
    }

    /// Whether a definition is withheld until a person has agreed to it: it is not the one that was agreed to.
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
            record::redefined(&self.0, &slot.cell.borrow().caller, &spec.name, true);
            return false;
        }
        pins.withheld.retain(|other| other.spec.name != spec.name || !Rc::ptr_eq(&other.slot, slot));
        if pins.withheld.len() < MOST_WITHHELD {
            pins.withheld.push(Withheld { slot: Rc::clone(slot), entry, spec: spec.clone() });
        }
        true
    }
}

/// All that the model is told of a tool, as a person is asked about it: whatever of it may be what is new. What stands in
/// the system prompt comes first, since the end of a long text is not shown.
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

/// Definitions that wait to be seen; more than a person would look at.
const MOST_WITHHELD: usize = 64;
