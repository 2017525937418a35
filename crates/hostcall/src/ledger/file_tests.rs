//! Tests the ledger's files under injected faults, rotation, and invalid files.

use super::super::*;
use super::*;
use crate::caller::{Caller, Profile};
use pijs_durable::fault::{Case, Density, Work, survey};
use pijs_protocol::log::Level;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

fn caller() -> Caller {
    Caller::new(Arc::new(Profile::new("npm:sample")))
}

fn facts(number: u64) -> CallFacts {
    CallFacts {
        call_id: format!("host-{number}").into(),
        method: "exec".into(),
        capability: "exec",
        params_hash: Some(ParamsHash::Plain([number as u8; 32])),
    }
}

fn start(ledger: &Ledger, number: u64) {
    let call = CallStart { call: facts(number), claimed: None, timeout_ms: None };
    ledger.call_start(Now { epoch_ms: number, elapsed_us: number }, &caller(), None, call);
}

fn end(ledger: &Ledger, number: u64) {
    let call = CallEnd { call: facts(number), duration_us: 5, error: None };
    ledger.call_end(Now { epoch_ms: number, elapsed_us: number }, &caller(), call);
}

fn readers(path: &Path) -> Vec<io::Result<impl io::BufRead + use<>>> {
    let mut files = parts(&Disk::system(), path).expect("a folder");
    files.extend(path.exists().then(|| path.to_owned()));
    files.into_iter().map(|path| fs::File::open(path).map(io::BufReader::new)).collect()
}

fn checked(path: &Path, case: &str) -> Audit {
    audit(readers(path)).unwrap_or_else(|error| panic!("{case}: {error}"))
}

/// Makes fifty calls. Each start is in the sink before the call would begin, and each end at the latest with the next start.
struct FiftyCalls {
    folder: PathBuf,
    limits: FileLimits,
}

#[derive(Default)]
struct AcknowledgedLines {
    /// Number of starts whose flush succeeded.
    started: u64,
    /// Number of lines before the last successful sync.
    synced: u64,
}

impl FiftyCalls {
    fn path(&self) -> PathBuf {
        self.folder.join("logs/s1.jsonl")
    }
}

impl Work for FiftyCalls {
    type Acknowledged = AcknowledgedLines;

    fn reset(&mut self) {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).expect("our own folder");
        }
        fs::create_dir(&self.folder).expect("a folder");
    }

    fn run(&mut self, disk: &Disk) -> AcknowledgedLines {
        let mut taken = AcknowledgedLines::default();
        let sink = Arc::new(FileSink::new(disk.clone(), self.path()).limits(self.limits));
        if sink.resume().is_err() {
            return taken;
        }
        let ledger = Ledger::new(LedgerOptions { session_id: "s1".into(), ..LedgerOptions::default() }, sink);
        for number in 0..50 {
            start(&ledger, number);
            // Strict mode refuses calls that cannot be recorded.
            if ledger.flush().is_ok() {
                taken.started += 1;
            }
            end(&ledger, number);
            if number % 10 == 9 && ledger.sync().is_ok() {
                taken.synced = ledger.head().next_seq;
            }
        }
        if ledger.close().is_ok() {
            taken.synced = 100;
        }
        taken
    }

    fn check(&mut self, taken: AcknowledgedLines, case: &Case) {
        let path = self.path();
        let disk = Disk::system();
        if !case.name.starts_with("power") && case.killed {
            let starts = readers(&path)
                .into_iter()
                .flat_map(|reader| io::BufRead::lines(reader.expect("readable")))
                .filter(|line| line.as_ref().is_ok_and(|line| line.contains("host_call.start")))
                .count() as u64;
            assert!(starts >= taken.started, "{}: {starts} of {} starts", case.name, taken.started);
        }
        // The next session starts without manual repair.
        let now = Now { epoch_ms: 1_000, elapsed_us: 0 };
        finish_all(&disk, &self.folder.join("logs"), now, |path, error| panic!("{}: {path:?}: {error}", case.name))
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let audit = checked(&path, &case.name);
        assert!(!audit.verified.torn, "{}", case.name);
        assert_eq!(audit.open, [], "{}", case.name);
        assert!(audit.verified.head.next_seq >= taken.synced, "{}: {audit:?}", case.name);
        // A disk that stays full loses the ends of calls.
        if !case.killed && !case.name.contains("for good") {
            let lost = lost_calls(&path);
            assert_eq!(lost, 0, "{}: the host lived, its calls ended", case.name);
        }
        let sink = Arc::new(FileSink::new(disk, path.clone()).limits(self.limits));
        let resumed = sink.resume().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(resumed.open, [], "{}", case.name);
        let ledger = Ledger::new(LedgerOptions { head: resumed.head, ..LedgerOptions::default() }, sink);
        start(&ledger, 1_000);
        end(&ledger, 1_000);
        ledger.close().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(checked(&path, &case.name).open, [], "{}", case.name);
    }
}

fn lost_calls(path: &Path) -> usize {
    let lines = readers(path).into_iter().flat_map(|reader| io::BufRead::lines(reader.expect("readable")));
    lines.filter(|line| line.as_ref().is_ok_and(|line| line.contains("host_crash"))).count()
}

#[test]
#[expect(clippy::print_stdout, reason = "the counts are what a reader of the test wants to know")]
fn a_ledger_survives_every_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("agent");
    let rotating = FileLimits { file_bytes: 12 << 10, parts: 100 };
    for limits in [FileLimits::default(), rotating] {
        let mut work = FiftyCalls { folder: root.clone(), limits };
        let done = survey(&root, Density::nightly_or(7), &mut work).expect("a folder of our own");
        println!(
            "100 ledger lines, {limits:?}: {0}/{0} kills, {1}/{1} power cuts, {2}/{2} errors survived",
            done.kills, done.cuts, done.errors
        );
        assert!(done.kills >= 100 && done.errors >= 100, "{done:?}");
    }
}

#[test]
fn the_chain_spans_the_parts_and_records_removals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s1.jsonl");
    let limits = FileLimits { file_bytes: 8 << 10, parts: 2 };
    let sink = Arc::new(FileSink::new(Disk::system(), path.clone()).limits(limits));
    let ledger = Ledger::new(LedgerOptions::default(), sink);
    for number in 0..200 {
        start(&ledger, number);
        end(&ledger, number);
        ledger.flush().expect("written");
    }
    ledger.close().expect("closed");
    let kept = parts(&Disk::system(), &path).expect("a folder");
    assert!(kept.len() <= limits.parts + 1, "{kept:?}");
    let space: u64 = kept.iter().chain([&path]).map(|path| fs::metadata(path).expect("there").len()).sum();
    assert!(space <= (limits.parts as u64 + 2) * limits.file_bytes + 4096, "{space}");
    let verified = verify_parts(readers(&path)).expect("holds");
    assert!(verified.first > 0 && verified.head.next_seq > 400, "{verified:?}");
    // The last record of a removal names the line just before the first kept one.
    let lines = readers(&path).into_iter().flat_map(|reader| io::BufRead::lines(reader.expect("readable")));
    let pruned = lines.map(|line| line.expect("text")).filter(|line| line.contains("\"ledger.pruned\"")).last();
    let pruned: serde_json::Value = serde_json::from_str(&pruned.expect("a record of the pruned files")).expect("json");
    let number = |key: &str| pruned["data"][key].as_u64().expect("a number");
    assert_eq!(number("next_seq"), verified.first);
    assert_eq!(number("first_seq") + number("lines"), number("next_seq"));
    assert!(number("lines") > 5, "{pruned}");

    // Removing another part is detected.
    fs::remove_file(&kept[0]).expect("ours");
    let error = verify_parts(readers(&path)).expect_err("the first part is missing");
    assert!(error.problem.contains("missing"), "{error}");
    // Removing a part in the middle is detected.
    let next = parts(&Disk::system(), &path).expect("a folder");
    if let [_, .., last] = next.as_slice() {
        fs::remove_file(last).expect("ours");
        verify_parts(readers(&path)).expect_err("a part is missing");
    }
}

#[test]
fn open_calls_of_a_killed_host_are_ended_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s1.jsonl");
    let disk = Disk::system();
    let process = Arc::new(pijs_durable::fault::FaultVfs::recording());
    let sink = Arc::new(FileSink::new(Disk::over(process.clone()), path.clone()));
    let ledger = Ledger::new(LedgerOptions { session_id: "s1".into(), ..LedgerOptions::default() }, sink.clone());
    for number in 0..3 {
        start(&ledger, number);
    }
    end(&ledger, 1);
    ledger.flush().expect("written");
    let now = Now { epoch_ms: 9, elapsed_us: 0 };
    // Other processes skip the ledger while it is written.
    finish_all(&disk, folder.path(), now, |path, error| panic!("{path:?}: {error}")).expect("listed");
    assert_eq!(checked(&path, "alive").open.len(), 2);
    // The host is killed: it closes nothing and leaves half a line.
    process.end();
    let bytes = fs::read(&path).expect("there");
    drop((ledger, sink));
    fs::write(&path, [&bytes[..], b"{\"schema\":\"pi.ext"].concat()).expect("ours");

    finish_all(&disk, folder.path(), now, |path, error| panic!("{path:?}: {error}")).expect("listed");
    let audit = checked(&path, "after");
    assert_eq!((audit.calls, audit.open.len(), lost_calls(&path)), (3, 0, 2));
    let text = fs::read_to_string(&path).expect("there");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("json");
    assert_eq!(last["event"], "host_call.end");
    assert_eq!(last["correlation"]["host_call_id"], "host-2");
    assert_eq!(last["correlation"]["extension_id"], "npm:sample");
    assert_eq!(last["data"]["error"], json!({"code": "internal", "reason": "host_crash"}));
    assert_eq!(last["data"]["params_hash"], json!(hex::encode([2; 32])));
    // A second run changes nothing.
    finish_all(&disk, folder.path(), now, |path, error| panic!("{path:?}: {error}")).expect("listed");
    assert_eq!(fs::read_to_string(&path).expect("there"), text);
    assert!(!folder.path().join(".open/s1").exists());
}

#[test]
fn a_rotating_ledger_stays_locked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s1.jsonl");
    let options = || LedgerOptions { session_id: "s1".into(), ..LedgerOptions::default() };
    let finish_others = || {
        let now = Now { epoch_ms: 9, elapsed_us: 0 };
        finish_all(&Disk::system(), folder.path(), now, |path, error| panic!("{path:?}: {error}")).expect("listed");
    };
    let process = Arc::new(pijs_durable::fault::FaultVfs::recording());
    let ledger = Ledger::new(options(), Arc::new(FileSink::new(Disk::over(process.clone()), path.clone())));
    start(&ledger, 1);
    ledger.flush().expect("written");
    // Does the first step of a rotation.
    fs::rename(&path, part(&path, 1)).expect("ours");
    finish_others();
    assert!(!path.exists(), "another host went on with a ledger that is being written");
    // Another session of the same name fails, too.
    let second = FileSink::new(Disk::system(), path.clone());
    assert_eq!(second.resume().map_err(|error| error.kind()).err(), Some(ErrorKind::ResourceBusy));
    assert_eq!(second.append(b"{}\n").map_err(|error| error.kind()), Err(ErrorKind::ResourceBusy));

    process.end();
    drop(ledger);
    finish_others();
    assert_eq!((lost_calls(&path), checked(&path, "after").open.len()), (1, 0));
    assert!(!folder.path().join(".open/s1").exists());
}

#[test]
fn other_files_are_not_written_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let victim = folder.path().join("victim");
    fs::write(&victim, "keep\n").expect("a file");
    let [link, pipe, directory, second] =
        ["link", "pipe", "directory", "second"].map(|name| folder.path().join(format!("{name}.jsonl")));
    symlink(&victim, &link).expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).expect("a pipe");
    fs::create_dir(&directory).expect("a folder");
    fs::hard_link(&victim, &second).expect("a second name");
    for path in [link, pipe, directory, second] {
        let sink = Arc::new(FileSink::new(Disk::system(), path.clone()));
        let ledger = Ledger::new(LedgerOptions::default(), sink.clone());
        ledger.event(Now::default(), &caller(), Level::Info, "a", "", Map::new());
        ledger.flush().expect_err("nothing to write to");
        sink.resume().expect_err("nothing to follow on");
    }
    assert_eq!(fs::read(&victim).expect("there"), b"keep\n");
}

#[test]
fn a_damaged_ledger_is_continued_and_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s1.jsonl");
    let write = |count: u64| {
        let sink = Arc::new(FileSink::new(Disk::system(), path.clone()));
        let resumed = sink.resume().expect("readable");
        let ledger = Ledger::new(LedgerOptions { head: resumed.head, ..LedgerOptions::default() }, sink);
        (0..count).for_each(|number| {
            start(&ledger, number);
            end(&ledger, number);
        });
        ledger.close().expect("closed");
    };
    write(5);
    let text = fs::read_to_string(&path).expect("there");
    fs::write(&path, text.replacen("\"seq\":4,", "\"seq\":5,", 1)).expect("ours");
    write(5);
    let error = verify(fs::read(&path).expect("there").as_slice()).expect_err("line 5 was edited");
    assert_eq!(error.line, 5, "{error}");
    // A tail of NULs, which some file systems leave, is cut off.
    fs::write(&path, [text.as_bytes(), &[0; 512]].concat()).expect("ours");
    write(1);
    assert_eq!(verify(fs::read(&path).expect("there").as_slice()).expect("holds").lines, 12);
}
