//! Collects the connectors of a session for a dispatcher.

use crate::connection_limits::ConnectionLimits;
use crate::env::EnvConnector;
use crate::exec::{ExecConnector, ExecOptions};
use crate::fs::FsConnector;
use crate::http::address::Resolver;
use crate::http::{HttpConnector, HttpOptions};
use crate::log::LogConnector;
use crate::net::{Dialer, NetConnector, UserServersAt};
use crate::ports::{
    EventsPort, PortConnector, SessionCall, SessionPort, ToolCall, ToolPort, ToolsPort, UiCall, UiPort,
};
use crate::sqlite::SqliteConnector;
use crate::system::FileSystem;
use crate::timer::TimerConnector;
use crate::websocket::WebSocketConnector;
use pijs_environment::Timer;
use pijs_hostcall::{Connector, Ledger};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The connectors of a session by method; initially empty. A call of a method without a connector fails with `invalid_request`
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
    /// Limits that all connectors with network connections share.
    limits: Arc<ConnectionLimits>,
}

impl Connectors {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces the connector for a method.
    #[must_use]
    pub fn with(mut self, method: &str, connector: Arc<dyn Connector>) -> Self {
        self.by_method.insert(method.to_owned(), connector);
        self
    }

    /// Adds `fs`.
    #[must_use]
    pub fn fs(self, system: Arc<dyn FileSystem>) -> Self {
        self.with("fs", Arc::new(FsConnector::new(system)))
    }

    /// Adds `exec`.
    #[must_use]
    pub fn exec(self, options: ExecOptions) -> Self {
        self.with("exec", Arc::new(ExecConnector::new(options)))
    }

    /// Adds `http`.
    #[must_use]
    pub fn http(self, options: HttpOptions) -> Self {
        let limits = Arc::clone(&self.limits);
        self.with("http", Arc::new(HttpConnector::new(options, limits)))
    }

    /// Adds `net` and `websocket`. The addresses that the resolver returns are vetted, and no extension listens as a server of
    /// the user.
    #[must_use]
    pub fn net(self, resolver: Arc<dyn Resolver>, user_servers: UserServersAt) -> Self {
        let dialer = Dialer { resolver, user_servers, limits: Arc::clone(&self.limits) };
        self.with("websocket", Arc::new(WebSocketConnector::new(dialer.clone())))
            .with("net", Arc::new(NetConnector::new(dialer)))
    }

    /// Adds `sqlite`, for databases in this file system.
    #[must_use]
    pub fn sqlite(self, system: Arc<dyn FileSystem>) -> Self {
        self.with("sqlite", Arc::new(SqliteConnector::new(system)))
    }

    /// Adds `env`, with the variables that the host read at its start.
    #[must_use]
    pub fn env(self, variables: BTreeMap<String, String>) -> Self {
        self.with("env", Arc::new(EnvConnector::new(variables)))
    }

    /// Adds `log`.
    #[must_use]
    pub fn log(self, ledger: Ledger, timer: Arc<dyn Timer>) -> Self {
        self.with("log", Arc::new(LogConnector::new(ledger, timer)))
    }

    /// Adds `timer`.
    #[must_use]
    pub fn timer(self, timer: Arc<dyn Timer>) -> Self {
        self.with("timer", Arc::new(TimerConnector::new(timer)))
    }

    /// Adds `ui`.
    #[must_use]
    pub fn ui(self, port: Arc<dyn UiPort>) -> Self {
        self.with("ui", Arc::new(PortConnector::<UiCall, dyn UiPort>::new(port)))
    }

    /// Adds `session`.
    #[must_use]
    pub fn session(self, port: Arc<dyn SessionPort>) -> Self {
        self.with("session", Arc::new(PortConnector::<SessionCall, dyn SessionPort>::new(port)))
    }

    /// Adds `tool`.
    #[must_use]
    pub fn tool(self, port: Arc<dyn ToolPort>) -> Self {
        self.with("tool", Arc::new(PortConnector::<ToolCall, dyn ToolPort>::new(port)))
    }

    /// Adds `tools`.
    #[must_use]
    pub fn tools(self, port: Arc<dyn ToolsPort>) -> Self {
        self.with("tools", Arc::new(PortConnector::<crate::ports::ToolsCall, dyn ToolsPort>::new(port)))
    }

    /// Adds `events`.
    #[must_use]
    pub fn events(self, port: Arc<dyn EventsPort>) -> Self {
        self.with("events", Arc::new(PortConnector::<crate::ports::EventsCall, dyn EventsPort>::new(port)))
    }

    /// Returns methods and connectors for [`DispatcherBuilder::connectors`](pijs_hostcall::DispatcherBuilder::connectors).
    pub fn into_methods(self) -> impl Iterator<Item = (String, Arc<dyn Connector>)> {
        self.by_method.into_iter()
    }
}
