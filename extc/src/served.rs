//! How a sealed build sees files: it asks its parent for each.
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

/// Most bytes of questions, each counted with [`COST`]: what is remembered of them takes about as much. A build whose
/// artifact can be kept asks a third of it.
const MOST_ASKED: u64 = 128 << 20;
/// What a question takes beside its text.
const COST: u64 = 128;
/// Most bytes of an answer: an artifact with its sources, maps and bytecode.
const MOST_ANSWER: u64 = 512 << 20;
/// No system has longer paths, so there is nothing at one.
const LONGEST_PATH: usize = 32 << 10;

/// What a child says.
#[derive(Serialize, Deserialize)]
enum Said<T> {
    /// What lies at a path?
    Look(PathBuf),
    /// May the file at a path be read, to which an import leads?
    Admit(PathBuf, String),
    /// Asks for the names in a folder of the package.
    List(PathBuf),
    /// The bytes of a manifest.
    Manifest(PathBuf),
    /// The bytes of a file that goes into the artifact.
    Read(PathBuf),
    /// The end, with the artifact if there is one.
    Done(T),
}

/// What it is answered.
#[derive(Serialize, Deserialize)]
enum Reply {
    Found(Found),
    Admitted,
    /// They follow.
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

/// Reads a message of at most `most` bytes, and says how many its head has.
pub(crate) fn receive<T: DeserializeOwned>(input: &mut impl Read, most: u64) -> io::Result<(T, u64, Vec<u8>)> {
    let mut part = |most: u64| {
        let mut length = [0; 8];
        input.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > most {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        // Memory for what comes, not for what is announced.
        let mut bytes = Vec::new();
        input.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    };
    let head = part(most)?;
    let length = head.len() as u64;
    let bytes = part(most - length)?;
    Ok((serde_json::from_slice(&head)?, length, bytes))
}

/// Says the last words.
pub(crate) fn done<T: Serialize>(last: T, bytes: &[u8]) -> io::Result<()> {
    send(&mut io::stdout().lock(), &Said::Done(last), bytes)
}

/// Answers a child out of `tree` until it is done: its last words, and the bytes with them.
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
            // Of another file it would be no input.
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

/// The parent, as the child sees it: one question at a time, whichever thread has it.
#[derive(Debug)]
pub(crate) struct Parent {
    turn: Mutex<()>,
    pub(crate) stand_ins: StandIns,
}

impl Parent {
    /// In a process that can still open files.
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
