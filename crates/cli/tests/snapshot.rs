//! Tests `pi ext snapshot`, including when a package that pi supplies is not available.

mod support;

use serde_json::{Value, json};
use std::net::TcpListener;
use support::{World, run};

const EXTENSION: &str = r#"
export default function (pi: any) {
  pi.on("session_start", () => {});
  pi.on("session_start", () => {});
  pi.on("tool_call", () => {});
  pi.registerFlag("deep", { type: "boolean", default: true, description: "Look deeper" });
  pi.registerCommand("look", { description: process.env.HOME + "/x", handler: async () => {} });
  pi.registerShortcut("ctrl+k", { handler: () => {} });
  pi.registerTool({
    name: "measure", label: "Measure", description: "\u001b[31mred\u001b[0m",
    parameters: { type: "object", properties: {} }, extra: 1, unset: undefined,
    execute: async () => ({ content: [] }), renderCall: () => undefined,
  });
  pi.registerProvider("own", { baseUrl: "https://example.com", streamSimple: () => {} });
}
"#;

fn snapshot(world: &World, args: &[&str]) -> Value {
    let args: Vec<&str> = ["ext", "snapshot"].into_iter().chain(args.iter().copied()).collect();
    let printed = world.pi(&args);
    serde_json::from_str(&printed.succeeded().stdout).expect("a document")
}

#[test]
fn a_snapshot_lists_what_an_extension_registers() {
    let world = World::new();
    world.write("project/measure.ts", EXTENSION);
    let root = world.project().canonicalize().expect("there");
    let document = snapshot(&world, &["--root", &root.display().to_string(), "./measure.ts"]);
    let expected = json!({
        "format": "pi-ext-snapshot/1", "pi": "0.87.1", "errors": [], "flagValues": {"deep": true},
        "providers": [{
            "name": "own", "extension": "measure.ts",
            "config": {"baseUrl": "https://example.com", "streamSimple": "<function>"},
        }],
        "extensions": [{
            "path": "measure.ts",
            "handlers": {"session_start": 2, "tool_call": 1},
            "flags": [{"name": "deep", "type": "boolean", "default": true, "description": "Look deeper"}],
            "commands": [{"name": "look", "description": "<home>/x", "completions": false}],
            "shortcuts": [{"key": "ctrl+k"}],
            "tools": [{
                "name": "measure", "label": "Measure", "description": "red",
                "parameters": {"type": "object", "properties": {}},
                "functions": ["execute", "renderCall"], "otherKeys": ["extra", "unset"],
            }],
            "messageRenderers": [], "entryRenderers": [], "markdownTransformer": false,
        }],
    });
    assert_eq!(document, expected);
}

#[test]
fn a_failed_extension_is_reported_and_the_others_are_listed() {
    let world = World::new();
    world.write("project/bad.ts", "export default () => { throw new Error('no\\nsecond line'); };");
    world.write("project/broken.ts", "export default (");
    world.write("project/good.ts", "export default (pi: any) => pi.on('input', () => {});");
    let root = world.project().canonicalize().expect("there");
    let document =
        snapshot(&world, &["--root", &root.display().to_string(), "bad.ts", "broken.ts", "good.ts", "absent.ts"]);
    let failed: Vec<&str> =
        document["errors"].as_array().expect("a list").iter().filter_map(|e| e["path"].as_str()).collect();
    assert_eq!(failed, ["bad.ts", "broken.ts", "absent.ts"]);
    assert_eq!(document["errors"][0]["error"], "Failed to load extension: no");
    assert_eq!(document["extensions"].as_array().expect("a list").len(), 1);
    assert_eq!(document["extensions"][0]["path"], "good.ts");
}

#[test]
fn a_named_example_or_package_needs_its_folder() {
    let world = World::new();
    world.pi(&["ext", "snapshot", "example:todo"]).failed(2, &["example:todo", "--examples DIR"]);
    world.pi(&["ext", "snapshot", "--packages", ".", "npm:thing"]).failed(2, &["npm:thing", "npm:NAME@VERSION"]);
}

#[test]
fn without_a_registry_an_import_of_a_supplied_package_names_it_and_other_extensions_run() {
    let world = World::new();
    // A port that was just freed, so that connections are refused.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    world.write("home/.npmrc", format!("registry=http://127.0.0.1:{port}/\n"));
    world.write(
        "project/schema.ts",
        "import { Type } from '@sinclair/typebox';\nexport default (pi: any) => console.log(Type);",
    );
    world.write("project/plain.ts", "import type { TSchema } from 'typebox';\nexport default () => {};");
    let ask = |extension: &str| {
        let model = world.script(&[&["hello"]]);
        let mut command = world.command(&["-p", "x", "--model", &model, "-e", extension]);
        // Uses a separate cache, so that the downloads of another test are not found.
        command.env("XDG_CACHE_HOME", world.path().join("cache"));
        run(command)
    };
    ask("schema.ts").failed(1, &["schema imports `typebox`", "typebox@1.3.27", "reach the npm registry once"]);
    assert!(ask("plain.ts").succeeded().stdout.contains("hello"));
}
