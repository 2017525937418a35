//! `timer`: delays.

use super::hostcalls;

hostcalls! {
    /// A call of `timer`.
    TimerCall = "timer" {
        /// Waits for a number of milliseconds.
        "sleep" => Sleep { ms: u64 },
    }
}
