//! Runs one command, and collects its remaining descendants.
//!
//! The test binary starts itself with [`FLAG`]. Every orphan below the command becomes a child of that process, however often it
//! forked and in any session. So a process that outlives its `pi` is found and killed.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// First argument of a supervisor.
pub(crate) const FLAG: &str = "--supervise-one-command";

/// The arguments of a supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) report: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) deadline: Duration,
    /// Time that descendants have to exit.
    pub(crate) grace: Duration,
    /// Sends `signal` when this file appears.
    pub(crate) kill_when_file: Option<PathBuf>,
    /// Sends `signal` after this many microseconds.
    pub(crate) kill_after_us: Option<u64>,
    pub(crate) signal: i32,
}

/// The result of the command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stuck: bool,
    /// Whether the signal was sent.
    pub(crate) killed: bool,
    /// Command lines of processes that remained.
    pub(crate) left: Vec<String>,
}

/// Runs the command of the [`Order`] in the next argument.
pub(crate) fn main(mut argv: impl Iterator<Item = OsString>) -> ExitCode {
    let order = argv.next().and_then(|order| serde_json::from_str::<Order>(order.to_str()?).ok());
    let Some(order) = order else { return ExitCode::from(97) };
    match supervise(&order) {
        Ok(outcome) => {
            let text = serde_json::to_vec(&outcome).expect("plain data");
            if std::fs::write(&order.report, text).is_ok() { ExitCode::SUCCESS } else { ExitCode::from(98) }
        }
        Err(_) => ExitCode::from(99),
    }
}

fn supervise(order: &Order) -> std::io::Result<Outcome> {
    // The kernel ignores the argument and uses the calling process.
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut child = Command::new(&order.program).args(&order.args).spawn()?;
    let pid = Pid::from_child(&child);
    let started = Instant::now();
    let mut outcome = Outcome::default();
    let status = loop {
        // Reaps exited orphans; `try_wait` reaps the child itself.
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let elapsed = started.elapsed();
        let due = order.kill_after_us.is_some_and(|after| elapsed >= Duration::from_micros(after))
            || order.kill_when_file.as_ref().is_some_and(|file| file.exists());
        if due && !outcome.killed {
            outcome.killed = true;
            if let Some(signal) = Signal::from_named_raw(order.signal) {
                let _ = kill_process(pid, signal);
            }
        }
        if elapsed >= order.deadline {
            outcome.stuck = true;
            let _ = kill_process(pid, Signal::KILL);
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    (outcome.code, outcome.signal) = (status.code(), status.signal());

    let since = Instant::now();
    loop {
        reap();
        let left = children();
        if left.is_empty() {
            break;
        }
        if since.elapsed() >= order.grace {
            outcome.left = left.iter().map(|pid| command_line(*pid)).collect();
            end_all();
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(outcome)
}

fn reap() {
    while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
}

/// Kills until no process remains: each death makes its children ours.
fn end_all() {
    for _ in 0..1_000 {
        let left = children();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        reap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn children() -> Vec<Pid> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_mine = |stat: &str| {
        // `PID (NAME) STATE PPID ...`; the name may contain anything, so parsing starts at the last parenthesis.
        let rest = stat.rsplit_once(')')?.1;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        (state != "Z" && fields.next()?.parse::<i32>().ok()? == me).then_some(())
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
                .is_ok_and(|stat| is_mine(&stat).is_some())
        })
        .filter_map(Pid::from_raw)
        .collect()
}

fn command_line(pid: Pid) -> String {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
