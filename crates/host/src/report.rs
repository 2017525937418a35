//! Reports of the host while extensions run: errors, strikes, restarts, warnings.
//!
//! An [`ExtensionReport`] describes a fact about one extension that no caller waits for. Front ends subscribe with
//! [`Host::reports`](crate::Host::reports); the dispatcher writes the facts of the ledger.

use pijs_hostcall::gate::CURE;
use pijs_protocol::log::LogEntry;
use pijs_protocol::message::ErrorReport;
use pijs_protocol::{EntryIndex, ExtensionId, StreamSource, Termination};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::{cell::RefCell, future::poll_fn, task::Poll, task::Waker};

/// One fact about one extension.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionReport {
    /// The extension.
    pub extension: ExtensionId,
    /// Displayed path of the entry; the package's name for facts without an entry.
    pub path: String,
    /// The fact.
    pub kind: ReportKind,
}

/// Kind of an [`ExtensionReport`].
#[derive(Debug, Clone, PartialEq)]
pub enum ReportKind {
    /// A handler, tool, command, timer or callback threw, or a promise was rejected unhandled. Positions refer to the source.
    Error(ErrorReport),
    /// A problem that does not stop the extension: an unknown event name, a name that a host module lacks, a call that was not
    /// granted.
    Warning {
        /// One sentence.
        message: String,
    },
    /// A tool or flag name is registered twice; the first one loaded keeps it.
    Conflict {
        /// `Tool "x" conflicts with PATH`, as pi words it.
        message: String,
    },
    /// Console output, or `pi.log`.
    Log(Box<LogEntry>),
    /// A `stream_text` handler threw, returned an invalid answer or ran out of time.
    Strike {
        /// Number of strikes in this session, including this one.
        count: u32,
        /// Whether the handler is no longer called.
        muted: bool,
    },
    /// A `stream_text` handler waits for I/O, so its answers come too late and count as *continue*. Reported once per handler.
    LateVerdict,
    /// A verdict took longer than the soft limit. Reported once per extension.
    SlowVerdict {
        /// Duration of the verdict.
        elapsed_us: u64,
        /// Kind of the delta.
        source: StreamSource,
    },
    /// The realm was discarded.
    Ended(Termination),
    /// A new realm took the place of a discarded one; all entries are loaded again.
    Restarted,
    /// The extension was stopped too often, or took too long to start, and is in quarantine: disabled for the rest of the
    /// session, or until [`Host::release`](crate::Host::release). Reported once.
    Disabled {
        /// Number of stops.
        ends: u32,
        /// Time window in seconds.
        within_s: u64,
    },
}

impl fmt::Display for ExtensionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.kind {
            ReportKind::Error(error) => {
                // The command at the end stays intact for copying.
                let (what, cure) = error.message.split_at(error.message.find(CURE).unwrap_or(error.message.len()));
                write!(f, "Extension \"{path}\" error: {what}")?;
                if let Some(place) = &error.position {
                    write!(f, " ({}:{}:{})", place.file, place.line, place.column)?;
                }
                f.write_str(cure)
            }
            ReportKind::Warning { message } | ReportKind::Conflict { message } => {
                write!(f, "Extension \"{path}\": {message}")
            }
            ReportKind::Log(entry) => write!(f, "{path}: {}", entry.message),
            ReportKind::Strike { count, muted: false } => {
                write!(f, "Extension \"{path}\": stream_text handler, strike {count}")
            }
            ReportKind::Strike { count, muted: true } => {
                write!(f, "Extension \"{path}\": stream_text handler, strike {count}; it is no longer called")
            }
            ReportKind::LateVerdict => write!(
                f,
                "Extension \"{path}\": a stream_text handler waits for I/O; its answers come too late and count as continue"
            ),
            ReportKind::SlowVerdict { elapsed_us, source } => write!(
                f,
                "Extension \"{path}\": stream_text took {} ms for one {} delta",
                elapsed_us / 1000,
                source.as_str()
            ),
            ReportKind::Ended(reason) => write!(f, "Extension \"{path}\" {reason}"),
            ReportKind::Restarted => write!(f, "Extension \"{path}\" was restarted"),
            ReportKind::Disabled { ends, within_s } => {
                write!(f, "Extension \"{path}\" was stopped ")?;
                match ends {
                    1 => write!(f, "while it started")?,
                    ends => write!(f, "{ends} times within {within_s} s")?,
                }
                write!(
                    f,
                    " and is in quarantine: it is disabled for this session. The next session loads it again; to \
                     uninstall it: pi remove {}",
                    self.extension
                )
            }
        }
    }
}

/// Observes a host on its own thread, synchronously.
pub trait Observer {
    /// Called with a report, before any subscriber gets it.
    fn report(&self, report: &ExtensionReport);
}

/// A subscription to reports.
///
/// Buffers at most [`Reports::CAPACITY`] unread reports; beyond that the oldest are dropped, and [`Reports::lost`] counts them.
#[derive(Clone)]
pub struct Reports(Rc<RefCell<Inbox>>);

#[derive(Default)]
struct Inbox {
    unread: VecDeque<ExtensionReport>,
    lost: u64,
    waker: Option<Waker>,
}

impl Reports {
    /// Maximum number of unread reports of a subscription.
    pub const CAPACITY: usize = 4096;

    pub(crate) fn new() -> Self {
        Self(Rc::default())
    }

    pub(crate) fn push(&self, report: ExtensionReport) {
        let mut inbox = self.0.borrow_mut();
        if inbox.unread.len() == Self::CAPACITY {
            inbox.unread.pop_front();
            inbox.lost += 1;
        }
        inbox.unread.push_back(report);
        if let Some(waker) = inbox.waker.take() {
            waker.wake();
        }
    }

    /// Returns whether a subscriber still exists.
    pub(crate) fn is_wanted(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Takes all unread reports, oldest first.
    pub fn drain(&self) -> Vec<ExtensionReport> {
        self.0.borrow_mut().unread.drain(..).collect()
    }

    /// Waits for the next report.
    pub async fn next(&self) -> ExtensionReport {
        poll_fn(|cx| {
            let mut inbox = self.0.borrow_mut();
            match inbox.unread.pop_front() {
                Some(report) => Poll::Ready(report),
                None => {
                    inbox.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Returns the number of dropped reports.
    pub fn lost(&self) -> u64 {
        self.0.borrow().lost
    }
}

/// Creates an error report without an error name and a stack.
pub(crate) fn plain_error(entry: EntryIndex, phase: &str, message: String) -> ErrorReport {
    ErrorReport { entry: Some(entry), phase: phase.to_owned(), name: None, message, stack: None, position: None }
}
