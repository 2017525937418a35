//! Tests how work of the model and the user is displayed: tools, the shell, the user's own editor, other sessions.

use super::{NOTHING, open, open_with};
use crate::support::{ModelServer, Reply, World, openai};
use std::os::unix::fs::PermissionsExt;

/// Returns a script of one call for each of `calls`, and a final message.
fn calls(world: &World, calls: &[(&str, &str)]) -> String {
    let call = |(index, (name, args)): (usize, &(&str, &str))| {
        let call = serde_json::json!({"id": format!("call_{}", index % 2), "name": name, "arguments": args});
        serde_json::json!({"events": [{"tool_call": call}], "stop": "tool_use"}).to_string()
    };
    let mut lines: Vec<String> = calls.iter().enumerate().map(call).collect();
    lines.push(serde_json::json!({"events": [{"text": "all done"}], "stop": "end_turn"}).to_string());
    world.raw_script(&lines.join("\n"))
}

#[test]
fn calls_of_pis_own_tools_are_shown_as_what_they_do() {
    let world = World::new();
    world.write("project/notes.txt", "alpha\nbeta\n");
    let model = calls(
        &world,
        &[
            ("bash", r#"{"command": "seq 1 8"}"#),
            ("read", r#"{"path": "notes.txt"}"#),
            ("edit", r#"{"path": "notes.txt", "edits": [{"oldText": "beta", "newText": "BETA"}]}"#),
            ("write", r#"{"path": "new.txt", "content": "fresh line\n"}"#),
        ],
    );
    let mut terminal = open_with(&world, NOTHING, &model, &[]);
    terminal.answers("work", "all done");
    // The last frame is complete.
    let rows = terminal.sees_no_more("Working...");
    let has = |text: &str| rows.iter().any(|row| row.trim_end() == text);
    for text in [
        "* $ seq 1 8",
        "  ... (3 earlier lines, ctrl+o to expand)",
        "  8",
        "* read notes.txt",
        "* edit notes.txt",
        "  -2 beta",
        "  +2 BETA",
        "* write new.txt",
        "  fresh line",
    ] {
        assert!(has(text), "{text}: {rows:#?}");
    }
    assert!(!has("  3") && !has("  alpha"), "{rows:#?}");
    let rows = terminal.presses("\u{f}", "  alpha");
    assert!(rows.iter().any(|row| row.trim_end() == "  3"), "{rows:#?}");
}

#[test]
fn a_command_of_the_person_shows_what_it_prints_while_it_runs() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["x"]], &[]);
    terminal.say("!echo so far; until [ -e go ]; do sleep 0.05; done; echo the rest; exit 3");
    terminal.until("output of a command that runs", |rows| rows.iter().any(|row| row.trim_end() == "  so far"));
    world.write("project/go", "");
    terminal.until("all of it", |rows| rows.iter().any(|row| row.trim_end() == "  the rest"));
    terminal.sees("(exit 3)");
}

#[test]
fn typed_text_is_continued_in_the_users_own_editor() {
    let world = World::new();
    let script = "#!/bin/sh\nprintf %s \"$1\" > \"${0%/*}/draft\"\necho the editor is there\nread -r key\nprintf '%s, typed %s\\n' \"$(cat \"$1\")\" \"$key\" > \"$1.new\"\nmv \"$1.new\" \"$1\"\n";
    let editor = world.write("editor.sh", script);
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let file = world.write("project/extension.ts", NOTHING);
    let model = world.script(&[&["x"]]);
    let mut command = world.command(&["--no-extensions", "--model", &model, "-e", file.to_str().expect("a path")]);
    command.env("EDITOR", &editor);
    let mut terminal = super::pty::Terminal::start(command);
    terminal.is_ready();
    terminal.presses("half a thought", "half a thought");
    // Keys now go to the editor.
    let rows = terminal.presses("\u{7}", "the editor is there");
    assert!(!rows.iter().any(|row| row.contains("ctrl+c twice: quit")), "{rows:#?}");
    terminal.presses("there\r", "half a thought, typed there");
    terminal.presses(" and here", "typed there and here");
    // Programs of extensions reach the folder of temporary files, but not this one.
    let draft = std::path::PathBuf::from(world.read("draft"));
    assert!(draft.starts_with(world.path().join("home/.pi/agent/pijs")), "{draft:?}");
    assert!(!draft.parent().expect("a folder").exists(), "{draft:?}");
}

#[test]
fn an_editor_that_fails_leaves_the_text() {
    let world = World::new();
    world.write("home/.pi/agent/settings.json", r#"{"externalEditor": "false --really"}"#);
    let mut terminal = open(&world, NOTHING, &[&["x"]], &[]);
    terminal.presses("kept", "kept");
    terminal.presses("\u{7}", "false --really failed; the text is unchanged");
    terminal.presses(" on", "kept on");
}

#[test]
fn keys_edit_what_is_typed() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["one"], &["two"]], &[]);
    terminal.send("first\\\rsecond\u{17}2\u{1f}\u{1f}\r");
    let rows = terminal.sees("one");
    let at = rows.iter().position(|row| row.trim_end() == "> first").expect("the row of the prompt");
    assert_eq!(rows[at + 1].trim_end(), "  second", "{rows:#?}");
    // The terminal uses an extended keyboard protocol.
    terminal.send("a\u{1b}[13;2ub\u{1b}[57406u\r");
    let rows = terminal.sees("two");
    let at = rows.iter().position(|row| row.trim_end() == "> a").expect("the row of the prompt");
    assert_eq!(rows[at + 1].trim_end(), "  b7", "{rows:#?}");
}

#[test]
fn an_imported_session_restores_its_input_history() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["one"], &["two"]], &[]);
    terminal.answers("said in the first", "one");
    terminal.answers("/export copy.jsonl", "exported to");
    terminal.say("/new");
    terminal.sees_no_more("exported to");
    terminal.answers("/import", "name a file: /import");
    terminal.answers("/import extension.ts", "it is not a session");
    terminal.answers("/import copy.jsonl", "> said in the first");
    terminal.sees("one");
    terminal.until("an empty editor", |rows| !rows.iter().any(|row| row.trim_end() == "said in the first"));
    terminal.send("\u{1b}[A");
    terminal.until("what was said before", |rows| rows.iter().any(|row| row.trim_end() == "said in the first"));
    terminal.send("\u{3}");
    terminal.answers("/share", "PiJS does not upload sessions");
}

#[test]
fn the_next_model_key_cycles_the_scoped_models() {
    let world = World::new();
    let models = r#"{"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "k",
        "models": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}}}"#;
    world.write("home/.pi/agent/models.json", models);
    let mut terminal = super::pty::Terminal::start(world.command(&["--no-extensions", "--model", "fake/a"]));
    terminal.sees("pi  fake/a");
    terminal.answers("/scoped-models", "fake/c  off");
    terminal.presses("\r", "fake/a  on");
    terminal.presses("/c\r", "fake/c  on");
    terminal.send("\u{1b}");
    terminal.sees_no_more("fake/c  on");
    terminal.presses("\u{10}", "model: fake/c");
    terminal.presses("\u{10}", "model: fake/a");
    terminal.presses("\u{1b}[112;6u", "pi  fake/c");
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["a reply that is longer than a narrow terminal is wide"]], &[]);
    terminal.answers("say", "a reply that is longer than a narrow terminal is wide");
    terminal.resize(20, 40);
    terminal.until("a narrow screen", |rows| {
        rows.len() == 20 && rows.iter().any(|row| row.trim_end() == "terminal is wide")
    });
    terminal.resize(30, 90);
    terminal.until("a wide screen", |rows| {
        rows.len() == 30 && rows.last().is_some_and(|row| row.trim_end().ends_with("ctrl+c twice: quit"))
    });
}

#[test]
fn a_wait_for_a_retry_counts_down_and_escape_ends_it() {
    let world = World::new();
    let busy = Reply::Plain(429, "retry-after: 50\r\n", r#"{"error":{"message":"slow down"}}"#.to_owned());
    let server = ModelServer::start(vec![busy, Reply::Stream(openai(&["asked after all"]))]);
    let mut terminal = super::pty::Terminal::start(world.command(&[
        "--no-extensions",
        "--model",
        "openai/m",
        "--base-url",
        &server.url,
    ]));
    terminal.sees("pi  openai/m");
    terminal.answers("go", "retry 1 of 3 in 50 s: from http://");
    // The failure is shown once.
    let said = |rows: &[String]| rows.iter().filter(|row| row.contains("429 Too Many Requests: slow down")).count();
    terminal.until("one failure", |rows| said(rows) == 1);
    terminal.sees("Retrying (1/3) in ");
    terminal.until("a count", |rows| rows.iter().any(|row| row.contains("Retrying (1/3) in 4")));
    terminal.presses("\u{1b}", "the retry was cancelled");
    terminal.sees_no_more("Retrying");
    terminal.until("one address", |rows| rows.iter().filter(|row| row.contains("from http://")).count() == 1);
    assert_eq!(server.requests().len(), 1);
    terminal.answers("again", "asked after all");
}

#[test]
fn a_rule_that_fires_has_one_line_now_and_when_the_session_is_opened_again() {
    let world = World::new();
    let rule = "---\ncondition: '\\bTODO\\b'\ninterruptMode: always\n---\nFinish the work.\n";
    world.write("home/.pi/rules/no-todo.md", rule);
    let mut terminal = open(&world, NOTHING, &[&["a TODO"], &["all done"]], &["--rules"]);
    terminal.answers("work", "all done");
    let is_one_line = |rows: &[String]| {
        let of_rule =
            |row: &&String| ["no-todo", "stream_verdict", "Finish the work"].iter().any(|text| row.contains(text));
        let rows: Vec<&str> = rows.iter().filter(of_rule).map(|row| row.trim()).collect();
        assert_eq!(rows, ["rule no-todo stopped the reply: a TODO"]);
    };
    is_one_line(&terminal.sees_no_more("Working..."));
    drop(terminal);
    let terminal = open(&world, NOTHING, &[], &["--rules", "-c"]);
    is_one_line(&terminal.sees("all done"));
}
