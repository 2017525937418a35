//! Performs `watch`: streams changes until its call is cancelled.

use super::FsState;
use super::error::{EFBIG, ErrorContext, FsError, code};
use super::handles::WatchedFiles;
use super::walk::FinalLink;
use super::written::check_unchanged;
use crate::system::{Change, Dir, Kind, WatchId, Watcher};
use pijs_hostcall::connector::cancelled;
use pijs_hostcall::{Access, ChunkSink, Output, ReadBy, Request};
use pijs_protocol::call::FsCall;
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError, TypedCall, guard};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// Maximum number of folders of one recursive watch.
const MAX_FOLDERS: usize = 8192;

/// Maximum depth of a recursive watch.
const DEEPEST: usize = 64;

/// Pause between two deliveries. Changes of the same name during the pause are merged, so that a program that writes a file a
/// million times does not overload the realm.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Watch {
    watcher: Box<dyn Watcher>,
    /// Watched folders, with their paths relative to the watched path.
    folders: BTreeMap<WatchId, (Arc<dyn Dir>, PathBuf)>,
    top: WatchId,
    /// Name reported for changes of the watched path itself.
    name: String,
    real: PathBuf,
    recursive: bool,
    /// Counts one open file for the watch and one for each watched folder.
    files: WatchedFiles,
}

/// Begun watches of an extension, by number.
#[derive(Default)]
pub(super) struct PendingWatches {
    next: u64,
    watches: BTreeMap<u64, Watch>,
}

impl FsState {
    /// Begins a watch synchronously, so that no change is missed. A call of `watch` with the watch's number as `begun` then
    /// streams the changes since.
    pub(super) fn open_watch(self: &Arc<Self>, request: &Request) -> Result<Output, HostcallError> {
        let watch = self.begin_watch(request)?;
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(request.caller.extension().clone()).or_default();
        let number = own.next;
        own.next += 1;
        own.watches.insert(number, watch);
        Ok(Output::new(json!({ "watch": number })))
    }

    fn take_begun(&self, request: &Request, number: u64) -> Result<Watch, HostcallError> {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get_mut(request.caller.extension()).and_then(|own| own.watches.remove(&number));
        found.ok_or_else(|| HostcallError::invalid("schema", format!("fs.watch: no watch {number} has begun")))
    }

    pub(super) async fn watch(
        self: &Arc<Self>,
        request: Request,
        begun: Option<u64>,
        sink: ChunkSink,
    ) -> Result<Output, HostcallError> {
        let mut watch = match begun {
            Some(number) => self.take_begun(&request, number)?,
            None => {
                let (inner, asked) = (Arc::clone(self), request.clone());
                let begun = tokio::task::spawn_blocking(move || inner.begin_watch(&asked)).await;
                begun.map_err(|error| {
                    HostcallError::new(ErrorCode::Internal, format!("fs: {error}")).with("reason", "invariant")
                })??
            }
        };
        sink.send(Output::new(json!({ "ready": true })))?;
        loop {
            sink.ready().await;
            let changes = tokio::select! {
                biased;
                () = request.cancel.cancelled() => return Err(cancelled("fs")),
                changes = std::future::poll_fn(|cx| watch.watcher.poll_changes(cx)) => changes,
            };
            let changes = changes.map_err(|error| ErrorContext::handle("watch").io(&error))?;
            let (events, over) = watch.take(changes, &request);
            for event in events {
                sink.send(Output::new(event))?;
            }
            if over {
                return Ok(Output::new(json!({ "gone": true })));
            }
            tokio::select! {
                biased;
                () = request.cancel.cancelled() => return Err(cancelled("fs")),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    fn begin_watch(self: &Arc<Self>, request: &Request) -> Result<Watch, HostcallError> {
        let TypedCall::Fs(FsCall::Watch { path, recursive, .. }) = &request.call else {
            return Err(request.misdirected());
        };
        let recursive = *recursive;
        let at = ErrorContext::path("watch", path);
        let mut files = WatchedFiles::new(self, request.caller.extension());
        files.acquire().and_then(|()| files.acquire()).map_err(|failure| failure.at(&at))?;
        let mut watcher = self.watcher(request.caller.extension()).map_err(|error| match error.kind() {
            std::io::ErrorKind::Unsupported => HostcallError::invalid(
                "unsupported",
                "fs.watch is not available on this system; poll with fs.stat or fs.watchFile instead",
            ),
            _ => at.io(&error),
        })?;
        let begun = self.reach(request, path, Access::Read, FinalLink::Follow).and_then(|reached| {
            let name = reached.real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let mut folders = BTreeMap::new();
            let kind = reached.lstat()?.kind();
            check_unchanged(&request.permit, &reached.real, || reached.lstat())?;
            let top = match kind {
                Kind::Dir => {
                    let dir = reached.as_dir()?;
                    let top = watcher.add(&*dir, None)?;
                    folders.insert(top, (dir, PathBuf::new()));
                    top
                }
                _ => watcher.add(&*reached.dir, Some(reached.named()?))?,
            };
            Ok(Watch { watcher, folders, top, name, real: reached.real, recursive, files })
        });
        let mut watch = begun.map_err(|failure| failure.at(&at))?;
        if recursive && let Some((dir, _)) = watch.folders.get(&watch.top).cloned() {
            watch.below(&dir, Path::new(""), 0, request, &mut Vec::new()).map_err(|failure| failure.at(&at))?;
        }
        Ok(watch)
    }

    /// Creates a watcher. All watchers of one extension share one instance of the system's notifications, because a user can have
    /// only few. Each extension has a separate instance, so that no extension overflows another's queue.
    fn watcher(&self, extension: &ExtensionId) -> std::io::Result<Box<dyn Watcher>> {
        let mut all = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        // An instance ends with its last watcher.
        all.retain(|_, watches| watches.strong_count() > 0);
        if let Some(watches) = all.get(extension).and_then(Weak::upgrade)
            && guard!(FsInstances)
        {
            return watches.watcher();
        }
        let watches = self.system.watches()?;
        all.insert(extension.clone(), Arc::downgrade(&watches));
        watches.watcher()
    }

    /// Returns whether an extension watches a folder, or the file `name` in it.
    pub(super) fn is_watched(&self, dir: &dyn Dir, name: &OsStr) -> bool {
        let all = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().filter_map(Weak::upgrade).any(|watches| watches.is_watched(dir, name))
    }
}

impl Watch {
    /// Watches the folders in `dir`. Adds every name to `seen`, for entries that were created before the watch began.
    fn below(
        &mut self,
        dir: &Arc<dyn Dir>,
        at: &Path,
        depth: usize,
        request: &Request,
        seen: &mut Vec<PathBuf>,
    ) -> Result<(), FsError> {
        for (entry, kind) in dir.entries()? {
            let below = at.join(&entry);
            seen.push(below.clone());
            if kind == Kind::Dir && depth < DEEPEST {
                self.folder(dir, &entry, &below, depth, request, seen)?;
            }
        }
        Ok(())
    }

    fn folder(
        &mut self,
        dir: &Arc<dyn Dir>,
        entry: &OsStr,
        at: &Path,
        depth: usize,
        request: &Request,
        seen: &mut Vec<PathBuf>,
    ) -> Result<(), FsError> {
        // Folders that may not be read, or were removed in the meantime, are skipped.
        if !matches!(request.permit.reads(&self.real.join(at)), Ok(ReadBy::Grant | ReadBy::Making(_))) {
            return Ok(());
        }
        let Ok(child) = dir.child(entry) else { return Ok(()) };
        if self.folders.len() >= MAX_FOLDERS {
            return Err(code(EFBIG).into());
        }
        self.files.acquire()?;
        let id = match self.watcher.add(&*child, None) {
            Ok(id) => id,
            Err(error) => {
                self.files.release();
                return Err(error.into());
            }
        };
        self.folders.insert(id, (Arc::clone(&child), at.to_owned()));
        self.below(&child, at, depth + 1, request, seen)
    }

    /// Returns whether the caller may be notified of a change at a path. In a folder that it may read only because it created it,
    /// changes by others are not reported.
    fn may_report(&self, at: &Path, request: &Request) -> bool {
        let is_own = || matches!(request.permit.reads(&self.real.join(at)), Ok(ReadBy::Making(_)));
        request.permit.reads(&self.real) == Ok(ReadBy::Grant) || is_own()
    }

    /// Returns the events to report, each once, and whether the watched path was removed.
    fn take(&mut self, changes: Vec<Change>, request: &Request) -> (Vec<serde_json::Value>, bool) {
        let mut events: Vec<serde_json::Value> = Vec::new();
        let mut report = |event: &str, name: &str| {
            let event = json!({ "event": event, "name": name });
            if !events.contains(&event) {
                events.push(event);
            }
        };
        let mut over = false;
        for change in changes {
            match change {
                Change::Overflow => report("overflow", ""),
                Change::Gone(watch) if watch == self.top => over = true,
                Change::Gone(watch) => {
                    if self.folders.remove(&watch).is_some() {
                        self.files.release();
                    }
                }
                Change::At { watch, name, is_rename, is_new_folder } => {
                    let event = if is_rename { "rename" } else { "change" };
                    let Some((dir, at)) = self.folders.get(&watch).cloned() else {
                        report(event, &self.name);
                        continue;
                    };
                    let Some(name) = name else {
                        // For other folders, the watch of the parent folder reports the removal.
                        if watch == self.top {
                            report(event, &self.name);
                        }
                        continue;
                    };
                    let below = at.join(&name);
                    if self.may_report(&below, request) {
                        report(event, &below.to_string_lossy());
                    }
                    if is_new_folder && self.recursive {
                        let mut seen = Vec::new();
                        // A folder that cannot be watched is skipped.
                        let _ = self.folder(&dir, &name, &below, below.iter().count(), request, &mut seen);
                        for name in seen.into_iter().filter(|name| self.may_report(name, request)) {
                            report("rename", &name.to_string_lossy());
                        }
                    }
                }
            }
        }
        (events, over)
    }
}
