//! Performs Node's file operations over directory handles.
//!
//! A path of a call is made absolute lexically (as in the gate), mapped to the longest matching root, and then walked by handle
//! ([`walk`]): a link in the path is followed only after the permit has allowed its target. The operation itself acts on one name
//! in an open folder, so a concurrent rename cannot redirect it.
//!
//! Synchronous calls run on the calling thread, asynchronous ones on a blocking thread. Open files belong to their extension and
//! are closed when its realm ends.

use crate::system::{Dir, FileSystem, Mounts, Watches};
use pijs_hostcall::connector::cancelled;
use pijs_hostcall::{Access, BoxFuture, ChunkSink, Connector, Output, Permit, Request};
use pijs_protocol::call::{FileTarget, FsCall, OpenFlags};
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError, TypedCall};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

mod content;
mod error;
mod handles;
mod permitted;
mod placed_links;
mod query;
mod tree;
mod walk;
mod watch;
mod written;

pub use error::system_error;
use handles::Handles;
pub use permitted::PermittedFiles;
use tree::CopyOptions;
use walk::FinalLink;
pub(crate) use walk::Reached;

/// Serves the `fs` method.
pub struct FsConnector {
    inner: Arc<FsState>,
}

struct FsState {
    system: Arc<dyn FileSystem>,
    /// Root folders, each opened once, by path.
    roots: Mutex<BTreeMap<(PathBuf, Mounts), Arc<dyn Dir>>>,
    handles: Mutex<BTreeMap<ExtensionId, Handles>>,
    watches: Mutex<BTreeMap<ExtensionId, Weak<dyn Watches>>>,
    /// Watches that have begun, but whose changes are not yet read by a call.
    begun: Mutex<BTreeMap<ExtensionId, watch::PendingWatches>>,
    /// Limits concurrent asynchronous calls of each extension.
    call_slots: Mutex<BTreeMap<ExtensionId, Arc<Semaphore>>>,
}

/// Maximum number of concurrent asynchronous calls of one extension; Node has 4 threads for a process. Further calls wait, so
/// that the threads are shared with other extensions and the host.
const MAX_CALLS: usize = 16;

impl FsConnector {
    /// Creates a connector for the files of `system`.
    pub fn new(system: Arc<dyn FileSystem>) -> Self {
        let (roots, handles, watches, begun, call_slots) = Default::default();
        Self { inner: Arc::new(FsState { system, roots, handles, watches, begun, call_slots }) }
    }
}

impl FsConnector {
    /// Walks to the absolute `path`, for a library that opens files itself. `shown` is the path in errors.
    pub(crate) fn find(
        &self,
        permit: &Permit,
        path: &Path,
        access: Access,
        shown: &str,
    ) -> Result<Reached, HostcallError> {
        let reached = self.inner.walk(permit, path, access, FinalLink::Follow);
        reached.map_err(|failure| failure.at(&error::ErrorContext::path("open", shown)))
    }
}

impl Connector for FsConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            if let TypedCall::Fs(FsCall::Watch { begun, .. }) = &request.call {
                let begun = *begun;
                return inner.watch(request, begun, sink).await;
            }
            let call_slot = inner.call_slot(request.caller.extension()).acquire_owned().await;
            let run = move || {
                let outcome = inner.run(&request);
                drop(call_slot);
                outcome
            };
            match tokio::task::spawn_blocking(run).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    Err(HostcallError::new(ErrorCode::Internal, format!("fs: {error}")).with("reason", "invariant"))
                }
            }
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        match &request.call {
            TypedCall::Fs(FsCall::Watch { .. }) => self.inner.open_watch(request),
            _ => self.inner.run(request),
        }
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.inner.call_slots.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
        self.inner.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
        self.inner.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }
}

impl FsState {
    fn call_slot(&self, extension: &ExtensionId) -> Arc<Semaphore> {
        let mut call_slots = self.call_slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(call_slots.entry(extension.clone()).or_insert_with(|| Arc::new(Semaphore::new(MAX_CALLS))))
    }

    fn run(&self, request: &Request) -> Result<Output, HostcallError> {
        if request.cancel.is_cancelled() {
            return Err(cancelled("fs"));
        }
        let TypedCall::Fs(call) = &request.call else { return Err(request.misdirected()) };
        use FileTarget::{Handle, Path};
        match call {
            FsCall::Open { path, flags, mode } => self.open(request, path, *flags, *mode),
            FsCall::Close { fd } => self.close(request, *fd),
            FsCall::Read { fd, length, position } => self.read(request, *fd, *length, *position),
            FsCall::Write { fd, data, position } => self.write(request, *fd, data, *position),
            FsCall::Fstat { fd } => self.fstat(request, *fd),
            FsCall::Ftruncate { fd, len } => self.ftruncate(request, *fd, len.unwrap_or(0)),
            FsCall::Fsync { fd } | FsCall::Fdatasync { fd } => self.fsync(request, *fd),
            FsCall::Fchmod { fd, mode } => self.fchmod(request, *fd, *mode),
            FsCall::Futimes { fd, atime_ms, mtime_ms } => self.futimes(request, *fd, *atime_ms, *mtime_ms),
            FsCall::ReadFile { file, encoding } => self.read_file(request, file, encoding.as_deref()),
            FsCall::WriteFile { file: Handle(fd), data, .. } | FsCall::AppendFile { file: Handle(fd), data, .. } => {
                self.write_handle(request, *fd, data)
            }
            FsCall::WriteFile { file: Path(path), data, flag, mode } => {
                self.write_file(request, path, data, flag.unwrap_or(OpenFlags::WRITE), *mode)
            }
            FsCall::AppendFile { file: Path(path), data, flag, mode } => {
                self.write_file(request, path, data, flag.unwrap_or(OpenFlags::APPEND), *mode)
            }
            FsCall::Truncate { path, len } => self.truncate(request, path, len.unwrap_or(0)),
            FsCall::CopyFile { from, to, exclusive } => self.copy_file(request, from, to, *exclusive),
            FsCall::Cp { from, to, recursive, force, error_on_exist } => {
                // Node's default is to replace.
                let force = force.unwrap_or(true);
                let options = CopyOptions { recursive: *recursive, force, error_on_exist: *error_on_exist };
                self.cp(request, from, to, options)
            }
            FsCall::Stat { path } => self.stat(request, path, true),
            FsCall::Lstat { path } => self.stat(request, path, false),
            FsCall::Statfs { path } => self.statfs(request, path),
            FsCall::Readdir { path, recursive } => self.readdir(request, "scandir", path, *recursive),
            FsCall::Opendir { path, recursive } => self.readdir(request, "opendir", path, *recursive),
            FsCall::Readlink { path } => self.readlink(request, path),
            FsCall::Realpath { path } => self.realpath(request, path),
            FsCall::Access { path, mode } => self.access(request, path, mode.unwrap_or(0)),
            FsCall::Exists { path } => self.exists(request, path),
            FsCall::Mkdir { path, recursive, mode } => self.mkdir(request, path, *recursive, *mode),
            FsCall::Mkdtemp { prefix } => self.mkdtemp(request, prefix),
            FsCall::Rm { path, recursive, force } => self.rm(request, path, *recursive, *force),
            FsCall::Rmdir { path } => self.rmdir(request, path),
            FsCall::Unlink { path } => self.unlink(request, path),
            FsCall::Rename { from, to } => self.rename(request, from, to),
            FsCall::Link { from, to } => self.link(request, from, to),
            FsCall::Symlink { target, path } => self.symlink(request, target, path),
            FsCall::Chmod { path, mode } => self.chmod(request, path, *mode),
            FsCall::Utimes { path, atime_ms, mtime_ms } => {
                self.utimes(request, path, (*atime_ms, *mtime_ms), FinalLink::Follow)
            }
            FsCall::Lutimes { path, atime_ms, mtime_ms } => {
                self.utimes(request, path, (*atime_ms, *mtime_ms), FinalLink::Keep)
            }
            // `call` and `call_sync` have handled it.
            FsCall::Watch { .. } => Err(request.misdirected()),
        }
    }

    /// Returns the longest root that contains `path`, opened once.
    fn root_for(&self, permit: &Permit, path: &Path) -> std::io::Result<(PathBuf, Arc<dyn Dir>)> {
        let places = permit.places();
        let mut candidates: Vec<&Path> =
            [Some(&*places.project), Some(&*places.agent_dir), Some(&*places.temp), permit.package_root()]
                .into_iter()
                .flatten()
                .filter(|root| path.starts_with(root))
                .collect();
        // A grant for a folder does not cover file systems that are mounted inside it.
        let mounts = if permit.crosses_mounts() { Mounts::Cross } else { Mounts::Stay };
        candidates.sort_by_key(|root| std::cmp::Reverse(root.as_os_str().len()));
        for root in candidates {
            // If a root does not exist, the path is resolved from the next shorter root.
            if let Ok(dir) = self.root(root, mounts) {
                return Ok((root.to_owned(), dir));
            }
        }
        let top = Path::new("/");
        // A path outside all roots may cross file systems.
        Ok((top.to_owned(), self.root(top, Mounts::Cross)?))
    }

    fn root(&self, path: &Path, mounts: Mounts) -> std::io::Result<Arc<dyn Dir>> {
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path.to_owned(), mounts);
        if let Some(dir) = roots.get(&key) {
            return Ok(Arc::clone(dir));
        }
        let dir = self.system.open_root(path, mounts)?;
        roots.insert(key, Arc::clone(&dir));
        Ok(dir)
    }
}
