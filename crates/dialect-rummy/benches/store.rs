//! Measures operations of a store with 100,000 entries: `cargo bench -p pijs-dialect-rummy`.
//!
//! All entries belong to one run, as in a session over a large repository: one in a hundred is visible or summarized, the others
//! are archived. The database is on disk, with the journal that a session has.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use pijs_dialect_rummy::assemble::{ContextRow, Projection};
use pijs_dialect_rummy::{Options, Set, Store, StoreError, Visibility, Writer};
use std::time::{Duration, Instant};

const ENTRIES: usize = 100_000;

fn percentiles(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!("{what:<46} p50 {:>10.1?}  p99 {:>10.1?}", at(50), at(99));
}

fn measure(what: &str, count: usize, mut work: impl FnMut(usize)) {
    let times = (0..count).map(|number| {
        let start = Instant::now();
        work(number);
        start.elapsed()
    });
    percentiles(what, times.collect());
}

fn view(row: &ContextRow) -> Projection {
    Projection { visible: row.body.clone(), summarized: row.body.chars().take(40).collect() }
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn main() -> Result<(), StoreError> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(&folder.path().join("rummy.db"), Options::default())?;
    let project = store.upsert_project("bench", None, None)?;
    let run = store.create_run(project, "bench_1", None, None)?;
    let path = |number: usize| match number % 4 {
        0 => format!("src/module_{}/file_{number}.rs", number % 300),
        1 => format!("known://topic_{}/{number}", number % 500),
        2 => format!("log://turn_{}/set/src/{number}.rs", number % 900),
        _ => format!("https://example.org/page/{number}"),
    };
    let body = |number: usize| format!("fn number_{number}() {{}}\n").repeat(8);
    let visibility = |number: usize| match number % 200 {
        0 => Visibility::Visible,
        100 => Visibility::Summarized,
        _ => Visibility::Archived,
    };
    measure("set, new entries up to 100,000", ENTRIES, |number| {
        let set = Set::new(run, &path(number)).body(body(number)).visibility(visibility(number));
        store.set(&set.during(1, None), Writer::Plugin).expect("it is written");
        store.take_changes();
    });
    let before = resident();
    measure("set, entries that are there", 20_000, |number| {
        let number = number * 7919 % ENTRIES;
        let set = Set::new(run, &path(number)).body(body(number + 1)).visibility(visibility(number));
        store.set(&set, Writer::Plugin).expect("it is written");
        store.take_changes();
    });
    let patterns = [
        ("glob over all", "**/*_17?/file_*00.rs", None),
        ("glob with a literal beginning", "known://topic_17/*", None),
        ("regular expression over all", r"/topic_1\d\/\d*77$/", None),
        ("regular expression with a reference, over all", r"/topic_(\d)\1\//", None),
        ("glob and text of bodies", "known://topic_1*/*", Some("number_1001(")),
    ];
    for (what, pattern, filter) in patterns {
        let mut found = 0;
        measure(&format!("{what}: {pattern}"), 20, |_| {
            found = store.entries_by_pattern(run, pattern, filter).expect("it is found").len();
        });
        println!("{:46} {found} found", "");
    }
    measure("assemble: context, views and snapshot", 20, |number| {
        let turn = i64::try_from(number).unwrap_or(0) + 1;
        let rows = store.context_rows(run).expect("they are read");
        let views = rows.iter().map(view).collect();
        let rows = store.materialize(run, None, turn, rows, views).expect("it is assembled");
        assert!(rows.len() >= ENTRIES / 200, "the model sees {} rows", rows.len());
    });
    if let (Some(before), Some(after)) = (before, resident()) {
        println!("resident memory: {before} kB after the first 100,000 writes, {after} kB at the end");
    }
    Ok(())
}
