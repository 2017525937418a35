//! What becomes of an extension whose realm keeps ending: a new realm, after a growing pause, and quarantine in the end.
//!
//! Only recent ends count, so that a session of days forgives one in a while.

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
}

impl Default for RestartPolicy {
    /// The third end within 60 s is one too many (R03); 100 ms before the second restart.
    fn default() -> Self {
        Self { ends: 3, window_us: 60_000_000, pause_us: 100_000 }
    }
}

/// What follows an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// A new realm, after this pause.
    Restart(Duration),
    /// Nothing more.
    Quarantine,
}

/// The ends of one extension's realms that still count.
#[derive(Debug, Default)]
pub(crate) struct Ends(VecDeque<u64>);

impl Ends {
    /// Counts one and says what follows.
    pub(crate) fn count(&mut self, now_us: u64, policy: RestartPolicy) -> Sequel {
        self.0.push_back(now_us);
        while self.0.front().is_some_and(|end| now_us.saturating_sub(*end) >= policy.window_us) {
            self.0.pop_front();
        }
        let recent = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if recent >= policy.ends && guard::is_up("realm.quarantine") {
            return Sequel::Quarantine;
        }
        // Doubled at most sixteen times: nobody waits longer than the window.
        let pause_us = match recent {
            0 | 1 => 0,
            more => policy.pause_us << (more - 2).min(16),
        };
        Sequel::Restart(Duration::from_micros(pause_us.min(policy.window_us)))
    }

    pub(crate) fn forgive(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_ends_count_and_old_ones_are_forgiven() {
        let policy = RestartPolicy { ends: 4, window_us: 100, pause_us: 10 };
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
            assert_eq!(ends.count(now_us, policy), sequel, "at {now_us}");
        }
        ends.forgive();
        assert_eq!(ends.count(401, policy), after(0));
    }
}
