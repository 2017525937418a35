//! Registrations of one realm, and the rules for equal names.
//!
//! Registrations are stored per entry, in order. Lists over all extensions go through packages in load order, then entries, then
//! registrations; the first registration of a name keeps it. The rules are pi's (`docs/compatibility.md` lists conflicts that
//! PiJS reports and that make pi exit).

use crate::message_limits;
use pijs_node_compat::events::{STREAM_TEXT, is_known};
use pijs_protocol::registration::{CommandSpec, FlagSpec, HandlerSpec, Registration, ToolSpec};
use pijs_protocol::{EntryIndex, Handle, guard};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of registrations of one package: each realm, each request to the model and each list of commands contains them.
const MOST: usize = 4096;
/// Maximum total weight ([`message_limits::weight`]) of one package's registrations: far above the largest known package.
const MAX_WEIGHT: usize = 8 << 20;
/// Maximum total weight of the registrations of all packages: each realm and each list of tools contains them.
const MAX_TOGETHER: usize = 64 << 20;

/// Maximum number of `stream_text` handlers of one package: each handler is called every few characters of a reply.
pub(crate) const MAX_STREAM_HANDLERS: usize = 64;

/// Registrations of one package, entry by entry.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    entries: Vec<EntryRegistry>,
}

/// Registrations of one entry.
#[derive(Debug, Default)]
struct EntryRegistry {
    /// Number and total weight of the registrations, updated with each one.
    weight: Weight,
    tools: Vec<Weighed<ToolSpec>>,
    commands: Vec<Weighed<CommandSpec>>,
    flags: Vec<Weighed<FlagSpec>>,
    handlers: Vec<Weighed<HandlerSpec>>,
    /// Removed handlers that an event in flight may still call.
    removed: BTreeSet<Handle>,
    /// Shortcuts, renderers, providers: registrations for front ends.
    others: Vec<Weighed<Registration>>,
}

/// A registration and its weight.
#[derive(Debug, Clone)]
struct Weighed<T> {
    item: T,
    weight: usize,
}

/// Number of registrations, and their total weight.
#[derive(Debug, Default, Clone, Copy)]
struct Weight {
    count: usize,
    sum: usize,
}

impl Weight {
    fn add(&mut self, weight: usize) {
        self.count += 1;
        self.sum += weight;
    }

    fn take(&mut self, weight: usize) {
        self.count -= 1;
        self.sum -= weight;
    }
}

/// Effect of a registration beyond its entry in the registry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// No further effect.
    None,
    /// A new tool name, which may conflict with a tool of another package.
    Tool(String),
    /// A flag, which may conflict with a flag of another package; its default takes effect if it has no value yet.
    Flag(FlagSpec),
    /// The set of `stream_text` handlers changed.
    StreamHandlers,
    /// The set of MCP servers changed.
    McpServers,
    /// The event is never emitted.
    UnknownEvent(String),
}

impl EntryRegistry {
    /// Removes registrations for front ends.
    fn withdraw(&mut self, is_it: impl Fn(&Registration) -> bool) {
        let sum = &mut self.weight;
        self.others.retain(|other| {
            let goes = is_it(&other.item);
            if goes {
                sum.take(other.weight);
            }
            !goes
        });
    }
}

impl Registrations {
    pub(crate) fn with_entries(count: usize) -> Self {
        Self { entries: (0..count).map(|_| EntryRegistry::default()).collect() }
    }

    /// Adds a registration. Returns `None` for an entry that does not exist.
    pub(crate) fn add(&mut self, entry: EntryIndex, registration: Registration) -> Option<Effect> {
        let weight = message_limits::weight(&registration);
        let known = self.entries.get_mut(entry.0 as usize)?;
        Some(match registration {
            Registration::Tool(spec) => {
                let name = spec.name.clone();
                put(&mut known.tools, &mut known.weight, Weighed { item: spec, weight }, |a, b| a.name == b.name);
                Effect::Tool(name)
            }
            Registration::Command(spec) => {
                put(&mut known.commands, &mut known.weight, Weighed { item: spec, weight }, |a, b| a.name == b.name);
                Effect::None
            }
            Registration::Flag(spec) => {
                let flag = Weighed { item: spec.clone(), weight };
                put(&mut known.flags, &mut known.weight, flag, |a, b| a.name == b.name);
                Effect::Flag(spec)
            }
            Registration::Handler(spec) => {
                let event = spec.event.clone();
                known.handlers.push(Weighed { item: spec, weight });
                known.weight.add(weight);
                match event.as_str() {
                    STREAM_TEXT => Effect::StreamHandlers,
                    name if is_known(name) => Effect::None,
                    _ => Effect::UnknownEvent(event),
                }
            }
            Registration::HandlerRemoved { handle } => {
                let removed = known.handlers.iter().position(|handler| handler.item.handle == handle);
                let removed = removed.map(|at| known.handlers.remove(at));
                removed.iter().for_each(|handler| known.weight.take(handler.weight));
                if removed.is_some() && known.removed.len() < MOST {
                    known.removed.insert(handle);
                }
                match removed {
                    Some(handler) if handler.item.event == STREAM_TEXT => Effect::StreamHandlers,
                    _ => Effect::None,
                }
            }
            Registration::ProviderRemoved { name } => {
                known.withdraw(|other| matches!(other, Registration::Provider { name: known, .. } if *known == name));
                Effect::None
            }
            Registration::McpServerRemoved { name } => {
                known.withdraw(|other| matches!(other, Registration::McpServer { name: known, .. } if *known == name));
                Effect::McpServers
            }
            server @ Registration::McpServer { .. } => {
                put(&mut known.others, &mut known.weight, Weighed { item: server, weight }, same_slot);
                Effect::McpServers
            }
            other => {
                put(&mut known.others, &mut known.weight, Weighed { item: other, weight }, same_slot);
                Effect::None
            }
        })
    }

    /// Checks whether one more registration fits, given the weight of the other packages (`others`). Removals always fit.
    ///
    /// # Errors
    ///
    /// The message names the exceeded limit.
    pub(crate) fn has_room_for(&self, registration: &Registration, others: usize) -> Result<(), &'static str> {
        let removes = matches!(
            registration,
            Registration::HandlerRemoved { .. }
                | Registration::ProviderRemoved { .. }
                | Registration::McpServerRemoved { .. }
        );
        if removes || !guard!(RegistrationSize) {
            return Ok(());
        }
        let count: usize = self.entries.iter().map(|entry| entry.weight.count).sum();
        let sum = self.weight() + message_limits::weight(registration);
        if count >= MOST || sum > MAX_WEIGHT {
            Err("it has reached the limit on registrations of one package")
        } else if others + sum > MAX_TOGETHER {
            Err("all extensions together have reached the limit on registrations")
        } else {
            Ok(())
        }
    }

    /// Returns the weight of all registrations.
    pub(crate) fn weight(&self) -> usize {
        self.entries.iter().map(|entry| entry.weight.sum).sum()
    }

    /// Returns whether a registration is within the limit of `stream_text` handlers; other kinds always are.
    pub(crate) fn may_listen(&self, registration: &Registration) -> bool {
        let Registration::Handler(HandlerSpec { event, .. }) = registration else { return true };
        event != STREAM_TEXT || self.handlers(STREAM_TEXT).count() < MAX_STREAM_HANDLERS || !guard!(RegistrationSize)
    }

    /// Drops all registrations of a failed entry.
    pub(crate) fn clear(&mut self, entry: EntryIndex) {
        if let Some(known) = self.entries.get_mut(entry.0 as usize) {
            *known = EntryRegistry::default();
        }
    }

    /// Iterates over the handlers of an event, in entry order, then registration order.
    pub(crate) fn handlers<'a>(&'a self, event: &'a str) -> impl Iterator<Item = (EntryIndex, &'a HandlerSpec)> {
        self.each(|entry| &entry.handlers).filter(move |(_, handler)| handler.event == event)
    }

    /// Iterates over the events that have a handler. An event with several handlers occurs several times.
    pub(crate) fn events(&self) -> impl Iterator<Item = (EntryIndex, &str)> {
        self.each(|entry| &entry.handlers).map(|(entry, handler)| (entry, handler.event.as_str()))
    }

    pub(crate) fn has_handler(&self, event: &str) -> bool {
        self.handlers(event).next().is_some()
    }

    /// Forgets removed handlers, once no event in flight calls them any more.
    pub(crate) fn forget_removed(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.removed.clear());
    }

    /// Returns whether a handler may be called: it is registered, or was removed while an event is in flight.
    pub(crate) fn knows_handler(&self, handle: Handle) -> bool {
        self.each(|entry| &entry.handlers).any(|(_, handler)| handler.handle == handle)
            || self.entries.iter().any(|entry| entry.removed.contains(&handle))
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

    pub(crate) fn has_mcp_servers(&self) -> bool {
        self.others().any(|(_, other)| matches!(other, Registration::McpServer { .. }))
    }

    /// Iterates over all registrations by entry.
    pub(crate) fn by_entry(&self) -> impl Iterator<Item = (EntryIndex, Vec<Registration>)> {
        self.entries.iter().zip(0..).map(|(entry, index)| {
            let tools = items(&entry.tools).map(Registration::Tool);
            let commands = items(&entry.commands).map(Registration::Command);
            let flags = items(&entry.flags).map(Registration::Flag);
            let handlers = items(&entry.handlers).map(Registration::Handler);
            let all = tools.chain(commands).chain(flags).chain(handlers).chain(items(&entry.others));
            (EntryIndex(index), all.collect())
        })
    }

    fn each<'a, T: 'a>(
        &'a self,
        list: impl Fn(&'a EntryRegistry) -> &'a Vec<Weighed<T>>,
    ) -> impl Iterator<Item = (EntryIndex, &'a T)> {
        self.entries
            .iter()
            .zip(0..)
            .flat_map(move |(entry, index)| list(entry).iter().map(move |weighed| (EntryIndex(index), &weighed.item)))
    }
}

/// Adds a registration. The last one of a name replaces the earlier one and keeps its position, as in a JavaScript `Map`.
fn put<T>(list: &mut Vec<Weighed<T>>, sum: &mut Weight, new: Weighed<T>, same: impl Fn(&T, &T) -> bool) {
    sum.add(new.weight);
    match list.iter_mut().find(|known| same(&known.item, &new.item)) {
        Some(known) => {
            sum.take(known.weight);
            *known = new;
        }
        None => list.push(new),
    }
}

fn items<T: Clone>(list: &[Weighed<T>]) -> impl Iterator<Item = T> {
    list.iter().map(|weighed| weighed.item.clone())
}

fn same_slot(a: &Registration, b: &Registration) -> bool {
    match (a, b) {
        (Registration::Shortcut { key: a, .. }, Registration::Shortcut { key: b, .. })
        | (
            Registration::MessageRenderer { custom_type: a, .. },
            Registration::MessageRenderer { custom_type: b, .. },
        )
        | (Registration::EntryRenderer { custom_type: a, .. }, Registration::EntryRenderer { custom_type: b, .. })
        | (Registration::Provider { name: a, .. }, Registration::Provider { name: b, .. })
        | (Registration::McpServer { name: a, .. }, Registration::McpServer { name: b, .. }) => a == b,
        (Registration::MarkdownTransformer { .. }, Registration::MarkdownTransformer { .. }) => true,
        _ => false,
    }
}

/// Returns invocation names for commands in load order: duplicate names are numbered.
pub(crate) fn invocation_names<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    names.clone().for_each(|name| *all.entry(name).or_default() += 1);
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let invocation = |name: &'a str| {
        let occurrence = met.entry(name).or_default();
        *occurrence += 1;
        let mut invocation = if all[name] > 1 { format!("{name}:{occurrence}") } else { name.to_owned() };
        let mut suffix = *occurrence;
        while !taken.insert(invocation.clone()) {
            suffix += 1;
            invocation = format!("{name}:{suffix}");
        }
        invocation
    };
    names.map(invocation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(event: &str, handle: u32) -> Registration {
        Registration::Handler(HandlerSpec { event: event.into(), handle: Handle(handle), sources: Vec::new() })
    }

    #[test]
    fn handlers_come_in_entry_order_whenever_they_were_registered() {
        let mut registry = Registrations::with_entries(2);
        registry.add(EntryIndex(1), handler("input", 1));
        registry.add(EntryIndex(0), handler("input", 2));
        registry.add(EntryIndex(0), handler("input", 3));
        registry.add(EntryIndex(0), Registration::HandlerRemoved { handle: Handle(2) });
        let order: Vec<u32> = registry.handlers("input").map(|(_, spec)| spec.handle.0).collect();
        assert_eq!(order, [3, 1]);
    }

    #[test]
    fn unknown_events_and_unknown_entries_are_told_apart() {
        let mut registry = Registrations::with_entries(1);
        assert_eq!(registry.add(EntryIndex(0), handler("nonsense", 1)), Some(Effect::UnknownEvent("nonsense".into())));
        assert_eq!(registry.add(EntryIndex(0), handler("stream_text", 2)), Some(Effect::StreamHandlers));
        assert_eq!(
            registry.add(EntryIndex(0), Registration::HandlerRemoved { handle: Handle(2) }),
            Some(Effect::StreamHandlers)
        );
        assert_eq!(registry.add(EntryIndex(7), handler("input", 3)), None);
    }

    #[test]
    fn a_package_has_so_many_registrations_and_may_replace_and_remove_them() {
        let mut registry = Registrations::with_entries(1);
        let entry = EntryIndex(0);
        (0..MOST as u32).for_each(|handle| drop(registry.add(entry, handler("input", handle))));
        assert!(registry.has_room_for(&handler("input", 0), 0).is_err());
        let removed = Registration::HandlerRemoved { handle: Handle(7) };
        assert_eq!(registry.has_room_for(&removed, MAX_TOGETHER), Ok(()));
        registry.add(entry, removed);
        assert_eq!(registry.has_room_for(&handler("input", 0), 0), Ok(()));
        assert!(registry.has_room_for(&handler("input", 0), MAX_TOGETHER).is_err(), "others have taken all");
        let flag = |number: usize| {
            Registration::Flag(FlagSpec {
                name: format!("f{number}"),
                flag_type: "string".into(),
                default: None,
                description: Some("y".repeat(1 << 20)),
            })
        };
        let mut registry = Registrations::with_entries(1);
        let most = MAX_WEIGHT / (1 << 20) - 1;
        (0..most).for_each(|number| drop(registry.add(entry, flag(number))));
        assert!(registry.has_room_for(&flag(most), 0).is_err(), "each is a little more than its description");
    }

    #[test]
    fn a_package_has_so_many_handlers_of_the_stream() {
        let mut registry = Registrations::with_entries(2);
        for handle in 0..MAX_STREAM_HANDLERS as u32 {
            assert!(registry.may_listen(&handler("stream_text", handle)));
            registry.add(EntryIndex(handle % 2), handler("stream_text", handle));
        }
        assert!(!registry.may_listen(&handler("stream_text", 100)));
        assert!(registry.may_listen(&handler("input", 100)));
        registry.add(EntryIndex(1), Registration::HandlerRemoved { handle: Handle(7) });
        assert!(registry.may_listen(&handler("stream_text", 100)));
    }

    #[test]
    fn shared_command_names_are_numbered() {
        let names = ["a", "b", "a", "a:1"];
        // The command named `a:1` comes last, so it gets another name.
        assert_eq!(invocation_names(names.into_iter()), ["a:1", "b", "a:2", "a:1:2"]);
    }
}
