//! `pi.ext.cap.v1`: the capabilities a package says it needs (`docs/spec/capabilities.md`).

use crate::hostcall::Capability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only value of [`CapabilityManifest::schema`].
pub const CAPABILITY_SCHEMA: &str = "pi.ext.cap.v1";

/// What a package asks for, under `pi.capabilities` in `package.json` or in `extension.json`.
///
/// It is a request, never a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityManifest {
    /// `pi.ext.cap.v1`.
    pub schema: String,
    /// In the order the author wrote them.
    pub capabilities: Vec<CapabilityRequest>,
}

/// One requested capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityRequest {
    /// The key evaluated by policy.
    pub capability: Capability,
    /// Connector methods that may use it; absent means any that derive to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Where it may be used. Absent means a worded "any"; present but empty grants nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// Where a capability may be used. A missing list does not restrict; an empty one allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// Glob patterns; relative ones start at the project root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Host names; a leading `*.` matches sub-domains; a port is explicit (`host:8080`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Names of environment variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Program names (`git`) or program and leading arguments (`git status`). Variables stand in front: `CI=1 npm test`,
    /// `TOKEN=* deploy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Tools of MCP servers: `SERVER/TOOL`, or `SERVER/*` for all that one server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}
