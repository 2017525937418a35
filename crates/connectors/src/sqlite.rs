//! Serves SQLite databases for `node:sqlite`; the permit is checked for every file that is opened.
//!
//! A database is opened after the permit has allowed its real path ([`database_file`]); later operations refer to it by number.
//! SQLite opens its files by name, so each database has a dedicated thread that can access only the permitted file and its
//! journals ([`worker`]). An authorizer ([`statement`]) refuses SQL that would access other files: `ATTACH` and `VACUUM INTO` of
//! a file, extensions, and pragmas that name folders. Temporary tables stay in memory.
//!
//! A statement stops at the deadline of its call, or when the call is cancelled. A single SQL function cannot be interrupted: the
//! call fails at its deadline, the database is abandoned, and the number of abandoned threads of one extension is limited.

mod database_file;
mod nesting;
mod statement;
mod worker;

use crate::fs::FsConnector;
use crate::system::FileSystem;
use database_file::DatabaseFile;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::call::SqliteCall;
use pijs_protocol::{ExtensionId, HostcallError, TypedCall, guard};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use worker::DatabaseWorker;

/// Maximum number of open databases of one extension.
const MAX_OPEN: usize = 64;

/// Maximum number of threads of one extension that still run a function after their call has failed.
const MAX_ABANDONED: usize = 4;

/// Maximum number of bytes that all databases of one extension may keep in memory: as many as a realm may.
const MAX_KEPT: u64 = 256 << 20;

/// Deadline of a statement if the call sets none.
const DEADLINE: Duration = Duration::from_secs(30);

/// Serves the `sqlite` method.
pub struct SqliteConnector {
    files: FsConnector,
    open: Mutex<BTreeMap<(ExtensionId, u64), Database>>,
    /// Abandoned threads that are still running. The list is kept when the extension ends.
    abandoned: Mutex<BTreeMap<ExtensionId, Vec<Weak<()>>>>,
}

/// A database in the table.
enum Database {
    Open(Arc<DatabaseWorker>),
    /// Closed by the host, because a statement could not be stopped, too much was kept in memory, or one of the files was
    /// truncated.
    GivenUp,
}

impl Database {
    fn close(self) {
        if let Self::Open(worker) = self {
            worker.close();
        }
    }
}

impl SqliteConnector {
    /// Creates a connector for database files of `system`.
    pub fn new(system: Arc<dyn FileSystem>) -> Self {
        Self { files: FsConnector::new(system), open: Mutex::default(), abandoned: Mutex::default() }
    }
}

impl Connector for SqliteConnector {
    /// Fails: there are no asynchronous calls, because `node:sqlite` is synchronous and they could occupy any number of threads.
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let message = "sqlite has no asynchronous form; use the synchronous one";
        Box::pin(std::future::ready(Err(HostcallError::invalid("sync", message))))
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let TypedCall::Sqlite(call) = &request.call else { return Err(request.misdirected()) };
        match call {
            SqliteCall::Open { path, read_only, .. } => self.open(request, path, *read_only),
            SqliteCall::Close { db } => self.close(request, *db),
            SqliteCall::Exec { db, .. } | SqliteCall::Prepare { db, .. } => self.perform(request, *db),
            SqliteCall::All { query } | SqliteCall::Get { query } | SqliteCall::Run { query } => {
                self.perform(request, query.db)
            }
        }
    }

    fn end_extension(&self, extension: &ExtensionId) {
        let mut table = self.table();
        let ended: Table = std::mem::take(&mut *table);
        let (ended, left) = ended.into_iter().partition(|((owner, _), _)| owner == extension);
        *table = left;
        drop(table);
        let ended: Table = ended;
        ended.into_values().for_each(Database::close);
    }
}

type Table = BTreeMap<(ExtensionId, u64), Database>;

impl SqliteConnector {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, request: &Request, path: &str, read_only: bool) -> Result<Output, HostcallError> {
        let extension = request.caller.extension();
        self.check_abandoned(extension)?;
        if self.table().keys().filter(|(owner, _)| owner == extension).count() >= MAX_OPEN {
            return Err(HostcallError::io("EMFILE", "open", format!("sqlite: {MAX_OPEN} databases are open already")));
        }
        let file = match path {
            ":memory:" => None,
            path => Some(DatabaseFile::find(&self.files, request, path, read_only)?),
        };
        let worker = DatabaseWorker::start(file, request)?;
        let mut table = self.table();
        let numbers = table.keys().filter(|(owner, _)| owner == extension).map(|(_, number)| number + 1);
        let number = numbers.max().unwrap_or(1);
        table.insert((extension.clone(), number), Database::Open(Arc::new(worker)));
        Ok(Output::new(json!({"db": number})))
    }

    fn close(&self, request: &Request, db: u64) -> Result<Output, HostcallError> {
        let key = (request.caller.extension().clone(), db);
        let database = self.table().remove(&key).ok_or_else(not_open)?;
        database.close();
        Ok(Output::empty())
    }

    fn perform(&self, request: &Request, db: u64) -> Result<Output, HostcallError> {
        let key = (request.caller.extension().clone(), db);
        let worker = match self.table().get(&key).ok_or_else(not_open)? {
            Database::Open(worker) => Arc::clone(worker),
            Database::GivenUp => return Err(given_up()),
        };
        self.check_abandoned(&key.0)?;
        let answered = worker.perform(request).unwrap_or_else(|unanswered| {
            if let Some(database) = self.table().get_mut(&key) {
                *database = Database::GivenUp;
            }
            let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
            abandoned.entry(key.0.clone()).or_default().push(worker.life());
            Err(unanswered)
        });
        self.check_memory(&key, &worker)?;
        answered
    }

    /// Closes the database and fails with a quota error if its extension keeps too much in memory after a call.
    fn check_memory(&self, key: &(ExtensionId, u64), worker: &DatabaseWorker) -> Result<(), HostcallError> {
        let mut table = self.table();
        let own = table.iter().filter(|((owner, _), _)| *owner == key.0);
        let all = own.fold(0_u64, |all, (_, database)| match database {
            Database::Open(worker) => all.saturating_add(worker.kept()),
            Database::GivenUp => all,
        });
        let Some(database) = table.get_mut(key) else { return Ok(()) };
        if all <= MAX_KEPT || !guard!(SqliteRetained) {
            return Ok(());
        }
        *database = Database::GivenUp;
        drop(table);
        worker.close();
        let message =
            format!("sqlite: this extension keeps more than {MAX_KEPT} bytes in memory; the database is closed");
        let error = HostcallError::denied("quota", message).with("quota", "sqlite_bytes").with("limit", MAX_KEPT);
        Err(error.retryable())
    }

    /// Fails when the extension has too many abandoned threads.
    fn check_abandoned(&self, extension: &ExtensionId) -> Result<(), HostcallError> {
        let mut all = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(abandoned) = all.get_mut(extension) else { return Ok(()) };
        abandoned.retain(|life| life.strong_count() > 0);
        if abandoned.len() < MAX_ABANDONED || !guard!(SqliteStuckThreads) {
            return Ok(());
        }
        let message =
            format!("sqlite: {MAX_ABANDONED} statements of this extension could not be stopped and still run");
        let error =
            HostcallError::denied("quota", message).with("quota", "stuck_statements").with("limit", MAX_ABANDONED);
        Err(error.retryable())
    }
}

/// Returns the time limit of a call.
fn limit(request: &Request) -> Duration {
    request.timeout_ms.map_or(DEADLINE, Duration::from_millis)
}

fn not_open() -> HostcallError {
    HostcallError::io("EBADF", "sqlite", "sqlite: the database is not open")
}

fn given_up() -> HostcallError {
    let message = "sqlite: the database was closed: a statement could not be stopped, it kept too much in memory, or one of \
                   its files was truncated";
    HostcallError::io("EIO", "sqlite", message).with("sqlite", 9)
}
