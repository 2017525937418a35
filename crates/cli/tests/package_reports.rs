//! Tests cases from public reports about packages. `fixtures/reports/NN-NAME` contains the input of each; the expected results
//! were taken from the real pi.

mod support;

use pijs_testkit::registry::{Registry, Reply};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Run, World, fixture};

/// An extension that writes the names of commands `cmd-...` into the project.
const COMMANDS: &str = r#"import { writeFileSync } from "node:fs";
export default (pi: any) => pi.on("session_start", () => {
  const names = pi.getCommands().map((command: any) => command.name).filter((name: string) => name.startsWith("cmd-"));
  writeFileSync("commands.txt", names.sort().join(" "));
});
"#;

/// Returns a world with the input of a case in its project.
fn case(name: &str) -> World {
    let world = World::new();
    copy(Path::new(&fixture(&format!("reports/{name}"))), &world.project());
    world.write("commands.ts", COMMANDS);
    world
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn start(world: &World, options: &[&str]) -> Run {
    let _ = fs::remove_file(world.project().join("commands.txt"));
    let model = world.script(&[&["answered"], &["answered"]]);
    let args = ["-p", "x", "--model", &model, "--no-session", "--policy", "permissive", "-e", "../commands.ts"];
    world.pi(&[&args, options].concat())
}

/// Returns the commands of a session.
#[track_caller]
fn commands(world: &World, options: &[&str]) -> String {
    start(world, options).succeeded();
    world.read("project/commands.txt")
}

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(args).current_dir(folder);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().expect("git starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Commits the contents of a folder, and serves the repository as static files at `git/NAME`.
fn serve(world: &World, registry: &Registry, folder: &Path, name: &str, tag: Option<&str>) {
    if !folder.join(".git").exists() {
        git(folder, &["init", "-q", "-b", "main", "."]);
    }
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", "change", "--allow-empty"]);
    if let Some(tag) = tag {
        git(folder, &["tag", tag]);
    }
    let bare = world.path().join("bare").join(name);
    let _ = fs::remove_dir_all(&bare);
    git(world.path(), &["clone", "-q", "--bare", &folder.display().to_string(), &bare.display().to_string()]);
    git(&bare, &["update-server-info"]);
    let mut folders: Vec<PathBuf> = vec![bare.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let path = entry.path().strip_prefix(&bare).expect("below").display().to_string();
            let bytes = fs::read(entry.path()).expect("a file");
            let reply = Reply::Body { content_type: "application/octet-stream", bytes };
            for asked in ["", "?service=git-upload-pack"] {
                registry.reply(&format!("/git/{name}/{path}{asked}"), reply.clone());
            }
        }
    }
}

fn source(registry: &Registry, name: &str) -> String {
    format!("git:{}git/{name}", registry.url())
}

fn install(world: &World, registry: &Registry, source: &str) -> Run {
    world.pi(&["install", "--yes", source, "--registry", &registry.url()])
}

fn listed(world: &World) -> Value {
    let settings: Value = serde_json::from_str(&world.read("home/.pi/agent/settings.json")).expect("settings");
    settings["packages"].clone()
}

#[test]
fn case_12_handlers_that_change_during_a_dispatch_count_from_the_next_one() {
    let world = case("12-handlers-change-during-dispatch");
    fs::write(world.project().join("a.txt"), "a").expect("written");
    let model = world.raw_script(
        &[
            json!({"events": [{"tool_call": {"name": "read", "arguments": {"path": "a.txt"}}}], "stop": "tool_use"}),
            json!({"events": [{"text": "done"}], "stop": "end_turn"}),
        ]
        .map(|reply| reply.to_string())
        .join("\n"),
    );
    world.pi(&["-p", "go", "--model", &model, "--no-session", "-e", "ext.ts", "--policy", "permissive"]).succeeded();
    assert_eq!(world.read("project/out.txt"), "first0 shared0 shared0 self0 first1 shared1 late1");
}

#[test]
fn case_23_a_malformed_member_of_a_manifest_ends_nothing() {
    let world = case("23-malformed-manifests");
    let project = world.project();
    let packages: Vec<PathBuf> = ["text", "nulls", "list", "number"].map(|name| project.join(name)).to_vec();
    world.write("home/.pi/agent/settings.json", json!({ "packages": packages }).to_string());
    assert_eq!(commands(&world, &[]), "cmd-list cmd-number");
    // Packages of a registry may be malformed in the same way.
    let registry = Registry::start();
    let manifest = json!({
        "name": "odd", "version": "1.0.0", "dependencies": null, "optionalDependencies": {"y": 7}, "peerDependencies": "x",
        "peerDependenciesMeta": {"y": null}, "bundleDependencies": null, "scripts": null, "bin": 7,
        "pi": {"extensions": ["./i.ts"]},
    });
    let code = "export default (pi: any) => pi.registerCommand('cmd-odd', { handler: async () => {} });\n";
    registry.publish(manifest, &[("i.ts", code)]);
    install(&world, &registry, "odd").succeeded();
    assert_eq!(commands(&world, &[]), "cmd-list cmd-number cmd-odd");
}

#[test]
fn case_25_a_monorepo_with_workspaces_installs_as_npm_would_lay_it_out() {
    let world = case("25-git-monorepo-with-workspaces");
    let (registry, repo) = (Registry::start(), world.project().join("repo"));
    registry.publish_folder(&world.project().join("reg/npm/leaf/1.0.0"));
    let source = source(&registry, "mono");
    assert_ne!(install(&world, &registry, &source).code, 0, "there is nothing yet");
    serve(&world, &registry, &repo, "mono", Some("v1"));
    let run = install(&world, &registry, &format!("{source}@v1"));
    assert!(run.succeeded().stderr.trim_end().ends_with(": works"), "{}", run.stderr);
    assert_eq!(commands(&world, &[]), "cmd-one-sharedleaf cmd-two-sharedleaf");
    // Installing the same ref again does not fetch dependencies; another ref replaces the entry.
    let asked =
        |registry: &Registry| registry.requests().iter().filter(|request| request.path.contains("leaf")).count();
    let before = asked(&registry);
    assert!(install(&world, &registry, &format!("{source}@v1")).succeeded().stderr.contains("already installed"));
    assert_eq!(asked(&registry), before);
    let two = "export default (pi: any) => pi.registerCommand('cmd-two-again', { handler: async () => {} });\n";
    fs::write(repo.join("packages/two/index.ts"), two).expect("written");
    serve(&world, &registry, &repo, "mono", Some("v2"));
    install(&world, &registry, &format!("{source}@v2")).succeeded();
    assert_eq!(commands(&world, &[]), "cmd-one-sharedleaf cmd-two-again");
    assert_eq!(listed(&world), json!([format!("{source}@v2")]));
    // A restore installs the packages of the lock file again.
    fs::remove_dir_all(world.home().join(".pi/agent/git")).expect("removed");
    world.pi(&["install", "--registry", &registry.url()]).succeeded();
    assert_eq!(commands(&world, &[]), "cmd-one-sharedleaf cmd-two-again");
}

#[test]
fn case_26_a_git_address_keeps_its_end_and_both_spellings_are_one_package() {
    let world = case("26-git-url-keeps-its-end");
    let registry = Registry::start();
    serve(&world, &registry, &world.project().join("repo"), "mono.git", Some("v1"));
    let written = source(&registry, "mono.git");
    let shorter = source(&registry, "mono");
    install(&world, &registry, &written).succeeded();
    assert_eq!((commands(&world, &[]).as_str(), listed(&world)), ("cmd-dotgit", json!([written])));
    world.pi(&["remove", &shorter]).succeeded();
    assert_eq!(listed(&world), json!([]));
    // A locked tag does not move if the source is spelt differently.
    install(&world, &registry, &format!("{written}@v1")).succeeded();
    git(&world.project().join("repo"), &["tag", "-d", "v1"]);
    serve(&world, &registry, &world.project().join("repo"), "mono", Some("v1"));
    install(&world, &registry, &format!("{shorter}@v1")).failed(1, &["IN_INTEGRITY"]);
}

#[test]
fn case_27_a_projects_entry_without_autoload_changes_the_users() {
    let world = case("27-filters-and-autoload");
    let package = world.project().join("pkg");
    let entry = |more: &str| {
        let more: Value = serde_json::from_str(&format!("{{{more}}}")).expect("members");
        let mut entry = json!({ "source": package });
        entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "packages": [entry] }).to_string()
    };
    for (name, expected, user, project) in [
        ("all", "abcd", "", None),
        ("none", "", r#""extensions":[]"#, None),
        ("exclude", "acd", r#""extensions":["!extensions/b.ts"]"#, None),
        ("minus", "acd", r#""extensions":["-extensions/b.ts"]"#, None),
        ("plus wins", "bd", r#""extensions":["!extensions/*.ts","+extensions/b.ts","+extensions/d.ts"]"#, None),
        ("replaced", "cd", r#""extensions":["extensions/a.ts"]"#, Some(r#""extensions":["extensions/[cd].ts"]"#)),
        (
            "less",
            "ac",
            r#""extensions":["extensions/[abc].ts"]"#,
            Some(r#""autoload":false,"extensions":["-extensions/b.ts"]"#),
        ),
        (
            "more",
            "abd",
            r#""extensions":["extensions/[ab].ts"]"#,
            Some(r#""autoload":false,"extensions":["+extensions/d.ts"]"#),
        ),
        ("more than none", "d", r#""extensions":[]"#, Some(r#""autoload":false,"extensions":["+extensions/d.ts"]"#)),
        ("unchanged", "ab", r#""extensions":["extensions/[ab].ts"]"#, Some(r#""autoload":false"#)),
    ] {
        world.write("home/.pi/agent/settings.json", entry(user));
        world.write("project/.pi/settings.json", project.map_or("{}".to_owned(), entry));
        let loaded = commands(&world, &["--approve"]).replace("cmd-", "").replace(' ', "");
        assert_eq!(loaded, expected, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn case_57_a_link_inside_a_repository_is_a_copy_and_one_that_leaves_refuses_it() {
    let world = case("26-git-url-keeps-its-end");
    let (registry, repo) = (Registry::start(), world.project().join("repo"));
    world.write("project/repo/AGENTS.md", "hi\n");
    world.write("project/repo/.agents/skills/a/SKILL.md", "---\nname: a\ndescription: a\n---\n");
    let link = |target: &str, at: &str| {
        let at = repo.join(at);
        fs::create_dir_all(at.parent().expect("a folder")).expect("created");
        std::os::unix::fs::symlink(target, at).expect("linked");
    };
    for (target, at) in
        [("AGENTS.md", "CLAUDE.md"), ("../.agents/skills", ".claude/skills"), ("nowhere", "gone"), (".", "around")]
    {
        link(target, at);
    }
    serve(&world, &registry, &repo, "linked", None);
    let source = source(&registry, "linked");
    let run = install(&world, &registry, &source);
    for words in ["the link gone has no target", "the link around leads back to itself"] {
        assert!(run.succeeded().stderr.contains(words), "{words}: {}", run.stderr);
    }
    assert_eq!(commands(&world, &[]), "cmd-dotgit");
    let place = world.home().join(".pi/agent/git");
    let place = fs::read_dir(place).expect("a host").flatten().next().expect("one").path().join("git/linked");
    for (copy, text) in [("CLAUDE.md", "hi\n"), (".claude/skills/a/SKILL.md", "---\nname: a\ndescription: a\n---\n")] {
        let kind = fs::symlink_metadata(place.join(copy)).expect("a copy").file_type();
        assert!(kind.is_file() && fs::read_to_string(place.join(copy)).expect("text") == text, "{copy}");
    }
    link("../outside", "out");
    serve(&world, &registry, &repo, "linked", None);
    install(&world, &registry, &source).failed(1, &["IN_LINK", "out"]);
    assert_eq!(commands(&world, &[]), "cmd-dotgit", "what was installed stays");
}
