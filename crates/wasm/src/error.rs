//! Error of loading a component.

use std::fmt;

/// The error of loading a component, described in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmError {
    message: String,
}

impl WasmError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for WasmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WasmError {}
