//! Whose sockets may be spoken to.
//!
//! A socket in the file system is a door to whoever listens there: a terminal multiplexer, an agent that holds keys, a
//! container engine. Writing beside it is harmless, speaking to it is what that program does. So a grant that covers a
//! folder opens the sockets that lie in the project, in the package and in pi's folders, and those that the extension
//! itself listens at; any other has to be named, or asked about.

use super::case::Case;
use super::servers::Place;
use std::path::Path;

impl Case<'_> {
    /// Whether a grant for the folder is enough for speaking to a socket.
    pub(super) fn speaks_freely(&self, path: &Path) -> bool {
        self.inner.places.reads_freely(path, self.profile.own_folder(path).as_deref())
            || self.inner.servers.is_own(&self.profile.extension, Place::Socket(path.to_owned()))
    }
}
