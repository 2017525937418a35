//! Limits the wait for promises of an extension that do not settle.
//!
//! A turn has limits, but may leave a promise that nothing will ever settle. pi waits for it forever. In PiJS each waiting caller
//! (a hook, a factory, a tool, a command, a callback) has a time budget, which runs while no pending work could settle its
//! promise. Time in a program, a request or a dialog does not count, because those end by themselves. Past the budget the realm
//! is discarded like any other that timed out.
//!
//! After the user's *abort* ([`Host::limit_waits_after_abort`]) every wait is limited to `abort_us` of the
//! [`WaitBudget`](crate::WaitBudget), whatever is pending. The realm stays; only its caller continues without an answer.

use crate::ahead::Ahead;
use crate::answer_order::AnswerOrder;
use crate::extension::{Extension, ExtensionStatus, OrderedAnswer, PendingCalls, Slot, WorkProgress};
use crate::host::Host;
use crate::report::plain_error;
use crate::waiter::{IdleTime, PendingWork};
use pijs_protocol::message::{CallbackResult, EventResult, SlashResult, ToolResult};
use pijs_protocol::registration::Registration;
use pijs_protocol::{EntryIndex, HostCall, Termination, guard};
use serde_json::{Map, Value};
use std::rc::Rc;
use std::time::Duration;

/// Interval at which a busy driver checks waiting callers, in microseconds.
const NOW_AND_THEN_US: u64 = 100_000;

/// Calls that wait for outside events until they are cancelled.
const LISTENING: &[(&str, &str)] =
    &[("fs", "watch"), ("net", "listen"), ("net", "connect"), ("net", "accept"), ("websocket", "open")];

/// Returns whether a call waits for outside events, and so may stay open indefinitely.
pub(crate) fn listens(call: &HostCall) -> bool {
    let op = call.params.get("op").and_then(Value::as_str).unwrap_or_default();
    LISTENING.contains(&(call.method.as_str(), op))
}

impl Host {
    /// Limits all waits for extensions to `abort_us` of the [`WaitBudget`](crate::WaitBudget) after the user's abort, until the
    /// run has ended.
    pub fn limit_waits_after_abort(&self) {
        self.0.session.aborted_us.set(Some(self.0.services.timer.now().elapsed_us));
        self.notify_driver();
    }

    /// Checks waiting callers at intervals, for a driver that never idles because some extension is always busy.
    pub(crate) fn poll_expired_waits(&self) {
        if self.0.services.timer.now().elapsed_us.saturating_sub(self.0.queue.polled_us.get()) >= NOW_AND_THEN_US {
            self.end_expired_waits();
        }
    }

    /// Ends expired waits. Returns the time until the next check, and whether any wait ended.
    pub(crate) fn end_expired_waits(&self) -> (Option<Duration>, bool) {
        if self.0.slots.borrow().iter().all(|slot| slot.cell.borrow().pending.is_empty()) {
            if self.0.session.active_signal.borrow().is_none() {
                self.0.session.aborted_us.set(None);
            }
            return (None, false);
        }
        let slots = self.slots();
        let now_us = self.0.services.timer.now().elapsed_us;
        self.0.queue.polled_us.set(now_us);
        let has_person = self.0.state.get("hasUI") == Some(Value::Bool(true));
        let movers = slots.iter().filter(|slot| slot.cell.borrow().moves()).count();
        let (mut next, mut acted) = (None, false);
        for slot in slots {
            let others_move = movers > usize::from(slot.cell.borrow().moves());
            let due = self.due(&slot, now_us, others_move, has_person);
            match due {
                Some(at) if at <= now_us && guard!(HookDeadline) => {
                    self.end(&slot, &Termination::Timeout { quota: Termination::UNSETTLED.to_owned() });
                    acted = true;
                    continue;
                }
                Some(at) => next = earlier(next, at),
                None => {}
            }
            if let Some(asked_us) = self.0.session.aborted_us.get().filter(|_| guard!(HookAbort)) {
                let patience_us = self.0.services.options.waits.abort_us;
                let orders = (&self.0.events.handler_order, &self.0.events.tool_order);
                let (late, left) = slot.cell.borrow_mut().pending.give_up(asked_us, patience_us, now_us, orders);
                acted |= late;
                next = left.map_or(next, |at| earlier(next, at));
            }
        }
        let pause = next.map(|at| Duration::from_micros(at.saturating_sub(now_us).max(1)));
        (pause, acted)
    }

    /// Returns when the wait for an extension expires.
    fn due(&self, slot: &Rc<Slot>, now_us: u64, others_move: bool, has_person: bool) -> Option<u64> {
        let mut extension = slot.cell.borrow_mut();
        if extension.pending.is_empty() {
            extension.progress.idle = IdleTime::default();
            return None;
        }
        let prospect = extension.prospect(others_move, has_person);
        extension.progress.idle.note(prospect, now_us);
        let waits = self.0.services.options.waits;
        let Extension { progress: WorkProgress { idle, .. }, pending, .. } = &*extension;
        let by = |since: Option<u64>, still: Option<u64>, patience_us: u64| {
            Some(since?.max(still?).saturating_add(patience_us))
        };
        let (hook, call) = (pending.oldest_hook(), pending.oldest_call());
        let ends = [
            by(hook, idle.nothing, waits.hook_us),
            by(hook, idle.waits, waits.hook_waiting_us),
            by(call, idle.nothing, waits.call_us),
            by(call, idle.waits, waits.call_waiting_us),
        ];
        ends.into_iter().flatten().min()
    }
}

fn earlier(one: Option<u64>, other: u64) -> Option<u64> {
    Some(one.map_or(other, |one| one.min(other)))
}

impl Extension {
    /// Returns whether work is pending that ends by itself.
    fn moves(&self) -> bool {
        self.link.running.is_some() || !self.ticks.is_idle() || self.progress.open_calls > self.progress.listening.len()
    }

    fn prospect(&self, others_move: bool, has_person: bool) -> PendingWork {
        let is_asked = has_person && self.status == ExtensionStatus::Live && self.accepts_user_input();
        if self.moves() || self.ahead.as_ref().is_some_and(Ahead::has_answered) {
            PendingWork::InFlight
        } else if is_asked {
            PendingWork::User
        } else if others_move || self.ticks.live_timers() > 0 || !self.progress.listening.is_empty() {
            PendingWork::Indefinite
        } else {
            PendingWork::Nothing
        }
    }

    /// Returns whether input of the user (a key, a command or text) reaches the extension.
    fn accepts_user_input(&self) -> bool {
        self.registry.commands().next().is_some()
            || self.registry.has_handler("input")
            || self.registry.others().any(|(_, other)| matches!(other, Registration::Shortcut { .. }))
    }
}

impl PendingCalls {
    /// Returns whether a caller waits for a handler of an event that starts the session.
    pub(crate) fn is_start(&self) -> bool {
        self.events.values().any(|waiter| waiter.is_start)
    }

    fn oldest_hook(&self) -> Option<u64> {
        let events = self.events.values().map(|waiter| waiter.since_us);
        events.chain(self.load.as_ref().map(|load| load.since_us)).min()
    }

    fn oldest_call(&self) -> Option<u64> {
        let tools = self.tools.values().map(|waiter| waiter.done.since_us);
        let commands = self.commands.values().map(|waiter| waiter.since_us);
        tools.chain(commands).chain(self.callbacks.values().map(|waiter| waiter.since_us)).min()
    }

    /// Answers callers whose limit after the abort has expired, in place of the extension. Returns whether there were any, and
    /// the time of the next expiry.
    fn give_up(
        &mut self,
        asked_us: u64,
        patience_us: u64,
        now_us: u64,
        (handlers, tools): (&Rc<AnswerOrder>, &Rc<AnswerOrder>),
    ) -> (bool, Option<u64>) {
        let at = |since_us: u64| since_us.max(asked_us).saturating_add(patience_us);
        let mut acted = false;
        for (id, waiter) in take_late(&mut self.events, |waiter| at(waiter.since_us) <= now_us) {
            let error = Some(aborted("abort"));
            let result = EventResult { event_id: id, value: None, changed: Map::new(), error };
            waiter.answer(Ok(OrderedAnswer { result, place: handlers.enter() }));
            acted = true;
        }
        for (id, waiter) in take_late(&mut self.tools, |waiter| at(waiter.done.since_us) <= now_us) {
            let error = Some(aborted("tool"));
            let result = ToolResult { tool_call_id: id, output: Value::Null, is_error: true, error };
            waiter.done.answer(Ok(OrderedAnswer { result, place: tools.enter() }));
            acted = true;
        }
        for (id, waiter) in take_late(&mut self.commands, |waiter| at(waiter.since_us) <= now_us) {
            waiter.answer(Ok(SlashResult { slash_command_id: id, error: Some(aborted("command")) }));
            acted = true;
        }
        for (id, waiter) in take_late(&mut self.callbacks, |waiter| at(waiter.since_us) <= now_us) {
            self.callback_updates.remove(&id);
            waiter.answer(Ok(CallbackResult { callback_id: id, value: None, error: Some(aborted("callback")) }));
            acted = true;
        }
        let left = self.oldest_call().into_iter().chain(self.events.values().map(|waiter| waiter.since_us)).min();
        (acted, left.map(at))
    }
}

fn aborted(phase: &str) -> pijs_protocol::message::ErrorReport {
    plain_error(EntryIndex(0), phase, "Operation aborted".to_owned())
}

fn take_late<K: Ord + Clone, V>(
    all: &mut std::collections::BTreeMap<K, V>,
    is_late: impl Fn(&V) -> bool,
) -> Vec<(K, V)> {
    let late: Vec<K> = all.iter().filter(|(_, waiter)| is_late(waiter)).map(|(id, _)| id.clone()).collect();
    late.into_iter().filter_map(|id| all.remove_entry(&id)).collect()
}
