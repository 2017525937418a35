//! The agent's level of a tape: recording the ports of the agent, and playing its loop again.
//!
//! [`record`] passes everything on as it is and writes down what crossed. [`replay`] makes an agent of the parts that the tape
//! names and answers in the place of its ports: providers, built-in tools, extensions, the clock, the user. What the loop makes
//! of that (requests, events for extensions and front ends, entries of the session) is compared with the tape.
//!
//! Extensions are a port here, as the agent sees them. Their realms are replayed by `pijs-tape` from the wire's records of the
//! same tape.

mod parts;
mod questions;
mod record;
mod replay;
mod stage;
mod stand_ins;

pub(crate) use parts::describe;
pub(crate) use record::{AgentTap, RecordedExtensions, RecordedFrontEnd, RecordedPorts, RecordedRules};
pub use replay::{AgentOutcome, replay_agent};
