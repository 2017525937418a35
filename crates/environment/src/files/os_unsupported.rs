//! File access on platforms without the directory handles that this crate needs: every operation fails.

use super::{Dir, FileSystem, Mounts};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The operating system's files; not available on this platform.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFileSystem;

impl OsFileSystem {
    /// Returns a file system whose operations fail.
    pub fn new() -> Self {
        Self
    }
}

impl FileSystem for OsFileSystem {
    fn open_root(&self, _path: &Path, _mounts: Mounts) -> io::Result<Arc<dyn Dir>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "access to files is not supported on this platform"))
    }

    fn random_name(&self) -> String {
        String::new()
    }
}
