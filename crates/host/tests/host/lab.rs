//! A host for tests: fixtures as packages, a clock that jumps, and connectors that answer from a table.

use pijs_artifact::Verified;
use pijs_environment::simulated::VirtualClock;
use pijs_environment::{Timer, Wait};
use pijs_extc::{HostSource, SourceMaps};
use pijs_host::{
    ExtensionEntry, ExtensionReport, Host, HostOptions, InThread, LoadError, LoadReport, OpenRealm, Package,
    ReadableState, ReportKind, Reports, SourceExcerpts, Watch, Watchdog,
};
use pijs_hostcall::{
    BoxFuture, ChunkSink, Connector, Dispatcher, Evidence, Gate, Grant, Ledger, LedgerOptions, MemorySink, Output,
    Places, Policy, Profile, Request,
};
use pijs_protocol::call::ExecCall;
use pijs_protocol::wire::EntriesDelta;
use pijs_protocol::{HostcallError, Now, StreamDelta, StreamSource, TypedCall};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

/// A clock that jumps to the next deadline once all other tasks have had their turn.
pub(crate) struct JumpingTimer(Arc<VirtualClock>);

/// Number of yields to other tasks before the clock jumps; a connector of these tests needs fewer.
const POLITENESS: u32 = 64;

impl JumpingTimer {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> Self {
        Self(clock)
    }
}

impl Timer for JumpingTimer {
    fn now(&self) -> Now {
        self.0.now()
    }

    fn sleep(&self, _wait: Wait, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.0);
        let target = clock.now().elapsed_us + u64::try_from(duration.as_micros()).expect("a short sleep");
        let mut left = POLITENESS;
        Box::pin(poll_fn(move |cx| {
            if left > 0 {
                left -= 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            clock.advance_to_us(target);
            Poll::Ready(())
        }))
    }
}

/// A host with its services.
pub(crate) struct Lab {
    pub(crate) host: Host,
    pub(crate) ledger: Arc<MemorySink>,
    pub(crate) clock: Arc<VirtualClock>,
    /// `method params` of every call that reached a connector.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    gate: Gate,
    grants: Vec<&'static str>,
    reports: Reports,
    seen: std::cell::RefCell<Vec<ExtensionReport>>,
}

/// Capabilities that affect the model, and `exec` for the fake connector.
const GRANTS: &[&str] = &[
    "verdict",
    "exec",
    "session",
    "session.inject",
    "session.control",
    "context.modify",
    "tool.modify",
    "prompt.modify",
];

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(HostOptions::default(), GRANTS)
    }

    /// Creates a lab without checks on the wire, for tests that count allocations.
    pub(crate) fn unchecked() -> Self {
        Self::over(HostOptions::default(), GRANTS, InThread)
    }

    pub(crate) fn with(options: HostOptions, grants: &[&'static str]) -> Self {
        Self::over(options, grants, crate::wire::Checked::new(InThread))
    }

    pub(crate) fn over(options: HostOptions, grants: &[&'static str], realms: impl OpenRealm + 'static) -> Self {
        Self::watched(options, grants, realms, Patient)
    }

    pub(crate) fn watched(
        options: HostOptions,
        grants: &[&'static str],
        realms: impl OpenRealm + 'static,
        watchdog: impl Watchdog + 'static,
    ) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(1_767_323_045_000));
        let timer = Arc::new(JumpingTimer::new(Arc::clone(&clock)));
        let ledger = MemorySink::new();
        let gate =
            Gate::builder(Policy::default(), Places::new("/project", "/home", "/home/.pi/agent", "/tmp")).build();
        let state = ReadableState::default();
        state.set("cwd", "/project");
        let calls = Arc::new(Mutex::new(Vec::new()));
        let connector = Arc::new(Table {
            calls: Arc::clone(&calls),
            state: state.clone(),
            clock: Arc::clone(&clock),
            held: Held::default(),
        });
        let mut dispatcher = Dispatcher::builder(
            gate.clone(),
            Ledger::new(LedgerOptions { session_id: "test".into(), ..LedgerOptions::default() }, ledger.clone()),
            timer.clone(),
        );
        for method in ["exec", "session", "ui"] {
            dispatcher = dispatcher.connector(method, connector.clone());
        }
        let source_excerpts = SourceExcerpts::default().with_functions(pijs_extc::Functions);
        dispatcher = dispatcher.connector("module", Arc::new(source_excerpts.clone()));
        let host = Host::builder(host_modules(), Arc::new(dispatcher.build()), timer)
            .options(options)
            .state(state)
            .source_excerpts(source_excerpts)
            .realms(Box::new(realms))
            .watchdog(watchdog)
            .build();
        let reports = host.reports();
        Self { host, ledger, clock, calls, gate, grants: grants.to_vec(), reports, seen: Default::default() }
    }

    /// Loads `fixtures/extensions/NAME/index.ts` for each name, one package each, in order.
    pub(crate) async fn load(&self, names: &[&str]) {
        for name in names {
            let report = self.try_load(&[name]).await.expect("the package loads");
            let failures: Vec<_> = report.failures().collect();
            assert!(failures.is_empty(), "{name}: {failures:?}");
        }
    }

    /// Loads one package with these fixtures as its entries.
    pub(crate) async fn try_load(&self, names: &[&str]) -> Result<LoadReport, LoadError> {
        self.load_as(&names.join("+"), names).await
    }

    /// Loads a fixture under the given id, so that one fixture can be loaded many times.
    pub(crate) async fn load_as(&self, id: &str, names: &[&str]) -> Result<LoadReport, LoadError> {
        let package = package(id, names);
        self.host.load(self.granted(package)).await
    }

    /// Loads packages of one file each, as a session does at startup.
    pub(crate) async fn load_all(&self, sources: &[(&str, &str)]) -> Vec<Result<LoadReport, LoadError>> {
        let packages = sources
            .iter()
            .map(|(id, source)| self.granted(package_of(id, &[(format!("{id}/index.ts"), (*source).to_owned())])));
        let mut loaded = Vec::new();
        let take = |report| {
            loaded.push(report);
            ControlFlow::Continue(())
        };
        self.host.load_all(packages.collect(), take).await;
        loaded
    }

    /// Grants a package the capabilities of this lab's packages.
    pub(crate) fn granted(&self, package: Package) -> Package {
        let grants: Vec<Grant> = self.grants.iter().map(|name| Grant::any(format!("test:{name}"), *name)).collect();
        self.gate.set_grants(&package.profile, &grants, Evidence::default()).expect("valid grants");
        package
    }

    /// Returns all reports so far.
    pub(crate) fn reported(&self) -> Vec<ExtensionReport> {
        let mut seen = self.seen.borrow_mut();
        seen.extend(self.reports.drain());
        seen.clone()
    }

    /// Returns all console lines so far.
    pub(crate) fn logs(&self) -> Vec<String> {
        self.reported()
            .into_iter()
            .filter_map(|report| match report.kind {
                ReportKind::Log(entry) => Some(entry.message),
                _ => None,
            })
            .collect()
    }

    /// Returns all other reports so far, as shown to users.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.reported()
            .into_iter()
            .filter(|report| !matches!(report.kind, ReportKind::Log(_)))
            .map(|report| report.to_string())
            .collect()
    }

    /// Drops all reports so far.
    pub(crate) fn forget(&self) {
        self.reported();
        self.seen.borrow_mut().clear();
    }

    /// Waits until a matching report arrives, for at most a fixed number of reports.
    pub(crate) async fn until(&self, wanted: impl Fn(&ExtensionReport) -> bool) {
        for _ in 0..1000 {
            if self.reported().iter().any(&wanted) {
                return;
            }
            let report = self.reports.next().await;
            self.seen.borrow_mut().push(report);
        }
        panic!("not reported: {:#?}", self.complaints());
    }

    /// Waits for a console line.
    pub(crate) async fn until_log(&self, line: &str) {
        self.until(|report| matches!(&report.kind, ReportKind::Log(entry) if entry.message == line)).await;
    }

    /// Returns the ledger lines of an event.
    pub(crate) fn ledger_lines(&self, event: &str) -> Vec<Value> {
        self.ledger.lines().into_iter().filter(|line| line["event"] == event).collect()
    }

    /// Runs a future concurrently with the driver.
    pub(crate) fn run<F: Future>(&self, work: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for a test");
        runtime.block_on(self.host.run(work))
    }
}

/// Creates a text delta of the first attempt.
pub(crate) fn text(chunk: &str) -> StreamDelta {
    delta(1, StreamSource::Text, chunk)
}

pub(crate) fn delta(attempt: u32, source: StreamSource, chunk: &str) -> StreamDelta {
    StreamDelta { attempt, source, stream: 0, chunk: chunk.into(), tool_name: None, file_paths: Vec::new() }
}

/// Lets every verdict take any amount of time.
struct Patient;

impl Watchdog for Patient {
    fn watch(&self, _stop: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Watch> {
        Box::new(Self)
    }
}

impl Watch for Patient {
    fn arm(&self, _within_us: u64) {}
    fn disarm(&self) {}
}

/// Blocks the calling thread in the program `held` until the program `release` runs.
#[derive(Default)]
struct Held {
    released: Mutex<bool>,
    changed: Condvar,
}

/// Answers every call: `exec` echoes, `session.append_entry` publishes an entry before it returns.
struct Table {
    calls: Arc<Mutex<Vec<String>>>,
    state: ReadableState,
    clock: Arc<VirtualClock>,
    held: Held,
}

impl Table {
    fn answer(&self, request: &Request) -> Result<Output, HostcallError> {
        let command = command_of(request);
        let params = match &request.call {
            TypedCall::Exec(ExecCall::Run { program, api, .. }) => {
                json!({ "command": program.command, "args": program.args, "cwd": program.cwd, "api": api })
            }
            _ => Value::Object(request.params.clone()),
        };
        self.calls.lock().expect("no test panics here").push(format!("{} {params}", request.method));
        match (request.method.as_str(), params["op"].as_str()) {
            ("exec", _) => {
                let command = command.unwrap_or_default();
                let lock = || self.held.released.lock().expect("no test panics here");
                match command {
                    "held" => drop(self.held.changed.wait_while(lock(), |released| !*released)),
                    "cancellable" => {
                        while !request.cancel.is_cancelled() {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        self.calls.lock().expect("no test panics here").push("cancelled".to_owned());
                    }
                    "release" => {
                        *lock() = true;
                        self.held.changed.notify_all();
                    }
                    _ => {}
                }
                Ok(Output::new(json!({ "stdout": format!("ran {command}"), "stderr": "", "code": 0, "killed": false })))
            }
            ("session", Some("append_entry")) => {
                let entry =
                    json!({ "type": "custom", "id": "e2", "parentId": "e1", "timestamp": "", "data": params["data"] });
                self.state.change_entries(EntriesDelta { keep: 1, append: vec![entry.into()] });
                // Simulates a slow disk, on the clock that the host sees.
                match params["customType"].as_str() {
                    Some("takes 500 ms") => self.clock.advance_us(500_000),
                    Some("takes 2000 ms") => self.clock.advance_us(2_000_000),
                    _ => {}
                }
                Ok(Output::empty())
            }
            _ => Ok(Output::empty()),
        }
    }
}

/// Returns the program of a call.
fn command_of(request: &Request) -> Option<&str> {
    match &request.call {
        TypedCall::Exec(ExecCall::Run { program, .. } | ExecCall::Spawn { program, .. }) => Some(&program.command),
        _ => None,
    }
}

impl Connector for Table {
    fn call(&self, request: Request, _sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let answer = self.answer(&request);
        let hangs = match command_of(&request) {
            Some("forever") => true,
            // Only its second run hangs.
            Some("second") => {
                let calls = self.calls.lock().expect("no test panics here");
                calls.iter().filter(|call| call.contains("second")).count() == 2
            }
            _ => false,
        };
        // The program `behind X` runs until the program `X` was called.
        let calls = Arc::clone(&self.calls);
        let other = command_of(&request).and_then(|command| command.strip_prefix("behind "));
        let other = other.map(|program| format!("\"command\":\"{program}\""));
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            let was_called = |call| calls.lock().expect("no test panics here").iter().any(|line| line.contains(call));
            while other.as_ref().is_some_and(|call| !was_called(call)) {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            answer
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        self.answer(request)
    }
}

/// Returns the host module set, compiled once for all tests.
pub(crate) fn host_modules() -> Arc<Verified> {
    static SET: OnceLock<Arc<Verified>> = OnceLock::new();
    Arc::clone(SET.get_or_init(|| pijs_extc::host_modules(None).expect("the host modules compile")))
}

/// Compiles fixtures file by file into a package.
pub(crate) fn package(id: &str, names: &[&str]) -> Package {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/extensions");
    let files: Vec<(String, String)> = names
        .iter()
        .map(|name| {
            let path = format!("{name}/index.ts");
            let source = std::fs::read_to_string(root.join(&path)).expect("a fixture of this name");
            (path, source)
        })
        .collect();
    package_of(id, &files)
}

/// Creates a package from files: path and source of each.
pub(crate) fn package_of(id: &str, files: &[(String, String)]) -> Package {
    let sources: Vec<HostSource<'_>> =
        files.iter().map(|(path, source)| HostSource { specifier: path, source, path }).collect();
    let artifact = pijs_extc::compile_host_modules(&sources, None).expect("the fixture compiles");
    let maps = SourceMaps::new(artifact.artifact());
    let mut package = Package::new(Profile::new(format!("path:{id}").as_str()), artifact).with_positions(Rc::new(maps));
    package.name = id.to_owned();
    package.entries =
        files.iter().map(|(path, _)| ExtensionEntry { module: path.clone(), path: path.clone() }).collect();
    package
}
