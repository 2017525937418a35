//! Calls the handlers of events.
//!
//! Handlers are listed when the event starts and called one after the other: packages in load order, then entries, then
//! registrations, each awaited before the next. Adding or removing a handler takes effect with the next event. A handler whose
//! entry failed, or whose realm was replaced, is skipped, except for events that handlers decide: for those a missing handler
//! counts as a refusal.

use crate::events::{self, Event, Round, RoundStep, TakenAnswer};
use crate::extension::{ExtensionStatus, OrderedAnswer, Slot};
use crate::host::Host;
use crate::outcome::Outcome;
use crate::record;
use crate::report::{ReportKind, plain_error};
use crate::waiter::Waiter;
use pijs_protocol::message::{ErrorReport, EventHook, EventResult, Message, START_EVENTS};
use pijs_protocol::{EntryIndex, EventId, ExtensionId, Handle, Termination, guard};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path};
use std::rc::Rc;
use tokio::sync::oneshot;

/// Updates an event between two handlers; an error rejects the answer of the previous one.
pub type Between<'a> = dyn FnMut(&mut Map<String, Value>) -> Result<(), String> + 'a;

/// A handler, as it was registered when the event started.
struct HandlerTarget {
    slot: Rc<Slot>,
    generation: u32,
    entry: EntryIndex,
    /// Handle of the handler; `None` if it is missing ([`Extension::is_missed`](crate::extension::Extension::is_missed)).
    handle: Option<Handle>,
}

impl Host {
    /// Emits an event to all its handlers and combines their answers by the event's rule
    /// ([`EVENTS`](pijs_node_compat::events::EVENTS)).
    ///
    /// Never fails: an error of a handler is reported ([`Host::reports`]) and the next handler runs. For `tool_call` and
    /// `user_bash` the error is returned in [`Outcome::thrown`] instead.
    pub async fn emit(&self, event: Event) -> Outcome {
        self.emit_between(event, &mut |_| Ok(())).await
    }

    /// Emits an event; after each handler `between` updates the event for the next one. An error of `between` is reported as an
    /// error of the preceding handler.
    pub async fn emit_between(&self, event: Event, between: &mut Between<'_>) -> Outcome {
        self.emit_to_others(event, None, between).await
    }

    /// Emits an event to the handlers of all extensions except `teller`, which notifies its own handlers.
    pub async fn emit_except(&self, event: Event, teller: &ExtensionId) -> Outcome {
        self.emit_to_others(event, Some(teller), &mut |_| Ok(())).await
    }

    /// Returns the extension whose handler of an event comes first.
    pub fn first_handler(&self, event: &str) -> Option<ExtensionId> {
        if !self.profile().fires(event) {
            return None;
        }
        let first = self.slots().iter().find_map(|slot| targets(slot, event).into_iter().next())?;
        first.handle.map(|_| first.slot.cell.borrow().package.id().clone())
    }

    /// Returns a digest of the handlers of an event, which changes when one is added or removed and when a realm is replaced.
    pub fn listeners(&self, event: &str) -> u64 {
        let mut digest = DefaultHasher::new();
        for slot in self.slots() {
            for target in targets(&slot, event) {
                let realm = (Rc::as_ptr(&slot).addr(), target.generation);
                (realm, target.entry.0, target.handle.map(|handle| handle.0)).hash(&mut digest);
            }
        }
        digest.finish()
    }

    async fn emit_to_others(&self, event: Event, teller: Option<&ExtensionId>, between: &mut Between<'_>) -> Outcome {
        let starts = event.name() == "session_start";
        if starts {
            self.0.session.started.set(true);
        }
        let outcome = self.emit_trimmed(event, teller, between).await;
        if starts {
            self.0.services.dispatcher.gate().end_loads();
        }
        outcome
    }

    /// Ends the load of all packages for the gate, if no handler of `session_start` still belongs to it. The event is emitted only
    /// to handlers, and would not end the load without one.
    pub(crate) fn end_loads_without_handlers(&self) {
        if !self.has_handlers("session_start") {
            self.0.services.dispatcher.gate().end_loads();
        }
    }

    async fn emit_trimmed(&self, event: Event, teller: Option<&ExtensionId>, between: &mut Between<'_>) -> Outcome {
        self.count_reports_anew(event.name());
        self.restarts_done().await;
        if !self.profile().fires(event.name()) {
            return self.call_handlers(&event, Vec::new(), between).await;
        }
        let event = event.trimmed(self.profile());
        let mut slots = self.slots();
        slots.retain(|slot| Some(slot.cell.borrow().package.id()) != teller);
        let targets = slots.iter().flat_map(|slot| targets(slot, event.name())).collect();
        self.call_handlers(&event, targets, between).await
    }

    /// Emits an event to the handlers of one extension only.
    pub(crate) async fn emit_to(&self, slot: &Rc<Slot>, event: &Event) -> Outcome {
        let targets = targets(slot, event.name());
        self.call_handlers(event, targets, &mut |_| Ok(())).await
    }

    async fn call_handlers(&self, event: &Event, targets: Vec<HandlerTarget>, between: &mut Between<'_>) -> Outcome {
        let mut round = Round::new(event);
        if self.0.events.emitting.get() == 0 {
            self.slots().iter().for_each(|slot| slot.cell.borrow_mut().registry.forget_removed());
        }
        let _under_way = RoundGuard::begin(&self.0.events.emitting);
        for target in targets {
            let slot = &target.slot;
            let OrderedAnswer { result, place } = match self.call_handler(event, &round, &target).await {
                Some(Ok(answered)) => answered,
                // The handler's entry failed, or its realm was replaced.
                None => continue,
                Some(Err(reason)) => self.answered(stopped(&target, event, &reason)),
            };
            let EventResult { error, .. } = &result;
            let located = error.clone().map(|error| self.located(slot, error));
            let mut result = EventResult { error: located, ..result };
            self.restrict_system_messages(event.name(), slot, round.payload(), &mut result);
            self.let_others_run(place).await;
            let path = slot.cell.borrow().path(Some(target.entry));
            let taken = match self.refused(&round, &target, &result) {
                None => {
                    round.note_author(slot.cell.borrow().package.id(), &result);
                    round.take(result, &path)
                }
                Some(capability) => {
                    let message = format!(
                        "its answer to \"{}\" is ignored: the capability \"{capability}\" is not granted",
                        event.name()
                    );
                    self.report(slot, Some(target.entry), ReportKind::Warning { message });
                    // An error of a skipped answer is reported like any other, and does not block the event.
                    TakenAnswer { step: RoundStep::Next, complaint: None, error: result.error }
                }
            };
            if let Some(error) = taken.error {
                self.report(slot, Some(target.entry), ReportKind::Error(error));
            }
            if let Some(message) = taken.complaint {
                let error = plain_error(target.entry, event.name(), message);
                self.report(slot, Some(target.entry), ReportKind::Error(error));
            }
            if let Err(message) = between(round.payload_mut()) {
                let error = plain_error(target.entry, event.name(), message);
                self.report(slot, Some(target.entry), ReportKind::Error(error));
            }
            if taken.step == RoundStep::Stop {
                break;
            }
        }
        round.finish()
    }

    /// Creates an answer in place of an extension.
    fn answered(&self, result: EventResult) -> OrderedAnswer<EventResult> {
        OrderedAnswer { result, place: self.0.events.handler_order.enter() }
    }

    /// Returns the capability that this result needs and the extension lacks.
    fn refused(&self, round: &Round, target: &HandlerTarget, result: &EventResult) -> Option<&'static str> {
        round.needs(result).into_iter().find(|capability| {
            let own = *capability == "resources" && self.is_own_resource(target, result);
            !own && !record::may(&self.0.services, &target.slot.cell.borrow().caller, capability)
        })
    }

    /// Returns whether all paths of an answer are inside the extension's own package, so that no prompt is needed.
    fn is_own_resource(&self, target: &HandlerTarget, result: &EventResult) -> bool {
        let extension = target.slot.cell.borrow();
        let profile = &extension.caller.profile;
        let Some(root) = profile.package_root.as_deref() else { return false };
        let own = |path: &Value| {
            let Some(path) = path.as_str().map(Path::new) else { return false };
            let climbs = path.components().any(|part| part == Component::ParentDir);
            !climbs && profile.own_folder(&root.join(path)).is_some()
        };
        let lists = result.value.as_ref().and_then(Value::as_object);
        lists.is_some_and(|lists| lists.values().filter_map(Value::as_array).flatten().all(own))
    }

    async fn call_handler(
        &self,
        event: &Event,
        round: &Round,
        target: &HandlerTarget,
    ) -> Option<Result<OrderedAnswer<EventResult>, Termination>> {
        let slot = &target.slot;
        let Some(handle) = target.handle else { return Some(Ok(self.answered(missed(target, event)))) };
        {
            let extension = slot.cell.borrow();
            if extension.link.generation != target.generation {
                let decides = extension.status != ExtensionStatus::Retired && events::is_decided(event.name());
                return (decides && guard!(HostReplacedRealm)).then(|| Ok(self.answered(missed(target, event))));
            }
            if !extension.registry.knows_handler(handle) {
                return None;
            }
        }
        let mut payload = round.payload().clone();
        for (key, signal) in event.signals() {
            let number = self.hand_in(slot, signal);
            payload.insert((*key).to_owned(), signal_ref(number));
        }
        let event_id = EventId::new(format!("evt-{}", self.next_event_number()));
        let hook = EventHook {
            event_id: event_id.clone(),
            entry: target.entry,
            handle,
            event: event.name().to_owned(),
            payload,
            mutable: round.mutable().iter().map(|member| (*member).to_owned()).collect(),
        };
        let (sender, receiver) = oneshot::channel();
        let waiter =
            Waiter::new(sender, self.0.services.timer.now().elapsed_us).of_start(START_EVENTS.contains(&event.name()));
        slot.cell.borrow_mut().pending.events.insert(event_id, waiter);
        self.post(slot, Message::EventHook(hook));
        self.ingest();
        self.run_ready(slot);
        // The driver checks waiting callers.
        self.notify_driver();
        // Ending the realm answers first, so the sender is never just dropped.
        Some(receiver.await.unwrap_or_else(|_| Err(dropped())))
    }
}

/// Counts an event while its handlers run.
struct RoundGuard<'a>(&'a Cell<usize>);

impl<'a> RoundGuard<'a> {
    fn begin(rounds: &'a Cell<usize>) -> Self {
        rounds.set(rounds.get() + 1);
        Self(rounds)
    }
}

impl Drop for RoundGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Returns the live handlers of an event in one extension, plus an empty entry if the extension decides about the event but is
/// stopped.
fn targets(slot: &Rc<Slot>, event: &str) -> Vec<HandlerTarget> {
    let extension = slot.cell.borrow();
    let target =
        |entry, handle| HandlerTarget { slot: Rc::clone(slot), generation: extension.link.generation, entry, handle };
    let mut targets = Vec::new();
    if extension.status == ExtensionStatus::Live {
        targets.extend(extension.registry.handlers(event).map(|(entry, spec)| target(entry, Some(spec.handle))));
    }
    if extension.is_missed(event) {
        targets.push(target(EntryIndex(0), None));
    }
    targets
}

/// Returns the answer for a missing extension that decides about an event.
fn missed(target: &HandlerTarget, event: &Event) -> EventResult {
    let path = target.slot.cell.borrow().path(Some(target.entry));
    let message = format!(
        "refused: extension \"{path}\", which has to decide about this, was stopped; restart it with /reload or a \
         new session"
    );
    let error = ErrorReport { name: Some("Error".to_owned()), ..plain_error(target.entry, event.name(), message) };
    EventResult { event_id: EventId::new(""), value: None, changed: Map::new(), error: Some(error) }
}

/// Returns the answer for a realm that was stopped inside a handler, as if the handler had thrown.
fn stopped(target: &HandlerTarget, event: &Event, reason: &Termination) -> EventResult {
    EventResult {
        event_id: EventId::new(""),
        value: None,
        changed: Map::new(),
        error: Some(ErrorReport {
            name: Some("Error".to_owned()),
            ..plain_error(target.entry, event.name(), format!("the extension ended: {reason}"))
        }),
    }
}

/// Encodes a signal in a payload.
pub(crate) fn signal_ref(number: u32) -> Value {
    serde_json::json!({ "$signal": number })
}

pub(crate) fn dropped() -> Termination {
    Termination::HostBug { detail: "a call into a realm was dropped without an answer".to_owned() }
}
