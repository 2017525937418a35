//! What one realm has registered, and the rules for names that meet.
//!
//! Kept per entry, in the order of registration. Lists over all extensions go through packages in
//! load order, then entries, then registrations; the first one with a name has it. The rules are
//! pi's (`docs/compatibility.md` lists where a conflict is reported here and ends pi).

use crate::events::pi;
use pijs_protocol::registration::{CommandSpec, FlagSpec, HandlerSpec, Registration, ToolSpec};
use pijs_protocol::{EntryIndex, Handle};

/// Registrations of one package, entry by entry.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Vec<EntryRegistry>,
}

/// Registrations of one entry.
#[derive(Debug, Default)]
struct EntryRegistry {
    tools: Vec<ToolSpec>,
    commands: Vec<CommandSpec>,
    flags: Vec<FlagSpec>,
    handlers: Vec<HandlerSpec>,
    /// Shortcuts, renderers, providers: what only front ends look at.
    others: Vec<Registration>,
}

/// What a registration means beyond being written down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// A new tool name: it may be taken elsewhere.
    Tool(String),
    /// A flag: it may be taken elsewhere; its default may count.
    Flag(FlagSpec),
    /// The set of `stream_text` handlers changed.
    Ears,
    /// The event never fires.
    UnknownEvent(String),
}

impl Registry {
    pub(crate) fn with_entries(count: usize) -> Self {
        Self { entries: (0..count).map(|_| EntryRegistry::default()).collect() }
    }

    /// Writes a registration down. `None`: the realm named an entry that does not exist.
    pub(crate) fn add(&mut self, entry: EntryIndex, registration: Registration) -> Option<Effect> {
        let known = self.entries.get_mut(entry.0 as usize)?;
        Some(match registration {
            Registration::Tool(spec) => {
                let name = spec.name.clone();
                put(&mut known.tools, spec, |a, b| a.name == b.name);
                Effect::Tool(name)
            }
            Registration::Command(spec) => {
                put(&mut known.commands, spec, |a, b| a.name == b.name);
                Effect::None
            }
            Registration::Flag(spec) => {
                put(&mut known.flags, spec.clone(), |a, b| a.name == b.name);
                Effect::Flag(spec)
            }
            Registration::Handler(spec) => {
                let event = spec.event.clone();
                known.handlers.push(spec);
                match event.as_str() {
                    pi::STREAM_TEXT => Effect::Ears,
                    name if pi::is_known(name) => Effect::None,
                    _ => Effect::UnknownEvent(event),
                }
            }
            Registration::HandlerRemoved { handle } => {
                let removed = known.handlers.iter().position(|handler| handler.handle == handle);
                match removed.map(|at| known.handlers.remove(at)) {
                    Some(spec) if spec.event == pi::STREAM_TEXT => Effect::Ears,
                    _ => Effect::None,
                }
            }
            Registration::ProviderRemoved { name } => {
                known
                    .others
                    .retain(|other| !matches!(other, Registration::Provider { name: known, .. } if *known == name));
                Effect::None
            }
            other => {
                put(&mut known.others, other, same_slot);
                Effect::None
            }
        })
    }

    /// Drops everything a failed entry registered.
    pub(crate) fn clear(&mut self, entry: EntryIndex) {
        if let Some(known) = self.entries.get_mut(entry.0 as usize) {
            *known = EntryRegistry::default();
        }
    }

    /// Handlers of an event, in entry order, then registration order.
    pub(crate) fn handlers<'a>(&'a self, event: &'a str) -> impl Iterator<Item = (EntryIndex, &'a HandlerSpec)> {
        self.each(|entry| &entry.handlers).filter(move |(_, handler)| handler.event == event)
    }

    pub(crate) fn has_handler(&self, event: &str) -> bool {
        self.handlers(event).next().is_some()
    }

    /// Whether a handler is still registered: an earlier one of the same event may have removed it.
    pub(crate) fn knows_handler(&self, handle: Handle) -> bool {
        self.each(|entry| &entry.handlers).any(|(_, handler)| handler.handle == handle)
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = (EntryIndex, &ToolSpec)> {
        self.each(|entry| &entry.tools)
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = (EntryIndex, &CommandSpec)> {
        self.each(|entry| &entry.commands)
    }

    pub(crate) fn flags(&self) -> impl Iterator<Item = (EntryIndex, &FlagSpec)> {
        self.each(|entry| &entry.flags)
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = (EntryIndex, &Registration)> {
        self.each(|entry| &entry.others)
    }

    /// Everything, entry by entry.
    pub(crate) fn by_entry(&self) -> impl Iterator<Item = (EntryIndex, Vec<Registration>)> {
        self.entries.iter().zip(0..).map(|(entry, index)| {
            let tools = entry.tools.iter().cloned().map(Registration::Tool);
            let commands = entry.commands.iter().cloned().map(Registration::Command);
            let flags = entry.flags.iter().cloned().map(Registration::Flag);
            let handlers = entry.handlers.iter().cloned().map(Registration::Handler);
            let all = tools.chain(commands).chain(flags).chain(handlers).chain(entry.others.iter().cloned());
            (EntryIndex(index), all.collect())
        })
    }

    fn each<'a, T: 'a>(
        &'a self,
        list: impl Fn(&'a EntryRegistry) -> &'a Vec<T>,
    ) -> impl Iterator<Item = (EntryIndex, &'a T)> {
        self.entries
            .iter()
            .zip(0..)
            .flat_map(move |(entry, index)| list(entry).iter().map(move |item| (EntryIndex(index), item)))
    }
}

/// The last registration of a name wins and keeps the place of the first, as in a JavaScript `Map`.
fn put<T>(list: &mut Vec<T>, item: T, same: impl Fn(&T, &T) -> bool) {
    match list.iter_mut().find(|known| same(known, &item)) {
        Some(known) => *known = item,
        None => list.push(item),
    }
}

fn same_slot(a: &Registration, b: &Registration) -> bool {
    match (a, b) {
        (Registration::Shortcut { key: a, .. }, Registration::Shortcut { key: b, .. })
        | (
            Registration::MessageRenderer { custom_type: a, .. },
            Registration::MessageRenderer { custom_type: b, .. },
        )
        | (Registration::EntryRenderer { custom_type: a, .. }, Registration::EntryRenderer { custom_type: b, .. })
        | (Registration::Provider { name: a, .. }, Registration::Provider { name: b, .. }) => a == b,
        (Registration::MarkdownTransformer { .. }, Registration::MarkdownTransformer { .. }) => true,
        _ => false,
    }
}

/// Names to type for commands in load order: a name that several chose is numbered.
pub(crate) fn invocation_names<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for (position, name) in names.clone().enumerate() {
        let occurrence = names.clone().take(position + 1).filter(|other| *other == name).count();
        let is_shared = names.clone().filter(|other| *other == name).count() > 1;
        let mut invocation = if is_shared { format!("{name}:{occurrence}") } else { name.to_owned() };
        let mut suffix = occurrence;
        while taken.contains(&invocation) {
            suffix += 1;
            invocation = format!("{name}:{suffix}");
        }
        taken.push(invocation);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(event: &str, handle: u32) -> Registration {
        Registration::Handler(HandlerSpec { event: event.into(), handle: Handle(handle), sources: Vec::new() })
    }

    #[test]
    fn handlers_come_in_entry_order_whenever_they_were_registered() {
        let mut registry = Registry::with_entries(2);
        registry.add(EntryIndex(1), handler("input", 1));
        registry.add(EntryIndex(0), handler("input", 2));
        registry.add(EntryIndex(0), handler("input", 3));
        registry.add(EntryIndex(0), Registration::HandlerRemoved { handle: Handle(2) });
        let order: Vec<u32> = registry.handlers("input").map(|(_, spec)| spec.handle.0).collect();
        assert_eq!(order, [3, 1]);
    }

    #[test]
    fn unknown_events_and_unknown_entries_are_told_apart() {
        let mut registry = Registry::with_entries(1);
        assert_eq!(registry.add(EntryIndex(0), handler("nonsense", 1)), Some(Effect::UnknownEvent("nonsense".into())));
        assert_eq!(registry.add(EntryIndex(0), handler("stream_text", 2)), Some(Effect::Ears));
        assert_eq!(registry.add(EntryIndex(0), Registration::HandlerRemoved { handle: Handle(2) }), Some(Effect::Ears));
        assert_eq!(registry.add(EntryIndex(7), handler("input", 3)), None);
    }

    #[test]
    fn shared_command_names_are_numbered() {
        let names = ["a", "b", "a", "a:1"];
        // The one that is really called `a:1` comes last and makes way.
        assert_eq!(invocation_names(names.into_iter()), ["a:1", "b", "a:2", "a:1:2"]);
    }
}
