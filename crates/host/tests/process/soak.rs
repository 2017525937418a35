//! A long run (Q37, G9): events of three kinds on ten extensions, one of which crashes again and again. Each event is answered
//! once, and no resource has grown at the end.

use crate::deaths::{crashed, workers};
use crate::lab::{JumpingTimer, host_modules, package_of};
use pijs_durable::Disk;
use pijs_environment::simulated::VirtualClock;
use pijs_host::{Host, HostOptions, InProcess, ReportKind, Reports, ToolOutcome};
use pijs_hostcall::ledger::{FileLimits, FileSink, audit, parts};
use pijs_hostcall::{
    BoxFuture, ChunkSink, Connector, Dispatcher, Evidence, Gate, Grant, Ledger, LedgerOptions, Output, Places, Policy,
    Request,
};
use pijs_protocol::{ExtensionId, HostcallError};
use pijs_realm::ProcessOptions;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[(&str, fn())] = &[(
    "ten_extensions_lose_nothing_and_keep_nothing_while_one_of_them_crashes",
    ten_extensions_lose_nothing_and_keep_nothing_while_one_of_them_crashes,
)];

const EXTENSIONS: u64 = 10;
/// The extension that crashes. It is the last one, so that its flags have the same value after a restart as at first.
const CRASHER: u64 = EXTENSIONS - 1;
/// Kinds of events, in turn.
const KINDS: [&str; 3] = ["tool", "hostcall", "timer"];

/// Number of events, and of events between two kills of a worker.
struct Length {
    events: u64,
    crash_every: u64,
}

impl Length {
    const CI: Self = Self { events: 4_000, crash_every: 500 };
    const LONG: Self = Self { events: 1_000_000, crash_every: 10_000 };
}

/// Maximum number of bytes of this thread's heap that remain per event: buffers that grow now and then account for one. Keeping
/// anything of an event costs more than this.
const LEFT_PER_EVENT: u64 = 4;
/// Maximum growth of resident memory between 5 % and the end, in percent. Checked only in the long run.
const GROWTH_PERCENT: u64 = 5;

/// Counts calls, in constant memory.
#[derive(Default)]
struct Notes {
    calls: AtomicU64,
}

impl Connector for Notes {
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(Output::new(json!({ "stdout": "", "stderr": "", "code": 0, "killed": false })))
        })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        panic!("{} is not called and waited for", request.method)
    }
}

/// Ten extensions, a ledger in files, and the counts.
struct Soak {
    host: Host,
    reports: Reports,
    notes: Arc<Notes>,
    ledger: PathBuf,
    gate: Gate,
    /// Workers of the extensions that never crash.
    steady: RefCell<Vec<Pid>>,
    next: Cell<u64>,
    /// Number of calls that each extension's current realm has begun.
    begun: RefCell<[u64; EXTENSIONS as usize]>,
    /// Number of hostcalls that were answered, and of calls that ended with their worker.
    hostcalls: Cell<u64>,
    ended: Cell<u64>,
}

impl Soak {
    fn new(folder: &std::path::Path) -> Self {
        let timer = Arc::new(JumpingTimer::new(Arc::new(VirtualClock::starting_at(1_767_323_045_000))));
        let ledger = folder.join("soak.jsonl");
        // The whole ledger is read at the end.
        let limits = FileLimits { parts: usize::MAX, ..FileLimits::default() };
        let sink = Arc::new(FileSink::new(Disk::system(), ledger.clone()).limits(limits));
        let gate =
            Gate::builder(Policy::default(), Places::new("/project", "/home", "/home/.pi/agent", "/tmp")).build();
        let notes = Arc::new(Notes::default());
        let options = LedgerOptions { session_id: "soak".to_owned(), ..LedgerOptions::default() };
        let dispatcher = Dispatcher::builder(gate.clone(), Ledger::new(options, sink), timer.clone())
            .connector("exec", notes.clone())
            .build();
        let process = ProcessOptions::default().turns_of(Duration::from_secs(600));
        let host = Host::builder(host_modules(), Arc::new(dispatcher), timer)
            .options(HostOptions::default())
            .realms(Box::new(InProcess::new(process)))
            .build();
        let reports = host.reports();
        Self {
            host,
            reports,
            notes,
            ledger,
            gate,
            steady: RefCell::default(),
            next: Cell::new(0),
            begun: RefCell::default(),
            hostcalls: Cell::new(0),
            ended: Cell::new(0),
        }
    }

    fn run<F: Future>(&self, work: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for a test");
        runtime.block_on(self.host.run(work))
    }

    async fn load(&self) {
        for extension in 0..EXTENSIONS {
            if extension == CRASHER {
                self.steady.replace(workers());
            }
            let works = include_str!("../../../../fixtures/extensions/works/index.ts");
            let works = works.replace("\"work\"", &format!("\"work-{extension}\""));
            let package = package_of(&format!("works-{extension}"), &[("works/index.ts".to_owned(), works)]);
            let grants = [Grant::any("test:exec", "exec")];
            self.gate.set_grants(&package.profile, &grants, Evidence::default()).expect("valid grants");
            let report = self.host.load(package).await.expect("the package loads");
            assert_eq!(report.failures().count(), 0, "works-{extension}");
        }
        assert_eq!(workers().len() as u64, EXTENSIONS);
    }

    /// Runs one event, from the call to its answer. Returns `None` if its worker was killed meanwhile.
    async fn event(&self, number: u64) -> Option<()> {
        let extension = number % EXTENSIONS;
        let kind = KINDS[(number / EXTENSIONS % KINDS.len() as u64) as usize];
        let mine = {
            let begun = &mut self.begun.borrow_mut()[extension as usize];
            *begun += 1;
            *begun
        };
        let input = json!({ "number": number, "kind": kind });
        let name = format!("work-{extension}");
        match self.host.call_tool(&name, &format!("call_{number}"), input, None, |_| {}).await {
            ToolOutcome::Returned(value) => {
                assert_eq!(value["content"][0]["text"], Value::from(number.to_string()), "the answer to {number}");
                assert_eq!(value["details"]["runs"], mine, "{name} ran event {number} once, and none it was not asked");
                self.hostcalls.set(self.hostcalls.get() + u64::from(kind == "hostcall"));
                Some(())
            }
            ToolOutcome::Ended(reason) if extension == CRASHER && reason == crashed() => None,
            other => panic!("event {number}: {other:?}"),
        }
    }

    /// Runs one event for each extension, concurrently.
    async fn round(&self, crash: bool) {
        let first = self.next.replace(self.next.get() + EXTENSIONS);
        let kill = async {
            if crash {
                self.kill_the_crasher();
            }
        };
        let events = futures_util::future::join_all((first..first + EXTENSIONS).map(|number| self.event(number)));
        let (answers, ()) = tokio::join!(events, kill);
        let ended = answers.iter().filter(|answer| answer.is_none()).count() as u64;
        assert!(ended <= u64::from(crash), "{ended} calls ended in round {first}");
        self.ended.set(self.ended.get() + ended);
        if crash {
            self.until_it_is_back().await;
        }
    }

    fn kill_the_crasher(&self) {
        let steady = self.steady.borrow();
        let others: Vec<Pid> = workers().into_iter().filter(|worker| !steady.contains(worker)).collect();
        let [worker] = others.as_slice() else { panic!("one worker besides the steady ones, not {others:?}") };
        kill_process(*worker, Signal::KILL).expect("the realm is running");
    }

    async fn until_it_is_back(&self) {
        loop {
            match self.reports.next().await.kind {
                ReportKind::Restarted => break,
                // An extension that crashes three times in a minute is disabled until it is released.
                ReportKind::Disabled { .. } => {
                    let id = ExtensionId::from(format!("path:works-{CRASHER}").as_str());
                    assert!(self.host.release(&id), "it is in quarantine");
                }
                _ => {}
            }
        }
        self.begun.borrow_mut()[CRASHER as usize] = 0;
    }

    /// Runs events up to this number.
    async fn until(&self, number: u64, crash_every: u64) {
        while self.next.get() < number {
            let round = self.next.get();
            let crash = round > 0 && round.is_multiple_of(crash_every);
            self.round(crash).await;
            self.reports.drain();
        }
    }
}

/// Resources that a process holds.
#[derive(Debug, PartialEq)]
struct Holdings {
    files: usize,
    threads: usize,
    workers: usize,
    zombies: usize,
}

impl Holdings {
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).expect("a /proc").count();
        let children = fs::read_dir("/proc/self/task")
            .expect("a /proc")
            .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
            .map(|line| line.split_whitespace().count())
            .sum::<usize>();
        let workers = workers().len();
        Self { files: count("/proc/self/fd"), threads: count("/proc/self/task"), workers, zombies: children - workers }
    }
}

/// Returns the resident memory of this process and of the workers that never restart, in kilobytes.
fn resident(steady: &[Pid]) -> u64 {
    let of = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the realm is running");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    of("self") + steady.iter().map(|pid| of(&pid.as_raw_nonzero().to_string())).sum::<u64>()
}

#[expect(clippy::print_stdout, reason = "how fast and how flat it was is what a reader wants to know")]
fn ten_extensions_lose_nothing_and_keep_nothing_while_one_of_them_crashes() {
    let is_long = std::env::var_os("PIJS_LONG").is_some();
    let length = if is_long { Length::LONG } else { Length::CI };
    let folder = tempfile::tempdir().expect("a folder");
    let soak = Soak::new(folder.path());
    soak.run(soak.load());
    // The first twentieth fills caches, and so does the first crash.
    let warm = (length.events / 20).max(length.crash_every + EXTENSIONS);
    soak.run(soak.until(warm, length.crash_every));
    let (before, resident_before) = (Holdings::now(), resident(&soak.steady.borrow()));
    let (began, from) = (Instant::now(), soak.next.get());
    let heap = allocation_counter::measure(|| soak.run(soak.until(length.events, length.crash_every))).bytes_current;
    let events = soak.next.get() - from;
    let seconds = began.elapsed().as_secs_f64();
    let (after, resident_after) = (Holdings::now(), resident(&soak.steady.borrow()));
    println!(
        "{} events, {:.0} a second; {} ended with their worker; {heap} bytes more in the heap, {resident_before} kB \
         resident at 5 %, {resident_after} kB at the end",
        length.events,
        events as f64 / seconds,
        soak.ended.get(),
    );
    assert_eq!(after, before, "files, threads and processes");
    assert_eq!(after.zombies, 0);
    assert!(heap <= i64::try_from(events * LEFT_PER_EVENT).expect("a number"), "{heap} bytes for {events} events");
    if is_long {
        let most = resident_before + resident_before * GROWTH_PERCENT / 100;
        assert!(resident_after <= most, "{resident_after} kB at the end, {resident_before} kB at 5 %");
    }
    let Soak { host, ledger, notes, hostcalls, ended, .. } = soak;
    drop(host);
    assert!(ended.get() > 0, "the worker was killed between two turns each time");
    let reached = notes.calls.load(Ordering::Relaxed);
    assert!(
        (hostcalls.get()..=hostcalls.get() + ended.get()).contains(&reached),
        "{reached} calls reached the other side"
    );
    let older = parts(&Disk::system(), &ledger).expect("a folder");
    let files = older.iter().chain([&ledger]).map(|file| fs::File::open(file).map(BufReader::new));
    let audit = audit(files).expect("a ledger that holds");
    assert_eq!((audit.calls, audit.open.len(), audit.verified.torn), (reached, 0, false));
}
