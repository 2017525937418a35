//! Manages the servers of a session: starts and stops them, and forwards requests.
//!
//! The list may change during the session: [`Servers::set`] keeps servers with unchanged entries and their connections, stops all
//! others, and starts new ones. [`server`](crate::server) documents the states of a server.

use crate::calls::{Calls, SessionDispatcher};
use crate::config::{Exposure, ServerConfig, Source};
use crate::handler::Progress;
use crate::names;
use crate::oauth::PendingSignIn;
use crate::server::{Phase, Server, ServerParts, ServerPrompt, ServerTool, Status, key_of};
use crate::session_port::SessionPort;
use crate::values::RunCommand;
use pijs_environment::{Randomness, Timer, Wait};
use pijs_hostcall::{Caller, CancelToken, Dispatcher, Profile};
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

pub use crate::connection::{MAX_PROMPTS, MAX_SCHEMA_BYTES, MAX_TOOLS};

/// Maximum time that a session waits for starting servers before the first prompt, without the time of consent prompts.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Services for the servers of a session.
pub struct ServersOptions {
    /// Clock and timer.
    pub timer: Arc<dyn Timer>,
    /// The session.
    pub session: Arc<dyn SessionPort>,
    /// Runs `!command` values of the user's own file.
    pub run: Option<Arc<RunCommand>>,
    /// Folder of the project. It is part of the keys of the project's servers, because the same entry in two projects means two
    /// servers.
    pub project: PathBuf,
}

/// The servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    dispatcher: SessionDispatcher,
    options: ServersOptions,
    servers: Mutex<Vec<Arc<Server>>>,
    changes: watch::Sender<u64>,
}

impl Servers {
    /// Creates an empty list, for [`Servers::set`].
    pub fn new(options: ServersOptions) -> Self {
        let (changes, _) = watch::channel(0);
        Self(Arc::new(Inner { dispatcher: SessionDispatcher::default(), options, servers: Mutex::default(), changes }))
    }

    fn list(&self) -> Vec<Arc<Server>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the servers, each with the profile of its caller. A server with the same entry and caller keeps its connection; all
    /// others are stopped. Starts new servers if the session has started.
    pub fn set(&self, wanted: Vec<(ServerConfig, Arc<Profile>)>) {
        let mut old = self.list();
        let mut new = Vec::new();
        let mut all = Vec::new();
        for (config, profile) in wanted {
            let at = old.iter().position(|known| known.config == config && known.calls.caller.profile == profile);
            let server = at.map_or_else(
                || {
                    let server = self.create(config, profile);
                    new.push(Arc::clone(&server));
                    server
                },
                |at| old.remove(at),
            );
            all.push(server);
        }
        *self.0.servers.lock().unwrap_or_else(PoisonError::into_inner) = all;
        old.iter().for_each(|gone| self.end_one(gone));
        if self.0.dispatcher.get().is_some() {
            new.into_iter().for_each(begin);
        }
        self.0.changes.send_modify(|number| *number += 1);
    }

    /// Returns whether there is a server with this entry and caller.
    pub fn has(&self, config: &ServerConfig, profile: &Profile) -> bool {
        self.list().iter().any(|known| known.config == *config && *known.calls.caller.profile == *profile)
    }

    fn create(&self, config: ServerConfig, profile: Arc<Profile>) -> Arc<Server> {
        let Inner { dispatcher, options, changes, .. } = &*self.0;
        let parts = ServerParts {
            timer: Arc::clone(&options.timer),
            session: Arc::clone(&options.session),
            run: options.run.clone(),
            key: key_of(&config, &options.project),
            changes: changes.clone(),
        };
        let calls = Calls::new(dispatcher.clone(), Caller::new(profile), &config.name);
        let (state, connecting) = Default::default();
        Arc::new(Server { config, calls, options: parts, state, connecting })
    }

    /// Sets the dispatcher for hostcalls, and starts all enabled servers concurrently.
    pub fn start(&self, dispatcher: Arc<Dispatcher>) {
        self.0.dispatcher.set(dispatcher);
        self.list().into_iter().for_each(begin);
    }

    /// Sets the dispatcher for hostcalls, without starting servers.
    pub fn open(&self, dispatcher: Arc<Dispatcher>) {
        self.0.dispatcher.set(dispatcher);
    }

    /// Begins a sign-in: discovers the authorization server and builds the authorization URL. `redirect` is the redirect URI.
    ///
    /// # Errors
    ///
    /// Fails when the server has no sign-in, or its metadata is invalid.
    pub async fn begin_sign_in(
        &self,
        name: &str,
        redirect: &str,
        random: &dyn Randomness,
    ) -> Result<PendingSignIn, String> {
        let server =
            self.find(name).ok_or_else(|| format!("there is no server {name:?}; pi mcp list shows all servers"))?;
        server.begin_sign_in(redirect, random).await
    }

    /// Exchanges the authorization code for tokens, and stores them.
    ///
    /// # Errors
    ///
    /// Fails when the authorization server issues no tokens.
    pub async fn complete_sign_in(&self, name: &str, pending: &PendingSignIn, code: &str) -> Result<(), String> {
        let server =
            self.find(name).ok_or_else(|| format!("there is no server {name:?}; pi mcp list shows all servers"))?;
        server.complete_sign_in(pending, code).await
    }

    /// Reconnects to a server in any state, even to a quarantined one.
    ///
    /// # Errors
    ///
    /// Fails when no enabled server has this name, or the connection fails.
    pub async fn reconnect(&self, name: &str) -> Result<(), String> {
        let server = self.find(name).filter(|server| server.config.enabled);
        let server = server.ok_or_else(|| format!("no MCP server {name:?} is enabled"))?;
        server.forget_connection();
        server.connection().await.map(drop)
    }

    /// Waits until every server is connected or has failed, at most [`PATIENCE`] after the last consent prompt was answered.
    /// Returns the names of servers that are still starting.
    pub async fn settled(&self) -> Vec<String> {
        let mut changes = self.0.changes.subscribe();
        loop {
            let _ = changes.borrow_and_update();
            let phases: Vec<(String, Phase)> =
                self.list().iter().map(|server| (server.config.name.clone(), server.lock().phase)).collect();
            let waits =
                |phase: Phase| phases.iter().filter(move |(_, known)| *known == phase).map(|(name, _)| name.clone());
            let changed = changes.changed();
            if waits(Phase::Asking).next().is_some() {
                let _ = changed.await;
            } else if waits(Phase::Starting).next().is_some() {
                tokio::select! {
                    biased;
                    _ = changed => {}
                    () = self.0.options.timer.sleep(Wait::Idle, PATIENCE) => return waits(Phase::Starting).collect(),
                }
            } else {
                return Vec::new();
            }
        }
    }

    /// Makes the hostcall `mcp` for the model or the user. `progress` receives progress reports.
    ///
    /// # Errors
    ///
    /// Fails when the gate refuses, the server fails, or `cancel` is signalled.
    pub async fn hostcall(
        &self,
        (server, tool_call_id): (&str, Option<&str>),
        params: Value,
        cancel: &CancelToken,
        mut progress: impl FnMut(&Value),
    ) -> Result<Value, HostcallError> {
        let unknown = || {
            HostcallError::invalid(
                "unknown_tool",
                format!("mcp: there is no server {server:?}; pi mcp list shows all servers"),
            )
        };
        let mut calls = self.find(server).ok_or_else(unknown)?.calls.clone();
        calls.caller.tool_call_id = tool_call_id.map(Arc::from);
        let mut stream = calls.stream("mcp", params, Vec::new())?;
        loop {
            let result = tokio::select! {
                biased;
                result = stream.results.recv() => result,
                () = cancel.cancelled() => return Err(pijs_hostcall::connector::cancelled("mcp")),
            };
            let Some((result, _held)) = result else {
                return Err(HostcallError::io("EPIPE", "mcp", "mcp: the call ended without a result; try again"));
            };
            match (result.error, result.chunk) {
                (Some(error), _) => return Err(error),
                (None, Some(chunk)) if !chunk.is_last => progress(&result.output),
                (None, _) => return Ok(result.output),
            }
        }
    }

    /// Closes all connections and stops all programs.
    pub fn end(&self) {
        self.0.dispatcher.close();
        self.list().iter().for_each(|server| self.end_one(server));
    }

    fn end_one(&self, server: &Server) {
        {
            let mut state = server.lock();
            (state.connection, state.is_removed) = (None, true);
        }
        // The extension may have other calls in flight. The calls of its server end with the connection.
        if matches!(server.config.source, Source::Extension(_)) {
            return;
        }
        if let Some(dispatcher) = self.0.dispatcher.get() {
            let gone = HostcallError::io("EPIPE", "mcp", "mcp: the server was removed from the session");
            dispatcher.end_extension(server.calls.caller.extension(), &gone);
        }
    }

    /// Returns a counter that is incremented when the tools or states of servers change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns the callable tools, in the order of the servers and of their lists.
    pub fn tools(&self) -> Vec<ServerTool> {
        let mut found = Vec::new();
        for server in self.list().iter().filter(|server| server.config.enabled) {
            let known = server.lock().known.clone();
            for tool in known.tools.into_iter().filter(|tool| !server.hides(&known.withheld, &tool.name)) {
                found.push(server.described(tool));
            }
        }
        let pairs: Vec<(String, String)> = found.iter().map(|tool| (tool.server.clone(), tool.tool.clone())).collect();
        for (tool, name) in found.iter_mut().zip(names::of_all(&pairs)) {
            tool.name = name;
        }
        found
    }

    /// Returns the prompts of all servers.
    pub fn prompts(&self) -> Vec<ServerPrompt> {
        let mut found = Vec::new();
        for server in
            self.list().iter().filter(|server| server.config.enabled && server.config.exposure != Exposure::Hidden)
        {
            for prompt in server.lock().known.prompts.clone() {
                let arguments = prompt.arguments.unwrap_or_default();
                found.push(ServerPrompt {
                    name: names::plain(&server.config.name, &prompt.name),
                    server: server.config.name.clone(),
                    prompt: prompt.name,
                    description: names::visible(&prompt.description.or(prompt.title).unwrap_or_default(), 400),
                    arguments: arguments
                        .into_iter()
                        .map(|argument| (argument.name, argument.required == Some(true)))
                        .collect(),
                });
            }
        }
        found
    }

    /// Returns the names of servers with resources.
    pub fn with_resources(&self) -> Vec<String> {
        let has = |server: &&Arc<Server>| {
            server.config.enabled
                && server.config.exposure != Exposure::Hidden
                && server.lock().known.facts.has_resources
        };
        self.list().iter().filter(has).map(|server| server.config.name.clone()).collect()
    }

    /// Returns lines for a prompt about a target `SERVER/TOOL`: the server, and its annotations about the tool's effects.
    pub fn describe(&self, target: &str) -> Vec<String> {
        let Some((server, tool)) = target.split_once('/').and_then(|(name, tool)| Some((self.find(name)?, tool)))
        else {
            return vec!["no server of this name is configured".to_owned()];
        };
        let mut lines = vec![format!("the server is {}", server.config.reach_in_words())];
        let known = server.lock().known.tools.iter().find(|known| known.name == tool).cloned();
        let Some(known) = known else { return lines };
        let hints = known.annotations.unwrap_or_default();
        let mut claims = Vec::new();
        if hints.read_only_hint == Some(true) {
            claims.push("that it changes nothing");
        }
        if hints.destructive_hint == Some(true) {
            claims.push("that it may destroy things");
        }
        if hints.open_world_hint == Some(true) {
            claims.push("that it reaches other systems");
        }
        if !claims.is_empty() {
            lines.push(format!("the server says {}, which is not verified", claims.join(" and ")));
        }
        lines
    }

    /// Returns whether any server has deferred tools.
    pub fn has_deferred(&self) -> bool {
        !self.deferred().is_empty()
    }

    /// Returns the names of servers with deferred tools, and the descriptions in their entries.
    pub fn deferred(&self) -> Vec<(String, Option<String>)> {
        let servers = self.list().into_iter().filter(|server| server.config.enabled && server.config.has_deferred());
        servers.map(|server| (server.config.name.clone(), server.config.description.clone())).collect()
    }

    /// Returns the status of each server.
    pub fn statuses(&self) -> Vec<Status> {
        self.list().iter().map(|server| server.status()).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Server>> {
        self.list().into_iter().find(|server| server.config.name == name)
    }

    /// Returns whether the target's server runs as this caller. An extension with a grant for a server of its package must not
    /// reach the user's server with the same name.
    pub(crate) fn serves(&self, target: &str, caller: &ExtensionId) -> bool {
        let server = target.split_once('/').and_then(|(name, _)| self.find(name));
        server.is_some_and(|server| server.calls.caller.extension() == caller)
    }

    /// Returns the server of a target, and the rest of the target.
    fn target<'t>(&self, target: &'t str) -> Result<(Arc<Server>, &'t str), HostcallError> {
        let unknown = || {
            HostcallError::invalid(
                "unknown_tool",
                format!("mcp: there is no {target:?}; pi mcp list shows all servers"),
            )
        };
        let (name, rest) = target.split_once('/').ok_or_else(unknown)?;
        let server = self.find(name).filter(|server| server.config.enabled).ok_or_else(unknown)?;
        Ok((server, rest))
    }

    /// Calls a tool. The gate has allowed the call.
    pub(crate) async fn call(
        &self,
        target: &str,
        arguments: Option<Map<String, Value>>,
        progress: Progress,
    ) -> Result<Value, HostcallError> {
        let (server, tool) = self.target(target)?;
        // Connects first, because the list of tools may not have been fetched. Hidden and withheld tools cannot be called.
        let connection = server.connection().await.map_err(unreachable_server)?;
        {
            let known = &server.lock().known;
            let is_known = known.tools.iter().any(|known| known.name == tool);
            if !is_known || server.hides(&known.withheld, tool) {
                return Err(HostcallError::invalid(
                    "unknown_tool",
                    format!(
                        "mcp: {target:?} cannot be called: its server has no such tool, or the tool is hidden or not agreed to"
                    ),
                ));
            }
        }
        let outcome = connection.call_tool(tool, arguments, progress).await;
        server.record_outcome(outcome, &connection).and_then(to_value)
    }

    pub(crate) async fn prompt(
        &self,
        target: &str,
        name: &str,
        arguments: Option<Map<String, Value>>,
    ) -> Result<Value, HostcallError> {
        let (server, _) = self.target(target)?;
        let connection = server.connection().await.map_err(unreachable_server)?;
        if !server.lock().known.prompts.iter().any(|known| known.name == name) {
            return Err(HostcallError::invalid(
                "unknown_tool",
                format!("mcp: {target:?} has no prompt {name:?}, or you have not agreed to it"),
            ));
        }
        let outcome = connection.get_prompt(name, arguments).await;
        server.record_outcome(outcome, &connection).and_then(to_value)
    }

    pub(crate) async fn read_resource(&self, target: &str, uri: &str) -> Result<Value, HostcallError> {
        let server = self.open_to_resources(target)?;
        let connection = server.connection().await.map_err(unreachable_server)?;
        let outcome = connection.read_resource(uri).await;
        server.record_outcome(outcome, &connection).and_then(to_value)
    }

    pub(crate) async fn list_resources(
        &self,
        target: &str,
        templates: bool,
        cursor: Option<String>,
    ) -> Result<Value, HostcallError> {
        let server = self.open_to_resources(target)?;
        let connection = server.connection().await.map_err(unreachable_server)?;
        let outcome = connection.list_resources(templates, cursor).await;
        server.record_outcome(outcome, &connection)
    }

    fn open_to_resources(&self, target: &str) -> Result<Arc<Server>, HostcallError> {
        let (server, _) = self.target(target)?;
        match server.config.exposure {
            Exposure::Hidden => Err(HostcallError::invalid("unknown_tool", format!("mcp: {target:?} is hidden"))),
            _ => Ok(server),
        }
    }
}

fn to_value<T: serde::Serialize>(result: T) -> Result<Value, HostcallError> {
    serde_json::to_value(result).map_err(|error| HostcallError::new(ErrorCode::Internal, error.to_string()))
}

fn unreachable_server(problem: String) -> HostcallError {
    HostcallError::io("ECONNREFUSED", "mcp", format!("mcp: {problem}"))
}

/// Starts an enabled server in the background.
fn begin(server: Arc<Server>) {
    if server.config.enabled {
        server.lock().phase = Phase::Asking;
        tokio::spawn(async move {
            let _ = server.connection().await;
        });
    }
}

#[cfg(test)]
mod tests;
