//! Finds and kills the descendants of this process.

use pijs_protocol::guard;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Rounds of `SIGSTOP` before the kill: each round finds processes that the previous one missed.
const STOP_ROUNDS: usize = 50;

/// Maximum number of reads of a process's ancestors; two consecutive reads must agree.
const MAX_READS: usize = 16;

/// Maximum number of processes of a tree, if control groups can limit it.
const MAX_PROCESSES: u32 = 4096;

/// Returns the descendants of this process.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that has ended in the meantime has no entry.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((state, parent)) = state_and_parent(&stat) else { continue };
        // A zombie does nothing; its parent reaps it.
        if state != 'Z' {
            children.entry(parent).or_default().push(pid);
        } else {
            children.entry(parent).or_default();
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![rustix::process::getpid().as_raw_nonzero().get()];
    let mut seen = BTreeSet::new();
    while let Some(parent) = waiting.pop() {
        if !seen.insert(parent) {
            continue;
        }
        for child in children.get(&parent).into_iter().flatten() {
            found.extend(Pid::from_raw(*child));
            waiting.push(*child);
        }
    }
    found
}

/// Sends a signal to a descendant of `ancestor`; returns `false` if `pid` is not one or has ended. The caller must ensure that
/// `ancestor` is not reaped during the call.
pub(in super::super) fn signal_descendant(ancestor: Pid, pid: Pid, signal: Signal) -> bool {
    // Opened first, so that later reads of this number refer to this process, or it has ended and receives nothing.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let is_below = || {
        // A parent may end during a read, and its number may be reused. A second read detects this, because the child then has a
        // new parent. So two reads must agree.
        let mut reads = (0..MAX_READS).map(|_| ancestry(ancestor, pid));
        let mut last = reads.next().flatten();
        for line in reads {
            if line == last {
                return line.is_some();
            }
            last = line;
        }
        false
    };
    (!guard!(ExecLineage) || is_below()) && pidfd_send_signal(process, signal).is_ok()
}

/// Returns the processes from `pid` up to `ancestor`; `None` if `ancestor` is not an ancestor.
fn ancestry(ancestor: Pid, pid: Pid) -> Option<Vec<i32>> {
    let mut line = vec![pid.as_raw_nonzero().get()];
    loop {
        let last = *line.last()?;
        let (_, parent) = state_and_parent(&fs::read_to_string(format!("/proc/{last}/stat")).ok()?)?;
        if parent == ancestor.as_raw_nonzero().get() {
            return Some(line);
        }
        if parent <= 1 || line.contains(&parent) {
            return None;
        }
        line.push(parent);
    }
}

/// Parses state and parent from a line of `/proc/PID/stat`; the process name in the line may contain any characters.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Sends `SIGTERM` to these processes.
pub(super) fn terminate(processes: &[Pid]) {
    for pid in processes {
        let _ = kill_process(*pid, Signal::TERM);
        // A stopped process would not handle the signal.
        let _ = kill_process(*pid, Signal::CONT);
    }
}

/// Kills all descendants. Stops them first, because a stopped process cannot fork.
pub(super) fn kill() {
    let mut stopped = BTreeSet::new();
    for _ in 0..STOP_ROUNDS {
        let mut found_more = false;
        for pid in descendants() {
            if stopped.insert(pid.as_raw_nonzero()) {
                found_more = true;
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        if !found_more {
            break;
        }
    }
    for pid in descendants() {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Interval between polls of a killed group until it is empty.
const SWEEP_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of such polls.
const SWEEP_POLLS: usize = 400;

/// A dedicated control group, if one can be created. It also contains processes that a search for descendants misses.
pub(super) struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Creates a group and enters it, so that the next child belongs to it from the start. [`leave`](Self::leave) moves this
    /// process back.
    pub(super) fn enter() -> Option<Self> {
        let parent = own_group()?;
        let folder = folder_of(&parent, std::process::id());
        fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        if fs::write(group.folder.join("cgroup.procs"), "0").is_err() || !group.folder.join("cgroup.kill").exists() {
            let _ = fs::write(parent.join("cgroup.procs"), "0");
            return None;
        }
        // The file exists only when the parent group delegates the controller.
        let _ = fs::write(group.folder.join("pids.max"), MAX_PROCESSES.to_string());
        Some(group)
    }

    /// Moves this process back to the parent group; its children stay.
    pub(super) fn leave(&self) -> io::Result<()> {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        fs::write(parent.join("cgroup.procs"), "0")
    }

    /// Kills every process in the group.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }
}

impl ControlGroup {
    /// Kills every process in the group, and waits a limited time until the group is empty.
    fn kill_and_wait(self) -> Self {
        self.kill();
        for _ in 0..SWEEP_POLLS {
            let events = fs::read_to_string(self.folder.join("cgroup.events")).unwrap_or_default();
            if !events.contains("populated 1") {
                break;
            }
            std::thread::sleep(SWEEP_INTERVAL);
        }
        self
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Succeeds only if the group is empty, that is, if the tree has ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn folder_of(parent: &Path, supervisor: u32) -> PathBuf {
    parent.join(format!("pijs-exec-{supervisor}"))
}

/// Kills the processes that a killed supervisor has left in its group. Called by the host, which is in the parent group.
pub(in super::super) fn sweep(supervisor: u32) {
    if let Some(folder) = own_group().map(|parent| folder_of(&parent, supervisor)).filter(|folder| folder.exists()) {
        drop(ControlGroup { folder }.kill_and_wait());
    }
}

/// Returns the folder of this process's version 2 control group.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        if !back.starts_with("cgroup2 ") {
            return None;
        }
        front.split(' ').nth(4)
    })?;
    Some(Path::new(mount).join(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_does_not_confuse_its_line() {
        assert_eq!(state_and_parent("7 (a) S 1) x) S 42 7 7 0"), Some(('S', 42)));
        assert_eq!(state_and_parent("7 (x"), None);
    }
}
