//! Tests the resolution of specifiers, and the rejection of invalid bytecode.

use crate::support::{Guest, Sources, artifact, verified};
use pijs_engine::{ModuleSource, compile};
use pijs_protocol::wire::Limits;
use serde_json::json;
use std::sync::Arc;

const IMPORTS: Sources<'static> = &[
    ("dist/main.js", include_str!("../fixtures/guests/imports.js")),
    ("dist/lib/double.js", include_str!("../fixtures/guests/lib/double.js")),
    ("dist/lib/lazy.js", include_str!("../fixtures/guests/lib/lazy.js")),
];

#[test]
fn imports_resolve_inside_the_artifact_and_to_host_modules() {
    assert_eq!(
        Guest::new(IMPORTS).ask("run", &[]),
        json!({
            "joined": "a/b",
            "names": ["default", "join", "sep"],
            "doubled": 42,
            "lazy": 8,
            "url": "pijs:///dist/main.js",
            "ready": "top level await",
        })
    );
}

#[test]
fn everything_else_is_refused_with_the_importing_place() {
    let mut modules: Vec<(String, Option<Vec<u8>>)> = artifact(IMPORTS)
        .artifact()
        .modules
        .iter()
        .map(|module| (module.specifier.clone(), module.bytecode.as_deref().map(<[u8]>::to_vec)))
        .collect();
    modules.push(("dist/lib/uncompiled.js".to_owned(), None));
    let other = compile(&[ModuleSource { specifier: "other.js", source: "" }]).expect("parses").remove(0);
    modules.push(("dist/lib/renamed.js".to_owned(), Some(other)));
    let mut guest = Guest::of(verified(modules), "dist/main.js", Limits::default());
    let refused = guest.ask("refused", &[]);
    let expected = [
        ("pi:engine", "engine's own"),
        ("./missing.js", "not in the artifact"),
        ("../outside.js", "not in the artifact"),
        ("https://example.org/x.js", "never fetched"),
        ("/etc/passwd", "outside the package"),
        ("left-pad", "neither a host module nor in the artifact"),
        ("dist/lib/uncompiled.js", "was not compiled"),
        ("dist/lib/renamed.js", "compiled as 'other.js'"),
    ];
    for (index, (specifier, words)) in expected.iter().enumerate() {
        let said = refused[index].as_str().expect("a reason");
        assert!(said.starts_with("ERR_MODULE_NOT_FOUND: Cannot "), "{said}");
        assert!(said.contains(specifier) && said.contains(words), "{said}");
    }
    for said in refused.as_array().expect("a list").iter().take(6) {
        assert!(said.as_str().is_some_and(|text| text.contains("dist/main.js")), "{said}");
    }
}

#[test]
fn only_imported_modules_are_loaded() {
    let broken = compile(&[ModuleSource { specifier: "other", source: "" }]).expect("parses").remove(0);
    let entry = compile(&[ModuleSource { specifier: "main.js", source: "export const run = () => 1;" }]);
    let modules = [
        ("main.js".to_owned(), Some(entry.expect("parses").remove(0))),
        ("never-imported.js".to_owned(), Some(broken)),
    ];
    assert_eq!(Guest::of(verified(modules), "main.js", Limits::default()).ask("run", &[]), 1);
}

/// Loaded bytecode is authenticated, so the engine's checksum would only cost time.
#[test]
fn the_checksum_of_bytecode_is_not_compared() {
    let source = "export const run = () => 'before';";
    let mut bytecode = compile(&[ModuleSource { specifier: "main.js", source }]).expect("parses").remove(0);
    let at = bytecode.windows(6).position(|bytes| bytes == b"before").expect("the text is in the bytecode");
    bytecode[at..at + 6].copy_from_slice(b"edited");
    let modules = [("main.js".to_owned(), Some(bytecode))];
    assert_eq!(Guest::of(verified(modules), "main.js", Limits::default()).ask("run", &[]), "edited");
}

#[test]
fn an_extension_cannot_stand_in_for_a_host_module() {
    let mut guest = Guest::new(&[
        ("main.js", "import { join } from 'node:path'; export const run = () => join('a', 'b');"),
        ("node:path", "export const join = () => 'forged';"),
    ]);
    assert_eq!(guest.ask("run", &[]), "a/b");
}

#[test]
fn a_facade_gives_undefined_for_names_that_a_host_module_lacks() {
    let facade = "export * from 'node:path'; export { default } from 'node:path'; export let missing;";
    let mut guest =
        Guest::new(&[("main.js", include_str!("../fixtures/guests/facade.js")), ("pijs:facade/node:path", facade)]);
    assert_eq!(guest.ask("run", &[]), json!(["function", "x/y", "undefined"]));
}

#[test]
fn one_artifact_serves_many_realms() {
    let shared = artifact(IMPORTS);
    for _ in 0..3 {
        let mut guest = Guest::of(Arc::clone(&shared), "dist/main.js", Limits::default());
        assert_eq!(guest.ask("run", &[])["doubled"], 42);
    }
}
