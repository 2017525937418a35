//! Obtains the verdict on a streamed delta.
//!
//! [`Host::stream`] asks the realms in load order; each gets the delta as one macrotask, after its queued macrotasks (I5), and
//! the first abort wins. Failures never affect the model: an exception, an invalid answer, an answer that waits for I/O, or a
//! realm that does not return counts as *continue* and is reported.
//!
//! | handler | counts as | strike |
//! |---|---|---|
//! | returns nothing, or no `abort` | continue | |
//! | `abort: true`, capability `verdict` granted | abort | |
//! | `abort: true`, not granted | continue, reported | |
//! | throws, or returns an invalid answer | continue, reported; later handlers run | yes |
//! | returns a promise that needs I/O | continue, reported once per handler | |
//! | takes longer than the soft budget | its answer; reported once per extension | |
//! | runs out of fuel or time | continue, reported; the realm is restarted | all handlers of the source |
//!
//! Nothing is allocated for a delta without handlers.
//!
//! Deltas that arrived together may be delivered together ([`Host::stream_ahead`]), so that a realm in another process is woken
//! once for all of them. Nothing else changes: each delta has its own turn, the realm stops at the first one that does not simply
//! pass, and that result waits until the host is asked about the delta.

use crate::extension::{Arrival, Slot};
use crate::host::{Host, Ticked};
use crate::message_limits;
use crate::outcome::{StreamOutcome, Verdict, VerdictTime};
use crate::record::{self, AbortRequest};
use crate::report::ReportKind;
use pijs_protocol::message::{ErrorReport, Message};
use pijs_protocol::stream::StreamVerdict;
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::{Handle, Now, StreamDelta, StreamSource};
use pijs_realm::Realm;
use std::rc::Rc;

/// Answer of one extension.
struct ExtensionVerdict {
    /// Abort that the extension requests; `None` for *continue*.
    verdict: Option<StreamVerdict>,
    /// Number of deltas after the first that passed.
    passed: usize,
}

impl Host {
    /// Asks the handlers about a delta, before it is passed on.
    ///
    /// Synchronous: the provider's stream does not advance until all handlers have answered. Check [`Host::has_stream_handler`]
    /// first; it is the only branch that a delta costs without handlers.
    pub fn stream(&self, delta: &StreamDelta) -> StreamOutcome {
        self.stream_ahead(std::slice::from_ref(delta)).0
    }

    /// Asks the handlers about the first delta, and delivers the following ones ahead, up to the first that does not simply pass.
    ///
    /// Returns the outcome of the first delta and the number of others that passed; skip those. Call this next with the first
    /// remaining delta, or call [`Host::stream_over`]. [`Host::lookahead`] returns how many deltas to add.
    pub fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamOutcome, usize) {
        let first = deltas.first().expect("at least one delta is given");
        self.finish_held(Some(first));
        if !self.has_stream_handler(first.source) {
            return (StreamOutcome::Continue, 0);
        }
        let most = if deltas.len() > 1 { self.lookahead(first.source) } else { 0 };
        let alike = deltas.iter().take_while(|delta| delta.source == first.source).count();
        let deltas = &deltas[..alike.min(most + 1)];
        self.ingest();
        let begin = self.0.services.timer.now();
        let mut now = begin;
        let (outcome, passed) = self.ask_all(deltas, begin, &mut now);
        let spent = self.0.events.verdict_time.get();
        self.0.events.verdict_time.set(VerdictTime {
            deltas: spent.deltas + 1 + passed as u64,
            elapsed_us: spent.elapsed_us + now.elapsed_us.saturating_sub(begin.elapsed_us),
        });
        (outcome, passed)
    }

    /// Returns how many deltas after the first one [`Host::stream_ahead`] would deliver now. Zero when several extensions listen:
    /// each delta goes to all of them before the next one.
    pub fn lookahead(&self, source: StreamSource) -> usize {
        let slots = self.0.slots.borrow();
        let mut listening = slots.iter().filter(|slot| slot.cell.borrow().listens(source));
        match (listening.next(), listening.next()) {
            (Some(slot), None) => slot.cell.borrow().link.realm.as_deref().map_or(0, Realm::lookahead),
            _ => 0,
        }
    }

    /// Marks the end of an attempt's deltas. A turn for a delta that the host was not asked about runs to its end, and its
    /// verdict is ignored.
    pub fn stream_over(&self) {
        self.finish_held(None);
    }

    fn finish_held(&self, unless: Option<&StreamDelta>) {
        let mut index = 0;
        while let Some(slot) = self.slot(index) {
            index += 1;
            let held = slot.cell.borrow_mut().held().map(|held| held.delta.clone());
            if let Some(held) = held.filter(|held| Some(held) != unless) {
                self.ask(&slot, &[held], &mut self.0.services.timer.now());
            }
        }
    }

    /// Returns the total time that verdicts have taken so far, over all extensions.
    pub fn verdict_time(&self) -> VerdictTime {
        self.0.events.verdict_time.get()
    }

    fn ask_all(&self, deltas: &[StreamDelta], begin: Now, now: &mut Now) -> (StreamOutcome, usize) {
        let delta = &deltas[0];
        let mut passed = 0;
        // Iterating by index keeps no borrow and copies no list.
        let mut index = 0;
        while let Some(slot) = self.slot(index) {
            index += 1;
            let (listens, earlier_us) = {
                let mut extension = slot.cell.borrow_mut();
                (extension.listens(delta.source), extension.held().map_or(0, |held| held.spent_us))
            };
            if !listens {
                continue;
            }
            let asked = self.ask(&slot, deltas, now);
            passed = asked.passed;
            let latency_us = earlier_us + now.elapsed_us.saturating_sub(begin.elapsed_us);
            if let Some(verdict) = asked.verdict
                && let Some(verdict) = self.grant(&slot, delta, verdict, latency_us)
            {
                return (StreamOutcome::Abort(verdict), passed);
            }
        }
        (StreamOutcome::Continue, passed)
    }

    /// Asks the handlers of one extension. `now` is the time before the call and, on return, the time after it: the clock is read
    /// once per extension and delta.
    fn ask(&self, slot: &Rc<Slot>, deltas: &[StreamDelta], now: &mut Now) -> ExtensionVerdict {
        let delta = &deltas[0];
        let budget = self.0.services.options.verdict;
        // Deltas delivered together share the time budget of one delta, plus the allowed delay of the last one's start.
        let slice_us = if deltas.len() > 1 { budget.slice_us } else { 0 };
        let kill_us = budget.kill_us.saturating_add(slice_us);
        let begin_us = now.elapsed_us;
        {
            let mut extension = slot.cell.borrow_mut();
            if extension.held().is_none() {
                extension.ticks.enqueue(Arrival::Delta);
            }
            if let Some(watch) = &extension.link.watch {
                watch.arm(kill_us);
            }
        }
        // Queued macrotasks run first; the delta is in the queue, so the loop reaches it or the realm ends.
        let mut passed = 0;
        let answer = loop {
            match self.tick(slot, *now, deltas) {
                Ticked::Ran => *now = self.0.services.timer.now(),
                Ticked::Running => {
                    *now = self.0.services.timer.now();
                    // Earlier work in the queue counts as well, because the model waits for it.
                    if now.elapsed_us.saturating_sub(begin_us) >= kill_us {
                        self.stop_turn(slot);
                    }
                }
                Ticked::Answered(answer, ahead) => {
                    passed = ahead;
                    break Some(answer);
                }
                Ticked::Ended | Ticked::Idle => break None,
            }
        };
        *now = self.0.services.timer.now();
        let elapsed_us = now.elapsed_us.saturating_sub(begin_us);
        let first_slow = {
            let mut extension = slot.cell.borrow_mut();
            if let Some(watch) = &extension.link.watch {
                watch.disarm();
            }
            if let Some(held) = extension.held() {
                held.spent_us = elapsed_us;
            }
            answer.is_some()
                && elapsed_us > budget.soft_us.saturating_add(slice_us)
                && extension.stream_handlers.first_slow()
        };
        if first_slow {
            self.report(slot, None, ReportKind::SlowVerdict { elapsed_us, source: delta.source });
        }
        let verdict = match answer {
            Some(StreamAnswer::Continue) => None,
            Some(StreamAnswer::Abort(verdict)) => match verdict.retry.as_ref().and_then(message_limits::unfit) {
                None => Some(verdict),
                Some(error) => {
                    self.stream_fault(
                        slot,
                        verdict.handler,
                        Some(message_limits::report(Some(verdict.entry), "stream_text", &error)),
                    );
                    None
                }
            },
            Some(StreamAnswer::Late { handler }) => {
                self.stream_fault(slot, handler, None);
                None
            }
            Some(StreamAnswer::Failed { handler, error }) => {
                self.stream_fault(slot, handler, Some(error));
                None
            }
            // The strike was counted when the realm was stopped.
            None => None,
        };
        ExtensionVerdict { verdict, passed }
    }

    fn stop_turn(&self, slot: &Rc<Slot>) {
        if let Some(stop) = &slot.cell.borrow().link.stop {
            stop();
        }
    }

    /// Asks the gate whether an abort takes effect, and writes the decision to the ledger.
    fn grant(&self, slot: &Rc<Slot>, delta: &StreamDelta, asked: StreamVerdict, latency_us: u64) -> Option<Verdict> {
        let (caller, extension, path) = {
            let extension = slot.cell.borrow();
            (
                extension.caller_in(pijs_hostcall::During::Verdict),
                extension.package.id().clone(),
                extension.path(Some(asked.entry)),
            )
        };
        let StreamVerdict { entry, handler, retry } = asked;
        let abort = AbortRequest { delta, entry, path: &path, latency_us, retry: retry.as_ref() };
        let counts = record::verdict(&self.0.services, &caller, &abort);
        self.flush_ledger();
        match counts {
            Ok(()) => Some(Verdict { extension, entry, path, handler, retry, latency_us }),
            Err(refusal) => {
                let message = format!("its verdict is ignored: {refusal}");
                self.report(slot, Some(entry), ReportKind::Warning { message });
                None
            }
        }
    }

    /// Counts a strike against every handler of the delta at which the realm was stopped.
    pub(crate) fn strike_stopped(&self, slot: &Rc<Slot>, delta: &StreamDelta) {
        let strikes =
            slot.cell.borrow_mut().stream_handlers.strike_all(delta.source, self.0.services.options.max_strikes);
        for strike in strikes {
            let kind = ReportKind::Strike { count: strike.count, muted: strike.muted };
            self.report(slot, Some(strike.entry), kind);
        }
    }

    /// Handles a handler's exception, or (without an error) a handler that waits for I/O.
    pub(crate) fn stream_fault(&self, slot: &Rc<Slot>, handler: Handle, error: Option<ErrorReport>) {
        let Some(error) = error else {
            let first = slot.cell.borrow_mut().stream_handlers.first_late(handler);
            if let Some(entry) = first {
                self.report(slot, Some(entry), ReportKind::LateVerdict);
            }
            return;
        };
        self.report_thrown(slot, error);
        let strike = slot.cell.borrow_mut().stream_handlers.strike(handler, self.0.services.options.max_strikes);
        let Some(strike) = strike else { return };
        let kind = ReportKind::Strike { count: strike.count, muted: strike.muted };
        self.report(slot, Some(strike.entry), kind);
        if strike.muted {
            self.post(slot, Message::HandlerMuted { handler });
            self.refresh_listened();
        }
    }
}
