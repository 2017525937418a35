//! Tests with a build worker that is compromised by its input and reports false inputs.

use pijs_artifact::{decode, encode};
use pijs_extc::{BuildOptions, Input, Seal, build};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// The argument with which a build starts its worker.
const WORKER: &str = "--pijs-build-worker";
/// The file that it omits from its inputs.
const UNSAID: &str = "other.ts";

/// Compiles as a build worker and omits an input of the artifact. Returns `None` in any other process.
pub(crate) fn enter() -> Option<ExitCode> {
    if std::env::args().nth(1).is_none_or(|argument| argument != WORKER) {
        return None;
    }
    let request: Value = serde_json::from_slice(&message_part()).expect("a request");
    let root = request["package"]["root"].as_str().expect("a folder");
    let mut artifact =
        decode(&compiled(Path::new(root)).encoded().expect("it was built")).expect("the artifact was just compiled");
    artifact.metadata.inputs.remove(UNSAID).expect("it was compiled");
    let head = json!({ "Done": { "Built": [] } }).to_string();
    let mut out = std::io::stdout().lock();
    for part in [head.as_bytes(), &encode(&artifact)] {
        out.write_all(&(part.len() as u64).to_le_bytes()).expect("a parent that reads");
        out.write_all(part).expect("a parent that reads");
    }
    Some(ExitCode::SUCCESS)
}

fn message_part() -> Vec<u8> {
    let mut input = std::io::stdin().lock();
    let mut length = [0; 8];
    input.read_exact(&mut length).expect("a length");
    let mut part = vec![0; usize::try_from(u64::from_le_bytes(length)).expect("a request")];
    input.read_exact(&mut part).expect("a request");
    part
}

fn compiled(root: &Path) -> pijs_extc::BuildOutput {
    build(&Input::at(root), &BuildOptions::default()).expect("it builds")
}

/// B24: grants are bound to the files that the parent served, regardless of the worker's claims.
pub(crate) fn a_build_worker_is_not_believed() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("index.ts", "import { work } from './other';\nexport default () => work();\n");
    write(UNSAID, "export const work = () => {};\n");
    assert!(compiled(folder.path()).metadata().inputs.contains_key(UNSAID));
    let options = BuildOptions { sealed: Some(Seal::default()), ..BuildOptions::default() };
    match build(&Input::at(folder.path()), &options) {
        Ok(built) => {
            assert!(!built.metadata().inputs.contains_key(UNSAID), "the worker of this test lies");
            false
        }
        Err(failure) => failure.to_string().contains("returned a different artifact"),
    }
}

/// B04: a folder of dependencies that was replaced by a link between its selection and the build is not read.
#[cfg(unix)]
pub(crate) fn a_root_that_leads_elsewhere_by_then_is_not_read() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().canonicalize().expect("there").join(name);
    for made in ["package", "notes/theirs"] {
        std::fs::create_dir_all(at(made)).expect("made");
    }
    std::fs::write(at("notes/theirs/data.json"), "{}").expect("written");
    std::fs::write(at("package/index.ts"), "import data from 'theirs/data.json';\nexport default () => data;\n")
        .expect("written");
    std::os::unix::fs::symlink(at("notes"), at("node_modules")).expect("made");
    let input = Input::at(at("package")).with_dependencies(vec![at("node_modules")]);
    build(&input, &BuildOptions::default()).is_err()
}
