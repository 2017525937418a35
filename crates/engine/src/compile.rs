//! Source to bytecode.

use pijs_protocol::artifact::EngineBuild;
use std::fmt;

/// One ES module to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleSource<'a> {
    /// Name it will be imported by; embedded in the bytecode.
    pub specifier: &'a str,
    /// JavaScript, as an ES module.
    pub source: &'a str,
}

/// A module that the engine cannot parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// Which module.
    pub specifier: String,
    /// 1-based line in its source; 0 when the engine named none.
    pub line: u32,
    /// 1-based column; 0 when the engine named none.
    pub column: u32,
    /// What the engine said.
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.specifier, self.line, self.column, self.message)
    }
}

impl std::error::Error for CompileError {}

/// The engine that this process runs; part of every MAC and of every cache key.
pub fn engine_build() -> EngineBuild {
    unimplemented!()
}

/// Compiles ES modules to bytecode, in the order given; imports are taken as external.
pub fn compile(modules: &[ModuleSource<'_>]) -> Result<Vec<Vec<u8>>, CompileError> {
    let _ = modules;
    unimplemented!()
}
