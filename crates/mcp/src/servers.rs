//! The servers of a session: which there are, how they begin and end, and the requests that go to them.
//!
//! The list may change while the session goes on: [`Servers::set`] keeps the servers whose entries stay as they are, with their connections,
//! ends the others, and starts new ones. [`server`](crate::server) has the states of one.

use crate::calls::{Calls, Door};
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

/// How long a session waits for its servers before the first prompt; questions to the user not counted.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The parts that servers are made of.
pub struct ServersOptions {
    /// Tells the time and waits.
    pub timer: Arc<dyn Timer>,
    /// The session.
    pub session: Arc<dyn SessionPort>,
    /// Runs `!command` of the user's own file.
    pub run: Option<Arc<RunCommand>>,
    /// Names the file of a server, for its key: the same server in two projects is two.
    pub project: PathBuf,
}

/// All servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    door: Door,
    options: ServersOptions,
    servers: Mutex<Vec<Arc<Server>>>,
    changes: watch::Sender<u64>,
}

impl Servers {
    /// No servers yet: [`Servers::set`] says which there are.
    pub fn new(options: ServersOptions) -> Self {
        let (changes, _) = watch::channel(0);
        Self(Arc::new(Inner { door: Door::default(), options, servers: Mutex::default(), changes }))
    }

    fn list(&self) -> Vec<Arc<Server>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says which servers there are, and as whom each makes its hostcalls. One whose entry and caller stay keeps its connection; the others
    /// end. In a session that has begun, new ones are started.
    pub fn set(&self, wanted: Vec<(ServerConfig, Arc<Profile>)>) {
        let mut old = self.list();
        let mut new = Vec::new();
        let mut all = Vec::new();
        for (config, profile) in wanted {
            let at = old.iter().position(|known| known.config == config && known.calls.caller.profile == profile);
            let server = at.map_or_else(
                || {
                    let server = self.made(config, profile);
                    new.push(Arc::clone(&server));
                    server
                },
                |at| old.remove(at),
            );
            all.push(server);
        }
        *self.0.servers.lock().unwrap_or_else(PoisonError::into_inner) = all;
        old.iter().for_each(|gone| self.end_one(gone));
        if self.0.door.dispatcher().is_some() {
            new.into_iter().for_each(begin);
        }
        self.0.changes.send_modify(|number| *number += 1);
    }

    /// Whether a server of this entry and caller is there already.
    pub fn has(&self, config: &ServerConfig, profile: &Profile) -> bool {
        self.list().iter().any(|known| known.config == *config && *known.calls.caller.profile == *profile)
    }

    fn made(&self, config: ServerConfig, profile: Arc<Profile>) -> Arc<Server> {
        let Inner { door, options, changes, .. } = &*self.0;
        let part = ServerParts {
            timer: Arc::clone(&options.timer),
            session: Arc::clone(&options.session),
            run: options.run.clone(),
            key: key_of(&config, &options.project),
            changes: changes.clone(),
        };
        let calls = Calls::new(door.clone(), Caller::new(profile), &config.name);
        let (state, connecting) = Default::default();
        Arc::new(Server { config, calls, options: part, state, connecting })
    }

    /// Begins: hostcalls go to `dispatcher`, and every server that is used is started, all at once.
    pub fn start(&self, dispatcher: Arc<Dispatcher>) {
        self.0.door.open(dispatcher);
        self.list().into_iter().for_each(begin);
    }

    /// Lets hostcalls go to `dispatcher`; no server is started.
    pub fn open(&self, dispatcher: Arc<Dispatcher>) {
        self.0.door.open(dispatcher);
    }

    /// Begins a sign-in: finds the authorization server and makes the address of its page. `redirect` is where the browser comes back to.
    ///
    /// # Errors
    ///
    /// The server has no sign-in, or what it says of one cannot be used.
    pub async fn begin_sign_in(
        &self,
        name: &str,
        redirect: &str,
        random: &dyn Randomness,
    ) -> Result<PendingSignIn, String> {
        let server = self.find(name).ok_or_else(|| format!("there is no server {name:?}"))?;
        server.begin_sign_in(redirect, random).await
    }

    /// Exchanges the code that the browser brought for tokens, and keeps them.
    ///
    /// # Errors
    ///
    /// The authorization server gives none.
    pub async fn complete_sign_in(&self, name: &str, pending: &PendingSignIn, code: &str) -> Result<(), String> {
        let server = self.find(name).ok_or_else(|| format!("there is no server {name:?}"))?;
        server.complete_sign_in(pending, code).await
    }

    /// Connects a server anew, whatever became of it before.
    ///
    /// # Errors
    ///
    /// No server of this name is used, or it cannot be reached; the message says why.
    pub async fn reconnect(&self, name: &str) -> Result<(), String> {
        let server = self.find(name).filter(|server| server.config.enabled);
        let server = server.ok_or_else(|| format!("no MCP server {name:?} is switched on"))?;
        server.forget_connection();
        server.connection().await.map(drop)
    }

    /// Waits until every server answers or has failed, at most [`PATIENCE`] after the last question to the user was answered. Answers
    /// the names of those that still start.
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

    /// Makes the hostcall `mcp` for a use of a server's tools, prompts or resources by the model or the user. Reports of progress go to
    /// `progress`.
    ///
    /// # Errors
    ///
    /// The gate refused, the server did not answer, or `cancel` fired.
    pub async fn hostcall(
        &self,
        (server, tool_call_id): (&str, Option<&str>),
        params: Value,
        cancel: &CancelToken,
        mut progress: impl FnMut(&Value),
    ) -> Result<Value, HostcallError> {
        let unknown = || HostcallError::invalid("unknown_tool", format!("mcp: there is no server {server:?}"));
        let mut calls = self.find(server).ok_or_else(unknown)?.calls.clone();
        calls.caller.tool_call_id = tool_call_id.map(Arc::from);
        let mut pieces = calls.pieces("mcp", params, Vec::new())?;
        loop {
            let result = tokio::select! {
                biased;
                result = pieces.results.recv() => result,
                () = cancel.cancelled() => return Err(pijs_hostcall::connector::cancelled("mcp")),
            };
            let Some((result, _held)) = result else {
                return Err(HostcallError::io("EPIPE", "mcp", "mcp: the call was lost"));
            };
            match (result.error, result.chunk) {
                (Some(error), _) => return Err(error),
                (None, Some(chunk)) if !chunk.is_last => progress(&result.output),
                (None, _) => return Ok(result.output),
            }
        }
    }

    /// Ends all connections and what was started for them.
    pub fn end(&self) {
        self.0.door.close();
        self.list().iter().for_each(|server| self.end_one(server));
    }

    fn end_one(&self, server: &Server) {
        {
            let mut state = server.lock();
            (state.connection, state.is_over) = (None, true);
        }
        // Calls of an extension's server end with their connection; the extension may have others.
        if matches!(server.config.source, Source::Extension(_)) {
            return;
        }
        if let Some(dispatcher) = self.0.door.dispatcher() {
            let gone = HostcallError::io("EPIPE", "mcp", "mcp: the server is not used any more");
            dispatcher.end_extension(server.calls.caller.extension(), &gone);
        }
    }

    /// A number that changes with what servers offer.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The tools that can be called, in the order of the servers and of their own lists.
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

    /// The prompts of all servers.
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

    /// Names of the servers that have resources.
    pub fn with_resources(&self) -> Vec<String> {
        let has = |server: &&Arc<Server>| {
            server.config.enabled
                && server.config.exposure != Exposure::Hidden
                && server.lock().known.facts.has_resources
        };
        self.list().iter().filter(has).map(|server| server.config.name.clone()).collect()
    }

    /// Returns what a server says of the effects of a target `SERVER/TOOL`, each a line for the user.
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

    /// Whether the tools of some server are found by a search only.
    pub fn has_deferred(&self) -> bool {
        !self.deferred().is_empty()
    }

    /// Servers whose tools are found by a search, with the descriptions that their entries give.
    pub fn deferred(&self) -> Vec<(String, Option<String>)> {
        let servers = self.list().into_iter().filter(|server| server.config.enabled && server.config.has_deferred());
        servers.map(|server| (server.config.name.clone(), server.config.description.clone())).collect()
    }

    /// How all servers are.
    pub fn statuses(&self) -> Vec<Status> {
        self.list().iter().map(|server| server.status()).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Server>> {
        self.list().into_iter().find(|server| server.config.name == name)
    }

    /// Whether a caller may use the server of a target: it is the one in whose name the server runs. An extension that was granted a server of
    /// its package does not reach one of the user's that has the same name.
    pub(crate) fn serves(&self, target: &str, caller: &ExtensionId) -> bool {
        let server = target.split_once('/').and_then(|(name, _)| self.find(name));
        server.is_some_and(|server| server.calls.caller.extension() == caller)
    }

    /// The server of a target, and what follows its name.
    fn target<'t>(&self, target: &'t str) -> Result<(Arc<Server>, &'t str), HostcallError> {
        let unknown = || {
            HostcallError::invalid(
                "unknown_tool",
                format!("mcp: there is no {target:?}; pi mcp list shows what there is"),
            )
        };
        let (name, rest) = target.split_once('/').ok_or_else(unknown)?;
        let server = self.find(name).filter(|server| server.config.enabled).ok_or_else(unknown)?;
        Ok((server, rest))
    }

    /// Calls a tool that the gate allowed.
    pub(crate) async fn call(
        &self,
        target: &str,
        arguments: Option<Map<String, Value>>,
        progress: Progress,
    ) -> Result<Value, HostcallError> {
        let (server, tool) = self.target(target)?;
        // Whoever was not told of it does not call it; a server that was not asked yet is asked first.
        let connection = server.connection().await.map_err(unreachable_server)?;
        {
            let known = &server.lock().known;
            let is_known = known.tools.iter().any(|known| known.name == tool);
            if !is_known || server.hides(&known.withheld, tool) {
                return Err(HostcallError::invalid(
                    "unknown_tool",
                    format!(
                        "mcp: {target:?} cannot be called: its server has no such tool, or it is hidden or not agreed to"
                    ),
                ));
            }
        }
        let outcome = connection.call_tool(tool, arguments, progress).await;
        server.done(outcome, &connection).and_then(to_value)
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
                format!("mcp: {target:?} has no prompt {name:?}, or it is not agreed to"),
            ));
        }
        let outcome = connection.get_prompt(name, arguments).await;
        server.done(outcome, &connection).and_then(to_value)
    }

    pub(crate) async fn read_resource(&self, target: &str, uri: &str) -> Result<Value, HostcallError> {
        let server = self.open_to_resources(target)?;
        let connection = server.connection().await.map_err(unreachable_server)?;
        let outcome = connection.read_resource(uri).await;
        server.done(outcome, &connection).and_then(to_value)
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
        server.done(outcome, &connection)
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

/// Starts a server that is used.
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
