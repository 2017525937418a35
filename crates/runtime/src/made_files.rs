//! `<agentDir>/pijs/made/KEY.jsonl`: records across sessions the files that an extension created where it has no grant to read.
//!
//! One line for each change, appended at once, so that a killed session leaves its changes. The last line about a path is in
//! effect. The file of an extension is compacted when it is read and has more lines than necessary. Only pi writes there; an
//! unreadable line is ignored, and a lost one only means that the read has to be granted.

use crate::environment::Environment;
use pijs_durable::{Disk, Replace};
use pijs_hostcall::{MadeFiles, Stamp};
use pijs_protocol::ExtensionId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum size of a file in bytes: larger than any real one.
const LONGEST: u64 = 16 << 20;

/// The files of one installation.
pub struct MadeFolder {
    disk: Disk,
    folder: PathBuf,
    /// Key under which the files of each extension are stored, which is the key of its grants.
    keys: Mutex<BTreeMap<ExtensionId, String>>,
}

/// A change: a path, and the stamp of the written file.
#[derive(Serialize, Deserialize)]
struct MadeLine {
    path: PathBuf,
    stamp: Option<Stamp>,
}

impl MadeFolder {
    /// Returns the folder of this user; nothing is read yet.
    pub fn new(environment: &Environment) -> Self {
        let folder = environment.dirs.agent_dir.join("pijs").join("made");
        Self { disk: Disk::system(), folder, keys: Mutex::default() }
    }

    /// Stores this extension's files under `key` from now on.
    pub fn expect(&self, extension: ExtensionId, key: String) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(extension, key);
    }

    /// Deletes the record of an extension.
    pub fn forget(&self, key: &str) -> std::io::Result<()> {
        self.disk.remove(&self.path(key))
    }

    fn path_of(&self, extension: &ExtensionId) -> Option<PathBuf> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(extension).map(|key| self.path(key))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{}.jsonl", hex::encode(&Sha256::digest(key)[..16])))
    }
}

fn text_of(path: &Path, stamp: Option<Stamp>) -> Option<String> {
    let line = MadeLine { path: path.to_owned(), stamp };
    // A path that is not UTF-8 is not recorded.
    serde_json::to_string(&line).ok().map(|text| text + "\n")
}

impl MadeFiles for MadeFolder {
    fn read(&self, extension: &ExtensionId) -> Option<Vec<(PathBuf, Stamp)>> {
        let path = self.path_of(extension)?;
        let Ok(Some(bytes)) = self.disk.read(&path, LONGEST) else { return Some(Vec::new()) };
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut known: BTreeMap<PathBuf, Stamp> = BTreeMap::new();
        let mut count = 0;
        for line in lines {
            count += 1;
            match serde_json::from_slice::<MadeLine>(line) {
                Ok(MadeLine { path, stamp: Some(stamp) }) => _ = known.insert(path, stamp),
                Ok(MadeLine { path, stamp: None }) => _ = known.remove(&path),
                Err(_) => {}
            }
        }
        if count > 2 * known.len() + 100 {
            let text: String = known.iter().filter_map(|(path, stamp)| text_of(path, Some(*stamp))).collect();
            // The longer file is equivalent.
            let _ = self.disk.replace(&path, text.as_bytes(), Replace::DERIVED);
        }
        Some(known.into_iter().collect())
    }

    fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>) {
        let (Some(file), Some(text)) = (self.path_of(extension), text_of(path, stamp)) else { return };
        let append = || -> std::io::Result<()> {
            self.disk.create_dirs(&self.folder)?;
            let mut options = std::fs::OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(file)?.write_all(text.as_bytes())
        };
        // Without the line a later session needs a grant for the read.
        let _ = append();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(at: &Path) -> MadeFolder {
        let made = MadeFolder { disk: Disk::system(), folder: at.join("made"), keys: Mutex::default() };
        made.expect(ExtensionId::new("npm:x"), "npm:x".to_owned());
        made
    }

    #[test]
    fn last_line_about_a_path_is_in_effect_in_the_next_session() {
        let home = tempfile::tempdir().expect("a folder");
        let stamp = |ino| Stamp { dev: 1, ino, size: Some(3), changed_ms: Some(1.5) };
        let id = ExtensionId::new("npm:x");
        let made = folder(home.path());
        for ino in 0..300 {
            made.note(&id, Path::new("/x/a"), Some(stamp(ino)));
        }
        made.note(&id, Path::new("/x/b"), Some(stamp(7)));
        made.note(&id, Path::new("/x/b"), None);
        made.note(&ExtensionId::new("npm:other"), Path::new("/x/c"), Some(stamp(7)));
        for _ in 0..2 {
            assert_eq!(folder(home.path()).read(&id), Some(vec![(PathBuf::from("/x/a"), stamp(299))]));
        }
        let file = made.path("npm:x");
        assert_eq!(std::fs::read_to_string(&file).expect("written anew").lines().count(), 1);
        std::fs::write(&file, "{\"path\":\"/x/a\"\n{broken").expect("written");
        assert_eq!(folder(home.path()).read(&id), Some(Vec::new()));
        assert_eq!(made.read(&ExtensionId::new("npm:other")), None, "nobody knows whose that is");
        made.forget("npm:x").expect("gone");
        assert!(!file.exists());
    }
}
