//! Tests the `extc` program: files, output and exit codes. Standard output and error are pipes.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A package, a separate home, and a folder for output.
struct Lab {
    folder: TempDir,
}

struct Finished {
    code: i32,
    out: String,
    err: String,
}

impl Lab {
    fn with(files: &[(&str, &str)]) -> Self {
        let lab = Self { folder: TempDir::new().expect("a temporary folder") };
        for (file, text) in files {
            let path = lab.path("package").join(file);
            fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the folder can be made");
            fs::write(path, text).expect("the file can be written");
        }
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `extc` in the lab's folder, with a home and a cache there.
    fn extc(&self, arguments: &[&str]) -> Finished {
        let output = Command::new(env!("CARGO_BIN_EXE_extc"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.path("home"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .stdin(Stdio::null())
            .output()
            .expect("extc starts");
        let text = |bytes| String::from_utf8(bytes).expect("extc writes UTF-8");
        Finished {
            code: output.status.code().expect("extc ends by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Finished {
    #[track_caller]
    fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "\n{}\n{}", self.out, self.err);
        self
    }

    /// Returns standard output, which must be exactly one JSON document.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}", self.out))
    }
}

const GOOD: &[(&str, &str)] = &[
    ("package.json", r#"{ "name": "good", "version": "1.2.3", "pi": { "extensions": ["a.ts", "b.ts"] } }"#),
    (
        "a.ts",
        "import { readFileSync } from 'node:fs';\nexport default (pi: any) => {\n  \
         pi.on('stream_text', () => undefined);\n  pi.exec('git', ['log']);\n  readFileSync('x');\n};\n",
    ),
    ("b.ts", "export default () => {};\n"),
];

const WARNED: &[(&str, &str)] = &[("index.ts", "export default () => { try { require('not-there'); } catch {} };\n")];
const BLOCKED: &[(&str, &str)] =
    &[("index.ts", "import { Worker } from \"node:worker_threads\";\nexport default () => new Worker(\"./w.js\");\n")];
const BROKEN: &[(&str, &str)] = &[("index.ts", "const = 1;\n")];

#[test]
fn build_writes_both_files_and_the_same_ones_each_time() {
    let lab = Lab::with(GOOD);
    let first = lab.extc(&["build", "package", "-o", "one"]).code(0);
    assert_eq!(first.out, "");
    assert!(first.err.contains("good 1.2.3: 2 modules"), "{}", first.err);
    lab.extc(&["build", "./package/", "--out", "two"]).code(0);
    lab.extc(&["build", "package", "-o", "three", "--no-cache"]).code(0);
    let files = |folder: &str| {
        let read = |name: &str| fs::read(lab.path(folder).join(name)).expect("build wrote it");
        (read("extension.artifact"), read("artifact.json"))
    };
    assert!(files("one") == files("two") && files("two") == files("three"));
    let mut written: Vec<_> = fs::read_dir(lab.path("one")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    written.sort();
    assert_eq!(written, ["artifact.json", "extension.artifact"]);

    let metadata: Value = serde_json::from_slice(&files("one").1).unwrap();
    assert_eq!(metadata["entries"], serde_json::json!(["a.ts", "b.ts"]));
    assert_eq!(metadata["host_imports"], serde_json::json!({ "node:fs": ["readFileSync"] }));
    let digest = lab.extc(&["inspect", "one/extension.artifact", "--json"]).code(0).json()["artifact"].clone();
    assert_eq!(metadata["artifact"], digest, "artifact.json names another file");
}

#[test]
fn the_second_build_comes_from_the_cache_and_says_so() {
    let lab = Lab::with(GOOD);
    assert!(!lab.extc(&["build", "package"]).code(0).err.contains("unchanged"));
    assert!(lab.extc(&["build", "package"]).code(0).err.contains("unchanged"));
    assert!(!lab.extc(&["build", "package", "--no-cache"]).code(0).err.contains("unchanged"));
}

#[test]
fn exit_codes_tell_what_happened() {
    for (files, check, strict) in [(GOOD, 0, 0), (WARNED, 0, 0), (BLOCKED, 0, 3), (BROKEN, 1, 1)] {
        let lab = Lab::with(files);
        lab.extc(&["check", "package"]).code(check);
        lab.extc(&["check", "package", "--strict"]).code(strict);
        lab.extc(&["check", "package", "--strict", "--json"]).code(strict).json();
        lab.extc(&["build", "package", "-o", "out"]).code(check);
        assert_eq!(lab.path("out").exists(), check == 0, "a failed build wrote something");
    }
    // The built artifact cannot be loaded, and a check reports that.
    let lab = Lab::with(&[("index.ts", "export default {};\n")]);
    let checked = lab.extc(&["check", "package"]).code(1);
    assert!(checked.out.contains("cannot be loaded") && checked.err.contains("index.ts:1:16"), "{}", checked.err);
    lab.extc(&["check", "package", "--strict"]).code(3);
    // Blocked if the factory throws unconditionally, but not if it throws only in some cases.
    let helper = "const set = (it) => { it.registerTol({}); };\n";
    for (body, code) in [
        ("pi.registerTol({});", 1),
        ("const other = pi; if (other.getFlag('x')) { other.on('input', () => {}); } other.registerTol({});", 1),
        ("set(pi);", 1),
        ("await pi.exec('x', []); pi.registerTol({});", 1),
        ("pi.registerTool({ name: 'x', parameters: 'none' });", 1),
        ("if (pi.registerTol({})) {}", 1),
        ("if (pi.getFlag('x')) pi.registerTol({});", 0),
        ("if (pi.getFlag('x')) return; pi.registerTol({});", 0),
        ("pi.on('input', () => pi.registerTol({}));", 0),
        ("pi.getFlag('x') && pi.registerTol({});", 0),
        ("for (const x of []) set(pi);", 0),
        ("try { pi.registerTol({}); } catch {}", 0),
        ("pi.registerTol?.({});", 0),
    ] {
        let source = format!("{helper}export default async function (pi) {{ {body} }}\n");
        let lab = Lab::with(&[("index.ts", &source)]);
        let checked = lab.extc(&["check", "package"]);
        let is_blocked = checked.out.contains(": blocked: it cannot be loaded");
        assert_eq!((checked.code, is_blocked), (code, code != 0), "{body}: {} {}", checked.out, checked.err);
        assert!(code == 0 || body.contains("none") || checked.err.contains("did you mean `registerTool`?"), "{body}");
        // A build reports the same as a check, and always writes its output.
        let built = lab.extc(&["build", "package", "-o", "out"]).code(code);
        assert_eq!(built.err.lines().last(), checked.out.lines().next(), "{body}");
        lab.extc(&["build", "package", "--json"]).code(code).json();
        lab.extc(&["check", "out"]).code(code);
    }
    let lab = Lab::with(GOOD);
    for wrong in [&["build"][..], &["build", "a", "b"], &["melt", "package"], &["check", "package", "--fast"], &[]] {
        let finished = lab.extc(wrong).code(2);
        assert!(finished.err.contains("Usage") && finished.out.is_empty(), "{wrong:?}: {}", finished.err);
    }
    lab.extc(&["build", "nowhere"]).code(1);
    lab.extc(&["inspect", "package/a.ts"]).code(1);
    assert!(lab.extc(&["inspect", "package"]).code(1).err.contains("package/extension.artifact"));
    let missing = lab.extc(&["inspect", "missing"]).code(1).err;
    assert!(missing.starts_with("missing: No such file") && missing.contains("extension.artifact, or"), "{missing}");
    // The output folder is an existing file.
    assert!(lab.extc(&["build", "package", "-o", "package/a.ts"]).code(1).err.contains("package/a.ts"));
}

#[test]
fn json_mode_prints_only_json() {
    for files in [GOOD, WARNED, BLOCKED, BROKEN] {
        let lab = Lab::with(files);
        let built = lab.extc(&["build", "package", "--json"]);
        let checked = lab.extc(&["check", "package", "--json"]);
        assert_eq!((built.err.as_str(), checked.err.as_str()), ("", ""));
        let diagnostics = checked.json()["diagnostics"].as_array().expect("a list").len();
        if built.code == 0 {
            assert_eq!(built.json()["schema"], "pi.ext.artifact.v1");
            assert_eq!(built.json()["findings"].as_array().expect("a list").len(), diagnostics);
        } else {
            assert_eq!(built.json()["diagnostics"], checked.json()["diagnostics"]);
        }
    }
    let lab = Lab::with(BROKEN);
    let error = lab.extc(&["check", "package", "--json"]).json()["diagnostics"][0].clone();
    let part = |name: &str| error[name].clone();
    assert_eq!((part("code"), part("severity")), ("BD_SYNTAX".into(), "error".into()));
    assert_eq!((part("file"), part("line"), part("column")), ("index.ts".into(), 1.into(), 7.into()));
}

#[test]
fn inspect_shows_header_hashes_capabilities_and_modules() {
    let lab = Lab::with(GOOD);
    lab.extc(&["build", "package", "-o", "out"]).code(0);
    let shown = lab.extc(&["inspect", "out/extension.artifact"]).code(0);
    assert_eq!(shown.err, "");
    for expected in [
        "good 1.2.3\n",
        "engine     quickjs",
        "sha256:",
        "verdict    compatible",
        "entries    a.ts, b.ts",
        "  exec             git\n",
        "  verdict\n",
        "a.ts                             sha256:",
        "ext:/0/index.js",
        "ext:/1/index.js",
        "of bytecode",
    ] {
        assert!(shown.out.contains(expected), "{expected:?} is not in\n{}", shown.out);
    }
    assert_eq!(lab.extc(&["inspect", "out"]).code(0).out, shown.out, "the folder is as good as the file");
    assert!(lab.extc(&["check", "out"]).code(0).out.starts_with("good 1.2.3: compatible"));
    lab.extc(&["build", "out", "-o", "again"]).code(0);
    let json = lab.extc(&["inspect", "out/extension.artifact", "--json"]).code(0).json();
    assert_eq!(json["modules"][1]["specifier"], "ext:/1/index.js");
    assert_eq!(json["metadata"]["name"], "good");

    let path = lab.path("out/extension.artifact");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = lab.extc(&["inspect", "out/extension.artifact"]).code(1);
    assert!(refused.out.is_empty() && refused.err.contains("out/extension.artifact: "), "{}", refused.err);
}

#[test]
fn an_extension_to_start_from_is_checked_and_runs() {
    let lab = Lab::with(&[]);
    let written = lab.extc(&["init", "my-extension"]).code(0);
    assert!(written.err.contains("extc check my-extension"), "{}", written.err);
    let checked = lab.extc(&["check", "my-extension"]).code(0);
    assert!(checked.out.starts_with("my-extension 0.1.0: compatible\n"), "{}", checked.out);
    assert!(checked.out.contains("  tools\n") && checked.out.contains("  verdict\n"), "{}", checked.out);
    let script = [
        r#"{"events": [{"text": "A TO"}, {"text": "DO here"}]}"#,
        r#"{"events": [{"tool_call": {"name": "count_words", "arguments": {"text": "one two"}}}], "stop": "tool_use"}"#,
        r#"{"events": [{"text": "All is done."}]}"#,
    ];
    fs::write(lab.path("reply.jsonl"), script.join("\n")).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pi"));
    command.args(["-p", "write", "--mode", "json", "--model", "script:reply.jsonl", "-ne", "-e", "my-extension"]);
    command.current_dir(lab.folder.path()).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command.env("HOME", lab.path("home")).env("XDG_CACHE_HOME", lab.path("cache")).env("PIJS_WORDS", "own");
    let output = command.output().expect("pi starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for expected in ["stream_verdict", "2 words", "All is done."] {
        assert!(out.contains(expected), "{expected:?} is not in\n{out}\n{err}");
    }
    // Existing files are not replaced.
    let again = lab.extc(&["init", "my-extension"]).code(1);
    assert!(again.err.contains("package.json: it exists already"), "{}", again.err);
}

#[test]
fn a_component_to_start_from_names_what_builds_it() {
    let lab = Lab::with(&[]);
    let written = lab.extc(&["init", "other", "--wasm"]).code(0);
    for expected in ["src/lib.rs", "cargo build --release --target wasm32-wasip2", "rustup target add wasm32-wasip2"] {
        assert!(written.err.contains(expected), "{expected:?} is not in\n{}", written.err);
    }
    let world = fs::read_to_string(lab.path("other/wit/extension.wit")).expect("the interface");
    assert_eq!(world, include_str!("../../../schema/wit/extension.wit"));
    assert!(fs::read_to_string(lab.path("other/package.json")).expect("a manifest").contains("\"name\": \"other\""));
    // Before the component is built, a check names the missing file.
    let checked = lab.extc(&["check", "other"]).code(1);
    assert!(checked.err.contains("extension.wasm"), "{}", checked.err);
    assert!(lab.extc(&["init", "other", "--wasm"]).code(1).err.contains("package.json: it exists already"));
}

#[test]
fn help_teaches() {
    let lab = Lab::with(GOOD);
    let help = lab.extc(&["--help"]).code(0);
    for expected in ["build", "check", "inspect", "Examples:", "extc build ./my-extension -o out", "Exit codes:"] {
        assert!(help.out.contains(expected), "{expected:?} is not in\n{}", help.out);
    }
    assert!(
        help.out.starts_with("Compiles pi extensions: TypeScript or JavaScript in, an artifact out"),
        "{}",
        help.out
    );
    assert!(lab.extc(&["check", "--help"]).code(0).out.contains("--strict"));
    assert!(lab.extc(&["--version"]).code(0).out.starts_with("extc "));
}

#[test]
fn a_pipe_gets_plain_text() {
    let lab = Lab::with(BROKEN);
    let failed = lab.extc(&["build", "package"]).code(1);
    assert!(failed.out.is_empty());
    assert!(!failed.err.contains('\u{1b}'), "colours in a pipe:\n{}", failed.err);
    for expected in ["BD_SYNTAX", "index.ts:1:7", "const = 1;"] {
        assert!(failed.err.contains(expected), "{expected:?} is not in\n{}", failed.err);
    }
}

#[test]
fn an_unwritable_cache_is_only_a_remark() {
    let lab = Lab::with(GOOD);
    fs::write(lab.path("cache"), "no folder").unwrap();
    let built = lab.extc(&["build", "package", "-o", "out"]).code(0);
    assert!(built.err.contains("BD_CACHE") && built.err.contains("instead"), "{}", built.err);
    assert!(lab.path("out/extension.artifact").is_file());
    assert!(Path::new(&lab.path("cache")).is_file());
    fs::remove_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home"), "no folder").unwrap();
    let built = lab.extc(&["build", "package", "-o", "again"]).code(0);
    assert!(built.err.contains("no artifact cache"), "{}", built.err);
    assert!(lab.path("again/extension.artifact").is_file());
}

#[test]
fn files_with_keys_are_not_compiled_in() {
    let lab =
        Lab::with(&[("index.ts", "import keys from '../home/.pi/agent/auth.json';\nexport default () => keys;\n")]);
    fs::create_dir_all(lab.path("home/.pi/agent")).expect("made");
    fs::write(lab.path("home/.pi/agent/auth.json"), r#"{"key": "secret-key"}"#).expect("written");
    // Programs that manage settings keep the file elsewhere, and a link to it here.
    fs::write(lab.path("package/models.json"), r#"{"key": "secret-key"}"#).expect("written");
    fs::write(lab.path("package/linked.ts"), "import keys from './models.json';\nexport default () => keys;\n")
        .expect("written");
    symlink(lab.path("package/models.json"), lab.path("home/.pi/agent/models.json")).expect("a link");
    for arguments in [
        &["build", "package/index.ts", "-o", "out"][..],
        &["check", "package/index.ts"],
        &["build", "package/linked.ts", "-o", "out"],
        &["check", "package/linked.ts"],
    ] {
        let finished = lab.extc(arguments).code(1);
        assert!(finished.err.contains("BD_ESCAPE") && finished.err.contains("protected"), "{}", finished.err);
        assert!(!finished.err.contains("secret-key") && !lab.path("out").exists());
    }
}
