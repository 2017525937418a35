//! Embeds the host: pi-ttsr judges a reply. This program supplies its files, the connectors and the time.

use pijs_environment::SystemTimer;
use pijs_extc::{BuildOptions, Input, SourceMaps, build, host_modules};
use pijs_host::{Event, Host, Package, StreamOutcome};
use pijs_hostcall::*;
use pijs_protocol::call::{FileTarget, FsCall};
use pijs_protocol::{HostcallError, StreamDelta, TypedCall};
use serde_json::{from_value, json};
use std::{rc::Rc, sync::Arc};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/packages/pi-ttsr");
const FILE: &str = "/project/.pi/rules/logger.md";
const RULE: &[u8] = b"---\ntrigger: \"console\\\\.log\"\n---\nUse the project's logger, never console.log.\n";

/// Implements the services that the host needs, except for time.
struct Mine;

/// Serves one rule file to the extension's `node:fs`.
impl Connector for Mine {
    fn call(&self, request: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let answer = match &request.call {
            TypedCall::Fs(FsCall::Readdir { path, .. }) if path == "/project/.pi/rules" => {
                Ok(Output::new(json!({ "entries": [{ "name": "logger.md", "parent": "", "kind": "file" }] })))
            }
            TypedCall::Fs(FsCall::Stat { path }) if path == FILE => {
                Ok(Output::new(json!({ "kind": "file", "size": RULE.len() })))
            }
            TypedCall::Fs(FsCall::ReadFile { file: FileTarget::Path(path), .. }) if path == FILE => {
                Ok(Output::default().with_bytes("data", RULE.to_vec()))
            }
            other => Err(HostcallError::io("ENOENT", "open", format!("ENOENT: no such file or directory, {other:?}"))),
        };
        Box::pin(async { answer })
    }
}

/// Denies each request that is not granted below.
impl Prompter for Mine {
    fn ask(&self, _: Question) -> BoxFuture<'static, Answer> {
        Box::pin(async { Answer::Deny })
    }
}

pub(crate) async fn judge(reply: &[&str], mut say: impl FnMut(String)) -> Result<(), Box<dyn std::error::Error>> {
    let mine = Arc::new(Mine);
    let timer = Arc::new(SystemTimer::new());
    let artifact = Arc::new(build(&Input::at(PACKAGE), &BuildOptions::default())?.artifact);
    let maps = Rc::new(SourceMaps::new(artifact.artifact()));
    let package = Package::new(Profile::new("path:pi-ttsr"), artifact).with_positions(maps);

    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let places = Places::new("/project", "/home", "/home/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy::default(), places).prompter(mine.clone()).build();
    gate.set_grants(&package.profile, &[Grant::any("mine", "verdict")], Evidence::default())?;
    let dispatcher = Dispatcher::builder(gate, ledger, timer.clone()).connector("fs", mine).build();

    let host = Host::builder(host_modules(None)?, Arc::new(dispatcher), timer).fact("homedir", "/home").build();
    host.set_state("cwd", "/project");
    host.run(host.load(package)).await?;
    host.run(host.emit(Event::new("session_start").with("reason", "startup"))).await;
    for chunk in reply {
        let delta: StreamDelta = from_value(json!({ "attempt": 1, "source": "text", "stream": 0, "chunk": chunk }))?;
        match host.stream(&delta) {
            StreamOutcome::Continue => say(format!("{chunk:?} may be shown")),
            StreamOutcome::Abort(verdict) => say(format!("{chunk:?} is stopped: {:?}", verdict.retry)),
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    judge(&["Here it is: ", "`conso", "le.lo", "g(1)`"], |line| println!("{line}")).await
}
