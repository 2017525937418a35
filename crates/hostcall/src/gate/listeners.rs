//! Addresses and sockets at which extensions listen: an extension may connect to its own servers without consent.

use super::Gate;
use pijs_protocol::ExtensionId;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// An address or a socket at which an extension listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Address(SocketAddr),
    /// A socket in the file system, by its real path.
    Socket(PathBuf),
}

/// The current listeners. The system assigns each address to one socket at a time.
#[derive(Default)]
pub(super) struct Servers {
    open: Mutex<BTreeSet<(ExtensionId, Place)>>,
}

impl Servers {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeSet<(ExtensionId, Place)>) -> T) -> T {
        work(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_own(&self, extension: &ExtensionId, place: Place) -> bool {
        self.with(|open| open.contains(&(extension.clone(), place)))
    }
}

/// Keeps a listener registered until it is dropped.
#[must_use]
pub struct Listening {
    gate: Gate,
    key: (ExtensionId, Place),
}

impl Listening {
    pub(super) fn new(gate: Gate, extension: ExtensionId, place: Place) -> Self {
        let key = (extension, place);
        gate.inner.servers.with(|open| open.insert(key.clone()));
        Self { gate, key }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.gate.inner.servers.with(|open| open.remove(&self.key));
    }
}
