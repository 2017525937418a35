//! Installs packages by name and by folder, then uses them.

mod support;

use pijs_testkit::registry::{Registry, integrity};
use serde_json::{Value, json};
use std::path::Path;
use support::{Run, World, fixture, run};

fn registry() -> Registry {
    Registry::start().with_fixtures(Path::new(&fixture("packages")))
}

fn listed(world: &World) -> Vec<Value> {
    serde_json::from_str(&world.pi(&["list", "--json"]).succeeded().stdout).expect("a list")
}

#[test]
fn a_package_of_the_registry_works_until_it_is_removed() {
    let world = World::new();
    let registry = registry();
    world.rule("no-bad", "trigger: BAD", "Not BAD.");
    let model = world.script(&[&["so BAD"], &["fine"]]);
    let ask = || world.pi(&["-p", "x", "--model", &model, "--mode", "json"]);

    world.pi(&["install", "pi-ttsr", "--registry", &registry.url()]).succeeded();
    let list = listed(&world);
    assert_eq!((list.len(), &list[0]["version"], &list[0]["scope"]), (1, &json!("1.0.0"), &json!("user")));
    assert_eq!(ask().succeeded().events_of("message_discarded").len(), 1);

    world.pi(&["remove", "pi-ttsr"]).succeeded();
    assert_eq!(listed(&world), Vec::<Value>::new());
    assert_eq!(ask().succeeded().events_of("message_discarded").len(), 0);
}

#[test]
fn the_users_npmrc_names_the_registry_and_ranges_are_resolved() {
    let world = World::new();
    let registry = registry();
    registry.publish_extension("ranged", "1.2.0", json!({}));
    registry.publish_extension("ranged", "1.9.0", json!({}));
    registry.publish_extension("ranged", "2.0.0", json!({}));
    world.write("home/.npmrc", format!("registry={}\n", registry.url()));
    world.pi(&["install", "npm:ranged@^1.2.0"]).succeeded();
    assert_eq!(listed(&world)[0]["version"], "1.9.0");
}

/// Installs `greets` from `registry` with these environment variables.
fn install_with(world: &World, registry: &str, variables: &[(&str, &str)]) -> Run {
    let mut command = world.command(&["install", "greets", "--registry", registry]);
    command.envs(variables.iter().copied());
    run(command)
}

#[test]
fn a_registry_is_contacted_through_the_users_proxy() {
    let world = World::new();
    let proxy = Registry::start();
    let address = proxy.url().replace("http://", "http://me:secret-word@");
    for name in ["HTTP_PROXY", "all_proxy"] {
        install_with(&world, "http://registry.example/", &[(name, &address)]).failed(1, &["http://registry.example"]);
    }
    let refused = install_with(&world, "https://registry.example/", &[("HTTPS_PROXY", &address)]);
    refused.failed(1, &["https://registry.example", "through the proxy http://127.0.0.1", "(HTTPS_PROXY)", "NO_PROXY"]);
    assert!(!refused.stderr.contains("secret-word"), "{}", refused.stderr);
    let paths: Vec<String> = proxy.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["http://registry.example/greets", "http://registry.example/greets", "registry.example:443"]);
    let socks = [("ALL_PROXY", "socks5://127.0.0.1:9")];
    install_with(&world, "https://registry.example/", &socks).failed(1, &["ALL_PROXY", "SOCKS", "http://HOST:PORT"]);
}

#[test]
fn npmrc_names_the_proxy_first_and_no_proxy_an_exception() {
    let world = World::new();
    let (proxy, registry) = (Registry::start(), Registry::start());
    registry.publish_extension("greets", "1.0.0", json!({}));
    let dead = ("ALL_PROXY", "http://127.0.0.1:9");
    install_with(&world, &registry.url(), &[dead]).failed(1, &["through the proxy http://127.0.0.1:9 (ALL_PROXY)"]);
    install_with(&world, &registry.url(), &[dead, ("NO_PROXY", "127.0.0.1")]).succeeded();
    world.pi(&["remove", "greets"]).succeeded();

    world.write("home/.npmrc", format!("proxy = http://127.0.0.1:9\nhttps-proxy = {}\n", proxy.url()));
    let at_proxy = install_with(&world, "http://registry.example/", &[("HTTP_PROXY", dead.1)]);
    at_proxy.failed(1, &["http://registry.example does not have it"]);
    assert_eq!(proxy.requests()[0].path, "http://registry.example/greets");
    world.write("home/.npmrc", "proxy = http://127.0.0.1:9\nnoproxy = 127.0.0.1\n");
    install_with(&world, &registry.url(), &[]).succeeded();
}

#[test]
fn packages_with_commonjs_and_esm_dependencies_run() {
    let world = World::new();
    let registry = registry();
    let model = world.script(&[&["hi"]]);
    for (package, command) in [("greets-cjs", "greet"), ("greets-esm", "paint")] {
        world.pi(&["install", package, "--registry", &registry.url()]).succeeded();
        let shown = world.pi(&["ext", "show", package]);
        assert!(shown.succeeded().stdout.contains("commands"), "{}", shown.stdout);
        let run = world.pi(&["-p", &format!("/{command} x"), "--model", &model, "--mode", "json"]);
        run.succeeded();
        assert_eq!(run.events_of("agent_start").len(), 0, "the command took the prompt: {}", run.stdout);
    }
}

#[test]
fn an_installed_folder_is_used_in_place() {
    let world = World::new();
    world.write("project/mine/package.json", r#"{"name":"mine","version":"0.1.0","pi":{"extensions":["./a.ts"]}}"#);
    world.write(
        "project/mine/a.ts",
        "export default (pi: any) => pi.on('stream_text', (e: any) => e.chunk === 'BAD' ? { abort: true } : undefined);",
    );
    world.pi(&["install", "./mine"]).succeeded();
    let model = world.script(&[&["so ", "BAD"]]);
    let run = world.pi(&["-p", "x", "--model", &model, "--mode", "json"]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1);
    assert_eq!(
        listed(&world)[0]["path"],
        world.project().join("mine").canonicalize().expect("there").display().to_string()
    );
}

#[test]
fn a_package_that_does_not_build_leaves_the_old_version_working() {
    let world = World::new();
    let registry = registry();
    world.rule("no-bad", "trigger: BAD", "Not BAD.");
    world.pi(&["install", "pi-ttsr", "--registry", &registry.url()]).succeeded();
    let broken = json!({"name": "pi-ttsr", "version": "2.0.0", "pi": {"extensions": ["./index.ts"]}});
    registry.publish(broken, &[("index.ts", "export default function (pi) {\n  const = 1;\n}\n")]);
    world
        .pi(&["install", "pi-ttsr", "--registry", &registry.url()])
        .failed(1, &["pi-ttsr", "BD_SYNTAX", "const = 1;", "index.ts:2"]);
    assert_eq!(listed(&world)[0]["version"], "1.0.0");
    let model = world.script(&[&["so BAD"], &["fine"]]);
    let run = world.pi(&["-p", "x", "--model", &model, "--mode", "json"]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1);
}

#[test]
fn bytes_that_do_not_match_their_digest_are_refused() {
    let world = World::new();
    let registry = registry();
    registry.edit("pi-ttsr", |document| {
        document["versions"]["1.0.0"]["dist"]["integrity"] = integrity(b"something else").into();
    });
    world.pi(&["install", "pi-ttsr", "--registry", &registry.url()]).failed(1, &["pi-ttsr", "IN_INTEGRITY"]);
    assert_eq!(listed(&world), Vec::<Value>::new());
}

#[test]
fn a_project_package_loads_once_the_folder_is_trusted() {
    let world = World::new();
    let registry = registry();
    world.rule("no-bad", "trigger: BAD", "Not BAD.");
    world.pi(&["install", "-l", "pi-ttsr", "--registry", &registry.url()]).succeeded();
    let model = world.script(&[&["so BAD"], &["fine"]]);
    let ask = || world.pi(&["-p", "x", "--model", &model, "--mode", "json"]);
    let before = ask();
    assert_eq!(before.succeeded().events_of("message_discarded").len(), 0);
    assert!(before.stderr.contains("pi trust"), "{}", before.stderr);
    world.pi(&["trust"]).succeeded();
    assert_eq!(ask().succeeded().events_of("message_discarded").len(), 1);
}

#[test]
fn supplied_packages_are_fetched_at_install_or_reported() {
    let world = World::new();
    world.write(
        "schemas/package.json",
        r#"{"name": "schemas", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}}"#,
    );
    world.write("schemas/index.ts", "import { Type } from 'typebox';\nexport default () => void Type.String();\n");
    let folder = world.path().join("schemas").display().to_string();
    let mut command = world.command(&["install", &folder, "--yes", "--registry", "http://127.0.0.1:9"]);
    // The cache is empty.
    command.env("XDG_CACHE_HOME", world.path().join("empty-cache"));
    let run = support::run(command);
    run.succeeded();
    for words in ["installed", "what pi supplies", "typebox"] {
        assert!(run.stderr.contains(words), "{words:?} is missing in:\n{}", run.stderr);
    }
    assert_eq!(listed(&world).len(), 1);
}

#[test]
fn the_result_of_an_install_is_its_last_line() {
    let world = World::new();
    let registry = Registry::start();
    registry.publish_extension("plain", "1.0.0", json!({}));
    world.write("home/.npmrc", format!("registry={}\n", registry.url()));
    let mut command = world.command(&["install", "plain"]);
    // The first install also fetches pi's texts.
    command.env("XDG_CACHE_HOME", world.path().join("empty-cache")).env_remove("PIJS_WORDS");
    let run = support::run(command);
    assert!(run.succeeded().stderr.contains("fetching what pi supplies"), "{}", run.stderr);
    assert!(run.stderr.trim_end().ends_with("\nnpm:plain: works"), "{}", run.stderr);
}

#[test]
fn an_install_reports_its_grants_and_the_chosen_package() {
    let world = World::new();
    let registry = Registry::start();
    registry.publish(
        json!({"name": "runs", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}}),
        &[("index.ts", "export default (pi: any) => pi.on('session_start', () => pi.exec('uname', ['-s']));\n")],
    );
    world.write("project/runs/readme.md", "a folder of this name");
    let install = |more: &[&str]| world.pi(&[&["install", "runs", "--registry", &registry.url()], more].concat());
    let granted = "may now run programs: uname";
    let first = install(&[]);
    assert!(!first.succeeded().stderr.contains("may now run"), "{}", first.stderr);
    assert!(first.stderr.contains("the folder of this name is ./runs"), "{}", first.stderr);
    let second = install(&["--yes"]);
    assert!(second.succeeded().stderr.contains(granted), "{}", second.stderr);
    // Grants are not added twice.
    let third = install(&["--yes"]);
    assert!(!third.succeeded().stderr.contains("may now"), "{}", third.stderr);
}

#[test]
fn a_folder_gets_its_own_dependencies_and_says_what_comes_of_it() {
    let world = World::new();
    let registry = Registry::start();
    registry.publish(
        json!({"name": "leaf", "version": "1.2.0", "dependencies": {"twig": "^1"}}),
        &[("index.js", "module.exports = require('twig');")],
    );
    registry.publish(
        json!({"name": "twig", "version": "1.0.0", "scripts": {"prepare": "true"}}),
        &[("index.js", "module.exports = 'twig';")],
    );
    let manifest = json!({
        "name": "mine", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]},
        "dependencies": {"leaf": "^1", "typebox": "*"}, "scripts": {"postinstall": "true"},
    });
    world.write("project/mine/package.json", manifest.to_string());
    world.write(
        "project/mine/index.ts",
        "import leaf from 'leaf';\nexport default (pi: any) => pi.on('session_start', () => console.log(leaf));\n",
    );
    let install = |world: &World| world.pi(&["install", "./mine", "--registry", &registry.url()]);
    let first = install(&world);
    let last = |run: &support::Run| run.stderr.trim_end().lines().last().unwrap_or_default().to_owned();
    assert!(
        last(first.succeeded()).starts_with("mine (path:") && last(&first).ends_with("): works"),
        "{}",
        first.stderr
    );
    assert_eq!(first.stderr.matches("postinstall was not run").count(), 1, "{}", first.stderr);
    assert!(!first.stderr.contains("prepare"), "a registry's package is prepared: {}", first.stderr);
    assert!(world.project().join("mine/node_modules/leaf/package.json").is_file());
    assert!(world.project().join("mine/node_modules/twig/package.json").is_file());
    // If everything is present, nothing is requested, and existing packages are kept.
    let asked = registry.requests().len();
    world.write("project/mine/node_modules/leaf/index.js", "module.exports = 'changed by hand';");
    assert!(last(install(&world).succeeded()).ends_with("): works"));
    assert_eq!(registry.requests().len(), asked);
    assert_eq!(world.read("project/mine/node_modules/leaf/index.js"), "module.exports = 'changed by hand';");

    // An unavailable dependency is named, with the line that needs it.
    let needs_gone = manifest.to_string().replace("\"leaf\":", "\"gone\":");
    world.write("project/other/package.json", needs_gone.replace("\"mine\"", "\"other\""));
    world.write("project/other/index.ts", "import gone from 'gone';\nexport default () => gone;\n");
    let run = world.pi(&["install", "./other", "--registry", &registry.url()]);
    assert!(run.succeeded().stderr.contains("its dependencies were not installed"), "{}", run.stderr);
    assert!(
        last(&run).contains("will not work: `gone` is not installed") && last(&run).contains("index.ts:1"),
        "{}",
        run.stderr
    );
    assert!(!world.project().join("other/node_modules/gone").exists());
}

#[test]
fn an_install_with_nothing_to_do_fetches_nothing_and_repairs_what_was_changed() {
    let world = World::new();
    let registry = registry();
    let install = || world.pi(&["install", "--yes", "greets-cjs", "--registry", &registry.url()]);
    let tarballs = || registry.requests().iter().filter(|request| request.path.ends_with(".tgz")).count();
    assert!(install().succeeded().stderr.contains("installed npm:greets-cjs"));
    let before = tarballs();
    let again = install();
    assert!(again.succeeded().stderr.contains("already installed: npm:greets-cjs"), "{}", again.stderr);
    assert!(again.stderr.trim_end().ends_with("npm:greets-cjs: works"), "{}", again.stderr);
    assert_eq!(tarballs(), before);
    let dependency = "home/.pi/agent/npm/node_modules/greets-cjs/node_modules/tiny-words/lib/index.js";
    let text = world.read(dependency);
    world.write(dependency, "broken(");
    assert!(install().succeeded().stderr.contains("\ninstalled npm:greets-cjs") || tarballs() > before);
    assert_eq!(world.read(dependency), text);
    assert!(tarballs() > before);
}
