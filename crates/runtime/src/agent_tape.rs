//! The agent's level of a tape: recording the ports of the agent, and replaying its loop.
//!
//! [`record`] forwards every call and records what crosses the ports. [`replay`] creates an agent from the parts that the tape
//! names and stands in for its ports: providers, built-in tools, extensions, the clock, the user. The requests, events and
//! session entries that the loop produces are compared with the tape.
//!
//! Extensions are a port here, as the agent sees them. Their realms are replayed by `pijs-tape` from the wire's records of the
//! same tape.

mod parts;
mod questions;
mod record;
mod replay;
mod stage;
mod stand_ins;
mod stop;

pub(crate) use parts::describe;
pub(crate) use record::{AgentTap, RecordedExtensions, RecordedFrontEnd, RecordedPorts, RecordedRules};
pub use replay::{AgentOutcome, replay_agent};
pub use stop::{ReplayStop, StopReason};
