//! Tests preparations: spare processes, and code in shared memory.

use crate::run;
use crate::support::{NoHost, channels, host_modules, options};
use pijs_artifact::Verified;
use pijs_protocol::Now;
use pijs_realm::{ProcessOptions, ProcessRealm, SharedCode, Spare};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("workers_read_sealed_shared_code", workers_read_sealed_shared_code),
    ("a_dead_spare_is_not_used", a_dead_spare_is_not_used),
];

fn with_shared_code() -> ProcessOptions {
    ProcessOptions { shared_code: Some(Arc::new(SharedCode::default())), ..ProcessOptions::default() }
}

fn open(process: &ProcessOptions, modules: &Arc<Verified>) -> ProcessRealm {
    // Started before any shared memory exists, and used for the first realm.
    let spare = Spare::start(process.clone()).expect("a process");
    let opening = spare.open(&options(), &[Arc::clone(modules)], Now::default()).expect("it takes the modules");
    opening.finish(&mut NoHost).expect("it makes a realm").0
}

/// Returns whether a worker has mapped shared code, judged by the name of the mapping.
fn maps_shared_code(realm: &ProcessRealm) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", realm.id())).expect("the worker is running");
    maps.lines().any(|line| line.contains("r--s") && line.contains("memfd:pijs-modules"))
}

fn workers_read_sealed_shared_code() {
    let (process, modules) = (with_shared_code(), host_modules());
    // The last worker has modules other than the shared ones.
    for (modules, mapped) in [(&modules, true), (&modules, true), (&host_modules(), false)] {
        let mut realm = open(&process, modules);
        assert_eq!(channels(&run(&mut realm, 1, "echo", Value::Null, &mut NoHost)), ["bus_event"]);
        assert!(!mapped || maps_shared_code(&realm));
        assert_eq!(
            realm.restrictions().expect("the worker is running").open_files,
            1,
            "the shelf's descriptor is closed"
        );
    }
    // No other test uses shared memory files.
    assert!(!shared_files().is_empty() && shared_files().iter().all(is_sealed));
}

/// Returns descriptors of this process that refer to shared memory.
fn shared_files() -> Vec<PathBuf> {
    let files = fs::read_dir("/proc/self/fd").expect("there is a /proc");
    let paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("pijs-modules"))).collect()
}

/// Returns whether the file can be neither written, extended nor truncated.
fn is_sealed(path: &PathBuf) -> bool {
    let mut file = File::options().write(true).open(path).expect("it is this process's own");
    let refused = |result: std::io::Result<()>| result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    refused(file.write_all(b"x")) && refused(file.set_len(0)) && refused(file.set_len(1 << 30))
}

fn a_dead_spare_is_not_used() {
    let spare = Spare::start(ProcessOptions::default()).expect("a process");
    let spare = spare.alive().expect("it waits");
    kill_process(Pid::from_raw(spare.id().cast_signed()).expect("a process"), Signal::KILL).expect("it is ours");
    // Bounded: a killed process ends at once, or the test times out.
    let mut rest = Some(spare);
    while let Some(spare) = rest {
        std::thread::yield_now();
        rest = spare.alive();
    }
}
