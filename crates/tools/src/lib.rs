//! The built-in tools: read, bash, edit, write, grep, find, ls.
//!
//! Each has a file of its own with pi's inputs and details. All of them work over a [`ToolSystem`] and know no operating
//! system; [`system::OsToolSystem`] is the machine. [`validate`] makes arguments fit a schema as pi does.

#![warn(missing_docs)]

mod bash;
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
use pijs_connectors::fs::error_words;
use pijs_llm::message::Block;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use tokio_util::sync::CancellationToken;

pub use read::image_type;

/// A built-in tool.
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
    /// All, in the order the model is told about them.
    pub const ALL: [Self; 8] =
        [Self::Read, Self::Bash, Self::Powershell, Self::Edit, Self::Write, Self::Grep, Self::Find, Self::Ls];
    /// Those that are active unless something else is asked for.
    pub const DEFAULT: [Self; 4] = [Self::Read, Self::Bash, Self::Edit, Self::Write];

    /// Name the model uses.
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

    /// The tool of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Runs the tool on validated input. An error is what the model is told.
    pub async fn run(self, context: &mut ToolContext<'_>, input: Value) -> Result<ToolOutput, String> {
        match self {
            Self::Read => read::run(context, parse(input)?).await,
            Self::Bash => bash::run(context, parse(input)?).await,
            // As pi says it; where there is a PowerShell, this program does not run yet.
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
    // A `tool_call` handler may have changed the input after validation.
    serde_json::from_value(input).map_err(|error| format!("the tool's input does not fit: {error}"))
}

/// What a built-in tool works with.
pub struct ToolContext<'a> {
    /// Files and shell.
    pub system: &'a dyn ToolSystem,
    /// Relative paths start here.
    pub cwd: &'a Path,
    /// Ends the tool.
    pub cancel: CancellationToken,
    /// What the tool may know of its session.
    pub about: About,
    /// Names what is kept beside the result.
    pub tool_call_id: &'a str,
    /// Takes partial results.
    pub on_update: &'a mut (dyn FnMut(Value) + Send + Sync),
}

impl ToolContext<'_> {
    /// A path as the model gave it, seen from the working directory and from home.
    fn path(&self, given: &str) -> PathBuf {
        let given = given.strip_prefix('@').unwrap_or(given);
        match (given.strip_prefix('~'), self.system.home()) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            _ => self.cwd.join(given),
        }
    }
}

/// A path as it is shown, without `.` and `..`.
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

/// What the system said, in Node's words: `ENOENT: no such file or directory, access '/w/x'`.
fn refused(error: &std::io::Error, call: &str, path: Option<&Path>) -> String {
    let (code, words) = error_words(error);
    match path {
        Some(path) => format!("{code}: {words}, {call} '{}'", shown(path)),
        None => format!("{code}: {words}, {call}"),
    }
}

/// Whole lines, entries or matches of a number that the model gave.
fn whole(number: f64) -> usize {
    // JavaScript cuts off what is not whole.
    number.max(0.0) as usize
}

/// A number as JavaScript writes it.
fn number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{}", number as i64) } else { format!("{number}") }
}

/// A number as JSON has it.
fn json_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { (number as i64).into() } else { number.into() }
}

/// Any number of lines, as JavaScript counts.
const ANY: usize = (1 << 53) - 1;

/// What is said below a result, if anything has to be.
fn noted(mut text: String, notes: &[String]) -> String {
    if !notes.is_empty() {
        text.push_str(&format!("\n\n[{}]", notes.join(". ")));
    }
    text
}

/// What a built-in tool may know of the session that it works in.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Variables for command lines; an empty one is taken away.
    pub variables: BTreeMap<String, String>,
    /// Whether the model is known not to see images.
    pub blind: bool,
}

/// What a tool returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Blocks for the model, as JSON: extensions return what they like. `null`: there are none.
    pub content: Value,
    /// For people and extensions.
    pub details: Option<Value>,
    /// Whether the run may end.
    pub terminate: bool,
    /// What models that the tool asked cost, in pi's form.
    pub usage: Option<Value>,
    /// Other members, which only `tool_execution_end` shows.
    pub rest: Map<String, Value>,
    /// Why it cannot be read, when the tool returned nothing at all: a failure that no handler hears of.
    pub unread: Option<String>,
}

impl ToolOutput {
    fn text(text: impl Into<String>) -> Self {
        Self { content: json!([Block::text(text)]), ..Self::default() }
    }

    fn with_details(mut self, details: Value) -> Self {
        // pi leaves empty details out.
        self.details = Some(details).filter(|details| details.as_object().is_none_or(|members| !members.is_empty()));
        self
    }
}

#[cfg(test)]
mod tests;
