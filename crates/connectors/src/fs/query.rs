//! Operations that only read metadata and names.

use super::FsState;
use super::error::{ENOENT, ErrorContext, FsError, code};
use super::walk::{FinalLink, Reached};
use super::written::{check_granted, check_unchanged};
use crate::system::{Dir, Kind, Stat};
use pijs_hostcall::{Access, Output, ReadBy, Request};
use pijs_protocol::HostcallError;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of entries of one recursive listing.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum depth of one recursive listing.
const DEEPEST: usize = 256;

impl FsState {
    /// Walks to a path of the call.
    pub(super) fn reach(
        &self,
        request: &Request,
        path: &str,
        access: Access,
        last: FinalLink,
    ) -> Result<Reached, FsError> {
        let absolute = request.permit.places().node_path(path).map_err(|_| code(super::error::EINVAL))?;
        self.walk(&request.permit, &absolute, access, last)
    }

    pub(super) fn stat(&self, request: &Request, path: &str, follow: bool) -> Result<Output, HostcallError> {
        let (syscall, last) = if follow { ("stat", FinalLink::Follow) } else { ("lstat", FinalLink::Keep) };
        let at = ErrorContext::path(syscall, path);
        let stat = self
            .reach(request, path, if follow { Access::Look } else { Access::Read }, last)
            .and_then(|reached| Ok(reached.lstat()?));
        Ok(Output::new(stat_value(&stat.map_err(|failure| failure.at(&at))?)))
    }

    pub(super) fn statfs(&self, request: &Request, path: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("statfs", path);
        let found = self
            .reach(request, path, Access::Read, FinalLink::Follow)
            .and_then(|reached| Ok(reached.dir.statfs(reached.name.as_deref())?));
        let found = found.map_err(|failure| failure.at(&at))?;
        Ok(Output::new(json!({
            "type": found.kind, "bsize": found.bsize, "blocks": found.blocks, "bfree": found.bfree,
            "bavail": found.bavail, "files": found.files, "ffree": found.ffree,
        })))
    }

    pub(super) fn exists(&self, request: &Request, path: &str) -> Result<Output, HostcallError> {
        let found = self.reach(request, path, Access::Look, FinalLink::Follow).and_then(|reached| Ok(reached.lstat()?));
        Ok(Output::new(json!({ "exists": found.is_ok() })))
    }

    pub(super) fn access(&self, request: &Request, path: &str, mode: u64) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("access", path);
        // The mask keeps three bits.
        let bits = (mode & 7) as u32;
        let found = self.reach(request, path, Access::Look, FinalLink::Follow).and_then(|reached| {
            match &reached.name {
                Some(name) => reached.dir.access(name, bits)?,
                None => drop(reached.dir.stat()?),
            }
            if bits & 2 != 0 {
                // A file is reported as writable only if both the system and the gate allow writing.
                let writing = request.permit.path(Access::Write, &reached.real);
                writing.map_err(|reason| FsError::Denied("write", reason))?;
            }
            Ok(())
        });
        found.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }

    pub(super) fn readlink(&self, request: &Request, path: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("readlink", path);
        let target = self.reach(request, path, Access::Read, FinalLink::Keep).and_then(|reached| {
            reached.lstat()?;
            check_granted(&request.permit, &reached.real)?;
            Ok(reached.dir.readlink(reached.named()?)?)
        });
        let target = target.map_err(|failure| failure.at(&at))?;
        Ok(Output::new(json!({ "target": target.to_string_lossy() })))
    }

    pub(super) fn realpath(&self, request: &Request, path: &str) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("realpath", path);
        let named = request.permit.places().node_path(path)?;
        let reached = self.reach(request, path, Access::Read, FinalLink::Follow).and_then(|reached| {
            reached.lstat()?;
            // The target of a link is content that another program may have written.
            if reached.real != named {
                check_granted(&request.permit, &reached.real)?;
            }
            Ok(reached)
        });
        let reached = reached.map_err(|failure| failure.at(&at))?;
        Ok(Output::new(json!({ "path": reached.real.to_string_lossy() })))
    }

    pub(super) fn readdir(
        &self,
        request: &Request,
        syscall: &'static str,
        path: &str,
        recursive: bool,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::path(syscall, path);
        let listed = self.reach(request, path, Access::Read, FinalLink::Follow).and_then(|reached| {
            let dir = reached.as_dir()?;
            check_unchanged(&request.permit, &reached.real, || dir.stat())?;
            let mut entries = Vec::new();
            let reads = |path: &std::path::Path| request.permit.reads(path);
            let may_read = |path: &std::path::Path| matches!(reads(path), Ok(ReadBy::Grant | ReadBy::Making(_)));
            // A folder that the caller created may contain entries of other programs.
            let lists = |folder: &str, name: &str| {
                let folder = reached.real.join(folder);
                reads(&folder) == Ok(ReadBy::Grant) || may_read(&folder.join(name))
            };
            let enters = |folder: &str| !request.cancel.is_cancelled() && may_read(&reached.real.join(folder));
            list(&dir, "", recursive, 0, &mut entries, &Listing { lists: &lists, enters: &enters })?;
            Ok(entries)
        });
        let entries = listed.map_err(|failure| failure.at(&at))?;
        Ok(Output::new(json!({ "entries": entries })))
    }
}

/// Decides which parts of a folder are listed. Paths of folders are relative to the top folder.
struct Listing<'a> {
    /// Returns whether a name in a folder is listed.
    lists: &'a dyn Fn(&str, &str) -> bool,
    /// Returns whether a folder is entered.
    enters: &'a dyn Fn(&str) -> bool,
}

/// Lists a folder, and the folders below it that may be entered. Links are listed but not followed.
fn list(
    dir: &Arc<dyn Dir>,
    parent: &str,
    recursive: bool,
    depth: usize,
    out: &mut Vec<Value>,
    listing: &Listing<'_>,
) -> std::io::Result<()> {
    for (name, kind) in dir.entries()? {
        if out.len() >= MAX_ENTRIES {
            return Err(code(super::error::EFBIG));
        }
        let shown = name.to_string_lossy();
        if !(listing.lists)(parent, &shown) {
            continue;
        }
        out.push(json!({ "name": shown, "parent": parent, "kind": kind.as_str() }));
        if recursive && kind == Kind::Dir && depth < DEEPEST {
            let below = if parent.is_empty() { shown.into_owned() } else { format!("{parent}/{shown}") };
            if !(listing.enters)(&below) {
                continue;
            }
            match dir.child(&name) {
                Ok(child) => list(&child, &below, recursive, depth + 1, out, listing)?,
                // The folder was removed concurrently.
                Err(error) if error.raw_os_error() == Some(ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Returns the JSON form of file metadata.
pub(super) fn stat_value(stat: &Stat) -> Value {
    json!({
        "kind": stat.kind().as_str(),
        "dev": stat.dev, "ino": stat.ino, "mode": stat.mode, "nlink": stat.nlink,
        "uid": stat.uid, "gid": stat.gid, "rdev": stat.rdev, "size": stat.size,
        "blksize": stat.blksize, "blocks": stat.blocks,
        "atimeMs": stat.atime_ms, "mtimeMs": stat.mtime_ms,
        "ctimeMs": stat.ctime_ms, "birthtimeMs": stat.birthtime_ms,
    })
}
