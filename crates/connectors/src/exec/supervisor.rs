//! The process between host and program: nothing that the program starts outlives it.
//!
//! A program is started by a small process of its own, the *supervisor*: the running program once more, with a
//! socket as stdin ([`enter`] recognises it, first in `main`). It is the parent of the program and, as the kernel's
//! *child subreaper*, becomes the parent of whatever the program leaves behind, also when that forks twice and opens a
//! session of its own; where control groups can be made, the program lives in one as well. So the whole tree can
//! always be found and ended.
//!
//! What the program gets, and nothing else: the three pipes, its folder (by handle), the environment of the call, an empty
//! signal mask and no ignored signals, a session without terminal; no privileges by set-user-id, no core file, no other open file.
//!
//! The conversation: one [`Order`] with the file descriptors attached; then lines. Host to supervisor: `signal N`, `end`.
//! Supervisor to host: one [`Word`] each, in JSON. When the host's end closes, the host is gone and the tree is ended.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod view;

#[cfg(target_os = "linux")]
pub(super) use linux::{receive_word, send_order};
#[cfg(target_os = "linux")]
pub(super) use tree::{signal_below, sweep};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The argument that tells a program that it is a supervisor.
#[cfg(target_os = "linux")]
pub(super) const ARGUMENT: &str = "--pijs-exec-supervisor";

/// The program that is running, also when its file has been replaced meanwhile.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Supervises a program and exits, if this process was started for that. Call it first in `main`.
///
/// Returns at once in every other process, and on systems without supervisors.
pub fn enter() {
    #[cfg(target_os = "linux")]
    if linux::is_supervisor() {
        linux::run();
    }
}

/// What is to be run. Walls that are `false` are left out; only tests of the walls do that.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// Absolute, free of links.
    pub(super) program: PathBuf,
    /// Device and inode that were decided about.
    pub(super) identity: (u64, u64),
    /// Without the first, which is `name`.
    pub(super) args: Vec<String>,
    /// `argv[0]`.
    pub(super) name: String,
    /// All of its environment.
    pub(super) env: BTreeMap<String, String>,
    /// Whether a fourth descriptor, its standard input, is attached.
    pub(super) has_stdin: bool,
    /// Between `SIGTERM` and `SIGKILL`, in milliseconds.
    pub(super) grace_ms: u64,
    /// Folders it may write below; absent: wherever the user may.
    pub(super) writable: Option<Vec<PathBuf>>,
    /// Files and folders that it neither reads nor writes.
    pub(super) closed: Vec<PathBuf>,
    /// Files and folders that it does not write.
    pub(super) unwritten: Vec<PathBuf>,
    pub(super) walls: Walls,
}

/// The walls around a program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Walls {
    pub(super) no_new_privileges: bool,
    pub(super) session: bool,
    pub(super) tree: bool,
    pub(super) kill: bool,
}

/// What a supervisor says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The program runs.
    Started(u32),
    /// It could not be started: the system's number.
    Failed(i32),
    /// It ended, by itself or not; others of its tree may live.
    Ended { code: Option<i32>, signal: Option<i32> },
}
