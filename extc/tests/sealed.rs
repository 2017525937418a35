//! Tests builds in a sandboxed child: it produces the same bytes and reaches nothing outside, and its death fails one build only.
//!
//! `harness = false`, since the child runs this program again.

use libtest_mimic::{Arguments, Failed, Trial};
use pijs_extc::{BuildOptions, Code, FileAccess, FileEvidence, Input, Seal, build};
use pijs_hostcall::Places;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    pijs_extc::worker::enter();
    let trials = vec![
        Trial::test("a_sealed_build_gives_the_same_bytes", || same_bytes().map_err(Failed::from)),
        Trial::test("a_component_is_compiled_alike", || component().map_err(Failed::from)),
        Trial::test("what_manifests_say_of_their_files_is_the_same", || manifests().map_err(Failed::from)),
        Trial::test("files_are_refused_and_read_as_in_any_build", || access().map_err(Failed::from)),
        Trial::test("errors_come_back_whole", || errors().map_err(Failed::from)),
        Trial::test("a_build_that_takes_too_long_is_stopped", || too_long().map_err(Failed::from)),
        Trial::test("a_killed_build_fails_and_the_next_one_succeeds", || killed().map_err(Failed::from)),
    ];
    // Runs one test at a time, because the killing test kills any child of this process.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/packages")
}

fn sealed() -> BuildOptions {
    BuildOptions { sealed: Some(Seal::default()), ..BuildOptions::default() }
}

fn same_bytes() -> Result<(), String> {
    for package in ["pi-ttsr", "greets-cjs"] {
        let input = Input::at(fixtures().join(package)).with_dependencies(vec![fixtures().join("npm")]);
        let here = build(&input, &BuildOptions::default()).map_err(|error| error.to_string())?;
        let there = build(&input, &sealed()).map_err(|error| error.to_string())?;
        if here.encoded().unwrap() != there.encoded().unwrap() || here.diagnostics != there.diagnostics {
            return Err(format!("{package}: a sealed build gives something else"));
        }
        // Uses the built folder as input.
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        std::fs::write(folder.path().join("extension.artifact"), here.encoded().unwrap())
            .map_err(|error| error.to_string())?;
        let input = Input::at(folder.path());
        let here = build(&input, &BuildOptions::default()).map_err(|error| error.to_string())?;
        let there = build(&input, &sealed()).map_err(|error| error.to_string())?;
        if here.encoded().unwrap() != there.encoded().unwrap() || here.diagnostics != there.diagnostics {
            return Err(format!("{package}: a sealed build of its artifact gives something else"));
        }
    }
    Ok(())
}

fn component() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let text = include_str!("../../fixtures/guests/text/verdict.wat");
    let file = folder.path().join("verdict.wasm");
    std::fs::write(&file, pijs_wasm::text::core_module(text)).map_err(|error| error.to_string())?;
    let here = build(&Input::at(&file), &BuildOptions::default()).map_err(|error| error.render(false))?;
    let there = build(&Input::at(&file), &sealed()).map_err(|error| error.render(false))?;
    let encoded = |built: &pijs_extc::BuildOutput| pijs_artifact::encode(built.artifact.artifact());
    if encoded(&here) == encoded(&there) { Ok(()) } else { Err("a sealed build gives something else".to_owned()) }
}

/// Checks that the bundler learns the module kind and the side effects of a file, which its manifest declares.
fn manifests() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    let mut index = String::new();
    let kinds = ["", r#", "type": "module""#, r#", "type": "commonjs""#];
    let effects = ["", r#", "sideEffects": false"#, r#", "sideEffects": true"#, r#", "sideEffects": ["./b.js"]"#];
    for (at, (kind, effects)) in kinds.iter().flat_map(|kind| effects.iter().map(move |it| (kind, it))).enumerate() {
        let home = format!("node_modules/d{at}");
        write(&format!("{home}/package.json"), &format!(r#"{{"name": "d{at}", "main": "./a.js"{kind}{effects}}}"#));
        let a = match *kind {
            r#", "type": "commonjs""# => "require('./b.js');\nexports.used = 1;\nexports.unused = 2;\n",
            _ => "import './b.js';\nimport old from './old.cjs';\nexport const used = old;\nexport const unused = 2;\n",
        };
        write(&format!("{home}/a.js"), a);
        write(&format!("{home}/b.js"), &format!("globalThis.d{at} = 1;\n"));
        write(&format!("{home}/old.cjs"), "exports.__esModule = true;\nexports.default = 'old';\n");
        index.push_str(&format!(
            "import {{ used as u{at} }} from 'd{at}';\nimport 'd{at}/b.js';\nconsole.log(u{at});\n"
        ));
    }
    write("package.json", r#"{"name": "it", "type": "module"}"#);
    write("index.ts", &format!("{index}export default () => {{}};\n"));
    let here = build(&Input::at(folder.path()), &BuildOptions::default()).map_err(|error| error.render(false))?;
    let there = build(&Input::at(folder.path()), &sealed()).map_err(|error| error.render(false))?;
    if here.encoded().unwrap() == there.encoded().unwrap() {
        Ok(())
    } else {
        Err("a sealed build gives something else".to_owned())
    }
}

/// Checks a loose file in a home: its imports in the project are compiled, and protected files are refused.
fn access() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let home = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(home.join(name).parent().expect("a folder")).expect("made");
        std::fs::write(home.join(name), text).expect("written");
    };
    write("project/lib.ts", "export const lib = 1;\n");
    write("project/secrets.json", "{}");
    write(".pi/agent/auth.json", "{}");
    let places = Places::new(home.join("project"), &home, home.join(".pi/agent"), home.join("tmp"));
    let both = |source: &str| {
        write("tools/x.ts", source);
        let options = |options: BuildOptions| BuildOptions { access: FileAccess::new(places.clone()), ..options };
        [BuildOptions::default(), sealed()].map(|base| build(&Input::at(home.join("tools/x.ts")), &options(base)))
    };
    match both(
        "import { lib } from '../project/lib';\nimport s from '../project/secrets.json';\nexport default () => [lib, s];\n",
    ) {
        [Ok(here), Ok(there)]
            if here.encoded().unwrap() == there.encoded().unwrap() && here.evidence == there.evidence =>
        {
            let secrets = here.evidence.get(&home.join("project/secrets.json"));
            if here.evidence.len() != 2 || secrets != Some(&FileEvidence::Read { secrets: true }) {
                return Err(format!("evidence: {:?}", here.evidence));
            }
        }
        other => return Err(format!("{other:?}")),
    }
    match both("import s from '../.pi/agent/auth.json';\nexport default () => s;\n") {
        [Err(here), Err(there)] if here.render(false) == there.render(false) => {
            let code = here.diagnostics()[0].code();
            if code == Code::Escape { Ok(()) } else { Err(here.render(false)) }
        }
        other => Err(format!("{other:?}")),
    }
}

fn package(source: &str) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    std::fs::write(folder.path().join("index.ts"), source).map_err(|error| error.to_string())?;
    let manifest = r#"{"name":"it","version":"1.0.0","pi":{"extensions":["./index.ts"]}}"#;
    std::fs::write(folder.path().join("package.json"), manifest).map_err(|error| error.to_string())?;
    Ok(folder)
}

fn errors() -> Result<(), String> {
    let folder = package("export default () => {\n  const = 1;\n};\n")?;
    let here = build(&Input::at(folder.path()), &BuildOptions::default()).expect_err("not TypeScript");
    let there = build(&Input::at(folder.path()), &sealed()).expect_err("not TypeScript");
    if here.render(false) != there.render(false) {
        return Err(format!("in the process:\n{}\nsealed:\n{}", here.render(false), there.render(false)));
    }
    Ok(())
}

fn too_long() -> Result<(), String> {
    let folder = package("export default () => {};\n")?;
    let seal = Seal { deadline: Duration::ZERO, ..Seal::default() };
    let options = BuildOptions { sealed: Some(seal), ..BuildOptions::default() };
    let failure = build(&Input::at(folder.path()), &options).expect_err("the time limit is zero");
    if failure.first().code() != Code::Limit {
        return Err(failure.to_string());
    }
    Ok(())
}

/// Kills the child at random points, `PIJS_KILLS` times (a few by default; nightly 200).
fn killed() -> Result<(), String> {
    let rounds: usize = std::env::var("PIJS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let input = Input::at(fixtures().join("pi-ttsr"));
    let whole = build(&input, &sealed()).map_err(|error| error.to_string())?.encoded().unwrap();
    for round in 0..rounds {
        // Spreads the kills over the duration of a build. Both outcomes are valid, so no clock decides the test.
        let pause = Duration::from_millis((round as u64 * 37) % 400);
        let worker = std::thread::spawn({
            let input = input.clone();
            move || build(&input, &sealed()).map(|output| output.encoded().unwrap())
        });
        std::thread::sleep(pause);
        kill_children();
        match worker.join().map_err(|_| "a build panicked".to_owned())? {
            Ok(bytes) if bytes == whole => {}
            Ok(_) => return Err(format!("killed after {pause:?}: other bytes")),
            Err(failure) if failure.first().code() == Code::Limit => {}
            Err(failure) => return Err(format!("killed after {pause:?}: {failure}")),
        }
    }
    let after = build(&input, &sealed()).map_err(|error| error.to_string())?.encoded().unwrap();
    if after == whole { Ok(()) } else { Err("the next build gives other bytes".to_owned()) }
}

/// Kills the build workers that are children of this process.
fn kill_children() {
    let me = std::process::id().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1).map(str::to_owned));
        if parent.as_deref() == Some(&me)
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}
