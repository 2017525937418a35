//! Tests command-line options by their effects on an extension. The expected values were taken from pi 0.87.1.

#[path = "support/mod.rs"]
mod support;

use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use support::{Run, World, run};

/// An extension that records the state at the start of the session and at a prompt.
const WITNESS: &str = r#"
import { appendFileSync } from "node:fs";
const tool = (name: string) => ({
  name, label: name, description: name, parameters: { type: "object", properties: {} },
  execute: async () => ({ content: [], details: {} }),
});
export default function (pi: any) {
  const note = (fact: any) => appendFileSync("seen.jsonl", JSON.stringify(fact) + "\n");
  pi.registerFlag("plan", { description: "plan first", type: "boolean", default: false });
  pi.registerFlag("depth", { type: "string" });
  pi.registerTool(tool("mine"));
  pi.registerTool(tool("grep"));
  pi.on("session_start", (_event: any, ctx: any) => note({
    active: pi.getActiveTools().join(), all: pi.getAllTools().map((tool: any) => tool.name).join(),
    name: pi.getSessionName(), trusted: ctx.isProjectTrusted(), plan: pi.getFlag("plan"), depth: pi.getFlag("depth"),
    id: ctx.sessionManager.getSessionId(), file: ctx.sessionManager.getSessionFile(), parent: ctx.sessionManager.getHeader().parentSession,
    entries: ctx.sessionManager.getEntries().map((entry: any) => entry.type).join(),
  }));
  pi.on("before_agent_start", (event: any) => {
    const { customPrompt, appendSystemPrompt } = event.systemPromptOptions;
    note({ prompt: event.prompt, images: event.images?.length, custom: customPrompt, append: appendSystemPrompt });
  });
}
"#;

/// The state that the extension recorded, and the result of the run.
struct OptionsRun {
    run: Run,
    facts: Vec<Value>,
}

impl OptionsRun {
    /// Returns a recorded value, from the start of the session or the first prompt.
    fn fact(&self, key: &str) -> &Value {
        let none = &Value::Null;
        self.facts.iter().map(|fact| &fact[key]).find(|value| !value.is_null()).unwrap_or(none)
    }

    fn prompts(&self) -> Vec<&str> {
        self.facts.iter().filter_map(|fact| fact["prompt"].as_str()).collect()
    }
}

/// Runs `pi` with the extension, in its project.
fn start(world: &World, args: &[&str]) -> OptionsRun {
    start_with(world, args, "")
}

fn start_with(world: &World, args: &[&str], piped: &str) -> OptionsRun {
    let witness = world.write("witness.ts", WITNESS);
    let model = world.script(&[&["first"], &["second"], &["third"]]);
    let witness = witness.to_str().expect("a path");
    let mut all = vec!["-e", witness, "--model", &model, "--policy", "permissive"];
    all.extend(args);
    let mut command = world.command(&all);
    let seen = world.project().join("seen.jsonl");
    // Removes the record of an earlier run.
    let _ = std::fs::remove_file(&seen);
    let run = if piped.is_empty() {
        run(command)
    } else {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("pi starts");
        child.stdin.take().expect("it is piped").write_all(piped.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let facts = std::fs::read_to_string(seen).unwrap_or_default();
    OptionsRun { run, facts: facts.lines().map(|line| serde_json::from_str(line).expect("a fact")).collect() }
}

#[test]
fn tools_are_selected_on_the_command_line() {
    let world = World::new();
    for (args, active, all) in [
        ("", "read,bash,edit,write,mine,grep", "read,bash,powershell,edit,write,grep,find,ls,mine"),
        ("--tools read,mine", "read,mine", "read,mine"),
        ("-t mine,nosuch,read", "mine,read", "read,mine"),
        ("-t ,", "", ""),
        ("-nt", "", ""),
        ("-nbt", "mine,grep", "read,bash,powershell,edit,write,grep,find,ls,mine"),
        ("-xt read,mine", "bash,edit,write,grep", "bash,powershell,edit,write,grep,find,ls"),
        ("--no-tools --tools ls", "ls", "ls"),
        ("--tools read,bash -xt bash", "read", "read"),
    ] {
        let mut words = vec!["-p", "hi"];
        words.extend(args.split_whitespace());
        let seen = start(&world, &words);
        seen.run.succeeded();
        // Tools that an extension registers under a built-in name keep the built-in's position.
        let mut listed: Vec<&str> = seen.fact("all").as_str().unwrap_or_default().split(',').collect();
        let mut expected: Vec<&str> = all.split(',').collect();
        listed.sort_unstable();
        expected.sort_unstable();
        assert_eq!((seen.fact("active"), listed), (&json!(active), expected), "{args}");
    }
    world.write("home/.pi/agent/settings.json", r#"{"defaultTools": ["ls", "read"]}"#);
    assert_eq!(start(&world, &["-p", "hi"]).fact("active"), "ls,read,mine,grep");
}

#[test]
fn the_system_prompt_is_text_or_a_file() {
    let world = World::new();
    world.write("project/text.md", "\u{feff}of a file");
    for (args, custom, append) in [
        (&[][..], json!(null), json!("")),
        (&["--system-prompt", "said"][..], json!("said"), json!("")),
        (&["--system-prompt", "text.md"][..], json!("of a file"), json!("")),
        (
            &["--append-system-prompt", "A", "--append-system-prompt", "text.md"][..],
            json!(null),
            json!("A\n\nof a file"),
        ),
    ] {
        let mut words = vec!["-p", "hi"];
        words.extend(args);
        let seen = start(&world, &words);
        seen.run.succeeded();
        assert_eq!((seen.fact("custom"), seen.fact("append")), (&custom, &append), "{args:?}");
    }
    world.write("home/.pi/agent/SYSTEM.md", "the user's");
    world.write("home/.pi/agent/APPEND_SYSTEM.md", "the user's end");
    let seen = start(&world, &["-p", "hi"]);
    assert_eq!((seen.fact("custom"), seen.fact("append")), (&json!("the user's"), &json!("the user's end")));
    let seen = start(&world, &["-p", "hi", "--system-prompt", "", "--append-system-prompt", "Z"]);
    assert_eq!((seen.fact("custom"), seen.fact("append")), (&Value::Null, &json!("Z")));
}

#[test]
fn project_settings_apply_when_approved_for_the_run() {
    let world = World::new();
    // A folder without settings and extensions needs no trust.
    assert_eq!(start(&world, &["-p", "hi"]).fact("trusted"), &json!(true));
    assert_eq!(start(&world, &["-p", "hi", "-na"]).fact("trusted"), &json!(false));
    world.write("project/.pi/SYSTEM.md", "the project's");
    world.write("project/.pi/settings.json", r#"{"defaultTools": ["ls"]}"#);
    for (args, trusted, custom) in [
        (&[][..], false, Value::Null),
        (&["-a"][..], true, json!("the project's")),
        (&["-na"][..], false, Value::Null),
        (&["--approve", "-na"][..], false, Value::Null),
    ] {
        let mut words = vec!["-p", "hi"];
        words.extend(args);
        let seen = start(&world, &words);
        assert_eq!((seen.fact("trusted"), seen.fact("custom")), (&json!(trusted), &custom), "{args:?}");
    }
    // The earlier decision applies again in the next run.
    world.pi(&["trust"]).succeeded();
    assert_eq!(start(&world, &["-p", "hi", "--no-approve"]).fact("trusted"), &json!(false));
    assert_eq!(start(&world, &["-p", "hi"]).fact("trusted"), &json!(true));
}

#[test]
fn a_session_has_the_name_and_the_id_it_is_given() {
    let world = World::new();
    let seen = start(&world, &["-p", "hi", "-n", " mine ", "--session-id", "abc"]);
    assert!(seen.run.stderr.contains("No project session found with id 'abc'; creating a new session"));
    assert_eq!((seen.fact("name"), seen.fact("id")), (&json!("mine"), &json!("abc")));
    assert_eq!(seen.fact("entries"), "session_info,model_change,thinking_level_change");
    let file = seen.fact("file").as_str().expect("a file").to_owned();
    assert!(file.ends_with("_abc.jsonl"), "{file}");

    let again = start(&world, &["-p", "hi", "--session-id", "abc"]);
    assert_eq!((again.run.stderr.as_str(), again.fact("file")), ("", &json!(file)));
    let begun = start(&world, &["-p", "hi", "--session", "ab"]);
    assert_eq!(begun.fact("file"), &json!(file));
    let copy = start(&world, &["-p", "hi", "--fork", "abc", "--session-id", "copy"]);
    assert_eq!(
        (copy.fact("parent"), copy.fact("id"), copy.fact("name")),
        (&json!(file), &json!("copy"), &json!("mine"))
    );
    let elsewhere = start(&world, &["-p", "hi", "--session-dir", "kept", "--session-id", "here"]);
    assert!(elsewhere.fact("file").as_str().is_some_and(|file| file.contains("/project/kept/")));
    let kept = start(&world, &["-p", "hi", "--session-dir", "kept", "-c"]);
    assert_eq!(kept.fact("id"), "here");
    assert_eq!(start(&world, &["-p", "hi", "--no-session", "--session-id", "q1"]).fact("id"), "q1");

    for (args, code, words) in [
        (&["--name", " "][..], 2, "--name requires a non-empty value"),
        (&["--session-id", "-b"][..], 2, "Session id must be non-empty"),
        (&["--session-id", "x", "--continue"][..], 2, "--session-id cannot be combined with --continue"),
        (&["--fork", "x", "--continue"][..], 2, "--fork cannot be combined with --continue"),
        (&["--fork", "abc", "--session-id", "copy"][..], 1, "Session already exists with id 'copy'"),
        (&["--fork", "missing.jsonl"][..], 1, "there is no session file"),
        (&["--session", "nosuch"][..], 1, "No session found matching 'nosuch'"),
        (&["--resume"][..], 2, "--resume needs a terminal"),
    ] {
        let mut all = vec!["-p", "hi"];
        all.extend(args);
        start(&world, &all).run.failed(code, &[words]);
    }
}

#[test]
fn a_session_of_another_folder_is_forked_but_not_continued() {
    let world = World::new();
    start(&world, &["-p", "hi", "--session-id", "theirs"]).run.succeeded();
    std::fs::create_dir(world.path().join("other")).expect("a folder");
    let in_other = |args: &[&str]| {
        let model = world.script(&[&["x"]]);
        let mut all = vec!["-p", "hi", "--model", model.as_str()];
        all.extend(args);
        let mut command = world.command(&all);
        command.current_dir(world.path().join("other"));
        run(command)
    };
    in_other(&["--session", "theirs"]).failed(1, &["belongs to another folder", "pi --fork theirs"]);
    in_other(&["--fork", "theirs"]).succeeded();
}

#[test]
fn files_precede_the_first_message_and_messages_run_in_order() {
    let world = World::new();
    world.write("project/a.md", "inside");
    world.write("project/empty.md", "");
    world.write("project/dot.png", b"\x89PNG\r\n\x1a\nrest");
    let file =
        |name: &str, text: &str| format!("<file name=\"{}\">{text}</file>\n", world.project().join(name).display());
    let inside = file("a.md", "\ninside\n");
    for (args, piped, prompts) in [
        (&["one", "two"][..], "", vec!["one".to_owned(), "two".to_owned()]),
        (&["@a.md", "what", "then"][..], "", vec![format!("{inside}what"), "then".to_owned()]),
        (&["what", "@a.md"][..], " piped\n", vec![format!("piped{inside}what")]),
        (&["@a.md", "@empty.md"][..], "", vec![inside.clone()]),
        (&["--", "-dash", "@a.md"][..], "", vec![format!("{inside}-dash")]),
        (&["@dot.png", "see"][..], "", vec![format!("{}see", file("dot.png", ""))]),
    ] {
        let mut words = vec!["-p"];
        words.extend(args);
        let seen = start_with(&world, &words, piped);
        seen.run.succeeded();
        assert_eq!(seen.prompts(), prompts, "{args:?}");
        assert_eq!(seen.fact("images").as_u64().unwrap_or(0), u64::from(args.contains(&"@dot.png")));
        // The last reply is printed once.
        assert_eq!(seen.run.stdout, if prompts.len() == 2 { "second\n" } else { "first\n" });
    }
    start(&world, &["-p", "@nosuch.md"]).run.failed(1, &["File not found", "nosuch.md"]);
    start(&world, &["--mode", "rpc", "@a.md"]).run.failed(2, &["not supported in RPC mode"]);
}

#[test]
fn help_lists_the_flags_of_extensions() {
    let world = World::new();
    let seen = start(&world, &["--help"]);
    let help = &seen.run.succeeded().stdout;
    for line in [
        "--append-system-prompt <TEXT|FILE>",
        "Options of extensions:",
        "  --plan                      plan first",
        "  --depth <value>             Registered by ",
    ] {
        assert!(help.contains(line), "{line} is missing in:\n{help}");
    }
    // No session was begun.
    assert!(seen.facts.is_empty() && !world.home().join(".pi/agent/sessions").exists());
    let seen = start(&world, &["-p", "hi", "--plan", "--depth", "3"]);
    assert_eq!((seen.fact("plan"), seen.fact("depth")), (&json!(true), &json!("3")));
    assert!(world.pi(&["install", "--help"]).succeeded().stdout.contains("pi install"));
    let version = world.pi(&["-v"]).succeeded().stdout.clone();
    assert_eq!(version, world.pi(&["--version"]).stdout);
}

#[test]
fn an_unsupported_module_throws_a_hint() {
    let world = World::new();
    world.pi(&["config"]).failed(2, &["pi config is not supported", "settings.json"]);
    world.pi(&["auth", "print-api-key", "--provider", "x"]).failed(2, &["pi never prints keys", "--list-models"]);
    start(&world, &["--tui-mode", "regular"]).run.failed(2, &["fullscreen", "leave the option out"]);
}

#[test]
fn a_session_is_exported_in_three_forms() {
    let world = World::new();
    let seen = start(&world, &["-p", "hi <you>", "--session-id", "told"]);
    let file = seen.fact("file").as_str().expect("a file").to_owned();
    let name = |end: &str| format!("project/{end}");
    let exported = world.pi(&["--export", &file]);
    let stem = std::path::Path::new(&file).file_stem().expect("a name").to_string_lossy().into_owned();
    let page = format!("pi-session-{stem}.html");
    assert!(exported.succeeded().stdout.starts_with("Exported to: ") && exported.stdout.trim().ends_with(&page));
    assert!(world.read(&name(&page)).contains("hi &lt;you&gt;"));
    world.pi(&["--export", &file, "out.md"]).succeeded();
    assert!(world.read(&name("out.md")).contains("## User\n\nhi <you>"));
    world.pi(&["--export", &file, "out.jsonl"]).succeeded();
    assert_eq!(world.read(&name("out.jsonl")), std::fs::read_to_string(&file).expect("a session"));
    world.pi(&["--export", &file, "out.pdf"]).failed(2, &["this form is not known", ".html"]);
    world.pi(&["--export", "missing.jsonl"]).failed(1, &["File not found"]);
}

#[test]
fn unsupported_options_are_refused_at_once() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    for (args, words) in [
        (&["hepl"][..], &["did you mean: pi help?"][..]),
        (&["exts"], &["did you mean: pi ext?"]),
        (&["--helpp"], &["Unknown option: --helpp", "did you mean --help?"]),
        (&["-p", "hi", "--model", "openai/x", "--base-url", "http:/x"], &["--base-url", "write http://x"]),
    ] {
        world.pi(args).failed(2, words);
    }
    assert_eq!(world.pi(&["heap", "-p", "--model", &model]).succeeded().stdout, "hi\n");
    let help = world.pi(&["--help"]).succeeded().stdout.clone();
    assert_eq!(help, world.pi(&["-h"]).succeeded().stdout);
    assert!(!help.contains("see more with"), "{help}");
    world.pi(&["-p", "hi", "--model", "openai/gpt-5"]).failed(1, &["no key for openai/gpt-5", "OPENAI_API_KEY"]);
    let listed = world.pi(&["--list-models"]).succeeded().stdout.clone();
    assert!(listed.contains("ANTHROPIC_API_KEY") && !listed.contains("azure"), "no client for it:\n{listed}");
    let mut command = world.command(&["-p", "hi", "--model", "openai/gpt-5"]);
    command.env("OPENAI_API_KEY", "k").env("HTTP_PROXY", "notaurl");
    let run = run(command);
    run.failed(1, &["HTTP_PROXY is not the address of a proxy", "http://HOST:PORT"]);
    assert!(!run.stderr.contains("retry"), "{}", run.stderr);
}

#[test]
fn several_packages_are_installed_and_each_is_removed_by_its_name() {
    let world = World::new();
    let source = "export default (pi: any) => { pi.on('input', () => {}); };\n";
    world.write("project/a/package.json", r#"{"name": "hello-ext", "pi": {"extensions": ["index.ts"]}}"#);
    world.write("project/a/index.ts", source);
    world.write("project/event.ts", "export default (pi: any) => { pi.on('tool_cal', () => {}); };\n");
    world.write("project/nothing.ts", "export const x = 1;\n");
    let run = world.pi(&["install", "./a", "./event.ts", "./missing", "./nothing.ts", "--yes"]);
    run.failed(1, &["hello-ext", ": works\n", "missing"]);
    assert!(
        run.stderr.contains("event.ts: works without its handler of `tool_cal` (no such event)\n"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("nothing.ts: will not work: this entry does not export"), "{}", run.stderr);
    let loaded = world.pi(&["-p", "hi", "--model", &world.script(&[&["hi"]])]);
    loaded.succeeded();
    for words in ["(event.ts:1:37)", "did you mean \"tool_call\"?", "it has no default export", "nothing.ts:1:1"] {
        assert!(loaded.stderr.contains(words), "{words:?} is missing in:\n{}", loaded.stderr);
    }
    world.pi(&["ext", "explain", "hello-xet"]).failed(1, &["did you mean hello-ext"]);
    for name in ["hello-ext", "event.ts", "./nothing.ts"] {
        world.pi(&["remove", name]).succeeded();
    }
    assert_eq!(world.pi(&["list"]).succeeded().stdout, "");
}

#[test]
fn a_failing_command_reports_its_source_position() {
    let world = World::new();
    let model = world.script(&[]);
    world.write(
        "project/bad.ts",
        "export default (pi: any) => pi.registerCommand('bad', { handler: async () => {\n  throw new Error('no luck');\n} });\n",
    );
    let run = world.pi(&["-p", "/bad", "-ne", "-e", "bad.ts", "--model", &model]);
    assert_eq!((run.code, run.stderr.trim()), (1, "error: no luck (bad.ts:2:13)"));
}
