//! `timer`: waiting.

use super::hostcalls;

hostcalls! {
    /// A call of `timer`.
    TimerCall = "timer" {
        /// Waits for so many milliseconds.
        "sleep" => Sleep { ms: u64 },
    }
}
