//! Tests artifacts as input: the output of a build is compiled again from its sources, and behaves like the original.

mod support;

use pijs_artifact::{Artifact, decode, digest, encode};
use pijs_extc::{BuildFailure, BuildOptions, BuildOutput, Cache, CheckOptions, Code, Input, build, check};
use std::fs;
use std::path::{Path, PathBuf};
use support::run;
use tempfile::TempDir;

/// A package with two entries that share no module, a separate chunk, a name that no host module has, and an error.
const FILES: &[(&str, &str)] = &[
    ("package.json", r#"{ "name": "two", "version": "1.2.3", "pi": { "extensions": ["a.ts", "b.ts"] } }"#),
    (
        "a.ts",
        "import { noSuchCall, sep } from 'node:path';\nimport type { ExtensionAPI } from '@earendil-works/pi-coding-agent';\n\
         export default async function (pi: ExtensionAPI) {\n  const late = await import('./late');\n  \
         console.log('a', late.word, typeof noSuchCall, sep);\n  pi.registerCommand('greet', { description: 'hi', handler: async () => { await pi.exec('git', []); } });\n}\n",
    ),
    ("late.ts", "export const word: string = 'late';\n"),
    ("b.ts", "type Never = never;\nexport default () => {\n  throw new Error('b is broken');\n};\n"),
];

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { folder: TempDir::new().expect("a temporary folder") };
        for (name, text) in FILES {
            lab.write(&format!("package/{name}"), text.as_bytes());
        }
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    /// Builds the package.
    fn built(&self) -> BuildOutput {
        build(&Input::at(self.path("package")), &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds the artifact with these bytes.
    fn again(&self, bytes: &[u8], options: &BuildOptions) -> Result<BuildOutput, BuildFailure> {
        self.write("out/extension.artifact", bytes);
        build(&Input::at(self.path("out")), options)
    }

    /// Builds the artifact after a change, with matching digests.
    fn changed(&self, change: impl FnOnce(&mut Artifact)) -> Result<BuildOutput, BuildFailure> {
        let mut artifact = self.built().artifact.artifact().clone();
        change(&mut artifact);
        self.again(&encode(&artifact), &BuildOptions::default())
    }
}

fn code(result: Result<BuildOutput, BuildFailure>) -> Option<Code> {
    result.err().map(|failure| failure.diagnostics()[0].code())
}

#[test]
fn an_artifact_behaves_like_its_sources() {
    let lab = Lab::new();
    let built = lab.built();
    let bytes = built.encoded().unwrap().clone();
    let here = run(built.artifact, &lab.path("package"), &[]);
    assert_eq!(here.lines, ["a late undefined /"]);
    assert_eq!(here.failures.len(), 1, "{:?}", here.failures);
    let again = lab.again(&bytes, &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(here.failures[0].contains("(b.ts:3:"), "{:?}", here.failures);
    assert_eq!(run(again.artifact, &lab.path("out"), &[]), here);
}

#[test]
fn an_artifacts_metadata_are_claims_and_its_input_is_the_file() {
    let lab = Lab::new();
    let built = lab.built();
    let again =
        lab.again(&built.encoded().unwrap(), &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let (claimed, metadata) = (built.metadata(), again.metadata());
    assert_eq!((metadata.name.as_str(), metadata.version.as_str()), ("two", "1.2.3"));
    assert_eq!(metadata.inputs, [("extension.artifact".to_owned(), digest(&built.encoded().unwrap()))].into());
    assert_eq!(metadata.capabilities, claimed.capabilities);
    assert_eq!(metadata.offers, claimed.offers);
    assert_eq!(metadata.host_imports, claimed.host_imports);
    assert_eq!(metadata.findings, claimed.findings);
    let forged = lab.changed(|artifact| {
        artifact.metadata.name = format!("\u{1b}[2J{}", "x".repeat(1_000));
        artifact.metadata.capabilities.capabilities.clear();
        artifact.metadata.inputs = claimed.inputs.clone();
        artifact.metadata.findings[0].message = "\u{1b}[31mfine".to_owned();
    });
    let forged = forged.unwrap_or_else(|error| panic!("{error}")).metadata();
    assert!(forged.capabilities.capabilities.is_empty());
    assert_eq!(forged.inputs.keys().collect::<Vec<_>>(), ["extension.artifact"]);
    assert!(!forged.name.contains('\u{1b}') && forged.name.len() < 300, "{}", forged.name);
    assert!(!forged.findings[0].message.contains('\u{1b}'), "{}", forged.findings[0].message);
}

#[test]
fn bytecode_and_engine_of_an_artifact_are_ignored() {
    let lab = Lab::new();
    let honest =
        lab.again(&lab.built().encoded().unwrap(), &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let again = lab.changed(|artifact| {
        artifact.metadata.engine.version = "0.0.1".to_owned();
        for module in &mut artifact.modules {
            module.bytecode = Some(vec![0xff; 64].into());
        }
        // The consuming program generates facades, so they are left out.
        artifact.modules.retain(|module| module.specifier.starts_with("ext:/"));
    });
    let again = again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.artifact.artifact().modules, honest.artifact.artifact().modules);
    assert_eq!(again.metadata().engine, honest.metadata().engine);
}

#[test]
fn a_cached_build_is_the_same_until_the_file_changes() {
    let lab = Lab::new();
    let bytes = lab.built().encoded().unwrap();
    let here = lab.again(&bytes, &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let cache = Cache::open(lab.path("cache"), pijs_artifact::InstallKey::from_bytes([7; 32]));
    let options = BuildOptions { cache: Some(cache), ..BuildOptions::default() };
    for cached in [false, true] {
        let built = lab.again(&bytes, &options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((built.cached, built.encoded().unwrap() == here.encoded().unwrap()), (cached, true));
    }
    let changed = lab.changed(|artifact| artifact.metadata.version = "2.0.0".to_owned());
    assert_ne!(changed.expect("it builds").metadata().inputs, here.metadata().inputs);
}

#[test]
fn artifacts_that_no_build_produces_are_refused() {
    let lab = Lab::new();
    let add = |specifier: &'static str, source: &'static str| {
        move |artifact: &mut Artifact| {
            let module = pijs_artifact::Module {
                source: source.to_owned(),
                specifier: specifier.to_owned(),
                ..artifact.modules[0].clone()
            };
            artifact.modules.push(module);
        }
    };
    assert_eq!(code(lab.changed(add("pi:runtime", ""))), Some(Code::Artifact));
    assert_eq!(code(lab.changed(add("ext:/2/index.js", ""))), Some(Code::Artifact));
    assert_eq!(code(lab.changed(add("ext:/0/more.js", "import 'pi:engine';"))), Some(Code::Escape));
    assert_eq!(code(lab.changed(add("ext:/0/more.js", "export * from 'ext:/1/index.js';"))), Some(Code::Escape));
    assert_eq!(code(lab.changed(add("ext:/0/more.js", "import 'node:there-is-none';"))), Some(Code::Artifact));
    assert_eq!(code(lab.changed(add("ext:/0/more.js", "let = ;"))), Some(Code::Syntax));
    assert_eq!(code(lab.changed(|artifact| artifact.metadata.entries.clear())), Some(Code::Artifact));
    let deep = |artifact: &mut Artifact| artifact.modules[0].source = "[".repeat(100_000);
    assert_eq!(code(lab.changed(deep)), Some(Code::Limit));
    // An artifact holds whole extensions.
    lab.write("out/more.ts", b"export default () => {};");
    let both = vec!["more.ts".into(), "extension.artifact".into()];
    assert_eq!(
        code(build(&Input::at(lab.path("out")).with_entries(both), &BuildOptions::default())),
        Some(Code::Entry)
    );
}

#[test]
fn a_damaged_artifact_is_an_error_not_a_panic() {
    let lab = Lab::new();
    let bytes = lab.built().encoded().unwrap();
    for length in (0..bytes.len()).step_by(211) {
        assert_eq!(code(lab.again(&bytes[..length], &BuildOptions::default())), Some(Code::Artifact), "{length}");
        let mut flipped = bytes.clone();
        flipped[length] ^= 0x20;
        assert_eq!(code(lab.again(&flipped, &BuildOptions::default())), Some(Code::Artifact), "byte {length}");
    }
    // A malformed map is treated as data, not as an error.
    for map in ["", "{}", r#"{"version":3,"sources":[],"names":[],"mappings":"AAgggggggggB"}"#] {
        let built =
            lab.changed(|artifact| artifact.modules.iter_mut().for_each(|it| it.source_map = Some(map.to_owned())));
        let ran = run(built.unwrap_or_else(|error| panic!("{error}")).artifact, &lab.path("out"), &[]);
        assert_eq!(ran.failures.len(), 1, "{map}");
    }
}

#[test]
fn an_artifact_file_and_its_folder_are_equal_inputs() {
    let lab = Lab::new();
    let bytes = lab.built().encoded().unwrap();
    let folder = lab.again(&bytes, &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let at = |path: &Path| build(&Input::at(path), &BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(at(&lab.path("out/extension.artifact")).encoded().unwrap(), folder.encoded().unwrap());
    lab.write("named/two.artifact", &bytes);
    assert_eq!(at(&lab.path("named/two.artifact")).metadata().inputs.len(), 1);
    let checked = check(&Input::at(lab.path("out")), &CheckOptions::default());
    assert_eq!(checked.metadata.expect("it builds").name, "two");
    assert_eq!(checked.diagnostics.len(), folder.diagnostics.len());
    assert!(decode(&folder.encoded().unwrap()).is_ok());
}
