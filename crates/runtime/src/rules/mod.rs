//! The streamed rules of a session: their files, settings and states.
//!
//! | module | idea |
//! |---|---|
//! | `sources` | locations of rule files, and whether they have changed |
//! | `notices` | lines about firings for the user |
//! | `settings` | the settings `ttsr.*`, overridden by the configuration |
//! | `set` | all rules of a session, with the state of each |

mod notices;
mod set;
mod settings;
mod sources;

pub use notices::{entry_lines, event_line};
pub use set::RuleSet;
pub use sources::RuleProgram;
