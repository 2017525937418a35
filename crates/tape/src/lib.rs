//! Recording, reading and comparing sessions: `pi.ext.tape.v1`.
//!
//! A tape is the transcript of the wire of all realms of a session. It is JSON lines: a
//! [`TapeHeader`], then one [`Record`] a line in the order in which things crossed.
//!
//! ```text
//! {"schema":"pi.ext.tape.v1","protocol":"1.0","engine":{...},"seed":7,...}
//! {"realm":"npm:pi-ttsr","kind":"delivery","value":{"seq":1,"now":{...},"task":{...}}}
//! {"realm":"npm:pi-ttsr","kind":"call","value":{"call_id":"host-1","capability":"read",...}}
//! {"realm":"npm:pi-ttsr","kind":"reply","value":{...},"bytes":[["aGVsbG8="]]}
//! {"realm":"npm:pi-ttsr","kind":"yield","value":{"messages":[...],...}}
//! ```
//!
//! Deliveries and replies are what a replay feeds back in; calls, yields and terminations are what it compares
//! ([`compare`], [`Comparison`]). A realm that was ended in a turn has a `termination` in the place of the yield, and
//! a replay does not enter that turn again.
//!
//! What always holds: reading back what was written gives equal records, to the last bit of a number and the last
//! byte of an attachment. Attachments stand beside the value in base64, one list for each message that may carry
//! some, and are left out when there are none.

mod compare;
mod record;

pub use compare::{Comparison, Drift, compare};
pub use pijs_protocol::tape::{TAPE_SCHEMA, TapeHeader};
pub use record::{Event, EventRef, Record};

use pijs_protocol::{ExtensionId, PROTOCOL_VERSION};
use std::io::{self, BufRead, Write};

/// Writes a tape to anything that takes bytes.
///
/// Every line goes out in one `write_all`; buffering and syncing are the caller's choice.
///
/// ```
/// use pijs_protocol::{Delivery, ExtensionId, Now, Seq, StreamDelta, StreamSource, Yield, wire::Task};
/// use pijs_protocol::artifact::EngineBuild;
/// use pijs_tick::tape::{EventRef, TapeHeader, TapeReader, TapeWriter};
///
/// let header = TapeHeader {
///     schema: "pi.ext.tape.v1".into(),
///     protocol: "1.0".into(),
///     engine: EngineBuild { name: "quickjs-ng".into(), version: "0".into(), bytecode: 1, target: "x86_64-le-64".into() },
///     artifacts: Default::default(),
///     seed: 7,
///     epoch_ms: 0,
///     clock_step_us: 1,
///     time_zone: "UTC".into(),
/// };
/// let realm = ExtensionId::from("npm:pi-ttsr");
/// let mut tape = TapeWriter::new(Vec::new(), &header)?;
/// tape.append(&realm, EventRef::Yield(&Yield::default()))?;
///
/// let bytes = tape.into_inner();
/// let mut reader = TapeReader::new(bytes.as_slice())?;
/// assert_eq!(reader.header().seed, 7);
/// assert_eq!(reader.next().expect("one record")?.realm, realm);
/// assert!(reader.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TapeWriter<W> {
    out: W,
}

impl<W: Write> TapeWriter<W> {
    /// Begins a tape: writes the header.
    ///
    /// # Errors
    ///
    /// What `out` fails with.
    pub fn new(mut out: W, header: &TapeHeader) -> io::Result<Self> {
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        out.write_all(&line)?;
        Ok(Self { out })
    }

    /// Adds what just crossed the wire of one realm.
    ///
    /// # Errors
    ///
    /// What `out` fails with.
    pub fn append(&mut self, realm: &ExtensionId, event: EventRef<'_>) -> io::Result<()> {
        let mut line = record::encode(realm, event)?;
        line.push(b'\n');
        self.out.write_all(&line)
    }

    /// Passes a flush on.
    ///
    /// # Errors
    ///
    /// What `out` fails with.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Gives back what was written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Why a tape cannot be read. Lines count from 1; the header is line 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The bytes could not be read.
    #[error("tape line {line}: {source}")]
    Io {
        /// The line that was being read.
        line: usize,
        /// What the reader said.
        source: io::Error,
    },
    /// There is no header.
    #[error("the tape is empty; a recorded session begins with a header line")]
    Empty,
    /// The first line is no header of a tape that this version reads.
    #[error("this is no tape that can be read here: {what} is {found:?}, expected {expected:?}")]
    Version {
        /// `schema` or `protocol`.
        what: &'static str,
        /// What the header says.
        found: String,
        /// What it must say.
        expected: &'static str,
    },
    /// A line is not what it should be.
    #[error("tape line {line} is not a record: {source}")]
    Json {
        /// The line.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The last line has no end: the recording was cut off there. Everything before it is good.
    #[error("the tape is cut off in line {line}; the records before it are complete")]
    Truncated {
        /// The unfinished line.
        line: usize,
    },
    /// Attachments are missing, superfluous, or no base64.
    #[error("tape line {line}: {what}")]
    Attachments {
        /// The line.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// Reads a tape: the header at once, then a record for each call of `next`.
///
/// After an error it gives nothing more.
#[derive(Debug)]
pub struct TapeReader<R> {
    input: R,
    header: TapeHeader,
    line: usize,
    ended: bool,
}

impl<R: BufRead> TapeReader<R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    ///
    /// [`TapeError`] when there is none, or one of another version.
    pub fn new(mut input: R) -> Result<Self, TapeError> {
        let text = next_line(&mut input, 1)?.ok_or(TapeError::Empty)?;
        // The version is looked at first: a later header may have other members.
        let loose: serde_json::Value =
            serde_json::from_slice(&text).map_err(|source| TapeError::Json { line: 1, source })?;
        for (what, expected) in [("schema", TAPE_SCHEMA), ("protocol", PROTOCOL_VERSION)] {
            let found = loose.get(what).and_then(|found| found.as_str()).unwrap_or_default();
            if found != expected {
                return Err(TapeError::Version { what, found: found.to_owned(), expected });
            }
        }
        let header = serde_json::from_slice(&text).map_err(|source| TapeError::Json { line: 1, source })?;
        Ok(Self { input, header, line: 1, ended: false })
    }

    /// What a replay needs before the first delivery.
    pub fn header(&self) -> &TapeHeader {
        &self.header
    }

    /// The line of the record that was read last.
    pub fn line(&self) -> usize {
        self.line
    }

    fn read(&mut self) -> Result<Option<Record>, TapeError> {
        let line = self.line + 1;
        let Some(text) = next_line(&mut self.input, line)? else {
            return Ok(None);
        };
        self.line = line;
        record::decode(&text, line).map(Some)
    }
}

impl<R: BufRead> Iterator for TapeReader<R> {
    type Item = Result<Record, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.ended = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

/// A whole line without its end; `None` after the last one.
fn next_line(input: &mut impl BufRead, line: usize) -> Result<Option<Vec<u8>>, TapeError> {
    let mut text = Vec::new();
    input.read_until(b'\n', &mut text).map_err(|source| TapeError::Io { line, source })?;
    match text.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(text)),
        Some(_) => Err(TapeError::Truncated { line }),
    }
}
