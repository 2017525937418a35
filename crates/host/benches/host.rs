//! Measures a streamed delta and a hostcall on the whole path: host, loop, realm, TypeScript, gate, ledger.
//!
//! Peer figures of the design: a no-op `stream_text` handler 1 us (p50); no handler under 5 ns; a gated and ledgered hostcall 1.6
//! us synchronous, 3 us awaited (Node without a gate: 1.6 us).

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pijs_artifact::Verified;
use pijs_environment::SystemTimer;
use pijs_extc::{HostSource, compile_host_modules, host_modules};
use pijs_host::{ExtensionEntry, Host, Package};
use pijs_hostcall::{
    BoxFuture, ChunkSink, Connector, Dispatcher, Evidence, Gate, Grant, Ledger, LedgerOptions, MemorySink, Output,
    Places, Policy, Profile, Request,
};
use pijs_protocol::{HostcallError, StreamDelta, StreamSource};
use std::hint::black_box;
use std::sync::Arc;

const NO_OP: &str = "export default (pi) => { pi.on('stream_text', () => undefined); };";
const CALLS: &str = "
    import { callSync, call } from 'pi:hostcall';
    export default (pi) => {
      pi.registerCommand('sync', { handler() { for (let i = 0; i < 1000; i++) callSync('session', 'session', { op: 'set_label' }); } });
      pi.registerCommand('awaited', { async handler() { for (let i = 0; i < 1000; i++) await call('session', 'session', { op: 'set_label' }); } });
    };";

struct Nothing;

impl Connector for Nothing {
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::ready(Ok(Output::empty())))
    }
    fn call_sync(&self, _: &Request) -> Result<Output, HostcallError> {
        Ok(Output::empty())
    }
}

fn artifact(source: &str) -> Arc<Verified> {
    compile_host_modules(&[HostSource { specifier: "main", source, path: "main.js" }], None).expect("it compiles")
}

/// A host with one extension, ready on a runtime of this thread.
fn host(runtime: &tokio::runtime::Runtime, source: &str) -> Host {
    let timer = Arc::new(SystemTimer::new());
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let gate = Gate::builder(Policy::default(), Places::new("/p", "/h", "/h/.pi/agent", "/tmp")).build();
    let mut package = Package::new(Profile::new("path:bench"), artifact(source));
    package.entries = vec![ExtensionEntry { module: "main".into(), path: "main.js".into() }];
    gate.set_grants(&package.profile, &[Grant::any("bench", "verdict")], Evidence::default()).expect("valid");
    let dispatcher = Dispatcher::builder(gate, ledger, timer.clone()).connector("session", Arc::new(Nothing)).build();
    let host = Host::builder(host_modules(None).expect("they compile"), Arc::new(dispatcher), timer).build();
    runtime.block_on(host.run(host.load(package))).expect("it loads");
    host
}

fn delta(attempt: u32) -> StreamDelta {
    let source = StreamSource::Text;
    StreamDelta { attempt, source, stream: 0, chunk: "8 bytes.".into(), tool_name: None, file_paths: Vec::new() }
}

fn verdicts(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listening = host(&runtime, NO_OP);
    let mut count = 0_u32;
    criterion.bench_function("stream_text, no-op handler, 32 KB replies", |bencher| {
        bencher.iter_batched(
            || {
                count += 1;
                delta(count / 4096)
            },
            |delta| listening.stream(black_box(&delta)),
            BatchSize::SmallInput,
        );
    });
    let silent = host(&runtime, "export default () => {};");
    let one = delta(1);
    criterion.bench_function("stream_text, nobody listens", |bencher| {
        bencher.iter(|| {
            silent.has_stream_handler(black_box(one.source)) && silent.stream(black_box(&one)).verdict().is_some()
        });
    });
}

fn hostcalls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let host = host(&runtime, CALLS);
    for name in ["sync", "awaited"] {
        criterion.bench_function(&format!("1000 hostcalls, {name}"), |bencher| {
            bencher.iter(|| runtime.block_on(host.run(host.run_command(name, ""))));
        });
    }
}

criterion_group!(benches, verdicts, hostcalls);
criterion_main!(benches);
