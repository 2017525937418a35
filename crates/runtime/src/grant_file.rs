//! `<agentDir>/pijs/grants.json`: the grants of this installation, with mode 0600, replaced as a whole under a lock.

use crate::environment::Environment;
use crate::made_files::MadeFolder;
use crate::notices::Notices;
use crate::user_error::{Result, UserError};
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

/// Maximum size of the file in bytes: larger than any real file, small enough to read into memory.
const LONGEST: u64 = 16 << 20;
/// Maximum wait for another process that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The grant file of a user. Cheap to clone.
#[derive(Clone)]
pub struct GrantFile {
    disk: Disk,
    folder: PathBuf,
    timer: Arc<dyn Timer>,
    notices: Notices,
}

impl GrantFile {
    /// Returns the file of this user; nothing is read yet.
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

    /// Reads the grants; empty when there is no file.
    pub fn read(&self) -> Result<GrantStore> {
        let path = self.path();
        let broken = |what: String| {
            UserError::failed(format!("{}: {what}", path.display()))
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

    /// Changes the grants under the lock.
    pub fn change<R>(&self, change: impl FnOnce(&mut GrantStore) -> R) -> Result<R> {
        let failed = |error: std::io::Error| {
            UserError::failed(format!("{} cannot be written: {error}", self.path().display()))
                .help("make its folder writable, or set PI_CODING_AGENT_DIR to another one")
        };
        self.disk.create_dirs(&self.folder).map_err(failed)?;
        let _lock = Lock::take(&self.disk, &self.folder.join("grants.lock"), LOCK_TIMEOUT, |_| {})
            .map_err(|error| UserError::failed(error.to_string()))?;
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

    /// Returns the current time as the timestamp of an answer.
    pub fn now(&self) -> String {
        iso(self.timer.now().epoch_ms)
    }
}

/// Stores the user's answers while extensions run. Each loaded extension is registered beforehand.
pub struct AnswerRecorder {
    file: GrantFile,
    made: MadeFolder,
    /// Name under which answers are stored, and the code that they are bound to.
    loaded: Mutex<BTreeMap<ExtensionId, (String, PackageRecord)>>,
}

impl AnswerRecorder {
    /// Stores answers in `file`, and created files in `made`.
    pub fn new(file: GrantFile, made: MadeFolder) -> Self {
        Self { file, made, loaded: Mutex::default() }
    }

    /// Stores answers about this extension under `key`, bound to `record`, from now on.
    pub fn expect(&self, extension: ExtensionId, key: String, record: PackageRecord) {
        self.made.expect(extension.clone(), key.clone());
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(extension, (key, record));
    }

    /// Reads all answers from disk.
    pub fn read(&self) -> Result<GrantStore> {
        self.file.read()
    }

    /// Returns the name under which answers about an extension are stored, and the code that they are bound to.
    pub fn expected(&self, extension: &ExtensionId) -> Option<(String, PackageRecord)> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(extension).cloned()
    }
}

impl AnswerRecorder {
    /// Stores the digests of an extension's tools, unless it was bound to other code in the meantime.
    pub fn keep_tools(&self, extension: &ExtensionId, tools: BTreeMap<String, String>) {
        let Some((key, ran)) = self.expected(extension) else { return };
        let written = self.file.change(|book| {
            if let Some(record) = book.packages.get_mut(&key).filter(|record| record.code == ran.code) {
                record.tools = tools;
            }
        });
        if let Err(failure) = written {
            self.file.notices.warn(format!("the tool descriptions of {extension} are not stored: {failure}"));
        }
    }
}

impl MadeFiles for AnswerRecorder {
    fn read(&self, extension: &ExtensionId) -> Option<Vec<(PathBuf, Stamp)>> {
        self.made.read(extension)
    }

    fn note(&self, extension: &ExtensionId, path: &Path, stamp: Option<Stamp>) {
        self.made.note(extension, path, stamp);
    }
}

impl AnswerStore for AnswerRecorder {
    fn remember(&self, extension: &ExtensionId, remembered: Remembered) {
        let Some((key, empty)) = self.expected(extension) else { return };
        let at = self.file.now();
        let Remembered { capability, methods, scope, allowed } = remembered;
        let written = self.file.change(|book| {
            let is_local = key.starts_with("path:");
            let record = book.packages.entry(key).or_insert_with(|| empty.clone());
            let (other_code, other_manifest) = (record.code != empty.code, record.manifest != empty.manifest);
            // Code in a folder of the user changes often. It keeps its answers unless it also requests more than before.
            if if is_local { other_code && other_manifest } else { other_code || other_manifest } {
                // Another process has bound the record to other code meanwhile; this answer is about the code that runs here.
                *record = empty;
            }
            record.answer(StoredAnswer { capability, methods, scope, allowed, by: By::Prompt, at });
        });
        if let Err(failure) = written {
            self.file.notices.warn(format!("the answer holds for this session only: {failure}"));
        }
    }
}
