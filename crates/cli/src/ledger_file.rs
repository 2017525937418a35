//! The ledger's file: `<agentDir>/logs/extensions/<session>.jsonl`, or below `PI_EXTENSION_LOG_DIR`.

use crate::output::stderr;
use pijs_hostcall::LedgerSink;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Appends whole lines; the file appears with the first one.
pub(crate) struct LedgerFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    warned: bool,
}

impl LedgerFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    fn open(path: &Path) -> io::Result<File> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }
}

impl LedgerSink for LedgerFile {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match &mut state.file {
            Some(file) => file.write_all(lines),
            none => Self::open(&self.path).and_then(|file| none.insert(file).write_all(lines)),
        };
        if let Err(error) = &written
            && !std::mem::replace(&mut state.warned, true)
        {
            stderr(&format!("warning: the ledger {} cannot be written: {error}", self.path.display()));
        }
        written
    }
}
