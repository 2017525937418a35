//! Keeps bytecode in shared memory that workers map, so that it is not sent over the socket, and modules that are not imported
//! are not read.
//!
//! The host modules and the modules that pi supplies have megabytes of bytecode, and most workers need them. They are written to
//! memory once; a worker gets the descriptor with its first message (see [`files`](crate::files)), maps it and reads the modules
//! that it imports. The memory is sealed before it is passed on, so no worker can change it.
//!
//! A worker closes the descriptors before it runs code.

use pijs_artifact::Verified;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Size in bytes up to which sending code is cheaper than creating a file for it.
const MIN_FILE_BYTES: usize = 64 << 10;
/// Bytes per write, because modules are small and numerous.
const WRITE_BYTES: usize = 256 << 10;

/// Memory files with the code of one artifact each, kept for the life of this value.
#[derive(Debug, Default)]
pub struct SharedCode(Mutex<Vec<SharedArtifact>>);

/// The code of one artifact.
#[derive(Debug)]
struct SharedArtifact {
    artifact: Arc<Verified>,
    /// The memory file with the code; `None` if the system could not create one.
    memory: Option<Arc<OwnedFd>>,
}

impl SharedCode {
    /// Returns the memory file with an artifact's code, in which the modules are contiguous. The first request creates it.
    /// `None`, also for later requests, if the system could not create it.
    pub(super) fn memory(&self, artifact: &Arc<Verified>) -> Option<Arc<OwnedFd>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.iter().find(|place| Arc::ptr_eq(&place.artifact, artifact)) {
            return place.memory.clone();
        }
        let memory = written_memory(artifact).ok().map(Arc::new);
        places.push(SharedArtifact { artifact: Arc::clone(artifact), memory: memory.clone() });
        memory
    }

    /// Creates a memory file for a single worker. `None` if the system cannot create it, or if the code is so small that copying
    /// costs less.
    pub(super) fn one_time_memory(artifact: &Verified) -> Option<Arc<OwnedFd>> {
        let code = artifact.artifact().modules.iter().filter_map(|module| module.bytecode.as_ref());
        let is_little = code.map(|bytecode| bytecode.len()).sum::<usize>() < MIN_FILE_BYTES;
        if is_little { None } else { written_memory(artifact).ok().map(Arc::new) }
    }
}

fn written_memory(artifact: &Verified) -> io::Result<OwnedFd> {
    let memory = memfd_create("pijs-modules", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut writer = BufWriter::with_capacity(WRITE_BYTES, File::from(memory));
    for module in &artifact.artifact().modules {
        writer.write_all(module.bytecode.as_deref().unwrap_or_default())?;
    }
    let file = writer.into_inner()?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}
