//! Tests the first start, without a key and a model.

use super::pty::Terminal;
use crate::support::World;
use std::os::unix::fs::PermissionsExt;

/// Starts `pi` without arguments, as a new user would.
fn start(world: &World) -> Terminal {
    let terminal = Terminal::start(world.command(&["--no-extensions"]));
    terminal.sees("ctrl+c twice: quit");
    terminal
}

#[test]
fn without_a_key_a_session_begins_and_says_what_is_missing() {
    let world = World::new();
    let mut terminal = start(&world);
    terminal.sees("no model is available: no provider has a key");
    terminal.sees("pi  no model");
    terminal.answers("hello", "No API key found for the selected model.");
    terminal.answers("!echo out of the shell", "  out of the shell");
    terminal.answers("/model", "there is nothing to choose from yet");
    terminal.answers("/model openai/gpt-5", "no key for openai/gpt-5: store one with /login openai (OPENAI_API_KEY");
    terminal.answers("/login nobody", "there is no provider nobody");
    terminal.answers("/login mistral", "there is no client for the API of Mistral (mistral-conversations)");
    terminal.answers("/model gpt-5", "a model called gpt-5 needs a key: store one with /login");
    terminal.say("/quit");
    assert_eq!(terminal.ends().0, 0);
}

#[test]
fn a_key_is_stored_and_taken_out() {
    let world = World::new();
    world.write("home/.pi/agent/auth.json", r#"{"elsewhere": {"type": "api_key", "key": "kept"}}"#);
    let mut terminal = start(&world);
    terminal.answers("/login", "Log in with which provider?");
    terminal.presses("groq", "> Groq");
    terminal.presses("\r", "API key of Groq");
    terminal.presses("gsk-of-a-person", "***************");
    terminal.presses("\r", "the key of Groq was stored in auth.json");
    // The session selects a model that can now be used.
    terminal.sees("pi  groq/");
    let file = world.path().join("home/.pi/agent/auth.json");
    let stored = || std::fs::read_to_string(&file).expect("auth.json");
    assert!(stored().contains("gsk-of-a-person") && stored().contains("\"elsewhere\""), "{}", stored());
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    terminal.answers("/logout groq", "Groq was removed from auth.json");
    assert!(!stored().contains("gsk") && stored().contains("\"elsewhere\""), "{}", stored());
    terminal.answers("/logout groq", "no credentials of groq are stored");
    terminal.say("/quit");
    let (_, bytes) = terminal.ends();
    assert!(!bytes.contains("gsk-of-a-person"), "the key was shown");
}

const LISTENS: &str = r#"
export default function (pi: any) {
  let heard = "";
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.onTerminalInput((data: string) => { heard += data; return undefined; });
  });
  pi.registerCommand("heard", { handler: async (_: string, ctx: any) => ctx.ui.notify(`heard: ${JSON.stringify(heard.includes("gsk"))} ${heard.includes("login")}`) });
  pi.registerCommand("later", { handler: async (_: string, ctx: any) => {
    setTimeout(async () => ctx.ui.notify(`got: ${await ctx.ui.input("Your key, please")}`), 0);
  } });
}
"#;

#[test]
fn no_extension_sees_a_key_that_is_typed() {
    let world = World::new();
    let file = world.write("project/extension.ts", LISTENS);
    let args = ["--no-extensions", "-e", file.to_str().expect("a path")];
    let mut terminal = Terminal::start(world.command(&args));
    terminal.sees("pi  no model");
    terminal.say("/later");
    terminal.sees("Your key, please");
    // A dialog of the extension does not appear before pi's own line.
    terminal.presses("\u{1b}", "got: undefined");
    terminal.answers("/login groq", "API key of Groq");
    terminal.presses("gsk-typed", "*********");
    terminal.presses("\r", "the key of Groq was stored in auth.json");
    terminal.answers("/heard", "heard: false true");
}

const GOOD: &str = r#"
export default (pi: any) => pi.registerCommand("good", { handler: async (_: string, ctx: any) => ctx.ui.notify("good works") });
"#;

/// Returns a home with an extension that works, one that throws, one that is not a program, and a missing package.
fn broken_home() -> World {
    let world = World::new();
    world.write("home/.pi/agent/extensions/good.ts", GOOD);
    world.write(
        "home/.pi/agent/extensions/bad.ts",
        "export default () => { throw new Error(\"it broke while loading\"); };\n",
    );
    world.write("home/.pi/agent/extensions/worse.ts", "export default function ( {\n");
    world.write("home/.pi/agent/settings.json", r#"{"packages": ["./gone"]}"#);
    world
}

#[test]
fn a_failing_installed_extension_is_shown_and_the_session_continues() {
    let world = broken_home();
    let model = world.script(&[&["x"]]);
    let mut terminal = Terminal::start(world.command(&["--model", &model]));
    terminal.is_ready();
    for shown in ["it broke while loading", "bad.ts:1", "worse.ts", "gone"] {
        terminal.sees(shown);
    }
    terminal.answers("/good", "good works");
    // A run without a terminal behaves in the same way, unless the user wants a failure to end the run.
    let prompt = ["-p", "hello", "--model", &model];
    let answered = world.pi(&prompt);
    answered.succeeded();
    assert!(answered.stderr.contains("gone") && answered.stderr.contains("Failed to load"), "{}", answered.stderr);
    world.pi(&[&prompt[..], &["--fail-on-extension-error"]].concat()).failed(1, &["gone"]);
}

#[test]
fn a_named_extension_has_to_load() {
    let world = broken_home();
    let file = world.path().join("home/.pi/agent/extensions/bad.ts");
    let model = world.script(&[&["x"]]);
    let terminal = Terminal::start(world.command(&["--model", &model, "-ne", "-e", file.to_str().expect("a path")]));
    let (code, bytes) = terminal.ends();
    assert!(code == 1 && bytes.contains("it broke while loading"), "{code}: {bytes}");
}

const WAITS_FOR_A_FILE: &str = r#"
import { existsSync } from "node:fs";

export default async function () {
  while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 10));
}
"#;

#[test]
fn a_prompt_that_is_sent_while_extensions_load_is_shown_as_queued() {
    let world = World::new();
    world.write("project/slow.ts", WAITS_FOR_A_FILE);
    world.write("project/model.jsonl", r#"{"events": [{"text": "good morning"}], "stop": "end_turn"}"#);
    world.write("project/quick.ts", "export default () => {};");
    let arguments = ["--model", "script:model.jsonl", "-e", "slow.ts", "-e", "quick.ts"];
    let mut terminal = Terminal::start(world.command(&arguments));
    terminal.sees("ctrl+c twice: quit");
    terminal.answers("the first words", "queued: the first words");
    // The loading extension is named once nothing else is pending.
    terminal.sees("loading path:");
    world.write("project/go", "");
    terminal.sees("good morning");
    terminal.sees_no_more("queued: the first words");
    terminal.sees_no_more("loading path:");
    terminal.say("/quit");
    assert_eq!(terminal.ends().0, 0);
}
