//! Bytecode in memory that workers map: none of it crosses the socket, and what is not imported is not read.
//!
//! The host modules, and what pi supplies, are megabytes, and most workers need them at once. On the shelf they are
//! written once; a worker gets the memory beside its first message (see [`files`](crate::files)), maps it and reads what
//! it imports. No worker can change it: it is sealed for good before it is handed out.
//!
//! A worker closes the descriptors before it runs code.

use pijs_artifact::Verified;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that cross the socket sooner than a file for them is made.
const LITTLE: usize = 64 << 10;
/// Modules are small and many.
const AT_ONCE: usize = 256 << 10;

/// Memories with the code of one artifact each, kept as long as this.
#[derive(Debug, Default)]
pub struct Shelf(Mutex<Vec<Place>>);

/// The code of one artifact.
#[derive(Debug)]
struct Place {
    artifact: Arc<Verified>,
    /// Where it lies; nowhere if the system has no memory for it.
    memory: Option<Arc<OwnedFd>>,
}

impl Shelf {
    /// The memory that an artifact's code lies in, one module after the other: it is put there when it is asked for
    /// first. `None` where the system has no memory for it, then and ever after.
    pub(super) fn memory(&self, artifact: &Arc<Verified>) -> Option<Arc<OwnedFd>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.iter().find(|place| Arc::ptr_eq(&place.artifact, artifact)) {
            return place.memory.clone();
        }
        let memory = written(artifact).ok().map(Arc::new);
        places.push(Place { artifact: Arc::clone(artifact), memory: memory.clone() });
        memory
    }

    /// Memory for one worker, gone with it. `None` where the system has none, and for so little code that copying it costs less.
    pub(super) fn passing(artifact: &Verified) -> Option<Arc<OwnedFd>> {
        let code = artifact.artifact().modules.iter().filter_map(|module| module.bytecode.as_ref());
        let is_little = code.map(|bytecode| bytecode.len()).sum::<usize>() < LITTLE;
        if is_little { None } else { written(artifact).ok().map(Arc::new) }
    }
}

fn written(artifact: &Verified) -> io::Result<OwnedFd> {
    let memory = memfd_create("pijs-modules", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut writer = BufWriter::with_capacity(AT_ONCE, File::from(memory));
    for module in &artifact.artifact().modules {
        writer.write_all(module.bytecode.as_deref().unwrap_or_default())?;
    }
    let file = writer.into_inner()?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}
