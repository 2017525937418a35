//! Tests persistent grants: they are requested at install, bound to the code, listed, explained, and revoked.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::{Run, World};

/// An extension that reports the results of running `true` and of writing a file.
const RUNS: &str = r#"
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
const outcome = (work: () => unknown) => {
  try {
    work();
    return "done";
  } catch (error: any) {
    return String(error.cause?.details?.reason ?? error.message);
  }
};
export default (pi: any) => {
  pi.on("session_start", () => console.log("RAN " + outcome(() => execFileSync("true", []))));
  pi.registerCommand("write", {
    handler: async () => console.log("WROTE " + outcome(() => writeFileSync("out.txt", "x"))),
  });
};
"#;

fn mine(world: &World, code: &str) {
    world.write("project/mine/package.json", r#"{"name":"mine","version":"1.0.0","pi":{"extensions":["./a.ts"]}}"#);
    world.write("project/mine/a.ts", code);
}

fn start(world: &World, more: &[&str]) -> Run {
    let model = world.script(&[&["fine"]]);
    let mut args = vec!["-p", "x", "--model", &model, "--mode", "json"];
    args.extend(more);
    let run = world.pi(&args);
    run.succeeded();
    run
}

fn ran(run: &Run) -> &str {
    let line = run.stderr.lines().find_map(|line| Some(line.split_once("RAN ")?.1));
    line.unwrap_or_else(|| panic!("nothing was said:\n{}", run.stderr))
}

fn book(world: &World) -> Value {
    serde_json::from_str(&world.pi(&["ext", "grants", "--json"]).succeeded().stdout).expect("a book")
}

#[test]
fn grants_of_an_install_hold_until_revoked() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["install", "--yes", "./mine"]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "done");

    let book = book(&world);
    let (id, record) = book["packages"].as_object().expect("packages").iter().next().expect("one");
    assert!(id.starts_with("path:/") && id.ends_with("/mine"), "{id}");
    let exec = json!({"capability": "exec", "scope": {"commands": ["true"]}, "allowed": true, "by": "yes"});
    let answers = record["answers"].as_array().expect("answers");
    let answer = answers.iter().find(|answer| answer["capability"] == "exec").expect("an answer about exec");
    for (key, value) in exec.as_object().expect("an object") {
        assert_eq!(&answer[key], value, "{key}");
    }
    let listed = world.pi(&["ext", "grants", "mine"]);
    assert!(listed.succeeded().stdout.contains("may run programs: true"), "{}", listed.stdout);
    let explained = world.pi(&["ext", "explain", "mine", "exec", "true"]);
    assert!(explained.succeeded().stdout.contains("allowed  exec true"), "{}", explained.stdout);
    assert!(explained.stdout.contains("pi install --yes"), "{}", explained.stdout);

    world.pi(&["ext", "grants", "revoke", "mine", "exec"]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "non_interactive");
    world.pi(&["ext", "grants", "allow", "mine", "exec:true"]).succeeded();
    assert_eq!(ran(&start(&world, &["--policy", "strict"])), "done");
    let denied = world.pi(&["ext", "grants", "deny", "mine", "exec"]);
    assert!(denied.succeeded().stderr.ends_with("may never run programs: any program\n"), "{}", denied.stderr);
    assert_eq!(ran(&start(&world, &["--policy", "permissive"])), "user");
    world.pi(&["ext", "grants", "revoke", "mine", "http"]).failed(1, &["no answer about http", "deny"]);
    // *Never* covers exactly the answered scope, is reported as the user's answer, and is revoked by the displayed command.
    world.pi(&["ext", "grants", "revoke", "mine", "exec"]).succeeded();
    world.pi(&["ext", "grants", "allow", "mine", "exec"]).succeeded();
    world.pi(&["ext", "grants", "deny", "mine", "exec:true", "read:/data"]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "user");
    let listed = world.pi(&["ext", "grants", "mine"]);
    for words in ["may run programs: any", "never run programs: true", "never read files: /data"] {
        assert!(listed.succeeded().stdout.contains(words), "{words}: {}", listed.stdout);
    }
    let explained = world.pi(&["ext", "explain", "mine", "exec", "true"]);
    for words in ["denied   exec true", "rule never", "your answer: never (pi ext grants", "pi ext grants revoke"] {
        assert!(explained.succeeded().stdout.contains(words), "{words}: {}", explained.stdout);
    }
    assert!(world.pi(&["ext", "explain", "mine"]).stdout.contains("denied   read files: /data"), "it is listed");
    assert!(world.pi(&["ext", "explain", "mine", "exec", "false"]).stdout.contains("allowed  exec false"));
    let revoked = world.pi(&["ext", "grants", "revoke", "mine", "exec:true", "read:/data"]);
    assert!(revoked.succeeded().stderr.contains("2 answers taken back"), "{}", revoked.stderr);
    assert_eq!(ran(&start(&world, &[])), "done");
    let revoked = world.pi(&["ext", "grants", "revoke", "mine", "exec"]);
    assert!(revoked.succeeded().stderr.contains("1 answer taken back"), "{}", revoked.stderr);
    world.pi(&["ext", "grants", "revoke", "mine", "exce"]).failed(2, &["did you mean exec"]);

    world.pi(&["remove", "./mine"]).succeeded();
    assert_eq!(self::book(&world)["packages"], json!({}));
}

#[test]
fn an_explanation_of_a_partly_granted_request_names_the_granted_part() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["ext", "grants", "allow", "./mine", "exec:true --version \"\""]).succeeded();
    let explained = world.pi(&["ext", "explain", "./mine"]);
    for words in ["  in part  run programs: true", "granted: run programs: true --version with no further arguments"] {
        assert!(explained.succeeded().stdout.contains(words), "{words}: {}", explained.stdout);
    }
    assert!(world.pi(&["ext", "explain", "./mine", "exec", "true"]).stdout.contains("denied   exec true"));
    world.pi(&["ext", "grants", "allow", "./mine", "exec:true"]).succeeded();
    let explained = world.pi(&["ext", "explain", "./mine"]);
    assert!(explained.succeeded().stdout.contains("  allowed  run programs: true"), "{}", explained.stdout);
}

#[test]
fn requests_without_a_terminal_are_listed_and_denied() {
    let world = World::new();
    mine(&world, RUNS);
    let installed = world.pi(&["install", "./mine"]);
    for words in ["not granted:", "run programs: true", "pi ext grants allow", "--yes"] {
        assert!(installed.succeeded().stderr.contains(words), "{words:?} is missing in:\n{}", installed.stderr);
    }
    assert_eq!(ran(&start(&world, &[])), "non_interactive");
    let explained = world.pi(&["ext", "explain", "--json", "mine", "exec", "true"]);
    let explained: Value = serde_json::from_str(&explained.succeeded().stdout).expect("JSON");
    assert_eq!(explained["decisions"][0]["allowed"], false);
    assert_eq!(explained["decisions"][0]["rule"], "no_person");
    assert!(explained["expected_loss"]["grant"].is_number() && explained["evidence"].is_array(), "{explained}");
}

#[test]
fn a_local_path_keeps_its_grants_and_new_requests_are_reported() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["install", "--yes", "./mine"]).succeeded();
    mine(&world, &RUNS.replace("RAN ", "RAN again: "));
    assert_eq!(ran(&start(&world, &[])), "again: done");
    mine(&world, &format!("{RUNS}\nexport const more = () => fetch('https://example.com/');\n"));
    let wider = start(&world, &[]);
    assert_eq!(ran(&wider), "done");
    assert!(wider.stderr.contains("requests more") && wider.stderr.contains("example.com"), "{}", wider.stderr);
}

#[test]
fn a_manifest_with_strange_members_is_a_warning_and_under_the_strict_policy_a_refusal() {
    let world = World::new();
    mine(&world, RUNS);
    let manifest = json!({
        "name": "mine", "version": "1.0.0",
        "pi": {"extensions": ["./a.ts"], "capabilities": {"schema": "pi.ext.cap.v1", "capabilities": [], "fly": true}},
    });
    world.write("project/mine/package.json", manifest.to_string());
    let path = world.project().join("mine");
    let path = Path::new(&path).display().to_string();
    let run = start(&world, &["-e", &path]);
    assert!(run.stderr.contains("the member fly"), "{}", run.stderr);
    let model = world.script(&[&["fine"]]);
    world.pi(&["-p", "x", "--model", &model, "-e", &path, "--policy", "strict"]).failed(3, &["the member fly"]);
}

#[test]
fn invalid_grants_are_refused_with_the_correct_form() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["ext", "grants", "allow", "./mine", "fly"]).failed(2, &["no such capability", "exec"]);
    for (quoted, instead) in [
        (r#"exec:/bin/sh -c "echo a""#, "write 'exec:/bin/sh -c *'"),
        ("exec:git commit -m 'two words'", "write 'exec:git commit -m *'"),
        (r#"exec:"my program" run"#, "write 'exec:PROGRAM *'"),
    ] {
        for verb in ["allow", "deny"] {
            world.pi(&["ext", "grants", verb, "./mine", quoted]).failed(2, &["has no quotes", instead]);
        }
    }
    world.pi(&["ext", "grants", "allow", "./nowhere", "exec"]).failed(1, &["nowhere"]);
    world.pi(&["ext", "grants", "revoke", "mine"]).failed(1, &["no answers are recorded"]);
    world.pi(&["ext", "explain", "./mine", "dance"]).failed(2, &["neither a call nor a capability"]);
    world.write("home/.pi/agent/pijs/grants.json", "{\"version\": 7, \"packages\": {}}");
    world.pi(&["ext", "grants"]).failed(1, &["grants.json", "version 7", ".bak"]);
}

#[test]
fn yes_to_an_installed_package_grants_what_is_missing_and_no_more_than_that() {
    let world = World::new();
    mine(&world, &format!("{RUNS}\nexport const more = () => fetch('https://example.com/');\n"));
    let first = world.pi(&["install", "./mine"]);
    assert!(
        first.succeeded().stderr.contains("http:example.com") && first.stderr.contains("exec:true"),
        "{}",
        first.stderr
    );
    assert!(
        first.stderr.trim_end().ends_with("works without the permissions that it was not granted"),
        "{}",
        first.stderr
    );
    assert_eq!(ran(&start(&world, &[])), "non_interactive");
    world.pi(&["ext", "grants", "deny", "mine", "http"]).succeeded();
    let again = world.pi(&["install", "--yes", "./mine"]);
    assert_eq!(ran(&start(&world, &[])), "done");
    let listed = world.pi(&["ext", "grants", "mine"]);
    assert!(listed.succeeded().stdout.contains("never"), "what was refused stays so: {}", listed.stdout);
    assert!(again.succeeded().stderr.contains("http"), "{}", again.stderr);
}

#[test]
fn several_grants_are_given_at_once_or_not_at_all() {
    let world = World::new();
    mine(&world, RUNS);
    world.pi(&["ext", "grants", "allow", "./mine", "exec:true", "http:example.com", "fly"]).failed(2, &["fly"]);
    assert!(!world.home().join(".pi/agent/pijs/grants.json").exists());
    let allowed = world.pi(&["ext", "grants", "allow", "./mine", "exec:true", "http:example.com"]);
    assert_eq!(allowed.succeeded().stderr.matches("may now").count(), 2, "{}", allowed.stderr);
}

/// A package in a folder can be named by the name in its manifest, which differs from the folder's.
#[test]
fn a_local_package_can_be_named_by_its_manifest_name() {
    let world = World::new();
    mine(&world, RUNS);
    let folder = world.project().join("mine");
    let manifest = world.read("project/mine/package.json").replace("\"mine\"", "\"its-name\"");
    world.write("project/mine/package.json", manifest);
    std::fs::rename(&folder, world.project().join("folder")).expect("renamed");
    let installed = world.pi(&["install", "./folder"]);
    assert!(installed.succeeded().stderr.contains("installed its-name (path:/"), "{}", installed.stderr);
    world.pi(&["ext", "grants", "allow", "its-name", "exec:true"]).succeeded();
    for (command, words) in [
        (vec!["ext", "list"], "its-name (path:/"),
        (vec!["ext", "grants"], "its-name (path:/"),
        (vec!["ext", "grants", "its-name"], "may run programs: true"),
        (vec!["ext", "explain", "its-name", "exec", "true"], "its-name (path:/"),
        (vec!["ext", "show", "its-name"], "its-name 1.0.0"),
    ] {
        let run = world.pi(&command);
        assert!(run.succeeded().stdout.contains(words), "{command:?}: {}", run.stdout);
    }
    let listed = world.pi(&["list"]);
    assert!(listed.succeeded().stdout.contains(" its-name ("), "{}", listed.stdout);
    // A name that two packages share selects neither.
    world.write("project/twin/package.json", world.read("project/folder/package.json"));
    world.write("project/twin/a.ts", "export default () => {};\n");
    world.pi(&["install", "./twin"]).succeeded();
    world.pi(&["ext", "grants", "allow", "its-name", "exec:true"]).failed(1, &["2 packages have this name", "/twin"]);
    world.pi(&["remove", "./twin"]).succeeded();
    // A session that continues without a package names it.
    world.write("project/folder/a.ts", "export default () => { throw new Error('not today'); };\n");
    let run = start(&world, &[]);
    assert!(run.stderr.contains("the session continues without its-name (path:/"), "{}", run.stderr);
    let removed = world.pi(&["remove", "its-name"]);
    assert!(removed.succeeded().stderr.contains("removed its-name (path:/"), "{}", removed.stderr);
}

/// An extension that reports a refused program, shell command and name lookup.
const REFUSED: &str = r#"
import { execSync } from "node:child_process";
import { lookup } from "node:dns/promises";
export default (pi: any) => {
  pi.registerCommand("program", { handler: async () => console.log((await pi.exec("true", ["a"])).stderr) });
  pi.registerCommand("shell", { handler: async () => execSync("echo a | wc -l") });
  pi.registerCommand("host", { handler: async () => lookup("example.com") });
};
"#;

#[test]
fn each_refusal_ends_with_the_command_that_grants_it() {
    let world = World::new();
    mine(&world, REFUSED);
    world.pi(&["install", "./mine"]).succeeded();
    let model = world.script(&[&["fine"]]);
    let place = world.project().canonicalize().expect("a project").join("mine").display().to_string();
    for (command, grant) in [
        ("/program", "'exec:true a \"\"'"),
        ("/shell", "'exec:/bin/sh -c *'  # it runs any code; no narrower grant covers it"),
        ("/host", "http:example.com"),
    ] {
        let run = world.pi(&["-p", command, "--model", &model]);
        let cure = format!("to allow it: pi ext grants allow path:{place} {grant}");
        assert_eq!(run.stderr.matches(&cure).count(), 1, "{command}: {}", run.stderr);
    }
}

/// An extension that keeps its state outside of the project, where it may write but not read.
const KEEPS: &str = r#"import { accessSync, mkdirSync, readFileSync, readdirSync, writeFileSync, constants } from "node:fs";
const folder = process.env.HOME + "/state";
export default (pi: any) => pi.on("session_start", () => {
  mkdirSync(folder, { recursive: true });
  accessSync(folder, constants.R_OK | constants.W_OK);
  let count = 0;
  try { count = Number(readFileSync(folder + "/count", "utf8")); } catch (error: any) { if (error.code !== "ENOENT") throw error; }
  writeFileSync(folder + "/count", String(count + 1));
  console.log("RAN " + (count + 1) + " " + readdirSync(folder));
});
"#;

#[cfg(unix)]
#[test]
fn the_creator_of_a_file_reads_it_in_the_next_session_and_a_refusal_has_a_hint() {
    let world = World::new();
    mine(&world, KEEPS);
    world.pi(&["install", "./mine"]).succeeded();
    let state = world.home().canonicalize().expect("a home").join("state");
    let at = |name: &str| state.join(name).display().to_string();
    // A failure that a refusal caused disappears when the request is granted.
    let refused = start(&world, &[]);
    let cure = |capability: &str, place: &str| {
        format!(
            "to allow it: pi ext grants allow path:{} {capability}:{place}",
            world.project().canonicalize().expect("a project").join("mine").display()
        )
    };
    assert!(refused.stderr.contains(&cure("write", &state.display().to_string())), "{}", refused.stderr);
    let inside = format!("write:{}", at("**"));
    world.pi(&["ext", "grants", "allow", "mine", &format!("write:{}", state.display()), &inside]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "1 count");
    assert_eq!(ran(&start(&world, &[])), "2 count");
    // Another process writes to the file.
    std::fs::write(state.join("count"), "40").expect("written");
    std::fs::write(state.join("theirs"), "secret").expect("written");
    let refused = start(&world, &[]);
    assert!(
        refused.stderr.contains("EACCES") && refused.stderr.contains(&cure("read", &at("count"))),
        "{}",
        refused.stderr
    );
    world.pi(&["ext", "grants", "allow", "mine", &format!("read:{}", at("count"))]).succeeded();
    assert_eq!(ran(&start(&world, &[])), "41 count");
    // A removed package has none of its earlier files when it is installed again.
    world.pi(&["ext", "grants", "revoke", "mine", "read"]).succeeded();
    std::fs::remove_file(state.join("count")).expect("removed");
    assert_eq!(ran(&start(&world, &[])), "1 count");
    world.pi(&["remove", "mine"]).succeeded();
    world.pi(&["install", "./mine"]).succeeded();
    world.pi(&["ext", "grants", "allow", "mine", &format!("write:{}", state.display()), &inside]).succeeded();
    assert!(start(&world, &[]).stderr.contains(&cure("read", &at("count"))));
}
