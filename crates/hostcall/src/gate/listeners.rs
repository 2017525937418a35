//! Tracks the addresses and sockets at which extensions listen: an extension may connect to its own servers without consent.

use super::Gate;
use pijs_protocol::ExtensionId;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// An address or a socket at which an extension listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListenAddress {
    Address(SocketAddr),
    /// A socket in the file system, by its real path.
    Socket(PathBuf),
}

/// The current listeners. The system assigns each address to one socket at a time.
#[derive(Default)]
pub(super) struct Listeners {
    open: Mutex<BTreeSet<(ExtensionId, ListenAddress)>>,
}

impl Listeners {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeSet<(ExtensionId, ListenAddress)>) -> T) -> T {
        work(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_own(&self, extension: &ExtensionId, place: ListenAddress) -> bool {
        self.with(|open| open.contains(&(extension.clone(), place)))
    }
}

/// Keeps a listener registered until it is dropped.
#[must_use]
pub struct Listening {
    gate: Gate,
    key: (ExtensionId, ListenAddress),
}

impl Listening {
    pub(super) fn new(gate: Gate, extension: ExtensionId, place: ListenAddress) -> Self {
        let key = (extension, place);
        gate.inner.listeners.with(|open| open.insert(key.clone()));
        Self { gate, key }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.gate.inner.listeners.with(|open| open.remove(&self.key));
    }
}
