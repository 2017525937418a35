//! Tests guests in Rust, C and JavaScript that are built by their own compilers: each counts words and stops a reply; a port of
//! pi-ttsr to Rust behaves like pi-ttsr.
//!
//! A test without its compiler or the registry prints a line and checks nothing. If Rust's target `wasm32-unknown-unknown` is not
//! installed, `PIJS_GUEST_CARGO` can be set to a command line that builds for it (`cargo +nightly -Zbuild-std=std,panic_abort`).
//! The guest in JavaScript contains an engine of 13 MB, whose compilation takes minutes in an unoptimised build, so it is tested
//! only with `PIJS_LONG=1`.

#![cfg(target_os = "linux")]

mod support;

use pijs_packages::{InstallCode, NpmConfig, PinnedPackage, TarballCache};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{World, fixture, pi_ttsr};

/// Prints that something is not checked, and why.
fn skipped(why: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes()).ok();
}

/// Returns whether a program can be started and exits with 0.
fn runs(program: &str, args: &[&str]) -> bool {
    let status =
        Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[track_caller]
fn done(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", said(&output.stdout), said(&output.stderr));
}

/// Returns a cargo command line and a target for which it can build; `None` if there is none.
fn rust() -> Option<(Vec<String>, &'static str)> {
    if let Ok(line) = std::env::var("PIJS_GUEST_CARGO") {
        return Some((line.split_whitespace().map(str::to_owned).collect(), "wasm32-unknown-unknown"));
    }
    let is_installed = |target: &&str| {
        let folder = Command::new("rustc").args(["--print", "target-libdir", "--target", *target]).output().ok();
        let folder = folder.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
        !folder.is_empty() && Path::new(folder.trim()).is_dir()
    };
    let target = ["wasm32-wasip2", "wasm32-unknown-unknown"].into_iter().find(is_installed);
    if target.is_none() {
        skipped("Rust has no target wasm32-wasip2 here: rustup target add wasm32-wasip2");
    }
    Some((vec!["cargo".to_owned()], target?))
}

/// Builds a crate and returns the resulting file.
fn built(folder: &Path, name: &str) -> Option<PathBuf> {
    let (cargo, target) = rust()?;
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    let mut command = Command::new(&cargo[0]);
    command.args(&cargo[1..]).args(["build", "--release", "--target", target]).current_dir(folder);
    done(command.env("CARGO_TARGET_DIR", &out));
    Some(out.join(target).join("release").join(format!("{name}.wasm")))
}

/// Tests a package with one component: its tool counts words, and it stops a reply that contains a TODO.
#[track_caller]
fn counts_and_stops(world: &World, package: &str) {
    let checked = support::run(world.program(env!("CARGO_BIN_EXE_extc"), &["check", package]));
    let lines = &checked.succeeded().stdout;
    assert!(lines.contains("compatible\n") && lines.contains("  tools\n") && lines.contains("  verdict\n"), "{lines}");
    let call = json!({"name": "count_words", "arguments": {"text": "one two\nthree"}});
    let model = world.raw_script(
        &[
            json!({"events": [{"text": "A TO"}, {"text": "DO here"}]}),
            json!({"events": [{"tool_call": call}], "stop": "tool_use"}),
            json!({"events": [{"text": "All is done."}]}),
        ]
        .map(|line| line.to_string())
        .join("\n"),
    );
    for isolation in ["process", "thread"] {
        let args = ["-p", "x", "--mode", "json", "--model", &model, "--isolation", isolation, "-e", package];
        let run = world.pi(&args);
        assert_eq!(run.succeeded().events_of("stream_verdict").len(), 1, "{isolation}: {}\n{}", run.stdout, run.stderr);
        for expected in ["3 words", "All is done."] {
            assert!(
                run.stdout.contains(expected),
                "{isolation}: {expected:?} is not in\n{}\n{}",
                run.stdout,
                run.stderr
            );
        }
    }
}

/// Writes a package around a component.
fn package(world: &World, name: &str, component: &Path) -> String {
    let manifest = json!({"name": name, "version": "1.0.0", "pi": {"extensions": ["./guest.wasm"]}});
    world.write(&format!("{name}/package.json"), manifest.to_string());
    let folder = world.path().join(name);
    fs::copy(component, folder.join("guest.wasm")).expect("copied");
    folder.display().to_string()
}

#[test]
fn the_template_of_init_builds_and_runs() {
    let world = World::new();
    let init = support::run(world.program(env!("CARGO_BIN_EXE_extc"), &["init", "words", "--wasm"]));
    assert!(init.succeeded().stderr.contains("rustup target add wasm32-wasip2"), "{}", init.stderr);
    let folder = world.project().join("words");
    let Some(component) = built(&folder, "extension") else { return };
    fs::copy(component, folder.join("extension.wasm")).expect("copied");
    counts_and_stops(&world, "words");
}

#[test]
fn a_rust_port_of_pi_ttsr_behaves_like_pi_ttsr() {
    let source = PathBuf::from(fixture("guests/ttsr"));
    let Some(component) = built(&source, "ttsr") else { return };
    let world = World::new();
    world.rule("no-old-sdk", r#"trigger: "from ['\"]@old-sdk/"  # imports"#, "Use @new-sdk instead.");
    world.rule("no-sigh", "trigger: '^sigh$'\nflags: i\nmaxFirings: 2", "Be cheerful.");
    world.rule("broken", "trigger: '('", "Never.");
    for file in ["package.json", "extension.json"] {
        world.write(&format!("ttsr/{file}"), fs::read(source.join(file)).expect("a file of the guest"));
    }
    fs::copy(component, world.path().join("ttsr/ttsr.wasm")).expect("copied");
    let model = world.script(&[
        &["import x fr", "om '@old", "-sdk/core'; more"],
        &["So:\nSI", "GH\nand on"],
        &["import x from '@old-sdk/core'\nsigh", "\n"],
        &["sigh\n"],
    ]);
    let session = |extension: &str| {
        let run = world.pi(&["-p", "x", "--mode", "json", "--model", &model, "-e", extension]);
        let verdicts: Vec<Value> = run.succeeded().events_of("stream_verdict");
        let verdicts: Vec<Value> =
            verdicts.iter().map(|verdict| json!([verdict["attempt"], verdict["offset"], verdict["action"]])).collect();
        let broken = run.stderr.lines().filter(|line| line.contains("broken.md")).count();
        (verdicts, broken, run)
    };
    let (expected, reported, original) = session(&pi_ttsr());
    let ttsr = world.path().join("ttsr").display().to_string();
    let (verdicts, broken, ported) = session(&ttsr);
    assert_eq!(expected.len(), 3, "{}\n{}", original.stdout, original.stderr);
    assert_eq!(verdicts, expected, "{}\n{}", ported.stdout, ported.stderr);
    assert!(reported > 0 && broken > 0, "{}\n{}", original.stderr, ported.stderr);
    let said = |text: &str| ported.stdout.contains(text);
    assert!(said("[TTSR RULE: no-old-sdk]") && said("Use @new-sdk instead."), "{}", ported.stdout);
}

#[test]
fn a_guest_in_c() {
    if !runs("wit-bindgen", &["--version"]) {
        return skipped("there is no wit-bindgen: cargo install wit-bindgen-cli");
    }
    let compilers: [&[&str]; 3] = [&["zig", "cc"], &["python3", "-m", "ziglang", "cc"], &["clang"]];
    let compiler = compilers.into_iter().find(|command| runs(command[0], &[&command[1..], &["--version"]].concat()));
    let Some(compiler) = compiler else { return skipped("there is neither zig nor clang: pip install ziglang") };
    let world = World::new();
    let folder = world.path().join("c");
    fs::create_dir_all(&folder).expect("a folder");
    let wit = fixture("../schema/wit");
    done(Command::new("wit-bindgen").args(["c", &wit, "--world", "extension"]).current_dir(&folder));
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["--target=wasm32-wasi", "-mexec-model=reactor", "-O2"]).current_dir(&folder);
    command.args([&fixture("guests/c/guest.c"), "extension.c", "extension_component_type.o", "-o", "c.wasm"]);
    done(command.arg("-I.").env("ZIG_GLOBAL_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("zig")));
    counts_and_stops(&world, &package(&world, "guest-c", &folder.join("c.wasm")));
}

#[test]
fn a_guest_in_javascript() {
    if std::env::var_os("PIJS_LONG").is_none() {
        return skipped("the guest in JavaScript takes minutes: PIJS_LONG=1");
    }
    if !cfg!(target_arch = "x86_64") || !runs("node", &["--version"]) {
        return skipped("there is no Node for x64");
    }
    let world = World::new();
    let folder = world.path().join("javascript");
    fs::create_dir_all(&folder).expect("a folder");
    if !laid_out(&folder) {
        return;
    }
    for file in ["guest.js", "build.mjs"] {
        fs::copy(fixture(&format!("guests/javascript/{file}")), folder.join(file)).expect("copied");
    }
    let wit = fixture("../schema/wit/extension.wit");
    done(Command::new("node").args(["build.mjs", &wit, "guest.wasm"]).current_dir(&folder));
    counts_and_stops(&world, &package(&world, "guest-js", &folder.join("guest.wasm")));
}

/// Lays out the packages of `fixtures/guests/javascript/lock.json`; returns `false` if they are not available.
fn laid_out(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    if std::env::var_os("PIJS_CONFORMANCE_OFFLINE").is_some() {
        return false;
    }
    let lock = fs::read_to_string(fixture("guests/javascript/lock.json")).expect("a lock file");
    let lock: Value = serde_json::from_str(&lock).expect("JSON");
    let depot = TarballCache::open(Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest-tarballs"), NpmConfig::default());
    let depot = depot.expect("an https client");
    let text = |package: &Value, member: &str| package[member].as_str().expect("a text").to_owned();
    let unpacked = tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        for package in lock["packages"].as_array().expect("packages") {
            let within = package["in"].as_str().map(|within| folder.join("node_modules").join(within));
            let pinned = PinnedPackage {
                name: text(package, "name"),
                version: text(package, "version"),
                integrity: text(package, "integrity"),
            };
            depot.unpack(&[pinned], within.as_deref().unwrap_or(folder)).await?;
        }
        Ok::<(), pijs_packages::PackageError>(())
    });
    match unpacked {
        // The files of npm packages have lost their permission bits here.
        Ok(()) => {
            let wizer = folder.join("node_modules/@bytecodealliance/wizer-linux-x64/wizer");
            fs::set_permissions(wizer, fs::Permissions::from_mode(0o755)).expect("a program");
            true
        }
        Err(error) if matches!(error.code, InstallCode::Io | InstallCode::Timeout) => {
            skipped("the npm registry cannot be reached");
            false
        }
        Err(error) => panic!("{error}"),
    }
}
