//! `pi --tape` and `pi replay`: a recorded session can be replayed on another machine and in both kinds of realms, and the replay
//! of a changed extension reports the difference.

#![cfg(target_os = "linux")]

mod support;

use pijs_protocol::wire::Limits;
use pijs_tape::{Event, Opening, TapeHeader, TapeReader, TapeWriter};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use support::{Run, World, fixture, run};

const MAX_LOOKS: usize = 12_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const SECRET: &str = "correct-horse-battery";

/// Returns the script of a model: many deltas without effects, one with an effect of an extension, and one that is aborted.
fn script(world: &World) -> String {
    let quiet = ["so ", "on ", "and ", "on "].repeat(12);
    let first = [quiet.as_slice(), &["read "], quiet.as_slice(), &["a ", "TODO", " b"]].concat();
    world.script(&[&first, &["all ", "done"]])
}

/// Returns a command with its own time zone, language and secret.
fn pi(world: &World, args: &[String]) -> Command {
    let mut command = world.command(args);
    command.env("TZ", "Asia/Kolkata").env("LANG", "de_DE.UTF-8").env("DEPLOY_TOKEN", SECRET);
    command
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Records a session of two extensions with timers, synchronous and asynchronous calls, a refused call, verdicts, and a killed
/// realm.
fn record(world: &World, isolation: &str) -> PathBuf {
    world.write("project/notes.txt", format!("some notes, and {SECRET}\n"));
    let tape = world.path().join(format!("{isolation}.tape"));
    let model = script(world);
    let (worker, watch) = (fixture("extensions/tape-worker"), fixture("extensions/tape-watch"));
    let mut args = strings(&["-p", "hello", "--model", &model, "-e", &worker, "-e", &watch]);
    args.extend(strings(&["--allow", "read", "--allow", "write", "--allow", "verdict", "--deny", "exec"]));
    args.extend(strings(&["--isolation", isolation, "--tape", tape.to_str().expect("text")]));
    run(pi(world, &args)).succeeded();
    tape
}

fn info(world: &World, tape: &Path) -> Value {
    let run = world.pi(&["tape", "info", "--json", tape.to_str().expect("text")]);
    serde_json::from_str(&run.succeeded().stdout).expect("JSON")
}

/// Replays in another folder, with another home, zone and language.
fn replay(tape: &Path, more: &[&str]) -> Run {
    let elsewhere = World::new();
    let mut args = strings(&["replay", tape.to_str().expect("text")]);
    args.extend(strings(more));
    let mut command = elsewhere.command(&args);
    command.env("TZ", "America/Lima").env("LANG", "ja_JP.UTF-8");
    let output = run(command);
    let left: Vec<_> = fs::read_dir(elsewhere.project()).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "a replay writes nothing: {left:?}");
    output
}

fn records_of(info: &Value, kind: &str) -> u64 {
    let kinds = info["summary"]["kinds"].as_array().expect("kinds");
    kinds.iter().find(|found| found["kind"] == kind).map_or(0, |found| found["records"].as_u64().expect("a number"))
}

#[test]
fn a_recorded_session_replays_elsewhere_in_both_kinds_of_realms() {
    for recorded in ["process", "thread"] {
        let world = World::new();
        let tape = record(&world, recorded);
        let mode = tape.metadata().expect("a tape").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads a tape");
        let info = info(&world, &tape);
        for kind in
            ["call fs", "delivery stream", "delivery timer_fired", "delivery host_result", "reply", "termination"]
        {
            assert!(records_of(&info, kind) > 0, "{recorded} recorded no {kind}: {info:#}");
        }
        assert_eq!(
            (&info["summary"]["complete"], &info["header"]["time_zone"]),
            (&json!(true), &json!("Asia/Kolkata"))
        );
        for isolation in ["thread", "process"] {
            let run = replay(&tape, &["--isolation", isolation, "--json"]);
            let outcome: Value = serde_json::from_str(&run.succeeded().stdout).expect("JSON");
            assert_eq!((&outcome["equal"], &outcome["cut"]), (&json!(true), &json!(false)), "{outcome:#}");
            assert_eq!(outcome["ticks"], info["summary"]["ticks"]);
            assert_eq!((&outcome["skipped"], &outcome["realms"]), (&json!(1), &json!(3)), "{outcome:#}");
        }
    }
}

#[test]
fn a_hundred_replays_are_equal() {
    let world = World::new();
    let tape = record(&world, "process");
    let first = replay(&tape, &["--isolation", "thread"]);
    let counts = first.succeeded().stdout.split(':').next().expect("a line").to_owned();
    for _ in 1..100 {
        let again = replay(&tape, &["--isolation", "thread"]);
        assert!(again.succeeded().stdout.starts_with(&counts), "{}", again.stdout);
    }
}

#[test]
fn a_changed_extension_is_named_at_the_tick_where_it_differs() {
    let world = World::new();
    let tape = record(&world, "process");
    let source = fs::read_to_string(Path::new(&fixture("extensions/tape-worker")).join("index.ts")).expect("a file");
    let same = world.write("same/tape-worker/index.ts", &source);
    let same = same.parent().expect("a folder").to_str().expect("text");
    replay(&tape, &["--against", same]).succeeded();

    // The third tick of the interval reports the difference; nothing before it differs.
    let changed = world.write("changed/tape-worker/index.ts", source.replace("++fired === 3", "++fired === 2"));
    let changed = changed.parent().expect("a folder").to_str().expect("text");
    for isolation in ["thread", "process"] {
        let run = replay(&tape, &["--against", changed, "--isolation", isolation]);
        run.failed(
            1,
            &["the replay differs from the recording", "tape-worker", "timer_clear", "- recorded", "+ replayed"],
        );
        let run = replay(&tape, &["--against", changed, "--isolation", isolation, "--json"]);
        let outcome: Value = serde_json::from_str(&run.stdout).expect("JSON");
        let at = &outcome["divergence"]["tick"];
        let until = (at.as_u64().expect("a tick") - 1).to_string();
        replay(&tape, &["--against", changed, "--until", &until]).succeeded();
    }
}

/// An extension for which each change below makes a different kind of output differ.
const POSITIONS: &str = r#"import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";

function greet(pi: any, text: string) {
	pi.log("info", text, {});
}

export default (pi: any) => {
	pi.registerTool({
		name: "count", label: "count", description: "counts", parameters: { type: "object", properties: {} },
		execute: async () => ({ content: [{ type: "text", text: "one" }], details: {} }),
	});
	pi.on("before_agent_start", (event: any) => {
		return { systemPrompt: event.systemPrompt + " be brief" };
	});
	pi.on("agent_start", async () => {
		existsSync("notes.txt");
		greet(pi, "hello");
		const notes = (await readFile("notes.txt", "utf8")).length;
		if (notes > 1) pi.log("info", "long", {});
		await new Promise<void>((resolve) => setTimeout(() => { if (notes > 0) pi.log("info", "late", {}); resolve(); }, 1));
	});
	pi.on("stream_text", ({ chunk }: any) => {
		if (chunk === "stop") return { abort: true, retry: { content: "again" } };
	});
};
"#;

#[test]
fn a_difference_is_located_in_the_source_of_the_extension() {
    let world = World::new();
    world.write("project/notes.txt", "some notes\n");
    let entry = world.write("positions.ts", POSITIONS);
    let tape = world.path().join("positions.tape");
    let model = world.script(&[&["never ", "stop", " it"], &["all ", "done"]]);
    let mut args = strings(&["-p", "hello", "--model", &model, "-e", entry.to_str().expect("text")]);
    args.extend(strings(&["--allow", "read", "--allow", "verdict", "--tape", tape.to_str().expect("text")]));
    run(pi(&world, &args)).succeeded();
    for (from, to, relation, line) in [
        // A call, a message from a function, and one after an await.
        ("existsSync(\"notes.txt\")", "existsSync(\"other.txt\")", "statement", 17),
        ("pi.log(\"info\", text, {})", "pi.log(\"warn\", text, {})", "statement", 5),
        ("\"long\"", "\"longer\"", "statement", 20),
        ("\"late\"", "\"later\"", "statement", 21),
        // The return value of a function, and the values of its registration.
        ("be brief", "be verbose", "function", 13),
        ("content: \"again\"", "content: \"once more\"", "function", 23),
        ("description: \"counts\"", "description: \"adds\"", "function", 9),
        // An error, and the effects that are missing after it.
        ("return { systemPrompt", "throw new Error(\"no\"); return { systemPrompt", "thrown", 14),
        ("if (notes > 1) pi.log", "if (notes > 100) pi.log", "after", 19),
        ("if (notes > 0) pi.log", "if (notes > 100) pi.log", "after", 21),
    ] {
        assert_eq!(POSITIONS.matches(from).count(), 1, "{from}");
        fs::write(&entry, POSITIONS.replace(from, to)).expect("a file");
        let run = replay(&tape, &["--against", entry.to_str().expect("text"), "--json"]);
        let outcome: Value = serde_json::from_str(&run.stdout).expect("JSON");
        let source = &outcome["divergence"]["source"];
        let found = (&source["file"], &source["of"], &source["line"]);
        assert_eq!(found, (&json!("positions.ts"), &json!(relation), &json!(line)), "{to}: {outcome:#}");
        assert!(source["column"].as_u64() > Some(0), "{source}");
        assert!(run.stderr.contains(&format!("positions.ts:{line}:")), "{}", run.stderr);
    }
}

#[test]
fn a_replay_stops_where_it_is_told_and_says_where_extensions_stand() {
    let world = World::new();
    let tape = record(&world, "thread");
    let run = replay(&tape, &["--until", "2"]);
    let told = &run.succeeded().stdout;
    assert!(told.contains("tape-worker: turn 1; timers: 1, 2; calls in flight: none"), "{told}");
    assert!(told.contains("2 ticks"), "{told}");

    let last = info(&world, &tape)["summary"]["ticks"].to_string();
    let told = replay(&tape, &["--until", &last]).succeeded().stdout.clone();
    assert!(told.contains("  user: hello\n") && told.contains("  assistant: all done\n"), "{told}");
}

#[test]
fn secrets_are_not_on_a_tape_and_it_replays_all_the_same() {
    let world = World::new();
    let tape = record(&world, "process");
    let bytes = fs::read(&tape).expect("a tape");
    let mut lines = Vec::new();
    zstd::stream::copy_decode(bytes.as_slice(), &mut lines).expect("zstd frames");
    let lines = String::from_utf8(lines).expect("JSON lines");
    assert!(!lines.contains(SECRET));
    assert!(lines.contains("some notes, and REDACTED1x"), "the stand-in is as long");
    replay(&tape, &[]).succeeded();
}

#[test]
fn a_kill_while_recording_leaves_a_tape_that_replays_to_its_last_block() {
    let world = World::new();
    world.write("project/notes.txt", "some notes\n");
    let tape = world.path().join("killed.tape");
    let reply = json!({ "events": [{ "text": "begun" }, { "delay_ms": 600_000 }], "stop": "end_turn" });
    let model = world.raw_script(&reply.to_string());
    let worker = fixture("extensions/tape-worker");
    let mut args = strings(&["-p", "hello", "--model", &model, "-e", &worker, "--allow", "read", "--allow", "write"]);
    args.extend(strings(&["--tape", tape.to_str().expect("text")]));
    let mut child = pi(&world, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pi starts");
    let is_written = || world.project().join("out.txt").exists();
    until(|| is_written() && info(&world, &tape)["summary"]["ticks"].as_u64() >= Some(5));
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let info = info(&world, &tape);
    assert_eq!(info["summary"]["complete"], json!(false));
    let run = replay(&tape, &["--isolation", "thread"]);
    assert!(run.succeeded().stderr.contains("cut off"), "{}", run.stderr);
}

#[test]
fn a_tape_that_cannot_be_read_is_one_message_with_a_code() {
    let world = World::new();
    let tape = record(&world, "thread");
    let good = fs::read(&tape).expect("a tape");
    let bad = world.write("bad.tape", "");
    let bad_name = bad.to_str().expect("text").to_owned();
    let failed = |words: &[&str]| {
        for command in [["replay"].as_slice(), &["tape", "info"]] {
            let args = [command, &[&bad_name]].concat();
            world.pi(&args).failed(1, words);
        }
    };
    failed(&["this is not a tape", "[invalid_request]", "help:"]);
    fs::write(&bad, b"{\"type\":\"session\"}\n").expect("a file");
    failed(&["this is not a tape", "[invalid_request]"]);
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    fs::write(&bad, flipped).expect("a file");
    failed(&["is damaged at record", "[invalid_request]"]);
    world.pi(&["replay", "absent.tape"]).failed(1, &["absent.tape"]);
}

/// Rewrites a tape with a changed header and changed openings of realms.
fn rewrite(tape: &Path, change_header: impl Fn(&mut TapeHeader), change: impl Fn(&mut Opening)) -> PathBuf {
    let mut reader = TapeReader::new(fs::File::open(tape).expect("a tape")).expect("a tape");
    let mut header = reader.header().clone();
    change_header(&mut header);
    let other = tape.with_extension("other");
    let mut written = TapeWriter::new(fs::File::create(&other).expect("a file"), &header).expect("written");
    for record in reader.by_ref() {
        let mut record = record.expect("a record");
        if let Event::Open(opening) = &mut record.event {
            change(opening);
        }
        match (&record.event, record.event.as_ref()) {
            (Event::Blob(blob), _) => written.append_blob(blob).expect("written"),
            (_, Some(event)) => written.append(record.realm, event).expect("written"),
            (_, None) => {}
        }
    }
    written.finish().expect("written");
    other
}

#[test]
fn a_tape_of_another_build_is_refused_with_what_differs() {
    let world = World::new();
    let tape = record(&world, "thread");
    let other = rewrite(&tape, |header| header.host_modules = "sha256:00".to_owned(), |_| ());
    let words = ["recorded by another build", "its host modules", "sha256:00", "--accept-build", "[invalid_request]"];
    replay(&other, &[]).failed(1, &words);
    replay(&other, &["--accept-build"]).succeeded();
}

#[test]
fn a_tape_cannot_exceed_the_limits_of_a_session() {
    let world = World::new();
    let tape = record(&world, "thread");
    for change in [|limits: &mut Limits| limits.fuel = u64::MAX, |limits: &mut Limits| limits.stack_bytes = 0] {
        let other = rewrite(&tape, |_| (), |opening| change(&mut opening.options.limits));
        let words = ["has limits that no session has", "[invalid_request]"];
        replay(&other, &["--isolation", "thread"]).failed(1, &words);
    }
}

#[test]
fn an_existing_file_is_not_overwritten_by_a_tape() {
    let world = World::new();
    let tape = world.write("taken.tape", "mine");
    let model = world.script(&[&["ok"]]);
    let args = ["-p", "x", "--model", &model, "--tape", tape.to_str().expect("text")];
    world.pi(&args).failed(1, &["taken.tape cannot be written", "the file already exists"]);
    assert_eq!(world.read("taken.tape"), "mine");
}

#[test]
fn extensions_do_not_reach_the_tape_of_their_session() {
    let world = World::new();
    let extension = world.write(
        "project/peek.ts",
        r#"
import { appendFileSync, readFileSync } from "node:fs";
const tried = (what: () => unknown) => { try { what(); return "done"; } catch (error: any) { return error.message; } };
export default (pi: any) => {
  pi.on("agent_start", () => {
    console.log("read: " + tried(() => readFileSync("own.tape")));
    console.log("write: " + tried(() => appendFileSync("own.tape", "x")));
  });
};
"#,
    );
    let model = world.script(&[&["ok"]]);
    let mut args = strings(&["-p", "x", "--model", &model, "-e", extension.to_str().expect("text")]);
    args.extend(strings(&["--policy", "permissive", "--allow", "read", "--allow", "write", "--tape", "own.tape"]));
    let run = run(pi(&world, &args));
    run.succeeded();
    assert!(run.stderr.contains("read: ") && !run.stderr.contains(": done"), "{}", run.stderr);
    replay(&world.project().join("own.tape"), &[]).succeeded();
}

/// Runs `extc` as in CI, with its own time zone.
fn extc(world: &World, args: &[&str]) -> Run {
    let mut command = world.program(env!("CARGO_BIN_EXE_extc"), args);
    command.env("TZ", "America/Lima");
    run(command)
}

/// Records the extension of [`POSITIONS`]; returns its file and the tape, both relative to the project.
fn record_positions(world: &World) -> (PathBuf, PathBuf) {
    world.write("project/notes.txt", format!("some notes, and {SECRET}\n"));
    let (entry, tape) = (world.write("project/positions.ts", POSITIONS), world.project().join("positions.tape"));
    let model = world.script(&[&["never ", "stop", " it"], &["all ", "done"]]);
    let args = ["-p", "hello", "--model", &model, "-e", "positions.ts", "--allow", "read", "--allow", "verdict"];
    let mut args = strings(&args);
    args.extend(strings(&["--tape", "positions.tape"]));
    run(pi(world, &args)).succeeded();
    (entry, tape)
}

#[test]
fn extc_test_shows_changed_outputs_and_accepts_them() {
    let world = World::new();
    let (entry, tape) = record_positions(&world);
    let test = ["test", "positions.ts", "positions.tape"];
    let told = extc(&world, &test).succeeded().stdout.clone();
    assert!(told.contains("positions.tape: equal") && told.ends_with("1 tape: 1 equal\n"), "{told}");

    // An additional call and timer do not change later outputs. One text and one answer change.
    let changed = POSITIONS
        .replace(
            "existsSync(\"notes.txt\");",
            "existsSync(\"notes.txt\"); existsSync(\"notes.txt\"); setTimeout(() => 1, 7);",
        )
        .replace("\"long\"", "\"longer\"")
        .replace("be brief", "be verbose");
    fs::write(&entry, changed).expect("a file");
    let before = fs::read(&tape).expect("a tape");
    let run = extc(&world, &test);
    assert_eq!(run.code, 1, "{}\n{}", run.stdout, run.stderr);
    for words in [
        "positions.tape: 5 outputs changed",
        "(event before_agent_start), in the function registered at positions.ts:13:5",
        " be brief\"",
        " be verbose\"",
        "+ {\"type\":\"timer_set\"",
        "- /params/event: \"long\"",
        "+ /params/event: \"longer\"",
        "at positions.ts:20:",
        "1 tape: 1 changed; --accept takes",
    ] {
        assert!(run.stdout.contains(words), "{words:?} is missing in:\n{}", run.stdout);
    }
    assert_eq!(fs::read(&tape).expect("a tape"), before, "nobody accepted it");

    let report = world.project().join("report.xml");
    let run = extc(&world, &[&test[..], &["--json", "--junit", "report.xml"]].concat());
    let found: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(
        (&found["tapes"][0]["status"], &found["tapes"][0]["count"]),
        (&json!("changed"), &json!(5)),
        "{found:#}"
    );
    let xml = fs::read_to_string(report).expect("a report");
    assert!(xml.contains("tests=\"1\" failures=\"1\" errors=\"0\"") && xml.contains("&quot;longer&quot;"), "{xml}");

    let told = extc(&world, &[&test[..], &["--accept"]].concat()).succeeded().stdout.clone();
    assert!(told.contains("5 outputs accepted"), "{told}");
    extc(&world, &test).succeeded();
    for isolation in ["thread", "process"] {
        replay(&tape, &["--isolation", isolation]).succeeded();
    }
    assert!(info(&world, &tape)["summary"]["ticks"].as_u64() > Some(5));
}

#[test]
fn extc_test_leaves_out_inputs_without_a_receiver() {
    let world = World::new();
    let (entry, tape) = record_positions(&world);
    let from = POSITIONS.find("\tpi.on(\"agent_start\"").expect("a handler");
    let to = POSITIONS.find("\tpi.on(\"stream_text\"").expect("a handler");
    fs::write(&entry, format!("{}{}", &POSITIONS[..from], &POSITIONS[to..])).expect("a file");
    let run = extc(&world, &["test", "positions.ts", "positions.tape"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("of the recording that nothing waits for any more"), "{}", run.stdout);
    extc(&world, &["test", "positions.ts", "positions.tape", "--accept"]).succeeded();
    replay(&tape, &[]).succeeded();
    let info = info(&world, &tape);
    assert_eq!((records_of(&info, "delivery timer_fired"), records_of(&info, "call log")), (0, 0), "{info:#}");
    assert!(records_of(&info, "delivery stream") > 2, "{info:#}");
}

#[test]
fn extc_test_says_what_is_wrong_with_its_inputs() {
    let world = World::new();
    let (_, tape) = record_positions(&world);
    world.write("project/bad.tape", "none");
    extc(&world, &["test"]).failed(2, &["TAPE"]);
    extc(&world, &["test", "positions.ts"]).failed(2, &["no tape is named", "--tape"]);
    let run = extc(&world, &["test", "positions.ts", "bad.tape", "absent.tape", tape.to_str().expect("text")]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    for words in
        ["bad.tape: ", "this is not a tape", "absent.tape: ", "positions.tape: equal", "3 tapes: 1 equal, 2 not tested"]
    {
        assert!(run.stdout.contains(words), "{words:?} is missing in:\n{}", run.stdout);
    }
    for misspelt in ["./position.ts", "position"] {
        let run = extc(&world, &["test", misspelt, "positions.tape"]);
        run.failed(2, &[&format!("the extension {misspelt} does not exist")]);
        assert!(run.stdout.is_empty(), "nothing is built: {}", run.stdout);
    }
    extc(&world, &["test", "./position.ts", "positions.tape"]).failed(2, &["did you mean ./positions.ts?"]);
    world.write("project/other/index.ts", "export default () => {};\n");
    let run = extc(&world, &["test", "other", "positions.tape"]);
    assert!(run.code == 1 && run.stdout.contains("the tape has no extension"), "{}", run.stdout);
}

#[test]
fn a_small_tape_without_secrets_is_made_of_a_long_one() {
    let world = World::new();
    let tape = record(&world, "process");
    let name = tape.to_str().expect("text");
    let make = |args: &[&str]| world.pi(&[&["tape"], args].concat()).succeeded().stdout.clone();
    let told = make(&["trim", name, "-o", "one.tape", "--extension", "tape-watch"]);
    // The realm of the extension, and its replacement.
    assert!(told.contains("2 realms") && told.contains("replays equal"), "{told}");
    let one = world.project().join("one.tape");
    assert_eq!(info(&world, &one)["summary"]["realms"].as_array().map(Vec::len), Some(2));
    assert!(one.metadata().expect("a tape").len() < tape.metadata().expect("a tape").len());
    make(&["trim", name, "-o", "early.tape", "--until", "4"]);
    let early = world.project().join("early.tape");
    assert!(info(&world, &early)["summary"]["ticks"].as_u64() <= Some(4));
    world.pi(&["tape", "trim", name, "-o", "early.tape"]).failed(1, &["early.tape cannot be written"]);
    world
        .pi(&["tape", "trim", name, "-o", "x.tape", "--extension", "tape-watch", "--extension", "tape-wotch"])
        .failed(1, &["the tape has no extension \"tape-wotch\"; it has: path:", "did you mean tape-watch?"]);
    world.pi(&["tape", "trim", name, "-o", "x.tape", "--until", "0"]).failed(1, &["the new tape would be empty"]);
    let cut = &["tape", "cut", name, "-o", "x.tape", "--ticks", "2", "--ticks", "9000..9001"];
    world.pi(cut).failed(2, &["the tape has no turn 9000: it has "]);
    for option in ["--until", "--from"] {
        world.pi(&["replay", name, option, "9000"]).failed(2, &["the tape has no turn 9000: it has "]);
    }
    let against = &["replay", name, "--against", "./nosuch"];
    world.pi(against).failed(1, &["the extension ", "nosuch does not exist"]);
    world.pi(&["tape", "info", "earli.tape"]).failed(1, &["No such file", "did you mean ", "early.tape?"]);

    let (_, positions) = record_positions(&world);
    let before = info(&world, &positions);
    let ticks = before["summary"]["ticks"].as_u64().expect("ticks");
    make(&["cut", "positions.tape", "-o", "cut.tape", "--ticks", &format!("{}..{ticks}", ticks - 3)]);
    make(&["redact", "cut.tape", "-o", "clean.tape", "--secret", "all done"]);
    let (cut, clean) = (world.project().join("cut.tape"), world.project().join("clean.tape"));
    assert_eq!(info(&world, &cut)["summary"]["ticks"], json!(ticks - 4), "{before:#}");
    for tape in [&one, &early, &cut, &clean] {
        for isolation in ["thread", "process"] {
            replay(tape, &["--isolation", isolation]).succeeded();
        }
    }
    world.pi(&["tape", "redact", "cut.tape", "-o", "y.tape", "--secret", "ab"]).failed(2, &["too short"]);
    world.pi(&["tape", "cut", "cut.tape", "-o", "y.tape", "--ticks", "9..2"]).failed(2, &["9 comes after 2"]);
}

#[test]
fn a_tape_is_exported_as_a_trace() {
    let world = World::new();
    let tape = record(&world, "thread");
    let name = tape.to_str().expect("text");
    let chrome: Value =
        serde_json::from_str(&world.pi(&["tape", "export", name, "--chrome"]).succeeded().stdout).expect("JSON");
    let events = chrome["traceEvents"].as_array().expect("events");
    let of = |name: &str, ph: &str| events.iter().filter(|event| event["name"] == name && event["ph"] == ph).count();
    assert!(of("event agent_start", "X") > 0 && of("fs readFile", "b") == of("fs readFile", "e"), "{chrome:#}");
    assert!(of("timer 1", "b") == 1 && of("thread_name", "M") == 3, "{chrome:#}");
    let killed = events.iter().filter(|event| event["args"]["ended"].is_string()).count();
    assert_eq!(killed, 1, "{chrome:#}");

    world.pi(&["tape", "export", name, "--otel", "-o", "trace.json"]).succeeded();
    let otel: Value = serde_json::from_str(&world.read("project/trace.json")).expect("JSON");
    let resources = otel["resourceSpans"].as_array().expect("resources");
    assert_eq!(resources.len(), 3, "one for each realm");
    for span in resources.iter().flat_map(|of| of["scopeSpans"][0]["spans"].as_array().expect("spans")) {
        let number = |member: &str| span[member].as_str().and_then(|text| text.parse::<u64>().ok());
        assert!(number("startTimeUnixNano") <= number("endTimeUnixNano"), "{span:#}");
        let id = |member: &str| span[member].as_str().map(str::len);
        assert_eq!((id("traceId"), id("spanId")), (Some(32), Some(16)), "{span:#}");
    }
    world.pi(&["tape", "export", name]).failed(2, &["--chrome"]);
}

#[test]
fn a_secret_in_the_source_is_redacted_and_the_tape_replays() {
    let world = World::new();
    let source =
        "const key = \"blue-canary-nightlight\";\nexport default (pi: any) => { pi.log(\"info\", key, {}); };\n";
    world.write("project/keyed.ts", source);
    let model = world.script(&[&["ok"]]);
    world.pi(&["-p", "x", "--model", &model, "-e", "keyed.ts", "--tape", "keyed.tape"]).succeeded();
    let mut command = world.command(&["tape", "redact", "keyed.tape", "-o", "clean.tape", "--secret", "MY_KEY"]);
    command.env("MY_KEY", "blue-canary-nightlight");
    run(command).succeeded();
    let clean = world.project().join("clean.tape");
    let lines = zstd::decode_all(fs::File::open(&clean).expect("a tape")).expect("zstd frames");
    let lines = String::from_utf8(lines).expect("JSON lines");
    let sources = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "blue-canary");
    assert!(!lines.contains("blue-canary") && !lines.contains(sources.trim_end_matches('=')), "it is gone");
    replay(&clean, &[]).succeeded();
}

#[test]
fn a_credential_in_the_source_is_not_on_the_tape_and_it_replays() {
    let world = World::new();
    let key = format!("sk-ant-api03-{}", "Ab1".repeat(20));
    let source = format!("const key = \"{key}\";\nexport default (pi: any) => {{ pi.log(\"info\", key, {{}}); }};\n");
    let entry = world.write("project/keyed.ts", source);
    let model = world.script(&[&["ok"]]);
    world.pi(&["-p", "x", "--model", &model, "-e", "keyed.ts", "--tape", "keyed.tape"]).succeeded();
    let tape = world.project().join("keyed.tape");
    let has_key = || {
        let lines = zstd::decode_all(fs::File::open(&tape).expect("a tape")).expect("zstd frames");
        String::from_utf8(lines).expect("JSON lines").contains("Ab1Ab1Ab1")
    };
    assert!(!has_key());
    replay(&tape, &["--isolation", "thread"]).succeeded();
    // A rewritten tape has none either.
    fs::write(&entry, fs::read_to_string(&entry).expect("a file").replace("\"info\"", "\"warn\"")).expect("a file");
    extc(&world, &["test", "keyed.ts", "keyed.tape", "--accept"]).succeeded();
    assert!(!has_key());
    replay(&tape, &["--isolation", "thread"]).succeeded();
}

#[test]
fn the_settings_record_every_session_beside_its_file() {
    let world = World::new();
    let settings = |text: &str| drop(world.write("home/.pi/agent/settings.json", text));
    world.write("project/big.ts", "export default (pi: any) => { for (let i = 0; i < 900; i++) pi.log(\"info\", crypto.randomUUID().repeat(60), {}); };\n");
    let model = world.script(&[&["ok"]]);
    let session = || world.pi(&["-p", "x", "--model", &model, "-e", "big.ts"]).succeeded().stderr.clone();
    let tapes = || -> Vec<PathBuf> {
        let folders = fs::read_dir(world.home().join(".pi/agent/sessions")).expect("sessions").flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten());
        let mut found: Vec<PathBuf> =
            files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|it| it == "tape")).collect();
        found.sort();
        found
    };
    session();
    assert_eq!(tapes().len(), 0, "it is off");
    settings(r#"{"extensions": {"tape": {"record": true, "keep": 2}}}"#);
    for _ in 0..3 {
        session();
    }
    assert_eq!(tapes().len(), 2, "the newest stay");
    for tape in tapes() {
        let name = tape.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
        assert!(tape.with_file_name(name.replace(".jsonl.tape", ".jsonl")).is_file(), "{name} is beside its session");
        replay(&tape, &["--isolation", "thread"]).succeeded();
    }
    settings(r#"{"extensions": {"tape": {"record": true, "maxMb": 0}}}"#);
    assert!(session().contains("extensions.tape.maxMb"), "it says that the recording ends");
    settings(r#"{"extensions": {"tape": {"record": true, "maxMB": 1}}}"#);
    world.pi(&["-p", "x", "--model", &model]).failed(1, &["settings.json: extensions.tape", "maxMB", "\"keep\": 20"]);
}

#[test]
fn rules_read_the_streams_of_a_tape() {
    let world = World::new();
    record_positions(&world);
    world.rule("no-stop", "condition: 'never stop'", "Stop it.");
    let told = world.pi(&["rules", "scan", "positions.tape", "--rules", ".pi/rules"]).succeeded().stdout.clone();
    assert!(told.contains("no-stop would stop it") && told.contains("1 match"), "{told}");
}

/// Polls until something is recorded; only a hang reaches the limit.
fn until(is_there: impl Fn() -> bool) {
    let looks = (0..MAX_LOOKS).find(|_| {
        std::thread::sleep(BETWEEN_LOOKS);
        is_there()
    });
    assert!(looks.is_some(), "nothing is recorded");
}

/// Starts `pi` without a reader of its output.
fn over_rpc(world: &World, args: &[&str]) -> (Child, ChildStdin) {
    let mut child = pi(world, &strings(args))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pi");
    let input = child.stdin.take().expect("piped");
    (child, input)
}

#[test]
fn a_session_over_rpc_is_recorded() {
    let world = World::new();
    let tape = world.path().join("rpc.tape");
    let model = world.script(&[&["ok"]]);
    let worker = fixture("extensions/tape-worker");
    let args = ["--mode", "rpc", "--model", &model, "-e", &worker, "--tape", tape.to_str().expect("text")];
    let (mut child, mut input) = over_rpc(&world, &args);
    writeln!(input, "{}", json!({ "type": "get_state" })).expect("pi reads");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(info(&world, &tape)["summary"]["complete"], json!(true));
    replay(&tape, &[]).succeeded();
}

/// Returns the sandboxed workers of a process.
fn workers(parent: u32) -> Vec<i32> {
    let is_worker = |process: &i32| {
        let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        let is_child = behind_name.split_whitespace().nth(1) == Some(&parent.to_string());
        is_child && String::from_utf8_lossy(&command).contains("--pijs-realm-worker")
    };
    let entries = fs::read_dir("/proc").expect("it is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_worker).collect()
}

#[test]
fn reloads_and_workers_that_are_killed_between_turns_replay() {
    let world = World::new();
    let extension = world.write(
        "project/beats.ts",
        r#"
export default (pi: any) => {
  pi.registerCommand("again", { description: "reloads", handler: (_: string, ctx: any) => ctx.reload() });
  setInterval(() => pi.log("info", "beat", { at: Date.now(), random: Math.random() }), 5);
  pi.on("session_start", (event: any) => pi.log("info", "start", { reason: event.reason }));
};
"#,
    );
    let (tape, model) = (world.path().join("killed.tape"), world.script(&[&["ok"]]));
    let args = ["--mode", "rpc", "--model", &model, "-e", extension.to_str().expect("text")];
    let args = [args.as_slice(), &["--tape", tape.to_str().expect("text")]].concat();
    let (mut child, mut input) = over_rpc(&world, &args);
    let wait_for = |realms: usize| {
        let is_there = || {
            let found = info(&world, &tape);
            let found = found["summary"]["realms"].as_array().expect("realms").clone();
            found.len() >= realms && found[realms - 1]["ticks"].as_u64() > Some(5)
        };
        until(|| tape.metadata().is_ok_and(|file| file.len() > 0) && is_there());
    };
    wait_for(1);
    writeln!(input, "{}", json!({ "type": "prompt", "message": "/again" })).expect("pi reads");
    wait_for(2);
    for worker in workers(child.id()) {
        kill(worker);
    }
    wait_for(3);
    drop(input);
    assert!(child.wait().expect("it ends").success());
    for isolation in ["thread", "process"] {
        replay(&tape, &["--isolation", isolation]).succeeded();
    }
}

/// Kills a process of the test.
fn kill(process: i32) {
    let killed = Command::new("/bin/kill").args(["-9", &process.to_string()]).status().expect("there is a kill");
    assert!(killed.success());
}

#[test]
fn a_message_as_deep_as_a_provider_may_send_is_recorded() {
    let world = World::new();
    let extension = world.write(
        "project/deep.ts",
        r#"
export default (pi: any) => {
  pi.registerTool({
    name: "deep", label: "deep", description: "counts levels", parameters: { type: "object", properties: {} },
    execute: async (_id: string, params: any) => {
      let levels = 0;
      for (let at = params; typeof at === "object"; at = at.x) levels++;
      return { content: [{ type: "text", text: `${levels} levels` }], details: {} };
    },
  });
};
"#,
    );
    let arguments = format!("{}1{}", "{\"x\":".repeat(127), "}".repeat(127));
    let call = json!({ "tool_call": { "id": "call-1", "name": "deep", "arguments": arguments } });
    let replies = [
        json!({ "events": [call], "stop": "tool_use" }).to_string(),
        json!({ "events": [{ "text": "done" }], "stop": "end_turn" }).to_string(),
    ];
    let model = world.raw_script(&replies.join("\n"));
    let tape = world.path().join("deep.tape");
    let args =
        ["-p", "x", "--model", &model, "-e", extension.to_str().expect("text"), "--tape", tape.to_str().expect("text")];
    let run = run(pi(&world, &strings(&args)));
    run.succeeded();
    assert!(!run.stderr.contains("recording"), "{}", run.stderr);
    let info = info(&world, &tape);
    assert_eq!((&info["summary"]["complete"], records_of(&info, "delivery tool_call")), (&json!(true), 1), "{info:#}");
    for isolation in ["thread", "process"] {
        replay(&tape, &["--isolation", isolation]).succeeded();
    }
}
