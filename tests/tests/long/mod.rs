//! Q44: sessions that exceed the memory of the process or of a realm.

use pijs_agent::{AgentControl, NoState, StateSink};
use pijs_connectors::ports::{SessionCall, SessionOp, SessionPort};
use pijs_environment::Ambient;
use pijs_hostcall::{Caller, Profile};
use pijs_protocol::HostcallError;
use pijs_session_store::{EntryId, Session};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A session of messages with a fixed number of characters each.
struct Shape {
    entries: usize,
    characters: usize,
    /// Number of characters of one message in the middle.
    largest: usize,
    /// Number of messages after a compaction that keeps two earlier ones; `None` without a compaction.
    after: Option<usize>,
}

/// A smaller version, for CI, of a gigabyte in a million entries.
const LONG: Shape = Shape { entries: 30_000, characters: 2_000, largest: 50_000_000, after: Some(50) };
const NIGHTLY: Shape = Shape { entries: 1_000_000, characters: 1_000, ..LONG };

/// Memory that a session may use in addition to twice its largest entry: index bytes per entry, and the program's base.
const INDEX: usize = 160;
const ANYWAY: usize = 8 << 20;

fn id(number: usize) -> EntryId {
    EntryId(format!("{number:08x}"))
}

fn write(shape: &Shape, path: &Path) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let time = "2026-01-02T03:04:05.678Z";
    let header = json!({"type": "session", "version": 3, "id": "s", "timestamp": time, "cwd": "/w"});
    writeln!(file, "{header}").expect("space");
    for number in 0..shape.entries {
        let characters = if number == shape.entries / 2 { shape.largest.max(1) } else { shape.characters };
        let text = format!("{number} {}", "x".repeat(characters));
        let mut entry = json!({"type": "message", "id": id(number), "parentId": number.checked_sub(1).map(id),
            "timestamp": time, "message": {"role": "user", "content": text, "timestamp": 1}});
        if shape.after.is_some_and(|after| number + after + 1 == shape.entries) {
            entry = json!({"type": "compaction", "id": id(number), "parentId": id(number - 1), "timestamp": time,
                "summary": "what was", "firstKeptEntryId": id(number - 2), "tokensBefore": 7});
        }
        writeln!(file, "{entry}").expect("space");
    }
    file.flush().expect("space");
}

/// Returns a session of entries with one megabyte each.
fn of_megabytes(megabytes: usize, folder: &Path) -> PathBuf {
    let path = folder.join("s.jsonl");
    write(&Shape { entries: megabytes, characters: 1 << 20, largest: 1 << 20, after: None }, &path);
    path
}

fn open(path: &Path) -> Session {
    Session::open(path, Path::new("/w"), Ambient::system()).expect("a session")
}

/// Returns the peak memory of this process in bytes.
fn most_in_use() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// A session is opened and continued with memory for its index only.
#[expect(clippy::print_stderr, reason = "how long it took is what a reader of the long form wants to know")]
#[cfg(target_os = "linux")]
pub(crate) fn a_long_session_is_not_held() -> bool {
    let shape = if std::env::var_os("PIJS_NIGHTLY").is_some() { NIGHTLY } else { LONG };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    write(&shape, &path);
    let (before, began) = (most_in_use(), Instant::now());
    let mut session = open(&path);
    let opened = began.elapsed();
    assert_eq!(session.len(), shape.entries);
    let seen = session.seen().expect("a conversation");
    assert_eq!(seen.len(), 50 + 1 + 2);
    assert_eq!(seen[0].id, id(shape.entries - 50 - 3));
    session.append_message(&pijs_llm::message::Message::user("and on", 1)).expect("it goes on");
    assert_eq!(session.seen().expect("a conversation").len(), 54);
    assert_eq!(session.entry(&id(1)).expect("it is there").expect("an entry").parent, Some(id(0)));
    let more = most_in_use() - before;
    let most = 2 * shape.largest + INDEX * shape.entries + ANYWAY;
    eprintln!("{} entries: opened in {opened:?}, {} MiB more, {} MiB allowed", shape.entries, more >> 20, most >> 20);
    more <= most
}

/// An entry that is read again is unchanged, or reading it is an error.
pub(crate) fn a_reread_entry_is_unchanged_or_an_error() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let path = of_megabytes(40, folder.path());
    let session = open(&path);
    let text = fs::read(&path).expect("a file");
    let at = text.windows(4).position(|window| window == b"\"3 x").expect("the fourth entry");
    let mut file = OpenOptions::new().write(true).open(&path).expect("a file");
    file.seek(SeekFrom::Start(at as u64 + 100)).expect("a place");
    file.write_all(b"y").expect("another program writes");
    assert!(session.entry(&id(2)).is_ok(), "its neighbour is what it was");
    let changed = session.entry(&id(3));
    assert!(session.entry(&id(39)).is_ok(), "the last is in memory");
    file.set_len(1 << 20).expect("another program cuts");
    let cut = session.entry(&id(5)).expect_err("there is nothing to read").to_string();
    assert!(cut.contains("another program changed it"), "{cut}");
    changed.is_err()
}

/// Counts the entries that extensions read.
#[derive(Default)]
struct Counted {
    bytes: AtomicUsize,
    session: Mutex<Value>,
}

impl StateSink for Counted {
    fn set(&self, key: &str, value: Value) {
        if key == "session" {
            *self.session.lock().expect("no panic") = value;
        }
    }

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        assert_eq!(keep, 0, "the session is shown once");
        self.bytes.store(append.iter().map(|entry| entry.to_string().len()).sum(), Ordering::Relaxed);
    }
}

/// Realms get only a part of a long session: they copy the entries that they read, and there are many realms.
pub(crate) fn a_realm_is_shown_a_part() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = Arc::new(Counted::default());
    let _control = AgentControl::new(open(&of_megabytes(40, folder.path())), shown.clone(), Ambient::system());
    let session = shown.session.lock().expect("no panic").clone();
    assert_eq!(session["count"], 40);
    shown.bytes.load(Ordering::Relaxed) <= 16 << 20
}

/// An extension that requests more entries than fit into its memory gets an error, but it gets a single entry.
pub(crate) fn a_realm_is_not_given_more_than_it_holds() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let control = AgentControl::new(open(&of_megabytes(70, folder.path())), Arc::new(NoState), Ambient::system());
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let ask = |op, params: Value| {
        let Value::Object(params) = params else { unreachable!("an object") };
        SessionPort::call_sync(&control, &caller, SessionCall { op, params })
    };
    let one = ask(SessionOp::ReadEntry, json!({"entryId": id(1)})).expect("one entry");
    assert_eq!(one["entry"]["parentId"], json!(id(0)));
    assert_eq!(ask(SessionOp::ReadEntry, json!({"entryId": "none"})).expect("an answer"), json!({"entry": null}));
    let refused = |error: &HostcallError| error.details.get("quota").is_some_and(|quota| quota == "session_bytes");
    ask(SessionOp::ReadEntries, json!({"from": 0})).is_err_and(|error| refused(&error))
}
