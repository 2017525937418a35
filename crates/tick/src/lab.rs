//! Explores, prints and replays schedules of a loop.
//!
//! The behaviour of a loop depends on the order of completions and the progress of time. A [`Lab`] controls both: its clock
//! advances and its operations end only when it decides so, and a [`Chooser`] makes every decision. So a schedule is a list of
//! small numbers. [`explore`] runs all schedules if they are few, and randomly drawn ones otherwise. A failing schedule is
//! written as a string like `lab1:0.2.1`, which [`replay`] runs again.
//!
//! For tests of the loop itself, and of its drivers.

use crate::entropy::Entropy;
use crate::tick_loop::{Guest, Tick, TickLoop, TickOptions, TimerQuota};
use pijs_environment::simulated::VirtualClock;
use pijs_protocol::{Seq, TimerId};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

/// The decisions of one schedule. Each is a number below the count of possibilities at that point.
///
/// Written as `lab1:` and the numbers separated by dots. Decisions beyond the list are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule(Vec<usize>);

const PREFIX: &str = "lab1:";

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for (at, decision) in self.0.iter().enumerate() {
            write!(f, "{}{decision}", if at == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

/// The error of parsing a text that is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a schedule; an example of one is lab1:0.2.1")]
pub struct NoSchedule {
    text: String,
}

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        let no_schedule = || NoSchedule { text: text.to_owned() };
        let list = text.strip_prefix(PREFIX).ok_or_else(no_schedule)?;
        if list.is_empty() {
            return Ok(Self::default());
        }
        list.split('.').map(str::parse).collect::<Result<_, _>>().map(Self).map_err(|_| no_schedule())
    }
}

/// Makes the decisions of one run: first those of a script, then zeros or random ones.
#[derive(Debug)]
pub struct Chooser {
    script: Vec<usize>,
    beyond: Continuation,
    /// Decisions so far, each with the number of possibilities.
    made: Vec<(usize, usize)>,
    misfit: Option<String>,
}

#[derive(Debug)]
enum Continuation {
    Zeros,
    Seeded(Box<Entropy>),
    Prioritised(Box<Priorities>),
}

/// Priorities of operations, drawn when each is first seen, as in probabilistic concurrency testing (PCT): the operation with the
/// highest priority runs first, and at a few decisions it gets the lowest priority. The probability of finding a bug that depends
/// on the order of `d` operations decreases with the number of operations, not of schedules.
#[derive(Debug)]
struct Priorities {
    entropy: Entropy,
    known: BTreeMap<u64, f64>,
    /// Indexes of the decisions at which a priority changes.
    changes: Vec<usize>,
}

/// Number of initial decisions among which priority changes are placed.
const PCT_DECISIONS: f64 = 24.0;

/// Number of priority changes per schedule.
const PCT_CHANGES: usize = 2;

impl Priorities {
    fn seeded(seed: u64) -> Self {
        let mut entropy = Entropy::seeded(seed);
        let changes = (0..PCT_CHANGES).map(|_| (entropy.next_f64() * PCT_DECISIONS) as usize).collect();
        Self { entropy, known: BTreeMap::new(), changes }
    }

    fn pick(&mut self, at: usize, operations: &[u64]) -> usize {
        for operation in operations {
            let entropy = &mut self.entropy;
            self.known.entry(*operation).or_insert_with(|| 1.0 + entropy.next_f64());
        }
        let priority = |operation: &u64| self.known.get(operation).copied().unwrap_or_default();
        let best = (0..operations.len()).max_by(|a, b| priority(&operations[*a]).total_cmp(&priority(&operations[*b])));
        let best = best.unwrap_or_default();
        if self.changes.contains(&at) {
            let lowest = self.known.values().copied().fold(1.0, f64::min);
            self.known.insert(operations[best], lowest / 2.0);
        }
        best
    }
}

impl Chooser {
    fn new(script: Vec<usize>, beyond: Continuation) -> Self {
        Self { script, beyond, made: Vec::new(), misfit: None }
    }

    /// Chooses one of `of` possibilities.
    ///
    /// # Panics
    ///
    /// Panics if `of` is 0.
    pub fn choose(&mut self, of: usize) -> usize {
        assert!(of > 0, "a decision without possibilities");
        let at = self.made.len();
        let mut picked = match (self.script.get(at), &mut self.beyond) {
            (Some(&scripted), _) => scripted,
            (None, Continuation::Zeros) => 0,
            (None, Continuation::Seeded(entropy)) => (entropy.next_f64() * of as f64) as usize,
            (None, Continuation::Prioritised(priorities)) => (priorities.entropy.next_f64() * of as f64) as usize,
        };
        if picked >= of {
            self.misfit.get_or_insert_with(|| {
                format!("decision {at} of the schedule is {picked}, but there are only {of} choices")
            });
            picked = 0;
        }
        self.made.push((picked, of));
        picked
    }

    /// Chooses which of these operations continues, and returns its index. An operation keeps its number between decisions, so
    /// that a drawn schedule can assign a priority to it.
    ///
    /// # Panics
    ///
    /// Panics if `operations` is empty.
    pub fn choose_operation(&mut self, operations: &[u64]) -> usize {
        let at = self.made.len();
        if let Continuation::Prioritised(priorities) = &mut self.beyond
            && self.script.get(at).is_none()
            && !operations.is_empty()
        {
            let picked = priorities.pick(at, operations);
            self.made.push((picked, operations.len()));
            return picked;
        }
        self.choose(operations.len())
    }

    /// Returns the decisions without trailing zeros.
    fn schedule(&self) -> Schedule {
        let mut decisions: Vec<usize> = self.made.iter().map(|(picked, _)| *picked).collect();
        while decisions.last() == Some(&0) {
            decisions.pop();
        }
        Schedule(decisions)
    }

    /// Returns the next script in depth-first order; `None` after the last one.
    fn next_script(&self) -> Option<Vec<usize>> {
        let at = self.made.iter().rposition(|(picked, of)| picked + 1 < *of)?;
        let mut script: Vec<usize> = self.made[..=at].iter().map(|(picked, _)| *picked).collect();
        script[at] += 1;
        Some(script)
    }
}

/// The extent of [`explore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exploration {
    /// Maximum number of schedules that are tried exhaustively.
    pub exhaustive: usize,
    /// Number of schedules to draw at random if there are more; every second one uses priorities.
    pub seeded: usize,
    /// Seed of the randomly drawn schedules.
    pub seed: u64,
}

impl Default for Exploration {
    /// Returns 10,000 exhaustive and 1,000 drawn schedules.
    fn default() -> Self {
        Self { exhaustive: 10_000, seeded: 1_000, seed: 0 }
    }
}

/// An exploration without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    /// Number of schedules that were run.
    pub schedules: usize,
    /// Whether these were all schedules.
    pub complete: bool,
}

/// A schedule under which a test fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\nfailed in run {run}; this schedule replays it: {schedule}")]
pub struct Failure {
    /// Decisions under which the test failed.
    pub schedule: Schedule,
    /// Number of the run, from 1.
    pub run: usize,
    /// Message of the test.
    pub message: String,
}

/// Runs a test under many schedules and stops at the first failure, which is an error or a panic.
///
/// The test must make every decision through the chooser, and must start from the same state each time.
///
/// ```
/// use pijs_tick::lab::{Exploration, explore, replay};
///
/// // Whichever of two operations ends first, the slow path must not win.
/// let test = |chooser: &mut pijs_tick::lab::Chooser| match ["fast", "slow"][chooser.choose(2)] {
///     "slow" => Err("the slow one came first".to_owned()),
///     _ => Ok(()),
/// };
/// let failure = explore(Exploration::default(), test).expect_err("one of the two orders fails");
/// assert_eq!(failure.schedule.to_string(), "lab1:1");
/// assert_eq!(replay("lab1:1", test), Err("the slow one came first".to_owned()));
/// ```
///
/// # Errors
///
/// Returns the [`Failure`] with its schedule.
pub fn explore(
    options: Exploration,
    mut test: impl FnMut(&mut Chooser) -> Result<(), String>,
) -> Result<Explored, Failure> {
    let mut run = 0;
    let mut attempt = |mut chooser: Chooser| {
        run += 1;
        match run_catching(&mut test, &mut chooser) {
            Ok(()) => Ok((chooser, run)),
            Err(message) => Err(Failure { schedule: chooser.schedule(), run, message }),
        }
    };
    let mut schedules = 0;
    let mut script = Some(Vec::new());
    for _ in 0..options.exhaustive {
        let Some(decisions) = script else { break };
        let (chooser, runs) = attempt(Chooser::new(decisions, Continuation::Zeros))?;
        script = chooser.next_script();
        schedules = runs;
    }
    if script.is_none() {
        return Ok(Explored { schedules, complete: true });
    }
    for drawn in 0..options.seeded {
        let seed = options.seed.wrapping_add(drawn as u64);
        let beyond = match drawn % 2 {
            0 => Continuation::Prioritised(Box::new(Priorities::seeded(seed))),
            _ => Continuation::Seeded(Box::new(Entropy::seeded(seed))),
        };
        (_, schedules) = attempt(Chooser::new(Vec::new(), beyond))?;
    }
    Ok(Explored { schedules, complete: false })
}

/// Shortens the schedule of a failure and its decisions as far as the test still fails, in at most `most` runs. Returns the
/// message of the shortened schedule.
pub fn shrink(failure: Failure, most: usize, mut test: impl FnMut(&mut Chooser) -> Result<(), String>) -> Failure {
    let Failure { mut schedule, run, mut message } = failure;
    let mut runs = 0;
    let mut fails = |decisions: &[usize]| {
        runs += 1;
        if runs > most {
            return None;
        }
        let mut chooser = Chooser::new(decisions.to_vec(), Continuation::Zeros);
        let said = run_catching(&mut test, &mut chooser).err()?;
        chooser.misfit.is_none().then(|| (chooser.schedule(), said))
    };
    loop {
        let Schedule(now) = &schedule;
        let shorter = (0..now.len()).map(|length| now[..length].to_vec());
        let without = (0..now.len()).map(|at| [&now[..at], &now[at + 1..]].concat());
        let smaller = (0..now.len()).flat_map(|at| {
            (0..now[at]).map(move |decision| {
                let mut smaller = now.clone();
                smaller[at] = decision;
                smaller
            })
        });
        let weight = |decisions: &[usize]| (decisions.len(), decisions.iter().sum::<usize>());
        let found = shorter
            .chain(without)
            .chain(smaller)
            .find_map(|decisions| fails(&decisions).filter(|(found, _)| weight(&found.0) < weight(now)));
        match found {
            Some((found, said)) => (schedule, message) = (found, said),
            None => return Failure { schedule, run, message },
        }
    }
}

/// Runs a test under one schedule.
///
/// # Errors
///
/// Returns the test's error, or the reason why the schedule does not belong to this test.
pub fn replay(schedule: &str, mut test: impl FnMut(&mut Chooser) -> Result<(), String>) -> Result<(), String> {
    let Schedule(script) = schedule.parse().map_err(|error: NoSchedule| error.to_string())?;
    let mut chooser = Chooser::new(script, Continuation::Zeros);
    let ended = run_catching(&mut test, &mut chooser);
    match chooser.misfit {
        Some(misfit) => Err(format!("{schedule} is a schedule of another test: {misfit}")),
        None => ended,
    }
}

fn run_catching(
    test: &mut impl FnMut(&mut Chooser) -> Result<(), String>,
    chooser: &mut Chooser,
) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| test(chooser))).unwrap_or_else(|panic| {
        Err(match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (None, Some(text)) => (*text).to_owned(),
            (None, None) => "a panic without a message".to_owned(),
        })
    })
}

/// Effects of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects<T> {
    /// Operations to begin. Each ends with this arrival, at a time that the schedule decides.
    pub begin: Vec<T>,
    /// Timers to arm: id, delay in milliseconds, and whether the timer repeats.
    pub timers: Vec<(TimerId, f64, bool)>,
    /// Timers to disarm, after `timers` were armed.
    pub clear: Vec<TimerId>,
}

impl<T> Default for Effects<T> {
    fn default() -> Self {
        Self { begin: Vec::new(), timers: Vec::new(), clear: Vec::new() }
    }
}

/// One step of a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A tick ran this macrotask.
    Ticked(Seq),
    /// An operation ended; the next tick ingests its arrival.
    Completed,
    /// The clock moved to the next deadline.
    Advanced {
        /// Time since the start, in microseconds.
        elapsed_us: u64,
    },
}

/// Reason why a run did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// The maximum number of steps was reached.
    #[error("the run did not end within {0} steps")]
    Steps(usize),
    /// The guest set too many timers.
    #[error(transparent)]
    Timers(#[from] TimerQuota),
}

/// A driver in which the schedule decides the clock and the order of completions.
///
/// Each step runs a tick, ends an operation in flight, or advances time to the next deadline. The chooser selects one of the
/// steps that are possible.
#[derive(Debug)]
pub struct Lab<'c, T> {
    chooser: &'c mut Chooser,
    clock: VirtualClock,
    tick_loop: TickLoop<T>,
    under_way: Vec<T>,
    arrived: Vec<T>,
}

impl<'c, T> Lab<'c, T> {
    /// Creates a lab with an idle loop, at time 0.
    pub fn new(chooser: &'c mut Chooser, options: TickOptions) -> Self {
        Self {
            chooser,
            clock: VirtualClock::starting_at(0),
            tick_loop: TickLoop::new(options),
            under_way: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Begins an operation. It ends with this arrival, at a time that the schedule decides.
    pub fn begin(&mut self, arrival: T) {
        self.under_way.push(arrival);
    }

    /// Returns the loop, for inspection and for queueing.
    pub fn tick_loop(&mut self) -> &mut TickLoop<T> {
        &mut self.tick_loop
    }

    /// Takes one step; `None` when no step is possible.
    ///
    /// # Errors
    ///
    /// Fails with [`TimerQuota`] if the guest's turn sets too many timers.
    pub fn step<G>(&mut self, guest: &mut G) -> Result<Option<Step>, TimerQuota>
    where
        G: Guest<T, Output = Effects<T>>,
    {
        let now = self.clock.now();
        let deadline = self.tick_loop.next_deadline_us();
        let can_tick = !self.tick_loop.is_idle()
            || !self.arrived.is_empty()
            || deadline.is_some_and(|deadline| deadline <= now.elapsed_us);
        let later = deadline.filter(|deadline| *deadline > now.elapsed_us);

        let moves = usize::from(can_tick) + self.under_way.len() + usize::from(later.is_some());
        if moves == 0 {
            return Ok(None);
        }
        let picked = self.chooser.choose(moves);
        if can_tick && picked == 0 {
            return match self.tick_loop.tick(now, self.arrived.drain(..), guest) {
                Tick::Idle => unreachable!("there was an arrival, a macrotask or a due timer"),
                Tick::Ran { seq, output } => self.apply(output).map(|()| Some(Step::Ticked(seq))),
            };
        }
        let operation = picked - usize::from(can_tick);
        if operation < self.under_way.len() {
            self.arrived.push(self.under_way.remove(operation));
            return Ok(Some(Step::Completed));
        }
        let elapsed_us = later.expect("only the clock can move");
        self.clock.advance_to_us(elapsed_us);
        Ok(Some(Step::Advanced { elapsed_us }))
    }

    /// Takes steps until none is possible.
    ///
    /// # Errors
    ///
    /// Fails with [`Stuck`] after `max_steps`, which stops guests with an interval, or if a timer is refused.
    pub fn run<G>(&mut self, guest: &mut G, max_steps: usize) -> Result<Vec<Step>, Stuck>
    where
        G: Guest<T, Output = Effects<T>>,
    {
        let mut steps = Vec::new();
        while let Some(step) = self.step(guest)? {
            if steps.len() == max_steps {
                return Err(Stuck::Steps(max_steps));
            }
            steps.push(step);
        }
        Ok(steps)
    }

    fn apply(&mut self, effects: Effects<T>) -> Result<(), TimerQuota> {
        let now = self.clock.now();
        for (id, delay_ms, repeat) in effects.timers {
            self.tick_loop.set_timer(id, delay_ms, repeat, now)?;
        }
        for id in effects.clear {
            self.tick_loop.clear_timer(id);
        }
        self.under_way.extend(effects.begin);
        Ok(())
    }
}
