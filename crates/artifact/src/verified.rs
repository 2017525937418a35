//! The one type an engine loads bytecode from.

use crate::container::{Artifact, decode_carried, decode_vouched, read_header};
use crate::error::{ArtifactError, Kind};
use crate::mac::{InstallKey, Mac, verifies};
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::guard;

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
        of_engine(bytes, engine)?;
        if !verifies(key, mac, bytes, engine, id) && guard::is_up("artifact.mac") {
            return Err(ArtifactError::new(Kind::Mac { id: id.to_owned() }));
        }
        compiled(decode_vouched(bytes)?)
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
        Verified { artifact }
    }

    /// Takes over what the parent process verified, in a worker that it started.
    ///
    /// Only for modules that came over the socket a worker was born with, or in sealed memory over it: the parent holds a
    /// [`Verified`] of the same bytecode, and nobody else can write to either. A worker cannot
    /// check a MAC itself, because the key must not be where extension code runs.
    pub fn from_parent(artifact: Artifact) -> Verified {
        Verified { artifact }
    }

    /// The content.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }
}

/// Bytecode of another engine build is no bytecode.
fn of_engine(bytes: &[u8], engine: &EngineBuild) -> Result<(), ArtifactError> {
    let found = read_header(bytes)?;
    if found != *engine && guard::is_up("artifact.engine") {
        return Err(ArtifactError::new(Kind::Engine { expected: Box::new(engine.clone()), found: Box::new(found) }));
    }
    Ok(())
}

fn compiled(artifact: Artifact) -> Result<Verified, ArtifactError> {
    match artifact.modules.iter().find(|module| module.bytecode.is_none()) {
        Some(module) => Err(ArtifactError::new(Kind::NoBytecode { specifier: module.specifier.clone() })),
        None => Ok(Verified { artifact }),
    }
}
