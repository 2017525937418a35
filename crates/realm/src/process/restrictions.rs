//! Reads the restrictions of a worker that are in effect.
//!
//! `ProcessRealm::restrictions` reads limits and filters from `/proc`; `pi ext limits` shows them.

use std::fs;
use std::io;

/// The effective restrictions of a process, read from `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restrictions {
    /// Whether a seccomp filter checks the process's system calls.
    pub filters_calls: bool,
    /// Number of open file descriptors.
    pub open_files: usize,
    /// Size of the process's environment in bytes.
    pub environment_bytes: usize,
    /// Address space limit in bytes; `None` for no limit.
    pub address_space_bytes: Option<u64>,
    /// Number of processes of the same user from which on the process cannot start another; `None` for no limit.
    pub processes: Option<u64>,
    /// File size limit in bytes; `None` for no limit.
    pub file_bytes: Option<u64>,
    /// Adjustment of the out-of-memory score, from -1000 to 1000.
    pub out_of_memory_score: i32,
}

impl Restrictions {
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

/// Reads the hard limit of a line `NAME  SOFT  HARD  UNIT`.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
