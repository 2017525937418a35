//! Tests that the number of system calls of a cached start with an installed package is limited, regardless of the package's
//! number of files.

#![cfg(target_os = "linux")]

mod support;

use pijs_testkit::registry::Registry;
use serde_json::json;
use std::process::Command;
use support::World;

/// Maximum number of calls that a package adds to a cached start: calls that name a file or list a folder, and reads.
const MAX_CALLS: usize = 200;
/// Maximum number of calls of a start without packages, which include one probe of each protected path.
const MAX_CALLS_OF_NONE: usize = 1100;
const DEPENDENCIES: usize = 6;
const FILES: usize = 60;

/// Counts the system calls of one run; returns `None` if `strace` is missing or may not trace.
fn calls(world: &World, arguments: &[&str]) -> Option<usize> {
    let pi = world.command(arguments);
    let trace = world.path().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=%file,getdents64,read,pread64", "-o"]).arg(&trace);
    command.arg(pi.get_program()).args(pi.get_args()).current_dir(world.project()).env_clear();
    command.envs(pi.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().ok()?;
    let text = std::fs::read_to_string(trace).ok().filter(|_| output.status.success())?;
    Some(text.lines().filter(|line| line.contains('(') && !line.contains("<... ")).count())
}

#[test]
#[expect(clippy::print_stdout, reason = "a reader of the test wants to know that nothing was counted")]
fn a_cached_start_makes_few_file_system_calls_a_package() {
    let world = World::new();
    let registry = Registry::start();
    let mut imports = String::new();
    for number in 0..DEPENDENCIES {
        let name = format!("parts-{number}");
        let files: Vec<(String, String)> = (0..FILES)
            .map(|file| (format!("lib/{file}.js"), format!("export const value = '{number}.{file}';\n")))
            .collect();
        let index: String =
            (0..FILES).map(|file| format!("export {{ value as part{file} }} from './lib/{file}.js';\n")).collect();
        let mut all: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        all.push(("index.js", &index));
        registry.publish(json!({"name": name, "version": "1.0.0", "type": "module", "main": "index.js"}), &all);
        imports +=
            &format!("import * as parts{number} from '{name}';\nconsole.log(Object.keys(parts{number}).length);\n");
    }
    let dependencies: serde_json::Map<_, _> =
        (0..DEPENDENCIES).map(|number| (format!("parts-{number}"), json!("1.0.0"))).collect();
    let manifest = json!({"name": "large", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}, "dependencies": dependencies});
    let index = format!("{imports}export default () => {{}};\n");
    registry.publish(manifest, &[("index.ts", &index)]);
    world.pi(&["install", "large", "--registry", &registry.url()]).succeeded();
    let model = world.script(&[&["fine"]]);
    let with = ["-p", "x", "--model", &model];
    let without = ["-p", "x", "--model", &model, "--no-extensions"];
    // Recently installed files are read at the first start, and possibly at the second.
    for _ in 0..3 {
        world.pi(&with).succeeded();
    }
    let (Some(with), Some(without)) = (calls(&world, &with), calls(&world, &without)) else {
        println!("skipped: `strace` is missing or may not trace");
        return;
    };
    assert!(without < MAX_CALLS_OF_NONE, "{without} calls without a package");
    let added = with.saturating_sub(without);
    assert!(added < MAX_CALLS, "{added} calls for a package of {} files", DEPENDENCIES * (FILES + 1));
}
