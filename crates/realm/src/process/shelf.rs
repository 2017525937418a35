//! Bytecode that every worker of a program runs, in memory that they share.
//!
//! The host modules are megabytes, and each worker needs them at once. On the shelf they are written once; a worker is
//! born with it as stdout, maps it and reads what it imports. No worker can change it: it is sealed for good before
//! any of them is told that something lies there.

use pijs_artifact::Verified;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

/// Memory for the code of one artifact.
#[derive(Debug)]
pub struct Shelf {
    memory: OwnedFd,
    /// What lies there; nothing when it could not be written.
    content: OnceLock<Option<Arc<Verified>>>,
}

impl Shelf {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// The system has no such memory, or no descriptor left.
    pub fn new() -> io::Result<Self> {
        let memory = memfd_create("pijs-host-modules", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        Ok(Self { memory, content: OnceLock::new() })
    }

    /// Whether an artifact lies here: the first one that is asked for is put here.
    pub(super) fn holds(&self, artifact: &Arc<Verified>) -> bool {
        let content = self.content.get_or_init(|| self.put(artifact).is_ok().then(|| Arc::clone(artifact)));
        content.as_ref().is_some_and(|content| Arc::ptr_eq(content, artifact))
    }

    fn put(&self, artifact: &Verified) -> io::Result<()> {
        let mut file = File::from(self.memory.try_clone()?);
        for module in &artifact.artifact().modules {
            file.write_all(module.bytecode.as_deref().unwrap_or_default())?;
        }
        let for_good = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        Ok(fcntl_add_seals(&self.memory, for_good)?)
    }

    /// What a worker gets as stdout.
    pub(super) fn stdout(&self) -> io::Result<Stdio> {
        Ok(self.memory.try_clone()?.into())
    }
}
