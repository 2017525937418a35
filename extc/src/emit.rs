//! Emit: linked source to bytecode.
//!
//! The engine compiles in a separate context, the only one with `eval`. Source that it refuses has already passed two parsers,
//! so the engine lacks a feature; the refusal is reported at the author's line.

use pijs_artifact::Module;
use pijs_engine::{CompileError, ModuleSource};

/// Fills in the bytecode of every module, compiled under its own specifier.
pub(crate) fn compile_modules(modules: &mut [Module]) -> Result<(), CompileError> {
    let sources: Vec<ModuleSource<'_>> =
        modules.iter().map(|module| ModuleSource { specifier: &module.specifier, source: &module.source }).collect();
    let bytecode = pijs_engine::compile(&sources)?;
    for (module, bytecode) in modules.iter_mut().zip(bytecode) {
        module.bytecode = Some(bytecode.into());
    }
    Ok(())
}
