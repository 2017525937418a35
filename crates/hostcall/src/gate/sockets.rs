//! Decides connections to sockets in the file system.
//!
//! A socket connects to another process: a terminal multiplexer, an agent with keys, a container engine. Creating a file next to
//! it is harmless; connecting to it controls that process. So a grant of a folder covers sockets in the project, in the package
//! and in pi's folders, and sockets at which the extension itself listens; any other socket needs a grant that names it, or a
//! prompt.

use super::evaluation::Evaluation;
use super::listeners::ListenAddress;
use std::path::Path;

impl Evaluation<'_> {
    /// Returns whether a grant of the folder is enough to connect to a socket.
    pub(super) fn speaks_freely(&self, path: &Path) -> bool {
        self.inner.places.reads_freely(path, self.profile.own_folder(path).as_deref())
            || self.inner.listeners.is_own(&self.profile.extension, ListenAddress::Socket(path.to_owned()))
    }
}
