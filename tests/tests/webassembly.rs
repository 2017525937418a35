//! Tests that WebAssembly packages from npm behave as under Node, and that an extension can use two of them to guard commands.
//!
//! `fixtures/webassembly/packages/lock.json` pins the packages by version and sha512; `expected.txt` is the output of Node 22 for
//! `node.mjs` in the same folder. If the registry cannot be reached, the tests print a notice and check nothing;
//! `PIJS_CONFORMANCE_OFFLINE=1` skips them.

#[expect(dead_code, reason = "these tests compare with no trace")]
mod drive;

use drive::{ISOLATIONS, drive, fixtures, is_offline};
use pijs_packages::{InstallCode, NpmConfig, PinnedPackage, TarballCache};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Copies the files of a fixture next to its packages; `None` if the registry cannot be reached.
fn laid_out(fixture: &str) -> Option<tempfile::TempDir> {
    if is_offline() {
        return None;
    }
    let lock = std::fs::read_to_string(fixtures("webassembly").join("packages/lock.json")).expect("a lock file");
    let lock: Value = serde_json::from_str(&lock).expect("JSON");
    let text = |package: &Value, member: &str| package[member].as_str().expect("a text").to_owned();
    let packages = lock["packages"].as_array().expect("packages").iter().map(|package| PinnedPackage {
        name: text(package, "name"),
        version: text(package, "version"),
        integrity: text(package, "integrity"),
    });
    let packages: Vec<PinnedPackage> = packages.collect();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let tarballs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("webassembly-tarballs");
    let depot = TarballCache::open(tarballs, NpmConfig::default()).expect("an https client");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(depot.unpack(&packages, folder.path())) {
        Ok(()) => {}
        Err(error) if matches!(error.code, InstallCode::Io | InstallCode::Timeout) => {
            std::io::Write::write_all(&mut std::io::stderr(), b"skipped: the npm registry cannot be reached\n").ok();
            return None;
        }
        Err(error) => panic!("{error}"),
    }
    for entry in std::fs::read_dir(fixtures("webassembly").join(fixture)).expect("a fixture") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    Some(folder)
}

#[test]
fn packages_behave_as_under_node() {
    let Some(folder) = laid_out("packages") else { return };
    let commands = ["tree-sitter", "sql", "photon", "oniguruma", "yoga"];
    let steps: Vec<Value> = commands.iter().map(|name| json!({"command": format!("/{name}")})).collect();
    let scenario = json!({"name": "packages", "extensions": ["./main.ts"], "ui": {"mode": "rpc"}, "steps": steps});
    let file = folder.path().join("scenario.json");
    std::fs::write(&file, scenario.to_string()).expect("written");
    let expected = std::fs::read_to_string(folder.path().join("expected.txt")).expect("Node's output");
    for isolation in ISOLATIONS {
        let trace = drive(&file, isolation, &[]);
        let items = trace["trace"].as_array().expect("a trace has items");
        let told = items.iter().filter(|item| item["method"] == "notify");
        let told: Vec<&str> = told.map(|item| item["args"][0].as_str().expect("a text")).collect();
        assert_eq!(told, expected.lines().collect::<Vec<_>>(), "{isolation} (left: PiJS, right: Node)");
    }
}

#[test]
fn an_extension_that_parses_commands_blocks_only_one() {
    let Some(folder) = laid_out("guard") else { return };
    let call = |id: &str, command: &str| {
        let arguments = json!({ "command": command }).to_string();
        json!({"events": [{"tool_call": {"id": id, "name": "bash", "arguments": arguments}}], "stop": "tool_use"})
    };
    let model = [
        call("c1", "ls"),
        call("c2", "echo 'rm -rf x'; if true; then rm -rf x; fi"),
        json!({"events": [{"text": "done"}], "stop": "end_turn"}),
    ];
    for isolation in ISOLATIONS {
        let world = tempfile::tempdir().expect("a folder");
        let at = |path: &str| world.path().join(path);
        std::fs::create_dir_all(at("project/x")).expect("folders");
        std::fs::create_dir_all(at("home")).expect("folders");
        std::fs::write(at("project/x/kept"), "").expect("written");
        std::fs::write(at("model.jsonl"), model.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))
            .expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
            .args(["-p", "go", "--mode", "json", "--isolation", isolation, "--model"])
            .arg(format!("script:{}", at("model.jsonl").display()))
            .arg("-e")
            .arg(folder.path())
            .current_dir(at("project"))
            .env("HOME", at("home"))
            .env("PIJS_WORDS", "own")
            .output()
            .expect("pi starts");
        let all = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let ends: Vec<Value> = all
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["type"] == "tool_execution_end")
            .collect();
        assert_eq!(ends.len(), 2, "{isolation}: {all}");
        assert_eq!((&ends[0]["isError"], &ends[1]["isError"]), (&json!(false), &json!(true)), "{isolation}: {all}");
        let said = ends[1]["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(said, "not without being asked: rm -rf x", "{isolation}");
        assert!(at("project/x/kept").exists(), "{isolation}");
    }
}
