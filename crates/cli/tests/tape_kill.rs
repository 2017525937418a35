//! Tests that a recording that ends anywhere, by `kill -9` or in the middle of a write, replays up to its last whole tick, and
//! that a replay reads only the parts of an indexed tape that it needs.

#![cfg(target_os = "linux")]

mod support;

use pijs_runtime::tape::ReplayStage;
use pijs_runtime::{Environment, Isolation};
use pijs_tape::{Event, Outcome, RealmNumber, Replay, ReplayOptions, TapeReader};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use support::{World, run};

/// The environment variable that selects the long form.
const LONG: &str = "PIJS_LONG";
/// Number of killed sessions, in the short and in the long form.
const KILLS: [u64; 2] = [8, 200];
/// Number of points at which each tape is additionally cut off.
const CUTS: u64 = 24;
/// Maximum number of polls of a tape that does not grow.
const MAX_LOOKS: usize = 12_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// An extension that produces many records: a timer that reads a file and sets itself again.
const BUSY: &str = r#"
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
export default (pi) => {
  let count = 0;
  const tick = async () => {
    const text = readFileSync("notes.txt", "utf8") + (await readFile("notes.txt", "utf8"));
    pi.log("info", "tick", { count: ++count, length: text.length, random: Math.random() });
    setTimeout(tick, 1);
  };
  pi.on("agent_start", () => void tick());
};
"#;

/// A deterministic random number generator.
struct Draws(u64);

impl Draws {
    /// Returns a random number below `end` (splitmix64).
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Records a session, and kills it when its tape has `bytes` bytes.
fn killed_at(world: &World, bytes: u64) -> Vec<u8> {
    world.write("project/notes.txt", "some notes\n");
    let busy = world.write("project/busy.ts", BUSY).display().to_string();
    let reply = json!({ "events": [{ "text": "begun" }, { "delay_ms": 600_000 }], "stop": "end_turn" });
    let model = world.raw_script(&reply.to_string());
    let tape = world.path().join("killed.tape");
    let name = tape.to_str().expect("text");
    let args = ["-p", "hello", "--model", &model, "-e", &busy, "--allow", "read", "--tape", name];
    let mut command = world.command(&args);
    command.args(["--isolation", "thread"]).env("TZ", "UTC").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("pi starts");
    let is_long = || fs::metadata(&tape).is_ok_and(|file| file.len() >= bytes);
    let grows = (0..MAX_LOOKS).any(|_| {
        std::thread::sleep(BETWEEN_LOOKS);
        is_long()
    });
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert!(grows, "nothing is recorded");
    fs::read(&tape).expect("a tape")
}

/// Counts the ticks of completed turns on the valid part of a tape.
fn whole_ticks(bytes: &[u8]) -> u64 {
    let mut open: BTreeMap<RealmNumber, u64> = BTreeMap::new();
    let mut ticks = 0;
    for record in TapeReader::new(bytes).expect("the header is there").map_while(Result::ok) {
        let begun = open.entry(record.realm).or_default();
        *begun += u64::from(record.event.begins_tick());
        if matches!(record.event, Event::Yield(_) | Event::Termination(_)) {
            ticks += std::mem::take(begun);
        }
    }
    ticks
}

fn replay(bytes: &[u8], stage: &ReplayStage) -> Outcome {
    let tape = TapeReader::new(bytes).expect("the header is there");
    Replay::new(tape, stage, ReplayOptions::default()).and_then(Replay::run).expect("a tape that is cut off replays")
}

/// Returns the offset of the end of the first block, which contains the header.
fn header_end(bytes: &[u8]) -> usize {
    let next = bytes.windows(8).skip(16).position(|window| window == b"PIJSTAPE").expect("a second block");
    next + 16 - 8
}

#[test]
fn a_recording_that_is_killed_anywhere_replays_to_its_last_whole_tick() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let environment = Environment::capture().expect("an environment");
    let mut draws = Draws(30);
    let (mut most, mut cut_in_turn) = (0, 0);
    let kills = KILLS[usize::from(std::env::var_os(LONG).is_some())];
    for _ in 0..kills {
        let world = World::new();
        let bytes = killed_at(&world, 6_000 + draws.below(40_000));
        let path = world.write("whole.tape", &bytes);
        let stage = runtime.block_on(ReplayStage::prepare(&environment, &path, Isolation::Thread)).expect("a stage");
        let first = header_end(&bytes);
        let cuts = (0..CUTS).map(|_| first + draws.below((bytes.len() - first) as u64) as usize);
        for cut in cuts.chain([bytes.len()]).collect::<Vec<_>>() {
            let bytes = &bytes[..cut];
            let outcome = replay(bytes, &stage);
            assert_eq!(outcome.divergence, None, "cut at {cut} of a tape of {} bytes", bytes.len());
            assert_eq!((outcome.ticks, outcome.cut), (whole_ticks(bytes), true), "cut at {cut}");
            most = most.max(outcome.ticks);
            cut_in_turn += 1;
        }
    }
    assert_eq!(cut_in_turn, kills * (CUTS + 1));
    assert!(most > 100, "{most} ticks at most");
}

/// An extension that produces much output at the first prompt and then stops at its memory limit, so that its realm does not
/// exist for the rest of the session.
const ENDS: &str = r#"
export default (pi) => {
  let rounds = 0;
  const round = () => {
    for (let at = 0; at < 20; at++) pi.log("info", "much", { at, noise: Array.from({ length: 800 }, Math.random) });
    setTimeout(++rounds < 16 ? round : () => { for (const kept = [];;) kept.push(new Uint8Array(1 << 20).fill(1)); }, 1);
  };
  pi.on("agent_start", round);
};
"#;

/// An extension whose worker runs until the end.
const STAYS: &str = r#"
export default (pi) => {
  pi.on("turn_end", () => pi.log("info", "turn", {}));
};
"#;

/// Returns the offsets of the blocks of a tape, and the end of the tape.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    let starts = (0..bytes.len() - 16).filter(|at| &bytes[at + 8..at + 16] == b"PIJSTAPE");
    starts.chain([bytes.len()]).collect()
}

#[test]
fn a_replay_that_begins_late_does_not_read_blocks_that_it_does_not_need() {
    let world = World::new();
    let ends = world.write("ends/index.ts", ENDS).parent().and_then(Path::to_str).expect("text").to_owned();
    let stays = world.write("stays/index.ts", STAYS).parent().and_then(Path::to_str).expect("text").to_owned();
    let tape = world.path().join("late.tape");
    let name = tape.to_str().expect("text").to_owned();
    let reply = json!({ "events": [{ "text": "a" }, { "delay_ms": 6_000 }, { "text": "b" }], "stop": "end_turn" });
    let model = world.raw_script(&reply.to_string());
    let mut command = world.command(&["-p", "hello", "--model", &model, "-e", &ends, "-e", &stays, "--tape", &name]);
    command.args(["--isolation", "process"]);
    run(command).succeeded();
    let bytes = fs::read(&tape).expect("a tape");
    let info = world.pi(&["tape", "info", "--json", &name]).succeeded().stdout.clone();
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let ticks = info["summary"]["ticks"].as_u64().expect("a number");
    let from = ticks.to_string();

    // The middle contains the records of the extension that stopped; a replay that begins late does not read them.
    let blocks = blocks(&bytes);
    assert!(blocks.len() > 8, "{} blocks", blocks.len());
    let middle = blocks.len() / 2;
    let mut damaged = bytes.clone();
    damaged[(blocks[middle] + blocks[middle + 1]) / 2] ^= 1;
    fs::write(&tape, &damaged).expect("written");
    world.pi(&["replay", &name]).failed(1, &["is damaged at record"]);
    let late = world.pi(&["replay", &name, "--from", &from, "--json"]);
    let outcome: serde_json::Value = serde_json::from_str(&late.succeeded().stdout).expect("JSON");
    assert_eq!((&outcome["equal"], &outcome["ticks"]), (&json!(true), &json!(ticks)), "{outcome:#}");

    // Without the index, everything is read.
    let index = bytes.windows(8).position(|window| window == b"PIJSINDX").expect("an index") - 8;
    fs::write(&tape, &damaged[..index]).expect("written");
    world.pi(&["replay", &name, "--from", &from]).failed(1, &["is damaged at record"]);
}
