//! What the connections of extensions take of the process: open files, threads that look up names, and the memory of
//! decoders.
//!
//! An extension decides how many connections there are, and whoever serves a name decides how long it takes to be found.
//! So each extension has a part of both, and all have a larger one together: what is left is for workers, for the model's
//! connection and for the host's own files. A request waits until there is room for it; a connection that an extension
//! opens by itself is refused, as by a system that has no more files. What a server codes is decoded when there is memory for it.

use crate::http::address::Resolver;
use crate::lookups::{Lookups, TooManyNames};
use pijs_protocol::{ExtensionId, guard};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of one extension, where the process may have many more files.
const MOST: usize = 1024;
/// Part of the process's files that one extension may have as connections, and part that all may.
const SHARE_OF_ONE: usize = 8;
const SHARE_OF_ALL: usize = 4;
/// Where files are so few that a part of them would be none.
const LEAST: usize = 4;
/// Files past which connections that nobody uses may be kept for the next request.
const MANY: usize = 16_384;
/// Names that one extension looks up side by side. Each has a thread that nothing can stop.
const LOOK_UPS: usize = 8;
/// Memory of the decoders of one extension, as much as a realm has; each takes some of these units.
const DECODERS: usize = 256 << 20;
const UNIT: usize = 64 << 10;

/// The connections and look-ups of all extensions.
pub(crate) struct Sockets {
    files: usize,
    all: Arc<Semaphore>,
    by_extension: Mutex<BTreeMap<ExtensionId, One>>,
    /// Kept when an extension restarts.
    lookups: Lookups,
}

/// What one extension may have.
#[derive(Clone)]
struct One {
    open: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    decoders: Arc<Semaphore>,
}

/// The refusal in an error of [`Sockets::look_up`], if it is one.
pub(crate) fn too_many_names(error: &io::Error) -> Option<&TooManyNames> {
    error.get_ref()?.downcast_ref()
}

/// Room for one connection; dropped with it.
#[derive(Default)]
pub(crate) struct Room {
    _held: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Default for Sockets {
    /// As many as this process's limit on open files allows.
    fn default() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let all = (files / SHARE_OF_ALL).clamp(LEAST, Semaphore::MAX_PERMITS);
        Self { files, all: Arc::new(Semaphore::new(all)), by_extension: Mutex::default(), lookups: Lookups::default() }
    }
}

impl Sockets {
    fn of(&self, extension: &ExtensionId) -> One {
        let mut all = self.by_extension.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || One {
            open: Arc::new(Semaphore::new((self.files / SHARE_OF_ONE).clamp(LEAST, MOST))),
            look_ups: Arc::new(Semaphore::new(LOOK_UPS)),
            decoders: Arc::new(Semaphore::new(DECODERS / UNIT)),
        };
        all.entry(extension.clone()).or_insert_with(new).clone()
    }

    /// Waits until the extension may have one more connection.
    pub(crate) async fn room(&self, extension: &ExtensionId) -> Room {
        if !guard!(NetConnections) {
            return Room::default();
        }
        // Its own first: who has enough holds up nobody else. Neither is ever closed.
        let own = self.of(extension).open.acquire_owned().await;
        let all = Arc::clone(&self.all).acquire_owned().await;
        Room { _held: own.ok().zip(all.ok()) }
    }

    /// Room for one more connection, if there is some now.
    pub(crate) fn room_now(&self, extension: &ExtensionId) -> Option<Room> {
        if !guard!(NetConnections) {
            return Some(Room::default());
        }
        let own = self.of(extension).open.try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Room { _held: Some((own, all)) })
    }

    /// Waits until there is memory for a decoder that takes so many bytes.
    pub(crate) async fn decoder(&self, extension: &ExtensionId, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if !guard!(HttpDecoders) {
            return None;
        }
        let units = u32::try_from(bytes.div_ceil(UNIT).min(DECODERS / UNIT)).expect("few units");
        // It is never closed.
        self.of(extension).decoders.acquire_many_owned(units).await.ok()
    }

    /// Connections to one server that may stay open when no request uses them. Nobody counts these.
    pub(crate) fn idle(&self) -> usize {
        if self.files < MANY && guard!(NetConnections) { 0 } else { usize::MAX }
    }

    /// All addresses of a name. A look-up that its asker no longer waits for keeps its turn until it ends.
    pub(crate) async fn look_up(
        &self,
        extension: &ExtensionId,
        resolver: &Arc<dyn Resolver>,
        name: &str,
    ) -> io::Result<Vec<IpAddr>> {
        self.lookups.note(extension, name).map_err(io::Error::other)?;
        let turn = match guard!(NetResolverThreads) {
            true => self.of(extension).look_ups.acquire_owned().await.ok(),
            false => None,
        };
        let finding = resolver.resolve(name);
        let found = tokio::spawn(async move {
            let found = finding.await;
            drop(turn);
            found
        });
        found.await.map_err(io::Error::other)?
    }

    /// The extension is gone. What it still holds it gives back by itself.
    pub(crate) fn end(&self, extension: &ExtensionId) {
        self.by_extension.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }
}
