//! `<agentDir>/pijs/grants.json`: the grants of this installation, 0600, replaced whole under a lock.

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::made_files::MadeFolder;
use crate::notices::Notices;
use pijs_durable::{Disk, Lock, Replace};
use pijs_environment::Timer;
use pijs_environment::iso;
use pijs_hostcall::grant_store::{self, By, GrantStore, PackageRecord, StoredAnswer};
use pijs_hostcall::{AnswerStore, MadeFiles, Remembered, Stamp};
use pijs_protocol::ExtensionId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Far above any real file; below what would hurt.
const LONGEST: u64 = 16 << 20;
/// How long another process may keep the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file. Cheap to clone.
#[derive(Clone)]
pub struct GrantFile {
    disk: Disk,
    folder: PathBuf,
    timer: Arc<dyn Timer>,
    notices: Notices,
}

impl GrantFile {
    /// The file of this user; nothing is read yet.
    pub fn new(environment: &Environment, timer: Arc<dyn Timer>) -> Self {
        Self {
            disk: Disk::system(),
            folder: environment.dirs.agent_dir.join("pijs"),
            timer,
            notices: environment.notices.clone(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("grants.json")
    }

    /// What stands in it; nothing when there is none.
    pub fn read(&self) -> Result<GrantStore> {
        let path = self.path();
        let broken = |what: String| {
            Failure::failed(format!("{}: {what}", path.display()))
                .help("restore it from grants.json.bak beside it, or remove it and answer again")
        };
        let bytes = match self.disk.read(&path, LONGEST) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(GrantStore::default()),
            Err(error) => return Err(broken(format!("it cannot be read: {error}"))),
        };
        let book: GrantStore = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if book.version != grant_store::VERSION {
            return Err(broken(format!("version {} is not known", book.version)));
        }
        Ok(book)
    }

    /// Changes it. Nobody else reads or writes between.
    pub fn change<R>(&self, change: impl FnOnce(&mut GrantStore) -> R) -> Result<R> {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("{} cannot be written: {error}", self.path().display()))
                .help("make its folder writable, or set PI_CODING_AGENT_DIR to another one")
        };
        self.disk.create_dirs(&self.folder).map_err(failed)?;
        let _lock = Lock::take(&self.disk, &self.folder.join("grants.lock"), PATIENCE, |_| {})
            .map_err(|error| Failure::failed(error.to_string()))?;
        let mut book = self.read()?;
        let before = book.clone();
        let result = change(&mut book);
        if book != before {
            let mut bytes = serde_json::to_vec_pretty(&book).map_err(|error| failed(error.into()))?;
            bytes.push(b'\n');
            self.disk.replace(&self.path(), &bytes, Replace::STATE).map_err(failed)?;
        }
        Ok(result)
    }

    /// An answer that is given now.
    pub fn now(&self) -> String {
        iso(self.timer.now().epoch_ms)
    }
}

/// Keeps what a person answers while extensions run. What each loaded extension is, is told beforehand.
pub struct Answers {
    file: GrantFile,
    made: MadeFolder,
    /// Under which name they are kept, and what they are bound to.
    loaded: Mutex<BTreeMap<ExtensionId, (String, PackageRecord)>>,
}

impl Answers {
    /// Keeps answers in `file`, and what extensions make in `made`.
    pub fn new(file: GrantFile, made: MadeFolder) -> Self {
        Self { file, made, loaded: Mutex::default() }
    }

    /// Answers about this extension are kept under `key` and bound to `record` from now on.
    pub fn expect(&self, extension: ExtensionId, key: String, record: PackageRecord) {
        self.made.expect(extension.clone(), key.clone());
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(extension, (key, record));
    }

    /// All answers, as they are on disk now.
    pub fn read(&self) -> Result<GrantStore> {
        self.file.read()
    }

    /// Under which name answers about an extension are kept, and what they are bound to.
    pub fn expected(&self, extension: &ExtensionId) -> Option<(String, PackageRecord)> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(extension).cloned()
    }
}

impl Answers {
    /// Keeps what an extension's tools say now, unless it was bound to other code meanwhile.
    pub fn keep_tools(&self, extension: &ExtensionId, tools: BTreeMap<String, String>) {
        let Some((key, ran)) = self.expected(extension) else { return };
        let written = self.file.change(|book| {
            if let Some(record) = book.packages.get_mut(&key).filter(|record| record.code == ran.code) {
                record.tools = tools;
            }
        });
        if let Err(failure) = written {
            self.file.notices.warn(format!("what the tools of {extension} say is not kept: {failure}"));
        }
    }
}

impl MadeFiles for Answers {
    fn read(&self, extension: &ExtensionId) -> Option<Vec<(PathBuf, Stamp)>> {
        self.made.read(extension)
    }

    fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>) {
        self.made.note(extension, path, stamp);
    }
}

impl AnswerStore for Answers {
    fn remember(&self, extension: &ExtensionId, remembered: Remembered) {
        let Some((key, empty)) = self.expected(extension) else { return };
        let at = self.file.now();
        let Remembered { capability, methods, scope, allowed } = remembered;
        let written = self.file.change(|book| {
            let is_local = key.starts_with("path:");
            let record = book.packages.entry(key).or_insert_with(|| empty.clone());
            let (other_code, other_manifest) = (record.code != empty.code, record.manifest != empty.manifest);
            // What lies in a folder of the user changes all the time, and keeps its answers while it asks for no more.
            if if is_local { other_code && other_manifest } else { other_code || other_manifest } {
                // Another process has bound it to other code meanwhile; this answer was about the one that runs here.
                *record = empty;
            }
            record.answer(StoredAnswer { capability, methods, scope, allowed, by: By::Prompt, at });
        });
        if let Err(failure) = written {
            self.file.notices.warn(format!("the answer holds for this session only: {failure}"));
        }
    }
}
