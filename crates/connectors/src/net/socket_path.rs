//! Resolves a socket's path to a name in an open folder.
//!
//! The folder is opened without following links, after the permit has allowed its real path. The socket is connected to, created
//! and removed through that folder, so a later change of the path has no effect (on Linux, where an open folder has a stable path
//! in `/proc`).

use super::failed;
use pijs_hostcall::gate::Listening;
use pijs_hostcall::places::normal;
use pijs_hostcall::{Access, Reason, Request};
use pijs_protocol::{HostcallError, guard};
use rustix::fs::{AtFlags, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Location of an existing or future socket.
pub(super) struct SocketPath {
    folder: File,
    name: OsString,
    /// The full path without links.
    real: PathBuf,
}

/// A listening socket's file, removed on drop.
pub(super) struct BoundSocket {
    path: SocketPath,
    /// Device and inode of the file, so that another file with the same name is not removed.
    identity: Option<(rustix::fs::Dev, u64)>,
    _known: Listening,
}

impl SocketPath {
    /// Resolves a path and checks the permit for its real location.
    pub(super) fn of(request: &Request, path: &str, access: Access) -> Result<Self, HostcallError> {
        let named = normal(&request.permit.places().project, Path::new(path));
        let denied = |reason: Reason| reason.refusal("net", "write", path);
        let missing = |error: io::Error| failed(&error, "connect").with("path", path);
        request.permit.path(access, &named).map_err(denied)?;
        let name =
            named.file_name().ok_or_else(|| HostcallError::invalid("path", "net: the path does not name a socket"))?;
        let folder = std::fs::canonicalize(named.parent().unwrap_or(&named)).map_err(missing)?;
        let mut real = folder.join(name);
        // A link at the end is resolved, so that the permit is checked for its target as well.
        if let Ok(followed) = std::fs::canonicalize(&real) {
            real = followed;
        }
        if guard!(NetSocketPath) {
            request.permit.path(access, &real).map_err(denied)?;
        }
        let folder = crate::system::open_folder(real.parent().unwrap_or(&real)).map_err(missing)?;
        let name = real.file_name().unwrap_or(name).to_owned();
        Ok(Self { folder, name, real })
    }

    /// Connects to the file that now has the name. Does not follow a link.
    pub(super) async fn connect(&self) -> io::Result<UnixStream> {
        if !has_stable_path() {
            return UnixStream::connect(&self.real).await;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = rustix::fs::openat(&self.folder, &self.name, flags, rustix::fs::Mode::empty())?;
        UnixStream::connect(descriptor_path(&socket)).await
    }

    /// Creates the socket and listens.
    pub(super) fn bind(self, request: &Request) -> io::Result<(UnixListener, BoundSocket)> {
        let at = if has_stable_path() { descriptor_path(&self.folder).join(&self.name) } else { self.real.clone() };
        let listener = UnixListener::bind(at)?;
        let _known = request.permit.listens_at(&self.real);
        Ok((listener, BoundSocket { identity: self.identity(), path: self, _known }))
    }

    fn identity(&self) -> Option<(rustix::fs::Dev, u64)> {
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }
}

/// Returns whether an open folder has a stable path (`/proc/self/fd/N`).
fn has_stable_path() -> bool {
    cfg!(target_os = "linux") && guard!(NetStablePath)
}

fn descriptor_path(open: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()))
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if !guard!(NetStablePath) {
            let _ = std::fs::remove_file(&self.path.real);
        } else if self.identity.is_some() && self.path.identity() == self.identity {
            let _ = rustix::fs::unlinkat(&self.path.folder, &self.path.name, AtFlags::empty());
        }
    }
}
