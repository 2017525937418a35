//! WebAssembly components as input: the capabilities they request, and refused components.
//!
//! The components are core modules in text format, to which the tests add a WIT world as a compiler does.

use pijs_artifact::COMPONENT_SCHEME;
use pijs_extc::{BuildOptions, CheckOptions, Input, build, check};
use pijs_wasm::text;
use std::path::PathBuf;

const VERDICT: &str = include_str!("../../fixtures/guests/text/verdict.wat");

/// A folder with one file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(name: &str, bytes: &[u8]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write(name, bytes);
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

/// Returns the code and message of the only diagnostic.
#[track_caller]
fn refused(name: &str, bytes: &[u8]) -> String {
    let folder = Folder::with(name, bytes);
    let failure = build(&Input::at(folder.0.path().join(name)), &BuildOptions::default()).expect_err("it is refused");
    let [diagnostic] = failure.diagnostics() else { panic!("{failure}") };
    diagnostic.to_json().to_string()
}

#[test]
fn a_component_round_trips_through_an_artifact() {
    let folder = Folder::with("verdict.wasm", &text::core_module(VERDICT));
    folder.write(
        "package.json",
        br#"{"name": "verdicts", "version": "1.2.3", "pi": {"extensions": ["./verdict.wasm"]}}"#,
    );
    let built = build(&Input::at(folder.0.path()), &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let artifact = built.artifact.artifact();
    let module = artifact.component().expect("a component");
    assert_eq!(module.specifier, format!("{COMPONENT_SCHEME}0/verdict.wasm"));
    assert_eq!((artifact.metadata.name.as_str(), artifact.metadata.version.as_str()), ("verdicts", "1.2.3"));
    assert!(artifact.metadata.inputs.contains_key("verdict.wasm"));

    let again = Folder::with("extension.artifact", &built.encoded().unwrap());
    let rebuilt = build(&Input::at(again.0.path()), &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let rebuilt = rebuilt.artifact.artifact().component().cloned();
    assert_eq!(rebuilt.as_ref(), Some(module));
}

#[test]
fn a_check_lists_the_requested_capabilities() {
    let imports = r#"
      (import "pi:extension/fs@1.0.0" "read-file" (func (param i32 i32 i32)))
      (import "pi:extension/http@1.0.0" "fetch" (func (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32)))"#;
    let folder = Folder::with("asks.wasm", &text::core_module(&text::module(imports, "")));
    let checked = check(&Input::at(folder.0.path().join("asks.wasm")), &CheckOptions::default());
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
    let asked = checked.metadata.expect("metadata").capabilities.capabilities;
    let names: Vec<_> = asked.iter().map(|request| request.capability.as_str()).collect();
    assert_eq!(names, ["commands", "http", "read", "tools", "verdict"]);
}

#[test]
fn an_invalid_extension_is_one_line_with_a_code_and_a_hint() {
    let whole = text::core_module(VERDICT);
    let other = text::assemble(r#"(component (import "my:host/api@1.0.0" (instance (export "go" (func)))))"#);
    let foreign = text::core_module(&text::module(r#"(import "env" "launch" (func))"#, ""));
    for (bytes, words) in [
        (&whole[..whole.len() / 2], "not a valid WebAssembly file"),
        (&b"not wasm at all"[..], "not a valid WebAssembly file"),
        (&other[..], "my:host/api@1.0.0"),
        (&foreign[..], "`env` `launch`"),
    ] {
        let diagnostic = refused("bad.wasm", bytes);
        for word in ["BD_COMPONENT", "bad.wasm", "help", words] {
            assert!(diagnostic.contains(word), "{word} is missing in {diagnostic}");
        }
    }
}

#[test]
fn a_component_among_other_entries_is_refused() {
    let folder = Folder::with("a.wasm", &text::core_module(VERDICT));
    folder.write("b.ts", b"export default () => {};");
    let input = Input::at(folder.0.path()).with_entries(vec!["a.wasm".into(), "b.ts".into()]);
    let failure = build(&input, &BuildOptions::default()).expect_err("it is refused");
    assert!(failure.to_string().contains("a component among other entries"), "{failure}");
}
