//! Grants that hold: asked at install, bound to the code, listed, explained, taken back.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::{Run, World};

/// Says what became of running `true` and of writing a file.
const RUNS: &str = r#"
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
const outcome = (work: () => unknown) => {
  try {
    work();
    return "done";
  } catch (error: any) {
    return String(error.cause?.details?.reason ?? error.message);
  }
};
export default (pi: any) => {
  pi.on("session_start", () => console.log("RAN " + outcome(() => execFileSync("true", []))));
  pi.registerCommand("write", {
    handler: async () => console.log("WROTE " + outcome(() => writeFileSync("out.txt", "x"))),
  });
};
"#;

fn mine(world: &World, code: &str) {
    world.write("project/mine/package.json", r#"{"name":"mine","version":"1.0.0","pi":{"extensions":["./a.ts"]}}"#);
    world.write("project/mine/a.ts", code);
}

fn start(world: &World, more: &[&str]) -> Run {
    let model = world.script(&[&["fine"]]);
    let mut args = vec!["-p", "x", "--model", &model, "--mode", "json"];
    args.extend(more);
    let run = world.pi(&args);
    run.succeeded();
    run
}

fn ran(run: &Run) -> &str {
    let line = run.stderr.lines().find_map(|line| Some(line.split_once("RAN ")?.1));
    line.unwrap_or_else(|| panic!("nothing was said:\n{}", run.stderr))
}

fn book(world: &World) -> Value {
    serde_json::from_str(&world.pi(&["ext", "grants", "--json"]).succeeded().stdout).expect("a book")
}

#[test]
fn what_was_taken_at_install_holds_until_it_is_taken_back() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["install", "--yes", "./mine"]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "done");

    let book = book(&world);
    let (id, record) = book["packages"].as_object().expect("packages").iter().next().expect("one");
    assert!(id.starts_with("path:/") && id.ends_with("/mine"), "{id}");
    let exec = json!({"capability": "exec", "scope": {"commands": ["true"]}, "allowed": true, "by": "yes"});
    let answers = record["answers"].as_array().expect("answers");
    let answer = answers.iter().find(|answer| answer["capability"] == "exec").expect("an answer about exec");
    for (key, value) in exec.as_object().expect("an object") {
        assert_eq!(&answer[key], value, "{key}");
    }
    let listed = world.pi(&["ext", "grants", "mine"]);
    assert!(listed.succeeded().stdout.contains("may run programs: true"), "{}", listed.stdout);
    let explained = world.pi(&["ext", "explain", "mine", "exec", "true"]);
    assert!(explained.succeeded().stdout.contains("allowed  exec true"), "{}", explained.stdout);
    assert!(explained.stdout.contains("pi install --yes"), "{}", explained.stdout);

    world.pi(&["ext", "grants", "revoke", "mine", "exec"]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "non_interactive");
    world.pi(&["ext", "grants", "allow", "mine", "exec:true"]).succeeded();
    assert_eq!(ran(&start(&world, &["--policy", "strict"])), "done");
    world.pi(&["ext", "grants", "deny", "mine", "exec"]).succeeded();
    assert_eq!(ran(&start(&world, &["--policy", "permissive"])), "policy");
    world.pi(&["ext", "grants", "revoke", "mine", "http"]).failed(1, &["no answer about http", "deny"]);

    world.pi(&["remove", "./mine"]).succeeded();
    assert_eq!(self::book(&world)["packages"], json!({}));
}

#[test]
fn with_nobody_to_ask_only_what_steers_the_model_is_granted_and_the_rest_is_named() {
    let world = World::new();
    mine(&world, RUNS);
    let installed = world.pi(&["install", "./mine"]);
    for words in ["not granted:", "run programs: true", "pi ext grants allow", "--yes"] {
        assert!(installed.succeeded().stderr.contains(words), "{words:?} is missing in:\n{}", installed.stderr);
    }
    assert_eq!(ran(&start(&world, &[])), "non_interactive");
    let explained = world.pi(&["ext", "explain", "--json", "mine", "exec", "true"]);
    let explained: Value = serde_json::from_str(&explained.succeeded().stdout).expect("JSON");
    assert_eq!(explained["decisions"][0]["allowed"], false);
    assert_eq!(explained["decisions"][0]["rule"], "no_person");
    assert!(explained["expected_loss"]["grant"].is_number() && explained["evidence"].is_array(), "{explained}");
}

#[test]
fn a_local_path_keeps_its_grants_and_is_told_about_when_it_wants_more() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["install", "--yes", "./mine"]).succeeded();
    mine(&world, &RUNS.replace("RAN ", "RAN again: "));
    assert_eq!(ran(&start(&world, &[])), "again: done");
    mine(&world, &format!("{RUNS}\nexport const more = () => fetch('https://example.com/');\n"));
    let wider = start(&world, &[]);
    assert_eq!(ran(&wider), "done");
    assert!(wider.stderr.contains("asks for more") && wider.stderr.contains("example.com"), "{}", wider.stderr);
}

#[test]
fn a_manifest_with_strange_members_is_a_warning_and_under_the_strict_policy_a_refusal() {
    let world = World::new();
    mine(&world, RUNS);
    let manifest = json!({
        "name": "mine", "version": "1.0.0",
        "pi": {"extensions": ["./a.ts"], "capabilities": {"schema": "pi.ext.cap.v1", "capabilities": [], "fly": true}},
    });
    world.write("project/mine/package.json", manifest.to_string());
    let path = world.project().join("mine");
    let path = Path::new(&path).display().to_string();
    let run = start(&world, &["-e", &path]);
    assert!(run.stderr.contains("the member fly"), "{}", run.stderr);
    let model = world.script(&[&["fine"]]);
    world.pi(&["-p", "x", "--model", &model, "-e", &path, "--policy", "strict"]).failed(3, &["the member fly"]);
}

#[test]
fn mistakes_are_named() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["ext", "grants", "allow", "./mine", "fly"]).failed(2, &["no such capability", "exec"]);
    world.pi(&["ext", "grants", "allow", "./nowhere", "exec"]).failed(1, &["nowhere"]);
    world.pi(&["ext", "grants", "revoke", "mine"]).failed(1, &["nothing is recorded"]);
    world.pi(&["ext", "explain", "./mine", "dance"]).failed(2, &["no call and no capability"]);
    world.write("home/.pi/agent/pijs/grants.json", "{\"version\": 7, \"packages\": {}}");
    world.pi(&["ext", "grants"]).failed(1, &["grants.json", "version 7", ".bak"]);
}
