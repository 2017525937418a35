//! The streamed rules of a session: their files, settings and states.
//!
//! | module | idea |
//! |---|---|
//! | `sources` | where rule files lie, and whether they have changed |
//! | `notices` | lines about firings for people |
//! | `settings` | the settings `ttsr.*`, and what the configuration says over them |
//! | `set` | all rules of a session with what becomes of each |

mod notices;
mod set;
mod settings;
mod sources;

pub use notices::{entry_lines, event_line};
pub use set::RuleSet;
pub use sources::RuleProgram;
