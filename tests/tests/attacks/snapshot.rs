//! Snapshots of a directory tree, for comparison.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Maximum size of a file whose contents are compared, in bytes; larger files are compared by size and time.
const HASHED: u64 = 64 << 20;

/// Description of each item, by relative path.
pub(crate) type Snapshot = BTreeMap<String, String>;

/// Returns all items below `root` that `leave_out` does not match.
pub(crate) fn take(root: &Path, leave_out: &globset::GlobSet) -> Snapshot {
    let mut snapshot = Snapshot::new();
    walk(root, root, leave_out, &mut snapshot);
    snapshot
}

fn walk(root: &Path, at: &Path, leave_out: &globset::GlobSet, snapshot: &mut Snapshot) {
    let Ok(entries) = fs::read_dir(at) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if leave_out.is_match(&name) {
            continue;
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o7777;
        let kind = metadata.file_type();
        if kind.is_dir() {
            snapshot.insert(name, format!("folder {mode:o}"));
            walk(root, &path, leave_out, snapshot);
        } else if kind.is_symlink() {
            snapshot.insert(name, format!("link to {}", fs::read_link(&path).unwrap_or_default().display()));
        } else if kind.is_file() {
            let times = format!("{}.{}", metadata.mtime(), metadata.mtime_nsec());
            let hash = if metadata.len() <= HASHED { hash(&path) } else { String::new() };
            snapshot.insert(name, format!("file {mode:o} {} {times} {hash}", metadata.len()));
        } else {
            let what = if kind.is_fifo() {
                "fifo"
            } else if kind.is_socket() {
                "socket"
            } else {
                "device"
            };
            snapshot.insert(name, format!("{what} {mode:o}"));
        }
    }
}

fn hash(path: &Path) -> String {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let Ok(mut file) = File::open(path) else { return "unreadable".to_owned() };
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) => return error.to_string(),
        }
    }
    hex::encode(hasher.finalize())
}

/// Returns the differences, one line each.
pub(crate) fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, was) in before {
        match after.get(path) {
            None => lines.push(format!("gone: {path}")),
            Some(is) if is != was => lines.push(format!("changed: {path} ({was} -> {is})")),
            Some(_) => {}
        }
    }
    lines.extend(after.keys().filter(|path| !before.contains_key(*path)).map(|path| format!("new: {path}")));
    lines
}
