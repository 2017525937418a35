//! Defines the header of a tape, which is its first record.

use pijs_protocol::PROTOCOL_VERSION;
use pijs_protocol::artifact::EngineBuild;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only value of [`TapeHeader::schema`].
pub const TAPE_SCHEMA: &str = "pi.ext.tape.v1";

/// Describes how a session was recorded. A replay has to use the same engine and modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TapeHeader {
    /// `pi.ext.tape.v1`.
    pub schema: String,
    /// Protocol version of the messages that follow.
    pub protocol: String,
    /// Version of `pi`.
    pub pi: String,
    /// Engine that ran the realms.
    pub engine: EngineBuild,
    /// `sha256:HEX` of the bytecode of the host modules.
    pub host_modules: String,
    /// Seed of each realm's random numbers.
    pub seed: u64,
    /// Wall clock at the start, in milliseconds since 1970.
    pub epoch_ms: u64,
    /// Microseconds by which the clock advances per read inside a tick.
    pub clock_step_us: u32,
    /// Value of `TZ` for the realms: an IANA name, or any other form that the C library accepts.
    pub time_zone: String,
    /// Kind of the realms: `process` or `thread`.
    pub isolation: String,
    /// Version of pi that extensions were shown.
    pub profile: String,
    /// Policy of the gate: `strict`, `prompt` or `permissive`.
    pub policy: String,
}

impl TapeHeader {
    /// Returns a header of this version for an engine and a host module set. The caller sets the settings of the session.
    pub fn new(pi: &str, engine: EngineBuild, host_modules: String) -> Self {
        Self {
            schema: TAPE_SCHEMA.to_owned(),
            protocol: PROTOCOL_VERSION.to_owned(),
            pi: pi.to_owned(),
            engine,
            host_modules,
            seed: 1,
            epoch_ms: 0,
            clock_step_us: 1,
            time_zone: "UTC".to_owned(),
            isolation: "thread".to_owned(),
            profile: String::new(),
            policy: String::new(),
        }
    }
}
