//! Header of a tape: the first line of a recorded session.

use crate::artifact::EngineBuild;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The only value of [`TapeHeader::schema`].
pub const TAPE_SCHEMA: &str = "pi.ext.tape.v1";

/// Everything a replay needs before the first delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TapeHeader {
    /// `pi.ext.tape.v1`.
    pub schema: String,
    /// Protocol version of the messages that follow.
    pub protocol: String,
    /// Engine that ran the realms.
    pub engine: EngineBuild,
    /// Extension id to `sha256:HEX` of its artifact.
    pub artifacts: BTreeMap<String, String>,
    /// Seed of each realm's random numbers.
    pub seed: u64,
    /// Wall clock at the start, milliseconds since 1970.
    pub epoch_ms: u64,
    /// Microseconds the clock advances per read inside a tick.
    pub clock_step_us: u32,
    /// IANA name, a recorded input.
    pub time_zone: String,
}
