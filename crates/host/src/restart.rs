//! Policy for an extension whose realm keeps stopping: a new realm after a growing pause, and finally quarantine.
//!
//! Only recent stops count, so that rare stops in a long session are forgotten. Time inside a turn that is stopped does not count
//! towards the window, so turns that take long to stop are treated like turns that are stopped at once.
//!
//! The host discards a stopped realm and answers all its callers with `Termination::error()`.
//! [`Host::release`](crate::Host::release) ends the quarantine. A realm that is stopped while it judges a delta gets strikes
//! instead.
//!
//! Events that an extension decides stay guarded while the extension is stopped (`Missing`): events, tool calls and requests to
//! the model wait until it has restarted. In quarantine, those events fail as if its handler had thrown. No other tool takes the
//! name of one of its tools, including replacements of pi's own.

use pijs_protocol::guard;
use std::collections::VecDeque;
use std::time::Duration;

/// Limits on stops of an extension, and the pauses between its restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Number of stops within [`RestartPolicy::window_us`] that puts the extension into quarantine.
    pub ends: u32,
    /// Length of the window in which stops are counted.
    pub window_us: u64,
    /// Pause before the second restart within the window, in microseconds, doubled for each further one. The first restart is
    /// immediate, so that a single crash goes unnoticed.
    pub pause_us: u64,
    /// Maximum total time of stopped turns while the session starts, in microseconds, over all restarts. An extension that
    /// exceeds it would delay every session, so it is not restarted.
    pub start_us: u64,
}

impl Default for RestartPolicy {
    /// Returns three stops within 60 s, 100 ms before the second restart, and 12 s for the start, less than one turn that runs
    /// into the start deadline of a worker process.
    fn default() -> Self {
        Self { ends: 3, window_us: 60_000_000, pause_us: 100_000, start_us: 12_000_000 }
    }
}

/// One stop of a realm.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RealmEnd {
    /// Time of the stop in microseconds.
    pub(crate) at_us: u64,
    /// Duration of the stopped turn in microseconds; 0 without a turn.
    pub(crate) took_us: u64,
    /// Whether the extension was starting with the session.
    pub(crate) at_start: bool,
}

/// Consequence of a realm's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// The extension gets a new realm after this pause.
    Restart(Duration),
    /// The extension is not restarted.
    Quarantine,
}

/// Recent stops of one extension's realms.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds(VecDeque<RealmEnd>);

impl RecentEnds {
    /// Counts a stop and returns its consequence.
    pub(crate) fn count(&mut self, end: RealmEnd, policy: RestartPolicy) -> Sequel {
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
        // Doubled at most sixteen times, so that the shift does not overflow.
        let pause_us = match recent {
            0 | 1 => 0,
            more => policy.pause_us << (more - 2).min(16),
        };
        Sequel::Restart(Duration::from_micros(pause_us.min(policy.window_us)))
    }

    /// Returns the number of recent stops.
    pub(crate) fn recent(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn forget_old(&mut self, now_us: u64, window_us: u64) {
        // Goes from the newest stop to the oldest; `stopped_us` is the time in stopped turns after a stop.
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

    fn at(at_us: u64) -> RealmEnd {
        RealmEnd { at_us, ..RealmEnd::default() }
    }

    #[test]
    fn recent_ends_count_and_old_ones_are_forgiven() {
        let policy = RestartPolicy { ends: 4, window_us: 100, pause_us: 10, start_us: 50 };
        let after = |us| Sequel::Restart(Duration::from_micros(us));
        let table = [
            (0, after(0)),
            (10, after(10)),
            (20, after(20)),
            // The first stop has left the window, so this is the third again.
            (100, after(20)),
            (105, Sequel::Quarantine),
            (400, after(0)),
        ];
        let mut ends = RecentEnds::default();
        for (now_us, sequel) in table {
            assert_eq!(ends.count(at(now_us), policy), sequel, "at {now_us}");
        }
        ends.forgive();
        assert_eq!(ends.count(at(401), policy), after(0));
    }

    #[test]
    fn turns_that_take_as_long_as_the_window_are_counted_like_others() {
        let policy = RestartPolicy { ends: 3, window_us: 100, pause_us: 10, start_us: 1_000 };
        let mut ends = RecentEnds::default();
        let mut count = |at_us| ends.count(RealmEnd { at_us, took_us: 60, at_start: false }, policy);
        assert_eq!(count(60), Sequel::Restart(Duration::ZERO));
        assert_eq!(count(120), Sequel::Restart(Duration::from_micros(10)));
        assert_eq!(count(190), Sequel::Quarantine);
        // A stop's own turn is not between it and the next stop: 100 us remain without turns.
        assert_eq!(count(190 + 160), Sequel::Restart(Duration::ZERO));
    }

    #[test]
    fn who_spends_the_time_of_the_start_is_not_restarted() {
        let policy = RestartPolicy { ends: 3, window_us: 100, pause_us: 10, start_us: 15 };
        let start = |at_us, took_us| RealmEnd { at_us, took_us, at_start: true };
        assert_eq!(RecentEnds::default().count(start(20, 15), policy), Sequel::Quarantine);
        let mut ends = RecentEnds::default();
        assert_eq!(ends.count(start(20, 10), policy), Sequel::Restart(Duration::ZERO));
        assert_eq!(ends.count(start(30, 5), policy), Sequel::Quarantine, "over all restarts");
        // The limit applies only while the session starts.
        let later = RealmEnd { at_us: 20, took_us: 15, at_start: false };
        assert_eq!(RecentEnds::default().count(later, policy), Sequel::Restart(Duration::ZERO));
    }
}
