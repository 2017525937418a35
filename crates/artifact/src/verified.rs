//! Verified artifacts, the only type that an engine loads bytecode from.

use crate::container::{Artifact, Module, decode_authenticated, decode_embedded, decode_shared, read_header};
use crate::error::{ArtifactError, ErrorKind};
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
    /// Sources and maps that are not in the artifact.
    texts: Option<LazyTexts>,
}

/// Sources and maps that are loaded on demand.
struct LazyTexts {
    load: Box<dyn Fn() -> Option<Artifact> + Send + Sync>,
    /// The loaded artifact; `None` if it cannot be loaded.
    loaded: OnceLock<Option<Artifact>>,
}

impl fmt::Debug for LazyTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}

impl Verified {
    /// Authenticates encoded bytes, and decodes the same bytes.
    ///
    /// # Errors
    ///
    /// In this order: not an artifact of this format, compiled for another engine build, MAC does not match, malformed, a module
    /// without bytecode.
    pub fn check(
        bytes: &[u8],
        mac: &Mac,
        key: &InstallKey,
        engine: &EngineBuild,
        id: &str,
    ) -> Result<Verified, ArtifactError> {
        authenticate(bytes, mac, key, engine, id)?;
        compiled(decode_authenticated(bytes)?)
    }

    /// Authenticates and decodes bytes without copying the bytecode.
    ///
    /// # Errors
    ///
    /// Fails as [`Verified::check`] does.
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

    /// Authenticates and decodes the output of [`Artifact::into_texts`], which contains no code.
    ///
    /// # Errors
    ///
    /// Fails as [`Verified::check`] does, but modules need no bytecode.
    pub fn check_texts(
        bytes: &[u8],
        mac: &Mac,
        key: &InstallKey,
        engine: &EngineBuild,
        id: &str,
    ) -> Result<Artifact, ArtifactError> {
        authenticate(bytes, mac, key, engine, id)?;
        decode_authenticated(bytes)
    }

    /// Loads sources and maps with `load`, once, on the first access. The loaded artifact must have the same modules.
    #[must_use]
    pub fn with_texts(self, load: impl Fn() -> Option<Artifact> + Send + Sync + 'static) -> Verified {
        Verified { texts: Some(LazyTexts { load: Box::new(load), loaded: OnceLock::new() }), ..self }
    }

    /// Returns the source of a module; `None` for an unknown module, or when the source cannot be loaded.
    pub fn source(&self, specifier: &str) -> Option<&str> {
        self.text(specifier).map(|module| module.source.as_str())
    }

    /// Returns the source map of a module.
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

    /// Returns the content with sources and maps; `None` when they cannot be loaded.
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

    /// Decodes an artifact that is part of this program and as trustworthy as the program itself.
    ///
    /// # Errors
    ///
    /// Fails as [`Verified::check`] does, except that there is no MAC.
    pub fn embedded(bytes: &'static [u8], engine: &EngineBuild) -> Result<Verified, ArtifactError> {
        of_engine(bytes, engine)?;
        compiled(decode_embedded(bytes)?)
    }

    /// Trusts bytecode that this process has compiled and that never left its memory.
    pub fn compiled_here(artifact: Artifact) -> Verified {
        Verified { artifact, texts: None }
    }

    /// Trusts the parent process's verification, in a worker that it started.
    ///
    /// Only for modules that arrived over the worker's initial socket, or in sealed memory passed over it: the parent holds a
    /// [`Verified`] of the same bytecode, and no other process can write to either. A worker cannot check a MAC itself, because
    /// the key must not be in a process that runs extension code.
    pub fn from_parent(artifact: Artifact) -> Verified {
        Verified { artifact, texts: None }
    }

    /// Returns the content: bytecode and metadata, and sources only if they were decoded with it; see [`Verified::source`].
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
        return Err(ArtifactError::new(ErrorKind::Mac { id: id.to_owned() }));
    }
    Ok(())
}

/// Refuses bytecode of another engine build.
fn of_engine(bytes: &[u8], engine: &EngineBuild) -> Result<(), ArtifactError> {
    let found = read_header(bytes)?;
    if found != *engine && guard!(ArtifactEngine) {
        return Err(ArtifactError::new(ErrorKind::Engine {
            expected: Box::new(engine.clone()),
            found: Box::new(found),
        }));
    }
    Ok(())
}

fn compiled(artifact: Artifact) -> Result<Verified, ArtifactError> {
    match artifact.modules.iter().find(|module| module.bytecode.is_none()) {
        Some(module) => Err(ArtifactError::new(ErrorKind::NoBytecode { specifier: module.specifier.clone() })),
        None => Ok(Verified { artifact, texts: None }),
    }
}
