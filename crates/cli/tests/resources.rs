//! Tests that skills, prompt templates and extensions in folders, settings and packages are found, ordered and named as by the
//! real pi. `fixtures/resources/capture.mjs` wrote the expected values.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use support::{World, fixture};

fn json<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read(fixture(&format!("resources/{name}"))).expect("a fixture");
    serde_json::from_slice(&text).expect("JSON")
}

/// Returns a world with the tree of the fixture, and the tree's folder.
fn tree() -> (World, String) {
    let world = World::new();
    let root = world.path().canonicalize().expect("a folder").display().to_string();
    for (path, text) in json::<BTreeMap<String, String>>("tree.json") {
        world.write(&path, text.replace("<root>", &root));
    }
    (world, root)
}

/// Returns the answer of `get_commands`.
fn commands(world: &World, root: &str, options: &[String]) -> Value {
    let mut args: Vec<String> = ["--mode", "rpc", "--no-session", "--model"].map(str::to_owned).into();
    args.push(world.script(&[&["unused"]]));
    args.extend(options.iter().map(|word| word.replace("<root>", root)));
    let mut pi = world
        .command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("pi starts");
    let mut stdin = pi.stdin.take().expect("piped");
    stdin.write_all(b"{\"type\":\"get_commands\"}\n").expect("pi reads");
    let lines = BufReader::new(pi.stdout.take().expect("piped")).lines();
    let records = lines.map(|line| -> Value { serde_json::from_str(&line.expect("UTF-8")).expect("JSON") });
    let mut answer = records.into_iter().find(|record| record["command"] == "get_commands").expect("an answer");
    drop(stdin);
    assert!(pi.wait().expect("pi ends").success());
    answer["data"]["commands"].take()
}

#[test]
fn resources_are_those_of_the_real_pi() {
    let (world, root) = tree();
    world.pi(&["trust"]).succeeded();
    let expected: BTreeMap<String, Value> = json("expected-0.87.1.json");
    for (name, options) in json::<BTreeMap<String, Vec<String>>>("runs.json") {
        let seen = commands(&world, &root, &options).to_string().replace(&root, "<root>");
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!(seen, expected[&name], "{name}: {seen:#}");
    }
}

#[test]
fn an_untrusted_project_provides_no_resources() {
    let (world, root) = tree();
    let seen = commands(&world, &root, &[]);
    let scopes: Vec<&Value> = seen.as_array().expect("a list").iter().map(|one| &one["sourceInfo"]["scope"]).collect();
    assert!(!scopes.is_empty() && scopes.iter().all(|scope| *scope == "user"), "{seen:#}");
}

#[test]
fn a_package_without_extensions_is_installed_and_says_what_it_brings() {
    let (world, _) = tree();
    world.write("themes/package.json", r#"{"name": "themes", "pi": {"themes": ["./all"]}}"#);
    world.write("themes/all/dusk.json", "{}");
    world.write("themes/all/dawn.json", "{}");
    for (package, brings) in [("../themes", "2 themes"), ("../pk2", "1 prompt, 1 skill")] {
        let run = world.pi(&["install", package]);
        assert!(run.succeeded().stderr.contains(brings), "{}", run.stderr);
    }
    world.write("empty/package.json", r#"{"name": "empty", "pi": {}}"#);
    // The package is installed nevertheless, as by pi, which prints nothing about it.
    let run = world.pi(&["install", "../empty"]);
    assert!(run.succeeded().stderr.contains("neither extensions nor skills, prompts or themes"), "{}", run.stderr);
}

#[test]
fn a_missing_package_is_a_warning_and_the_session_starts() {
    let world = World::new();
    world.write("home/.pi/agent/settings.json", r#"{"packages": ["/nowhere/at/all"]}"#);
    let model = world.script(&[&["here"]]);
    let run = world.pi(&["-p", "x", "--model", &model]);
    assert!(run.succeeded().stdout.contains("here"), "{}", run.stdout);
    assert!(run.stderr.contains("warning:") && run.stderr.contains("/nowhere/at/all"), "{}", run.stderr);
}
