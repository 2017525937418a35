//! `exec`: programs.

use super::{CallData, CallParam, CallReader, hostcalls};
use crate::{HostcallError, guard};
use serde_json::Value;
use std::collections::BTreeMap;

hostcalls! {
    /// A call of `exec`. An op with a `pid` refers to a program of the same extension, except `alive`.
    ExecCall = "exec" {
        /// Runs a program to its end. `api` names the function of pi that the extension called.
        "" => Run {
            program as "": ProgramParams, input: Option<CallData>, timeout: Option<u64>, max_buffer as "maxBuffer": Option<u64>,
            encoding: Option<String>, stream: bool, api: Option<String>,
        },
        /// Returns whether a process exists. The answer reveals neither owner nor purpose, and every program of the system can
        /// query it.
        "alive" => Alive { pid: u64 },
        /// Ends the input of a program.
        "end" => End { pid: u64 },
        /// Sends a signal to a program, or to its process group.
        "kill" => Kill { pid: u64, signal: KillSignal, group: bool },
        /// Starts a program.
        "spawn" => Spawn { program as "": ProgramParams, stdin: StdinPipe },
        /// Streams the output of a program until it ends.
        "wait" => Wait { pid: u64, timeout: Option<u64> },
        /// Writes to the input of a program.
        "write" => Write { pid: u64, data: CallData },
    }
}

/// A program with its arguments, folder and environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramParams {
    /// Name or path of the program.
    pub command: String,
    /// Arguments, verbatim.
    pub args: Vec<String>,
    /// Working folder.
    pub cwd: Option<String>,
    /// Environment that replaces the usual one.
    pub env: Option<BTreeMap<String, String>>,
    /// Whether the environment is the extension's own, rather than made for this program.
    pub inherits: bool,
}

impl CallParam for ProgramParams {
    fn read(reader: &mut CallReader<'_>, _: &str) -> Result<Self, HostcallError> {
        let args = match reader.take_present("args") {
            None => Vec::new(),
            Some(Value::Array(args)) => strings(args).ok_or_else(|| reader.invalid("`args` holds a non-string"))?,
            Some(_) => return Err(reader.wrong("args", "an array of strings")),
        };
        let cwd = CallParam::read(reader, "cwd")?;
        let command = String::read(reader, "command")?;
        let env = environment(reader)?;
        Ok(Self { command, args, cwd, env, inherits: CallParam::read(reader, "inherits")? })
    }

    fn declaration(_: &str) -> String {
        "command: string; args?: string[] | undefined; cwd?: string | null | undefined; \
         env?: Record<string, string> | null | undefined; inherits?: boolean | undefined"
            .to_owned()
    }
}

/// Returns all items as strings; `None` if an item is not a string.
pub(super) fn strings(items: Vec<Value>) -> Option<Vec<String>> {
    let text = |item| match item {
        Value::String(text) => Some(text),
        _ => None,
    };
    items.into_iter().map(text).collect()
}

fn environment(reader: &mut CallReader<'_>) -> Result<Option<BTreeMap<String, String>>, HostcallError> {
    let members = match reader.take_present("env") {
        None => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(reader.wrong("env", "an object")),
    };
    let mut env = BTreeMap::new();
    for (name, value) in members {
        let Value::String(value) = value else { return Err(reader.wrong(&format!("env.{name}"), "a string")) };
        if value.contains('\0') {
            return Err(reader.wrong(&format!("env.{name}"), "a string"));
        }
        let is_unreadable = name.contains(|c: char| c.is_whitespace() || c.is_control() || "\"'`#".contains(c));
        if name.is_empty() || name.contains(['=', '\0']) || (is_unreadable && guard!(ExecVariableNames)) {
            return Err(reader.invalid(&format!("{name:?} is not a variable name")));
        }
        env.insert(name, value);
    }
    Ok(Some(env))
}

/// Whether the program has an input that `write` feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdinPipe(pub bool);

impl CallParam for StdinPipe {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        match Option::<String>::read(reader, key)?.as_deref() {
            None => Ok(Self(false)),
            Some("pipe") => Ok(Self(true)),
            Some(other) => Err(reader.invalid(&format!("`{key}` is {other:?}, not \"pipe\""))),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: \"pipe\" | null | undefined")
    }
}

/// The signal of `kill`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KillSignal {
    /// The default, `SIGTERM`.
    Default,
    /// A signal by name.
    Name(String),
    /// A signal by number; 0 sends nothing.
    Number(u64),
}

impl CallParam for KillSignal {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let wrong = |reader: &CallReader<'_>| reader.wrong(key, "a signal's name or number");
        match reader.take_present(key) {
            None => Ok(Self::Default),
            Some(Value::String(name)) => Ok(Self::Name(name)),
            Some(value) => value.as_u64().map(Self::Number).ok_or_else(|| wrong(reader)),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: string | number | null | undefined")
    }
}
