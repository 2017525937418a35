//! A host like that of `pi`: with the machine's clock, the watchdog thread, the gate, and a ledger in a file.

use pijs_artifact::Verified;
use pijs_connectors::Connectors;
use pijs_connectors::system::OsFileSystem;
use pijs_environment::SystemTimer;
use pijs_extc::{HostSource, compile_host_modules};
use pijs_host::{Event, ExtensionEntry, Host, InThread, OpenRealm, Package};
use pijs_hostcall::{
    BoxFuture, ChunkSink, Connector, Dispatcher, Evidence, Gate, Grant, Ledger, LedgerOptions, LedgerSink, Output,
    Places, Policy, Profile, Request,
};
use pijs_protocol::{HostcallError, StreamDelta, StreamSource};
use pijs_runtime::WatchThread;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A host with one extension.
pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) runtime: Runtime,
    ledger: Ledger,
    path: PathBuf,
    _directory: TempDir,
}

impl World {
    /// Loads one module of JavaScript as an extension, in the host's thread.
    pub(crate) fn with_source(source: &str) -> Self {
        Self::of_source(source, Box::new(InThread))
    }

    /// Loads one module of JavaScript as an extension, in a sealed process.
    #[cfg(target_os = "linux")]
    pub(crate) fn sealed(source: &str) -> Self {
        Self::of_source(source, Box::new(pijs_host::InProcess::new(pijs_realm::ProcessOptions::default())))
    }

    fn of_source(source: &str, realms: Box<dyn OpenRealm>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let source = HostSource { specifier: "main", source, path: "main.js" };
        let artifact = compile_host_modules(&[source], None).expect("it compiles");
        let mut package = Package::new(Profile::new("path:bench"), artifact);
        package.entries = vec![ExtensionEntry { module: "main".into(), path: "main.js".into() }];
        Self::load_in(directory, package, realms)
    }

    /// Loads a package with `directory` as the project, in the host's thread.
    pub(crate) fn load(directory: TempDir, package: Package) -> Self {
        Self::load_in(directory, package, Box::new(InThread))
    }

    /// Loads a package with `directory` as the project, in a sealed process.
    #[cfg(target_os = "linux")]
    pub(crate) fn load_sealed(directory: TempDir, package: Package) -> Self {
        Self::load_in(directory, package, Box::new(pijs_host::InProcess::new(pijs_realm::ProcessOptions::default())))
    }

    fn load_in(directory: TempDir, package: Package, realms: Box<dyn OpenRealm>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let root = directory.path().canonicalize().expect("it exists");
        let home = root.join("home");
        let ledger_path = root.join("ledger.jsonl");
        let sink = FileSink(Mutex::new(File::create(&ledger_path).expect("a file")));
        let ledger = Ledger::new(LedgerOptions::default(), Arc::new(sink));
        // As in `pi`, lines are hashed and written on a separate thread.
        let writer = ledger.writer();
        std::thread::spawn(move || writer.run());
        let places = Places::new(&root, &home, home.join(".pi/agent"), root.join("tmp"));
        let gate = Gate::builder(Policy::default(), places).build();
        gate.set_grants(&package.profile, &[Grant::any("bench", "verdict")], Evidence::default()).expect("valid");

        let timer = Arc::new(SystemTimer::new());
        let connectors = Connectors::new().fs(Arc::new(OsFileSystem::new()));
        let dispatcher = Dispatcher::builder(gate, ledger.clone(), timer.clone())
            .connectors(connectors.into_methods())
            .connector("session", Arc::new(Nothing))
            .build();
        let host = Host::builder(host_modules(), Arc::new(dispatcher), timer)
            .realms(realms)
            .watchdog(WatchThread::start().expect("a thread"))
            .fact("homedir", home.display().to_string())
            .build();
        host.set_state("cwd", root.display().to_string());
        let report = runtime.block_on(host.run(host.load(package))).expect("it loads");
        assert_eq!(report.failures().count(), 0, "an entry failed to load");
        runtime.block_on(host.run(host.emit(Event::new("session_start").with("reason", "startup"))));
        Self { host, runtime, ledger, path: ledger_path, _directory: directory }
    }

    /// Waits until all lines of the ledger are written.
    pub(crate) fn catch_up(&self) {
        self.ledger.flush().expect("the ledger is written");
    }

    /// Returns the number of ledger lines that name this event.
    pub(crate) fn recorded(&self, event: &str) -> usize {
        self.ledger.flush().expect("the ledger is written");
        let text = std::fs::read_to_string(&self.path).expect("the ledger is a file");
        let name = format!("\"event\":\"{event}\"");
        text.lines().filter(|line| line.contains(&name)).count()
    }
}

/// Returns the host module set, compiled once.
pub(crate) fn host_modules() -> Arc<Verified> {
    static SET: OnceLock<Arc<Verified>> = OnceLock::new();
    Arc::clone(SET.get_or_init(|| pijs_extc::host_modules(None).expect("the host modules compile")))
}

/// Returns a file or folder below `fixtures/`.
pub(crate) fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// Returns a text delta of an attempt.
pub(crate) fn text(attempt: u32, chunk: &str) -> StreamDelta {
    let source = StreamSource::Text;
    StreamDelta { attempt, source, stream: 0, chunk: chunk.into(), tool_name: None, file_paths: Vec::new() }
}

/// A connector that does nothing, so that only the dispatch is measured.
struct Nothing;

impl Connector for Nothing {
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::ready(Ok(Output::empty())))
    }

    fn call_sync(&self, _: &Request) -> Result<Output, HostcallError> {
        Ok(Output::empty())
    }
}

struct FileSink(Mutex<File>);

impl LedgerSink for FileSink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(lines)
    }
}
