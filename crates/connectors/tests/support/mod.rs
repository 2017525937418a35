//! A test environment behind a real gate: a project, a home, files outside, and the connectors.

#![expect(dead_code, reason = "each test program uses a part of it")]

use pijs_connectors::Connectors;
use pijs_connectors::exec::ExecOptions;
use pijs_connectors::http::HttpOptions;
use pijs_connectors::net::UserServersAt;
use pijs_connectors::system::{FileSystem, OsFileSystem};
use pijs_environment::simulated::CountingTimer;
use pijs_hostcall::{
    Caller, Dispatcher, Gate, Grant, Ledger, LedgerOptions, LedgerSink, MemorySink, Mode, Places, Policy, Profile,
};
use pijs_protocol::manifest::Scope;
use pijs_protocol::{Capability, ExtensionId, HostCall, HostResult};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Folders and connectors of one test.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) caller: Caller,
    next: AtomicU64,
}

/// Configures a world.
pub(crate) struct Setup {
    pub(crate) grants: Vec<Grant>,
    pub(crate) mode: Mode,
    pub(crate) exec: fn(ExecOptions) -> ExecOptions,
    pub(crate) http: HttpOptions,
    pub(crate) user_servers: UserServersAt,
    /// Creates the file system for the world's folder.
    pub(crate) system: fn(&Path) -> Arc<dyn FileSystem>,
    /// Whether the ledger's lines are kept; those of a long run do not fit into memory.
    pub(crate) keeps_ledger: bool,
}

/// A ledger sink that discards all lines.
struct Nowhere;

impl LedgerSink for Nowhere {
    fn append(&self, _lines: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

impl Setup {
    pub(crate) fn new(grants: &[Grant]) -> Self {
        Self {
            grants: grants.to_vec(),
            mode: Mode::Strict,
            exec: |options| options,
            http: HttpOptions::default(),
            user_servers: Arc::new(|_| Vec::new()),
            system: |_| Arc::new(OsFileSystem::new()),
            keeps_ledger: true,
        }
    }

    pub(crate) fn build(self) -> World {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["app/src", "app/.pi", "home/.pi/agent", "tmp", "outside"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("outside/secret"), "canary").unwrap();
        std::fs::write(root.join("app/src/a.txt"), "hello").unwrap();
        let places = Places::new(root.join("app"), root.join("home"), root.join("home/.pi/agent"), root.join("tmp"));
        let env = [("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere"), ("SECRET_TOKEN", "canary")];
        let env: BTreeMap<_, _> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let policy = Policy { mode: self.mode, ..Policy::default() };
        let gate = Gate::builder(policy, places).environment(env.clone()).build();
        let profile = Arc::new(Profile::new("path:/x"));
        gate.set_grants(&profile, &self.grants, Default::default()).unwrap();
        let sink: Arc<dyn LedgerSink> = if self.keeps_ledger { MemorySink::new() } else { Arc::new(Nowhere) };
        let ledger = Ledger::new(LedgerOptions::default(), sink);
        let mut options = ExecOptions::new(env.clone());
        options.grace = Duration::from_millis(100);
        let resolver = Arc::clone(&self.http.resolver);
        let connectors = Connectors::new()
            .fs((self.system)(&root))
            .sqlite((self.system)(&root))
            .exec((self.exec)(options))
            .http(self.http)
            .net(resolver, self.user_servers)
            .env(env);
        let dispatcher = Dispatcher::builder(gate, ledger, Arc::new(CountingTimer::new(0, 1)))
            .connectors(connectors.into_methods())
            .build();
        World { folder, dispatcher, caller: Caller::new(profile), next: AtomicU64::new(0) }
    }
}

/// Returns the grant to write in the project and the temporary folder.
pub(crate) fn writer() -> Grant {
    Grant::scoped("w", "write", Scope { paths: Some(vec!["<project>".into(), "<temp>".into()]), ..Scope::default() })
}

/// Returns the grant to run any program.
pub(crate) fn runner() -> Grant {
    Grant::any("e", "exec")
}

/// Returns the grant to contact these hosts.
pub(crate) fn hosts(patterns: &[String]) -> Grant {
    Grant::scoped("h", "http", Scope { hosts: Some(patterns.to_vec()), ..Scope::default() })
}

/// An asynchronous call in flight, and its results.
pub(crate) struct Call {
    pub(crate) results: mpsc::UnboundedReceiver<HostResult>,
    task: tokio::task::JoinHandle<()>,
}

impl Call {
    /// Returns the next result: a chunk, or the last one.
    pub(crate) async fn next(&mut self) -> HostResult {
        let next = tokio::time::timeout(Duration::from_secs(120), self.results.recv()).await;
        next.expect("no result within two minutes").expect("every call is answered")
    }

    /// Returns all results.
    pub(crate) async fn all(mut self) -> Vec<HostResult> {
        let mut all = Vec::new();
        loop {
            let next = self.next().await;
            let last = next.chunk.as_ref().is_none_or(|chunk| chunk.is_last);
            all.push(next);
            if last {
                return all;
            }
        }
    }

    /// Drops the call, as when the host exits.
    pub(crate) fn drop_it(self) {
        self.task.abort();
    }
}

impl World {
    pub(crate) fn new(grants: &[Grant]) -> Self {
        Setup::new(grants).build()
    }

    /// Creates a world whose programs have a supervisor, which is this test executable.
    pub(crate) fn supervised(grants: &[Grant]) -> Self {
        Setup { exec: ExecOptions::supervised, ..Setup::new(grants) }.build()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn app(&self) -> PathBuf {
        self.root().join("app")
    }

    fn call(&self, capability: &str, method: &str, params: Value, bytes: Vec<Vec<u8>>) -> HostCall {
        HostCall {
            call_id: format!("c{}", self.next.fetch_add(1, Ordering::Relaxed)).as_str().into(),
            capability: Capability::new(capability),
            method: method.into(),
            params: params.as_object().unwrap().clone(),
            timeout_ms: None,
            cancel_token: params.get("token").and_then(Value::as_str).map(str::to_owned),
            context: None,
            bytes,
        }
    }

    pub(crate) fn sync(&self, capability: &str, method: &str, params: Value) -> HostResult {
        self.dispatcher.call_sync(&self.caller, self.call(capability, method, params, Vec::new()))
    }

    /// Performs a call as another extension.
    pub(crate) fn stranger(&self, capability: &str, method: &str, params: Value) -> HostResult {
        let stranger = Caller::new(Arc::new(Profile::new("path:/other")));
        self.dispatcher.call_sync(&stranger, self.call(capability, method, params, Vec::new()))
    }

    pub(crate) fn read(&self, params: Value) -> HostResult {
        self.sync("read", "fs", params)
    }

    pub(crate) fn write(&self, params: Value) -> HostResult {
        self.sync("write", "fs", params)
    }

    /// Starts an asynchronous call on the current runtime.
    pub(crate) fn start(&self, capability: &str, method: &str, params: Value, bytes: Vec<Vec<u8>>) -> Call {
        self.start_by(&self.caller, capability, method, params, bytes)
    }

    /// Starts a call as another extension.
    pub(crate) fn start_as(
        &self,
        extension: &str,
        capability: &str,
        method: &str,
        params: Value,
        bytes: Vec<Vec<u8>>,
    ) -> Call {
        let caller = Caller::new(Arc::new(Profile::new(extension)));
        self.start_by(&caller, capability, method, params, bytes)
    }

    fn start_by(&self, caller: &Caller, capability: &str, method: &str, params: Value, bytes: Vec<Vec<u8>>) -> Call {
        let (send, results) = mpsc::unbounded_channel();
        let call = self.call(capability, method, params, bytes);
        let take = move |result, _| drop(send.send(result));
        let task = tokio::spawn(self.dispatcher.call(caller, call, take.clone()).rest(take));
        Call { results, task }
    }

    /// Performs an asynchronous call and returns its last result.
    pub(crate) async fn run(&self, method: &str, params: Value) -> HostResult {
        self.start(method, method, params, Vec::new()).all().await.pop().unwrap()
    }

    pub(crate) fn cancel(&self, token: &str) {
        self.dispatcher.cancel(self.extension(), &token.into());
    }

    pub(crate) fn extension(&self) -> &ExtensionId {
        self.caller.extension()
    }
}

/// Returns the code and reason of a failure.
pub(crate) fn why(result: &HostResult) -> String {
    let error = result.error.as_ref().unwrap_or_else(|| panic!("succeeded: {}", result.output));
    format!("{}:{}", error.code, error.details["reason"].as_str().unwrap())
}

/// Returns the result of a call; panics on an error.
pub(crate) fn ok(result: HostResult) -> Value {
    assert!(!result.is_error, "{:?}", result.error);
    result.output
}

/// Returns `{"op": op}` with additional members.
pub(crate) fn op(op: &str, mut more: Value) -> Value {
    more.as_object_mut().unwrap().insert("op".to_owned(), json!(op));
    more
}
