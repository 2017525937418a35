//! Tests WebAssembly components as extensions on the command line: by file, by package, by artifact, and with both isolations.

mod support;

use pijs_wasm::text;
use support::{Run, World};

const VERDICT: &str = include_str!("../../../fixtures/guests/text/verdict.wat");

/// The registration of one command, `demo`, at address 128, with its texts at 256.
const DEMO: &str = r#"
  (data (i32.const 128) "\00\00\00\00" "\00\00\00\00\00\00\00\00" "\50\01\00\00\01\00\00\00"
                        "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 288) "demo")
  (data (i32.const 336) "\20\01\00\00\04\00\00\00" "\20\01\00\00\04\00\00\00")
  (func (export "register") (result i32) (i32.const 128))"#;

/// Returns a component whose command writes `written.txt`; if that is refused, the command fails.
fn writes() -> Vec<u8> {
    let imports = r#"(import "pi:extension/fs@1.0.0" "write-file" (func $write (param i32 i32 i32 i32 i32)))"#;
    let items = r#"
      (data (i32.const 2048) "written.txtby a component")
      (func (export "run-command") (param i32 i32 i32 i32 i32 i32) (result i32)
        (call $write (i32.const 2048) (i32.const 11) (i32.const 2059) (i32.const 14) (i32.const 3000))
        (if (i32.eqz (i32.load8_u (i32.const 3000))) (then (return (i32.const 0))))
        (i32.const 3000))"#;
    text::core_module(&text::module(imports, &format!("{DEMO}{items}")))
}

fn final_text(run: &Run) -> String {
    let events = run.events();
    let message = events
        .iter()
        .rfind(|event| event["type"] == "message_end" && event["message"]["role"] == "assistant")
        .expect("an assistant message");
    message["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Prompts a model whose reply begins with `#`, and asserts that the reply was stopped and retried.
#[track_caller]
fn stops_a_heading(world: &World, flags: &[&str]) {
    let model = world.script(&[&["It is ", "# a heading"], &["It is plain"]]);
    let run = world.pi(&[&["-p", "x", "--mode", "json", "--model", &model], flags].concat());
    let verdicts = run.succeeded().events_of("stream_verdict");
    assert_eq!(verdicts.len(), 1, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(final_text(&run), "It is plain");
}

#[test]
fn a_file_a_package_and_an_artifact_judge_the_models_text() {
    let world = World::new();
    let file = world.write("project/verdict.wasm", text::core_module(VERDICT));
    let file = file.display().to_string();
    stops_a_heading(&world, &["-e", &file]);
    stops_a_heading(&world, &["-e", &file, "--isolation", "thread"]);

    world.write("package/verdict.wasm", text::core_module(VERDICT));
    let manifest = r#"{"name": "verdicts", "version": "1.2.3", "pi": {"extensions": ["./verdict.wasm"]}}"#;
    world.write("package/package.json", manifest);
    stops_a_heading(&world, &["-e", "../package"]);

    let input = pijs_extc::Input::at(world.path().join("package"));
    let built = pijs_extc::build(&input, &pijs_extc::BuildOptions::default()).expect("it builds");
    world.write("project/out/extension.artifact", built.encoded().unwrap());
    stops_a_heading(&world, &["-e", "out"]);

    world.pi(&["install", "--yes", "../package"]).succeeded();
    stops_a_heading(&world, &[]);
    let listed = world.pi(&["ext", "list"]);
    assert!(listed.succeeded().stdout.contains("verdict"), "{}", listed.stdout);
}

#[test]
fn a_component_beside_javascript_changes_nothing_for_either() {
    let world = World::new();
    let component = world.write("project/verdict.wasm", text::core_module(VERDICT)).display().to_string();
    let script = "export default (pi) => { pi.on('stream_text', ({ chunk }) => { if (chunk === 'never') return { abort: true }; }); };";
    let scripts = ["one", "two"].map(|name| world.write(&format!("project/{name}.ts"), script).display().to_string());
    stops_a_heading(&world, &["-e", &scripts[0], "-e", &component, "-e", &scripts[1]]);
}

#[test]
fn the_gate_decides_what_a_component_does() {
    let world = World::new();
    let file = world.write("project/demo.wasm", writes()).display().to_string();
    let model = world.script(&[&["hi"]]);
    let run = world.pi(&["-p", "/demo", "--model", &model, "-e", &file]);
    assert!(!world.project().join("written.txt").exists(), "{}", run.stderr);
    assert!(run.stderr.contains("written.txt"), "{}", run.stderr);
    world.pi(&["-p", "/demo", "--model", &model, "-e", &file, "--allow", "write"]).succeeded();
    assert_eq!(world.read("project/written.txt"), "by a component");
}

#[test]
fn bad_components_are_reported_in_one_line() {
    let world = World::new();
    let whole = text::core_module(VERDICT);
    let spins = text::module("", "(func $main (loop $on (br $on))) (start $main)");
    let large = r#"(memory (export "memory") 65536) (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#;
    let cases = [
        (
            "other",
            text::assemble(r#"(component (import "my:host/api@1.0.0" (instance (export "go" (func)))))"#),
            "my:host/api",
        ),
        ("foreign", text::core_module(&text::module(r#"(import "env" "launch" (func))"#, "")), "`env` `launch`"),
        ("cut", whole[..whole.len() / 2].to_vec(), "not a valid WebAssembly file"),
        ("large", text::core_module(&text::module("", large)), "memory limit reached"),
        // Stopped by the fuel limit, or by the deadline on a busy machine.
        ("spins", text::core_module(&spins), "used up"),
    ];
    let good = world.write("project/good.wasm", whole).display().to_string();
    for (name, bytes, words) in cases {
        let bad = world.write(&format!("project/{name}.wasm"), bytes).display().to_string();
        let model = world.script(&[&["hi"]]);
        let run = world.pi(&["-p", "x", "--model", &model, "-e", &bad, "-e", &good]);
        assert!(run.stderr.contains(words) && run.stderr.contains(name), "{name}: {}", run.stderr);
        let about = run.stderr.lines().filter(|line| line.contains(words)).count();
        assert_eq!(about, 1, "{name}: {}", run.stderr);
        let code = match name {
            "large" => "LD_MEMORY",
            "spins" => "LD_TIME",
            _ => "BD_COMPONENT",
        };
        assert!(run.stderr.contains(code) && run.stderr.contains("help"), "{name}: {}", run.stderr);
    }
}
