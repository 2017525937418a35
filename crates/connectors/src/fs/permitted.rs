//! Gives tools that the host runs on an extension's behalf access to files under the caller's permit.
//!
//! A tool such as `grep` accesses files that no call named. Each is resolved step by step, as a path of the `fs` method is, so
//! the permit decides about the file that is really accessed, even through links.

use super::content::{read_all, write_all};
use super::error::{EISDIR, ENOENT, ErrorContext, FsError, code};
use super::walk::FinalLink;
use super::written::check_unchanged;
use super::{FsConnector, FsState};
use crate::system::{File, Kind, OpenHow};
use pijs_hostcall::places::normal;
use pijs_hostcall::{Access, CancelToken, Permit};
use pijs_protocol::call::OpenFlags;
use pijs_protocol::{ErrorCode, HostcallError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl FsConnector {
    /// Returns access to the files that `permit` allows. Cancelling `cancel` stops a read in progress.
    pub fn permitted(&self, permit: Permit, cancel: CancelToken) -> PermittedFiles {
        PermittedFiles { inner: Arc::clone(&self.inner), permit, cancel }
    }
}

/// Whole-file operations under a permit. Paths are absolute. A refusal has the code `denied` and does not reveal whether the file
/// exists.
#[derive(Clone)]
pub struct PermittedFiles {
    inner: Arc<FsState>,
    permit: Permit,
    cancel: CancelToken,
}

impl PermittedFiles {
    /// Reads a regular file.
    pub async fn read(&self, path: &Path) -> Result<Vec<u8>, HostcallError> {
        self.blocking(path, |this, path, shown| {
            let flags = OpenFlags { read: true, ..OpenFlags::default() };
            let mut file = this.open(path, flags).map_err(|failure| failure.at(&ErrorContext::path("open", shown)))?;
            read_all(&mut *file, &this.cancel, shown)
        })
        .await
    }

    /// Replaces or creates a file, and creates missing folders above it.
    pub async fn write(&self, path: &Path, data: Vec<u8>) -> Result<(), HostcallError> {
        self.blocking(path, move |this, path, shown| {
            let at = ErrorContext::path("open", shown);
            let replace = || {
                this.allowed(path, Access::Write)?;
                this.inner.replace(&this.permit, path, &data, 0o666)
            };
            let replaced = match replace() {
                Err(FsError::Io(error)) if error.raw_os_error() == Some(ENOENT) => {
                    let parent = path.parent().unwrap_or(path);
                    this.inner.mkdir_all(&this.permit, parent, 0o777).and_then(|_| replace())
                }
                other => other,
            };
            if replaced.map_err(|failure| failure.at(&at))?.is_some() {
                return Ok(());
            }
            let flags = OpenFlags { write: true, create: true, truncate: true, ..OpenFlags::default() };
            let mut file = this.open(path, flags).map_err(|failure| failure.at(&at))?;
            write_all(&mut *file, &data).map_err(|error| ErrorContext::path("write", shown).io(&error))
        })
        .await
    }

    /// Returns the kind of a file; follows links.
    pub async fn kind(&self, path: &Path) -> Result<Kind, HostcallError> {
        self.blocking(path, |this, path, shown| {
            let stat = this
                .allowed(path, Access::Read)
                .and_then(|()| this.inner.walk(&this.permit, path, Access::Read, FinalLink::Follow))
                .and_then(|reached| Ok(reached.lstat()?));
            stat.map(|stat| stat.kind()).map_err(|failure| failure.at(&ErrorContext::path("stat", shown)))
        })
        .await
    }

    /// Lists a folder, sorted by name; does not follow links in it.
    pub async fn list(&self, path: &Path) -> Result<Vec<(OsString, Kind)>, HostcallError> {
        self.blocking(path, |this, path, shown| {
            let listed = this
                .allowed(path, Access::Read)
                .and_then(|()| this.inner.walk(&this.permit, path, Access::Read, FinalLink::Follow))
                .and_then(|reached| Ok(reached.as_dir()?.entries()?));
            listed.map_err(|failure| failure.at(&ErrorContext::path("scandir", shown)))
        })
        .await
    }

    fn open(&self, path: &Path, flags: OpenFlags) -> Result<Box<dyn File>, FsError> {
        let access = if flags.writes() { Access::Write } else { Access::Read };
        self.allowed(path, access)?;
        let reached = self.inner.walk(&self.permit, path, access, FinalLink::Follow)?;
        if flags.read {
            self.permit.reads_content(&reached.real);
        }
        match &reached.name {
            Some(name) => {
                let file = reached.dir.open(name, OpenHow { flags, mode: 0o666 })?;
                if flags.read {
                    check_unchanged(&self.permit, &reached.real, || file.stat())?;
                }
                Ok(file)
            }
            None => Err(code(EISDIR).into()),
        }
    }

    /// Checks the permit for the path as named, before the file system is accessed.
    fn allowed(&self, path: &Path, access: Access) -> Result<(), FsError> {
        self.permit.path(access, path).map_err(|reason| FsError::Denied(access.capability(), reason))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce(&Self, &PathBuf, &str) -> Result<T, HostcallError> + Send + 'static,
    ) -> Result<T, HostcallError> {
        let this = self.clone();
        let path = normal(Path::new("/"), path);
        let done = tokio::task::spawn_blocking(move || work(&this, &path, &path.to_string_lossy())).await;
        done.unwrap_or_else(|error| {
            Err(HostcallError::new(ErrorCode::Internal, format!("fs: {error}")).with("reason", "invariant"))
        })
    }
}
