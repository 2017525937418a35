//! Error of reading a tape.

use pijs_protocol::ErrorCode;
use std::fmt;

/// The error of reading a tape. Names the record at which reading failed; everything before it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeError {
    record: u64,
    what: TapeFault,
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TapeFault {
    Io(String),
    NoTape,
    Version { what: &'static str, found: String, expected: String },
    Cut,
    Block(&'static str),
    TooLarge { what: &'static str, most: usize },
    Json(String),
    Attachment(String),
    Digest,
    Order(&'static str),
}

impl TapeError {
    pub(crate) fn at(record: u64, what: TapeFault) -> Self {
        Self { record, what }
    }

    /// Returns the number of the record that cannot be read, from 1. All records before it are valid.
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Returns the error's code.
    pub fn code(&self) -> ErrorCode {
        match self.what {
            TapeFault::Io(_) | TapeFault::Cut => ErrorCode::Io,
            _ => ErrorCode::InvalidRequest,
        }
    }

    /// Returns whether the recording was cut off here, for example by a kill: the tape is valid up to this record.
    pub fn is_cut(&self) -> bool {
        self.what == TapeFault::Cut
    }

    /// Returns the next step for the user.
    pub fn help(&self) -> &'static str {
        match self.what {
            TapeFault::Io(_) => "check that the file can be read",
            TapeFault::NoTape => "a tape is what `pi --tape FILE` writes",
            TapeFault::Version { .. } => "replay it with the version of pi that recorded it",
            TapeFault::Cut => "the part before this record can be replayed",
            TapeFault::TooLarge { .. } => "record a shorter session",
            _ => "copy the file again from where it was recorded; `pi tape info` shows what can be read",
        }
    }
}

impl From<std::io::Error> for TapeError {
    fn from(error: std::io::Error) -> Self {
        Self::at(0, TapeFault::Io(error.to_string()))
    }
}

impl fmt::Display for TapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record;
        match &self.what {
            TapeFault::NoTape => f.write_str("this is not a tape"),
            TapeFault::Version { what, found, expected } => {
                write!(f, "this tape cannot be read here: {what} is {found}, expected {expected}")
            }
            TapeFault::Io(error) => write!(f, "record {record} of the tape: {error}"),
            TapeFault::Cut => write!(f, "the tape is cut off at record {record}"),
            TapeFault::Block(what) => write!(f, "the tape is damaged at record {record}: {what}"),
            TapeFault::TooLarge { what, most } => {
                write!(f, "record {record} of the tape: {what} of more than {most} bytes")
            }
            TapeFault::Json(error) => write!(f, "record {record} of the tape is invalid: {error}"),
            TapeFault::Attachment(error) => write!(f, "record {record} of the tape: an attachment: {error}"),
            TapeFault::Digest => {
                write!(f, "record {record} of the tape: its digest does not match the turns before it")
            }
            TapeFault::Order(what) => write!(f, "record {record} of the tape: {what}"),
        }
    }
}

impl std::error::Error for TapeError {}
