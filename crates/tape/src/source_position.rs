//! A position in the source of an extension, and its relation to an output of a replay.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in the source of an extension, and how it is related to an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    /// Path inside the package.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// 1-based.
    pub column: u32,
    /// How it is related to the output.
    pub of: Relation,
}

/// How a position in the source is related to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The code at the position made the output.
    Statement,
    /// The code at the position threw the error that is the output.
    Thrown,
    /// The output came from the function that is registered at the position; where inside is not known.
    Function,
    /// The output came after the code at the position, which had armed a timer or made a call.
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
