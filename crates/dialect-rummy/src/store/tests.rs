//! Tests behaviour that the facade's cases do not cover: opening a database, the audit, and failures of the disk.

use super::{Options, Set, Store};
use crate::{Audit, AuditLine, AuditRefusal, Removal, State, StoreError, Target, Writer};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<(Vec<AuditLine>, bool)>>);

impl Audit for Lines {
    fn record(&mut self, line: &AuditLine) -> Result<(), AuditRefusal> {
        let mut inner = self.0.lock().expect("no test panics while it holds the lines");
        if inner.1 {
            return Err(AuditRefusal { verb: line.verb, reason: "the disk is full".to_owned() });
        }
        inner.0.push(line.clone());
        Ok(())
    }
}

/// Creates a store with a project and a run.
pub(crate) fn demo() -> (Store, i64) {
    let mut store = Store::in_memory(Options::default()).expect("a store");
    let project = store.upsert_project("demo", None, None).expect("a project");
    let run = store.create_run(project, "demo_1", None, None).expect("a run");
    (store, run)
}

#[test]
fn a_verb_is_one_line_with_digests() {
    let (mut store, run) = demo();
    let lines = Lines::default();
    store.set_audit(Box::new(lines.clone()));
    store.set(&Set::new(run, "known://a").body("x").during(3, None), Writer::Model).unwrap();
    store.set(&Set::new(run, "known://a").body("y"), Writer::Model).unwrap();
    let target = Target { run_id: run, path: "known://*".to_owned(), ..Target::default() };
    store.rm(&Removal { target, files_only: false }, Writer::Plugin).unwrap();
    let lines = &lines.0.lock().unwrap().0;
    assert_eq!(lines.iter().map(|line| line.verb).collect::<Vec<_>>(), ["set", "set", "rm"]);
    assert_eq!((lines[0].turn, lines[0].rows, lines[0].writer), (3, 1, Writer::Model));
    assert_eq!(lines[0].before, None);
    assert_eq!(lines[0].after, lines[1].before);
    assert_ne!(lines[1].before, lines[1].after);
    assert_eq!((lines[1].after.clone(), None), (lines[2].before.clone(), lines[2].after.clone()));
}

#[test]
fn a_verb_whose_line_is_refused_has_not_happened() {
    let (mut store, run) = demo();
    let lines = Lines::default();
    store.set(&Set::new(run, "log://turn_1/sh/x").body("").state(State::Proposed), Writer::Plugin).unwrap();
    store.wait(run, "log://turn_1/sh/x", crate::WaiterId(1)).unwrap();
    store.take_changes();
    store.set_audit(Box::new(lines.clone()));
    lines.0.lock().unwrap().1 = true;
    let error = store.set(&Set::new(run, "log://turn_1/sh/x").state(State::Resolved), Writer::Plugin).unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(store.entry(run, "log://turn_1/sh/x").unwrap().unwrap().state, State::Proposed);
    assert!(store.take_woken().is_empty() && store.take_changes().is_empty());
}

#[test]
fn a_database_is_opened_again_with_what_was_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rummy.db");
    {
        let mut store = Store::open(&path, Options::default()).unwrap();
        let project = store.upsert_project("demo", None, None).unwrap();
        let run = store.create_run(project, "demo_1", None, None).unwrap();
        store.set(&Set::new(run, "known://a").body("x"), Writer::Model).unwrap();
    }
    let store = Store::open(&path, Options::default()).unwrap();
    let run = store.run_by_alias("demo_1").unwrap().unwrap();
    assert_eq!(store.body(run, "known://a").unwrap().as_deref(), Some("x"));
}

#[test]
fn databases_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let says = |name: &str, sql: &str| {
        let path = folder.path().join(name);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let Err(StoreError::Unusable(message)) = Store::open(&path, Options::default()) else {
            panic!("{name} was opened")
        };
        message
    };
    assert!(says("other.db", "CREATE TABLE t (a)").contains("another program"));
    assert!(says("newer.db", "PRAGMA user_version = 99").contains("version 99"));
}

#[test]
fn a_damaged_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rummy.db");
    {
        let mut store = Store::open(&path, Options::default()).unwrap();
        let project = store.upsert_project("demo", None, None).unwrap();
        let run = store.create_run(project, "demo_1", None, None).unwrap();
        for number in 0..200 {
            store.set(&Set::new(run, &format!("known://{number}")).body("x".repeat(100)), Writer::Model).unwrap();
        }
    }
    #[expect(clippy::disallowed_methods, reason = "a test damages a file of its own")]
    {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4096].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
    }
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable(_) | StoreError::Database(_)), "{error}");
}

#[test]
fn times_are_written_as_sqlite_does() {
    assert_eq!(super::timestamp(0), "1970-01-01 00:00:00");
    assert_eq!(super::timestamp(951_782_400_000), "2000-02-29 00:00:00");
    assert_eq!(super::timestamp(1_796_000_000_999), "2026-11-30 00:53:20");
}

/// The tables have the documented columns and refuse invalid rows: rummy's specification, "Schema" and "Physical Layout".
#[test]
fn the_schema_holds_what_the_documents_say() {
    let (mut store, run) = demo();
    store.set(&Set::new(run, "known://a").body("x"), Writer::Model).unwrap();
    let row = |sql: &str| store.connection.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(row("SELECT scope || ' ' || path || ' ' || scheme FROM entries").unwrap(), "run:1 known://a known");
    assert_eq!(
        row("SELECT body || ' ' || visibility || ' ' || state FROM known_entries").unwrap(),
        "x summarized resolved"
    );
    let columns = "SELECT group_concat(name) FROM pragma_table_info('entries')";
    assert!(!row(columns).unwrap().contains("tokens"), "what an entry costs is no column");
    let refused = |sql: &str| store.connection.execute(sql, []).unwrap_err().to_string();
    let again = "INSERT INTO entries (scope, path, created_at, updated_at) VALUES ('run:1', 'known://a', '', '')";
    assert!(refused(again).contains("UNIQUE"));
    assert!(refused("UPDATE entries SET attributes = '{'").contains("json_valid"));
    assert!(refused("UPDATE entries SET path = printf('%2049d', 1)").contains("length(path)"));
    assert!(refused("INSERT INTO known_entries (path) VALUES ('a')").contains("view"));
    let twice = "INSERT INTO run_views (run_id, path, entry_id, state, visibility, writer, created_at, updated_at)
         SELECT run_id, path, entry_id, state, visibility, writer, '', '' FROM run_views";
    assert!(refused(twice).contains("UNIQUE"));
}

/// The documented functions are registered: rummy's specification, "SQL Functions".
#[test]
fn functions_of_the_schema_are_there() {
    let (store, _) = demo();
    let row = |sql: &str| store.connection.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    assert_eq!(row("SELECT schemeOf('known://a')").unwrap(), "known".to_owned().into());
    assert_eq!(row("SELECT schemeOf(NULL)").unwrap(), rusqlite::types::Value::Null);
    assert_eq!(row("SELECT countTokens('abc')").unwrap(), 2.into());
    assert_eq!(row("SELECT slugify('a b')").unwrap(), "a_b".to_owned().into());
    assert_eq!(row("SELECT hedmatch('*.js', 'a.js')").unwrap(), 1.into());
    assert_eq!(row("SELECT hedsearch('b', 'abc')").unwrap(), 1.into());
    assert_eq!(row("SELECT hedreplace('b', 'x', 'abc')").unwrap(), "axc".to_owned().into());
    assert!(row("SELECT hedmatch('/(/', 'a')").is_err());
}
