//! The command `/mcp`: lists servers and their states, reconnects, enables and disables them.

use super::{McpSession, is_replaced};
use crate::mcp_config::{project_file, read, user_file};
use crate::user_error::{Result, UserError};
use pijs_durable::{Disk, Replace};
use pijs_mcp::config::{self, Exposure, Source};
use pijs_mcp::server::{Phase, Status};
use pijs_terminal::counted;
use std::path::PathBuf;

/// The command's name.
pub const NAME: &str = "mcp";
const USAGE: &str = "Usage: /mcp, /mcp reconnect|enable|disable|login|logout SERVER";

/// Returns the entry for the list of commands. Returns `None` in a session without servers, as in pi 0.87.1.
pub(super) fn listed(session: &McpSession) -> Option<(String, String)> {
    let is_there = session.loader.get().is_some_and(|loader| !is_replaced(&loader.host));
    let description = "MCP servers: list them, reconnect, enable or disable, sign in or out";
    (is_there && !session.statuses().is_empty()).then(|| (NAME.to_owned(), description.to_owned()))
}

/// Runs the command and shows the result.
pub(super) async fn run(session: &McpSession, args: &str) {
    let words: Vec<&str> = args.split_whitespace().collect();
    let notices = session.environment.notices.clone();
    let outcome = match words.as_slice() {
        [] => Ok(session.status_text()),
        ["reconnect", name] => match session.servers.reconnect(name).await {
            Ok(()) => Ok(format!("Reconnected to MCP server \"{name}\" ({}).", session.state_of(name))),
            Err(problem) => Err(problem),
        },
        ["enable", name] => session.switch(name, true),
        ["disable", name] => session.switch(name, false),
        [verb @ ("login" | "logout"), name] => {
            Err(format!("run this in another terminal: pi mcp {verb} {name}; then: /mcp reconnect {name}"))
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(text) => notices.show(&text),
        Err(problem) => notices.warn(problem),
    }
}

impl McpSession {
    fn status_text(&self) -> String {
        let mut lines: Vec<String> = self.statuses().iter().map(line).collect();
        lines.extend(self.files.borrow().1.iter().map(|problem| format!("config error: {problem}")));
        lines.join("\n")
    }

    fn state_of(&self, name: &str) -> String {
        let status = self.statuses().into_iter().find(|status| status.name == name);
        status.map_or_else(|| "gone".to_owned(), |status| format!("connected, {}", counted(status.tools.len(), "tool")))
    }

    /// Enables or disables a server: in the file that names it, or for this session if an extension registered it.
    fn switch(&self, name: &str, enabled: bool) -> std::result::Result<String, String> {
        let known = self.statuses().into_iter().find(|status| status.name == name);
        let status = known.ok_or_else(|| format!("no MCP server named \"{name}\"; /mcp lists them"))?;
        let verb = if enabled { "enabled" } else { "disabled" };
        if matches!(status.source, Source::Extension(_)) {
            self.switched.borrow_mut().insert(name.to_owned(), enabled);
            self.sync();
            return Ok(format!("MCP server {name} is {verb} for this session."));
        }
        let path = self.switch_in_file(name, &status.source, enabled).map_err(|failure| failure.said())?;
        let problems = self.reload();
        problems.iter().for_each(|problem| self.environment.notices.warn(problem));
        Ok(format!("MCP server {name} is {verb}; saved to {}.", path.display()))
    }

    /// Changes the project's file where it has an entry for the server, because that entry takes precedence.
    fn switch_in_file(&self, name: &str, source: &Source, enabled: bool) -> Result<PathBuf> {
        let project = project_file(&self.environment);
        let is_the_projects = *source == Source::Project
            || (self.has_project_file() && read(&project)?.is_some_and(|text| config::names(&text, name)));
        let path = if is_the_projects { project } else { user_file(&self.environment) };
        let text = read(&path)?.unwrap_or_default();
        let changed = config::switch(&text, name, enabled)
            .map_err(|problem| UserError::failed(format!("{}: {problem}", path.display())))?;
        Disk::system()
            .replace(&path, changed.as_bytes(), Replace::STATE)
            .map_err(|error| UserError::failed(format!("{} cannot be written: {error}", path.display())))?;
        Ok(path)
    }

    /// Returns whether the project's file is in use, which requires a trusted folder.
    fn has_project_file(&self) -> bool {
        let trust = crate::trust::Trust::read(&self.environment);
        trust.is_ok_and(|trust| trust.covers(&self.environment.dirs.cwd))
    }
}

/// Formats a server like pi.
fn line(status: &Status) -> String {
    let exposure = match status.exposure {
        Exposure::Direct => "direct",
        Exposure::Deferred => "deferred",
        Exposure::Hidden => "hidden",
    };
    let state = match status.phase {
        _ if !status.enabled => "disabled".to_owned(),
        Phase::Open => format!("connected, {}", counted(status.tools.len(), "tool")),
        Phase::Down => "disconnected, reconnects on next call".to_owned(),
        phase => phase.word().to_owned(),
    };
    let mut text = format!("{}: {state} ({exposure})", status.name);
    if let Source::Extension(extension) = &status.source {
        text.push_str(&format!(", of {extension}"));
    }
    if let Some(problem) = status.problem.as_deref().filter(|_| status.phase != Phase::Open) {
        text.push_str(&format!("\n    {problem}"));
    }
    if !status.withheld.is_empty() {
        text.push_str(&format!("\n    left out until you agree: {}", status.withheld.join(", ")));
    }
    text
}
