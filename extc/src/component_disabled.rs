//! Replaces `component` in a program that is built without the feature `wasm`.

use crate::build::{BuildOptions, Compiled, name_of};
use crate::diagnostics::{BuildFailure, Code, Diagnostic};
use crate::resolve::Package;
use crate::tree::SourceTree;
use pijs_artifact::{Artifact, Module};
use pijs_protocol::artifact::ArtifactMetadata;

pub(crate) fn compile(package: &Package, tree: SourceTree, _options: &BuildOptions) -> Result<Compiled, BuildFailure> {
    Err(refused(&name_of(&tree, &package.entries[0])).into())
}

pub(crate) fn compile_again(_module: &Module, _known: ArtifactMetadata, file: &str) -> Result<Artifact, Diagnostic> {
    Err(refused(file))
}

fn refused(file: &str) -> Diagnostic {
    Diagnostic::new(Code::Component, "this program was built without WebAssembly components")
        .help("build it with the feature `wasm`")
        .in_file(file)
}
