//! Tests third-party servers: three of the protocol's own, from npm.
//!
//! `fixtures/mcp/servers/lock.json` pins the packages by version and sha512. Without Node, or if the registry cannot be reached,
//! the tests print a notice and check nothing; `PIJS_CONFORMANCE_OFFLINE=1` skips them.

use crate::World;
use pijs_packages::{InstallCode, NpmConfig, PinnedPackage, TarballCache};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) fn say(line: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {line}\n").as_bytes()).ok();
}

/// Returns the path of Node, if it is installed.
pub(crate) fn node() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("node")).find(|program| program.is_file())
}

/// Returns a folder with the packages of a fixture; `None` if the registry cannot be reached.
pub(crate) fn packages(fixture: &str) -> Option<tempfile::TempDir> {
    if std::env::var_os("PIJS_CONFORMANCE_OFFLINE").is_some() {
        return None;
    }
    let lock = format!("{}/../fixtures/mcp/{fixture}/lock.json", env!("CARGO_MANIFEST_DIR"));
    let lock: Value = serde_json::from_str(&std::fs::read_to_string(lock).expect("a lock file")).expect("JSON");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let tarballs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-tarballs");
    let depot = TarballCache::open(tarballs, NpmConfig::default()).expect("an https client");
    let text = |package: &Value, member: &str| package[member].as_str().expect("a text").to_owned();
    let pinned = |package: &Value| PinnedPackage {
        name: text(package, "name"),
        version: text(package, "version"),
        integrity: text(package, "integrity"),
    };
    let (nested, flat): (Vec<&Value>, Vec<&Value>) =
        lock["packages"].as_array().expect("packages").iter().partition(|package| package["in"].is_string());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let unpacked = runtime.block_on(async {
        depot.unpack(&flat.into_iter().map(pinned).collect::<Vec<_>>(), folder.path()).await?;
        for package in nested {
            let within = folder.path().join("node_modules").join(text(package, "in"));
            depot.unpack(&[pinned(package)], &within).await?;
        }
        Ok::<(), pijs_packages::PackageError>(())
    });
    match unpacked {
        Ok(()) => Some(folder),
        Err(error) if matches!(error.code, InstallCode::Io | InstallCode::Timeout) => {
            say("the npm registry cannot be reached");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_protocols_own_servers_work() {
    let Some(node) = node() else { return say("there is no Node") };
    let Some(packages) = packages("servers") else { return };
    let world = World::new();
    let main =
        |name: &str| packages.path().join(format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js"));
    let project = std::fs::canonicalize(world.at("project")).expect("a folder");
    std::fs::write(project.join("a.txt"), "hello").expect("written");
    world.servers(json!({
        "everything": {"command": node, "args": [main("everything"), "stdio"]},
        "files": {"command": node, "args": [main("filesystem"), project], "exposure": "deferred"},
        "memory": {"command": node, "args": [main("memory")], "env": {"MEMORY_FILE_PATH": project.join("memory.jsonl")}},
    }));
    let listed = world.pi(&["mcp", "list", "--probe"]);
    assert_eq!(listed.code, Some(0), "{}{}", listed.stdout, listed.stderr);
    let calls = [
        ("mcp__everything__echo", json!({"message": "hi"})),
        ("mcp__everything__get_sum", json!({"a": 2, "b": 3})),
        ("mcp__everything__trigger_long_running_operation", json!({"duration": 0.2, "steps": 2})),
        ("tool_search", json!({"query": "read a text file"})),
        ("mcp__files__read_text_file", json!({"path": project.join("a.txt")})),
        ("mcp__files__read_text_file", json!({"path": "/etc/hostname"})),
        (
            "mcp__memory__create_entities",
            json!({"entities": [{"name": "A", "entityType": "t", "observations": ["o"]}]}),
        ),
        ("mcp__memory__read_graph", json!({})),
        ("list_mcp_resources", json!({"server": "everything"})),
    ];
    let (ran, texts) = world.session(&calls, &["--allow", "mcp"]);
    assert_eq!(texts.len(), calls.len(), "{texts:#?}\n{}", ran.stderr);
    for ((name, _), (text, wanted)) in calls.iter().zip(texts.iter().zip([
        "Echo: hi",
        "5",
        "completed",
        "mcp__files__read_text_file",
        "hello",
        "ccess denied",
        "\"A\"",
        "\"A\"",
        "demo://resource",
    ])) {
        assert!(text.contains(wanted), "{name}: {wanted} in {text}\n{}", ran.stderr);
    }
    assert!(ran.stdout.contains("tool_execution_update"), "progress reaches the front end");
}
