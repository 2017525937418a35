//! Supervises a program from a process between host and program, so that the whole process tree can be stopped.
//!
//! A program is started by a *supervisor*: another process of this executable, with a socket as standard input. [`enter`], called
//! first in `main`, recognises it. The supervisor is the program's parent and a *child subreaper*, so the kernel makes it the
//! parent of orphaned descendants, including those that fork twice and open a session. If control groups can be created, the
//! program runs in one as well.
//!
//! The program gets the three pipes, its folder (by handle), the environment of the call, an empty signal mask with no ignored
//! signals, and a session without terminal. Set-user-id gives it no privileges, it writes no core file, and it has no other open
//! files.
//!
//! The protocol: the host sends one [`SupervisorRequest`] with the file descriptors attached, then the lines `signal N`,
//! `signal-group N` and `end`. The supervisor sends one [`SupervisorMessage`] in JSON per line. When the host closes its end, the
//! tree is stopped.

#[cfg(target_os = "linux")]
mod file_rules;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod tree;

#[cfg(target_os = "linux")]
pub(super) use linux::{receive_message, send_request};
#[cfg(target_os = "linux")]
pub(super) use tree::{signal_descendant, sweep};

use pijs_git_bounds::FileBounds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Argument that makes a program a supervisor.
#[cfg(target_os = "linux")]
pub(super) const ARGUMENT: &str = "--pijs-exec-supervisor";

/// Path of the running executable, valid even if its file was replaced.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Supervises a program and exits, if this process was started as a supervisor. Call it first in `main`.
///
/// Returns at once in every other process, and on systems without supervisors.
pub fn enter() {
    #[cfg(target_os = "linux")]
    if linux::is_supervisor() {
        linux::run();
    }
}

/// Tells a supervisor which program to run. A restriction that is `false` is not applied; only tests disable restrictions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SupervisorRequest {
    /// Absolute path without links.
    pub(super) program: PathBuf,
    /// Device and inode of the file that the gate decided about.
    pub(super) identity: (u64, u64),
    /// Arguments after `argv[0]`.
    pub(super) args: Vec<String>,
    /// `argv[0]`.
    pub(super) name: String,
    /// The complete environment.
    pub(super) env: BTreeMap<String, String>,
    /// Whether standard input is attached as a fourth descriptor.
    pub(super) has_stdin: bool,
    /// Milliseconds between `SIGTERM` and `SIGKILL`.
    pub(super) grace_ms: u64,
    /// Folders below which the program may write; `None` if it may write wherever the user may.
    pub(super) writable: Option<Vec<PathBuf>>,
    /// Files and folders that the program can neither read nor write.
    pub(super) closed: Vec<PathBuf>,
    /// Files and folders that the program cannot write.
    pub(super) unwritten: Vec<PathBuf>,
    /// The only files and folders that the program can read and write; `None` without such a limit.
    pub(super) bounds: Option<FileBounds>,
    pub(super) restrictions: ProgramRestrictions,
}

/// Restrictions that the supervisor applies to a program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProgramRestrictions {
    pub(super) no_new_privileges: bool,
    pub(super) session: bool,
    pub(super) tree: bool,
    pub(super) kill: bool,
}

/// Message of a supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorMessage {
    /// The program runs, with this process number.
    Started(u32),
    /// The program could not be started; contains the system's error number.
    Failed(i32),
    /// The program has ended; other processes of its tree may still run.
    Ended { code: Option<i32>, signal: Option<i32> },
}
