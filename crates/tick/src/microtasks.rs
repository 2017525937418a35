//! Drains the microtask queue after a macrotask (I2), within a job budget.
//!
//! The engine calls [`drain`] with its "run one pending job" operation. The budget counts jobs, not time, so that an endless
//! sequence ends at the same job in every replay.

use std::fmt;

/// The budget is exhausted: the realm is in the middle of a turn and must be discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfJobs {
    /// The exhausted budget.
    pub budget: u32,
}

impl fmt::Display for OutOfJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} microtasks in one turn", self.budget)
    }
}

impl std::error::Error for OutOfJobs {}

/// Runs jobs until none is left and returns how many ran.
///
/// `run_one` runs the oldest pending job and returns `false` when there was none. It is called once more than
/// `budget` at the most; a flood is noticed by the job that exceeds the budget having run.
///
/// ```
/// use pijs_tick::microtasks::{OutOfJobs, drain};
///
/// let mut pending = 3; // each job but the last leaves one behind
/// let jobs = drain(100, || if pending == 0 { Ok(false) } else { pending -= 1; Ok(true) })?;
/// assert_eq!(jobs, 3);
/// assert_eq!(drain(100, || Ok(true)), Err(OutOfJobs { budget: 100 }));
/// # Ok::<(), pijs_tick::microtasks::OutOfJobs>(())
/// ```
///
/// # Errors
///
/// Returns the error of `run_one`, or [`OutOfJobs`] after `budget` jobs when there is a further one.
pub fn drain<E: From<OutOfJobs>>(budget: u32, mut run_one: impl FnMut() -> Result<bool, E>) -> Result<u32, E> {
    for jobs in 0..=budget {
        if !run_one()? {
            return Ok(jobs);
        }
    }
    Err(OutOfJobs { budget }.into())
}
