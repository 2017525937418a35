//! Whose sockets may be spoken to.
//!
//! A socket in the file system is a door to whoever listens there: a terminal multiplexer, an agent that holds keys, a
//! container engine. Writing beside it is harmless, speaking to it is what that program does. So a grant that covers a
//! folder opens the sockets that lie in the project, in the package and in pi's folders, and those that the extension
//! itself listens at; any other has to be named, or asked about.

use super::case::Case;
use pijs_protocol::ExtensionId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Sockets that extensions listen at.
#[derive(Default)]
pub(super) struct Sockets(Mutex<BTreeMap<ExtensionId, BTreeSet<PathBuf>>>);

impl Sockets {
    fn with<R>(&self, extension: &ExtensionId, work: impl FnOnce(&mut BTreeSet<PathBuf>) -> R) -> R {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(all.entry(extension.clone()).or_default())
    }

    /// Notes that an extension listens there, or does no longer.
    pub(super) fn note(&self, extension: &ExtensionId, path: &Path, listens: bool) {
        self.with(extension, |own| if listens { own.insert(path.to_owned()) } else { own.remove(path) });
    }

    fn is_own(&self, extension: &ExtensionId, path: &Path) -> bool {
        self.with(extension, |own| own.contains(path))
    }
}

impl Case<'_> {
    /// Whether a grant for the folder is enough for speaking to a socket.
    pub(super) fn speaks_freely(&self, path: &Path) -> bool {
        self.inner.places.reads_freely(path, self.profile.package_root.as_deref())
            || self.inner.sockets.is_own(&self.profile.extension, path)
    }
}
