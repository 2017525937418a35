//! Drains the microtask queue after a macrotask (I2), within a job budget.
//!
//! The engine calls [`drain`] with its "run one pending job" operation. The budget counts jobs, not time, so that an endless
//! sequence ends at the same job in every replay.

use std::fmt;

/// The error of an exhausted budget. The realm is in the middle of a turn and must be discarded.
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

/// Runs jobs until none is left. Returns the number of jobs that ran.
///
/// `run_one` runs the oldest pending job and returns `false` if there was none. It is called at most `budget + 1` times: the
/// budget is found to be exceeded after one job more has run.
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
/// Returns the error of `run_one`, or [`OutOfJobs`] if there is a further job after `budget` jobs.
pub fn drain<E: From<OutOfJobs>>(budget: u32, mut run_one: impl FnMut() -> Result<bool, E>) -> Result<u32, E> {
    for jobs in 0..=budget {
        if !run_one()? {
            return Ok(jobs);
        }
    }
    Err(OutOfJobs { budget }.into())
}
