//! Compiled scopes, which restrict a capability to paths, hosts, commands or names.
//!
//! Patterns are compiled once, when a grant is set. A missing list does not restrict; an empty list allows nothing. Names are
//! matched in absolute, normalised form; the file connector matches again with the path that it reached.
//!
//! Paths, hosts and commands are matched in a file each; variables and tools are matched here.

mod commands;
mod hosts;
mod paths;

pub use commands::Command;
pub(crate) use commands::{command_with_any_rest, exact_command};
pub(crate) use hosts::{RAW, is_near, is_near_inside, literal};
pub(crate) use paths::escaped_path;

use crate::places::Places;
use commands::CommandPattern;
use hosts::{HostPattern, compile_host};
use paths::{PathPattern, compile_path};
use pijs_protocol::manifest::Scope;
use std::path::Path;

/// A compiled scope.
#[derive(Debug, Clone, Default)]
pub struct CompiledScope {
    paths: Option<Vec<PathPattern>>,
    hosts: Option<Vec<HostPattern>>,
    env: Option<Vec<String>>,
    commands: Option<Vec<CommandPattern>>,
    /// Tools of MCP servers, or tools of unknown effect. No pattern covers a tool of unknown effect; only a user's answer does.
    tools: Option<Vec<String>>,
}

/// An error in a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeError {
    /// The invalid pattern.
    pub pattern: String,
    /// Description of the problem.
    pub problem: String,
}

impl std::fmt::Display for ScopeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scope pattern {:?}: {}", self.pattern, self.problem)
    }
}

impl std::error::Error for ScopeError {}

impl CompiledScope {
    /// Compiles a scope for one extension.
    pub fn compile(scope: Option<&Scope>, places: &Places, package_root: Option<&Path>) -> Result<Self, ScopeError> {
        let Some(scope) = scope else { return Ok(Self::default()) };
        let paths = match &scope.paths {
            None => None,
            Some(patterns) => {
                let mut compiled = Vec::new();
                for pattern in patterns {
                    compiled.extend(compile_path(pattern, places, package_root)?);
                }
                Some(compiled)
            }
        };
        let hosts = match &scope.hosts {
            None => None,
            Some(patterns) => Some(patterns.iter().map(|pattern| compile_host(pattern)).collect::<Result<_, _>>()?),
        };
        let own = package_root.filter(|root| **root != places.project && root.starts_with(&places.project));
        let empty = package_root.and_then(|root| places.server_folder(root));
        let parse = |command: &String| CommandPattern::parse(command, places, own, empty.as_deref());
        let commands = |commands: &Vec<String>| commands.iter().filter_map(parse).collect();
        let commands = scope.commands.as_ref().map(commands);
        Ok(Self { paths, hosts, env: scope.env.clone(), commands, tools: scope.tools.clone() })
    }

    /// Creates a scope of exactly this tool.
    pub(crate) fn exactly_tool(name: &str) -> Self {
        Self { tools: Some(vec![name.to_owned()]), ..Self::default() }
    }

    /// Returns whether the scope covers a tool of unknown effect.
    pub(crate) fn tool(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|known| known == name))
    }

    /// Returns whether the scope covers a target of an MCP server: by its name, or with the whole server.
    pub(crate) fn mcp(&self, target: &str) -> bool {
        let covers = |pattern: &String| {
            let server = pattern.strip_suffix('*').filter(|server| server.ends_with('/'));
            pattern == target || server.is_some_and(|server| target.starts_with(server))
        };
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(covers))
    }

    /// Returns whether the scope covers an environment variable.
    pub fn env(&self, name: &str) -> bool {
        self.env.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }
}

#[cfg(test)]
mod tests;
