//! File access of a sandboxed build: the child requests each file from its parent.
//!
//! The child opens nothing. What it asks for, the parent looks up in a [`SourceTree`] of its own, which refuses, counts
//! and remembers as it does in any build. So the parent knows by itself of what an artifact was made, and need not take a
//! broken compiler's word for it: the note for the cache comes of that tree, and a list of inputs that differs is refused.
//!
//! ```text
//! child   {"Look":"/pkg/a.ts"}            →    parent
//!         {"Found":"f"}                   ←
//!         {"Read":"/pkg/a.ts"}            →
//!         "Bytes"  export const a = 1;    ←
//!         {"Done":..}  artifact           →
//! ```
//!
//! A message is a head in JSON and bytes, each behind its length.

use crate::diagnostics::Diagnostic;
use crate::link::StandIns;
use crate::looked::Found;
use crate::tree::SourceTree;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of requests, each counted with [`COST`]: remembering them takes about as much memory. A build whose artifact can be
/// cached sends a third of it.
const MOST_ASKED: u64 = 128 << 20;
/// Memory that a request takes in addition to its text, in bytes.
const COST: u64 = 128;
/// Most bytes of an answer: an artifact with its sources, maps and bytecode.
const MOST_ANSWER: u64 = 512 << 20;
/// No system has longer paths, so no file exists at one.
const LONGEST_PATH: usize = 32 << 10;

/// A message of the child.
#[derive(Serialize, Deserialize)]
enum Said<T> {
    /// Requests the kind of item at a path.
    Look(PathBuf),
    /// Requests permission to read the file that an import leads to.
    Admit(PathBuf, String),
    /// Requests the names in a folder of the package.
    List(PathBuf),
    /// Requests the bytes of a manifest.
    Manifest(PathBuf),
    /// Requests the bytes of a file that goes into the artifact.
    Read(PathBuf),
    /// Ends the conversation, with the artifact if there is one.
    Done(T),
}

/// The parent's reply to a message.
#[derive(Serialize, Deserialize)]
enum Reply {
    Found(Found),
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
        // Allocates for received bytes, not for the announced length.
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
    send(&mut io::stdout().lock(), &Said::Done(last), bytes)
}

/// Serves a child out of `tree` until it is done; returns its final message, and the bytes with it.
pub(crate) fn serve<T: DeserializeOwned>(
    tree: &SourceTree,
    from: &mut impl Read,
    to: &mut impl Write,
) -> io::Result<(T, Vec<u8>)> {
    let mut asked = 0;
    loop {
        let (said, length, bytes) = receive::<Said<T>>(from, MOST_ANSWER)?;
        asked += COST + length;
        let (reply, bytes) = match said {
            Said::Done(last) => return Ok((last, bytes)),
            _ if asked > MOST_ASKED => return Err(io::Error::other("it asks without an end")),
            Said::Look(path) => (Reply::Found(tree.look(&path)), Vec::new()),
            Said::Admit(path, specifier) => match tree.admit(&path, &specifier) {
                Ok(()) => (Reply::Admitted, Vec::new()),
                Err(diagnostic) => (Reply::Refused(diagnostic), Vec::new()),
            },
            Said::List(path) => (Reply::Bytes, serde_json::to_vec(&tree.list(&path))?),
            // The parent would not record another file as an input.
            Said::Manifest(path) if !path.ends_with("package.json") => (Reply::Nothing, Vec::new()),
            Said::Manifest(path) => match tree.manifest(&path) {
                Some(bytes) => (Reply::Bytes, bytes),
                None => (Reply::Nothing, Vec::new()),
            },
            Said::Read(path) => match tree.read(&path) {
                Ok(bytes) => (Reply::Bytes, bytes),
                Err(diagnostic) => (Reply::Refused(diagnostic), Vec::new()),
            },
        };
        send(to, &reply, &bytes)?;
    }
}

/// The child's connection to its parent: one request at a time, from whichever thread holds the lock.
#[derive(Debug)]
pub(crate) struct Parent {
    turn: Mutex<()>,
    pub(crate) stand_ins: StandIns,
}

impl Parent {
    /// Connects to the parent over the standard streams. Call it while the process can still open files.
    pub(crate) fn new() -> Self {
        Self { turn: Mutex::default(), stand_ins: StandIns::new() }
    }

    pub(crate) fn look(&self, path: &Path) -> Found {
        if path.as_os_str().len() > LONGEST_PATH {
            return Found::Nothing;
        }
        match self.ask(Said::Look(path.to_owned())) {
            (Reply::Found(found), _) => found,
            _ => orphan(),
        }
    }

    pub(crate) fn admit(&self, path: &Path, specifier: &str) -> Result<(), Diagnostic> {
        match self.ask(Said::Admit(path.to_owned(), specifier.to_owned())) {
            (Reply::Admitted, _) => Ok(()),
            (Reply::Refused(diagnostic), _) => Err(diagnostic),
            _ => orphan(),
        }
    }

    pub(crate) fn list(&self, folder: &Path) -> Vec<(String, bool)> {
        match self.ask(Said::List(folder.to_owned())) {
            (Reply::Bytes, bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|_| orphan()),
            _ => orphan(),
        }
    }

    pub(crate) fn manifest(&self, path: &Path) -> Option<Vec<u8>> {
        match self.ask(Said::Manifest(path.to_owned())) {
            (Reply::Bytes, bytes) => Some(bytes),
            (Reply::Nothing, _) => None,
            _ => orphan(),
        }
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        match self.ask(Said::Read(path.to_owned())) {
            (Reply::Bytes, bytes) => Ok(bytes),
            (Reply::Refused(diagnostic), _) => Err(diagnostic),
            _ => orphan(),
        }
    }

    fn ask(&self, question: Said<()>) -> (Reply, Vec<u8>) {
        let _turn = self.turn();
        let sent = send(&mut io::stdout().lock(), &question, &[]);
        let answered = sent.and_then(|()| receive(&mut io::stdin().lock(), u64::MAX));
        answered.map_or_else(|_| orphan(), |(reply, _, bytes)| (reply, bytes))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::exit, reason = "without its parent a worker has no files and nobody to tell")]
fn orphan() -> ! {
    std::process::exit(1)
}
