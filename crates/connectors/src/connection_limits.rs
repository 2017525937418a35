//! Limits the connections, name lookups and decoder memory of extensions.
//!
//! Extensions open connections, and name servers decide how long a lookup takes. So each extension has a quota of the process's
//! open files and of lookup threads, and all extensions together have a larger quota of open files; the other files remain for
//! workers, the model's connection and the host. A request waits for its quota; a connection that an extension opens by itself
//! fails with `EMFILE` instead. A response with a content coding is decoded once memory for the decoder is available.

use crate::http::address::Resolver;
use crate::lookups::{Lookups, TooManyNames};
use pijs_protocol::{ExtensionId, guard};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections of one extension, if the process may open many more files.
const MAX_CONNECTIONS: usize = 1024;
/// The connections of one extension may use 1/8 of the process's limit on open files.
const SHARE_OF_ONE: usize = 8;
/// The connections of all extensions may use 1/4 of the process's limit on open files.
const SHARE_OF_ALL: usize = 4;
/// Minimum quota of connections, even if the process has a very low limit on open files.
const LEAST_CONNECTIONS: usize = 4;
/// Idle connections are kept for the next request only if the process may open at least this many files.
const MANY_FILES: usize = 16_384;
/// Maximum number of concurrent lookups of one extension. Each occupies a thread that cannot be stopped.
const CONCURRENT_LOOKUPS: usize = 8;
/// Maximum memory in bytes for the decoders of one extension: as much as a realm has.
const DECODER_BYTES: usize = 256 << 20;
/// Unit in bytes in which the memory of decoders is counted.
const DECODER_UNIT: usize = 64 << 10;

/// Limits of all extensions.
pub(crate) struct ConnectionLimits {
    files: usize,
    all: Arc<Semaphore>,
    by_extension: Mutex<BTreeMap<ExtensionId, ExtensionLimits>>,
    /// Names looked up so far; kept when an extension restarts.
    lookups: Lookups,
}

/// Limits of one extension.
#[derive(Clone)]
struct ExtensionLimits {
    open: Arc<Semaphore>,
    look_ups: Arc<Semaphore>,
    decoders: Arc<Semaphore>,
}

/// Returns the refusal inside an error of [`ConnectionLimits::look_up`], if there is one.
pub(crate) fn too_many_names(error: &io::Error) -> Option<&TooManyNames> {
    error.get_ref()?.downcast_ref()
}

/// Permit for one connection; released on drop.
#[derive(Default)]
pub(crate) struct ConnectionPermit {
    _held: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Default for ConnectionLimits {
    /// Derives the limits from this process's limit on open files.
    fn default() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let all = (files / SHARE_OF_ALL).clamp(LEAST_CONNECTIONS, Semaphore::MAX_PERMITS);
        Self { files, all: Arc::new(Semaphore::new(all)), by_extension: Mutex::default(), lookups: Lookups::default() }
    }
}

impl ConnectionLimits {
    fn of(&self, extension: &ExtensionId) -> ExtensionLimits {
        let mut all = self.by_extension.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || ExtensionLimits {
            open: Arc::new(Semaphore::new((self.files / SHARE_OF_ONE).clamp(LEAST_CONNECTIONS, MAX_CONNECTIONS))),
            look_ups: Arc::new(Semaphore::new(CONCURRENT_LOOKUPS)),
            decoders: Arc::new(Semaphore::new(DECODER_BYTES / DECODER_UNIT)),
        };
        all.entry(extension.clone()).or_insert_with(new).clone()
    }

    /// Waits for a permit for one more connection.
    pub(crate) async fn acquire(&self, extension: &ExtensionId) -> ConnectionPermit {
        if !guard!(NetConnections) {
            return ConnectionPermit::default();
        }
        // The extension's own quota first, so that an extension over its quota does not occupy the shared one. Neither semaphore
        // is ever closed.
        let own = self.of(extension).open.acquire_owned().await;
        let all = Arc::clone(&self.all).acquire_owned().await;
        ConnectionPermit { _held: own.ok().zip(all.ok()) }
    }

    /// Returns a permit for one more connection, if one is available now.
    pub(crate) fn try_acquire(&self, extension: &ExtensionId) -> Option<ConnectionPermit> {
        if !guard!(NetConnections) {
            return Some(ConnectionPermit::default());
        }
        let own = self.of(extension).open.try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(ConnectionPermit { _held: Some((own, all)) })
    }

    /// Waits until memory for a decoder of `bytes` bytes is available.
    pub(crate) async fn acquire_decoder(&self, extension: &ExtensionId, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if !guard!(HttpDecoders) {
            return None;
        }
        let units = u32::try_from(bytes.div_ceil(DECODER_UNIT).min(DECODER_BYTES / DECODER_UNIT))
            .expect("the number of units is limited");
        // The semaphore is never closed.
        self.of(extension).decoders.acquire_many_owned(units).await.ok()
    }

    /// Returns how many idle connections to one server may stay open. Idle connections do not count toward the quota.
    pub(crate) fn max_idle(&self) -> usize {
        if self.files < MANY_FILES && guard!(NetConnections) { 0 } else { usize::MAX }
    }

    /// Resolves a name. A lookup keeps its slot until it ends, even if the caller no longer waits for it.
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

    /// Removes an extension that has ended. Permits in use are released by their owners.
    pub(crate) fn end(&self, extension: &ExtensionId) {
        self.by_extension.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }
}
