//! The event loop: a queue of macrotasks, a heap of timers, one counter.
//!
//! [`TickLoop::tick`] is the algorithm of `docs/spec/tick-loop.md`, as one function with numbered phases. The driver calls it
//! until it is idle, waits for an arrival or for [`TickLoop::next_deadline_us`], and calls it again. Requests that the realm
//! makes during a turn (timers, hostcalls) are part of the turn's output; the driver applies them before the next tick.

use pijs_protocol::{Now, Seq, TimerId, guard};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Maximum delay in milliseconds that is used unchanged: the range of Node's timers.
pub const MAX_DELAY_MS: f64 = 2_147_483_647.0;

/// Replacement, in microseconds, for a delay that Node cannot use.
const FALLBACK_DELAY_US: u64 = 1_000;

/// Limits of one loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickOptions {
    /// Maximum number of live timers; another one is refused with [`TimerQuota`].
    pub max_timers: usize,
}

impl Default for TickOptions {
    /// Returns 10,000 timers: far above any measured extension, and harmless for the heap.
    fn default() -> Self {
        Self { max_timers: 10_000 }
    }
}

/// The error of exceeding the realm's quota of timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerQuota {
    /// The quota.
    pub max_timers: usize,
}

impl fmt::Display for TimerQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the extension has {} live timers, which is its limit; clear some first", self.max_timers)
    }
}

impl std::error::Error for TimerQuota {}

/// One unit of work for a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Macrotask<T> {
    /// An external event or completion.
    Arrival(T),
    /// A timer is due.
    Timer(TimerId),
}

/// Runs macrotasks: the engine, or a test.
pub trait Guest<T> {
    /// Output of a turn, opaque to the loop.
    type Output;

    /// Runs one macrotask and then its microtasks, until none remains (I2).
    ///
    /// `now.elapsed_us` never decreases from turn to turn.
    fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<T>) -> Self::Output;
}

/// The result of a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tick<O> {
    /// Nothing was queued and no timer was due.
    Idle,
    /// One macrotask ran.
    Ran {
        /// Sequence number of the macrotask.
        seq: Seq,
        /// Output of the guest.
        output: O,
    },
}

/// The state of a live timer.
#[derive(Debug, Clone, Copy)]
enum TimerState {
    /// In the heap, by deadline and sequence number.
    Armed { deadline_us: u64, seq: Seq },
    /// In the queue, with the sequence number of its macrotask.
    Due { seq: Seq },
    /// An interval whose turn has run: armed again when the next tick begins.
    Rearming { deadline_us: u64 },
}

#[derive(Debug, Clone, Copy)]
struct LiveTimer {
    place: TimerState,
    /// Period of an interval in microseconds; `None` for a timeout.
    period_us: Option<u64>,
}

/// The event loop of one realm: decides which macrotask runs next and assigns its sequence number.
///
/// ```
/// use pijs_protocol::{Now, Seq, TimerId};
/// use pijs_tick::{Guest, Macrotask, Tick, TickLoop, TickOptions};
///
/// struct Print(Vec<String>);
/// impl Guest<&'static str> for Print {
///     type Output = ();
///     fn turn(&mut self, seq: Seq, now: Now, task: Macrotask<&'static str>) {
///         self.0.push(format!("{} at {}: {task:?}", seq.0, now.elapsed_us));
///     }
/// }
///
/// let mut guest = Print(Vec::new());
/// let mut tick_loop = TickLoop::new(TickOptions::default());
/// let start = Now::default();
/// tick_loop.set_timer(TimerId(7), 5.0, false, start)?;
/// tick_loop.tick(start, ["hello"], &mut guest);
/// let due = Now { elapsed_us: tick_loop.next_deadline_us().expect("a timer is armed"), ..start };
/// tick_loop.tick(due, [], &mut guest);
/// assert_eq!(guest.0, [r#"2 at 0: Arrival("hello")"#, "3 at 5000: Timer(TimerId(7))"]);
/// assert_eq!(tick_loop.tick(due, [], &mut guest), Tick::Idle);
/// # Ok::<(), pijs_tick::TimerQuota>(())
/// ```
#[derive(Debug)]
pub struct TickLoop<T> {
    options: TickOptions,
    /// The last issued sequence number; the first is 1.
    last_seq: u64,
    /// Latest observed time, so that a clock that goes backwards cannot un-expire a timer.
    elapsed_us: u64,
    /// Queued macrotasks. Sequence numbers increase from front to back.
    queue: VecDeque<(Seq, Macrotask<T>)>,
    /// Armed timers by `(deadline, number)`: the first one is next (I3).
    heap: BTreeMap<(u64, Seq), TimerId>,
    /// All live timers, in any state.
    timers: BTreeMap<TimerId, LiveTimer>,
    /// The interval whose turn ran last, if it is still live.
    rearming: Option<TimerId>,
}

impl<T> TickLoop<T> {
    /// Creates an empty loop.
    pub fn new(options: TickOptions) -> Self {
        Self {
            options,
            last_seq: 0,
            elapsed_us: 0,
            queue: VecDeque::new(),
            heap: BTreeMap::new(),
            timers: BTreeMap::new(),
            rearming: None,
        }
    }

    /// Ingests arrivals, queues due timers, and runs at most one macrotask with its microtasks.
    ///
    /// # Examples
    ///
    /// See [`TickLoop`].
    pub fn tick<G: Guest<T>>(
        &mut self,
        now: Now,
        arrivals: impl IntoIterator<Item = T>,
        guest: &mut G,
    ) -> Tick<G::Output> {
        self.rearm_interval();
        self.elapsed_us = self.elapsed_us.max(now.elapsed_us);

        // 1. Ingest completions and events, in the order of arrival.
        for arrival in arrivals {
            self.enqueue(arrival);
        }
        // 2. Move due timers, earliest deadline first, older timer first among equals.
        self.move_due_timers();
        // 3. Run one macrotask. 4. The guest drains its microtasks before it returns.
        let Some((seq, task)) = self.queue.pop_front() else {
            return Tick::Idle;
        };
        if let Macrotask::Timer(id) = task {
            self.retire(id);
        }
        let output = guest.turn(seq, Now { elapsed_us: self.elapsed_us, ..now }, task);
        // 5. The effects of the turn are in `output`; the driver applies them.
        Tick::Ran { seq, output }
    }

    /// Appends an arrival to the queue and numbers it.
    pub fn enqueue(&mut self, arrival: T) -> Seq {
        let seq = self.next_seq();
        self.queue.push_back((seq, Macrotask::Arrival(arrival)));
        seq
    }

    /// Reserves sequence numbers for macrotasks that ran without the queue.
    pub fn number(&mut self, turns: usize) {
        self.last_seq += turns as u64;
    }

    /// Arms a timer: `setTimeout`, or `setInterval` with `repeat`.
    ///
    /// The deadline is `now` plus the delay, in whole milliseconds. A delay of 0 is due at once (`setImmediate`); a delay that
    /// Node's timers cannot use (NaN, negative, between 0 and 1, above [`MAX_DELAY_MS`], infinite) counts as 1 ms, as in Node.
    /// Other delays are truncated to whole milliseconds.
    ///
    /// An interval is a timeout that is armed again after each of its turns, at least 1 ms later. Its new sequence number comes
    /// after those of the timers that the turn set, so timers with an equal deadline fire first, as in Node. Missed periods are
    /// skipped: an interval never has two macrotasks in the queue.
    ///
    /// If the id is live, its timer is replaced.
    ///
    /// # Errors
    ///
    /// Fails with [`TimerQuota`] if the realm already has [`TickOptions::max_timers`] live timers. Nothing changes then.
    pub fn set_timer(&mut self, id: TimerId, delay_ms: f64, repeat: bool, now: Now) -> Result<Seq, TimerQuota> {
        if !self.timers.contains_key(&id) && self.timers.len() >= self.options.max_timers && guard!(TickTimers) {
            return Err(TimerQuota { max_timers: self.options.max_timers });
        }
        self.clear_timer(id);
        let delay_us = delay_us(delay_ms);
        let period_us = repeat.then_some(delay_us.max(FALLBACK_DELAY_US));
        Ok(self.arm(id, now.elapsed_us.saturating_add(period_us.unwrap_or(delay_us)), period_us))
    }

    /// Disarms a timer, even if it is due and waits in the queue. Returns whether it was live.
    pub fn clear_timer(&mut self, id: TimerId) -> bool {
        let Some(timer) = self.timers.remove(&id) else {
            return false;
        };
        match timer.place {
            TimerState::Armed { deadline_us, seq } => {
                self.heap.remove(&(deadline_us, seq));
            }
            TimerState::Due { seq } => {
                let at = self
                    .queue
                    .binary_search_by_key(&seq, |(queued, _)| *queued)
                    .expect("the queue contains a due timer under its number");
                self.queue.remove(at);
            }
            TimerState::Rearming { .. } => self.rearming = None,
        }
        true
    }

    /// Returns the earliest deadline, in microseconds of [`Now::elapsed_us`]; `None` without timers in the heap.
    pub fn next_deadline_us(&self) -> Option<u64> {
        let armed = self.heap.first_key_value().map(|((deadline_us, _), _)| *deadline_us);
        let rearming = self.rearming.and_then(|id| match self.timers.get(&id)?.place {
            TimerState::Rearming { deadline_us } => Some(deadline_us),
            TimerState::Armed { .. } | TimerState::Due { .. } => None,
        });
        armed.into_iter().chain(rearming).min()
    }

    /// Returns whether no macrotask is queued. Timers may be armed.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of queued macrotasks.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of live timers: armed, or due and not yet run.
    pub fn live_timers(&self) -> usize {
        self.timers.len()
    }

    fn next_seq(&mut self) -> Seq {
        self.last_seq += 1;
        Seq(self.last_seq)
    }

    fn arm(&mut self, id: TimerId, deadline_us: u64, period_us: Option<u64>) -> Seq {
        let seq = self.next_seq();
        self.heap.insert((deadline_us, seq), id);
        self.timers.insert(id, LiveTimer { place: TimerState::Armed { deadline_us, seq }, period_us });
        seq
    }

    fn move_due_timers(&mut self) {
        while let Some(entry) = self.heap.first_entry() {
            if entry.key().0 > self.elapsed_us {
                break;
            }
            let id = entry.remove();
            let seq = self.next_seq();
            self.queue.push_back((seq, Macrotask::Timer(id)));
            self.timers.get_mut(&id).expect("an armed timer is live").place = TimerState::Due { seq };
        }
    }

    /// Removes a timer whose macrotask leaves the queue: a timeout is over, and an interval waits for the end of its turn.
    fn retire(&mut self, id: TimerId) {
        let timer = self.timers.get_mut(&id).expect("a due timer is live");
        if let Some(period_us) = timer.period_us {
            timer.place = TimerState::Rearming { deadline_us: self.elapsed_us.saturating_add(period_us) };
            self.rearming = Some(id);
        } else {
            self.timers.remove(&id);
        }
    }

    fn rearm_interval(&mut self) {
        let Some(id) = self.rearming.take() else {
            return;
        };
        let timer = self.timers.get(&id).expect("clearing a timer also cancels its repetition");
        if let LiveTimer { place: TimerState::Rearming { deadline_us }, period_us } = *timer {
            self.arm(id, deadline_us, period_us);
        }
    }
}

/// Converts a delay as Node does, except that 0 stays 0.
fn delay_us(delay_ms: f64) -> u64 {
    if delay_ms == 0.0 {
        0
    } else if (1.0..=MAX_DELAY_MS).contains(&delay_ms) {
        // In range, so the cast only truncates the fraction.
        delay_ms as u64 * 1_000
    } else {
        FALLBACK_DELAY_US
    }
}
