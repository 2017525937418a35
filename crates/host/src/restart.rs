//! Policy for an extension whose realm keeps ending: a new realm after a growing pause, and finally quarantine.
//!
//! Only recent ends count, so that a session of days forgives one in a while. Time that passed inside of stopped turns
//! makes no end older: turns that take long to stop are counted like those that are stopped at once.
//!
//! The host discards an ended realm and answers everything that waited for it with `Termination::error()`. [`Host::release`](crate::Host::release)
//! ends the quarantine. A realm that ends while it judges a delta gets strikes instead.
//!
//! Decisions of an extension stay guarded while it is gone (`Missing`). Events, tool calls and requests to the model wait until
//! it is back. In quarantine it refuses where it decided, as a handler that throws does. Its tools, replacements of pi's own
//! tools included, go to nobody else.

use pijs_protocol::guard;
use std::collections::VecDeque;
use std::time::Duration;

/// How often an extension may be stopped, and how long it waits before it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The end that brings the extension into quarantine, counted within [`RestartPolicy::window_us`].
    pub ends: u32,
    /// How long an end counts.
    pub window_us: u64,
    /// Pause before the second restart within the window; each further one waits twice as long. The first has none:
    /// one accident should not show.
    pub pause_us: u64,
    /// How long an extension may spend in stopped turns while the session starts, over all its restarts. One
    /// that spends more would keep every session waiting again: it is not restarted.
    pub start_us: u64,
}

impl Default for RestartPolicy {
    /// The third end within 60 s is one too many; 100 ms before the second restart; 12 s for the start, less than
    /// one turn that runs into the deadline of the start in a worker process.
    fn default() -> Self {
        Self { ends: 3, window_us: 60_000_000, pause_us: 100_000, start_us: 12_000_000 }
    }
}

/// One end of a realm.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct End {
    /// When.
    pub(crate) at_us: u64,
    /// How long the turn had run that was stopped; 0 when none was.
    pub(crate) took_us: u64,
    /// Whether the session was starting for the extension.
    pub(crate) at_start: bool,
}

/// Consequence of the end of a realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// A new realm, after this pause.
    Restart(Duration),
    /// Nothing more.
    Quarantine,
}

/// The ends of one extension's realms that still count.
#[derive(Debug, Default)]
pub(crate) struct Ends(VecDeque<End>);

impl Ends {
    /// Counts one and says what follows.
    pub(crate) fn count(&mut self, end: End, policy: RestartPolicy) -> Sequel {
        self.0.push_back(end);
        self.forget_old(end.at_us, policy.window_us);
        let recent = self.recent();
        if recent >= policy.ends && guard!(RealmQuarantine) {
            return Sequel::Quarantine;
        }
        let at_start = self.0.iter().filter(|end| end.at_start);
        if at_start.map(|end| end.took_us).sum::<u64>() >= policy.start_us && guard!(RealmSlowStart) {
            return Sequel::Quarantine;
        }
        // Doubled at most sixteen times: nobody waits longer than the window.
        let pause_us = match recent {
            0 | 1 => 0,
            more => policy.pause_us << (more - 2).min(16),
        };
        Sequel::Restart(Duration::from_micros(pause_us.min(policy.window_us)))
    }

    /// How many count.
    pub(crate) fn recent(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn forget_old(&mut self, now_us: u64, window_us: u64) {
        // From the newest to the oldest: `stopped_us` was spent in the stopped turns after an end.
        let mut stopped_us = 0;
        let kept = self.0.iter().rev().take_while(|end| {
            let age_us = now_us.saturating_sub(end.at_us).saturating_sub(stopped_us);
            stopped_us += end.took_us;
            age_us < window_us
        });
        let kept = kept.count();
        self.0.drain(..self.0.len() - kept);
    }

    pub(crate) fn forgive(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_us: u64) -> End {
        End { at_us, ..End::default() }
    }

    #[test]
    fn recent_ends_count_and_old_ones_are_forgiven() {
        let policy = RestartPolicy { ends: 4, window_us: 100, pause_us: 10, start_us: 50 };
        let after = |us| Sequel::Restart(Duration::from_micros(us));
        let table = [
            (0, after(0)),
            (10, after(10)),
            (20, after(20)),
            // The first is forgotten: this is the third again.
            (100, after(20)),
            (105, Sequel::Quarantine),
            (400, after(0)),
        ];
        let mut ends = Ends::default();
        for (now_us, sequel) in table {
            assert_eq!(ends.count(at(now_us), policy), sequel, "at {now_us}");
        }
        ends.forgive();
        assert_eq!(ends.count(at(401), policy), after(0));
    }

    #[test]
    fn turns_that_take_as_long_as_the_window_are_counted_like_others() {
        let policy = RestartPolicy { ends: 3, window_us: 100, pause_us: 10, start_us: 1_000 };
        let mut ends = Ends::default();
        let mut count = |at_us| ends.count(End { at_us, took_us: 60, at_start: false }, policy);
        assert_eq!(count(60), Sequel::Restart(Duration::ZERO));
        assert_eq!(count(120), Sequel::Restart(Duration::from_micros(10)));
        assert_eq!(count(190), Sequel::Quarantine);
        // Its own turn is not between an end and the next: 100 us without any are.
        assert_eq!(count(190 + 160), Sequel::Restart(Duration::ZERO));
    }

    #[test]
    fn who_spends_the_time_of_the_start_is_not_restarted() {
        let policy = RestartPolicy { ends: 3, window_us: 100, pause_us: 10, start_us: 15 };
        let start = |at_us, took_us| End { at_us, took_us, at_start: true };
        assert_eq!(Ends::default().count(start(20, 15), policy), Sequel::Quarantine);
        let mut ends = Ends::default();
        assert_eq!(ends.count(start(20, 10), policy), Sequel::Restart(Duration::ZERO));
        assert_eq!(ends.count(start(30, 5), policy), Sequel::Quarantine, "over all restarts");
        // Later it is another matter.
        let later = End { at_us: 20, took_us: 15, at_start: false };
        assert_eq!(Ends::default().count(later, policy), Sequel::Restart(Duration::ZERO));
    }
}
