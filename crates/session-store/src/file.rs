//! Opens and reads session files. Only this module and `store` touch the disk.
//!
//! Files are read line by line. A session within the memory limit is loaded completely; of a longer one, only the index is
//! loaded. Lines that do not parse are skipped, as pi does, and a damaged end is moved aside before the next append. Only one
//! process at a time appends, with one write per line, and a flush at the end of a turn and before tools run.

use super::SessionError;
use super::SessionOptions;
use super::entry::{Entry, Header, VERSION};
use super::entry_cache::CACHE_BYTES;
use super::index::{IndexNode, LinePosition};
use super::line_metadata::line_metadata;
use super::lines::{FileLine, LineReader};
use super::migrate::migrate;
use super::records::{LineDigest, RecordedLines, digest};
use super::store::{EntryStore, Storage, StorageState, repair};
use pijs_durable::{Appender, Open, VfsFile};
use pijs_protocol::guard;
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Returns the folder with the sessions of a working directory: `<agentDir>/sessions/--a-b-c--`.
pub fn directory(agent_dir: &Path, cwd: &Path) -> PathBuf {
    let cwd = cwd.display().to_string();
    let trimmed = cwd.strip_prefix(['/', '\\']).unwrap_or(&cwd);
    agent_dir.join("sessions").join(format!("--{}--", trimmed.replace(['/', '\\', ':'], "-")))
}

/// Returns the name of a session file: `2026-01-02T03-04-05-678Z_<id>.jsonl`.
pub fn name(timestamp: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// Returns the most recently changed session file; equal times are ordered by name.
pub fn latest(directory: &Path) -> Result<Option<PathBuf>, SessionError> {
    let wrong = |error| SessionError::new(directory, "list", error);
    let listing = match fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut files = Vec::new();
    for item in listing {
        let path = item.map_err(wrong)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).map_err(wrong)?;
            files.push((changed, path));
        }
    }
    Ok(files.into_iter().max().map(|(_, path)| path))
}

/// Whether a session file may be opened through symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    Followed,
    Refused,
}

/// A session file that was read.
pub(super) struct OpenedFile {
    pub(super) header: Header,
    pub(super) entries: EntryStore,
    /// Notices for the user, one sentence each.
    pub(super) notices: Vec<String>,
    pub(super) storage: Storage,
}

/// Reads a file and prepares appending to it; `None` if it does not exist or is empty.
///
/// If `links` refuses links, the opened file must be at the permitted path, even if folders were replaced by links in the
/// meantime.
pub(super) fn read(
    path: &Path,
    options: &SessionOptions,
    links: LinkPolicy,
) -> Result<Option<OpenedFile>, SessionError> {
    let disk = &options.disk;
    let failed = |doing| move |error: io::Error| SessionError::new(path, doing, error);
    if disk.stat(path).map_or_else(|error| error.kind() == ErrorKind::NotFound, |stat| stat.len == 0) {
        return Ok(None);
    }
    // The lock comes first, so that no other process appends after the read.
    let appender = match Appender::open(disk, path) {
        Ok(opened) => Some(opened.appender),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            let reason = "another pi is using it; close that one, or start a new session";
            return Err(SessionError::new(path, "open", reason));
        }
        // The file is readable; the first append reports that it is not writable.
        Err(error) if error.kind() == ErrorKind::PermissionDenied || error.kind() == ErrorKind::ReadOnlyFilesystem => {
            None
        }
        Err(error) => return Err(failed("open")(error)),
    };
    let file = disk.open(path, Open::Read).map_err(failed("read"))?;
    if links == LinkPolicy::Refused {
        expect_no_link(path, appender.as_ref(), &*file)?;
    }
    let length = file.stat().map_err(failed("read"))?.len;
    let mut lines = LineReader::new(FileReader(file));
    let (header, mut scan) = FileScan::begin(&mut lines, path)?;
    let version = header.get("version").and_then(Value::as_u64).unwrap_or(1);
    if version > VERSION {
        let reason =
            format!("a later pi wrote it, in format version {version}; this one reads up to version {VERSION}");
        return Err(SessionError::new(path, "open", reason));
    }
    if let (Some(records), Some(id)) = (&options.records, header.get("id").and_then(Value::as_str)) {
        scan.recorded = Some(records.recorded(id));
    }
    let mut header = Value::Object(header);
    let mut notices = Vec::new();
    if version < VERSION {
        notices.push(format!("the session file was migrated from format version {version} to version {VERSION}"));
        scan.migrated(&mut lines, path, version, &mut header, options)?;
    } else if length <= CACHE_BYTES || !guard!(SessionCachedBytes) {
        scan.each(&mut lines, path, |scan, line| {
            let position = LinePosition::of(line.from, line.bytes);
            let author = scan.author(line.bytes);
            scan.value(line.bytes).map(|value| scan.take(value, Some(position), author)).is_some()
        })?;
    } else {
        scan.each(&mut lines, path, FileScan::index)?;
    }
    let header: Header = serde_json::from_value(header)
        .map_err(|error| SessionError::new(path, "open", format!("its header is incomplete: {error}")))?;
    notices.extend(scan.foreign_lines_notice());
    let FileScan { mut entries, skipped, good, ends_with_line_break: line_break, unanswered, .. } = scan;
    if skipped > 0 {
        let lines = if skipped == 1 { "line" } else { "lines" };
        notices.push(format!("skipped {skipped} damaged or repeated {lines} of the session file"));
    }
    let written = entries.index.len();
    let state = match appender {
        Some(mut appender) => {
            if let Some(aside) = repair(disk, path, &mut appender, good, line_break).map_err(failed("repair"))? {
                notices.push(format!("the end of the session file was damaged; it was moved to {}", aside.display()));
            }
            StorageState::Open { appender, written }
        }
        None => StorageState::Unopened { good, line_break, written },
    };
    let mut storage = Storage::opened(options, path, state, lines.into_file().0);
    entries.unanswered = unanswered;
    if version < VERSION {
        storage.rewrite(&header, &mut entries).map_err(failed("migrate"))?;
    }
    Ok(Some(OpenedFile { header, entries, notices, storage }))
}

/// Checks that the file opened for reading, and the one for writing, are at the given path.
fn expect_no_link(path: &Path, appender: Option<&Appender>, file: &dyn VfsFile) -> Result<(), SessionError> {
    let written = appender.map_or_else(|| Ok(path.to_owned()), Appender::real_path);
    for real in [written, file.real_path(path)] {
        let real = real.map_err(|error| SessionError::new(path, "open", error))?;
        if real != path {
            let reason = format!("it is a link to {}; name that file", real.display());
            return Err(SessionError::new(path, "open", reason));
        }
    }
    Ok(())
}

/// Scan state of a file.
struct FileScan {
    entries: EntryStore,
    /// Number of invalid lines in the middle, and of invalid or repeated entries.
    skipped: usize,
    /// Number of lines after the last valid one.
    bad: usize,
    /// Offset of the end of the last valid line.
    good: u64,
    ends_with_line_break: bool,
    /// Digests that PiJS recorded for this session; `None` without records.
    recorded: Option<RecordedLines>,
    /// Lines of another program that the model has not replied to.
    unanswered: Vec<LineDigest>,
}

/// Authors of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// PiJS itself.
    Own,
    /// Another program; the model has replied since then.
    Answered,
    /// Another program; the model has not replied.
    Foreign(LineDigest),
}

impl FileScan {
    /// Reads the header.
    fn begin(lines: &mut LineReader<FileReader>, path: &Path) -> Result<(Map<String, Value>, Self), SessionError> {
        let no_session = || SessionError::new(path, "open", "its first line is not a session header");
        let first = lines.next().map_err(|error| SessionError::new(path, "read", error))?.ok_or_else(no_session)?;
        let text = first.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first.bytes);
        let header = match serde_json::from_slice(text) {
            Ok(Value::Object(header)) if first.whole => header,
            _ => return Err(no_session()),
        };
        if header.get("type").and_then(Value::as_str) != Some("session") {
            return Err(no_session());
        }
        let (good, ends_with_line_break) = (first.to, first.line_break);
        let scan = Self {
            entries: EntryStore::default(),
            skipped: 0,
            bad: 0,
            good,
            ends_with_line_break,
            recorded: None,
            unanswered: Vec::new(),
        };
        Ok((header, scan))
    }

    /// Passes every line to `take`, which returns whether the line is valid JSON.
    fn each(
        &mut self,
        lines: &mut LineReader<FileReader>,
        path: &Path,
        mut take: impl FnMut(&mut Self, &FileLine<'_>) -> bool,
    ) -> Result<(), SessionError> {
        // A read error is fatal: only data that can be read is treated as damaged.
        while let Some(line) = lines.next().map_err(|error| SessionError::new(path, "read", error))? {
            if line.whole && take(self, &line) {
                self.skipped += std::mem::take(&mut self.bad);
                (self.good, self.ends_with_line_break) = (line.to, line.line_break);
            } else if line.whole && line.bytes.trim_ascii().is_empty() && self.bad == 0 {
                // An empty line is ignored.
                self.good = line.to;
            } else {
                self.bad += 1;
            }
        }
        Ok(())
    }

    /// Parses a line as JSON.
    fn value(&self, line: &[u8]) -> Option<Value> {
        serde_json::from_slice(line).ok()
    }

    /// Reads all lines of an earlier format, migrates them and adds the entries.
    fn migrated(
        &mut self,
        lines: &mut LineReader<FileReader>,
        path: &Path,
        version: u64,
        header: &mut Value,
        options: &SessionOptions,
    ) -> Result<(), SessionError> {
        let mut values = Vec::new();
        self.each(lines, path, |scan, line| {
            let author = scan.author(line.bytes);
            scan.value(line.bytes).map(|value| values.push((value, author))).is_some()
        })?;
        let (mut values, authors): (Vec<Value>, Vec<Author>) = values.into_iter().unzip();
        migrate(version, header, &mut values, &options.ambient);
        values.into_iter().zip(authors).for_each(|(value, author)| self.take(value, None, author));
        Ok(())
    }

    /// Returns the author of a line by its recorded digest.
    fn author(&self, line: &[u8]) -> Author {
        let Some(recorded) = self.recorded.as_ref().filter(|_| guard!(SessionForeignLines)) else { return Author::Own };
        let line = digest(line);
        match () {
            () if recorded.is_own(&line) => Author::Own,
            () if recorded.is_answered(&line) => Author::Answered,
            () => Author::Foreign(line),
        }
    }

    /// Counts an accepted or skipped entry.
    fn count(&mut self, taken: bool, author: Author) {
        self.skipped += usize::from(!taken);
        if let (true, Author::Foreign(line)) = (taken, author) {
            self.unanswered.push(line);
        }
    }

    /// Returns the warning about entries of another program, for the user.
    fn foreign_lines_notice(&self) -> Option<String> {
        let (foreign, all) = (self.unanswered.len(), self.entries.index.len());
        let whose =
            "is treated as untrusted (tool calls that it causes need your approval) until the model has replied";
        match foreign {
            0 => None,
            _ if self.recorded.as_ref().is_some_and(RecordedLines::is_empty) => Some(format!(
                "the session file was not written by PiJS but by another program, such as the real pi, or by an earlier \
                 version of PiJS; its content {whose}"
            )),
            _ => Some(format!(
                "{foreign} of {all} entries of the session file were not written by PiJS but added or changed by another \
                 program, such as the real pi; their content {whose}"
            )),
        }
    }

    /// Adds an entry to the index and to memory.
    fn take(&mut self, value: Value, position: Option<LinePosition>, author: Author) {
        let entry = Entry::from_value(value);
        let entry = if author == Author::Own { entry } else { entry.map(Entry::of_another_program) };
        let taken = entry.is_some_and(|entry| self.entries.push(entry, position).is_some());
        self.count(taken, author);
    }

    /// Adds an entry to the index only.
    fn index(&mut self, line: &FileLine<'_>) -> bool {
        let Ok(found) = line_metadata(line.bytes) else { return false };
        let position = Some(LinePosition::of(line.from, line.bytes));
        let author = self.author(line.bytes);
        let is_foreign = author != Author::Own;
        let taken = found.is_some_and(|found| {
            let node = IndexNode { name: found.name, parent: found.parent, kind: found.kind, position, is_foreign };
            let is_new = self.entries.index.push(node);
            if is_new
                && found.describes_others
                && let Some(entry) = self.value(line.bytes).and_then(Entry::from_value)
            {
                self.entries.index.apply(&entry.body);
            }
            is_new
        });
        self.count(taken, author);
        true
    }
}

pub(super) struct FileReader(pub(super) Box<dyn VfsFile>);

impl io::Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
