//! All connectors of a session, ready for a dispatcher.

use crate::env::EnvConnector;
use crate::exec::{ExecConnector, ExecOptions};
use crate::fs::FsConnector;
use crate::http::address::Resolver;
use crate::http::{HttpConnector, HttpOptions};
use crate::log::LogConnector;
use crate::net::{Dialer, NetConnector};
use crate::ports::{
    EventsPort, PortConnector, SessionCall, SessionPort, ToolCall, ToolPort, ToolsPort, UiCall, UiPort,
};
use crate::sockets::Sockets;
use crate::sqlite::SqliteConnector;
use crate::system::FileSystem;
use crate::timer::TimerConnector;
use crate::websocket::WebSocketConnector;
use pijs_environment::Timer;
use pijs_hostcall::{Connector, Ledger};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Connectors by method. Starts with none; a method that is left out is `invalid_request`
/// (*not available in this host*).
///
/// ```no_run
/// use pijs_connectors::{Connectors, system::OsFileSystem};
/// use std::sync::Arc;
///
/// let connectors = Connectors::new().fs(Arc::new(OsFileSystem::new()));
/// # let _ = connectors;
/// ```
#[derive(Default)]
pub struct Connectors {
    by_method: BTreeMap<String, Arc<dyn Connector>>,
    /// What all that connect share.
    sockets: Arc<Sockets>,
}

impl Connectors {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Any connector, for a method of its own or in place of one of ours.
    #[must_use]
    pub fn with(mut self, method: &str, connector: Arc<dyn Connector>) -> Self {
        self.by_method.insert(method.to_owned(), connector);
        self
    }

    /// Files.
    #[must_use]
    pub fn fs(self, system: Arc<dyn FileSystem>) -> Self {
        self.with("fs", Arc::new(FsConnector::new(system)))
    }

    /// Programs.
    #[must_use]
    pub fn exec(self, options: ExecOptions) -> Self {
        self.with("exec", Arc::new(ExecConnector::new(options)))
    }

    /// Servers.
    #[must_use]
    pub fn http(self, options: HttpOptions) -> Self {
        let sockets = Arc::clone(&self.sockets);
        self.with("http", Arc::new(HttpConnector::new(options, sockets)))
    }

    /// Connections, those of the web too, and servers on loopback. What the resolver finds is vetted.
    #[must_use]
    pub fn net(self, resolver: Arc<dyn Resolver>) -> Self {
        let dialer = Dialer { resolver, sockets: Arc::clone(&self.sockets) };
        self.with("websocket", Arc::new(WebSocketConnector::new(dialer.clone())))
            .with("net", Arc::new(NetConnector::new(dialer)))
    }

    /// SQLite databases among these files.
    #[must_use]
    pub fn sqlite(self, system: Arc<dyn FileSystem>) -> Self {
        self.with("sqlite", Arc::new(SqliteConnector::new(system)))
    }

    /// Environment variables; the values as the host read them at its start.
    #[must_use]
    pub fn env(self, variables: BTreeMap<String, String>) -> Self {
        self.with("env", Arc::new(EnvConnector::new(variables)))
    }

    /// The extension's own log lines.
    #[must_use]
    pub fn log(self, ledger: Ledger, timer: Arc<dyn Timer>) -> Self {
        self.with("log", Arc::new(LogConnector::new(ledger, timer)))
    }

    /// Waiting.
    #[must_use]
    pub fn timer(self, timer: Arc<dyn Timer>) -> Self {
        self.with("timer", Arc::new(TimerConnector::new(timer)))
    }

    /// Dialogs and notices.
    #[must_use]
    pub fn ui(self, port: Arc<dyn UiPort>) -> Self {
        self.with("ui", Arc::new(PortConnector::<UiCall, dyn UiPort>::new(port)))
    }

    /// The session.
    #[must_use]
    pub fn session(self, port: Arc<dyn SessionPort>) -> Self {
        self.with("session", Arc::new(PortConnector::<SessionCall, dyn SessionPort>::new(port)))
    }

    /// Tools the extension calls.
    #[must_use]
    pub fn tool(self, port: Arc<dyn ToolPort>) -> Self {
        self.with("tool", Arc::new(PortConnector::<ToolCall, dyn ToolPort>::new(port)))
    }

    /// The tool list.
    #[must_use]
    pub fn tools(self, port: Arc<dyn ToolsPort>) -> Self {
        self.with("tools", Arc::new(PortConnector::<crate::ports::ToolsCall, dyn ToolsPort>::new(port)))
    }

    /// The event bus.
    #[must_use]
    pub fn events(self, port: Arc<dyn EventsPort>) -> Self {
        self.with("events", Arc::new(PortConnector::<crate::ports::EventsCall, dyn EventsPort>::new(port)))
    }

    /// What [`DispatcherBuilder::connectors`](pijs_hostcall::DispatcherBuilder::connectors) takes.
    pub fn into_methods(self) -> impl Iterator<Item = (String, Arc<dyn Connector>)> {
        self.by_method.into_iter()
    }
}
