//! Runs a host: pumps ready work, runs one tick, and carries out the requests of a turn.
//!
//! A turn starts and is resumed in [`Host::tick`] only.

use super::{Completion, Host, Ticked};
use crate::answer_order::AnswerTicket;
use crate::extension::{Arrival, Extension, ExtensionStatus, RealmLink, Slot};
use crate::turn::{RealmTurn, SyncHostcalls, TurnOutput};
use pijs_environment::{Timer, Wait};
use pijs_hostcall::During;
use pijs_protocol::message::Message;
use pijs_protocol::{ExtensionId, Now, StreamDelta, Yield};
use pijs_realm::{Patience, Progress};
use pijs_tick::Tick;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a verdict polls a turn that is still running.
const TURN_WAIT: Duration = Duration::from_millis(5);

impl Host {
    /// Runs timers, answers to hostcalls and restarts of all extensions. Never returns.
    ///
    /// Spawn it once on the thread's `LocalSet`, or let [`Host::run`] do it.
    pub async fn drive(&self) {
        let mut revivals = Revivals::default();
        loop {
            for slot in self.slots() {
                if slot.cell.borrow().status == ExtensionStatus::Stopped {
                    slot.cell.borrow_mut().status = ExtensionStatus::Reviving;
                    let host = self.clone();
                    revivals.push(Box::pin(async move { host.revive(&slot).await }));
                }
            }
            if self.pump() {
                self.poll_expired_waits();
                tokio::select! {
                    biased;
                    () = revivals.next() => {}
                    () = tokio::task::yield_now() => {}
                }
                continue;
            }
            self.let_go();
            let (patience, acted) = self.end_expired_waits();
            if acted {
                continue;
            }
            let pause = self.pause().into_iter().chain(patience).min();
            tokio::select! {
                biased;
                () = revivals.next() => {}
                () = self.0.queue.wake.notified() => {}
                () = poll_fn(|cx| self.0.queue.completions.borrow_mut().poll_ready(cx)) => {}
                () = sleep(self.0.services.timer.as_ref(), pause) => {}
            }
        }
    }

    /// Drives the host until no extension has work: nothing is queued or running, and no call is in flight. Timers may be armed.
    ///
    /// Call this at the end of a session, so that messages without a waiting caller (a log line, an event on the bus) are still
    /// processed. A call may never end, so set a time limit.
    pub async fn quiet(&self) {
        loop {
            if self.pump() {
                tokio::task::yield_now().await;
                continue;
            }
            // Counted here and not in the dispatcher, whose count drops on another thread without a wake-up.
            let is_running = |slot: &Rc<Slot>| slot.cell.borrow().link.running.is_some();
            if self.0.queue.open_calls.get() == 0 && !self.slots().iter().any(is_running) {
                return;
            }
            tokio::select! {
                biased;
                () = self.0.queue.wake.notified() => {}
                () = poll_fn(|cx| self.0.queue.completions.borrow_mut().poll_ready(cx)) => {}
            }
        }
    }

    /// Waits until an extension's turn is over, if one runs in another process: its requests are carried out after the turn, as
    /// on pi's one thread.
    pub async fn turn_over(&self, extension: &ExtensionId) {
        self.until_none(|slot| slot.link.running.is_some() && slot.package.id() == extension).await;
    }

    /// Waits until an extension has run all messages sent to it so far, and their immediate consequences.
    pub async fn drained(&self, extension: &ExtensionId) {
        self.until_none(|slot| is_behind(slot) && slot.package.id() == extension).await;
    }

    /// Waits until no extension has anything to run, and all answered callers have continued.
    pub async fn at_rest(&self) {
        let is_at_rest = || !self.slots().iter().any(|slot| computes(&slot.cell.borrow()));
        loop {
            self.until_none(computes).await;
            // A handler's answer passes through nested waits, so one yield is not enough.
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            if is_at_rest() {
                return;
            }
        }
    }

    /// Waits until one extension has run something, or no extension has anything to run.
    pub async fn next_turn_over(&self) {
        let over = self.0.queue.turn_over.notified();
        tokio::pin!(over);
        over.as_mut().enable();
        if self.slots().iter().any(|slot| is_behind(&slot.cell.borrow())) {
            over.await;
        }
    }

    /// Lets other work run between two handlers of an event, as on pi's one thread. With several events in flight, this returns
    /// after all messages sent so far have run, so the first handlers of all events run before the second ones. The event has had
    /// its ticket since its handler answered.
    pub(crate) async fn let_others_run(&self, place: AnswerTicket) {
        tokio::task::yield_now().await;
        if self.0.events.emitting.get() < 2 {
            return;
        }
        // Counted once, so that an extension that is always busy does not delay the event.
        let turns_of = |slot: &Rc<Slot>| {
            let extension = slot.cell.borrow();
            let queued = extension.ticks.queued() + usize::from(extension.link.running.is_some());
            (Rc::clone(slot), extension.progress.turns_over + queued)
        };
        let wanted: Vec<(Rc<Slot>, usize)> = self.slots().iter().map(turns_of).collect();
        let lags = |(slot, turns): &(Rc<Slot>, usize)| {
            let extension = slot.cell.borrow();
            computes(&extension) && extension.progress.turns_over < *turns
        };
        loop {
            let over = self.0.queue.turn_over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            if !wanted.iter().any(lags) {
                break;
            }
            over.await;
        }
        // The last event has just been answered, so all continue together, in order.
        tokio::task::yield_now().await;
        place.is_first().await;
    }

    async fn until_none(&self, is: impl Fn(&Extension) -> bool) {
        loop {
            let over = self.0.queue.turn_over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            if !self.slots().iter().any(|slot| is(&slot.cell.borrow())) {
                return;
            }
            over.await;
        }
    }

    /// Returns the number of asynchronous hostcalls in flight that end by themselves. Calls that wait for an outside event, such
    /// as a server's next connection, do not count.
    pub fn calls_under_way(&self) -> usize {
        let listening: usize = self.slots().iter().map(|slot| slot.cell.borrow().progress.listening.len()).sum();
        self.0.queue.open_calls.get().saturating_sub(listening)
    }

    /// Runs a future concurrently with [`Host::drive`].
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        tokio::select! {
            biased;
            output = work => output,
            () = self.drive() => unreachable!("`drive` never ends"),
        }
    }

    /// Returns the time until the next timer of a realm without a running turn.
    fn pause(&self) -> Option<Duration> {
        let now = self.0.services.timer.now().elapsed_us;
        let next_of = |slot: &Rc<Slot>| {
            let extension = slot.cell.borrow();
            extension.link.running.is_none().then(|| extension.ticks.next_deadline_us()).flatten()
        };
        let next = self.slots().iter().filter_map(next_of).min()?;
        Some(Duration::from_micros(next.saturating_sub(now)))
    }

    /// Runs ready work, extension by extension, at most one burst each. Returns whether anything ran.
    pub(crate) fn pump(&self) -> bool {
        self.ingest();
        let mut is_busy = false;
        for slot in self.slots() {
            is_busy |= self.run_ready(&slot);
        }
        is_busy
    }

    /// Runs ready work of one extension, at most one burst. Returns whether anything ran.
    pub(crate) fn run_ready(&self, slot: &Rc<Slot>) -> bool {
        for ran in 0..self.0.services.options.burst {
            match self.tick(slot, self.0.services.timer.now(), &[]) {
                Ticked::Idle | Ticked::Running => return ran > 0,
                Ticked::Ended => return true,
                Ticked::Ran | Ticked::Answered(..) => {}
            }
        }
        // More work may be ready, so the driver is woken again.
        self.0.queue.wake.notify_one();
        true
    }

    /// Delivers answers of hostcalls to the loops, in order of arrival.
    pub(crate) fn ingest(&self) {
        let arrived = self.0.queue.completions.borrow_mut().drain();
        for completion in arrived {
            self.arrive(completion);
        }
    }

    /// Delivers one answer to the loop of its realm.
    pub(super) fn arrive(&self, completion: Completion) {
        let Completion { slot, generation, result, held } = completion;
        if result.is_final() {
            self.0.queue.open_calls.set(self.0.queue.open_calls.get().saturating_sub(1));
        }
        let Some(slot) = self.slot(slot) else { return };
        let mut extension = slot.cell.borrow_mut();
        if result.is_final() && extension.link.generation == generation {
            extension.progress.open_calls = extension.progress.open_calls.saturating_sub(1);
            if !extension.progress.listening.remove(&result.call_id) {
                extension.progress.idle.calls();
            }
        }
        // An answer for a realm that has ended is dropped.
        if extension.link.generation == generation && extension.link.realm.is_some() {
            let message = Box::new(Message::HostResult(result));
            let arrival = Arrival::Result { message, _held: held };
            super::trace_arrival(&extension, &arrival);
            extension.ticks.enqueue(arrival);
        }
    }

    /// Starts or resumes at most one macrotask of one extension; when it is over, carries out its messages.
    ///
    /// With a delta (the first of `deltas`) this blocks for a short time on a running turn, so that nothing else happens
    /// meanwhile. The other deltas are the ones that the host will be asked about next.
    pub(crate) fn tick(&self, slot: &Rc<Slot>, now: Now, deltas: &[StreamDelta]) -> Ticked {
        let core = &*self.0;
        let delta = deltas.first();
        let mut extension = slot.cell.borrow_mut();
        let in_verdict = delta.map(|_| extension.caller_in(During::Verdict));
        let Extension { link, ticks, caller, .. } = &mut *extension;
        let RealmLink { realm, seen_state, stop, waker, running, turn_since_us, .. } = link;
        let Some(realm) = realm.as_deref_mut() else { return Ticked::Idle };
        let deadline = delta
            .and(stop.as_ref())
            .map(|stop| (now.elapsed_us.saturating_add(core.services.options.verdict.kill_us), Arc::clone(stop)));
        let slice = Duration::from_micros(core.services.options.verdict.slice_us);
        let mut hostcalls = SyncHostcalls {
            caller: in_verdict.as_ref().unwrap_or(caller),
            epoch: slot.epoch,
            dispatcher: &core.services.dispatcher,
            timer: core.services.timer.as_ref(),
            state: &core.state,
            seen_state,
            deadline,
            waker: Some(waker),
        };
        let output = match running {
            Some(turn) if delta.is_none() && (turn.held.is_some() || !waker.take_wakeup()) => return Ticked::Running,
            Some(turn) => {
                turn.held = None;
                if delta.is_some() {
                    waker.wait_for_answer(TURN_WAIT);
                }
                if let Some(result) = waker.answer() {
                    let reply = hostcalls.reply(result);
                    realm.answer(reply);
                }
                let patience = if delta.is_some() { Patience::AtMost(TURN_WAIT) } else { Patience::Poll };
                let span = turn.span.clone();
                let progress = span.in_scope(|| realm.resume(&mut hostcalls, patience));
                TurnOutput { span, ..TurnOutput::new(progress, turn.was_delta) }
            }
            None if waker.is_dead() => match realm.pulse() {
                Some(reason) => TurnOutput::new(Progress::Ended(reason), false),
                None => return Ticked::Idle,
            },
            None => match ticks.tick(now, [], &mut RealmTurn { realm, hostcalls, deltas, slice }) {
                Tick::Idle => return Ticked::Idle,
                Tick::Ran { output, .. } => {
                    *turn_since_us = Some(now.elapsed_us);
                    output
                }
            },
        };
        match &output.result {
            None => extension.leave_running(output.was_delta, &output.span),
            Some(Ok(_)) => (extension.link.running, extension.link.turn_since_us) = (None, None),
            // `end` needs the duration of the turn, so `running` is cleared later.
            Some(Err(_)) => extension.link.running = None,
        }
        if !output.was_delta {
            extension.progress.idle.turns();
        }
        let is_over = extension.link.running.is_none();
        extension.progress.turns_over += usize::from(is_over) + output.passed;
        if let Some(ahead) = extension.ahead.as_mut().filter(|_| is_over) {
            ahead.leave_core();
        }
        let ahead = output.passed + usize::from(output.goes_on);
        if ahead > 0 {
            extension.ticks.number(ahead);
        }
        if output.goes_on && is_over {
            extension.hold_running(&deltas[output.passed + 1]);
        }
        drop(extension);
        if is_over {
            self.0.queue.turn_over.notify_waiters();
        }
        self.finish_turn(slot, output, delta)
    }

    fn finish_turn(&self, slot: &Rc<Slot>, mut output: TurnOutput, delta: Option<&StreamDelta>) -> Ticked {
        let (answer, passed) = (output.answer(), output.passed);
        match output.result {
            None => Ticked::Running,
            Some(Ok(done)) => {
                self.settle(slot, done);
                match answer {
                    Some(answer) => Ticked::Answered(answer, passed),
                    None => Ticked::Ran,
                }
            }
            Some(Err(reason)) => {
                match delta {
                    Some(delta) if output.was_delta => {
                        self.strike_stopped(slot, delta);
                        self.end_in_verdict(slot, &reason);
                    }
                    _ => self.end(slot, &reason),
                }
                Ticked::Ended
            }
        }
    }

    /// Carries out the messages of a turn, in order.
    pub(crate) fn settle(&self, slot: &Rc<Slot>, done: Yield) {
        if done.messages.is_empty() {
            return;
        }
        self.carry_out(slot, done.messages);
        self.flush_ledger();
    }
}

/// Restarts in flight. Waiting on an empty list never returns.
#[derive(Default)]
struct Revivals(Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>>);

impl Revivals {
    fn push(&mut self, revival: std::pin::Pin<Box<dyn Future<Output = ()>>>) {
        self.0.push(revival);
    }

    /// Waits until one restart has finished.
    async fn next(&mut self) {
        poll_fn(|cx| {
            let before = self.0.len();
            self.0.retain_mut(|revival| revival.as_mut().poll(cx).is_pending());
            if self.0.len() < before { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Waits on the driver's timer; without a deadline it waits forever.
async fn sleep(timer: &dyn Timer, pause: Option<Duration>) {
    match pause {
        Some(pause) => timer.sleep(Wait::Call, pause).await,
        None => std::future::pending().await,
    }
}

/// Returns whether the extension has work and does not wait for an answer of the host, which may depend on a user.
fn computes(extension: &Extension) -> bool {
    is_behind(extension) && !(extension.link.running.is_some() && extension.link.waker.awaits_answer())
}

/// Returns whether a message sent to the extension has not run yet.
fn is_behind(extension: &Extension) -> bool {
    extension.link.realm.is_some() && (extension.link.running.is_some() || !extension.ticks.is_idle())
}
