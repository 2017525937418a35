//! Runs a compiled artifact with the real engine, host modules, gate and files. Prompts are not answered, and there are no
//! grants except those that a test passes. The extension may read its own package.
//!
//! Used by `compile.rs` for each fixture that runs, and by `cache.rs` to check that rebuilt artifacts work.

use pijs_artifact::Verified;
use pijs_connectors::Connectors;
use pijs_connectors::system::OsFileSystem;
use pijs_environment::Timer;
use pijs_environment::simulated::CountingTimer;
use pijs_extc::{SourceMaps, host_modules};
use pijs_host::{Host, Package, ReportKind, SourceExcerpts};
use pijs_hostcall::{Dispatcher, Evidence, Gate, Grant, Ledger, LedgerOptions, MemorySink, Places, Policy, Profile};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// The output of loading an artifact.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Lines written to the console.
    pub(crate) lines: Vec<String>,
    /// `message (file:line:column)` of each entry that failed and of each further error.
    pub(crate) failures: Vec<String>,
}

/// Loads all entries of an artifact. `root` is the folder that its modules find around them, `grants` are granted capabilities.
pub(crate) fn run(artifact: Verified, root: &Path, grants: &[String]) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime for a test");
    runtime.block_on(load(artifact, root, grants))
}

async fn load(artifact: Verified, root: &Path, grants: &[String]) -> Ran {
    let timer: Arc<dyn Timer> = Arc::new(CountingTimer::new(1_767_323_045_000, 0));
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let gate = Gate::builder(Policy::default(), Places::new("/project", "/home", "/home/.pi/agent", "/tmp")).build();
    let connectors = Connectors::new().fs(Arc::new(OsFileSystem::new())).timer(Arc::clone(&timer));
    let profile = Profile::new("path:fixture").at(root);
    let grants: Vec<_> = grants.iter().map(|capability| Grant::any(capability.as_str(), capability.as_str())).collect();
    gate.set_grants(&profile, &grants, Evidence::default()).expect("capabilities without a scope");
    let dispatcher = Dispatcher::builder(gate, ledger, Arc::clone(&timer))
        .connectors(connectors.into_methods())
        .connector("module", Arc::new(SourceExcerpts::default()))
        .build();
    let host = Host::builder(host_set(), Arc::new(dispatcher), timer).build();
    host.set_state("cwd", "/project");
    let reports = host.reports();

    let maps = Rc::new(SourceMaps::new(artifact.artifact()));
    let package = Package::new(profile, Arc::new(artifact)).with_positions(maps);
    let loaded = host.run(host.load(package)).await.expect("the realm opens");

    let mut ran = Ran::default();
    for (path, error) in loaded.failures() {
        let place = error.position.as_ref().map(|at| format!(" ({}:{}:{})", at.file, at.line, at.column));
        ran.failures.push(format!("{path}: {}{}", error.message, place.unwrap_or_default()));
    }
    for report in reports.drain() {
        match report.kind {
            ReportKind::Log(entry) => ran.lines.push(entry.message),
            _ => ran.failures.push(report.to_string()),
        }
    }
    ran
}

/// The host modules, compiled once for all tests of a binary.
fn host_set() -> Arc<Verified> {
    static SET: OnceLock<Arc<Verified>> = OnceLock::new();
    Arc::clone(SET.get_or_init(|| host_modules(None).expect("the host modules compile")))
}
