//! The error of realm creation.

use std::fmt;

/// An error that prevents the creation of a realm, or an argument that a realm cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineError {
    message: String,
}

impl EngineError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine: {}", self.message)
    }
}

impl std::error::Error for EngineError {}
