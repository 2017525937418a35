//! A worker as the system sees it.
//!
//! `ProcessRealm::standing` reads from `/proc` which limits and filters really hold for a worker; `pi ext limits` shows them.

use std::fs;
use std::io;

/// What stands around a process, read from `/proc`: not what was asked for, but what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// A filter looks at its system calls.
    pub filters_calls: bool,
    /// File descriptors that are open.
    pub open_files: usize,
    /// Size of its environment.
    pub environment_bytes: usize,
    /// Address space it may have; `None` for any.
    pub address_space_bytes: Option<u64>,
    /// Processes its user may have before it cannot start one more; `None` for any.
    pub processes: Option<u64>,
    /// How large it may make a file; `None` for any.
    pub file_bytes: Option<u64>,
    /// What is added to its place in the order of the out-of-memory killer, of 1000.
    pub out_of_memory_score: i32,
}

impl Standing {
    pub(super) fn of(process: u32) -> io::Result<Self> {
        let path = |name: &str| format!("/proc/{process}/{name}");
        let status = fs::read_to_string(path("status"))?;
        let limits = fs::read_to_string(path("limits"))?;
        Ok(Self {
            filters_calls: status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"])),
            open_files: fs::read_dir(path("fd"))?.count(),
            environment_bytes: fs::read(path("environ"))?.len(),
            address_space_bytes: limit(&limits, "Max address space"),
            processes: limit(&limits, "Max processes"),
            file_bytes: limit(&limits, "Max file size"),
            out_of_memory_score: fs::read_to_string(path("oom_score_adj"))?.trim().parse().unwrap_or_default(),
        })
    }
}

/// The hard limit of a line `NAME  SOFT  HARD  UNIT`.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
