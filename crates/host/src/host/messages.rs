//! Carries out messages of an extension, in the order of the turn that sent them.

use super::{Completion, Host};
use crate::extension::{Arrival, Extension, ExtensionStatus, OrderedAnswer, Slot};
use crate::message_limits;
use crate::outcome::RegistrationOwner;
use crate::record;
use crate::registry::{Effect, MAX_STREAM_HANDLERS};
use crate::report::ReportKind;
use crate::wait_limits::listens;
use crate::waiter::{EntryLoaded, Waiter};
use pijs_hostcall::{During, StartedCall};
use pijs_node_compat::events;
use pijs_protocol::message::{BusEvent, CallbackResult, ErrorReport, Message};
use pijs_protocol::registration::{FlagSpec, Register, Registration};
use pijs_protocol::{EntryIndex, HostCall, HostResult, Termination};
use serde_json::Value;
use std::rc::Rc;

impl Host {
    /// Carries out the messages of a turn in their order, up to the one that ends the realm.
    pub(crate) fn carry_out(&self, slot: &Rc<Slot>, messages: Vec<Message>) {
        let generation = slot.cell.borrow().link.generation;
        let is_of_calls = |message: &Message| {
            matches!(message, Message::HostCall(_) | Message::TimerSet { .. } | Message::TimerClear { .. })
        };
        let alone = messages.iter().all(is_of_calls);
        for message in messages {
            if slot.cell.borrow().link.generation != generation {
                // One of the messages ended the realm, which voids the later ones.
                return;
            }
            let message = match &mut slot.cell.borrow_mut().ahead {
                Some(ahead) => ahead.keep_back(message),
                None => Some(message),
            };
            let Some(message) = message.and_then(|message| self.limit_outgoing(slot, message)) else { continue };
            self.carry_out_one(slot, message, alone);
        }
    }

    /// Carries out one message; a message that only the host may send ends the realm.
    fn carry_out_one(&self, slot: &Rc<Slot>, message: Message, alone: bool) {
        match message {
            Message::HostCall(call) => self.start_call(slot, call, alone),
            Message::HostCallCancel { call_id } => {
                let id = slot.cell.borrow().package.id().clone();
                self.0.services.dispatcher.cancel(&id, &slot.call_id(call_id));
            }
            Message::TimerSet { timer, delay_ms, repeat } => {
                let now = self.0.services.timer.now();
                let armed = slot.cell.borrow_mut().ticks.set_timer(timer, delay_ms, repeat, now);
                if let Err(quota) = armed {
                    self.report(slot, None, ReportKind::Warning { message: quota.to_string() });
                }
            }
            Message::TimerClear { timer } => {
                slot.cell.borrow_mut().ticks.clear_timer(timer);
            }
            Message::Register(register) => self.register(slot, register),
            Message::EventResult(result) => {
                let waiter = slot.cell.borrow_mut().pending.events.remove(&result.event_id);
                let place = self.0.events.handler_order.enter();
                answer(waiter, OrderedAnswer { result, place });
            }
            Message::ToolUpdate(update) => {
                let extension = slot.cell.borrow();
                if let Some(waiter) = extension.pending.tools.get(&update.tool_call_id) {
                    let _ = waiter.updates.send(update.partial);
                }
            }
            Message::ToolResult(result) => {
                let waiter = slot.cell.borrow_mut().pending.tools.remove(&result.tool_call_id);
                let place = self.0.events.tool_order.enter();
                answer(waiter.map(|waiter| waiter.done), OrderedAnswer { result, place });
            }
            Message::SlashResult(result) => {
                let waiter = slot.cell.borrow_mut().pending.commands.remove(&result.slash_command_id);
                answer(waiter, result);
            }
            Message::CallbackUpdate(update) => {
                let id = update.callback_id;
                let pending = &mut slot.cell.borrow_mut().pending;
                let full = pending.callback_updates.get(&id).and_then(|updates| updates.send(update.value));
                if let Some(error) = full {
                    pending.callback_updates.remove(&id);
                    let result = CallbackResult { callback_id: id, value: None, error: Some(error) };
                    answer(pending.callbacks.remove(&result.callback_id), result);
                }
            }
            Message::CallbackResult(result) => {
                let waiter = {
                    let pending = &mut slot.cell.borrow_mut().pending;
                    pending.callback_updates.remove(&result.callback_id);
                    pending.callbacks.remove(&result.callback_id)
                };
                answer(waiter, result);
            }
            Message::StreamFault { handler, error } => self.stream_fault(slot, handler, error),
            Message::BusEmit(event) => self.relay(slot, event),
            Message::Log(entry) => self.report(slot, None, ReportKind::Log(Box::new(entry))),
            Message::Error(error) => self.realm_error(slot, error),
            stray @ (Message::Load(_)
            | Message::ToolCall(_)
            | Message::SlashCommand(_)
            | Message::EventHook(_)
            | Message::Callback(_)
            | Message::HostResult(_)
            | Message::HandlerMuted { .. }
            | Message::SignalAborted { .. }
            | Message::TimerFired { .. }
            | Message::Retired {}
            | Message::BusEvent(_)) => {
                let detail = format!("it sent {}, which only the host sends", kind(&stray));
                self.end(slot, &Termination::Protocol { detail });
            }
        }
    }

    /// Starts a hostcall; the answer comes back as an arrival. A call that need not wait is completed before the extension's next
    /// message, as on pi's one thread. With `alone`, that is, if the turn sent nothing but calls and timers, its answer is the
    /// next arrival.
    fn start_call(&self, slot: &Rc<Slot>, call: HostCall, alone: bool) {
        let (caller, generation) = {
            let extension = slot.cell.borrow();
            (extension.caller_in(During::Turn), extension.link.generation)
        };
        let asked = call.call_id.clone();
        let listens = listens(&call);
        let call = HostCall { call_id: slot.call_id(call.call_id), ..call };
        let completion = {
            let (asked, index) = (asked.clone(), slot.index);
            move |result, held| Completion {
                slot: index,
                generation,
                result: HostResult { call_id: asked.clone(), ..result },
                held,
            }
        };
        let (sink, complete) = (self.0.queue.sink.clone(), completion.clone());
        let called =
            self.0.services.dispatcher.call(&caller, call, move |result, held| sink.push(complete(result, held)));
        self.0.queue.open_calls.set(self.0.queue.open_calls.get() + 1);
        {
            let mut extension = slot.cell.borrow_mut();
            extension.progress.open_calls += 1;
            if listens {
                extension.progress.listening.insert(asked);
            } else {
                extension.progress.idle.calls();
            }
        }
        match called {
            StartedCall::Running(running) => drop(tokio::spawn(running)),
            // The call has chunks in flight, or other messages of the turn have answers.
            StartedCall::Ended(result, held) if !alone || result.chunk.is_some() => {
                self.0.queue.sink.push(completion(result, held));
            }
            StartedCall::Ended(result, held) => {
                // Answers to calls that ended earlier are delivered first.
                self.ingest();
                self.arrive(completion(result, held));
            }
        }
    }

    fn register(&self, slot: &Rc<Slot>, register: Register) {
        let Register { entry, ready, capability_manifest, registrations, .. } = register;
        if slot.cell.borrow().status == ExtensionStatus::Retired {
            // The quota is used up.
            return;
        }
        let others = self.slots().iter().filter(|other| other.index != slot.index).map(registered).sum();
        let (mut stream_handlers_changed, mut is_full, mut are_ears_full, mut servers_changed) =
            (false, false, false, false);
        for registration in registrations {
            if !slot.cell.borrow().registry.may_listen(&registration) {
                if !std::mem::replace(&mut are_ears_full, true) {
                    let message = format!(
                        "it has {MAX_STREAM_HANDLERS} handlers of \"stream_text\", the maximum for one package; further ones are ignored"
                    );
                    self.report(slot, Some(entry), ReportKind::Warning { message });
                }
                if let Registration::Handler(spec) = registration {
                    self.post(slot, Message::HandlerMuted { handler: spec.handle });
                }
                continue;
            }
            let has_room = slot.cell.borrow().registry.has_room_for(&registration, others);
            if let Err(whose) = has_room {
                if !std::mem::replace(&mut is_full, true) {
                    let message = format!("{whose}; further ones are ignored");
                    self.report(slot, Some(entry), ReportKind::Warning { message });
                }
                continue;
            }
            let counts = record::registration(&self.0.services, &slot.cell.borrow().caller, &registration);
            if let Err(message) = counts {
                self.report(slot, Some(entry), ReportKind::Warning { message });
                continue;
            }
            if let Some((kind, name)) = named(&registration) {
                record::registered(&self.0.services, &slot.cell.borrow().caller, kind, name);
            }
            if let Registration::Tool(spec) = &registration
                && self.withholds(slot, entry, spec)
            {
                continue;
            }
            let effect = slot.cell.borrow_mut().registry.add(entry, registration);
            match effect {
                None => {
                    let detail = format!("it registered something for entry {}, which it does not have", entry.0);
                    self.end(slot, &Termination::Protocol { detail });
                    return;
                }
                Some(Effect::None) => {}
                Some(Effect::StreamHandlers) => stream_handlers_changed = true,
                Some(Effect::McpServers) => servers_changed = true,
                Some(Effect::Tool(name)) => self.note_tool(slot, entry, &name),
                Some(Effect::Flag(spec)) => self.note_flag(slot, entry, spec),
                Some(Effect::UnknownEvent(event)) => {
                    let message = unknown_event(slot, &event);
                    self.report(slot, Some(entry), ReportKind::Warning { message });
                }
            }
        }
        if stream_handlers_changed {
            self.refresh_stream_handlers(slot);
        }
        if servers_changed {
            self.publish_mcp_servers();
        }
        if ready {
            self.loaded(slot, entry, EntryLoaded::Ready(capability_manifest));
        }
    }

    pub(crate) fn note_tool(&self, slot: &Rc<Slot>, entry: EntryIndex, name: &str) {
        let earlier = self.first_owner(slot, entry, |extension| {
            extension.registry.tools().find(|(_, spec)| spec.name == name).map(|(entry, _)| entry)
        });
        if let Some(owner) = earlier {
            let message = format!("Tool \"{name}\" conflicts with {}", owner.path);
            self.report(slot, Some(entry), ReportKind::Conflict { message });
        }
    }

    fn note_flag(&self, slot: &Rc<Slot>, entry: EntryIndex, spec: FlagSpec) {
        let earlier = self.first_owner(slot, entry, |extension| {
            extension.registry.flags().find(|(_, known)| known.name == spec.name).map(|(entry, _)| entry)
        });
        if let Some(owner) = earlier {
            let message = format!("Flag \"--{}\" conflicts with {}", spec.name, owner.path);
            self.report(slot, Some(entry), ReportKind::Conflict { message });
        }
        let Some(default) = spec.default else { return };
        if self.0.session.flags.borrow().contains_key(&spec.name) {
            return;
        }
        self.publish_flag(&spec.name, default.clone());
        self.0.session.flags.borrow_mut().insert(spec.name, default);
    }

    /// Answers the caller that waits for this entry to load.
    pub(crate) fn loaded(&self, slot: &Rc<Slot>, entry: EntryIndex, loaded: EntryLoaded) {
        let waiter = {
            let mut extension = slot.cell.borrow_mut();
            match extension.pending.load.take() {
                Some(waiter) if waiter.entry == entry => Some(waiter.done),
                other => {
                    extension.pending.load = other;
                    None
                }
            }
        };
        if let Some(waiter) = waiter {
            let _ = waiter.send(loaded);
        }
    }

    fn realm_error(&self, slot: &Rc<Slot>, error: ErrorReport) {
        let answers_load = error.phase == "load"
            && slot.cell.borrow().pending.load.as_ref().is_some_and(|waiter| Some(waiter.entry) == error.entry);
        match error.entry {
            Some(entry) if answers_load => {
                let error = self.located(slot, error);
                slot.cell.borrow_mut().registry.clear(entry);
                self.refresh_stream_handlers(slot);
                self.loaded(slot, entry, EntryLoaded::Failed(error));
            }
            _ => self.report_thrown(slot, error),
        }
    }

    /// Queues an emission for the other realms, in load order; they run it after the current macrotask.
    fn relay(&self, from: &Rc<Slot>, event: BusEvent) {
        let retired = |slot: &Slot| slot.cell.borrow().status == ExtensionStatus::Retired;
        if retired(from) {
            return;
        }
        let Some(Message::BusEvent(event)) = self.limit_incoming(from, Message::BusEvent(event)) else { return };
        // An extension that loads ahead of its turn does not exist yet in load order, so it gets no emission.
        let hears = |slot: &Rc<Slot>| slot.index != from.index && !retired(slot) && slot.cell.borrow().ahead.is_none();
        let listeners: Vec<Rc<Slot>> = self.slots().into_iter().filter(hears).collect();
        let bytes = message_limits::size(&event).saturating_mul(listeners.len());
        let Some(ticket) = from.cell.borrow().progress.emissions.admit(bytes) else {
            if from.cell.borrow().progress.emissions.is_first_refusal() {
                let message =
                    "it emits events faster than others handle them; its events are dropped until they have caught up";
                self.report(from, None, ReportKind::Warning { message: message.to_owned() });
            }
            return;
        };
        for slot in listeners {
            let message = Box::new(Message::BusEvent(event.clone()));
            self.enqueue(&slot, Arrival::Emission { message, _held: Rc::clone(&ticket) });
        }
    }

    /// Returns the first owner in load order, up to `slot`, other than `entry` itself.
    fn first_owner(
        &self,
        slot: &Rc<Slot>,
        entry: EntryIndex,
        find: impl Fn(&Extension) -> Option<EntryIndex>,
    ) -> Option<RegistrationOwner> {
        self.slots().iter().take(slot.index + 1).find_map(|earlier| {
            let extension = earlier.cell.borrow();
            let owner = find(&extension)?;
            (earlier.index < slot.index || owner < entry).then(|| extension.owner(owner))
        })
    }
}

/// Returns the message about an event that is never emitted: its position, and similar names. The scan knows the position if the
/// name is a literal.
fn unknown_event(slot: &Rc<Slot>, event: &str) -> String {
    let package = Rc::clone(&slot.cell.borrow().package);
    let findings = &package.artifact.artifact().metadata.findings;
    let named = format!("`{event}`");
    let found = findings.iter().find(|found| found.code == UNKNOWN_EVENT && found.message.starts_with(&named));
    let place = found.map(|found| format!(" ({}:{}:{})", found.file, found.line, found.column)).unwrap_or_default();
    let meant = events::similar(event).map(|meant| format!("; did you mean \"{meant}\"?")).unwrap_or_default();
    format!("listens to \"{event}\", which is not an event of pi{place}{meant}")
}

/// Code of the scan's diagnostic for an event that pi does not have.
const UNKNOWN_EVENT: &str = "BD_EVENT";

/// Answers a waiter; an answer without a waiter (a tool that returns twice) is ignored.
fn answer<T>(waiter: Option<Waiter<T>>, value: T) {
    if let Some(waiter) = waiter {
        waiter.answer(Ok(value));
    }
}

/// Returns the weight of an extension's registrations.
fn registered(slot: &Rc<Slot>) -> usize {
    slot.cell.borrow().registry.weight()
}

/// Returns the kind and name of a registration that the ledger records.
fn named(registration: &Registration) -> Option<(&'static str, &str)> {
    match registration {
        Registration::Tool(spec) => Some(("tool", &spec.name)),
        Registration::Command(spec) => Some(("command", &spec.name)),
        Registration::Handler(spec) => Some(("handler", &spec.event)),
        Registration::Flag(spec) => Some(("flag", &spec.name)),
        Registration::Provider { name, .. } => Some(("provider", name)),
        Registration::McpServer { name, .. } => Some(("mcp server", name)),
        _ => None,
    }
}

/// Returns the wire name of a message that is not allowed in a yield.
fn kind(message: &Message) -> String {
    match serde_json::to_value(message) {
        Ok(Value::Object(members)) => members.get("type").and_then(Value::as_str).unwrap_or("a message").to_owned(),
        _ => "a message".to_owned(),
    }
}
