//! Runs the real program with its own registry, model and project.

use pijs_testkit::registry::Registry;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Path of the program, which has switches for faults.
pub(crate) const PI: &str = env!("CARGO_BIN_EXE_pi-attacked");

const TOOLS: &str = r#"
export default (pi: any) => {
  pi.registerTool({
    name: "note", label: "note", description: "takes a note", parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text: "noted" }], details: {} }),
  });
  pi.on("tool_result", async () => { await pi.log("info", "a tool ran", {}); });
};
"#;

pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) registry: Registry,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().expect("a folder"), registry: Registry::start() };
        let manifest = json!({
            "name": "steady", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}, "dependencies": {"leaf": "^1"},
        });
        world.registry.publish(json!({"name": "leaf", "version": "1.0.0"}), &[("index.js", "module.exports = 1;\n")]);
        world.registry.publish(manifest, &[("index.ts", "export default () => {};\n")]);
        fs::write(world.path("notes.ts"), TOOLS).expect("an extension");
        let call = |n: usize| json!({"tool_call": {"id": format!("call-{n}"), "name": "note", "arguments": "{}"}});
        let replies = [
            json!({"events": [{"text": "three notes"}, call(1), call(2), call(3)], "stop": "tool_use"}),
            json!({"events": [{"text": "done"}], "stop": "end_turn"}),
        ];
        let script: String = replies.iter().map(|reply| format!("{reply}\n")).collect();
        fs::write(world.path("model.jsonl"), script).expect("a model");
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Restores the initial state. Compiled artifacts stay, unless the work is compiling.
    pub(crate) fn reset(&self, builds: bool) {
        for folder in ["home", "project"].into_iter().chain(builds.then_some("cache")) {
            let path = self.path(folder);
            if path.exists() {
                fs::remove_dir_all(&path).expect("our own folder");
            }
            fs::create_dir(&path).expect("a folder");
        }
        fs::create_dir_all(self.path("cache")).expect("a folder");
        fs::create_dir_all(self.agent()).expect("a folder");
        fs::write(self.agent().join("settings.json"), "{\"theme\": \"dark\"}\n").expect("settings");
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.path("home/.pi/agent")
    }

    /// Returns `pi`, or a program that executes it, to run in the project with an empty environment.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("PIJS_WORDS", "own");
        command
    }

    pub(crate) fn pi(&self, args: &[String], fault: Option<&str>) -> Output {
        let mut command = self.command(PI);
        command.args(args);
        if let Some(fault) = fault {
            command.env("PIJS_FAULT", fault);
        }
        command.output().expect("pi starts")
    }

    /// Runs a command that has to succeed, and returns its standard output.
    pub(crate) fn healthy(&self, args: &[&str], case: &str) -> String {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let output = self.pi(&args, None);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: pi {args:?} failed afterwards: {stderr}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the arguments of a turn with three tool calls.
    pub(crate) fn turn(&self, more: &[&str]) -> Vec<String> {
        let model = format!("script:{}", self.path("model.jsonl").display());
        let extension = self.path("notes.ts").display().to_string();
        strings(&["-p", "take notes", "--model", &model, "-e", &extension]).into_iter().chain(strings(more)).collect()
    }
}

pub(crate) fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}
