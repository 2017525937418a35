//! Tests that a process killed during writes does not lose a completed verb or leave an incomplete one.

use pijs_dialect_rummy::{Audit, AuditLine, AuditRefusal, Options, Set, State, Store, Writer};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable with the path of the database for the process that is killed.
const DATABASE: &str = "RUMMY_KILLED_DATABASE";
/// Number of verbs that the parent waits for before it kills the process.
const VERBS: usize = 400;

struct Counted(u64);

impl Audit for Counted {
    fn record(&mut self, _: &AuditLine) -> Result<(), AuditRefusal> {
        self.0 += 1;
        Ok(())
    }
}

/// Writes endlessly, and prints each path after its verb has returned. Does nothing in an ordinary run of the tests, in which the
/// variable is not set.
#[test]
fn writer() {
    let Some(database) = std::env::var_os(DATABASE).map(PathBuf::from) else { return };
    let mut store = Store::open(&database, Options::default()).expect("the database opens");
    store.set_audit(Box::new(Counted(0)));
    let project = store.upsert_project("demo", None, None).expect("a project");
    let run = store.create_run(project, "demo_1", None, None).expect("a run");
    let mut out = std::io::stdout();
    for number in 0.. {
        let path = format!("known://{number}");
        store
            .set(&Set::new(run, &path).body(format!("body {number}")).state(State::Streaming), Writer::Plugin)
            .expect("set");
        store.set(&Set::new(run, &path).body(" and more").appending(), Writer::Plugin).expect("append");
        writeln!(out, "wrote {number}").expect("the parent listens");
    }
}

fn killed(database: &Path) -> usize {
    let mut child = Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["writer", "--exact", "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the writer starts");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut last = None;
    for line in output.lines().map_while(Result::ok) {
        if let Some(number) = line.rsplit_once("wrote ").and_then(|(_, number)| number.parse::<usize>().ok()) {
            last = Some(number);
            if number == VERBS {
                child.kill().expect("it runs");
            }
        }
    }
    child.wait().expect("it ended");
    last.expect("the writer wrote")
}

#[test]
fn completed_verbs_survive_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("rummy.db");
    let last = killed(&database);
    assert!(last >= VERBS);
    let mut store = Store::open(&database, Options::default()).expect("the database is whole");
    let run = store.run_by_alias("demo_1").expect("it is read").expect("the run is there");
    for number in 0..=last {
        let body = store.body(run, &format!("known://{number}")).expect("it is read");
        assert_eq!(body, Some(format!("body {number} and more")), "entry {number} of {last}");
    }
    let entries = store.entries_by_pattern(run, "known://*", None).expect("they are read");
    let is_whole = |body: &str| body.starts_with("body ");
    assert!(entries.iter().all(|entry| is_whole(&entry.body)), "an entry is half written");
    store.recover().expect("streams are cancelled");
    let open = store.entries_by_pattern(run, "known://*", None).expect("they are read");
    assert!(open.iter().all(|entry| entry.state == State::Cancelled));
}
