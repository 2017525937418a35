//! A position in the source of an extension, and its relation to an output of a replay.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in the source of an extension, and how it relates to an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    /// Path inside the package.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// Relation of the position to the output.
    pub of: Relation,
}

/// Relation of a source position to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The code at the position made the output.
    Statement,
    /// The code at the position threw the error that is the output.
    Thrown,
    /// The output was made in the function that is registered at the position; the exact statement is unknown.
    Function,
    /// The output was made after a timer fired or a call was answered; the code at the position had armed the timer or made the
    /// call.
    After,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, of } = self;
        let relation = match of {
            Relation::Statement => "at",
            Relation::Thrown => "thrown at",
            Relation::Function => "in the function registered at",
            Relation::After => "in the code that waited for",
        };
        write!(f, "{relation} {file}:{line}:{column}")
    }
}
