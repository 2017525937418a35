//! `pi.ext.cap.v1`: the capabilities that a package declares (`docs/spec/capabilities.md`).

mod widening;

pub use widening::widening;

use crate::hostcall::Capability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only value of [`CapabilityManifest::schema`].
pub const CAPABILITY_SCHEMA: &str = "pi.ext.cap.v1";

/// Prefix of a server to which arbitrary bytes may be sent, not only HTTP requests.
pub const RAW: &str = "tcp://";

/// The capabilities that a package requests, under `pi.capabilities` in `package.json` or in `extension.json`.
///
/// The manifest is a request, never a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityManifest {
    /// `pi.ext.cap.v1`.
    pub schema: String,
    /// Requests in the author's order.
    pub capabilities: Vec<CapabilityRequest>,
}

/// One requested capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityRequest {
    /// Capability key.
    pub capability: Capability,
    /// Connector methods that may use the capability; absent means any method that derives to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Scope of the request. Absent means no restriction, and prompts state that; present but empty grants nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// Limits a capability. A missing list does not restrict; an empty list allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// Glob patterns; relative patterns start at the project root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Host names; a leading `*.` matches sub-domains; a port is explicit (`host:8080`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Names of environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Program names (`git`) or a program with leading arguments (`git status`). Variables precede the program: `CI=1 npm test`,
    /// `TOKEN=* deploy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Tools of MCP servers: `SERVER/TOOL`, or `SERVER/*` for all tools of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}
