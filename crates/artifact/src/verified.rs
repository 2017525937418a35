//! The one type an engine loads bytecode from.

use crate::container::{Artifact, Module, decode_carried, decode_shared, decode_vouched, read_header};
use crate::error::{ArtifactError, Kind};
use crate::mac::{InstallKey, Mac, verifies};
use bytes::Bytes;
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::guard;
use std::fmt;
use std::sync::OnceLock;

/// An artifact whose bytecode may be loaded, because this installation vouches for it.
///
/// There is no way to build one from bytes of unknown origin:
///
/// ```compile_fail
/// fn forge(artifact: pijs_artifact::Artifact) -> pijs_artifact::Verified {
///     pijs_artifact::Verified { artifact }
/// }
/// ```
#[derive(Debug)]
pub struct Verified {
    artifact: Artifact,
    /// The place of sources and maps, if not in the artifact.
    texts: Option<Texts>,
}

/// Sources and maps that are read when somebody asks for one.
struct Texts {
    load: Box<dyn Fn() -> Option<Artifact> + Send + Sync>,
    /// `None`: they cannot be had.
    loaded: OnceLock<Option<Artifact>>,
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}

impl Verified {
    /// Authenticates encoded bytes, then reads them; the bytes that were checked are the bytes that are read.
    ///
    /// # Errors
    ///
    /// In this order: not an artifact of this format, compiled for another engine build, MAC does not
    /// match, malformed, a module without bytecode.
    pub fn check(
        bytes: &[u8],
        mac: &Mac,
        key: &InstallKey,
        engine: &EngineBuild,
        id: &str,
    ) -> Result<Verified, ArtifactError> {
        authenticate(bytes, mac, key, engine, id)?;
        compiled(decode_vouched(bytes)?)
    }

    /// Does so for bytes that are kept: bytecode stays where it is.
    ///
    /// # Errors
    ///
    /// As [`Verified::check`].
    pub fn check_shared(
        bytes: &Bytes,
        mac: &Mac,
        key: &InstallKey,
        engine: &EngineBuild,
        id: &str,
    ) -> Result<Verified, ArtifactError> {
        authenticate(bytes, mac, key, engine, id)?;
        compiled(decode_shared(bytes)?)
    }

    /// Reads what [`Artifact::into_texts`] kept. It is no code, and becomes none.
    ///
    /// # Errors
    ///
    /// As [`Verified::check`]; modules need no bytecode.
    pub fn check_texts(
        bytes: &[u8],
        mac: &Mac,
        key: &InstallKey,
        engine: &EngineBuild,
        id: &str,
    ) -> Result<Artifact, ArtifactError> {
        authenticate(bytes, mac, key, engine, id)?;
        decode_vouched(bytes)
    }

    /// Has sources and maps read by `load`, once, when the first is asked for. The modules are the same.
    #[must_use]
    pub fn with_texts(self, load: impl Fn() -> Option<Artifact> + Send + Sync + 'static) -> Verified {
        Verified { texts: Some(Texts { load: Box::new(load), loaded: OnceLock::new() }), ..self }
    }

    /// The source of a module; `None` for one that is not there or whose source cannot be had.
    pub fn source(&self, specifier: &str) -> Option<&str> {
        self.text(specifier).map(|module| module.source.as_str())
    }

    /// The source map of a module.
    pub fn source_map(&self, specifier: &str) -> Option<&str> {
        self.text(specifier)?.source_map.as_deref()
    }

    fn text(&self, specifier: &str) -> Option<&Module> {
        let texts = self.texts()?;
        texts.modules.iter().find(|known| known.specifier == specifier)
    }

    fn texts(&self) -> Option<&Artifact> {
        match &self.texts {
            None => Some(&self.artifact),
            Some(texts) => texts.loaded.get_or_init(|| (texts.load)()).as_ref(),
        }
    }

    /// The content with sources and maps; `None` where they cannot be had.
    pub fn whole(&self) -> Option<Artifact> {
        let mut whole = self.artifact.clone();
        if self.texts.is_some() {
            let texts = &self.texts()?.modules;
            if texts.len() != whole.modules.len() {
                return None;
            }
            for (module, text) in whole.modules.iter_mut().zip(texts) {
                *module = Module { bytecode: module.bytecode.take(), ..text.clone() };
            }
        }
        Some(whole)
    }

    /// Reads an artifact that is part of this program: whoever could change it could change the program.
    ///
    /// # Errors
    ///
    /// As [`Verified::check`], without the MAC.
    pub fn carried(bytes: &'static [u8], engine: &EngineBuild) -> Result<Verified, ArtifactError> {
        of_engine(bytes, engine)?;
        compiled(decode_carried(bytes)?)
    }

    /// Vouches for bytecode that this process compiled a moment ago and that never left its memory.
    pub fn compiled_here(artifact: Artifact) -> Verified {
        Verified { artifact, texts: None }
    }

    /// Takes over what the parent process verified, in a worker that it started.
    ///
    /// Only for modules that came over the socket a worker was born with, or in sealed memory over it: the parent holds a
    /// [`Verified`] of the same bytecode, and nobody else can write to either. A worker cannot
    /// check a MAC itself, because the key must not be where extension code runs.
    pub fn from_parent(artifact: Artifact) -> Verified {
        Verified { artifact, texts: None }
    }

    /// The content: bytecode and metadata, and sources as [`Verified::source`] gives them only where they came with it.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }
}

fn authenticate(
    bytes: &[u8],
    mac: &Mac,
    key: &InstallKey,
    engine: &EngineBuild,
    id: &str,
) -> Result<(), ArtifactError> {
    of_engine(bytes, engine)?;
    if !verifies(key, mac, bytes, engine, id) && guard!(ArtifactMac) {
        return Err(ArtifactError::new(Kind::Mac { id: id.to_owned() }));
    }
    Ok(())
}

/// Bytecode of another engine build is no bytecode.
fn of_engine(bytes: &[u8], engine: &EngineBuild) -> Result<(), ArtifactError> {
    let found = read_header(bytes)?;
    if found != *engine && guard!(ArtifactEngine) {
        return Err(ArtifactError::new(Kind::Engine { expected: Box::new(engine.clone()), found: Box::new(found) }));
    }
    Ok(())
}

fn compiled(artifact: Artifact) -> Result<Verified, ArtifactError> {
    match artifact.modules.iter().find(|module| module.bytecode.is_none()) {
        Some(module) => Err(ArtifactError::new(Kind::NoBytecode { specifier: module.specifier.clone() })),
        None => Ok(Verified { artifact, texts: None }),
    }
}
