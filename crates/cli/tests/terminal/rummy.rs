//! Tests installed plugins of rummy: a run uses them, and the user is asked about each of them once.

use crate::pty::Terminal;
use crate::support::World;
use pijs_testkit::registry::Registry;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A plugin whose tool starts a program.
const TOUCHER: &str = "
import { spawn } from 'node:child_process';
export default class Toucher {
  constructor(core) {
    core.on('handler', async (entry, rummy) => {
      const end = await new Promise((done) => spawn('touch', ['touched']).on('close', done).on('error', (error) => done(error.message)));
      await rummy.set({ path: entry.resultPath, body: `touch: ${end}` });
    });
  }
}
";

const MANIFEST: &str = r#"{"name": "toucher", "version": "1.0.0", "type": "module", "main": "index.js"}"#;

fn model(world: &World) -> String {
    world.script(&[&["<toucher path=\"x\"/>\n<update status=\"200\">touched it</update>"]])
}

fn touched(world: &World) -> PathBuf {
    world.project().join("touched")
}

/// Runs the tool without a user to ask, and returns whether it could start its program.
fn works_unasked(world: &World, named: &str) -> bool {
    let model = model(world);
    let mut command = world.command(&["rummy", "run", "go", "--model", &model]);
    command.env("RUMMY_PLUGIN_TOUCHER", named);
    let ran = crate::support::run(command);
    assert!(ran.stdout.contains("touched it"), "{} {}", ran.stdout, ran.stderr);
    let done = touched(world).exists();
    if done {
        std::fs::remove_file(touched(world)).expect("removed");
    }
    done
}

/// Runs the tool at a terminal and allows its program permanently. Returns everything that was on the screen.
fn allow_for_good(world: &World, named: &str) -> String {
    let model = model(world);
    let mut command = world.command(&["rummy", "run", "go", "--model", &model]);
    command.env("RUMMY_PLUGIN_TOUCHER", named).env("TERM", "xterm");
    let mut terminal = Terminal::start(command);
    terminal.sees("allow?");
    // Keys typed before the prompt is on screen are ignored, so the test repeats the answer.
    terminal.insists("w\r", "touched it");
    let (code, shown) = terminal.ends();
    assert_eq!(code, 0, "{shown}");
    assert!(touched(world).exists(), "{shown}");
    std::fs::remove_file(touched(world)).expect("removed");
    shown
}

fn grants(world: &World) -> Vec<String> {
    let listed = world.pi(&["ext", "grants", "--json"]);
    let book: Value = serde_json::from_str(&listed.succeeded().stdout).expect("JSON");
    book["packages"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

#[test]
fn a_plugin_of_the_registry_is_asked_about_once() {
    let world = World::new();
    let registry = Registry::start();
    let manifest =
        |version: &str| json!({ "name": "toucher", "version": version, "type": "module", "main": "index.js" });
    registry.publish(manifest("1.0.0"), &[("index.js", TOUCHER)]);
    world.pi(&["install", "npm:toucher", "--registry", &registry.url()]).succeeded();
    assert!(world.read("home/.pi/agent/pijs-lock.json").contains("toucher"), "the lock file has it");

    assert!(!works_unasked(&world, "toucher"), "nobody was asked yet");
    let shown = allow_for_good(&world, "toucher");
    assert!(shown.contains("rummy:toucher"), "the question names the plugin: {shown}");
    assert!(works_unasked(&world, "toucher"), "the answer was kept");
    assert_eq!(grants(&world), ["rummy:toucher"]);
    let listed = world.pi(&["ext", "grants", "rummy:toucher"]);
    assert!(listed.succeeded().stdout.contains("may run programs: touch"), "{}", listed.stdout);

    // The user is asked again about changed code.
    registry.publish(manifest("1.1.0"), &[("index.js", &format!("{TOUCHER}// more\n"))]);
    world.pi(&["update", "--no-wait", "--registry", &registry.url()]).succeeded();
    assert!(!works_unasked(&world, "toucher"), "an answer is about the code that asked");
}

#[test]
fn a_local_plugin_prompts_once_and_its_grant_is_revoked() {
    let world = World::new();
    world.write("toucher/index.js", TOUCHER);
    world.write("toucher/package.json", MANIFEST);
    world.pi(&["install", &world.path().join("toucher").display().to_string()]).succeeded();
    assert!(!works_unasked(&world, "toucher"), "nobody was asked yet");
    allow_for_good(&world, "toucher");
    assert!(works_unasked(&world, "toucher"), "the answer was kept");
    let asked = grants(&world);
    let [key] = &asked[..] else { panic!("one plugin was asked about: {asked:?}") };
    assert!(key.starts_with("path:") && key.ends_with("/toucher"), "{key}");
    world.pi(&["ext", "grants", "revoke", key]).succeeded();
    assert!(!works_unasked(&world, "toucher"), "it was taken back");
}
