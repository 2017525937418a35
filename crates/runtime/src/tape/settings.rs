//! `extensions.tape` of the settings: records every session beside its file, within limits.

use crate::environment::Environment;
use crate::settings;
use crate::user_error::{Result, UserError};
use serde::Deserialize;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Suffix of a tape's name.
const ENDING: &str = ".tape";

/// Infix of the name of a tape beside its session. The name starts with that of the session's file, so the protection of that
/// file from extensions covers the tape. Other tapes in the folder are never removed.
const LINES: &str = ".jsonl.";

/// Maximum number of recorded runs of one session.
const MAX_RUNS: u32 = 10_000;

/// `extensions.tape` of the user's settings. A folder cannot turn recording on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TapeSettings {
    record: bool,
    /// Size in MB at which a recording ends.
    max_mb: u64,
    /// Number of tapes kept in a folder of sessions; older ones are removed.
    keep: usize,
}

impl Default for TapeSettings {
    fn default() -> Self {
        Self { record: false, max_mb: 10, keep: 20 }
    }
}

impl TapeSettings {
    /// Reads the settings.
    pub(crate) fn of(environment: &Environment) -> Result<Self> {
        let [(file, user), _] = settings::by_file(environment);
        let said = user.get("extensions").and_then(|extensions| extensions.get("tape")).cloned();
        said.map_or(Ok(Self::default()), serde_json::from_value).map_err(|error| {
            UserError::failed(format!("{}: extensions.tape: {error}", file.display()))
                .help(r#"write it as {"record": true, "maxMb": 10, "keep": 20}"#)
        })
    }

    /// Returns the path of the tape of a session in a file; `None` when it is not recorded.
    pub(crate) fn beside(self, session: Option<&Path>) -> Option<PathBuf> {
        let session = session.filter(|_| self.record)?;
        let file = session.file_name()?.to_str()?;
        let name = |run: u32| match run {
            1 => format!("{file}{ENDING}"),
            run => format!("{file}.{run}{ENDING}"),
        };
        (1..MAX_RUNS).map(|run| session.with_file_name(name(run))).find(|path| !path.exists())
    }

    /// Creates the folder of a tape and removes the oldest tapes beyond the limit.
    pub(crate) fn make_room(self, tape: &Path) -> io::Result<()> {
        let Some(folder) = tape.parent() else { return Ok(()) };
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt as _;
            builder.mode(0o700);
        }
        builder.recursive(true).create(folder)?;
        let is_tape = |path: &PathBuf| {
            path.is_file()
                && path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.contains(LINES) && name.ends_with(ENDING))
        };
        let mut tapes: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
            .flatten()
            .map(|entry| entry.path())
            .filter(is_tape)
            .map(|path| (path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH), path))
            .collect();
        tapes.sort();
        let more = (tapes.len() + 1).saturating_sub(self.keep.max(1));
        for (_, path) in tapes.into_iter().take(more) {
            // Another session may have removed the tape meanwhile.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Limits a writer to the bytes that the settings allow.
    pub(crate) fn limited<W: Write>(self, out: W) -> Limited<W> {
        Limited { out, left: self.max_mb.saturating_mul(1 << 20), max_mb: self.max_mb }
    }
}

/// A writer with a limit of bytes.
pub(crate) struct Limited<W> {
    out: W,
    left: u64,
    max_mb: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            let max = self.max_mb;
            return Err(io::Error::other(format!(
                "it would have more than {max} MB, see `extensions.tape.maxMb` in the settings"
            )));
        }
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_is_beside_its_session_and_old_tapes_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let session = folder.path().join("deep/a.jsonl");
        let settings = TapeSettings { record: true, max_mb: 1, keep: 2 };
        assert_eq!(TapeSettings::default().beside(Some(&session)), None, "it is off");
        assert_eq!(settings.beside(None), None, "nothing of the session is kept");
        let mut made = Vec::new();
        for _ in 0..3 {
            let tape = settings.beside(Some(&session)).expect("a name");
            settings.make_room(&tape).expect("room");
            fs::write(&tape, "x").expect("a file");
            made.push(tape);
        }
        let names: Vec<_> =
            made.iter().map(|path| path.file_name().and_then(|name| name.to_str()).expect("text")).collect();
        assert_eq!(names[..2], ["a.jsonl.tape", "a.jsonl.2.tape"]);
        let left = fs::read_dir(session.parent().expect("a folder")).expect("a folder").count();
        assert_eq!(left, 2, "{names:?}");
    }

    #[test]
    fn a_tape_ends_at_the_size_limit() {
        let mut out = TapeSettings { record: true, max_mb: 1, keep: 1 }.limited(Vec::new());
        out.write_all(&[0; 1 << 20]).expect("as many as it takes");
        assert!(out.write_all(&[0]).is_err_and(|error| error.to_string().contains("maxMb")));
    }
}
