//! Where extensions listen on this machine: who listens there may connect there, without asking.

use super::Gate;
use pijs_protocol::ExtensionId;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// The addresses that are listened at now. The system gives each to one socket at a time.
#[derive(Default)]
pub(super) struct Servers {
    open: Mutex<BTreeSet<(ExtensionId, SocketAddr)>>,
}

impl Servers {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeSet<(ExtensionId, SocketAddr)>) -> T) -> T {
        work(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_own(&self, extension: &ExtensionId, address: SocketAddr) -> bool {
        self.with(|open| open.contains(&(extension.clone(), address)))
    }
}

/// An extension listens at an address, for as long as this is kept.
#[must_use]
pub struct Listening {
    gate: Gate,
    key: (ExtensionId, SocketAddr),
}

impl Listening {
    pub(super) fn new(gate: Gate, extension: ExtensionId, address: SocketAddr) -> Self {
        let key = (extension, address);
        gate.inner.servers.with(|open| open.insert(key.clone()));
        Self { gate, key }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.gate.inner.servers.with(|open| open.remove(&self.key));
    }
}
