//! Scenarios about databases: concurrent changes by another program, and statements that never finish.

use pijs_connectors::sqlite::SqliteConnector;
use pijs_connectors::system::OsFileSystem;
use pijs_environment::simulated::StandingTimer;
use pijs_hostcall::{Caller, Dispatcher, Gate, Ledger, LedgerOptions, MemorySink, Mode, Places, Policy, Profile};
use pijs_protocol::{Capability, HostCall, HostResult};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// A host that gives access to databases below a folder.
#[derive(Clone)]
struct Databases {
    dispatcher: Dispatcher,
    caller: Caller,
    next: Arc<AtomicUsize>,
}

impl Databases {
    fn of(project: &Path) -> Self {
        let places = Places::new(project, "/home/me", "/home/me/.pi/agent", "/tmp/none");
        let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places).build();
        let profile = Arc::new(Profile::new("path:/x"));
        let write = pijs_hostcall::Grant::scoped(
            "w",
            "write",
            pijs_protocol::manifest::Scope { paths: Some(vec!["<project>".to_owned()]), ..Default::default() },
        );
        gate.set_grants(&profile, &[write], Default::default()).expect("a grant");
        let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
        let connector = Arc::new(SqliteConnector::new(Arc::new(OsFileSystem::new())));
        let dispatcher = Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default()))
            .connector("sqlite", connector)
            .build();
        Self { dispatcher, caller: Caller::new(profile), next: Arc::default() }
    }

    fn call(&self, capability: &str, params: Value, timeout_ms: Option<u64>) -> HostResult {
        let Value::Object(params) = params else { unreachable!("an object") };
        let call = HostCall {
            capability: Capability::new(capability),
            method: "sqlite".into(),
            params,
            timeout_ms,
            ..super::super::call(self.next.fetch_add(1, Ordering::Relaxed), "")
        };
        self.dispatcher.call_sync(&self.caller, call)
    }

    fn open(&self, path: &str) -> Option<Value> {
        let capability = if path == ":memory:" { "read" } else { "write" };
        self.call(capability, json!({ "op": "open", "path": path }), None).output.get("db").cloned()
    }

    /// Uses the longest time limit: these tests are about memory, and the machine may be busy.
    fn exec(&self, db: &Value, sql: &str) -> HostResult {
        self.call("read", json!({ "op": "exec", "db": db, "sql": sql }), Some(600_000))
    }

    fn close(&self, db: &Value) {
        self.call("read", json!({ "op": "close", "db": db }), None);
    }
}

/// F03: after the decision about its path and before SQLite opens it, the folder of a database becomes a link to another folder.
#[cfg(target_os = "linux")]
pub(crate) fn a_database_is_the_one_that_was_found() -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::sync::atomic::AtomicBool;
    // Without the guard the race is lost within about ten rounds, or later if two threads seldom run concurrently.
    let rounds = if pijs_protocol::guard!(SqliteLandlock) { 1_000 } else { 50_000 };
    /// Depth of the database's folder. SQLite checks each ancestor by name, and has checked the first long before it opens the
    /// file.
    const DEEP: usize = 180;
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let (project, outside) = (root.join("project"), root.join("outside"));
    let below = format!("{}db", "a/".repeat(DEEP));
    for folder in [project.join("d"), outside.clone()] {
        std::fs::create_dir_all(folder.join("a/".repeat(DEEP))).expect("folders");
    }
    let foreign = Databases::of(&outside);
    let secret = foreign.open(&below).expect("a new one");
    assert!(!foreign.exec(&secret, "CREATE TABLE canary (v)").is_error, "a table");
    foreign.close(&secret);
    std::os::unix::fs::symlink("../outside", project.join("way-out")).expect("a link");
    let own = Databases::of(&project);
    let stop = AtomicBool::new(false);
    let escaped = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, project.join("d"), CWD, project.join("way-out"), RenameFlags::EXCHANGE);
            }
        });
        let escaped = (0..rounds).any(|_| {
            let Some(db) = own.open(&format!("d/{below}")) else { return false };
            let found = !own.exec(&db, "SELECT v FROM canary").is_error;
            own.close(&db);
            found
        });
        stop.store(true, Ordering::Relaxed);
        escaped
    });
    !escaped
}

/// E05: an SQL function that takes hours is answered at the deadline of its call.
pub(crate) fn a_function_of_sql_is_not_waited_for() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let databases = Databases::of(folder.path());
    let db = databases.open(":memory:").expect("one in memory");
    let (answer, answered) = mpsc::channel();
    let (asker, asked) = (databases.clone(), db.clone());
    std::thread::spawn(move || {
        let endless = json!({ "op": "get", "db": asked, "sql": ENDLESS });
        let _ = answer.send(asker.call("read", endless, Some(200)));
    });
    let Ok(result) = answered.recv_timeout(Duration::from_secs(60)) else { return false };
    assert_eq!(result.error.expect("no answer").code, pijs_protocol::ErrorCode::Timeout);
    let after = databases.exec(&db, "SELECT 1").error.expect("the database is closed");
    assert_eq!(after.details["reason"], "EIO");
    databases.close(&db);
    true
}

/// E05: an extension cannot occupy further threads with such functions.
pub(crate) fn stuck_statements_are_limited() -> bool {
    const MOST: usize = 4;
    let folder = tempfile::tempdir().expect("a folder");
    let databases = Databases::of(folder.path());
    let mut stuck = 0;
    while stuck <= MOST {
        let Some(db) = databases.open(":memory:") else { break };
        let result = databases.call("read", json!({ "op": "get", "db": db, "sql": ENDLESS }), Some(1));
        databases.close(&db);
        match result.error.expect("no answer").code {
            pijs_protocol::ErrorCode::Timeout => stuck += 1,
            _ => break,
        }
    }
    stuck == MOST
}

/// Q16: databases without a file do not exhaust the host's memory.
pub(crate) fn memory_of_databases_is_limited() -> bool {
    /// Above the quota, but below the limit of the process.
    const TOO_MUCH: usize = 600;
    let folder = tempfile::tempdir().expect("a folder");
    let databases = Databases::of(folder.path());
    let sets = ["CREATE TABLE t (v)", "ATTACH ':memory:' AS m; CREATE TABLE m.t (v)", "CREATE TEMP TABLE t (v)"];
    sets.into_iter().all(|set| {
        let db = databases.open(":memory:").expect("one in memory");
        assert!(!databases.exec(&db, set).is_error, "{set}");
        let table = if set.starts_with("ATTACH") { "m.t" } else { "t" };
        let megabytes = (0..TOO_MUCH)
            .take_while(|_| !databases.exec(&db, &format!("INSERT INTO {table} VALUES (zeroblob(1 << 20))")).is_error)
            .count();
        databases.close(&db);
        assert!(megabytes > 100, "that much is fine");
        megabytes < TOO_MUCH
    })
}

/// Q16: the working memory of one statement does not exhaust the host's memory.
pub(crate) fn memory_of_a_statement_is_limited() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let databases = Databases::of(folder.path());
    let db = databases.open(":memory:").expect("one in memory");
    let sql = "SELECT count(*) FROM (WITH RECURSIVE c (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 120) \
               SELECT DISTINCT zeroblob(10000000 + n) FROM c)";
    databases.exec(&db, sql).is_error && !databases.exec(&db, "SELECT 1").is_error
}

/// D05: an extension's pragma does not apply to the databases of other extensions.
pub(crate) fn a_pragma_holds_for_its_own_database() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let databases = Databases::of(folder.path());
    let db = databases.open(":memory:").expect("one in memory");
    for limit in ["hard_heap_limit", "soft_heap_limit"] {
        databases.exec(&db, &format!("PRAGMA main.{limit} = 1"));
        databases.exec(&db, &format!("SELECT * FROM pragma_{limit}(1)"));
    }
    let other = databases.open(":memory:");
    other.is_some_and(|other| {
        !databases.exec(&other, "CREATE TABLE t (v); INSERT INTO t VALUES (zeroblob(1000000))").is_error
    })
}

/// A call that searches tens of megabytes and compares almost all of them at each step.
const ENDLESS: &str = "SELECT instr(zeroblob(60000000), CAST(zeroblob(30000000) || x'01' AS BLOB))";
