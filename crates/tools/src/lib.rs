//! The built-in tools of the model: read, bash, edit, write, grep, find, ls.
//!
//! Each tool has its own file, with pi's input and details. Tools work on a [`ToolSystem`], so they do not depend on the
//! operating system; [`system::OsToolSystem`] implements it for the machine. [`validate`] coerces arguments to a schema as pi
//! does. [`call_order`] orders concurrent calls.

#![warn(missing_docs)]

mod bash;
pub mod call_order;
mod convert;
pub mod edit;
mod explain;
mod find;
mod grep;
mod ls;
mod read;
pub mod system;
pub mod truncate;
pub mod validate;
mod walk;
pub mod words;
mod write;

use crate::system::ToolSystem;
use pijs_connectors::fs::system_error;
use pijs_llm::message::Block;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use tokio_util::sync::CancellationToken;

pub use read::image_type;

/// Built-in tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Builtin {
    /// Reads a file.
    Read,
    /// Runs a command line.
    Bash,
    /// Runs a command line on Windows.
    Powershell,
    /// Replaces parts of a file.
    Edit,
    /// Writes a file.
    Write,
    /// Searches in files.
    Grep,
    /// Searches file names.
    Find,
    /// Lists a directory.
    Ls,
}

impl Builtin {
    /// All tools, in the order in which the model sees them.
    pub const ALL: [Self; 8] =
        [Self::Read, Self::Bash, Self::Powershell, Self::Edit, Self::Write, Self::Grep, Self::Find, Self::Ls];
    /// Tools that are active by default.
    pub const DEFAULT: [Self; 4] = [Self::Read, Self::Bash, Self::Edit, Self::Write];

    /// Returns the name that the model uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Bash => "bash",
            Self::Powershell => "powershell",
            Self::Edit => "edit",
            Self::Write => "write",
            Self::Grep => "grep",
            Self::Find => "find",
            Self::Ls => "ls",
        }
    }

    /// Returns the tool with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Runs the tool on validated input. An error is the text that the model receives.
    pub async fn run(self, context: &mut ToolContext<'_>, input: Value) -> Result<ToolOutput, String> {
        match self {
            Self::Read => read::run(context, parse(input)?).await,
            Self::Bash => bash::run(context, parse(input)?).await,
            // pi's message. PiJS does not run on Windows yet.
            Self::Powershell => Err("The powershell tool is only available on Windows.".to_owned()),
            Self::Edit => edit::run(context, parse(input)?).await,
            Self::Write => write::run(context, parse(input)?).await,
            Self::Grep => grep::run(context, parse(input)?).await,
            Self::Find => find::run(context, parse(input)?).await,
            Self::Ls => ls::run(context, parse(input)?).await,
        }
    }
}

fn parse<T: DeserializeOwned>(input: Value) -> Result<T, String> {
    // A `tool_call` handler may have changed the input since it was validated.
    serde_json::from_value(input).map_err(|error| format!("invalid tool input: {error}"))
}

/// The environment of a built-in tool.
pub struct ToolContext<'a> {
    /// Files and the shell.
    pub system: &'a dyn ToolSystem,
    /// Base of relative paths.
    pub cwd: &'a Path,
    /// Cancels the tool.
    pub cancel: CancellationToken,
    /// Data about the session that the tool uses.
    pub about: SessionFacts,
    /// Id of the tool call, after which files stored next to the result are named.
    pub tool_call_id: &'a str,
    /// Receives partial results.
    pub on_update: &'a mut (dyn FnMut(Value) + Send + Sync),
}

impl ToolContext<'_> {
    /// Resolves a path given by the model against the working directory and the home folder.
    fn path(&self, given: &str) -> PathBuf {
        let given = given.strip_prefix('@').unwrap_or(given);
        match (given.strip_prefix('~'), self.system.home()) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            _ => self.cwd.join(given),
        }
    }
}

/// Returns a path for display, without `.` and `..`.
fn shown(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain.display().to_string()
}

/// Formats an I/O error as Node does: `ENOENT: no such file or directory, access '/w/x'`.
fn refused(error: &std::io::Error, call: &str, path: Option<&Path>) -> String {
    let (code, words) = system_error(error);
    match path {
        Some(path) => format!("{code}: {words}, {call} '{}'", shown(path)),
        None => format!("{code}: {words}, {call}"),
    }
}

/// Converts a count given by the model.
fn to_count(number: f64) -> usize {
    // As in JavaScript, the fraction is dropped.
    number.max(0.0) as usize
}

/// Formats a number as JavaScript does.
fn number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{}", number as i64) } else { format!("{number}") }
}

/// Returns a JSON number; an integer if it has no fraction.
fn json_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { (number as i64).into() } else { number.into() }
}

/// A number of lines that means no limit: `Number.MAX_SAFE_INTEGER` of JavaScript.
const NO_LIMIT: usize = (1 << 53) - 1;

/// Appends notes in brackets below a result.
fn with_notes(mut text: String, notes: &[String]) -> String {
    if !notes.is_empty() {
        text.push_str(&format!("\n\n[{}]", notes.join(". ")));
    }
    text
}

/// Data about the session for built-in tools.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    /// Environment variables for command lines; an empty value removes a variable.
    pub variables: BTreeMap<String, String>,
    /// Whether the model is known not to accept images.
    pub blind: bool,
}

/// The result of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Content blocks for the model, as JSON because extensions may return anything. `null` means none.
    pub content: Value,
    /// Details for the user and extensions.
    pub details: Option<Value>,
    /// Whether the run may end after this tool.
    pub terminate: bool,
    /// Usage of models that the tool called, in pi's format.
    pub usage: Option<Value>,
    /// Other members of the result, which only `tool_execution_end` shows.
    pub rest: Map<String, Value>,
    /// Error message if the tool returned nothing at all; handlers are not notified of such a failure.
    pub unread: Option<String>,
}

impl ToolOutput {
    fn text(text: impl Into<String>) -> Self {
        Self { content: json!([Block::text(text)]), ..Self::default() }
    }

    fn with_details(mut self, details: Value) -> Self {
        // pi omits empty details.
        self.details = Some(details).filter(|details| details.as_object().is_none_or(|members| !members.is_empty()));
        self
    }
}

#[cfg(test)]
mod tests;
