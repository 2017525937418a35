//! Stores a ledger in files: the current one, older parts, and a mark while it is open.
//!
//! ```text
//! <folder>/SESSION.jsonl        the newest lines
//! <folder>/SESSION.1.jsonl ...  older parts, ascending; the chain continues through all of them
//! <folder>/.open/SESSION        exists and is locked while a host writes; remains after the host was killed
//! ```
//!
//! A line is written whole or not at all, and a torn end is cut off when the file is opened again. The parts stay within a limit:
//! the oldest one is removed after the ledger has recorded which lines are removed with it.

use super::chain::{ChainHead, LONGEST_LINE};
use super::resume::{Resumed, open_calls};
use super::sink::{LedgerSink, Pruned};
use super::verify::{ChainLink, read_line};
use super::{Ledger, LedgerOptions};
use crate::places::LEDGER_MARKS;
use pijs_durable::{Appender, Disk, Open, VfsFile};
use pijs_protocol::Now;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Disk space limits of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Size in bytes at which a file becomes a part.
    pub file_bytes: u64,
    /// Number of parts that are kept in addition to the newest file.
    pub parts: usize,
}

impl Default for FileLimits {
    /// Returns 16 MiB and 7 parts: at most 128 MiB for a session, about 200,000 calls.
    fn default() -> Self {
        Self { file_bytes: 16 << 20, parts: 7 }
    }
}

/// Appends to a ledger's files; creates the first with the first line.
#[derive(Debug)]
pub struct FileSink {
    disk: Disk,
    path: PathBuf,
    limits: FileLimits,
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    /// Locked while the ledger is written, because during a rotation no ledger file holds the lock.
    mark: Option<Appender>,
    appender: Option<Appender>,
    /// End of the acknowledged data if the appender failed; data after it was not acknowledged.
    known: Option<u64>,
    /// Set when a flush failed: nothing more is written to the file.
    is_failed: bool,
    /// The oldest part, if it is due for removal.
    pruning: Option<(PathBuf, Pruned, RemovalRecorded)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalRecorded {
    No,
    /// The ledger has recorded the removal; the part is deleted with the append of that record.
    Yes,
}

impl FileSink {
    /// Creates a sink for `path`, which ends in `.jsonl`.
    pub fn new(disk: Disk, path: PathBuf) -> Self {
        Self { disk, path, limits: FileLimits::default(), state: Mutex::default() }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: FileLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the newest file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Prepares to continue an existing ledger: cuts off a torn end and finds calls without an end.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system, and `ResourceBusy` when another process writes this ledger. Invalid lines are not an
    /// error: they stay unchanged, and [`super::verify()`] reports them.
    pub fn resume(&self) -> io::Result<Resumed> {
        let mut state = self.state();
        let was_open = self.disk.exists(&self.mark())?;
        if was_open {
            self.lock_mark(&mut state)?;
        }
        let older = parts(&self.disk, &self.path)?;
        let mut resumed = Resumed::default();
        if self.disk.exists(&self.path)? {
            let open_appender = Appender::open(&self.disk, &self.path)?;
            let mut appender = open_appender.appender;
            if open_appender.torn > 0 {
                appender.cut(open_appender.whole)?;
            }
            resumed.torn = open_appender.torn;
            resumed.head = head_of(&mut appender, open_appender.whole)?;
            state.appender = Some(appender);
        }
        if resumed.head == ChainHead::default()
            && let Some(last) = older.last()
        {
            resumed.head = head_at(&self.disk, last)?;
        }
        if was_open {
            let files = older.iter().chain(self.disk.exists(&self.path)?.then_some(&self.path));
            resumed.open = open_calls(files.map(|path| reader(&self.disk, path)))?;
        }
        Ok(resumed)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self) -> PathBuf {
        let name = self.path.file_stem().unwrap_or_default();
        self.path.parent().unwrap_or(Path::new("/")).join(LEDGER_MARKS).join(name)
    }

    /// Locks the mark, unless it is locked.
    fn lock_mark(&self, state: &mut FileState) -> io::Result<()> {
        /// Number of attempts: other hosts may remove the mark between creating and locking it.
        const ATTEMPTS: usize = 3;
        let mark = self.mark();
        for _ in 0..ATTEMPTS {
            if state.mark.is_some() {
                return Ok(());
            }
            let open_appender = Appender::open(&self.disk, &mark)?;
            // The previous owner deletes the mark when it is done; a file that was opened before that is not a mark any more.
            state.mark = self.disk.exists(&mark)?.then_some(open_appender.appender);
        }
        state.mark.as_ref().map(drop).ok_or_else(|| ErrorKind::ResourceBusy.into())
    }

    /// Returns the appender; opens it at the end of the acknowledged data if necessary.
    fn open_appender<'a>(&self, state: &'a mut FileState) -> io::Result<&'a mut Appender> {
        if state.appender.as_ref().is_some_and(Appender::is_broken) {
            let broken = state.appender.take();
            state.known = broken.map(|appender| appender.length());
        }
        if state.appender.is_none() {
            self.lock_mark(state)?;
            let open_appender = Appender::open(&self.disk, &self.path)?;
            let mut appender = open_appender.appender;
            let keep = state.known.unwrap_or(open_appender.whole).min(open_appender.whole);
            if appender.length() > keep {
                appender.cut(keep)?;
            }
            state.known = None;
            state.appender = Some(appender);
        }
        Ok(state.appender.as_mut().expect("the appender was opened above"))
    }

    /// Turns a full file into a part.
    fn rotate(&self, state: &mut FileState, more: u64) -> io::Result<()> {
        let length = self.open_appender(state)?.length();
        if !state.is_failed && (length == 0 || length + more <= self.limits.file_bytes) {
            return Ok(());
        }
        let older = parts(&self.disk, &self.path)?;
        let number = older.last().and_then(|path| number_of(&self.path, path)).unwrap_or(0) + 1;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        self.disk.rename_new(&self.path, &part(&self.path, number))?;
        state.appender = None;
        state.is_failed = false;
        self.disk.sync_dir(folder)?;
        if older.len() + 1 > self.limits.parts && state.pruning.is_none() {
            let oldest = older.into_iter().next().unwrap_or_else(|| part(&self.path, number));
            let until = head_at(&self.disk, &oldest)?;
            let first_seq = first_seq(&self.disk, &oldest)?;
            state.pruning = Some((oldest, Pruned { first_seq, until }, RemovalRecorded::No));
        }
        self.open_appender(state).map(drop)
    }
}

impl LedgerSink for FileSink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        self.rotate(&mut state, lines.len() as u64)?;
        self.open_appender(&mut state)?.append(lines)?;
        if let Some((oldest, _, RemovalRecorded::Yes)) = &state.pruning {
            // A part that cannot be removed only costs space; the next rotation removes it.
            let _ = self.disk.remove(oldest);
            state.pruning = None;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        let Some(appender) = &mut state.appender else { return Ok(()) };
        let synced = appender.sync();
        state.is_failed |= synced.is_err();
        synced
    }

    fn pruning(&self) -> Option<Pruned> {
        match &mut self.state().pruning {
            Some((_, pruned, recorded @ RemovalRecorded::No)) => {
                *recorded = RemovalRecorded::Yes;
                Some(*pruned)
            }
            _ => None,
        }
    }

    fn close(&self) -> io::Result<()> {
        let mut state = self.state();
        state.appender = None;
        // Unlocked after the removal, so that no other process locks a removed mark.
        let removed = self.disk.remove(&self.mark());
        state.mark = None;
        removed
    }
}

/// Completes the ledgers of hosts that were killed, by recording the end of each open call. Skips ledgers that another process is
/// writing.
///
/// # Errors
///
/// Fails when the folder cannot be listed. A ledger that cannot be completed is passed to `failed` and tried again next time.
pub fn finish_all(disk: &Disk, folder: &Path, now: Now, mut failed: impl FnMut(&Path, io::Error)) -> io::Result<()> {
    let names = match disk.list(&folder.join(LEDGER_MARKS)) {
        Ok(names) => names,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(error),
    };
    for name in names {
        let mut file = name.clone();
        file.push(".jsonl");
        let path = folder.join(file);
        match finish(disk, &path, &name.to_string_lossy(), now) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
            Err(error) => failed(&path, error),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn finish(disk: &Disk, path: &Path, session_id: &str, now: Now) -> io::Result<()> {
    let sink = Arc::new(FileSink::new(disk.clone(), path.to_owned()));
    let resumed = sink.resume()?;
    let options = LedgerOptions { session_id: session_id.to_owned(), head: resumed.head, ..LedgerOptions::default() };
    let ledger = Ledger::new(options, sink);
    ledger.end_lost_calls(now, resumed.open);
    ledger.close()
}

/// Lists the older parts of a ledger, oldest first.
pub fn parts(disk: &Disk, path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let names = match disk.list(folder) {
        Ok(names) => names,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<(u64, PathBuf)> =
        names.iter().filter_map(|name| Some((number_of(path, &folder.join(name))?, folder.join(name)))).collect();
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Returns `SESSION.N.jsonl`.
fn part(path: &Path, number: u64) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!("{stem}.{number}.jsonl"))
}

fn number_of(path: &Path, candidate: &Path) -> Option<u64> {
    let stem = format!("{}.", path.file_stem()?.to_str()?);
    let number = candidate.file_name()?.to_str()?.strip_prefix(&stem)?.strip_suffix(".jsonl")?;
    number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)
}

/// Reads the number of the first line in the chain.
fn first_seq(disk: &Disk, path: &Path) -> io::Result<u64> {
    let mut reader = reader(disk, path)?;
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line)? > 0 {
        if let Ok((_, link)) = ChainLink::read(line.trim_ascii_end()) {
            return Ok(link.after.next_seq.saturating_sub(1));
        }
    }
    Ok(0)
}

fn head_at(disk: &Disk, path: &Path) -> io::Result<ChainHead> {
    let length = disk.stat(path)?.len;
    last_head(length, |from, to| {
        let mut file = disk.open(path, Open::Read)?;
        let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
        let mut at = 0;
        while at < bytes.len() {
            match file.read_at(&mut bytes[at..], from + at as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => at += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    })
}

fn head_of(appender: &mut Appender, whole: u64) -> io::Result<ChainHead> {
    last_head(whole, |from, to| appender.read_range(from, to))
}

/// Finds the end of the chain from the last valid line. The chain continues after a damaged line, and verification reports that
/// line.
fn last_head(length: u64, mut read: impl FnMut(u64, u64) -> io::Result<Vec<u8>>) -> io::Result<ChainHead> {
    /// Size of two lines of the maximum length.
    const WINDOW: u64 = 2 * LONGEST_LINE as u64;
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(WINDOW);
        let bytes = read(start, end)?;
        for line in bytes.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty()) {
            if let Ok((_, link)) = ChainLink::read(line) {
                return Ok(link.after);
            }
        }
        end = if start == 0 { 0 } else { start + LONGEST_LINE as u64 };
    }
    Ok(ChainHead::default())
}

/// Opens a file for [`open_calls`] and for verification.
fn reader(disk: &Disk, path: &Path) -> io::Result<BufReader<DiskReader>> {
    Ok(BufReader::with_capacity(64 << 10, DiskReader(disk.open(path, Open::Read)?)))
}

struct DiskReader(Box<dyn VfsFile>);

impl Read for DiskReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

#[cfg(all(test, unix))]
#[path = "file_tests.rs"]
mod tests;
