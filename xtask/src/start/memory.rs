//! Memory of a process and its descendants, as Linux accounts for it.
//!
//! A page shared by several processes counts once in the proportional set size (Pss), divided among them, and fully for each in
//! the resident set size (Rss). So Pss is the memory of a host with its workers, and Rss is the memory of one process as `top`
//! shows it.

use std::fs;
use std::path::Path;

/// Memory of a process tree in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Sum of the processes' proportional set sizes.
    pub(super) shared_out: u64,
    /// The resident set size of all processes.
    pub(super) resident: u64,
    pub(super) processes: usize,
}

impl Memory {
    /// Reads the memory of the process `root` and its descendants; `None` if the system does not report it.
    pub(super) fn of_tree(root: u32) -> Option<Self> {
        let mut all = Self::default();
        for process in tree(&parents()?, root) {
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
            all.shared_out += field(&rollup, "Pss:")?;
            all.resident += field(&rollup, "Rss:")?;
            all.processes += 1;
        }
        Some(all)
    }
}

/// Lists each process with its parent.
fn parents() -> Option<Vec<(u32, u32)>> {
    let numbered = |name: &std::ffi::OsStr| name.to_str()?.parse::<u32>().ok();
    let processes = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| numbered(&entry.file_name()));
    let with_parent = |process| {
        let stat = fs::read_to_string(Path::new("/proc").join(format!("{process}/stat"))).ok()?;
        Some((process, parent(&stat)?))
    };
    Some(processes.filter_map(with_parent).collect())
}

/// Returns the parent's id from a line of `/proc/PID/stat`. The name before it may contain spaces and parentheses.
fn parent(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(1)?.parse().ok()
}

/// Lists `root` and its descendants.
fn tree(parents: &[(u32, u32)], root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&process) = found.get(next) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == process).map(|(child, _)| *child));
        next += 1;
    }
    found
}

/// Returns the value of a field of `/proc/PID/smaps_rollup`, converted from kilobytes to bytes.
fn field(rollup: &str, name: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_children_of_children_and_nobody_else() {
        assert_eq!(parent("7 (a) b (c)) S 3 7 7 0"), Some(3));
        assert_eq!(tree(&[(1, 0), (2, 1), (3, 1), (4, 2), (5, 9)], 1), [1, 2, 3, 4]);
    }

    #[test]
    fn lines_are_kilobytes() {
        let rollup = "00-ff ---p 0 00:00 0 [rollup]\nRss:     2048 kB\nPss:       12 kB\nPss_Dirty:  8 kB\n";
        assert_eq!(field(rollup, "Pss:"), Some(12 << 10));
        assert_eq!(field(rollup, "Rss:"), Some(2 << 20));
        assert_eq!(field(rollup, "Swap:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory() {
        let memory = Memory::of_tree(std::process::id()).expect("Linux accounts for it");
        assert!(memory.processes >= 1 && memory.shared_out > 0 && memory.resident >= memory.shared_out, "{memory:?}");
    }
}
