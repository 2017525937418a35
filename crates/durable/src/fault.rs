//! Fault injection: a file system with a fault at the n-th operation.
//!
//! A test runs its work once over [`FaultVfs::recording`] to count the operations, then once for each operation with a [`Fault`]
//! there, and checks the files. A crash is simulated by failing every later operation: as in a killed process, cleanup code has
//! no effect. [`Power`] in addition discards data that was not flushed.
//!
//! A real program can be tested with these faults as well: a build with guard switches reads `PIJS_FAULT` ([`from_environment`]).

mod power;
mod survey;

pub use power::{Loss, Power};
pub use survey::{Case, Density, ERRORS, Survey, Work, survey};

use crate::os::OsVfs;
use crate::owner::Owner;
use crate::vfs::{Open, Stat, Vfs, VfsFile};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A fault at the chosen operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed just before the operation.
    KillBefore,
    /// The process is killed half-way through a write; for other operations, this is like [`Fault::KillAfter`].
    KillHalfway,
    /// The process is killed just after the operation.
    KillAfter,
    /// The operation fails once with this error number, if it can fail with it.
    Once(i32),
    /// The operation and all later ones fail with this error number, if they can fail with it: a full disk stays full.
    FromHere(i32),
    /// A write accepts only half of the bytes.
    ShortWrite,
    /// A bug: the thread panics just before the operation.
    Panic,
}

/// The operations that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Operations that change something: the points at which a crash makes a difference.
    Changes,
    /// All operations, including reads.
    All,
}

/// A recorded operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Description, such as `write 12 bytes settings.json`.
    pub what: String,
    /// Whether the operation can change something.
    pub changes: bool,
    kind: OperationKind,
}

/// Kinds of operations, by the errors that they can return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    /// Reading content.
    Read,
    /// Reading names and metadata, opening for reading.
    Look,
    Lock,
    Write,
    Sync,
    /// New names: files and folders.
    Create,
    /// Moving and removing names, permissions.
    Rename,
    Cut,
    /// A change outside of this interface.
    Step,
}

impl OperationKind {
    fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Look | Self::Lock)
    }

    /// Returns whether an operation of this kind can fail with this error.
    fn can_fail_with(self, number: i32) -> bool {
        use rustix::io::Errno;
        match Errno::from_raw_os_error(number) {
            Errno::INTR => matches!(self, Self::Read | Self::Write),
            // Moving and removing need no space.
            Errno::NOSPC | Errno::DQUOT => matches!(self, Self::Write | Self::Create | Self::Sync | Self::Step),
            Errno::ROFS => self.changes() && !matches!(self, Self::Sync),
            Errno::ACCESS => matches!(self, Self::Create | Self::Rename | Self::Look | Self::Step),
            Errno::MFILE => matches!(self, Self::Create | Self::Look | Self::Step),
            // Some network file systems do not support locks.
            Errno::OPNOTSUPP | Errno::NOLCK => matches!(self, Self::Lock),
            _ => !matches!(self, Self::Lock),
        }
    }
}

/// The file system of the machine with an injected fault.
#[derive(Debug)]
pub struct FaultVfs {
    shared: Arc<FaultShared>,
    owner: Owner,
    machine: Arc<dyn Vfs>,
}

#[derive(Debug)]
struct FaultShared {
    plan: Option<(u64, Among, Fault)>,
    /// Whether the fault kills the real process.
    kills: bool,
    record: Option<PathBuf>,
    state: Mutex<FaultState>,
}

#[derive(Debug, Default)]
struct FaultState {
    counted: u64,
    ended: bool,
    operations: Vec<Operation>,
    power: Option<Power>,
}

/// The injected action of an operation.
enum FaultAction {
    Run,
    RunThenDie,
    HalfThenDie,
    Half,
}

/// Id of the next simulated process: each instance simulates another process, so that temporary files of earlier instances are
/// stale.
static PROCESSES: AtomicU32 = AtomicU32::new(1);

impl FaultVfs {
    /// Counts operations without a fault.
    pub fn recording() -> Self {
        Self::with(None, None)
    }

    /// Injects a fault at the operation `number`, counted from 1.
    pub fn failing(number: u64, among: Among, fault: Fault) -> Self {
        Self::with(Some((number, among, fault)), None)
    }

    /// Sets the record of flushed data from which a power cut is simulated.
    #[must_use]
    pub fn with_power(self, power: Power) -> Self {
        self.shared.state().power = Some(power);
        self
    }

    fn with(plan: Option<(u64, Among, Fault)>, record: Option<PathBuf>) -> Self {
        let owner = Owner { pid: std::process::id(), token: PROCESSES.fetch_add(1, Ordering::Relaxed) };
        let shared = Arc::new(FaultShared { plan, kills: false, record, state: Mutex::default() });
        Self { shared, owner, machine: Arc::new(OsVfs) }
    }

    /// Returns the operations so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.shared.state().operations.clone()
    }

    /// Returns whether the fault was reached.
    pub fn was_reached(&self) -> bool {
        self.shared.plan.is_some_and(|(number, ..)| self.shared.state().counted >= number)
    }

    /// Kills the simulated process: every further operation fails.
    pub fn end(&self) {
        self.shared.state().ended = true;
    }

    /// Takes the record of flushed data, to cut the power.
    pub fn take_power(&self) -> Option<Power> {
        self.shared.state().power.take()
    }
}

/// Returns the fault that `PIJS_FAULT` requests: `kill-before:N`, `kill-halfway:N`, `kill-after:N` (the process kills itself at
/// the N-th change), `panic:N` (the thread that makes the N-th change panics), `error:NUMBER:N` (from the N-th operation on), or
/// `record:FILE` (appends each change to a file). [`entropy`](crate::entropy()) reads `entropy` itself.
pub fn from_environment() -> Option<Arc<dyn Vfs>> {
    let text = std::env::var("PIJS_FAULT").ok()?;
    let (kind, rest) = text.split_once(':')?;
    let fault = match kind {
        "record" => return Some(Arc::new(FaultVfs::with(None, Some(PathBuf::from(rest))))),
        "kill-before" => Fault::KillBefore,
        "kill-halfway" => Fault::KillHalfway,
        "kill-after" => Fault::KillAfter,
        "panic" => Fault::Panic,
        "error" => {
            let (error, number) = rest.split_once(':')?;
            let plan = (number.parse().ok()?, Among::All, Fault::FromHere(error.parse().ok()?));
            return Some(Arc::new(FaultVfs::with(Some(plan), None)));
        }
        _ => return None,
    };
    // One counter per process, shared by all disks.
    static SHARED: std::sync::OnceLock<Arc<FaultShared>> = std::sync::OnceLock::new();
    let plan = Some((rest.parse().ok()?, Among::Changes, fault));
    let shared =
        SHARED.get_or_init(|| Arc::new(FaultShared { plan, kills: true, record: None, state: Mutex::default() }));
    let owner = Owner::this_process().ok()?;
    Some(Arc::new(FaultVfs { shared: Arc::clone(shared), owner, machine: Arc::new(OsVfs) }))
}

fn ended_error() -> io::Error {
    io::Error::other("the process has ended (injected)")
}

impl FaultShared {
    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, kind: OperationKind, what: fmt::Arguments<'_>) -> io::Result<FaultAction> {
        let mut state = self.state();
        if state.ended {
            return Err(ended_error());
        }
        state.operations.push(Operation { what: what.to_string(), changes: kind.changes(), kind });
        if let Some(path) = self.record.as_ref().filter(|_| kind.changes()) {
            let mut file = std::fs::File::options().create(true).append(true).open(path)?;
            file.write_all(format!("{what}\n").as_bytes())?;
        }
        let Some((number, among, fault)) = self.plan else { return Ok(FaultAction::Run) };
        if among == Among::All || kind.changes() {
            state.counted += 1;
        } else {
            return Ok(FaultAction::Run);
        }
        let here = state.counted == number;
        drop(state);
        match fault {
            Fault::FromHere(error) if self.state().counted >= number && kind.can_fail_with(error) => {
                Err(io::Error::from_raw_os_error(error))
            }
            Fault::Once(error) if here && kind.can_fail_with(error) => Err(io::Error::from_raw_os_error(error)),
            Fault::ShortWrite if here => Ok(FaultAction::Half),
            Fault::KillBefore if here => Err(self.die()),
            Fault::KillHalfway if here => Ok(FaultAction::HalfThenDie),
            Fault::KillAfter if here => Ok(FaultAction::RunThenDie),
            Fault::Panic if here => panic!("injected at {what}"),
            _ => Ok(FaultAction::Run),
        }
    }

    fn die(&self) -> io::Error {
        self.state().ended = true;
        #[cfg(unix)]
        if self.kills {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        ended_error()
    }

    fn run<T>(
        &self,
        kind: OperationKind,
        what: fmt::Arguments<'_>,
        act: impl FnOnce() -> io::Result<T>,
        then: impl FnOnce(&mut Power) -> io::Result<()>,
    ) -> io::Result<T> {
        let turn = self.begin(kind, what)?;
        let done = act()?;
        if let Some(power) = &mut self.state().power {
            then(power)?;
        }
        match turn {
            FaultAction::Run | FaultAction::Half => Ok(done),
            FaultAction::RunThenDie | FaultAction::HalfThenDie => Err(self.die()),
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl FaultVfs {
    fn run<T>(
        &self,
        kind: OperationKind,
        what: fmt::Arguments<'_>,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.shared.run(kind, what, act, |_| Ok(()))
    }
}

impl Vfs for FaultVfs {
    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn VfsFile>> {
        let kind = match open {
            Open::Read => OperationKind::Look,
            Open::CreateNew(_) | Open::Append(_) => OperationKind::Create,
        };
        let file = self.shared.run(
            kind,
            format_args!("open {open:?} {}", name(path)),
            || self.machine.open(path, open),
            |power| if open.changes() { power.track(path) } else { Ok(()) },
        )?;
        Ok(Box::new(FaultFile { file, name: name(path), shared: Arc::clone(&self.shared) }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.run(OperationKind::Look, format_args!("stat {}", name(path)), || self.machine.stat(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.run(OperationKind::Look, format_args!("list {}", name(directory)), || self.machine.list(directory))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.run(OperationKind::Create, format_args!("create_dir {}", name(path)), || self.machine.create_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(OperationKind::Rename, format_args!("rename {} {}", name(from), name(to)), || {
            self.machine.rename(from, to)
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(OperationKind::Rename, format_args!("rename_new {} {}", name(from), name(to)), || {
            self.machine.rename_new(from, to)
        })
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.run(OperationKind::Rename, format_args!("exchange {} {}", name(a), name(b)), || {
            self.machine.exchange(a, b)
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.run(OperationKind::Rename, format_args!("remove_file {}", name(path)), || self.machine.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.run(OperationKind::Rename, format_args!("remove_dir {}", name(path)), || self.machine.remove_dir(path))
    }

    fn directory(&self, path: &Path) -> io::Result<std::fs::File> {
        self.run(OperationKind::Look, format_args!("directory {}", name(path)), || self.machine.directory(path))
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.shared.run(
            OperationKind::Sync,
            format_args!("sync_dir {}", name(directory)),
            || self.machine.sync_dir(directory),
            |power| power.dir_synced(directory),
        )
    }

    fn sync_tree(&self, directory: &Path) -> io::Result<()> {
        self.shared.run(
            OperationKind::Sync,
            format_args!("sync_tree {}", name(directory)),
            || self.machine.sync_tree(directory),
            |power| power.all_synced(directory),
        )
    }

    fn step(&self, what: &str) -> io::Result<()> {
        self.run(OperationKind::Step, format_args!("step {what}"), || Ok(()))
    }

    fn owner(&self) -> io::Result<Owner> {
        Ok(self.owner)
    }

    fn beneath(&self, roots: &[PathBuf]) -> io::Result<Arc<dyn Vfs>> {
        let machine = self.machine.beneath(roots)?;
        Ok(Arc::new(Self { shared: Arc::clone(&self.shared), owner: self.owner, machine }))
    }
}

#[derive(Debug)]
struct FaultFile {
    file: Box<dyn VfsFile>,
    name: String,
    shared: Arc<FaultShared>,
}

impl VfsFile for FaultFile {
    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.file.real_path(path)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { file, name, shared } = self;
        shared.run(OperationKind::Read, format_args!("read {name}"), || file.read(buffer), |_| Ok(()))
    }

    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let Self { file, name, shared } = self;
        shared.run(OperationKind::Read, format_args!("read {name} at {at}"), || file.read_at(buffer, at), |_| Ok(()))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let turn =
            self.shared.begin(OperationKind::Write, format_args!("write {} bytes {}", bytes.len(), self.name))?;
        match turn {
            FaultAction::Run => self.file.write(bytes),
            FaultAction::Half => self.file.write(&bytes[..bytes.len().div_ceil(2)]),
            FaultAction::RunThenDie => {
                self.file.write(bytes)?;
                Err(self.shared.die())
            }
            FaultAction::HalfThenDie => {
                self.file.write(&bytes[..bytes.len() / 2])?;
                Err(self.shared.die())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let Self { file, name, shared } = self;
        let id = file.stat()?.id;
        shared.run(OperationKind::Sync, format_args!("sync {name}"), || file.sync(), |power| power.file_synced(id))
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        let Self { file, name, shared } = self;
        shared.run(OperationKind::Cut, format_args!("set_len {length} {name}"), || file.set_len(length), |_| Ok(()))
    }

    fn set_mode(&mut self, mode: u32) -> io::Result<()> {
        let Self { file, name, shared } = self;
        shared.run(OperationKind::Rename, format_args!("set_mode {mode:o} {name}"), || file.set_mode(mode), |_| Ok(()))
    }

    fn stat(&self) -> io::Result<Stat> {
        self.file.stat()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.shared.run(OperationKind::Lock, format_args!("lock {}", self.name), || self.file.try_lock(), |_| Ok(()))
    }
}
