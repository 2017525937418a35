//! Records which lines of sessions PiJS wrote, and the folders outside of the default one that contain sessions.
//!
//! A line of pi's format does not name its author, and extensions and other programs may write to session files. The records are
//! in a folder that extensions cannot write to (`<agentDir>/logs/sessions`):
//!
//! ```text
//! ID.lines         a digest of each line that PiJS wrote (+), or that another program wrote and the model has
//!                  replied to (=)
//! elsewhere        folders and files outside of `<agentDir>/sessions` that contain sessions, and folders of ledgers
//! ```
//!
//! A digest is recorded before its line is written. A session without records can still be opened, with all entries attributed to
//! another program.

use pijs_durable::{Disk, Open, Replace, VfsFile, write_all};
use pijs_protocol::guard;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum size of a record file in bytes: about ten million lines.
const MAX_RECORD_FILE_BYTES: u64 = 512 << 20;
/// Maximum number of remembered locations. Above it, missing ones are removed first, then those of agents that extensions
/// started, then the oldest.
const MAX_LOCATIONS: usize = 4096;
/// Maximum length in bytes of a session id that is used as a file name.
const MAX_NAME_BYTES: usize = 128;
/// Length of a record in bytes: mark, 32 hexadecimal digits, line break.
const RECORD_BYTES: u64 = 34;

/// Digest of a line without its line break.
pub(super) type LineDigest = [u8; 16];

pub(super) fn digest(line: &[u8]) -> LineDigest {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    Sha256::digest(line)[..16].try_into().expect("a SHA-256 has 32 bytes")
}

/// Author of a line, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedAuthor {
    /// PiJS itself.
    Own,
    /// Another program; the model has replied since then.
    Answered,
}

/// The records of one session.
#[derive(Debug, Default)]
pub(super) struct RecordedLines {
    own: BTreeSet<LineDigest>,
    answered: BTreeSet<LineDigest>,
}

impl RecordedLines {
    pub(super) fn is_own(&self, line: &LineDigest) -> bool {
        self.own.contains(line)
    }

    pub(super) fn is_answered(&self, line: &LineDigest) -> bool {
        self.answered.contains(line)
    }

    /// Returns whether PiJS has never written to this session.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }
}

/// A location of sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionLocation {
    /// A folder, with all sessions in it.
    Folder(PathBuf),
    /// A single session file.
    File(PathBuf),
    /// A folder of ledgers.
    Ledgers(PathBuf),
}

impl SessionLocation {
    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::File(path) | Self::Ledgers(path) => path,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder(folder), Self::Folder(path) | Self::File(path)) => path.starts_with(folder),
            _ => self == other,
        }
    }

    fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let path = |key: &str| value.get(key)?.as_str().map(PathBuf::from);
        let folder = path("folder").map(Self::Folder);
        folder.or_else(|| path("file").map(Self::File)).or_else(|| path("ledgers").map(Self::Ledgers))
    }
}

/// A location in the stored list.
#[derive(Debug)]
struct RememberedLocation {
    location: SessionLocation,
    /// Whether the location was added by an agent that an extension started.
    is_agents: bool,
}

impl RememberedLocation {
    fn line(&self) -> Option<String> {
        let kind = match self.location {
            SessionLocation::Folder(_) => "folder",
            SessionLocation::File(_) => "file",
            SessionLocation::Ledgers(_) => "ledgers",
        };
        let mut line = json!({ kind: self.location.path().to_str()? });
        if self.is_agents {
            line["agent"] = true.into();
        }
        Some(format!("{line}\n"))
    }

    fn read(line: &str) -> Option<Self> {
        let location = SessionLocation::read(line)?;
        let is_agents = serde_json::from_str::<Value>(line).is_ok_and(|line| line["agent"] == true);
        Some(Self { location, is_agents })
    }
}

/// Removes locations until half of the list is free, the user's last. The run of an agent removes no existing location of the
/// user.
fn forget(locations: &mut Vec<RememberedLocation>, is_agents_run: bool) {
    locations.retain(|known| known.location.path().symlink_metadata().is_ok());
    let mut surplus = locations.len().saturating_sub(MAX_LOCATIONS / 2);
    if guard!(PlacesForgetAgents) {
        locations.retain(|known| {
            let is_removed = known.is_agents && surplus > 0;
            surplus -= usize::from(is_removed);
            !is_removed
        });
    }
    if !is_agents_run || !guard!(PlacesForgetAgents) {
        locations.drain(..surplus);
    }
}

/// The records of an installation.
#[derive(Debug)]
pub struct SessionRecords {
    disk: Disk,
    folder: PathBuf,
    /// The default folder of sessions, which is not recorded.
    usual: PathBuf,
    locations: Mutex<Vec<RememberedLocation>>,
    /// Whether an extension started this run.
    is_agents: bool,
}

impl SessionRecords {
    /// Returns the records of an agent folder.
    pub fn new(disk: Disk, agent_dir: &Path) -> Self {
        let folder = agent_dir.join("logs/sessions");
        let text = disk.read(&folder.join("elsewhere"), MAX_RECORD_FILE_BYTES).ok().flatten().unwrap_or_default();
        let locations = String::from_utf8_lossy(&text).lines().filter_map(RememberedLocation::read).collect();
        Self {
            disk,
            folder,
            usual: pijs_durable::without_links(&agent_dir.join("sessions")),
            locations: Mutex::new(locations),
            is_agents: false,
        }
    }

    /// Marks the locations that this run adds as those of an agent started by an extension.
    #[must_use]
    pub fn of_agent(mut self, is_agents: bool) -> Self {
        self.is_agents = is_agents;
        self
    }

    /// Returns whether an extension started this program.
    pub(super) fn is_agents(&self) -> bool {
        self.is_agents
    }

    /// Returns the locations outside of the default folder, including those of earlier runs.
    pub fn locations(&self) -> Vec<SessionLocation> {
        self.lock().iter().map(|known| known.location.clone()).collect()
    }

    /// Records a location for later runs. If it cannot be written, only this run knows it.
    pub fn remember(&self, location: SessionLocation) {
        let mut locations = self.lock();
        let is_known =
            |known: &RememberedLocation| known.location.covers(&location) && (self.is_agents || !known.is_agents);
        if location.path().starts_with(&self.usual) || locations.iter().any(is_known) {
            return;
        }
        let added = RememberedLocation { location, is_agents: self.is_agents };
        let Some(line) = added.line() else { return };
        locations.push(added);
        let file = self.folder.join("elsewhere");
        let written = if locations.len() > MAX_LOCATIONS {
            forget(&mut locations, self.is_agents);
            let all: String = locations.iter().filter_map(RememberedLocation::line).collect();
            self.disk.replace(&file, all.as_bytes(), Replace::DERIVED)
        } else {
            self.append(&file).and_then(|mut file| write_all(&mut *file, line.as_bytes()))
        };
        if let Err(error) = written {
            tracing::warn!(%error, "cannot record the location of the session");
        }
    }

    /// Returns the records of a session.
    pub(super) fn recorded(&self, session: &str) -> RecordedLines {
        let text = self.disk.read(&self.lines(session), MAX_RECORD_FILE_BYTES).ok().flatten().unwrap_or_default();
        let mut recorded = RecordedLines::default();
        for line in text.split(|byte| *byte == b'\n') {
            match line.split_first() {
                Some((b'+', rest)) => recorded.own.extend(from_hex(rest)),
                Some((b'=', rest)) => recorded.answered.extend(from_hex(rest)),
                _ => {}
            };
        }
        recorded
    }

    /// Returns the record file of a session. An id from an untrusted file that is not a plain name is replaced by its digest.
    fn lines(&self, session: &str) -> PathBuf {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_plain = (1..=MAX_NAME_BYTES).contains(&session.len()) && session.bytes().all(plain);
        let name =
            if is_plain { session.to_owned() } else { format!("session-{}", hex::encode(digest(session.as_bytes()))) };
        self.folder.join(format!("{name}.lines"))
    }

    fn append(&self, file: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.disk.create_dirs(&self.folder)?;
        self.disk.open(file, Open::Append(0o600))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RememberedLocation>> {
        // Updates leave the list consistent even if a panic poisons the lock.
        self.locations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the records of a session.
#[derive(Debug)]
pub(super) struct RecordWriter {
    records: std::sync::Arc<SessionRecords>,
    /// Id of the session and its open record file.
    open: Option<(String, Box<dyn VfsFile>)>,
    /// Whether records were written but not flushed.
    is_due: bool,
}

impl RecordWriter {
    pub(super) fn new(records: std::sync::Arc<SessionRecords>) -> Self {
        Self { records, open: None, is_due: false }
    }

    /// Records the location of the session.
    pub(super) fn remember(&self, file: &Path) {
        self.records.remember(SessionLocation::File(pijs_durable::without_links(file)));
    }

    /// Records lines. If the write fails, the lines are treated as another program's when the session is opened again.
    pub(super) fn record(&mut self, session: &str, mark: RecordedAuthor, lines: impl IntoIterator<Item = LineDigest>) {
        let mark = match mark {
            RecordedAuthor::Own => '+',
            RecordedAuthor::Answered => '=',
        };
        let text: String = lines.into_iter().map(|line| format!("{mark}{}\n", hex::encode(line))).collect();
        let written = self.file(session).and_then(|file| write_all(file, text.as_bytes()));
        self.is_due |= written.is_ok();
        if let Err(error) = written {
            tracing::warn!(%error, "cannot record which lines of the session PiJS wrote: they will be treated as foreign");
        }
    }

    /// Makes the records durable. Called before the lines are made durable.
    pub(super) fn sync(&mut self) {
        if let Some((_, file)) = self.open.as_mut().filter(|_| self.is_due) {
            self.is_due = file.sync().is_err();
        }
    }

    fn file(&mut self, session: &str) -> io::Result<&mut dyn VfsFile> {
        if self.open.as_ref().is_none_or(|(id, _)| id != session) {
            let mut file = self.records.append(&self.records.lines(session))?;
            // An incomplete record must not merge with the next one.
            if file.stat()?.len % RECORD_BYTES != 0 {
                write_all(&mut *file, b"\n")?;
            }
            self.open = Some((session.to_owned(), file));
        }
        match &mut self.open {
            Some((_, file)) => Ok(&mut **file),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

fn from_hex(text: &[u8]) -> Option<LineDigest> {
    let mut digest = LineDigest::default();
    hex::decode_to_slice(text, &mut digest).ok().map(|()| digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn records_are_read_back_after_an_incomplete_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Arc::new(SessionRecords::new(Disk::system(), folder.path()));
        let (one, two, three) = (digest(b"one\n"), digest(b"two"), digest(b"three"));
        RecordWriter::new(Arc::clone(&records)).record("a/b", RecordedAuthor::Own, [one]);
        let file = records.lines("a/b");
        let mut text = std::fs::read(&file).expect("notes");
        text.extend_from_slice(b"+0123");
        std::fs::write(&file, text).expect("written");
        let mut writer = RecordWriter::new(Arc::clone(&records));
        writer.record("a/b", RecordedAuthor::Own, [two]);
        writer.record("a/b", RecordedAuthor::Answered, [three]);
        writer.sync();
        let recorded = records.recorded("a/b");
        assert!(recorded.is_own(&digest(b"one")) && recorded.is_own(&two) && !recorded.is_own(&three));
        assert!(recorded.is_answered(&three) && !recorded.is_answered(&one));
        assert!(records.recorded("other").is_empty());
    }

    #[test]
    fn locations_are_recorded_once_and_the_default_one_never() {
        let folder = tempfile::tempdir().expect("a folder");
        let agent = folder.path().canonicalize().expect("a path");
        let records = SessionRecords::new(Disk::system(), &agent);
        let (file, other) = (SessionLocation::File("/data/x.jsonl".into()), SessionLocation::Folder("/other".into()));
        records.remember(SessionLocation::File(agent.join("sessions/--a--/x.jsonl")));
        for _ in 0..2 {
            records.remember(file.clone());
            records.remember(other.clone());
            records.remember(SessionLocation::File("/other/y.jsonl".into()));
        }
        assert_eq!(SessionRecords::new(Disk::system(), &agent).locations(), [file.clone(), other]);
        for number in 0..MAX_LOCATIONS {
            records.remember(SessionLocation::File(format!("/data/{number}.jsonl").into()));
        }
        let kept = SessionRecords::new(Disk::system(), &agent).locations();
        assert!(kept.len() < MAX_LOCATIONS && !kept.contains(&file), "{}", kept.len());
    }

    #[test]
    fn an_agent_displaces_no_location_of_the_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let agent = folder.path().canonicalize().expect("a path");
        let mine = SessionLocation::Folder(agent.join("mine"));
        std::fs::create_dir(agent.join("mine")).expect("a folder");
        SessionRecords::new(Disk::system(), &agent).remember(mine.clone());
        let records = SessionRecords::new(Disk::system(), &agent).of_agent(true);
        for number in 0..=MAX_LOCATIONS {
            let file = agent.join(format!("{number}.jsonl"));
            std::fs::write(&file, "").expect("written");
            records.remember(SessionLocation::File(file));
        }
        let kept = SessionRecords::new(Disk::system(), &agent).locations();
        assert!(kept.contains(&mine) && kept.len() < MAX_LOCATIONS, "{}", kept.len());
        let ledgers = SessionLocation::Ledgers(agent.join("mine"));
        records.remember(ledgers.clone());
        assert!(SessionRecords::new(Disk::system(), &agent).locations().contains(&ledgers));
    }
}
