//! Tests MCP servers in a session of the whole program: their tools for the model, permission prompts and stored answers, and
//! misbehaving servers.

#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

mod conformance;
mod extensions;
mod real;
mod sign_in;

const SERVER: &str = env!("CARGO_BIN_EXE_mcp-server");

struct World(tempfile::TempDir);

/// The exit code and the output of a run.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir_all(world.at("home/.pi/agent")).expect("folders");
        fs::create_dir_all(world.at("project/.pi")).expect("folders");
        world
    }

    /// Returns a world whose user has a server `s` that runs in the given mode.
    fn with(mode: &str) -> Self {
        let world = Self::new();
        world.servers(json!({"s": {"command": SERVER, "args": [mode], "timeout": 3}}));
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the user's file. Tools are direct unless the entry says otherwise.
    fn servers(&self, servers: Value) {
        fs::write(self.at("home/.pi/agent/mcp.json"), direct(servers).to_string()).expect("written");
    }

    fn project_servers(&self, servers: Value) {
        fs::write(self.at("project/.pi/mcp.json"), direct(servers).to_string()).expect("written");
    }

    fn pi_without(&self, args: &[&str], guard: Option<&str>) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-attacked"));
        command
            .args(args)
            .current_dir(self.at("project"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.at("home"))
            .env("PIJS_WORDS", "own")
            .env("TOKEN_OF_USER", "correct-horse-battery")
            .stdin(Stdio::null());
        if let Some(guard) = guard {
            command.env("PIJS_GUARDS_DOWN", guard);
        }
        let output = command.output().expect("pi starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn pi(&self, args: &[&str]) -> Ran {
        self.pi_without(args, None)
    }

    /// Runs a session in which the model makes these calls in order and replies `done`. Returns the texts of the calls' results.
    fn session(&self, calls: &[(&str, Value)], more: &[&str]) -> (Ran, Vec<String>) {
        self.session_without(calls, more, None)
    }

    fn session_without(&self, calls: &[(&str, Value)], more: &[&str], guard: Option<&str>) -> (Ran, Vec<String>) {
        let mut script = String::new();
        for (at, (name, arguments)) in calls.iter().enumerate() {
            let call =
                json!({"tool_call": {"id": format!("call-{at}"), "name": name, "arguments": arguments.to_string()}});
            script.push_str(&format!("{}\n", json!({"events": [call], "stop": "tool_use"})));
        }
        script.push_str(&format!("{}\n", json!({"events": [{"text": "done"}], "stop": "end_turn"})));
        fs::write(self.at("model.jsonl"), script).expect("written");
        let model = format!("script:{}", self.at("model.jsonl").display());
        let mut args = vec!["-p", "go", "--mode", "json", "--model", &model];
        args.extend(more);
        let ran = self.pi_without(&args, guard);
        let ends = ran.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ends = ends.filter(|event| event["type"] == "tool_execution_end");
        let text = |event: Value| {
            let blocks = event["result"]["content"].as_array().cloned().unwrap_or_default();
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        };
        let texts = ends.map(text).collect();
        (ran, texts)
    }

    fn ledger(&self) -> String {
        let folder = self.at("home/.pi/agent/logs/extensions");
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
        files
            .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect()
    }
}

fn direct(mut servers: Value) -> Value {
    for (_, entry) in servers.as_object_mut().into_iter().flatten() {
        let members = entry.as_object_mut().expect("an entry");
        members.entry("exposure").or_insert(json!("direct"));
    }
    json!({ "mcpServers": servers })
}

fn echo(text: &str) -> (&'static str, Value) {
    ("mcp__s__echo", json!({"text": text}))
}

#[test]
fn a_granted_tool_is_called_and_recorded() {
    let world = World::with("good");
    let calls = [echo("hello"), ("mcp__s__fail", json!({})), ("mcp__s__slow", json!({})), ("mcp__s__long", json!({}))];
    let (ran, texts) = world.session(&calls, &["--allow", "mcp:s/*"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(texts.len(), 4, "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(
        (texts[0].as_str(), texts[1].as_str(), texts[2].as_str()),
        ("again: hello", "it went wrong", "done slowly")
    );
    assert!(texts[3].starts_with("begin xxx") && texts[3].contains("chars truncated"), "{}", texts[3]);
    let kept = texts[3].split("[the whole text: ").nth(1).expect("a file").trim_end_matches(']');
    assert_eq!(fs::read_to_string(kept).expect("the file").len(), 50_000 + "begin  end".len());
    fs::remove_file(kept).expect("ours");
    assert!(ran.stdout.contains("1 of 2 half way"), "progress reaches the front end: {}", ran.stdout);
    let verified = world.pi(&["ext", "ledger", "verify"]).stdout;
    assert!(verified.contains("lines verified") && !verified.contains("have not ended"), "{verified}");
    let ledger = world.ledger();
    assert!(ledger.contains("\"mcp:s\"") && ledger.contains("\"capability\":\"mcp\""), "{ledger}");
    assert!(ledger.contains("\"capability\":\"exec\""), "its start is recorded as well: {ledger}");
}

#[test]
fn only_granted_tools_are_called() {
    let world = World::with("good");
    let (_, texts) = world.session(&[echo("x")], &[]);
    assert!(texts[0].contains("capability `mcp`"), "{texts:?}");
    let calls = [echo("x"), ("mcp__s__fail", json!({}))];
    let (_, texts) = world.session(&calls, &["--allow", "mcp:s/echo"]);
    assert_eq!(texts[0], "again: x");
    assert!(texts[1].contains("capability `mcp`"), "{texts:?}");
    let (_, texts) = world.session(&[echo("x")], &["--allow", "mcp", "--deny", "mcp"]);
    assert!(texts[0].contains("policy"), "{texts:?}");
    // The server's own annotations have no effect: `echo` claims to be read-only.
    let (_, texts) = world.session_without(&calls, &["--allow", "mcp:s/echo"], Some("mcp.scope"));
    assert_eq!(texts[1], "it went wrong", "without the check any tool passes, so the check is needed");
}

#[test]
fn a_stored_answer_applies_to_one_program_until_revoked() {
    let world = World::with("good");
    let granted = world.pi(&["ext", "grants", "allow", "mcp:s", "mcp:s/echo"]);
    assert_eq!(granted.code, Some(0), "{}", granted.stderr);
    assert!(granted.stderr.contains("use tools of MCP servers: s/echo"), "{}", granted.stderr);
    assert_eq!(world.session(&[echo("x")], &[]).1, ["again: x"]);
    assert!(world.pi(&["ext", "grants"]).stdout.contains("may use tools of MCP servers: s/echo"));
    // Another program under the same name needs a new permission.
    world.servers(json!({"s": {"command": SERVER, "args": ["good", "other"]}}));
    let (ran, texts) = world.session(&[echo("x")], &[]);
    assert!(
        texts[0].contains("capability `mcp`") && ran.stderr.contains("program or address has changed"),
        "{texts:?} {}",
        ran.stderr
    );
    world.servers(json!({"s": {"command": SERVER, "args": ["good"], "timeout": 3}}));
    assert_eq!(world.session(&[echo("x")], &[]).1, ["again: x"]);
    assert_eq!(world.pi(&["ext", "grants", "revoke", "mcp:s"]).code, Some(0));
    assert!(world.session(&[echo("x")], &[]).1[0].contains("capability `mcp`"));
    let left = world.pi(&["ext", "grants"]);
    assert!(left.stdout.is_empty() && left.stderr.contains("no grants"), "{}{}", left.stdout, left.stderr);
    world.pi(&["ext", "grants", "allow", "mcp:s", "mcp:s/echo"]);
    let removed = world.pi(&["mcp", "remove", "s"]);
    assert!(
        removed.stderr.contains("its grants are kept; to revoke them: pi ext grants revoke 'mcp:s'"),
        "{}",
        removed.stderr
    );
    assert!(world.pi(&["ext", "grants", "revoke", "mcp:s"]).stderr.contains("1 answer taken back"));
}

#[test]
fn disabled_or_hidden_servers_are_not_started() {
    let world = World::with("good");
    for more in [&["--no-mcp"][..], &["--no-extensions"]] {
        let (ran, texts) = world.session(&[echo("x")], more);
        assert!(texts[0].contains("not found"), "{texts:?} {}", ran.stderr);
        assert!(!world.ledger().contains("mcp:s"));
    }
    world.servers(json!({"s": {"command": SERVER, "args": ["good"], "enabled": false}}));
    assert!(world.session(&[echo("x")], &["--allow", "mcp"]).1[0].contains("not found"));
    world.servers(json!({"s": {"command": SERVER, "args": ["good"], "toolExposure": {"echo": "hidden"}}}));
    assert!(world.session(&[echo("x")], &["--allow", "mcp"]).1[0].contains("not found"));
}

#[test]
fn a_projects_servers_need_trust_and_a_grant_to_start() {
    let world = World::new();
    world.project_servers(json!({"s": {"command": SERVER, "args": ["good"], "env": {"GIVEN": "${TOKEN_OF_USER}"}}}));
    assert!(world.session(&[echo("x")], &["--allow", "mcp"]).1[0].contains("not found"), "it is not trusted");
    let (ran, texts) = world.session(&[echo("x")], &["--approve", "--allow", "mcp"]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("capability `env`"), "{texts:?} {}", ran.stderr);
    let (ran, texts) = world.session(&[echo("x")], &["--approve", "--allow", "mcp", "--allow", "env:TOKEN_OF_USER"]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("capability `exec`"), "{texts:?} {}", ran.stderr);
    let all = ["--approve", "--allow", "mcp", "--allow", "env:TOKEN_OF_USER", "--allow", "exec"];
    assert_eq!(world.session(&[echo("x")], &all).1, ["again: x"]);
    world.project_servers(json!({"s": {"command": SERVER, "args": ["good"], "env": {"GIVEN": "!echo x"}}}));
    let (ran, _) = world.session(&[echo("x")], &all);
    assert!(ran.stderr.contains("user's own mcp.json"), "{}", ran.stderr);
}

#[test]
fn a_server_gets_its_own_variables_and_no_others() {
    let world = World::new();
    world.servers(json!({"s": {"command": SERVER, "args": ["good"], "env": {"GIVEN": "<${TOKEN_OF_USER}>", "RUN": "!echo from-a-command"}}}));
    let (ran, texts) = world.session(&[("mcp__s__environment", json!({}))], &["--allow", "mcp"]);
    assert!(
        texts[0].contains("GIVEN=<correct-horse-battery>") && texts[0].contains("RUN=from-a-command"),
        "{texts:?} {}",
        ran.stderr
    );
    assert!(!texts[0].contains("TOKEN_OF_USER"), "{texts:?}");
    assert!(!world.ledger().contains("correct-horse-battery"), "no value reaches the ledger");
}

#[test]
fn a_server_of_the_user_starts_in_the_home_until_the_folder_is_trusted() {
    let world = World::new();
    let script = "{ pwd; printf '%s\\n' \"$PYTHONSAFEPATH\"; } > \"$OUT\"";
    let entry = |more: Value| {
        let mut entry =
            json!({"command": "/bin/sh", "args": ["-c", script, "-m"], "env": {"OUT": world.at("project/out")}});
        entry.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        json!({ "s": entry })
    };
    let started = |more: Value, args: &[&str]| {
        world.servers(entry(more));
        let (ran, _) = world.session(&[], args);
        let out = fs::read_to_string(world.at("project/out"))
            .unwrap_or_else(|_| panic!("it has not started: {}", ran.stderr));
        fs::remove_file(world.at("project/out")).expect("removed");
        out
    };
    let lines = |folder: &str, safe: &str| {
        let folder = world.at(folder).canonicalize().expect("a folder");
        format!("{}\n{safe}\n", folder.display())
    };
    for policy in ["strict", "prompt"] {
        assert_eq!(started(json!({}), &["--policy", policy]), lines("home", "1"));
    }
    assert_eq!(started(json!({"cwd": world.at("project")}), &[]), lines("project", ""), "the entry names a folder");
    assert_eq!(started(json!({}), &["--approve"]), lines("project", ""));
}

#[test]
fn deferred_tools_are_found_and_then_called() {
    let world = World::new();
    world.servers(json!({"s": {"command": SERVER, "args": ["good"], "exposure": "deferred"}}));
    let calls = [echo("early"), ("tool_search", json!({"query": "say a text again"})), echo("found")];
    let tape = world.at("deferred.tape").display().to_string();
    let (ran, texts) = world.session(&calls, &["--allow", "mcp", "--tape", &tape]);
    for words in ["mcp__s__echo is deferred", "find it with tool_search", "--exposure direct"] {
        assert!(texts[0].contains(words), "{words}: {texts:?} {}", ran.stderr);
    }
    assert!(texts[1].contains("mcp__s__echo: Says a text again"), "{texts:?} {}", ran.stderr);
    assert_eq!(texts[2], "again: found");
    let replayed = world.pi(&["replay", &tape]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.stderr);
}

#[test]
fn a_program_counts_as_changed_only_after_it_has_answered_once() {
    let world = World::new();
    let script = world.at("project/server.sh");
    let write = |comment: &str| fs::write(&script, format!("# {comment}\nexec {SERVER} good\n")).expect("written");
    write("first");
    let added = world.pi(&["mcp", "add", "s", "--exposure", "direct", "--", "/bin/sh", "server.sh"]);
    let home = world.at("home").canonicalize().expect("a folder").display().to_string();
    for words in ["`server.sh` is relative", "starts in your home folder, ", &home, "pi trust", "--cwd "] {
        assert!(added.stderr.contains(words), "{words}: {}", added.stderr);
    }
    let allowed = ["--allow", "mcp"];
    let trusted = ["--allow", "mcp", "--approve"];
    // It starts in the home folder, which has no such script.
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert!(texts[0].contains("not found") && ran.stderr.contains("this folder is not trusted"), "{}", ran.stderr);
    // A script that has never answered may still be repaired.
    write("second");
    let (ran, texts) = world.session(&[echo("x")], &trusted);
    assert_eq!(texts, ["again: x"], "{}", ran.stderr);
    // A start that fails does not replace what was pinned.
    let (ran, _) = world.session(&[echo("x")], &allowed);
    assert!(ran.stderr.contains("this folder is not trusted"), "{}", ran.stderr);
    assert_eq!(world.session(&[echo("x")], &trusted).1, ["again: x"]);
    write("third");
    let (ran, texts) = world.session(&[echo("x")], &trusted);
    assert!(texts[0].contains("not found") && ran.stderr.contains("its program changed since"), "{}", ran.stderr);
    // Another program of that name in the folder where the server did not run until now.
    fs::write(world.at("home/server.sh"), format!("# other\nexec {SERVER} good\n")).expect("written");
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert!(texts[0].contains("not found") && ran.stderr.contains("runs other files than"), "{}", ran.stderr);
}

#[test]
fn resources_and_prompts_are_reached_under_the_same_capability() {
    let world = World::with("good");
    let calls = [("list_mcp_resources", json!({})), ("read_mcp_resource", json!({"server": "s", "uri": "test://one"}))];
    let (ran, texts) = world.session(&calls, &["--allow", "mcp:s/@resources"]);
    assert!(texts[0].contains("test://one") && texts[1] == "what test://one holds", "{texts:?} {}", ran.stderr);
    let (_, texts) = world.session(&calls, &["--allow", "mcp:s/echo"]);
    assert!(texts[1].contains("capability `mcp`"), "{texts:?}");
    let reply = json!({"events": [{"text": "reviewed"}], "stop": "end_turn"});
    fs::write(world.at("model.jsonl"), format!("{reply}\n")).expect("written");
    let model = format!("script:{}", world.at("model.jsonl").display());
    let ran =
        world.pi(&["-p", "/mcp__s__review main.rs", "--mode", "json", "--model", &model, "--allow", "mcp:s/@prompts"]);
    assert!(ran.stdout.contains("Please review main.rs as the server says"), "{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn a_misbehaving_server_affects_no_other() {
    for (mode, wanted) in [
        ("hang", "no answer to the handshake"),
        ("die", "no licence found"),
        ("garbage", "standard output must contain messages only"),
        ("huge", "a message of more than 8 MiB"),
        ("flood", "without a request"),
    ] {
        let world = World::new();
        // On a busy machine, the other servers need longer to misbehave.
        let timeout = if mode == "hang" { 2 } else { 60 };
        world.servers(json!({
            "bad": {"command": SERVER, "args": [mode], "timeout": timeout}, "s": {"command": SERVER, "args": ["good"]},
        }));
        let (ran, texts) = world.session(&[echo("still here")], &["--allow", "mcp"]);
        assert_eq!(texts, ["again: still here"], "{mode}: {}", ran.stderr);
        assert_eq!(ran.code, Some(0), "{mode}: {}", ran.stderr);
        assert!(ran.stderr.contains("MCP server bad: ") && ran.stderr.contains(wanted), "{mode}: {}", ran.stderr);
        let listed = world.pi(&["ext", "list"]).stdout;
        assert!(
            listed.contains("mcp:bad") && listed.contains("problem: ") && listed.contains(wanted),
            "{mode}: {listed}"
        );
    }
}

#[test]
fn a_call_with_an_invalid_answer_fails_alone() {
    for (mode, wanted) in [
        ("dies-when-called", "ended with code 9"),
        ("wrong-answer", "the result of another method"),
        ("other-id", "no answer within 3 s"),
    ] {
        let world = World::with(mode);
        let (ran, texts) = world.session(&[echo("x"), ("ls", json!({}))], &["--allow", "mcp"]);
        assert!(texts[0].contains(wanted), "{mode}: {texts:?} {}", ran.stderr);
        assert_eq!((texts.len(), ran.code), (2, Some(0)), "{mode}: the session goes on: {}", ran.stderr);
    }
}

#[test]
fn a_server_that_fails_again_and_again_is_quarantined() {
    let world = World::with("dies-when-called");
    let calls = vec![echo("x"); 3];
    let (_, texts) = world.session(&calls, &["--allow", "mcp"]);
    assert!(texts[0].contains("ended with code 9") && texts[1].contains("ended with code 9"), "{texts:?}");
    assert!(texts[2].contains("tried again after"), "it backs off: {texts:?}");
}

#[test]
fn excess_tools_and_names_that_grants_cannot_express_are_left_out() {
    let world = World::with("many");
    let listed = world.pi(&["mcp", "list", "--probe", "--json"]);
    let servers: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(servers[0]["tools"].as_array().map(Vec::len), Some(512), "{}", listed.stderr);
    assert_eq!(servers[0]["protocol"], "2024-11-05");
    let world = World::with("names");
    let listed = world.pi(&["mcp", "list", "--probe", "--json"]);
    let servers: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(servers[0]["tools"], json!(["ok"]), "{}", listed.stderr);
}

#[test]
fn tools_with_changed_descriptions_are_left_out_until_accepted() {
    let program = World::new();
    let (server, mode) = (program.at("server"), program.at("mode"));
    fs::write(&server, format!("#!/bin/sh\nexec {SERVER} $(cat {})\n", mode.display())).expect("written");
    fs::set_permissions(&server, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let becomes = |name: &str| fs::write(&mode, name).expect("written");
    becomes("good");
    let world = World::new();
    world.servers(json!({"s": {"command": server}}));
    let allowed = ["--allow", "mcp"];
    assert_eq!(world.session(&[echo("x")], &allowed).1, ["again: x"]);
    becomes("changed");
    let (ran, texts) = world.session(&[echo("x"), ("mcp__s__slow", json!({}))], &allowed);
    assert!(texts[0].contains("not found") && texts[1] == "done slowly", "{texts:?} {}", ran.stderr);
    assert!(ran.stderr.contains("changes the description of echo; has new tools: more"), "{}", ran.stderr);
    assert_eq!(world.session_without(&[echo("x")], &allowed, Some("mcp.pins")).1, ["again: x"], "the check is needed");
    assert_eq!(world.pi(&["mcp", "accept", "s"]).code, Some(0));
    assert_eq!(world.session(&[echo("x")], &allowed).1, ["again: x"]);
    // A different program with the same output.
    fs::write(&server, format!("#!/bin/sh\n# changed\nexec {SERVER} changed\n")).expect("written");
    let (ran, texts) = world.session(&[echo("x")], &allowed);
    assert!(texts[0].contains("not found") && ran.stderr.contains("its program changed"), "{texts:?} {}", ran.stderr);
    assert_eq!(
        world.session_without(&[echo("x")], &allowed, Some("mcp.program")).1,
        ["again: x"],
        "the check is needed"
    );
    assert_eq!(world.pi(&["mcp", "accept", "s"]).code, Some(0));
    assert_eq!(world.session(&[echo("x")], &allowed).1, ["again: x"]);
}

#[test]
fn commands_change_the_file_and_name_the_next_step() {
    let world = World::new();
    assert_eq!(world.pi(&["mcp", "add", "s", "--env", "A=1", "--", SERVER, "good"]).code, Some(0));
    assert_eq!(
        world.pi(&["mcp", "add", "docs", "--url", "https://example.com/mcp", "--bearer-token-env-var", "T"]).code,
        Some(0)
    );
    let file: Value =
        serde_json::from_str(&fs::read_to_string(world.at("home/.pi/agent/mcp.json")).expect("a file")).expect("JSON");
    assert_eq!(
        file,
        json!({"mcpServers": {
            "s": {"command": SERVER, "args": ["good"], "env": {"A": "1"}},
            "docs": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${T}"}},
        }})
    );
    assert_eq!(world.pi(&["mcp", "add", "x"]).code, Some(2));
    assert_eq!(world.pi(&["mcp", "add", "a/b", "--", "x"]).code, Some(2));
    assert!(world.pi(&["mcp", "login", "docs"]).stderr.contains("`Authorization` header"));
    assert!(world.pi(&["mcp", "login", "s"]).stderr.contains("it is a local program"));
    let removed = world.pi(&["mcp", "remove", "docs"]);
    assert!(removed.code == Some(0) && !removed.stderr.contains("grants"), "it has none: {}", removed.stderr);
    assert_eq!(world.pi(&["mcp", "remove", "docs"]).code, Some(1));
    assert!(world.pi(&["mcp", "remove", "S"]).stderr.contains("did you mean s?"), "a name is given with its case");
    let listed = world.pi(&["mcp", "list", "--probe"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("connected, 7 tools"), "{}", listed.stdout);
    assert!(world.pi(&["mcp", "add", "-l", "own", "--", SERVER]).stderr.contains("pi trust"));
}

#[test]
fn a_servers_requests_need_a_grant_for_the_model_and_a_terminal_for_the_user() {
    let world = World::with("good");
    let call = |name: &str| json!({"tool_call": {"id": "call", "name": name, "arguments": "{}"}});
    let run = |tool: &str, replies: &[&str], more: &[&str]| {
        let mut script = format!("{}\n", json!({"events": [call(tool)], "stop": "tool_use"}));
        for reply in replies {
            script.push_str(&format!("{}\n", json!({"events": [{"text": reply}], "stop": "end_turn"})));
        }
        fs::write(world.at("model.jsonl"), script).expect("written");
        let model = format!("script:{}", world.at("model.jsonl").display());
        let mut args = vec!["-p", "go", "--mode", "json", "--model", &model, "--allow", "mcp"];
        args.extend(more);
        let ran = world.pi(&args);
        format!("{}\n{}", ran.stdout, ran.stderr)
    };
    let said = run("mcp__s__sample", &["forty-two", "done"], &["--allow", "session.inject"]);
    assert!(said.contains("the model says") && said.contains("forty-two"), "{said}");
    let said = run("mcp__s__sample", &["done"], &[]);
    assert!(said.contains("session.inject"), "{said}");
    let said = run("mcp__s__ask", &["done"], &[]);
    assert!(!said.contains("Accept"), "{said}");
}

/// Starts a server with Streamable HTTP that sends JSON for requests and an empty body for notifications. All responses have
/// `status`.
fn http_server(status: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            std::thread::spawn(move || {
                while let Some((head, body)) = request(&mut connection) {
                    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let answer = answer(&message, &head);
                    let (status, text) = match answer {
                        _ if head.starts_with("GET") => ("405 Method Not Allowed", String::new()),
                        Some(answer) => (status, answer.to_string()),
                        None => ("202 Accepted", String::new()),
                    };
                    let reply = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nmcp-session-id: one\r\ncontent-length: {}\r\n\r\n{text}",
                        text.len()
                    );
                    if connection.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn answer(message: &Value, head: &str) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}})
        }
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let header = head.lines().find_map(|line| line.strip_prefix("x-token: ")).unwrap_or("none");
            json!({"content": [{"type": "text", "text": format!("over http with {header}: {}", message["params"]["arguments"]["text"])}]})
        }
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn request(connection: &mut std::net::TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end])
                .to_ascii_lowercase()
                .replacen("post", "POST", 1)
                .replacen("get", "GET", 1);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes[end + 4..end + 4 + length].to_vec()));
            }
        }
        match connection.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

#[test]
fn a_server_at_an_address_is_reached_through_the_gate() {
    let port = http_server("200 OK");
    let world = World::new();
    let entry =
        json!({"s": {"url": format!("http://127.0.0.1:{port}/mcp"), "headers": {"x-token": "${TOKEN_OF_USER}"}}});
    world.servers(entry.clone());
    let (ran, texts) = world.session(&[echo("x")], &["--allow", "mcp"]);
    assert_eq!(texts, ["over http with correct-horse-battery: \"x\""], "{}", ran.stderr);
    assert!(world.ledger().contains("\"capability\":\"http\""));
    // A server in a project's file cannot be used without a grant.
    let world = World::new();
    world.project_servers(entry);
    let (ran, texts) = world.session(&[echo("x")], &["--approve", "--allow", "mcp", "--allow", "env:TOKEN_OF_USER"]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("capability `http`"), "{texts:?} {}", ran.stderr);
}

#[test]
fn a_remote_server_that_refuses_is_reported_with_a_hint() {
    let world = World::new();
    world.servers(json!({"s": {"url": format!("http://127.0.0.1:{}/mcp", http_server("500 Broken"))}}));
    let (ran, _) = world.session(&[], &["--allow", "mcp"]);
    assert!(
        ran.code == Some(0) && ran.stderr.contains("MCP server s: ") && ran.stderr.contains("500"),
        "{}",
        ran.stderr
    );
}
