//! Holds the open files of an extension, and performs operations on them.

use super::FsState;
use super::error::{EEXIST, EMFILE, ErrorContext, FsError, bad_handle, code};
use super::query::stat_value;
use super::walk::FinalLink;
use super::written::{change_recorded, check_unchanged, record_opened};
use crate::system::{File, OpenHow};
use pijs_hostcall::derive::opening;
use pijs_hostcall::{Access, Output, Reason, Request};
use pijs_protocol::call::OpenFlags;
use pijs_protocol::{ExtensionId, HostcallError, guard};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of open files of one extension, if the process may open many more.
const MAX_OPEN: usize = 1024;
/// Divisors of the process's limit on open files: one extension may use 1/4, and all extensions together 1/2. The rest is for
/// sockets, programs, workers, and the host's own files.
const SHARE_OF_ONE: usize = 4;
const SHARE_OF_ALL: usize = 2;
/// Lowest number of an open file. Lower numbers are standard input, output and error, which an extension does not have.
const FIRST: u32 = 3;
/// Maximum number of bytes of one read.
const LONGEST_READ: u64 = 64 << 20;

/// The open files of one extension, by number.
#[derive(Default)]
pub(super) struct Handles {
    open: BTreeMap<u32, Handle>,
    /// Number of open files that the extension's watches use.
    watched: usize,
}

impl Handles {
    fn count(&self) -> usize {
        self.open.len() + self.watched
    }
}

/// Counts the files that one watch uses; released on drop.
pub(super) struct WatchedFiles {
    inner: Arc<FsState>,
    extension: ExtensionId,
    files: usize,
}

impl WatchedFiles {
    pub(super) fn new(inner: &Arc<FsState>, extension: &ExtensionId) -> Self {
        Self { inner: Arc::clone(inner), extension: extension.clone(), files: 0 }
    }

    /// Acquires one more file, or fails with `EMFILE` at the limit.
    pub(super) fn acquire(&mut self) -> Result<(), FsError> {
        let mut handles = self.inner.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.inner.system.open_files();
        let all: usize = handles.values().map(Handles::count).sum();
        let own = handles.entry(self.extension.clone()).or_default();
        let full = own.count() >= limit / SHARE_OF_ONE || all >= limit / SHARE_OF_ALL;
        if full && guard!(FsWatched) {
            return Err(code(EMFILE).into());
        }
        own.watched += 1;
        self.files += 1;
        Ok(())
    }

    /// Releases one file.
    pub(super) fn release(&mut self) {
        self.release_many(1);
    }

    fn release_many(&mut self, files: usize) {
        let mut handles = self.inner.handles.lock().unwrap_or_else(PoisonError::into_inner);
        // An extension that has ended has no entry.
        if let Some(own) = handles.get_mut(&self.extension) {
            own.watched = own.watched.saturating_sub(files);
        }
        self.files -= files;
    }
}

impl Drop for WatchedFiles {
    fn drop(&mut self) {
        self.release_many(self.files);
    }
}

/// One open file.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) flags: OpenFlags,
    /// Path at which the file was opened, without links.
    real: PathBuf,
    file: Arc<Mutex<Box<dyn File>>>,
}

impl Handle {
    pub(super) fn real(&self) -> &Path {
        &self.real
    }

    pub(super) fn file(&self) -> MutexGuard<'_, Box<dyn File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FsState {
    pub(super) fn open(
        &self,
        request: &Request,
        path: &str,
        flags: OpenFlags,
        mode: Option<u64>,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("open", path);
        let (file, real) = self.open_at(request, path, flags, mode).map_err(|failure| failure.at(&at))?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.system.open_files();
        let all: usize = handles.values().map(Handles::count).sum();
        let handles = handles.entry(request.caller.extension().clone()).or_default();
        let full = handles.open.len() >= MAX_OPEN.min(limit / SHARE_OF_ONE) || all >= limit / SHARE_OF_ALL;
        if full && guard!(FsHandles) {
            return Err(at.io(&code(EMFILE)));
        }
        // The lowest free number, as POSIX requires.
        let fd = (FIRST..).zip(handles.open.keys()).find(|(free, used)| free != *used).map(|(free, _)| free);
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_OPEN are open")]
        let fd = fd.unwrap_or(FIRST + handles.open.len() as u32);
        handles.open.insert(fd, Handle { flags, real, file: Arc::new(Mutex::new(file)) });
        Ok(Output::new(json!({ "fd": fd })))
    }

    /// Walks to a path, opens the file, and returns it with its real path.
    pub(super) fn open_at(
        &self,
        request: &Request,
        path: &str,
        flags: OpenFlags,
        mode: Option<u64>,
    ) -> Result<(Box<dyn File>, PathBuf), FsError> {
        let mode = super::content::permission_bits(mode);
        let absolute = request.permit.places().node_path(path).map_err(|_| code(super::error::EINVAL))?;
        // Exclusive creation does not follow a link, as in the system call.
        let last = if flags.nofollow || flags.exclusive { FinalLink::Keep } else { FinalLink::Follow };
        let reached = self.walk(&request.permit, &absolute, opening(flags), last)?;
        if flags.read {
            request.permit.reads_content(&reached.real);
        }
        if flags.writes() && flags.read {
            let reading = request.permit.path(Access::Read, &reached.real);
            reading.map_err(|reason| FsError::Denied("read", reason))?;
        }
        let Some(name) = &reached.name else { return Err(code(super::error::EISDIR).into()) };
        if flags.create && request.permit.only_new(&reached.real) {
            let how = OpenHow { flags: OpenFlags { exclusive: true, ..flags }, mode };
            let file = reached.dir.open(name, how).map_err(|error| match error.raw_os_error() {
                Some(EEXIST) if !flags.exclusive => FsError::Denied("write", Reason::ProtectedPath),
                _ => error.into(),
            })?;
            request.permit.made(&reached.real);
            return Ok((file, reached.real));
        }
        let file = reached.dir.open(name, OpenHow { flags, mode })?;
        if flags.writes() {
            record_opened(&request.permit, &reached.real, &*file);
        }
        if flags.read {
            check_unchanged(&request.permit, &reached.real, || file.stat())?;
        }
        Ok((file, reached.real))
    }

    pub(super) fn handle(&self, request: &Request, fd: u64, syscall: &'static str) -> Result<Handle, HostcallError> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(fd)
            .ok()
            .and_then(|fd| handles.get(request.caller.extension())?.open.get(&fd).cloned())
            .ok_or_else(|| bad_handle(syscall))
    }

    pub(super) fn close(&self, request: &Request, fd: u64) -> Result<Output, HostcallError> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let closed =
            u32::try_from(fd).ok().and_then(|fd| handles.get_mut(request.caller.extension())?.open.remove(&fd));
        closed.map(|_| Output::empty()).ok_or_else(|| bad_handle("close"))
    }

    pub(super) fn read(
        &self,
        request: &Request,
        fd: u64,
        length: u64,
        position: Option<u64>,
    ) -> Result<Output, HostcallError> {
        let handle = self.handle(request, fd, "read")?;
        if !handle.flags.read {
            return Err(bad_handle("read"));
        }
        let length = usize::try_from(length.min(LONGEST_READ)).unwrap_or(usize::MAX);
        let own = check_unchanged(&request.permit, &handle.real, || handle.file().stat());
        own.map_err(|failure| failure.at(&ErrorContext::handle("read")))?;
        let mut data = vec![0; length];
        let read = handle.file().read(position, &mut data).map_err(|error| ErrorContext::handle("read").io(&error))?;
        data.truncate(read);
        Ok(Output::new(json!({ "bytesRead": read })).with_bytes("data", data))
    }

    pub(super) fn write(
        &self,
        request: &Request,
        fd: u64,
        data: &[u8],
        position: Option<u64>,
    ) -> Result<Output, HostcallError> {
        let handle = self.handle(request, fd, "write")?;
        if !handle.flags.write {
            return Err(bad_handle("write"));
        }
        let mut file = handle.file();
        let written = change_recorded(&request.permit, &handle.real, &mut **file, |file| file.write(position, data))
            .map_err(|error| ErrorContext::handle("write").io(&error))?;
        Ok(Output::new(json!({ "bytesWritten": written })))
    }

    pub(super) fn fstat(&self, request: &Request, fd: u64) -> Result<Output, HostcallError> {
        let stat = self
            .handle(request, fd, "fstat")?
            .file()
            .stat()
            .map_err(|error| ErrorContext::handle("fstat").io(&error))?;
        Ok(Output::new(stat_value(&stat)))
    }

    pub(super) fn ftruncate(&self, request: &Request, fd: u64, len: u64) -> Result<Output, HostcallError> {
        let handle = self.handle(request, fd, "ftruncate")?;
        if !handle.flags.write {
            return Err(ErrorContext::handle("ftruncate").io(&code(super::error::EINVAL)));
        }
        let mut file = handle.file();
        change_recorded(&request.permit, &handle.real, &mut **file, |file| file.set_len(len))
            .map_err(|error| ErrorContext::handle("ftruncate").io(&error))?;
        Ok(Output::empty())
    }

    /// Returns a handle if its file may be changed, even though it may have been opened for reading only.
    fn handle_to_change(&self, request: &Request, fd: u64, syscall: &'static str) -> Result<Handle, HostcallError> {
        let handle = self.handle(request, fd, syscall)?;
        let writing = request.permit.path(Access::Write, &handle.real);
        writing.map_err(|reason| ErrorContext::handle(syscall).denied("write", reason))?;
        Ok(handle)
    }

    pub(super) fn fchmod(&self, request: &Request, fd: u64, mode: u64) -> Result<Output, HostcallError> {
        // The mask keeps twelve bits.
        let mode = (mode & 0o7777) as u32;
        let handle = self.handle_to_change(request, fd, "fchmod")?;
        change_recorded(&request.permit, &handle.real, &mut **handle.file(), |file| file.chmod(mode))
            .map_err(|error| ErrorContext::handle("fchmod").io(&error))?;
        Ok(Output::empty())
    }

    pub(super) fn futimes(&self, request: &Request, fd: u64, atime: f64, mtime: f64) -> Result<Output, HostcallError> {
        let handle = self.handle_to_change(request, fd, "futime")?;
        change_recorded(&request.permit, &handle.real, &mut **handle.file(), |file| file.utimes(atime, mtime))
            .map_err(|error| ErrorContext::handle("futime").io(&error))?;
        Ok(Output::empty())
    }

    pub(super) fn fsync(&self, request: &Request, fd: u64) -> Result<Output, HostcallError> {
        self.handle(request, fd, "fsync")?.file().sync().map_err(|error| ErrorContext::handle("fsync").io(&error))?;
        Ok(Output::new(Value::Object(Map::new())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemoryFileSystem;

    #[test]
    fn files_of_a_watch_are_released_when_it_ends() {
        let system = Arc::new(MemoryFileSystem::new());
        let inner = Arc::clone(&crate::fs::FsConnector::new(system).inner);
        let extension = ExtensionId::new("x");
        let count = || inner.handles.lock().unwrap().get(&extension).map(Handles::count);
        let (mut one, mut other) = (WatchedFiles::new(&inner, &extension), WatchedFiles::new(&inner, &extension));
        for _ in 0..3 {
            assert!(one.acquire().is_ok());
        }
        assert!(other.acquire().is_ok());
        assert_eq!(count(), Some(4));
        one.release();
        assert_eq!(count(), Some(3));
        drop(one);
        assert_eq!(count(), Some(1));
        inner.handles.lock().unwrap().remove(&extension);
        drop(other);
        assert_eq!(count(), None, "an extension that ended has nothing to give back");
    }
}
