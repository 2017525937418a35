//! `env`: environment variables.

use super::exec::strings;
use super::{CallParam, CallReader, hostcalls};
use crate::HostcallError;
use serde_json::Value;

hostcalls! {
    /// A call of `env`.
    EnvCall = "env" {
        /// Returns the values of variables.
        "get" => Get { names: VariableNames },
    }
}

/// Names of environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableNames(pub Vec<String>);

impl CallParam for VariableNames {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let Some(Value::Array(names)) = reader.take(key) else { return Err(reader.wrong(key, "an array of strings")) };
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0', '*']);
        match names.iter().find(|name| !name.as_str().is_some_and(is_name)) {
            Some(other) => Err(reader.invalid(&format!("{other} is not a variable name"))),
            None => strings(names).map(Self).ok_or_else(|| reader.wrong(key, "an array of strings")),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}: string[]")
    }
}
