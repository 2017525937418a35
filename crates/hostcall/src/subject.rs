//! The capability that a call needs, and its subject.

use crate::variables::{Variable, VariableEffect, digest_of};
use pijs_programs::input::{InputUse, input_use, makes_input_code};
use pijs_protocol::Capability;
use serde_json::Value;
use std::fmt;

/// The capability that a call needs, and its subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Required<'a> {
    /// The capability key.
    pub capability: &'static str,
    /// The subject, matched against scopes.
    pub subject: Subject<'a>,
    /// Whether the call only reveals the kind of the file at a path.
    pub is_probe: bool,
}

impl<'a> Required<'a> {
    /// Creates the requirement of a call that is not a probe.
    pub fn new(capability: &'static str, subject: Subject<'a>) -> Self {
        Self { capability, subject, is_probe: false }
    }

    /// Returns the capability key as the protocol's type.
    pub fn capability(&self) -> Capability {
        Capability::new(self.capability)
    }
}

/// The subject of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject<'a> {
    /// No subject that a scope could restrict.
    None,
    /// An open resource (a file, a program, a request), decided when it was opened; or a call without an external resource, such
    /// as a database in memory or the name of this machine.
    Handle,
    /// One or two paths.
    Paths(PathUse<'a>, Option<PathUse<'a>>),
    /// A program.
    Program {
        /// Name or path, as given.
        command: &'a str,
        /// Arguments, verbatim.
        args: Vec<&'a str>,
        /// Working folder.
        cwd: Option<&'a str>,
        /// Environment and input.
        given: ProgramContext<'a>,
    },
    /// A network host.
    Host {
        /// `http`, `https` or `tcp`.
        scheme: &'static str,
        /// Parsed by the WHATWG rules: lower case, without a trailing dot.
        host: String,
        /// Port; the scheme's default is filled in.
        port: u16,
    },
    /// Environment variables.
    Names(Vec<&'a str>),
    /// A tool whose effects are unknown.
    Tool(&'a str),
    /// A tool of an MCP server, its prompts or its resources.
    Mcp {
        /// `SERVER/TOOL`, `SERVER/@prompts` or `SERVER/@resources`.
        target: &'a str,
        /// Arguments of the tool call; absent for prompts and resources.
        arguments: Option<&'a Value>,
    },
    /// A file, or text of the extension, that is compiled while the extension runs.
    Code {
        /// Path of the file; empty for text.
        path: &'a str,
        /// Length of the code in bytes.
        bytes: u64,
        /// `sha256:HEX` of the code.
        digest: &'a str,
    },
}

/// The environment and the input of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramContext<'a> {
    /// Variables, sorted by name.
    pub variables: Vec<Variable<'a>>,
    /// Whether this is the extension's own environment, rather than one made for the program. Variables that no grant permits are
    /// then left out instead of refused.
    pub is_inherited: bool,
    /// Standard input.
    pub input: Input,
}

impl ProgramContext<'_> {
    /// Returns the variables that change the program's behaviour and are part of the prompt.
    pub fn asked(&self) -> impl Iterator<Item = &Variable<'_>> {
        let is_asked =
            |variable: &&Variable<'_>| variable.effect != VariableEffect::Harmless && !self.can_be_left_out(variable);
        self.variables.iter().filter(is_asked)
    }

    /// Returns what a program with these variables does with its input. Variables that steer it may make it execute the input.
    pub fn input_use(&self, command: &str, args: &[&str]) -> InputUse {
        let decides = |variable: &Variable<'_>| match variable.effect {
            VariableEffect::Harmless => false,
            // Folders that an extension adds are removed.
            _ if variable.name == "PATH" => false,
            VariableEffect::Open => makes_input_code(variable.name, variable.value),
            VariableEffect::Steering => true,
        };
        let least = if self.variables.iter().any(decides) { InputUse::Unusual } else { InputUse::Data };
        least.max(input_use(command, args))
    }

    /// Returns whether the program can start without a variable that no grant permits; an empty variable counts as unset.
    pub fn can_be_left_out(&self, variable: &Variable<'_>) -> bool {
        self.is_inherited || variable.value.is_empty()
    }
}

/// Standard input of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Input {
    /// No input, or plain data.
    #[default]
    Data,
    /// Code that the program runs.
    Program {
        /// Beginning of the text, for display.
        start: String,
        /// Length of the code in bytes.
        bytes: usize,
        /// `sha256:HEX` of the code.
        digest: String,
    },
    /// Code that the program receives after its start, and runs.
    Later,
}

impl Input {
    /// Number of displayed characters of an input.
    const SHOWN: usize = 300;

    /// Any code, which no answer about an input covers.
    pub const UNKNOWN: Self = Self::Program { start: String::new(), bytes: 0, digest: String::new() };

    /// Describes an input that a program executes.
    pub fn program(bytes: &[u8]) -> Self {
        let start: String = String::from_utf8_lossy(bytes).chars().take(Self::SHOWN).collect();
        Self::Program { start, bytes: bytes.len(), digest: digest_of(bytes) }
    }
}

/// A path and the access to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathUse<'a> {
    /// Read or write.
    pub access: Access,
    /// The path as the caller wrote it.
    pub path: &'a str,
    /// Rules for resolving the path.
    pub form: PathForm<'a>,
}

/// The rules for resolving a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathForm<'a> {
    /// Like Node: relative to the working folder.
    Node,
    /// Like pi's tools: a leading `@` is dropped, `~` is the home folder.
    Tool,
    /// Target of a link: relative to the folder that contains `link`.
    TargetOf(&'a str),
}

/// The kind of access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reads content or metadata.
    Read,
    /// Reveals the kind of the file and nothing else.
    Look,
    /// Changes content, names or attributes.
    Write,
    /// Connects to a socket at the path.
    Speak,
    /// Creates a folder, or a file at a path without one. An existing file is changed only if [`Access::Write`] is allowed, too;
    /// the connector ensures that ([`Permit::only_new`](crate::Permit::only_new)).
    Make,
}

impl Access {
    /// Returns the capability that governs the access.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Read | Self::Look => "read",
            Self::Write | Self::Speak | Self::Make => "write",
        }
    }
}

/// Maximum length in bytes of the variables before a program; longer ones follow it.
const MAX_VARIABLES: usize = 1000;

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None | Self::Handle => Ok(()),
            Self::Paths(first, None) => write!(f, "'{}'", first.path),
            Self::Paths(first, Some(second)) if first.path == second.path => write!(f, "'{}'", first.path),
            Self::Paths(first, Some(second)) => write!(f, "'{}' -> '{}'", first.path, second.path),
            Self::Program { command, args, given, .. } => {
                let asked = given.asked().map(|variable| format!("{}={} ", variable.name, variable.shown_value()));
                let variables: String = asked.collect();
                // Many variables must not move the program out of sight.
                let (before, after) =
                    if variables.len() > MAX_VARIABLES { ("", &*variables) } else { (&*variables, "") };
                f.write_str(before)?;
                for (at, word) in std::iter::once(command).chain(args).enumerate() {
                    let space = if at == 0 { "" } else { " " };
                    if pijs_programs::is_plain_word(word) {
                        write!(f, "{space}{word}")?;
                    } else {
                        write!(f, "{space}{word:?}")?;
                    }
                }
                if after.is_empty() { Ok(()) } else { write!(f, " with {}", after.trim_end()) }
            }
            Self::Host { scheme, host, port } => write!(f, "{scheme}://{host}:{port}"),
            Self::Names(names) => f.write_str(&names.join(", ")),
            Self::Tool(name) => write!(f, "tool {name:?}"),
            Self::Mcp { target, arguments } => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@".contains(c);
                if target.chars().all(is_plain) {
                    f.write_str(target)?
                } else {
                    write!(f, "{target:?}")?
                }
                arguments.map_or(Ok(()), |arguments| write!(f, " {arguments}"))
            }
            Self::Code { path: "", bytes, digest } => write!(f, "code made of text ({bytes} bytes, {digest})"),
            Self::Code { path, bytes, digest } if path.contains('\'') => {
                write!(f, "{path:?} ({bytes} bytes, {digest})")
            }
            Self::Code { path, bytes, digest } => write!(f, "'{path}' ({bytes} bytes, {digest})"),
        }
    }
}
