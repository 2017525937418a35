//! The thread of one database.
//!
//! The thread handles one call at a time. A caller waits until the call's deadline and a short grace period. A thread that has
//! not answered by then is inside a function that SQLite cannot interrupt; it exits when that function returns.

use super::database_file::{self, DatabaseFile};
use super::limit;
use super::statement::{configure, convert_error, kept, perform};
use pijs_hostcall::connector::{cancelled, deadline};
use pijs_hostcall::{Output, Request};
use pijs_protocol::{ErrorCode, HostcallError, guard};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Interval between two checks for cancellation.
const LOOK: Duration = Duration::from_millis(20);

/// Grace period after the deadline, in which a statement usually stops.
const GRACE: Duration = Duration::from_secs(1);

/// Stack size of the thread in bytes; only used pages take memory. It must suffice for the deepest statements that
/// [`super::nesting`] allows, and for reading any schema.
const STACK: usize = 64 << 20;

/// Sends jobs to the thread. The thread exits when this is dropped.
pub(super) struct DatabaseWorker {
    jobs: Sender<Job>,
    life: Weak<()>,
    kept: Arc<AtomicU64>,
}

/// Result of a call; the outer error means that the database is lost.
type Answer = Result<Result<Output, HostcallError>, HostcallError>;

enum Job {
    Perform(Box<Request>, SyncSender<Answer>),
    Close(SyncSender<()>),
}

impl DatabaseWorker {
    /// Opens a database in a new thread: the one at `file`, or one in memory.
    pub(super) fn start(file: Option<DatabaseFile>, request: &Request) -> Result<Self, HostcallError> {
        let (jobs, todo) = mpsc::channel();
        let (report, opened) = mpsc::sync_channel(1);
        let alive = Arc::new(());
        let life = Arc::downgrade(&alive);
        let request = request.clone();
        let kept = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&kept);
        let work = move || {
            let _alive = alive;
            match open(file, &request) {
                // The send fails if the caller no longer waits.
                Ok(database) => drop(report.send(Ok(())).map(|()| serve(database, &todo, &shared))),
                Err(error) => drop(report.send(Err(error))),
            }
        };
        let stack = if guard!(SqliteStack) { STACK } else { 2 << 20 };
        let spawned = std::thread::Builder::new().name("sqlite".to_owned()).stack_size(stack).spawn(work);
        spawned.map_err(|error| {
            HostcallError::io("EAGAIN", "sqlite", format!("sqlite: cannot start a thread: {error}"))
        })?;
        opened.recv().map_err(|_| broken())??;
        Ok(Self { jobs, life, kept })
    }

    /// Closes the database, which removes its journals, and waits for that unless the thread is busy.
    pub(super) fn close(&self) {
        let (reply, closed) = mpsc::sync_channel(1);
        if self.jobs.send(Job::Close(reply)).is_ok() {
            // A busy thread closes the database later.
            let _ = closed.recv_timeout(GRACE);
        }
    }

    /// Returns a reference that cannot be upgraded after the thread has exited.
    pub(super) fn life(&self) -> Weak<()> {
        self.life.clone()
    }

    /// Returns the number of bytes that the database kept in memory after its last call.
    pub(super) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Acquire)
    }

    /// Performs one call. The outer error means that the thread did not answer and cannot be interrupted, or that the database
    /// was lost during the call.
    pub(super) fn perform(&self, request: &Request) -> Answer {
        let (reply, answer) = mpsc::sync_channel(1);
        if self.jobs.send(Job::Perform(Box::new(request.clone()), reply)).is_err() {
            return Ok(Err(broken()));
        }
        let limit = limit(request);
        let mut end = now() + limit + GRACE;
        let mut is_cancelled = false;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(broken())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !is_cancelled && request.cancel.is_cancelled() {
                is_cancelled = true;
                end = end.min(now() + GRACE);
            }
            if now() >= end && guard!(SqliteDeadline) {
                let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                return Err(if is_cancelled { cancelled("sqlite") } else { deadline("sqlite", limit) });
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a deadline of the host; the realm sees no time of it")]
fn now() -> Instant {
    Instant::now()
}

fn broken() -> HostcallError {
    HostcallError::new(ErrorCode::Internal, "sqlite: the thread of the database ended").with("reason", "invariant")
}

/// Returns the error for a truncated shared-memory file, which contained the index of the write-ahead log.
fn cut_short() -> HostcallError {
    let message =
        "sqlite: another process truncated a file of the database while it was in use; the database is closed";
    HostcallError::io("EIO", "sqlite", message).with("sqlite", 10)
}

/// Returns whether a file that this thread has mapped was truncated.
fn met_truncated_map() -> bool {
    #[cfg(target_os = "linux")]
    return pijs_engine::met_truncated_map();
    #[cfg(not(target_os = "linux"))]
    false
}

fn open(file: Option<DatabaseFile>, request: &Request) -> Result<Connection, HostcallError> {
    database_file::prepare_thread(STACK / 16)?;
    #[cfg(target_os = "linux")]
    if guard!(SqliteTruncatedMap) {
        pijs_engine::survive_truncated_maps();
    }
    let database = match &file {
        Some(file) => file.open()?,
        None => Connection::open_in_memory().map_err(|error| convert_error(&error))?,
    };
    DatabaseFile::confine(file)?;
    configure(&database, request).map_err(|error| convert_error(&error))?;
    Ok(database)
}

fn serve(database: Connection, todo: &Receiver<Job>, shown: &AtomicU64) {
    // The channel closes when the worker's handle is dropped.
    while let Ok(job) = todo.recv() {
        match job {
            Job::Perform(request, reply) => {
                let outcome = perform(&database, &request);
                // A failure to count is treated as over the limit.
                shown.store(kept(&database).unwrap_or(u64::MAX), Ordering::Release);
                if met_truncated_map() {
                    // No checkpoint at close: the log is kept, and other connections recover from it.
                    let _ = database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
                    drop(database);
                    drop(reply.send(Err(cut_short())));
                    return;
                }
                drop(reply.send(Ok(outcome)));
            }
            Job::Close(reply) => {
                drop(database);
                let _ = reply.send(());
                return;
            }
        }
    }
}
