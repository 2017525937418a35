//! Scenarios about locks, files, bytecode and trust that a session cannot trigger directly.

pub(crate) mod builders;
pub(crate) mod connections;
pub(crate) mod databases;
pub(crate) mod streams;
pub(crate) mod tapes;

use pijs_artifact::{InstallKey, Verified, encode, sign};
use pijs_durable::{Disk, Lock};
use pijs_environment::Timer;
use pijs_environment::simulated::StandingTimer;
use pijs_extc::{BuildOptions, BuildOutput, Input, build, host_modules};
use pijs_host::{Event, Host, Package};
use pijs_hostcall::{
    Caller, Dispatcher, Gate, Grant, Ledger, LedgerOptions, MemorySink, Mode, Places, Policy, Profile,
};
use pijs_protocol::{Capability, HostCall, HostResult};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// I45: changing the installed packages takes an exclusive lock.
pub(crate) fn a_lock_has_one_holder() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let take = || Lock::take(&Disk::system(), &folder.path().join("lock"), Duration::ZERO, |_| {});
    let _first = take().expect("nobody has it");
    take().is_err()
}

/// F12: a file system mounted inside a folder does not belong to the folder.
#[cfg(target_os = "linux")]
pub(crate) fn a_mounted_file_system_is_not_entered() -> bool {
    use pijs_connectors::system::{FileSystem as _, Mounts, OsFileSystem};
    let open = |mounts| {
        let root = OsFileSystem::new().open_root("/".as_ref(), mounts).expect("there is a root");
        root.child("proc".as_ref()).err().map(|error| error.raw_os_error())
    };
    assert_eq!(open(Mounts::Cross), None, "it is mounted everywhere");
    open(Mounts::Stay) == Some(Some(rustix::io::Errno::XDEV.raw_os_error()))
}

/// Returns a host that permits all access in a folder, and has no connector except files.
fn files_of(project: &Path) -> Dispatcher {
    use pijs_connectors::{fs::FsConnector, system::OsFileSystem};
    let places = Places::new(project, "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy { mode: Mode::Permissive, ..Policy::default() }, places).build();
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let files = Arc::new(FsConnector::new(Arc::new(OsFileSystem::new())));
    Dispatcher::builder(gate, ledger, Arc::new(StandingTimer::default())).connector("fs", files).build()
}

/// Q14: an extension that opens many files leaves most of the process's files to others.
pub(crate) fn files_of_one_leave_room_for_others() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};
    const LIMIT: u64 = 64;
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().canonicalize().expect("it is there");
    std::fs::write(project.join("f"), "").expect("a file");
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).expect("a lower limit");
    let dispatcher = files_of(&project);
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let open = |number| {
        let Value::Object(params) = json!({ "op": "open", "path": "f", "flags": "r" }) else {
            unreachable!("an object")
        };
        let call =
            HostCall { capability: Capability::new("read"), method: "fs".into(), params, ..super::call(number, "") };
        !dispatcher.call_sync(&caller, call).is_error
    };
    let opened = (0..LIMIT as usize).take_while(|number| open(*number)).count();
    assert!(opened > 0, "a few are fine");
    opened as u64 <= LIMIT / 4
}

/// Q14: an extension's watches, including their subfolders, leave most of the process's files to others.
pub(crate) fn watches_of_one_leave_room_for_others() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::sync::mpsc;
    const LIMIT: u64 = 256;
    /// Number of folders, above the extension's share and below the limit.
    const FOLDERS: u64 = LIMIT / 4 + 36;
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().canonicalize().expect("it is there");
    for number in 0..FOLDERS {
        std::fs::create_dir(project.join(number.to_string())).expect("a folder");
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).expect("a lower limit");
    let dispatcher = files_of(&project);
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (answers, answered) = mpsc::channel();
    let watch = json!({ "op": "watch", "path": ".", "recursive": true });
    let Value::Object(params) = watch else { unreachable!("an object") };
    let call = HostCall { capability: Capability::new("read"), method: "fs".into(), params, ..super::call(0, "") };
    // The test may have dropped the receiver.
    let take = move |result: HostResult, _| answers.send(result.is_error).unwrap_or(());
    let _entered = runtime.enter();
    runtime.spawn(dispatcher.call(&caller, call, take.clone()).rest(take));
    // An accepted watch is not answered.
    answered.recv_timeout(Duration::from_secs(30)).is_ok_and(|is_error| is_error)
}

/// Q14: the watches of an extension share one inotify instance.
#[cfg(target_os = "linux")]
pub(crate) fn watches_of_one_share_an_instance() -> bool {
    use std::sync::mpsc;
    const WATCHES: usize = 12;
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().canonicalize().expect("it is there");
    let dispatcher = files_of(&project);
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (answers, answered) = mpsc::channel();
    for number in 0..WATCHES {
        std::fs::create_dir(project.join(number.to_string())).expect("a folder");
        let watch = json!({ "op": "watch", "path": number.to_string() });
        let Value::Object(params) = watch else { unreachable!("an object") };
        let call =
            HostCall { capability: Capability::new("read"), method: "fs".into(), params, ..super::call(number, "") };
        let answers = answers.clone();
        // The test may have dropped the receiver.
        let take = move |result: HostResult, _| answers.send(result.is_error).unwrap_or(());
        let _entered = runtime.enter();
        runtime.spawn(dispatcher.call(&caller, call, take.clone()).rest(take));
        assert!(!answered.recv_timeout(Duration::from_secs(120)).expect("the call completes"), "few watches are fine");
    }
    // Counts the watches of an instance, which the system lists for each descriptor.
    let watched = |entry: std::fs::DirEntry| {
        let facts = std::fs::read_to_string(entry.path()).unwrap_or_default();
        facts.lines().filter(|line| line.starts_with("inotify ")).count()
    };
    let most = std::fs::read_dir("/proc/self/fdinfo").expect("its own").flatten().map(watched).max();
    assert_ne!(most, Some(0), "something is watched");
    most == Some(WATCHES)
}

/// D05: an extension that reads many files without taking results does not exhaust the host's memory.
pub(crate) fn undelivered_results_stop_reads() -> bool {
    use std::sync::mpsc;
    const FILES: usize = 24;
    const SIZE: u64 = 32 << 20;
    /// Number of results that may wait; twice that exceeds those in flight.
    const ENOUGH: usize = 8;
    const TOO_MANY: usize = 16;
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().canonicalize().expect("it is there");
    std::fs::File::create(project.join("f")).and_then(|file| file.set_len(SIZE)).expect("a file");
    let dispatcher = files_of(&project);
    let caller = Caller::new(Arc::new(Profile::new("path:/x")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let (answers, answered) = mpsc::channel();
    for number in 0..FILES {
        let Value::Object(params) = json!({ "op": "readFile", "path": "f" }) else { unreachable!("an object") };
        let call =
            HostCall { capability: Capability::new("read"), method: "fs".into(), params, ..super::call(number, "") };
        let answers = answers.clone();
        // The test may have dropped the receiver.
        let take = move |result: HostResult, held| drop(answers.send((result.is_error, held)));
        let _entered = runtime.enter();
        runtime.spawn(dispatcher.call(&caller, call, take.clone()).rest(take));
    }
    let mut untaken = Vec::new();
    while untaken.len() <= TOO_MANY {
        let patience = Duration::from_secs(if untaken.len() < ENOUGH { 120 } else { 10 });
        match answered.recv_timeout(patience) {
            Ok((is_error, held)) => {
                assert!(!is_error, "what is read is answered");
                untaken.push(held);
            }
            Err(_) => break,
        }
    }
    assert!(untaken.len() >= ENOUGH, "that much may wait");
    let waited = untaken.len() <= TOO_MANY;
    // When results are taken, the other reads finish.
    let mut all = untaken.len();
    drop(untaken);
    while all < FILES && answered.recv_timeout(Duration::from_secs(120)).is_ok() {
        all += 1;
    }
    assert_eq!(all, FILES, "nothing is lost");
    waited
}

/// Id of the owner, which is part of the keys of cached bytecode.
const ID: &str = "extension:one";

fn key() -> InstallKey {
    InstallKey::from_bytes([7; 32])
}

fn built(source: &str) -> BuildOutput {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("index.ts");
    std::fs::write(&file, source).expect("an extension");
    build(&Input::at(&file), &BuildOptions::default()).expect("it builds")
}

/// B16: changed bytecode, in a container with matching digests.
pub(crate) fn changed_bytecode_is_refused() -> bool {
    let good = built("export default () => {};");
    let engine = &good.metadata().engine;
    let mac = sign(&key(), &good.encoded().expect("it was built"), engine, ID);
    Verified::check(&good.encoded().expect("it was built"), &mac, &key(), engine, ID)
        .expect("a signed artifact is accepted");
    let mut artifact = good.artifact.artifact().clone();
    let bytecode = artifact.modules[0].bytecode.as_mut().expect("it was built");
    let mut changed = bytecode.to_vec();
    *changed.last_mut().expect("there is some") ^= 1;
    *bytecode = changed.into();
    Verified::check(&encode(&artifact), &mac, &key(), engine, ID).is_err()
}

/// B17: an artifact of this installation under the name of another one.
pub(crate) fn bytecode_of_another_id_is_refused() -> bool {
    let good = built("export default () => {};");
    let engine = &good.metadata().engine;
    let mac = sign(&key(), &good.encoded().expect("it was built"), engine, "extension:another");
    Verified::check(&good.encoded().expect("it was built"), &mac, &key(), engine, ID).is_err()
}

/// B19: an artifact for another engine, correct in every other respect.
pub(crate) fn bytecode_of_another_engine_is_refused() -> bool {
    let good = built("export default () => {};");
    let mut artifact = good.artifact.artifact().clone();
    artifact.metadata.engine.version.push_str("-next");
    let bytes = encode(&artifact);
    let engine = &good.metadata().engine;
    Verified::check(&bytes, &sign(&key(), &bytes, engine, ID), &key(), engine, ID).is_err()
}

/// M10: an extension may trust a project for one session; only the user may trust it permanently.
pub(crate) fn trust_is_remembered_by_nobody_else() -> bool {
    const SAYS: &str =
        "export default (pi: any) => { pi.on(\"project_trust\", () => ({ trusted: \"yes\", remember: true })); };";
    let package = Package::new(Profile::new("path:/x"), Arc::new(built(SAYS).artifact));
    let places = Places::new("/project", "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy { mode: Mode::Permissive, ..Policy::default() }, places).build();
    gate.set_grants(&package.profile, &[Grant::any("test", "trust")], pijs_hostcall::Evidence::default())
        .expect("a grant");
    let timer: Arc<dyn Timer> = Arc::new(StandingTimer::default());
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    let dispatcher = Dispatcher::builder(gate, ledger, timer.clone()).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let modules = host_modules(None).expect("they build");
        let host = Host::builder(modules, Arc::new(dispatcher), timer).build();
        host.run(host.load(package)).await.expect("it loads");
        let outcome = host.run(host.emit(Event::new("project_trust"))).await;
        assert_eq!(outcome.answer_field("trusted"), Some(&"yes".into()), "it may decide for this once");
        outcome.answer_field("remember").is_none()
    })
}
