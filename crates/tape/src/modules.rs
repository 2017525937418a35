//! Stores code on a tape: the modules of each realm, and their sources.
//!
//! A tape may come from anywhere, and an engine trusts bytecode, so a tape contains no bytecode. It contains the sources from
//! which the bytecode was compiled; a replay compiles them again and compares the digest. For modules that come with pi the tape
//! has no sources, because the replaying pi has these modules.

use crate::record::ModuleSet;
use pijs_artifact::{Artifact, Module, Verified, digest};
use pijs_engine::{ModuleSource, Nested, NestingCaps, check_nesting, compile};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// Sources of an artifact as a blob.
#[derive(Serialize, Deserialize)]
struct Sources {
    metadata: ArtifactMetadata,
    modules: Vec<Source>,
}

#[derive(Serialize, Deserialize)]
struct Source {
    specifier: String,
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_map: Option<String>,
}

/// Returns `sha256:HEX` of the specifiers and the bytecode of a module set.
pub fn code_digest(artifact: &Artifact) -> String {
    let mut hash = Sha256::new();
    for module in &artifact.modules {
        let bytecode = module.bytecode.as_deref().unwrap_or_default();
        for part in [module.specifier.as_bytes(), bytecode] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    format!("sha256:{}", hex::encode(hash.finalize()))
}

/// Describes a module set. Also returns its sources, if it has them.
pub(crate) fn describe(verified: &Verified) -> (ModuleSet, Option<Vec<u8>>) {
    let artifact = verified.artifact();
    let metadata = &artifact.metadata;
    let modules = ModuleSet {
        name: metadata.name.clone(),
        version: metadata.version.clone(),
        digest: code_digest(artifact),
        source: None,
    };
    let whole = verified.whole().unwrap_or_else(|| artifact.clone());
    let has_sources = whole.modules.iter().any(|module| !module.source.is_empty());
    let source = |module: &Module| Source {
        specifier: module.specifier.clone(),
        source: module.source.clone(),
        source_map: module.source_map.clone(),
    };
    let sources = has_sources.then(|| {
        let modules = whole.modules.iter().map(source).collect();
        serde_json::to_vec(&Sources { metadata: metadata.clone(), modules }).expect("metadata serializes to JSON")
    });
    (modules, sources)
}

/// Returns the sources without secrets. Sources that contained secrets compile to different bytecode, so their description is
/// updated.
pub(crate) fn without_secrets(
    sources: Vec<u8>,
    set: &mut ModuleSet,
    change: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, ModuleError> {
    let Some(changed) = change(&sources) else { return Ok(sources) };
    set.digest = compile_sources(&changed)?.1;
    Ok(changed)
}

/// Reason why modules of a tape are not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleError {
    /// The blob is not on the tape or does not contain sources.
    Sources(String),
    /// The engine cannot compile the sources.
    Compile(String),
    /// The sources compile to bytecode other than was recorded.
    Differs {
        /// Name of the module set.
        name: String,
        /// Digest on the tape.
        recorded: String,
        /// Digest in this build.
        here: String,
    },
    /// The modules come with pi, and this pi has a different version.
    Absent {
        /// Name and version of the module set.
        name: String,
    },
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sources(error) => write!(f, "the sources of an extension on the tape cannot be read: {error}"),
            Self::Compile(error) => write!(f, "an extension on the tape does not compile: {error}"),
            Self::Differs { name, recorded, here } => {
                write!(f, "`{name}` compiles to another digest than was recorded: {here}, not {recorded}")
            }
            Self::Absent { name } => write!(f, "this pi does not have the modules of `{name}` that were recorded"),
        }
    }
}

impl std::error::Error for ModuleError {}

/// Maximum size of the sources of one artifact in bytes, as in a build.
const MAX_SOURCE_BYTES: usize = 128 << 20;

/// Nesting limits of a build. Bundles have an average of some ten brackets around each byte; the parser reads sources within
/// these limits in seconds.
const CAPS: NestingCaps = NestingCaps { brackets: 1_000, operators: 20_000, depth_bytes: 2 << 30 };

/// Rejects sources that no build would have accepted: the sources of a tape may come from anywhere and are compiled in this
/// process.
fn check(modules: &[Source]) -> Result<(), ModuleError> {
    if !guard!(TapeSources) {
        return Ok(());
    }
    let bytes: usize = modules.iter().map(|module| module.source.len()).sum();
    if bytes > MAX_SOURCE_BYTES {
        return Err(ModuleError::Sources(format!("they have more than {MAX_SOURCE_BYTES} bytes")));
    }
    modules.iter().try_for_each(|module| {
        let refused = |nested: Nested| ModuleError::Sources(format!("{}: {}", module.specifier, nested.message));
        check_nesting(&module.source, &CAPS).map_err(refused)
    })
}

/// Compiles the sources of a blob. Returns the modules and their digest.
pub(crate) fn compile_sources(blob: &[u8]) -> Result<(Arc<Verified>, String), ModuleError> {
    let Sources { metadata, modules } =
        serde_json::from_slice(blob).map_err(|error| ModuleError::Sources(error.to_string()))?;
    check(&modules)?;
    let sources: Vec<ModuleSource<'_>> =
        modules.iter().map(|module| ModuleSource { specifier: &module.specifier, source: &module.source }).collect();
    let bytecode = compile(&sources).map_err(|error| ModuleError::Compile(error.to_string()))?;
    let module = |(source, bytecode): (Source, Vec<u8>)| Module {
        specifier: source.specifier,
        source: source.source,
        source_map: source.source_map,
        bytecode: Some(bytecode.into()),
    };
    let modules = modules.into_iter().zip(bytecode).map(module).collect();
    let artifact = Artifact { metadata, modules };
    let digest = code_digest(&artifact);
    Ok((Arc::new(Verified::compiled_here(artifact)), digest))
}

/// Returns `sha256:HEX` of a blob.
pub(crate) fn blob_digest(bytes: &[u8]) -> String {
    digest(bytes)
}
