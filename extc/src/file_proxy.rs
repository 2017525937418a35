//! File access of a sandboxed build: the child requests each file from its parent.
//!
//! The child opens no file. The parent serves its requests from its own [`SourceTree`](crate::tree::SourceTree)
//! ([`file_server`](crate::file_server)), which refuses, counts and records as in any build. So the parent knows the inputs of
//! the artifact without trusting a compromised compiler: the note for the cache comes from that tree, and a different list of
//! inputs is refused.
//!
//! ```text
//! child   {"Probe":"/pkg/a.ts"}           →    parent
//!         {"Kind":"f"}                    ←
//!         {"Read":"/pkg/a.ts"}            →
//!         "Bytes"  export const a = 1;    ←
//!         {"Done":..}  artifact           →
//! ```
//!
//! A message is a head in JSON and bytes, each preceded by its length.

use crate::manifest_stubs::ManifestStubs;
use crate::phase::PhaseNotice;
use crate::probe::PathKind;
use pijs_diagnostics::Diagnostic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum length of a path in bytes. No system supports longer paths, so no file exists at one.
const LONGEST_PATH: usize = 32 << 10;

/// A message of the child.
#[derive(Serialize, Deserialize)]
pub(crate) enum ChildMessage<T> {
    /// Requests the kind of item at a path.
    Probe(PathBuf),
    /// Requests permission to read the file that an import leads to.
    Admit(PathBuf, String),
    /// Requests the names in a folder of the package.
    List(PathBuf),
    /// Requests the bytes of a manifest.
    Manifest(PathBuf),
    /// Requests the bytes of a file that goes into the artifact.
    Read(PathBuf),
    /// Reports that a phase begins or ends; the parent does not reply.
    Phase(PhaseNotice),
    /// Ends the conversation, with the artifact if the build succeeded.
    Done(T),
}

/// The parent's reply to a message.
#[derive(Serialize, Deserialize)]
pub(crate) enum ParentReply {
    Kind(PathKind),
    Admitted,
    /// The bytes follow.
    Bytes,
    Nothing,
    Refused(Diagnostic),
}

/// Writes a message.
pub(crate) fn send(out: &mut impl Write, head: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    for part in [serde_json::to_vec(head)?.as_slice(), bytes] {
        out.write_all(&(part.len() as u64).to_le_bytes())?;
        out.write_all(part)?;
    }
    out.flush()
}

/// Reads a message of at most `most` bytes, and returns the length of its head.
pub(crate) fn receive<T: DeserializeOwned>(input: &mut impl Read, most: u64) -> io::Result<(T, u64, Vec<u8>)> {
    let mut part = |most: u64| {
        let mut length = [0; 8];
        input.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > most {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        // Allocates for received bytes only: the announced length is untrusted.
        let mut bytes = Vec::new();
        input.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    };
    let head = part(most)?;
    let length = head.len() as u64;
    let bytes = part(most - length)?;
    Ok((serde_json::from_slice(&head)?, length, bytes))
}

/// Sends the final message.
pub(crate) fn done<T: Serialize>(last: T, bytes: &[u8]) -> io::Result<()> {
    send(&mut io::stdout().lock(), &ChildMessage::Done(last), bytes)
}

/// The child's connection to its parent. One request is in flight at a time, from the thread that holds the lock.
#[derive(Debug)]
pub(crate) struct FileProxy {
    turn: Mutex<()>,
    pub(crate) manifest_stubs: ManifestStubs,
}

impl FileProxy {
    /// Connects to the parent over the standard streams. Call it while the process can still open files.
    pub(crate) fn new() -> Self {
        Self { turn: Mutex::default(), manifest_stubs: ManifestStubs::new() }
    }

    pub(crate) fn probe(&self, path: &Path) -> PathKind {
        if path.as_os_str().len() > LONGEST_PATH {
            return PathKind::Nothing;
        }
        match self.request(ChildMessage::Probe(path.to_owned())) {
            (ParentReply::Kind(kind), _) => kind,
            _ => orphan(),
        }
    }

    pub(crate) fn admit(&self, path: &Path, specifier: &str) -> Result<(), Diagnostic> {
        match self.request(ChildMessage::Admit(path.to_owned(), specifier.to_owned())) {
            (ParentReply::Admitted, _) => Ok(()),
            (ParentReply::Refused(diagnostic), _) => Err(diagnostic),
            _ => orphan(),
        }
    }

    pub(crate) fn list(&self, folder: &Path) -> Vec<(String, bool)> {
        match self.request(ChildMessage::List(folder.to_owned())) {
            (ParentReply::Bytes, bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|_| orphan()),
            _ => orphan(),
        }
    }

    pub(crate) fn manifest(&self, path: &Path) -> Option<Vec<u8>> {
        match self.request(ChildMessage::Manifest(path.to_owned())) {
            (ParentReply::Bytes, bytes) => Some(bytes),
            (ParentReply::Nothing, _) => None,
            _ => orphan(),
        }
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        match self.request(ChildMessage::Read(path.to_owned())) {
            (ParentReply::Bytes, bytes) => Ok(bytes),
            (ParentReply::Refused(diagnostic), _) => Err(diagnostic),
            _ => orphan(),
        }
    }

    /// Notifies the parent of a phase.
    pub(crate) fn phase(&self, notice: PhaseNotice) {
        let _turn = self.turn();
        if send(&mut io::stdout().lock(), &ChildMessage::<()>::Phase(notice), &[]).is_err() {
            orphan();
        }
    }

    fn request(&self, message: ChildMessage<()>) -> (ParentReply, Vec<u8>) {
        let _turn = self.turn();
        let sent = send(&mut io::stdout().lock(), &message, &[]);
        let answered = sent.and_then(|()| receive(&mut io::stdin().lock(), u64::MAX));
        answered.map_or_else(|_| orphan(), |(reply, _, bytes)| (reply, bytes))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::exit, reason = "without its parent a worker has no files and nobody to report to")]
fn orphan() -> ! {
    std::process::exit(1)
}
