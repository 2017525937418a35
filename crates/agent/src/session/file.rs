//! Session files on disk. The only place of this crate that touches them.

use super::SessionError;
use super::entry::{Entry, Header, VERSION};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Where the sessions of a working directory are: `<agentDir>/sessions/--a-b-c--`.
pub fn directory(agent_dir: &Path, cwd: &Path) -> PathBuf {
    let cwd = cwd.display().to_string();
    let trimmed = cwd.strip_prefix(['/', '\\']).unwrap_or(&cwd);
    agent_dir.join("sessions").join(format!("--{}--", trimmed.replace(['/', '\\', ':'], "-")))
}

/// `2026-01-02T03-04-05-678Z_<id>.jsonl`.
pub fn name(timestamp: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// The session file that was changed last; names settle equal times.
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

/// What a file holds.
pub(super) struct Read {
    pub(super) header: Header,
    pub(super) entries: Vec<Entry>,
    /// Bytes up to the end of the last whole line.
    pub(super) keep: u64,
}

/// Reads a file; `None` when it does not exist or is empty.
pub(super) fn read(path: &Path) -> Result<Option<Read>, SessionError> {
    let bytes = match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => return Ok(None),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SessionError::new(path, "read", error)),
    };
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let header: Header = serde_json::from_slice(first)
        .ok()
        .filter(|header: &Header| header.kind == "session")
        .ok_or_else(|| SessionError::new(path, "open", "its first line is no session header"))?;
    if header.version != VERSION {
        let reason = format!(
            "it is of format version {}; open it once with the real pi, which migrates it to 3",
            header.version
        );
        return Err(SessionError::new(path, "open", reason));
    }
    let entries =
        lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).filter_map(Entry::from_value).collect();
    // A last line without its line break is whole when it parses, torn when it does not.
    let last = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let torn = if serde_json::from_slice::<Value>(last).is_ok() { 0 } else { last.len() };
    Ok(Some(Read { header, entries, keep: (bytes.len() - torn) as u64 }))
}

/// Where a session's lines go.
pub(super) struct Storage {
    path: Option<PathBuf>,
    state: State,
}

enum State {
    /// Nothing is on disk yet: pi writes no file for a conversation the model never joined.
    Waiting,
    /// On disk up to `keep` bytes; the file is opened with the first append.
    Existing { keep: u64 },
    /// Open for appending; so many entries are written.
    Open { file: File, written: usize },
}

impl Storage {
    pub(super) fn memory() -> Self {
        Self { path: None, state: State::Waiting }
    }

    pub(super) fn file(path: PathBuf) -> Self {
        Self { path: Some(path), state: State::Waiting }
    }

    pub(super) fn existing(path: PathBuf, keep: u64) -> Self {
        Self { path: Some(path), state: State::Existing { keep } }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Writes everything now: for a session that begins with entries of another one.
    pub(super) fn write_all(&mut self, header: &Header, entries: &[Entry]) -> Result<(), SessionError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |error| SessionError::new(path, "write", error);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut text = serde_json::to_string(header).expect("a header has only string keys");
        text.push('\n');
        for entry in entries {
            push_line(&mut text, entry);
        }
        let mut file = private(OpenOptions::new().create(true).append(true)).open(path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        self.state = State::Open { file, written: entries.len() };
        Ok(())
    }

    /// The last of `entries` is new: writes what is due.
    pub(super) fn appended(&mut self, header: &Header, entries: &[Entry]) -> Result<(), SessionError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |error| SessionError::new(path, "write", error);
        let newest = entries.last().expect("called after an append");
        match &mut self.state {
            State::Waiting if !newest.is_assistant() => Ok(()),
            State::Waiting => self.write_all(header, entries),
            State::Existing { keep } => {
                let file = private(OpenOptions::new().create(true).append(true)).open(path).map_err(failed)?;
                let length = file.metadata().map_err(failed)?.len();
                let mut file = file;
                if length > *keep {
                    file.set_len(*keep).map_err(failed)?;
                }
                let mut text = String::new();
                if *keep > 0 && !ends_with_line_break(path).map_err(failed)? {
                    text.push('\n');
                }
                push_line(&mut text, newest);
                file.write_all(text.as_bytes()).map_err(failed)?;
                self.state = State::Open { file, written: entries.len() };
                Ok(())
            }
            State::Open { file, written } => {
                let mut text = String::new();
                for entry in &entries[*written..] {
                    push_line(&mut text, entry);
                }
                file.write_all(text.as_bytes()).map_err(failed)?;
                *written = entries.len();
                Ok(())
            }
        }
    }
}

fn push_line(text: &mut String, entry: &Entry) {
    text.push_str(&entry.to_value().to_string());
    text.push('\n');
}

fn ends_with_line_break(path: &Path) -> std::io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

/// Conversations hold what people and their files say: nobody else reads them.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}
