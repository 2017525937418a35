//! The thread of one database.
//!
//! It does one call after the other. Who waits for it does so until the call's deadline and a little longer; a thread
//! that has not answered by then is inside of a function that SQLite cannot interrupt, and ends when that function does.

use super::limit;
use super::place::{self, Place};
use super::statement::{guarded, kept, perform, plain};
use pijs_hostcall::connector::{cancelled, deadline};
use pijs_hostcall::{Output, Request};
use pijs_protocol::{ErrorCode, HostcallError, guard};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Between two looks at whether anybody still waits.
const LOOK: Duration = Duration::from_millis(20);

/// How long after its end a statement has time to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// Stack of the thread, of which only what is used takes memory: for what is nested as deep as [`super::nesting`] lets it be,
/// and for going through a schema that somebody else wrote.
const STACK: usize = 64 << 20;

/// The thread's other end. The thread ends when this is dropped.
pub(super) struct Worker {
    jobs: Sender<Job>,
    life: Weak<()>,
    kept: Arc<AtomicU64>,
}

/// The outer error is for a database that nothing can be done with any more.
type Answer = Result<Result<Output, HostcallError>, HostcallError>;

enum Job {
    Perform(Box<Request>, SyncSender<Answer>),
    Close(SyncSender<()>),
}

impl Worker {
    /// Opens a database in a thread of its own: the one at `place`, or one in memory.
    pub(super) fn start(place: Option<Place>, request: &Request) -> Result<Self, HostcallError> {
        let (jobs, todo) = mpsc::channel();
        let (report, opened) = mpsc::sync_channel(1);
        let alive = Arc::new(());
        let life = Arc::downgrade(&alive);
        let request = request.clone();
        let kept = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&kept);
        let work = move || {
            let _alive = alive;
            match open(place, &request) {
                // Who asked has gone when nobody hears it.
                Ok(database) => drop(report.send(Ok(())).map(|()| serve(database, &todo, &shared))),
                Err(error) => drop(report.send(Err(error))),
            }
        };
        let stack = if guard!(SqliteStack) { STACK } else { 2 << 20 };
        let spawned = std::thread::Builder::new().name("sqlite".to_owned()).stack_size(stack).spawn(work);
        spawned.map_err(|error| HostcallError::io("EAGAIN", "sqlite", format!("sqlite: no thread: {error}")))?;
        opened.recv().map_err(|_| broken())??;
        Ok(Self { jobs, life, kept })
    }

    /// Closes the database: what it kept beside it is gone, unless the thread is busy.
    pub(super) fn close(&self) {
        let (reply, closed) = mpsc::sync_channel(1);
        if self.jobs.send(Job::Close(reply)).is_ok() {
            // A thread that is busy closes it when it is not.
            let _ = closed.recv_timeout(GRACE);
        }
    }

    /// Dead when the thread is.
    pub(super) fn life(&self) -> Weak<()> {
        self.life.clone()
    }

    /// Bytes that it keeps in memory since its last call.
    pub(super) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Acquire)
    }

    /// Has one call done. The outer error is for a call that got no answer, since the thread is beyond anybody's reach, and
    /// for one whose database was lost under it.
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

/// What others and this thread have in their memory together is no longer the same.
fn cut_short() -> HostcallError {
    let message = "sqlite: a file beside the database was cut short while it was in use; the database is closed";
    HostcallError::io("EIO", "sqlite", message).with("sqlite", 10)
}

/// Whether a file that this thread has in its memory was cut short.
fn met_truncated_map() -> bool {
    #[cfg(target_os = "linux")]
    return pijs_engine::met_truncated_map();
    #[cfg(not(target_os = "linux"))]
    false
}

fn open(place: Option<Place>, request: &Request) -> Result<Connection, HostcallError> {
    place::begin(STACK / 16)?;
    #[cfg(target_os = "linux")]
    if guard!(SqliteTruncatedMap) {
        pijs_engine::survive_truncated_maps();
    }
    let database = match &place {
        Some(place) => place.open()?,
        None => Connection::open_in_memory().map_err(|error| plain(&error))?,
    };
    Place::confine(place)?;
    guarded(&database, request).map_err(|error| plain(&error))?;
    Ok(database)
}

fn serve(database: Connection, todo: &Receiver<Job>, shown: &AtomicU64) {
    // Who waited for an answer may have gone.
    while let Ok(job) = todo.recv() {
        match job {
            Job::Perform(request, reply) => {
                let outcome = perform(&database, &request);
                // What cannot be counted counts as more than anybody may have.
                shown.store(kept(&database).unwrap_or(u64::MAX), Ordering::Release);
                if met_truncated_map() {
                    // What is in the log stays there for those who read it from its beginning.
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
