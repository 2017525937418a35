//! The schedule lab: runs the extensions of a tape under different orders of completion, different timings and faults.
//!
//! A tape contains the inputs of each realm and the answers to its calls. The lab delivers the same inputs and answers, and
//! varies the things of which the tape has only one sample: which call in flight ends next, whether a timer fires before it,
//! whether a call fails, whether the worker is killed, and whether a message of another extension comes a step earlier or later.
//! A [`Chooser`] makes every decision, so a run is described by a string (`lab1:0.2.1`) that replays it.
//!
//! [`Case::of`] reads a tape, [`Case::explore`] runs schedules and shrinks the first one that fails, and [`Case::replay`] runs a
//! single schedule. A schedule fails if an extension throws an unhandled error that it did not throw under the default schedule
//! (every decision 0), if a request is never answered, if a realm ends, if a handler throws although no call failed, or, without
//! faults, if an answer or the set of calls depends on the order.
//!
//! Orders that cannot make a difference are not explored (partial-order reduction). A schedule runs a single extension, because
//! the tape answers the calls of each extension independently. A turn that can run does so at once, because only arrivals are
//! decided. File calls end in the order in which they began, as in a session.

mod case;
mod inputs;
mod run;

pub use case::{Case, LabError};

use pijs_tick::lab::{Chooser, Exploration, Failure, explore, replay, shrink};
use run::Run;

/// Maximum number of runs for shrinking a schedule.
const SHRINKING: usize = 400;

/// Maximum number of faults of one schedule.
const MAX_FAULTS: usize = 3;

/// Options of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct LabOptions {
    /// Number of schedules to run: all schedules in sequence if there are no more than that, otherwise partly drawn at random.
    pub schedules: usize,
    /// Seed of the randomly drawn schedules.
    pub seed: u64,
    /// Maximum number of faults in one schedule: calls that time out, are denied, fail or are dropped, killed workers, and
    /// messages of other extensions that are swapped with their neighbour.
    pub faults: usize,
}

/// The result of an exploration without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabOutcome {
    /// Number of schedules that were run.
    pub schedules: usize,
    /// Whether these were all schedules of the case.
    pub complete: bool,
}

impl Case<'_> {
    /// Runs schedules until one fails.
    ///
    /// # Errors
    ///
    /// Returns the failure, with the shortest schedule found that causes it.
    pub fn explore(&self, options: LabOptions) -> Result<LabOutcome, Failure> {
        // Half of the runs explore systematically, which covers a small case completely.
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
    /// Returns the failure under the schedule, or the reason why it is not a schedule of this case.
    pub fn replay(&self, schedule: &str) -> Result<(), String> {
        replay(schedule, |chooser| self.test(chooser, MAX_FAULTS))
    }

    /// Runs a schedule. The first decision is the number of faults, and the second is the extension to run.
    fn test(&self, chooser: &mut Chooser, faults: usize) -> Result<(), String> {
        let faults = chooser.choose(faults.min(MAX_FAULTS) + 1);
        let at = chooser.choose(self.extensions());
        Run::of(self, at, faults).judge(chooser)
    }
}
