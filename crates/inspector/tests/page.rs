//! Checks the page of a hostile tape: its text stays data, and a real browser, if one is installed, displays it as text.

use pijs_inspector::{Report, decisions, page};
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Limits, RealmOptions, StreamAnswer, Task};
use pijs_protocol::{
    Capability, Delivery, EntryIndex, ErrorCode, Handle, HostCall, HostResult, HostcallError, Injection, InjectionRole,
    Message, Now, Seq, StreamDelta, StreamSource, StreamVerdict, Yield,
};
use pijs_tape::{Event, Opening, RealmNumber, TapeHeader, TapeWriter};
use serde_json::{Value, json};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Text that would run a script if a page treated it as markup.
const HOSTILE: &str = "</script><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">";

/// Maximum number of polls of the browser process.
const LOOKS: u32 = 600;

const REALM: RealmNumber = RealmNumber(1);

fn at(us: u64) -> Now {
    Now { elapsed_us: us, ..Now::default() }
}

fn delivered(seq: u64, us: u64, task: Task) -> Event {
    Event::Delivery(Box::new(Delivery { seq: Seq(seq), now: at(us), task, state: None }))
}

fn delta(text: &str) -> Task {
    Task::Stream(StreamDelta {
        attempt: 0,
        source: StreamSource::Text,
        stream: 0,
        chunk: text.to_owned(),
        tool_name: None,
        file_paths: Vec::new(),
    })
}

/// Returns the events of a denied call, a stopped reply, and this many timers.
fn events(timers: u64) -> Vec<Event> {
    let options = RealmOptions {
        extension: format!("path:/{HOSTILE}").as_str().into(),
        limits: Limits::default(),
        seed: 7,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: serde_json::Map::new(),
    };
    let call: HostCall = serde_json::from_value(json!({
        "call_id": "host-1", "capability": "read", "method": "fs", "params": {"op": "readFile", "path": HOSTILE},
    }))
    .expect("a call");
    let verdict = StreamVerdict {
        entry: EntryIndex(0),
        handler: Handle(1),
        retry: Some(Injection { content: HOSTILE.to_owned(), role: InjectionRole::System }),
    };
    let refused = HostResult {
        error: Some(HostcallError::new(ErrorCode::Denied, "not granted")),
        ..serde_json::from_value(json!({"call_id": "host-1", "output": null, "is_error": true})).expect("a result")
    };
    let mut events = vec![
        Event::Open(Box::new(Opening { options, now: Now::default(), modules: Vec::new() })),
        Event::Yield(Yield { messages: vec![Message::HostCall(call)], ..Yield::default() }),
        delivered(1, 1_000, Task::Message(Box::new(Message::HostResult(refused)))),
        Event::Yield(Yield::default()),
        delivered(2, 2_000, delta("it said ")),
        Event::Yield(Yield::default()),
        delivered(3, 3_000, delta(HOSTILE)),
        Event::Yield(Yield { stream: StreamAnswer::Abort(verdict), ..Yield::default() }),
    ];
    for index in 0..timers {
        let timer = serde_json::from_value(json!(index + 1)).expect("a timer");
        events.push(delivered(4 + index, 4_000 + index * 10, Task::Message(Box::new(Message::TimerFired { timer }))));
        events.push(Event::Yield(Yield::default()));
    }
    events
}

fn report(timers: u64) -> Report {
    let engine = EngineBuild {
        name: "quickjs-ng".to_owned(),
        version: "1".to_owned(),
        bytecode: 1,
        target: "x86_64-le-64".to_owned(),
    };
    let mut tape = TapeWriter::new(Vec::new(), &TapeHeader::new("0.1.0", engine, "sha256:00".to_owned()))
        .expect("writing to memory cannot fail");
    for event in events(timers) {
        tape.append(REALM, event.as_ref().expect("a valid wire event")).expect("writing to memory cannot fail");
    }
    let bytes = tape.finish().expect("writing to memory cannot fail");
    let ledger = json!({
        "event": "policy.decision",
        "correlation": {"extension_id": format!("path:/{HOSTILE}"), "host_call_id": "host-1"},
        "data": {"allowed": false, "rule": "no_person", "subject": HOSTILE},
    });
    Report::of(&mut Cursor::new(bytes), &decisions(&ledger.to_string())).expect("a tape")
}

#[test]
fn a_report_has_calls_verdicts_and_decisions() {
    let report = report(2);
    let call = report.rows.iter().find(|row| row.kind == "pending").expect("the call");
    assert!(call.denied && call.failed);
    assert_eq!(call.capability, Some(Capability::from("read").as_str().to_owned()));
    assert_eq!(call.decision.as_ref().map(|decision| decision.rule.as_str()), Some("no_person"));
    assert_eq!((call.from, call.to, call.tick), (0, 1_000, 1));
    let said: String = report.chunks.iter().map(|chunk| chunk.text.as_str()).collect();
    assert_eq!(said, format!("it said {HOSTILE}"));
    let verdict = report.verdicts.first().expect("the verdict");
    assert_eq!((verdict.tick, verdict.attempt, verdict.retry.as_deref()), (4, 0, Some(HOSTILE)));
    assert_eq!(report.rows.iter().filter(|row| row.kind == "turn").count(), 6);
    assert_eq!(report.ticks, 6);
}

#[test]
fn text_of_a_tape_is_data_in_the_page() {
    let report = report(2);
    let document = page(&report).expect("a page");
    assert_eq!(document.matches("</script>").count(), 2, "one end for the data and one for the script");
    assert!(!document.contains("<img"));
    let (_, rest) = document.split_once("id=\"report\">").expect("the data");
    let (data, _) = rest.split_once("</script>").expect("its end");
    let read: Value = serde_json::from_str(data).expect("the data is JSON");
    assert_eq!(read, serde_json::to_value(&report).expect("a value"));
}

#[test]
#[expect(clippy::print_stderr, reason = "a test says that it is skipped")]
fn a_browser_shows_the_page_and_runs_nothing_of_the_tape() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no chromium is installed");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html");
    std::fs::write(&file, page(&report(5_000)).expect("a page")).expect("written");
    let shown = dump(&browser, folder.path(), &file);
    assert!(shown.contains("<title>pi session report</title>"), "a script of the tape changed the title");
    assert!(shown.contains("5005 of 5005"), "the events are counted");
    assert!(shown.contains("discarded in turn 4 by 1 path:/"), "the verdict is shown");
    assert!(shown.contains("denied: fs readFile (read)"), "the denied call is in the list");
    let rows = shown.matches("role=\"option\"").count();
    assert!((5..200).contains(&rows), "only the rows in view are elements: {rows}");
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path);
    places
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// Opens a page in a headless browser and returns its elements once its script has run.
fn dump(browser: &Path, folder: &Path, file: &Path) -> String {
    let out = folder.join("shown.html");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--window-size=1000,900", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    for _ in 0..LOOKS {
        if let Some(status) = child.try_wait().expect("its state") {
            assert!(status.success(), "the browser failed: {status}");
            return std::fs::read_to_string(out).expect("the page can be read");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    child.kill().expect("it is ended");
    panic!("the browser does not end");
}
