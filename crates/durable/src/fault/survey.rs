//! Runs a piece of work with every fault at every operation.

use super::{Among, Fault, FaultVfs, Loss, Operation, Power};
use crate::disk::Disk;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Errors of a file system, by number and name.
#[cfg(unix)]
pub const ERRORS: &[(i32, &str)] = {
    use rustix::io::Errno;
    &[
        (Errno::NOSPC.raw_os_error(), "ENOSPC"),
        (Errno::IO.raw_os_error(), "EIO"),
        (Errno::ROFS.raw_os_error(), "EROFS"),
        (Errno::ACCESS.raw_os_error(), "EACCES"),
        (Errno::DQUOT.raw_os_error(), "EDQUOT"),
        (Errno::MFILE.raw_os_error(), "EMFILE"),
    ]
};
#[cfg(not(unix))]
pub const ERRORS: &[(i32, &str)] = &[];

/// Numbers of injected faults. The work survived all of them, or the check would have panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Survey {
    /// Number of kills of the process.
    pub kills: u64,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of operations that failed, were interrupted, or wrote too few bytes.
    pub errors: u64,
}

/// Describes one run with one fault, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Description of the fault, such as `killed before operation 7: rename a b`.
    pub name: String,
    /// Whether the process was killed; otherwise it got an error and continued.
    pub killed: bool,
}

/// Work under test.
pub trait Work {
    /// The effects that the work acknowledged.
    type Acknowledged;
    /// Resets the folder to the initial state.
    fn reset(&mut self);
    /// Does the work until the disk fails. Returns the effects that it acknowledged.
    fn run(&mut self, disk: &Disk) -> Self::Acknowledged;
    /// Checks the files with a new disk; panics if acknowledged data is lost.
    fn check(&mut self, acknowledged: Self::Acknowledged, case: &Case);
}

/// The density of faults: every operation, or every n-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Density {
    /// The process is killed, or the power is cut, at every n-th change.
    pub kills: usize,
    /// An error is injected at every n-th operation.
    pub errors: usize,
}

impl Density {
    /// Injects a fault at every operation.
    pub const ALL: Self = Self { kills: 1, errors: 1 };

    /// Returns the density of a nightly run (every operation) if `PIJS_NIGHTLY` is set, and otherwise every change and every
    /// `errors`-th operation.
    pub fn nightly_or(errors: usize) -> Self {
        if std::env::var_os("PIJS_NIGHTLY").is_some() { Self::ALL } else { Self { kills: 1, errors } }
    }
}

/// Runs `work` once for each fault. `root` is the folder whose unflushed content a power cut loses.
///
/// # Errors
///
/// Fails when the folder cannot be read or rebuilt. A failed check panics.
pub fn survey<W: Work>(root: &Path, density: Density, work: &mut W) -> io::Result<Survey> {
    let operations = record(work);
    let mut done = Survey::default();
    let changes: Vec<&Operation> = operations.iter().filter(|operation| operation.changes).collect();
    let mut points = Vec::new();
    for (index, operation) in changes.iter().enumerate().step_by(density.kills) {
        let number = index as u64 + 1;
        points.push((number, Fault::KillBefore, "before", *operation));
        if operation.what.starts_with("write ") {
            points.push((number, Fault::KillHalfway, "within", *operation));
        }
    }
    if let Some(last) = changes.last() {
        points.push((changes.len() as u64, Fault::KillAfter, "after", *last));
    }
    for (number, fault, word, operation) in points {
        let name = format!("{word} change {number}: {}", operation.what);
        run(work, FaultVfs::failing(number, Among::Changes, fault), format!("killed {name}"), true);
        done.kills += 1;
        for loss in Loss::ALL {
            work.reset();
            let vfs = Arc::new(FaultVfs::failing(number, Among::Changes, fault).with_power(Power::over(root)?));
            let acknowledged = work.run(&Disk::over(vfs.clone()));
            vfs.take_power().expect("the power is taken only here").cut(loss)?;
            let name = format!("power cut ({loss:?}) {name}");
            work.check(acknowledged, &Case { name, killed: true });
            done.cuts += 1;
        }
    }
    for (index, operation) in operations.iter().enumerate().step_by(density.errors) {
        let number = index as u64 + 1;
        let at = format!("at operation {number}: {}", operation.what);
        let mut faults = vec![("ShortWrite".to_owned(), Fault::ShortWrite)];
        for (error, name) in ERRORS {
            faults.push((format!("{name} once"), Fault::Once(*error)));
            faults.push((format!("{name} for good"), Fault::FromHere(*error)));
        }
        #[cfg(unix)]
        faults.push(("EINTR".to_owned(), Fault::Once(rustix::io::Errno::INTR.raw_os_error())));
        for (name, fault) in faults {
            if applies(operation, fault) {
                run(work, FaultVfs::failing(number, Among::All, fault), format!("{name} {at}"), false);
                done.errors += 1;
            }
        }
    }
    Ok(done)
}

fn record<W: Work>(work: &mut W) -> Vec<Operation> {
    work.reset();
    let vfs = Arc::new(FaultVfs::recording());
    let acknowledged = work.run(&Disk::over(vfs.clone()));
    let operations = vfs.operations();
    work.check(acknowledged, &Case { name: "nothing failed".to_owned(), killed: false });
    operations
}

fn run<W: Work>(work: &mut W, vfs: FaultVfs, name: String, killed: bool) {
    work.reset();
    let acknowledged = work.run(&Disk::over(Arc::new(vfs)));
    work.check(acknowledged, &Case { name, killed });
}

fn applies(operation: &Operation, fault: Fault) -> bool {
    match fault {
        Fault::ShortWrite => operation.what.starts_with("write "),
        Fault::Once(error) | Fault::FromHere(error) => operation.kind.can_fail_with(error),
        _ => true,
    }
}
