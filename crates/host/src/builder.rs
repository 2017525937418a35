//! Builds a [`Host`] from its services and options.

use crate::host::Host;
use crate::options::{HostOptions, InThread, OpenRealm, Watchdog};
use crate::report::Observer;
use crate::services::Services;
use crate::source_excerpts::SourceExcerpts;
use crate::state::ReadableState;
use pijs_artifact::Verified;
use pijs_environment::Timer;
use pijs_hostcall::Dispatcher;
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;

/// Builds a [`Host`].
pub struct HostBuilder {
    modules: Arc<Verified>,
    dispatcher: Arc<Dispatcher>,
    timer: Arc<dyn Timer>,
    options: HostOptions,
    opener: Box<dyn OpenRealm>,
    watchdog: Option<Box<dyn Watchdog>>,
    state: ReadableState,
    observer: Option<Rc<dyn Observer>>,
    source_excerpts: SourceExcerpts,
}

impl HostBuilder {
    fn new(modules: Arc<Verified>, dispatcher: Arc<Dispatcher>, timer: Arc<dyn Timer>) -> Self {
        Self {
            modules,
            dispatcher,
            timer,
            options: HostOptions::default(),
            opener: Box::new(InThread),
            watchdog: None,
            state: ReadableState::default(),
            observer: None,
            source_excerpts: SourceExcerpts::default(),
        }
    }

    /// Replaces all options.
    #[must_use]
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a fact that `process`, `os` and `path` report in every realm: `cwd`, `homedir`, `tmpdir`,
    /// `agentDir`, `platform`, `arch`, `pid`, `argv`, `env`.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.facts.insert(name.to_owned(), value.into());
        self
    }

    /// Sets how realms are opened; the default is [`InThread`].
    #[must_use]
    pub fn realms(mut self, opener: Box<dyn OpenRealm>) -> Self {
        self.opener = opener;
        self
    }

    /// Sets a watchdog for verdicts. Without one only fuel and the time of synchronous hostcalls are limited.
    #[must_use]
    pub fn watchdog(mut self, watchdog: impl Watchdog + 'static) -> Self {
        self.watchdog = Some(Box::new(watchdog));
        self
    }

    /// Sets the readable state, shared with the connectors that change it.
    #[must_use]
    pub fn state(mut self, state: ReadableState) -> Self {
        self.state = state;
        self
    }

    /// Sets an observer of every report.
    #[must_use]
    pub fn observer(mut self, observer: Rc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the source of the text that errors quote, shared with the connector of `module`.
    #[must_use]
    pub fn source_excerpts(mut self, source_excerpts: SourceExcerpts) -> Self {
        self.source_excerpts = source_excerpts;
        self
    }

    /// Builds the host. Call it on the thread that will run it.
    pub fn build(self) -> Host {
        let Self { modules, dispatcher, timer, options, opener, watchdog, state, observer, source_excerpts } = self;
        let services = Services { modules, dispatcher, timer, options, opener, watchdog, observer, source_excerpts };
        Host::new(services, state)
    }
}

impl Host {
    /// Builds a host. `modules` is the compiled host module set (`extc::host_modules`), `timer` the driver's time.
    pub fn builder(modules: Arc<Verified>, dispatcher: Arc<Dispatcher>, timer: Arc<dyn Timer>) -> HostBuilder {
        HostBuilder::new(modules, dispatcher, timer)
    }
}
