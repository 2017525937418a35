//! Defines what a replay needs in addition to the tape (engine, modules and realms), and the reasons to reject a tape.

use crate::error::TapeError;
use crate::modules::{ModuleError, code_digest, compile_sources};
use crate::reader::TapeReader;
use crate::record::{ModuleSet, Opening};
use pijs_artifact::{Artifact, PositionMap, Verified};
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{ErrorCode, Now, Yield};
use pijs_realm::{Realm, SyncHost};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// Maximum memory of a realm on a tape, in bytes; `max_memory_mb` of a session may be larger.
const MAX_MEMORY: u64 = 16 << 30;

/// Minimum stack of a realm, in bytes.
const LEAST_STACK: u64 = 256 << 10;

/// Provides what a replay needs in addition to the tape.
pub trait ReplayServices {
    /// Returns the engine that runs the realms.
    fn engine(&self) -> EngineBuild;

    /// Returns the digest of this build's host modules, see [`code_digest`].
    fn host_modules(&self) -> String;

    /// Returns the modules that replace an extension's recorded modules; `None` keeps those of the tape.
    fn replacement(&self, _recorded: &ModuleSet) -> Option<Arc<Verified>> {
        None
    }

    /// Returns modules that come with pi; `None` if this pi has no module set of that name.
    fn modules(&self, modules: &ModuleSet) -> Option<Arc<Verified>>;

    /// Returns the source maps of an extension's modules, for [`locate`](crate::locate).
    fn positions(&self, _artifact: &Artifact) -> Option<Box<dyn PositionMap>> {
        None
    }

    /// Opens a realm and evaluates its runtime.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the realm cannot be opened.
    fn open(
        &self,
        options: &RealmOptions,
        modules: Vec<Arc<Verified>>,
        now: Now,
        host: &mut dyn SyncHost,
    ) -> Result<(Box<dyn Realm>, Yield), String>;
}

/// Options of a replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayOptions {
    /// Number of the tick after which the replay stops; `None` replays the whole tape.
    pub until: Option<u64>,
    /// Number of the tick from which on outputs are compared; `None` compares all.
    pub from: Option<u64>,
    /// Whether to replay a tape whose engine or host modules differ from this build's.
    pub accept_build: bool,
}

/// Reason why a tape cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// The tape cannot be read.
    Tape(TapeError),
    /// The engine or the host modules differ from those of the recording. Contains the differences.
    Build(Vec<String>),
    /// Modules of a realm are not available.
    Modules(ModuleError),
    /// A realm of the tape has limits that no session has.
    Limits,
    /// A realm cannot be opened.
    Open(String),
}

impl ReplayError {
    /// Returns the error's code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Tape(error) => error.code(),
            Self::Build(_) | Self::Modules(_) | Self::Limits => ErrorCode::InvalidRequest,
            Self::Open(_) => ErrorCode::Io,
        }
    }

    /// Returns the next step for the user.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Tape(error) => error.help(),
            Self::Build(_) => "replay it with the pi that recorded it, or pass --accept-build and expect differences",
            Self::Modules(ModuleError::Absent { .. } | ModuleError::Differs { .. }) => {
                "replay it with the pi that recorded it, or pass --accept-build"
            }
            Self::Modules(_) | Self::Limits => "record the session again",
            Self::Open(_) => "try the other kind of realm: --isolation thread or process",
        }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tape(error) => error.fmt(f),
            Self::Build(differences) => {
                write!(f, "this tape was recorded by another build: {}", differences.join("; "))
            }
            Self::Modules(error) => error.fmt(f),
            Self::Limits => f.write_str("a realm of the tape has limits that no session has"),
            Self::Open(error) => write!(f, "a realm of the tape cannot be opened: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<TapeError> for ReplayError {
    fn from(error: TapeError) -> Self {
        Self::Tape(error)
    }
}

impl From<ModuleError> for ReplayError {
    fn from(error: ModuleError) -> Self {
        Self::Modules(error)
    }
}

/// Returns whether a session may have these limits. A tape may come from anywhere, and must not exhaust this machine.
pub(crate) fn are_usual(limits: &Limits) -> bool {
    let usual = Limits::default();
    limits.jobs <= usual.jobs
        && limits.fuel <= usual.fuel
        && limits.stream_fuel <= usual.stream_fuel
        && limits.timers <= usual.timers
        // A stack of 0 bytes would mean no limit.
        && (LEAST_STACK..=usual.stack_bytes).contains(&limits.stack_bytes)
        && limits.memory_bytes <= MAX_MEMORY
}

/// Returns the modules of a realm: a replacement, the modules of the tape, or modules that come with pi.
pub(crate) fn modules_of<R: Read>(
    opening: &Opening,
    tape: &TapeReader<R>,
    services: &dyn ReplayServices,
    known: &mut BTreeMap<String, Arc<Verified>>,
    options: ReplayOptions,
) -> Result<Vec<Arc<Verified>>, ModuleError> {
    let modules_of = |set: &ModuleSet| {
        if let Some(modules) = known.get(&set.digest) {
            return Ok(Arc::clone(modules));
        }
        if let Some(replacement) = set.source.as_ref().and_then(|_| services.replacement(set)) {
            known.insert(set.digest.clone(), Arc::clone(&replacement));
            return Ok(replacement);
        }
        let (modules, here) = match &set.source {
            Some(blob) => {
                let blob = tape.blob(blob).ok_or_else(|| ModuleError::Sources("they are missing".to_owned()))?;
                compile_sources(&blob)?
            }
            None => {
                let name = format!("{} {}", set.name, set.version);
                let modules = services.modules(set).ok_or(ModuleError::Absent { name })?;
                let here = code_digest(modules.artifact());
                (modules, here)
            }
        };
        if here != set.digest && !options.accept_build {
            let (name, recorded) = (set.name.clone(), set.digest.clone());
            return Err(ModuleError::Differs { name, recorded, here });
        }
        known.insert(set.digest.clone(), Arc::clone(&modules));
        Ok(modules)
    };
    opening.modules.iter().map(modules_of).collect()
}
