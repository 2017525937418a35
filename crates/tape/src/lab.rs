//! The schedule lab: runs the extensions of a tape under other orders of completion, other timings and faults.
//!
//! A tape says what came into each realm and what each of its calls was answered. The lab hands the same inputs and answers in,
//! and owns what the tape only has one sample of: which call in flight ends next, whether a timer fires before, whether a
//! call fails, whether the worker is killed, and whether what another extension sends comes a step earlier or later. Every
//! decision is drawn from a [`Chooser`], so that a run is a string (`lab1:0.2.1`) that replays.
//!
//! [`Case::of`] reads a tape, [`Case::explore`] goes through schedules and shrinks the first one that fails,
//! [`Case::replay`] runs one. A schedule fails when an extension throws an unhandled error that it did not throw under the
//! schedule of zeros, when a request is never answered, when a realm ends, when a handler throws although no call failed, or,
//! without faults, when an answer or the calls that were made depend on the order.
//!
//! Orders that cannot differ are not explored (partial-order reduction): a schedule runs one extension, since calls of another one
//! commute with its own while the tape answers both; a turn that can run does so at once, since only arrivals are
//! decided; and calls of files end in the order in which they began, as in a session.

mod case;
mod inputs;
mod run;

pub use case::{Case, LabError};

use pijs_tick::lab::{Chooser, Exploration, Failure, explore, replay, shrink};
use run::Run;

/// Runs that shrinking takes at most.
const SHRINKING: usize = 400;

/// Maximum number of faults of one schedule.
const MAX_FAULTS: usize = 3;

/// Options of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct LabOptions {
    /// Schedules to run: one after the other while there are no more, drawn ones otherwise.
    pub schedules: usize,
    /// Seed of the drawn ones.
    pub seed: u64,
    /// Faults of one schedule: calls that time out, are denied, fail or are dropped, workers that are killed, and messages of
    /// other extensions that come before or after their neighbour.
    pub faults: usize,
}

/// The result of an exploration without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabOutcome {
    /// Schedules that were run.
    pub schedules: usize,
    /// Whether these were all there are.
    pub complete: bool,
}

impl Case<'_> {
    /// Runs schedules until one fails.
    ///
    /// # Errors
    ///
    /// The failure, with the shortest schedule that shows it.
    pub fn explore(&self, options: LabOptions) -> Result<LabOutcome, Failure> {
        // Half of the runs go to systematic exploration; a small case is done before.
        let exhaustive = options.schedules.div_ceil(2);
        let exploration = Exploration { exhaustive, seeded: options.schedules - exhaustive, seed: options.seed };
        let test = |chooser: &mut Chooser| self.test(chooser, options.faults);
        match explore(exploration, test) {
            Ok(explored) => Ok(LabOutcome { schedules: explored.schedules, complete: explored.complete }),
            Err(failure) => Err(shrink(failure, SHRINKING, test)),
        }
    }

    /// Runs one schedule.
    ///
    /// # Errors
    ///
    /// Returns the failure under it, or why it is not a schedule of this case.
    pub fn replay(&self, schedule: &str) -> Result<(), String> {
        replay(schedule, |chooser| self.test(chooser, MAX_FAULTS))
    }

    /// Runs a schedule: how many calls fail is the first decision, which extension is run the second.
    fn test(&self, chooser: &mut Chooser, faults: usize) -> Result<(), String> {
        let faults = chooser.choose(faults.min(MAX_FAULTS) + 1);
        let at = chooser.choose(self.extensions());
        Run::of(self, at, faults).judge(chooser)
    }
}
