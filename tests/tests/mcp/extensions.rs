//! Tests servers of extensions and packages, the command `/mcp`, and the section of the prompt.

use crate::{SERVER, World, echo};
use pijs_testkit::registry::Registry;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

impl World {
    /// Returns a model that receives no request.
    fn idle_model(&self) -> String {
        let reply = json!({"events": [{"text": "hi"}], "stop": "end_turn"});
        fs::write(self.at("idle.jsonl"), format!("{reply}\n")).expect("written");
        format!("script:{}", self.at("idle.jsonl").display())
    }

    /// Writes an extension of the user.
    fn extension(&self, name: &str, body: &str) -> PathBuf {
        let path = self.at("home/.pi/agent/extensions").join(format!("{name}.ts"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(&path, format!("export default (pi: any) => {{ {body} }};\n")).expect("written");
        path
    }

    /// Returns the text of all sessions.
    fn sessions(&self) -> String {
        let folders = fs::read_dir(self.at("home/.pi/agent/sessions")).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
    }
}

/// Returns code that registers a server.
fn registers(name: &str, config: Value) -> String {
    format!("pi.registerMcpServer({name:?}, {config});")
}

fn good() -> Value {
    json!({"command": SERVER, "args": ["good"], "timeout": 3, "exposure": "direct", "env": {"GIVEN": "by-the-extension"}})
}

#[test]
fn an_extensions_server_has_the_extensions_permissions() {
    let world = World::new();
    world.extension("adds", &registers("s", good()));
    let (ran, texts) = world.session(&[echo("x")], &["--allow", "mcp"]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("capability `exec`"), "{texts:?} {}", ran.stderr);
    let (ran, texts) = world.session(&[echo("x")], &["--allow", "exec"]);
    assert!(texts[0].contains("capability `mcp`"), "{texts:?} {}", ran.stderr);
    let (ran, texts) = world.session(&[echo("x")], &["--allow", "exec", "--allow", "mcp:s/echo"]);
    assert_eq!(texts, ["again: x"], "{}", ran.stderr);
    let ledger = world.ledger();
    let of_call = ledger.lines().find(|line| line.contains("host_call.start") && line.contains("\"method\":\"mcp\""));
    assert!(of_call.is_some_and(|line| line.contains("adds.ts") && !line.contains("\"mcp:s\"")), "{of_call:?}");
    // A server in the user's file takes precedence.
    world.servers(json!({"s": {"command": SERVER, "args": ["good"], "enabled": false}}));
    let (_, texts) = world.session(&[echo("x")], &["--allow", "exec", "--allow", "mcp"]);
    assert!(texts[0].contains("not found"), "{texts:?}");
}

#[test]
fn servers_of_extensions_are_added_and_removed_during_a_session() {
    let world = World::new();
    let late = registers("late", good());
    let code = format!(
        "let changed = () => {{}};
         const told = (act: () => void) => new Promise<void>((resolve) => {{ changed = resolve; act(); }});
         pi.on('mcp_servers_change', (event: any) => {{ console.error('servers ' + JSON.stringify(event.servers)); changed(); }});
         pi.registerCommand('add', {{ handler: async () => {{ await told(() => {{ {late} }}); console.error('own ' + JSON.stringify(pi.getMcpServers())); }} }});
         pi.registerCommand('drop', {{ handler: () => told(() => pi.unregisterMcpServer('late')) }});
         for (const [name, config] of [['a b', {{}}], ['x', {{ type: 'sse', url: 'https://e.com' }}], ['y', {{}}], ['z', {{ command: 'c', args: 'd' }}]] as const)
           try {{ pi.registerMcpServer(name, config); }} catch (error: any) {{ console.error(error.message); }}"
    );
    world.extension("adds", &code);
    let model = world.idle_model();
    let ran = world.pi(&["-p", "/add", "/drop", "--model", &model, "--allow", "exec"]);
    for wanted in [
        "invalid server name \"a b\"",
        "server \"x\": legacy SSE transport is not supported",
        "server \"y\" needs either \"command\" (stdio) or \"url\"",
        "server \"z\": args must be an array of strings",
        "\"env\":{\"GIVEN\":\"by-the-extension\"}",
        "servers [{\"name\":\"late\"",
        "servers []",
    ] {
        let all = format!("{}\n{}\n{}", ran.stdout, ran.stderr, world.ledger());
        assert!(all.replace("\\\"", "\"").contains(wanted), "{wanted}: {all}");
    }
    // No server is connected if the built-in support is disabled, or replaced by an extension.
    let file = world.extension("adds", &registers("s", good()));
    let named = file.display().to_string();
    let ran = world.pi(&["-p", "hi", "--model", &model, "--no-extensions", "-e", &named]);
    assert!(ran.stderr.contains("no loaded extension connects MCP servers"), "{}", ran.stderr);
    world.extension("adapter", "pi.registerCommand('mcp', { handler: async () => {} });");
    let (ran, texts) = world.session(&[echo("x")], &["--allow", "exec", "--allow", "mcp"]);
    assert!(texts[0].contains("not found"), "{texts:?}");
    assert!(ran.stderr.contains("no loaded extension connects MCP servers"), "{}", ran.stderr);
}

#[test]
fn the_command_lists_servers_and_switches_them() {
    let world = World::with("good");
    let model = world.idle_model();
    let said = |line: &str| {
        let ran = world.pi(&["-p", line, "--model", &model]);
        format!("{}{}", ran.stdout, ran.stderr)
    };
    assert!(said("/mcp").contains("s: connected, 7 tools (direct)"), "{}", said("/mcp"));
    assert!(said("/mcp reconnect s").contains("Reconnected to MCP server \"s\" (connected, 7 tools)"));
    assert!(said("/mcp reconnect t").contains("no MCP server \"t\" is enabled"));
    assert!(said("/mcp sing").contains("Usage: /mcp"));
    assert!(said("/mcp disable s").contains("MCP server s is disabled; saved to"));
    let file = fs::read_to_string(world.at("home/.pi/agent/mcp.json")).expect("a file");
    assert!(file.contains("\"enabled\": false"), "{file}");
    assert!(said("/mcp").contains("s: disabled (direct)"));
    assert!(said("/mcp enable s").contains("MCP server s is enabled; saved to"));
    assert!(said("/mcp").contains("s: connected"));
}

#[test]
fn the_prompt_names_servers_whose_tools_are_searched_for() {
    let world = World::new();
    let entry = json!({"command": SERVER, "args": ["good"], "description": "Says things\nagain"});
    fs::write(world.at("home/.pi/agent/mcp.json"), json!({"mcpServers": {"my-s": entry}}).to_string())
        .expect("written");
    let call = ("tool_search", json!({"query": "echo"}));
    let (ran, texts) = world.session(&[call, ("mcp__my_s__echo", json!({"text": "x"}))], &["--allow", "mcp"]);
    assert_eq!(texts.get(1).map(String::as_str), Some("again: x"), "deferred without a word: {texts:?} {}", ran.stderr);
    let sessions = world.sessions();
    assert!(sessions.contains("- mcp__my_s (tool_search): Says things"), "{sessions}");
    assert!(!sessions.contains("Says things again."), "not what the server says of itself: {sessions}");
}

#[test]
fn a_package_with_javascript_a_component_and_a_server_has_one_prompt() {
    let world = World::new();
    let package = world.at("three");
    fs::create_dir_all(&package).expect("folders");
    let script = "export default (pi: any) => { pi.registerCommand('three', { handler: async () => { await pi.exec('true', []); } }); };";
    fs::write(package.join("index.ts"), script).expect("written");
    let verdict = include_str!("../../../fixtures/guests/text/verdict.wat");
    fs::write(package.join("judge.wasm"), pijs_wasm::text::core_module(verdict)).expect("written");
    let manifest = json!({"name": "three", "version": "1.0.0", "pi": {
        "extensions": ["./index.ts", "./judge.wasm"], "mcpServers": {"s": {"command": SERVER, "args": ["good"], "exposure": "direct"}},
    }});
    fs::write(package.join("package.json"), manifest.to_string()).expect("written");
    let path = package.display().to_string();

    // Without a terminal, all requests are listed and none is granted.
    let ran = world.pi(&["install", &path]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("use tools of MCP servers: s/*") && ran.stderr.contains("run"), "{}", ran.stderr);
    let (ran, texts) = world.session(&[echo("x")], &[]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("capability `exec`"), "{texts:?} {}", ran.stderr);

    let ran = world.pi(&["install", &path, "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (ran, texts) = world.session(&[echo("x")], &[]);
    assert_eq!(texts, ["again: x"], "{}", ran.stderr);
    // The component judges the model's text in a separate realm.
    let said = |text: &str| json!({"events": [{"text": text}], "stop": "end_turn"}).to_string();
    fs::write(world.at("model.jsonl"), format!("{}\n{}\n", said("# a heading"), said("plain"))).expect("written");
    let model = format!("script:{}", world.at("model.jsonl").display());
    let ran = world.pi(&["-p", "/three", "go", "--mode", "json", "--model", &model]);
    assert!(ran.stdout.contains("stream_verdict"), "{}\n{}", ran.stdout, ran.stderr);

    let listed = world.pi(&["ext", "list"]).stdout;
    for wanted in ["index.ts", "three#judge.wasm", "mcp:s"] {
        assert!(listed.contains(wanted), "{wanted}: {listed}");
    }
    let explained = world.pi(&["ext", "explain", "three"]).stdout;
    assert!(explained.contains("allowed  use tools of MCP servers: s/*"), "{explained}");
    let explained = world.pi(&["ext", "explain", &format!("path:{path}#judge.wasm")]).stdout;
    assert!(explained.contains("three#judge.wasm"), "{explained}");
    let ledger = world.ledger();
    for wanted in ["three\"", "three#judge.wasm\"", "\"method\":\"mcp\""] {
        assert!(ledger.contains(wanted), "{wanted}: {ledger}");
    }
    assert_eq!(world.pi(&["remove", &path]).code, Some(0));
    assert!(!world.pi(&["ext", "grants"]).stdout.contains("three"), "{}", world.pi(&["ext", "grants"]).stdout);
}

#[test]
fn a_package_with_servers_and_no_code_is_installed_after_a_prompt() {
    let world = World::new();
    let package = world.at("only");
    fs::create_dir_all(&package).expect("folders");
    let manifest = |mode: &str| {
        json!({"name": "only", "version": "1.0.0", "pi": {
            "mcpServers": {"s": {"command": SERVER, "args": [mode], "exposure": "direct"}},
        }})
    };
    fs::write(package.join("package.json"), manifest("good").to_string()).expect("written");
    let path = package.display().to_string();
    let ran = world.pi(&["install", &path]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("use tools of MCP servers: s/*") && ran.stderr.contains("run"), "{}", ran.stderr);
    let (ran, texts) = world.session(&[echo("x")], &[]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("capability `exec`"), "{texts:?} {}", ran.stderr);

    assert_eq!(world.pi(&["install", &path, "--yes"]).code, Some(0));
    for isolation in ["process", "thread"] {
        let (ran, texts) = world.session(&[echo("x")], &["--isolation", isolation]);
        assert_eq!(texts, ["again: x"], "{isolation}: {}", ran.stderr);
    }
    let listed = world.pi(&["ext", "list"]).stdout;
    assert!(listed.contains("only") && listed.contains("mcp:s"), "{listed}");
    let explained = world.pi(&["ext", "explain", "only"]).stdout;
    assert!(explained.contains("allowed  use tools of MCP servers: s/*"), "{explained}");
    assert!(world.ledger().contains("\"method\":\"mcp\""));

    // A changed program needs a new permission, even if the package is the same.
    fs::write(package.join("package.json"), manifest("changed").to_string()).expect("written");
    let (ran, texts) = world.session(&[echo("x")], &[]);
    assert!(texts[0].contains("not found") && ran.stderr.contains("exec"), "{texts:?} {}", ran.stderr);
}

#[test]
fn a_server_of_an_installed_package_starts_in_an_empty_folder() {
    let world = World::new();
    let registry = Registry::start();
    // Paths are short, because the prompt of an installation shows them whole.
    std::os::unix::fs::symlink(SERVER, world.at("m")).expect("a link");
    // The prompt shows the program as it will start: with its variables, and with the path where its file will be installed.
    let entry = json!({
        "command": "/bin/sh", "args": ["./serve.sh"], "exposure": "direct", "timeout": 3,
        "env": {"OUT": world.at("project/out"), "SERVER": world.at("m")},
    });
    let index = "export default (pi: any) => pi.registerCommand('tenant', { handler: async () => {} });";
    let script = "pwd > \"$OUT\"; exec \"$SERVER\" good\n";
    let manifest = json!({
        "name": "tenant", "version": "1.0.0", "pi": {"extensions": ["./index.ts"], "mcpServers": {"s": entry}},
    });
    registry.publish(manifest, &[("index.ts", index), ("serve.sh", script)]);
    let ran = world.pi(&["install", "npm:tenant", "--yes", "--registry", &registry.url()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let started = |args: &[&str], guard: Option<&str>| {
        let (ran, texts) = world.session_without(&[echo("x")], args, guard);
        assert_eq!(texts, ["again: x"], "{}", ran.stderr);
        let out = fs::read_to_string(world.at("project/out")).expect("it has started");
        fs::remove_file(world.at("project/out")).expect("removed");
        PathBuf::from(out.trim_end())
    };
    let folder = |path: &str| world.at(path).canonicalize().expect("a folder");
    assert_eq!(started(&[], None), folder("home/.pi/agent/extensions/.empty/tenant"));
    assert_eq!(started(&["--approve"], None), folder("project"), "a folder that its user trusts is where it works");
    assert_eq!(started(&[], Some("mcp.folder")), folder("project"), "the guard is needed");
}

#[test]
fn servers_that_an_extension_leaves_unused_are_reported() {
    let world = World::with("good");
    world.extension("adapter", "pi.registerCommand('mcp', { handler: async () => {} });");
    let (ran, texts) = world.session(&[echo("x")], &["--allow", "mcp"]);
    assert!(texts[0].contains("not found"), "{texts:?}");
    let notices: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("registers /mcp")).collect();
    let [notice] = notices[..] else { panic!("one notice: {}", ran.stderr) };
    for words in ["adapter.ts", "mcp.json are not used: s.", "pi remove", ".mcp.json of the project"] {
        assert!(notice.contains(words), "{words}: {notice}");
    }
    for args in
        [&["mcp", "list"][..], &["mcp", "list", "--probe"], &["mcp", "add", "docs", "--url", "https://example.com"]]
    {
        let said = world.pi(args).stderr;
        let words = ["registers /mcp and connects MCP servers itself", "adapter.ts", "pi remove"];
        assert!(words.iter().all(|words| said.contains(words)), "{args:?}: {said}");
    }
    // Without a server in the file, there is no notice.
    assert!(world.pi(&["mcp", "remove", "docs"]).code == Some(0) && world.pi(&["mcp", "remove", "s"]).code == Some(0));
    assert!(!world.pi(&["mcp", "list"]).stderr.contains("registers /mcp"));
    fs::remove_file(world.at("home/.pi/agent/mcp.json")).expect("removed");
    let (ran, _) = world.session(&[], &[]);
    assert!(!ran.stderr.contains("registers /mcp"), "{}", ran.stderr);
}
