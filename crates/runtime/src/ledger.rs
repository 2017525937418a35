//! Opens the ledger of a session: `<agentDir>/logs/extensions/<session>.jsonl`, or below `PI_EXTENSION_LOG_DIR`.

use crate::environment::Environment;
use crate::notices::Notices;
use pijs_durable::Disk;
use pijs_environment::Timer;
use pijs_hostcall::Mode;
use pijs_hostcall::ledger::{FileSink, Ledger, LedgerOptions, LedgerSink, finish_all};
use pijs_protocol::guard;
use pijs_redact::{Redactor, is_secret_key};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum length of a session id that is used as a file name.
const LONGEST_NAME: usize = 128;

/// Maximum size of an `auth.json` that is searched for secrets.
const LARGEST_AUTH: u64 = 1 << 20;

/// Opens the ledger of a session. First writes end records for the calls that a killed earlier run left open.
///
/// A ledger that cannot be written does not end the session: strict mode refuses calls that have to be recorded, other modes warn
/// once and count the lost lines.
pub(crate) fn open(environment: &Environment, session_id: &str, mode: Mode, timer: &dyn Timer) -> Ledger {
    let notices = &environment.notices;
    let disk = Disk::system();
    let folder = folder(environment);
    // Other users may write to the folder, for example in a cloned project, so no link in it is followed.
    let files = match guard!(LedgerBeneath) {
        true => disk.beneath(std::slice::from_ref(&folder)).unwrap_or_else(|_| disk.clone()),
        false => disk.clone(),
    };
    let failed = |path: &Path, error: io::Error| warn(notices, path, &error);
    if let Err(error) = finish_all(&files, &folder, timer.now(), failed) {
        warn(notices, &folder, &error);
    }
    let path = folder.join(format!("{}.jsonl", name_of(session_id)));
    let file = FileSink::new(files, path.clone());
    // A ledger in a folder that extensions can be granted to write proves nothing.
    let inside = mode == Mode::Strict && folder.starts_with(&environment.dirs.cwd);
    let resumed = if inside { Err(io::Error::other("its folder is in the project")) } else { file.resume() };
    let (sink, resumed): (Arc<dyn LedgerSink>, _) = match resumed {
        Ok(resumed) => (
            Arc::new(WarningSink { sink: file, path, notices: notices.clone(), warned: AtomicBool::new(false) }),
            resumed,
        ),
        Err(error) => {
            warn(notices, &path, &error);
            (Arc::new(RefusingSink(error.to_string())), Default::default())
        }
    };
    let options = LedgerOptions {
        session_id: session_id.to_owned(),
        secrets: secrets(environment, &disk),
        hash_key: hash_key(environment, &disk),
        head: resumed.head,
        ..LedgerOptions::default()
    };
    let ledger = Ledger::new(options, sink);
    ledger.end_lost_calls(timer.now(), resumed.open);
    ledger
}

/// Returns the name of a session's ledger: its id, where that is a plain name.
///
/// Ids come from session files, which are untrusted. A slash would lead to another folder, a dot to a part of another session's
/// ledger.
fn name_of(session_id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_plain = (1..=LONGEST_NAME).contains(&session_id.len()) && session_id.bytes().all(plain);
    if is_plain || !guard!(LedgerName) {
        return session_id.to_owned();
    }
    format!("session-{}", hex::encode(Sha256::digest(session_id.as_bytes())))
}

/// Starts a thread that writes the ledger. If that fails, lines are written during turns.
pub(crate) fn write_aside(ledger: &Ledger) {
    let writer = ledger.writer();
    if std::thread::Builder::new().name("ledger".to_owned()).spawn(move || writer.run()).is_err() {
        tracing::warn!("cannot start the ledger's thread");
    }
}

/// Returns the folder of ledgers.
pub fn folder(environment: &Environment) -> PathBuf {
    other_folder(environment).unwrap_or_else(|| environment.dirs.agent_dir.join("logs/extensions"))
}

/// Returns the folder of ledgers that the environment names in place of the default.
pub(crate) fn other_folder(environment: &Environment) -> Option<PathBuf> {
    environment.variable("PI_EXTENSION_LOG_DIR").map(|folder| environment.dirs.cwd.join(folder))
}

/// Returns the redactor for logs. It knows the same secrets as the redactor of the ledger.
pub fn redactor(environment: &Environment) -> Redactor {
    Redactor::new(secrets(environment, &Disk::system()))
}

/// Collects secrets: variables with secret names, and pi's keys of providers.
fn secrets(environment: &Environment, disk: &Disk) -> Vec<String> {
    let named = environment.variables.iter().filter(|(name, _)| is_secret_key(name));
    let mut secrets: Vec<String> = named.map(|(_, value)| value.clone()).collect();
    let auth = disk.read(&environment.dirs.agent_dir.join("auth.json"), LARGEST_AUTH);
    if let Ok(Some(auth)) = auth
        && let Ok(auth) = serde_json::from_slice::<Value>(&auth)
    {
        texts(&auth, &mut secrets);
    }
    secrets
}

/// Collects strings of at least 12 bytes, which can be keys; shorter ones name the type of an entry.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() >= 12 => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|item| texts(item, found)),
        _ => {}
    }
}

/// Returns the key of this installation for hashes of guessable values; creates it on first use.
fn hash_key(environment: &Environment, disk: &Disk) -> Option<[u8; 32]> {
    let path = environment.dirs.agent_dir.join("logs/ledger.key");
    let read = || disk.read(&path, 32).ok().flatten()?.try_into().ok();
    read().or_else(|| {
        let mut key = [0; 32];
        pijs_durable::entropy(&mut key).ok()?;
        match disk.create_once(&path, &key) {
            Ok(true) => Some(key),
            Ok(false) => read(),
            // The key is not stored: hashes of this session cannot be compared with those of other sessions.
            Err(_) => Some(key),
        }
    })
}

fn warn(notices: &Notices, path: &Path, error: &io::Error) {
    notices.warn(format!("the ledger {} cannot be written: {error}", path.display()));
}

/// Warns once that the ledger cannot be written.
struct WarningSink {
    sink: FileSink,
    path: PathBuf,
    notices: Notices,
    warned: AtomicBool,
}

impl WarningSink {
    fn warn_once<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &answer
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            warn(&self.notices, &self.path, error);
        }
        answer
    }
}

impl LedgerSink for WarningSink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.warn_once(self.sink.append(lines))
    }

    fn sync(&self) -> io::Result<()> {
        self.warn_once(self.sink.sync())
    }

    fn pruning(&self) -> Option<pijs_hostcall::ledger::Pruned> {
        self.sink.pruning()
    }

    fn close(&self) -> io::Result<()> {
        self.sink.close()
    }
}

/// Refuses all lines, because an existing file must not be continued.
struct RefusingSink(String);

impl LedgerSink for RefusingSink {
    fn append(&self, _lines: &[u8]) -> io::Result<()> {
        Err(io::Error::other(self.0.clone()))
    }
}
