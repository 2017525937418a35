//! `artifact.json`, the metadata that `extc` writes for an artifact.

use crate::manifest::{CAPABILITY_SCHEMA, CapabilityManifest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The only value of [`ArtifactMetadata::schema`].
pub const ARTIFACT_SCHEMA: &str = "pi.ext.artifact.v1";

/// Metadata next to `extension.artifact`. It is reproducible: nothing in it depends on the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactMetadata {
    /// `pi.ext.artifact.v1`.
    pub schema: String,
    /// Package name, or the file stem of a loose extension.
    pub name: String,
    /// Package version, or `0.0.0`.
    pub version: String,
    /// Engine build that produced the bytecode.
    pub engine: EngineBuild,
    /// `sha256:HEX` of the artifact file.
    pub artifact: String,
    /// `sha256:HEX` over the length-prefixed cache fields: manifest, bundle, engine build, host modules.
    pub cache_key: String,
    /// Extension entries in manifest order, as paths inside the package.
    pub entries: Vec<String>,
    /// Every source, and every manifest that affected the resolution of an import: path inside the package (or
    /// `dep:NAME@VERSION/PATH`) to `sha256:HEX`.
    pub inputs: BTreeMap<String, String>,
    /// Capabilities that the scan found, with literal scopes.
    pub capabilities: CapabilityManifest,
    /// Tools and commands that the scan found.
    #[serde(default, skip_serializing_if = "Offers::is_empty")]
    pub offers: Offers,
    /// Host modules that the bundle imports, sorted, with the imported names.
    pub host_imports: BTreeMap<String, Vec<String>>,
    /// `compatible`, `warning` or `blocked`: the worst of `findings`.
    pub verdict: Verdict,
    /// Findings of the scan, in source order.
    pub findings: Vec<Finding>,
}

impl ArtifactMetadata {
    /// Creates metadata without entries, inputs, uses and findings.
    pub fn new(name: impl Into<String>, version: impl Into<String>, engine: EngineBuild) -> Self {
        Self {
            schema: ARTIFACT_SCHEMA.to_owned(),
            name: name.into(),
            version: version.into(),
            engine,
            artifact: String::new(),
            cache_key: String::new(),
            entries: Vec::new(),
            inputs: BTreeMap::new(),
            capabilities: CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: Vec::new() },
            offers: Offers::default(),
            host_imports: BTreeMap::new(),
            verdict: Verdict::Compatible,
            findings: Vec::new(),
        }
    }
}

/// Tools and commands that the code registers with literal names. Untrusted text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offers {
    /// Tools for the model: name to the beginning of the description.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Slash commands: name to description.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, String>,
    /// Whether the code registers more of them under names that are computed at run time.
    #[serde(default)]
    pub more: bool,
}

impl Offers {
    /// Returns whether the scan found no tools and commands.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the offers of another module.
    pub fn merge(&mut self, other: &Self) {
        self.tools.extend(other.tools.clone());
        self.commands.extend(other.commands.clone());
        self.more |= other.more;
    }
}

/// Identifies an engine build. An engine loads only bytecode of the same build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct EngineBuild {
    /// `quickjs-ng`.
    pub name: String,
    /// Version of the engine source.
    pub version: String,
    /// Version of the bytecode format.
    pub bytecode: u32,
    /// Target triple's architecture, endianness and pointer width: `x86_64-le-64`.
    pub target: String,
}

impl std::fmt::Display for EngineBuild {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} (bytecode {}, {})", self.name, self.version, self.bytecode, self.target)
    }
}

/// Compatibility class of a finding, from harmless to refused (`docs/spec/artifact.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No restriction.
    Compatible,
    /// Works with restrictions.
    Warning,
    /// Unsafe or unsupported.
    Blocked,
}

/// One finding of the scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable code, `BD_EVAL`.
    pub code: String,
    /// Compatibility class.
    pub class: Verdict,
    /// Path inside the package.
    pub file: String,
    /// Line, 1-based.
    pub line: u32,
    /// Column, 1-based, in UTF-16 units.
    pub column: u32,
    /// Description of the finding.
    pub message: String,
    /// Instruction for resolving the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Whether the finding prevents the extension from loading, because the code always throws.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_load: bool,
}
