//! Everything that descends from this process, and its end.

use pijs_protocol::guard;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Rounds of stopping before the killing starts: each finds what the round before has missed.
const STOP_ROUNDS: usize = 50;

/// Looks at a process's ancestors of which two in a row have to agree.
const LOOKS: usize = 16;

/// Processes that a tree may have, where control groups count them.
const MOST_PROCESSES: u32 = 4096;

/// The processes whose ancestor this one is.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // One that ends meanwhile is not there any more.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((state, parent)) = state_and_parent(&stat) else { continue };
        // The dead have no hands; we reap ours, others reap theirs.
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

/// Sends a signal to a process below `ancestor`, which the caller keeps from being reaped meanwhile; false when it is not
/// below it, or has ended.
pub(in super::super) fn signal_below(ancestor: Pid, pid: Pid, signal: Signal) -> bool {
    // Held first: what is learnt of the number from here on is of this process, or it has ended and gets nothing.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let is_below = || {
        // A parent that ends while the line is followed, and whose number is another's by now, shows in a second look: its
        // child has got a new parent. So two looks have to agree.
        let mut looks = (0..LOOKS).map(|_| line_to(ancestor, pid));
        let mut last = looks.next().flatten();
        for line in looks {
            if line == last {
                return line.is_some();
            }
            last = line;
        }
        false
    };
    (!guard!(ExecLineage) || is_below()) && pidfd_send_signal(process, signal).is_ok()
}

/// The processes from `pid` up to `ancestor`; `None` when it is not an ancestor.
fn line_to(ancestor: Pid, pid: Pid) -> Option<Vec<i32>> {
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

/// State and parent in a line of `/proc/PID/stat`; the name in it may hold anything.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Asks all of them to end.
pub(super) fn ask(processes: &[Pid]) {
    for pid in processes {
        let _ = kill_process(*pid, Signal::TERM);
        // One that was stopped would not hear it.
        let _ = kill_process(*pid, Signal::CONT);
    }
}

/// Ends all of them: first none may move (a stopped process cannot fork), then none may live.
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

/// How often and how many times a sweep looks whether a killed group is empty.
const SWEEP_EVERY: Duration = Duration::from_millis(5);
const SWEEP_LOOKS: usize = 400;

/// A control group of its own, where one can be made: a second net under the first.
pub(super) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes a group and goes into it, so that what is started next is in it from its first moment.
    /// [`leave`](Self::leave) goes out again.
    pub(super) fn enter() -> Option<Self> {
        let parent = own_group()?;
        let folder = folder_of(&parent, std::process::id());
        fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        if fs::write(group.folder.join("cgroup.procs"), "0").is_err() || !group.folder.join("cgroup.kill").exists() {
            let _ = fs::write(parent.join("cgroup.procs"), "0");
            return None;
        }
        // Only there when the group above hands the controller down.
        let _ = fs::write(group.folder.join("pids.max"), MOST_PROCESSES.to_string());
        Some(group)
    }

    /// Goes back to where it came from; what was started stays.
    pub(super) fn leave(&self) -> io::Result<()> {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        fs::write(parent.join("cgroup.procs"), "0")
    }

    /// Kills everything in it.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }
}

impl Group {
    /// The same, and waits until it is empty; not for ever.
    fn killed(self) -> Self {
        self.kill();
        for _ in 0..SWEEP_LOOKS {
            let events = fs::read_to_string(self.folder.join("cgroup.events")).unwrap_or_default();
            if !events.contains("populated 1") {
                break;
            }
            std::thread::sleep(SWEEP_EVERY);
        }
        self
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Possible once it is empty, which it is when the tree has ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn folder_of(parent: &Path, supervisor: u32) -> PathBuf {
    parent.join(format!("pijs-exec-{supervisor}"))
}

/// Ends what a supervisor that was killed itself has left in its group. Called by the host, which is in the group above.
pub(in super::super) fn sweep(supervisor: u32) {
    if let Some(folder) = own_group().map(|parent| folder_of(&parent, supervisor)).filter(|folder| folder.exists()) {
        drop(Group { folder }.killed());
    }
}

/// The folder of the version 2 group this process is in.
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
