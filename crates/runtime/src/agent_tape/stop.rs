//! States why a replay of the agent's loop ends before its tape does.

use pijs_protocol::ErrorCode;
use serde::Serialize;
use std::fmt;

/// An act that a replay cannot repeat. Everything before it was replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayStop {
    /// Number of the act's record on the tape.
    pub record: u64,
    /// The act, as the tape names it: `navigate_tree`, `session ask_model`, ...
    pub act: String,
    /// Reason why the act cannot be repeated.
    pub reason: StopReason,
}

/// Reason why an act cannot be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The tape does not have the act's arguments, because an older version recorded it.
    NoArguments,
    /// This version does not know the act, because a later version recorded the tape.
    Unknown,
    /// The session has native rules and the tape does not.
    NoRules,
}

impl ReplayStop {
    /// Returns the taxonomy's error code of this reason.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidRequest
    }

    /// Returns the next step for the user.
    pub fn help(&self) -> &'static str {
        match self.reason {
            StopReason::Unknown => {
                "replay it with the version of pi that recorded it, or up to a turn with --until TICK"
            }
            StopReason::NoArguments | StopReason::NoRules => {
                "record the session again with this version of pi, or replay it up to a turn with --until TICK"
            }
        }
    }
}

impl fmt::Display for ReplayStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, act, reason } = self;
        let reason = match reason {
            StopReason::NoArguments => "the tape does not have its arguments",
            StopReason::Unknown => "this version of pi does not know the act",
            StopReason::NoRules => "the tape does not have the native rules of the session",
        };
        write!(f, "the agent's loop cannot be replayed beyond record {record}, {act:?}: {reason}")
    }
}
