//! Replaces `component` in a program that is built without the feature `wasm`.

use crate::compiled::Compiled;
use crate::options::BuildOptions;
use crate::package::Package;
use crate::tree::SourceTree;
use pijs_artifact::{Artifact, Module};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic};
use pijs_protocol::artifact::ArtifactMetadata;

pub(crate) fn compile(package: &Package, tree: SourceTree, _options: &BuildOptions) -> Result<Compiled, BuildFailure> {
    Err(refused(&tree.name_of(&package.entries[0])).into())
}

pub(crate) fn compile_again(_module: &Module, _known: ArtifactMetadata, file: &str) -> Result<Artifact, Diagnostic> {
    Err(refused(file))
}

fn refused(file: &str) -> Diagnostic {
    Diagnostic::new(Code::Component, "this program was built without WebAssembly components")
        .help("build it with the feature `wasm`")
        .in_file(file)
}
