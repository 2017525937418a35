//! Tests `pi rummy` through the command: a plugin of the user, a run with a recorded model, and its entries.

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;
use support::{Run, World};

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rummy/runs/whole.jsonl");

fn pi(world: &World, args: &[&str]) -> Run {
    world.pi(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_run_edits_a_file_and_tells_what_it_did() {
    let world = World::new();
    world.write("project/notes.txt", "first\nsecond\nthird\n");
    pi(&world, &["rummy", "init"]).succeeded();
    let unsure = pi(&world, &["rummy", "plugins"]);
    assert!(unsure.stderr.contains("pi trust") && !unsure.stdout.contains("hello.js"), "{}", unsure.stderr);
    pi(&world, &["trust"]).succeeded();
    let listed = pi(&world, &["rummy", "plugins"]);
    assert!(listed.succeeded().stdout.contains("hello.js"), "{}", listed.stdout);

    pi(&world, &["rummy", "log"]).failed(1, &["pi rummy run"]);
    let model = format!("script:{RUN}");
    let run = ["rummy", "run", "Tidy the notes.", "--model", &model, "--yolo", "--allow", "exec", "--allow", "write"];
    let ran = pi(&world, &run);
    assert_eq!(ran.succeeded().stdout.trim(), "All three are done.");
    assert_eq!(world.read("project/notes.txt"), "first\n2nd\nthird\n");
    let log = pi(&world, &["rummy", "log"]);
    assert!(log.succeeded().stdout.contains("turn 2 log://turn_2/set/notes.txt resolved"), "{}", log.stdout);
    let entries = pi(&world, &["rummy", "entries", "*://project"]);
    assert!(entries.succeeded().stdout.contains("hello://project"), "{}", entries.stdout);
}

#[test]
fn proposals_are_rejected_without_a_terminal() {
    let world = World::new();
    world.write("project/notes.txt", "first\nsecond\nthird\n");
    let model = format!("script:{RUN}");
    let ran = pi(&world, &["rummy", "run", "Tidy the notes.", "--model", &model]);
    assert!(ran.stderr.contains("there is no user to ask"), "{}", ran.stderr);
    assert_eq!(world.read("project/notes.txt"), "first\nsecond\nthird\n");
}

#[test]
fn a_killed_run_continues_and_its_tape_replays() {
    let world = World::new();
    world.write("project/notes.txt", "first\nsecond\nthird\n");
    let model = world.script(&[
        &["<set path=\"known://plan\">wait, then end</set>\n<update status=\"102\">planned</update>"],
        &["<sh>touch started; sleep 600</sh>\n<update status=\"102\">waited</update>"],
    ]);
    let grants = ["--allow", "exec", "--allow", "write"];
    let mut args = vec!["rummy", "run", "Wait.", "--run", "r", "--yolo", "--json", "--model", &model];
    args.extend(grants);
    let mut child = world.command(&args).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let proposed = lines.map_while(Result::ok).any(|line| line.contains("run/proposal"));
    assert!(proposed, "the command is proposed");
    // Waits until the accepted command runs.
    while !world.project().join("started").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ended");

    // Adds replies to the model for the next process.
    world.script(&[&["<update status=\"200\">The wait is over.</update>"]]);
    let mut args = vec!["rummy", "run", "--run", "r", "--tape", "run.tape", "--model", &model];
    args.extend(grants);
    let went_on = pi(&world, &args);
    assert_eq!(went_on.succeeded().stdout.trim(), "The wait is over.", "{}", went_on.stderr);
    let entries = pi(&world, &["rummy", "entries", "known://**"]);
    assert!(entries.succeeded().stdout.contains("known://plan"), "{}", entries.stdout);
    let replayed = pi(&world, &["replay", "run.tape"]);
    assert!(replayed.succeeded().stdout.contains("equal"), "{}", replayed.stdout);
    pi(&world, &["rummy", "run", "--run", "r", "--model", &model]).failed(1, &["interrupted"]);
}
