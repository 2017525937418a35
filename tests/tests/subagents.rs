//! Tests that a sub-agent of an extension has the permissions of its extension, and no more. Scenarios test the behaviour in
//! common with pi: `fixtures/subagents`, played by `scenarios.rs`.
//!
//! The agents are pi's own, from its packages, which are fetched once; `PIJS_CONFORMANCE_OFFLINE=1` skips these tests, like all
//! cases that need packages.

#[expect(dead_code, reason = "these tests run a session, no scenario")]
mod drive;

use drive::{ISOLATIONS, fixtures, is_offline};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};

/// A project, a home and another user's folder, with a model that makes a sub-agent request forbidden actions.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().expect("a temporary directory"));
        for folder in ["project", "home/.pi/agent", "outside"] {
            std::fs::create_dir_all(world.at(folder)).expect("folders");
        }
        world.write("outside/secret.txt", "CANARY");
        world.write("home/.pi/agent/auth.json", r#"{"openai": {"type": "api_key", "key": "sk-CANARY"}}"#);
        world.write("project/other.ts", "export default () => {};");
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.at(path), text).expect("written");
    }

    /// Returns the replies: two for the sub-agent if it may run at all, then those for the session.
    fn model(&self) -> String {
        let call = |id: &str, name: &str, arguments: Value| json!({"tool_call": {"id": id, "name": name, "arguments": arguments.to_string()}});
        let outside = self.at("outside");
        let tries = json!({"events": [
            call("t1", "bash", json!({"command": "touch pwned"})),
            call("t2", "read", json!({"path": outside.join("secret.txt")})),
            call("t3", "write", json!({"path": outside.join("pwned"), "content": "x"})),
            call("t4", "read", json!({"path": "other.ts"})),
        ], "stop": "tool_use"});
        let text = |text: &str| json!({"events": [{"text": text}], "stop": "end_turn"});
        let lines = [tries, text("tried"), text("the session's")].map(|line| line.to_string()).join("\n");
        self.write("model.jsonl", &lines);
        format!("script:{}", self.at("model.jsonl").display())
    }

    fn pi(&self, isolation: &str, grants: &[&str]) -> SubagentRun {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-attacked"));
        command
            .args(["-p", "x", "--model", &self.model(), "--policy", "strict", "--isolation", isolation, "-e"])
            .arg(fixtures("subagents").join("authority.ts"))
            .args(grants.iter().flat_map(|grant| ["--allow", grant]))
            .current_dir(self.at("project"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.at("home"))
            .env("XDG_CACHE_HOME", cache.expect("a home"))
            .env("PIJS_WORDS", "own")
            .stdin(std::process::Stdio::null());
        SubagentRun(command.output().expect("pi starts"))
    }
}

/// The output of a run with a sub-agent.
struct SubagentRun(Output);

impl SubagentRun {
    fn all(&self) -> String {
        [&self.0.stdout, &self.0.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
    }

    /// Returns the extension's report under a name, of which there must be exactly one.
    #[track_caller]
    fn one(&self, name: &str) -> Value {
        let all = self.all();
        let mark = format!("@{name} ");
        let said =
            all.lines().find_map(|line| line.split_once(&mark)).unwrap_or_else(|| panic!("no {name} in:\n{all}"));
        serde_json::from_str(said.1).unwrap_or_else(|error| panic!("{name}: {error}\n{all}"))
    }

    /// Returns the result of a sub-agent's tool call, and whether the call failed.
    #[track_caller]
    fn tool(&self, at: usize) -> (bool, String) {
        let message = &self.one("messages")[at];
        (message["isError"].as_bool().expect("a tool result"), message["content"][0].to_string())
    }
}

#[test]
fn a_sub_agent_needs_its_extensions_permission_for_the_model() {
    if is_offline() {
        return;
    }
    for isolation in ISOLATIONS {
        let world = World::new();
        let said = world.pi(isolation, &[]);
        let reply = &said.one("messages")[0];
        assert_eq!(reply["stopReason"], "error", "{isolation}: {}", said.all());
        assert!(reply["errorMessage"].to_string().contains("session.inject"), "{isolation}: {reply}");
        // The sub-agent sent no model request, so the session gets its first reply, which calls tools of the session.
        assert_eq!(reply["content"], json!([]));
    }
}

#[test]
fn tools_of_a_sub_agent_have_only_its_extensions_permissions() {
    if is_offline() {
        return;
    }
    for isolation in ISOLATIONS {
        let world = World::new();
        let said = world.pi(isolation, &["session.inject"]);
        for refused in 1..4 {
            let (failed, text) = said.tool(refused);
            assert!(failed, "{isolation}: call {refused} gave {text}\n{}", said.all());
        }
        assert!(!said.tool(4).0, "{isolation}: its own project is the extension's to read\n{}", said.all());
        assert!(!world.at("project/pwned").exists() && !world.at("outside/pwned").exists(), "{isolation}");
        assert!(!world.at("outside/sessions").exists(), "{isolation}: {}", said.one("elsewhere"));
        assert!(!said.all().contains("CANARY"), "{isolation}: {}", said.all());
        assert!(said.one("files")[0].as_str().is_some_and(|error| error.contains("extensionFactories")), "{isolation}");

        // With the grant, the same call works, so the missing grant caused the refusal above.
        let world = World::new();
        let said = world.pi(isolation, &["session.inject", "exec"]);
        assert!(!said.tool(1).0, "{isolation}: {}", said.all());
        assert!(world.at("project/pwned").exists(), "{isolation}");
    }
}
