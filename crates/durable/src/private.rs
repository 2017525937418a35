//! Folders that only their owner may write to.

use crate::disk::Disk;
use crate::vfs::{Kind, Stat};
use pijs_protocol::guard;
use std::io::{self, ErrorKind};
use std::path::Path;

impl Disk {
    /// Creates a folder with its parents, or checks an existing one: its content is trusted, so no other user may write to it.
    ///
    /// # Errors
    ///
    /// Fails with `PermissionDenied` and a message for the user if the folder is a link, belongs to another user, or is writable
    /// by its group or by all users.
    pub fn private_dir(&self, folder: &Path) -> io::Result<()> {
        match self.stat(folder) {
            Ok(stat) => check(folder, &stat),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.create_dirs(folder)?;
                // Another process may have created it first.
                check(folder, &self.stat(folder)?)
            }
            Err(error) => Err(error),
        }
    }
}

fn check(folder: &Path, stat: &Stat) -> io::Result<()> {
    let refused = |why: &str| {
        let message = format!("{} {why}; its content is not trusted", folder.display());
        Err(io::Error::new(ErrorKind::PermissionDenied, message))
    };
    if !guard!(DurablePrivateDir) {
        return Ok(());
    }
    match stat.kind {
        Kind::Directory => {}
        Kind::Link => return refused("is a symbolic link"),
        Kind::File | Kind::Other => return refused("is not a folder"),
    }
    if is_foreign(stat) {
        return refused("belongs to another user");
    }
    if stat.mode & 0o022 != 0 {
        return refused(&format!("can be written by others (mode {:o})", stat.mode));
    }
    Ok(())
}

/// Returns whether a user other than this one or root owns the entry.
#[cfg(unix)]
pub(crate) fn is_foreign(stat: &Stat) -> bool {
    stat.uid != 0 && stat.uid != rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
pub(crate) fn is_foreign(_stat: &Stat) -> bool {
    false
}
