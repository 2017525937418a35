//! Implements both ends of the supervisor's protocol, and its main loop.

use super::super::ignored_signals;
use super::file_rules;
use super::tree::{self, ControlGroup};
use super::{ARGUMENT, SupervisorMessage, SupervisorRequest};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of attached files: folder, stdout, stderr, stdin.
const MAX_FILES: usize = 4;
/// Maximum size of a request in bytes.
const LONGEST_REQUEST: usize = 64 << 20;
/// Interval for reaping orphans that have ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Poll interval while the tree is being stopped.
const ENDING_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum grace period after the host is gone, when nothing waits for a graceful exit.
const SHORT_GRACE: Duration = Duration::from_millis(500);
/// Number of processes that may be created in addition to the existing ones, for users to whom the limit applies.
const EXTRA_PROCESSES: u64 = 4096;

/// Sends a request with its files.
pub(in super::super) fn send_request(
    to: &UnixStream,
    request: &SupervisorRequest,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(request)?;
    let length = u32::try_from(body.len()).map_err(|_| io::Error::from(Errno::TOOBIG))?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(files));
    // The file descriptors are attached to the first bytes.
    let sent = rustix::net::sendmsg(to, &[IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL)?;
    (&*to).write_all(&length[sent..])?;
    (&*to).write_all(&body)
}

fn receive_request(from: BorrowedFd<'_>) -> io::Result<(SupervisorRequest, Vec<OwnedFd>)> {
    let mut length = [0_u8; 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let first =
        rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut length)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    let mut stream = Descriptor(from);
    stream.read_exact(&mut length[first.bytes..])?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_REQUEST {
        return Err(Errno::TOOBIG.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, files))
}

/// Reads one message; `None` if the supervisor has exited and so the tree has ended.
pub(in super::super) fn receive_message(from: &mut impl io::BufRead) -> io::Result<Option<SupervisorMessage>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// A borrowed file descriptor to read from.
struct Descriptor<'a>(BorrowedFd<'a>);

impl io::Read for Descriptor<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

/// Returns whether this process is a supervisor, that is, has [`ARGUMENT`] and a stream socket as standard input.
pub(super) fn is_supervisor() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let named = arguments.next().is_some_and(|argument| argument == ARGUMENT) && arguments.next().is_none();
    let socket = || rustix::net::sockopt::socket_type(io::stdin().as_fd());
    named && socket().is_ok_and(|kind| kind == rustix::net::SocketType::STREAM)
}

#[expect(clippy::exit, reason = "a supervisor has no caller to return to")]
pub(super) fn run() -> ! {
    // The supervisor's output is discarded, so a panic message would be lost.
    std::panic::set_hook(Box::new(|_| {}));
    let stdin = io::stdin();
    let served = serve(stdin.as_fd());
    std::process::exit(i32::from(served.is_err()))
}

fn serve(host: BorrowedFd<'_>) -> io::Result<()> {
    let (request, files) = receive_request(host)?;
    let grace = Duration::from_millis(request.grace_ms);
    let group = request.restrictions.tree.then(ControlGroup::enter).flatten();
    let kills = request.restrictions.kill;
    let started = start(request, files);
    if let Some(group) = &group {
        group.leave()?;
    }
    match started {
        Ok(program) => {
            send_message(host, &SupervisorMessage::Started(program.as_raw_nonzero().get().unsigned_abs()));
            Supervisor { host, program, running: true, group, ending: None, received: Vec::new(), grace, kills }
                .watch();
        }
        Err(error) => {
            send_message(host, &SupervisorMessage::Failed(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())))
        }
    }
    Ok(())
}

/// Sends a message to the host. Errors are ignored, because the host may be gone.
fn send_message(host: BorrowedFd<'_>, message: &SupervisorMessage) {
    let Ok(mut line) = serde_json::to_vec(message) else { return };
    line.push(b'\n');
    let _ = rustix::net::send(host, &line, SendFlags::NOSIGNAL);
}

/// Drops the capabilities that give access to the environment and memory of other processes, for every program that the
/// supervisor starts: as root, a program could read the keys in `pi`'s environment. Fails silently without the privilege to drop
/// capabilities, because then there are none to drop.
fn drop_inspection_capabilities() {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    for capability in [CapabilitySet::SYS_PTRACE, CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN] {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

fn start(request: SupervisorRequest, files: Vec<OwnedFd>) -> io::Result<Pid> {
    let mut files = files.into_iter();
    let mut next = || files.next().ok_or(io::Error::from(Errno::BADF));
    let (folder, stdout, stderr) = (next()?, next()?, next()?);
    let stdin = if request.has_stdin { Stdio::from(next()?) } else { Stdio::null() };
    rustix::process::fchdir(&folder)?;
    drop(folder);
    if request.restrictions.session {
        // The program is a member of this session, not its leader, so it cannot acquire a terminal.
        rustix::process::setsid()?;
    }
    if request.restrictions.tree {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    drop_inspection_capabilities();
    if request.restrictions.no_new_privileges {
        rustix::thread::set_no_new_privs(true)?;
    }
    ignored_signals::install_handlers();
    close_fds::set_fds_cloexec(3, &[]);
    limit_resources();
    let mut command = Command::new(&request.program);
    command
        .arg0(&request.name)
        .args(&request.args)
        .env_clear()
        .envs(&request.env)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    let SupervisorRequest { writable, closed, unwritten, bounds, program, identity, .. } = request;
    let mut spawn = move || -> io::Result<Pid> {
        let found = std::fs::metadata(&program)?;
        if (found.dev(), found.ino()) != identity {
            // The file is not the one that the gate decided about.
            return Err(Errno::STALE.into());
        }
        let child = command.spawn()?;
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| Errno::SRCH.into())
    };
    if writable.is_none() && bounds.is_none() && closed.is_empty() && unwritten.is_empty() {
        return spawn();
    }
    // Landlock applies to the calling thread and to processes it starts; the supervisor itself must remain able to kill.
    std::thread::spawn(move || {
        file_rules::restrict(&closed, &unwritten)?;
        bounds.map_or(Ok(()), |bounds| file_rules::bound(&bounds))?;
        writable.map_or(Ok(()), |writable| confine(&writable))?;
        spawn()
    })
    .join()
    .unwrap_or_else(|_| Err(Errno::IO.into()))
}

/// Restricts writing to these folders and the harmless devices. Reading is not restricted.
fn confine(writable: &[std::path::PathBuf]) -> io::Result<()> {
    use landlock::{ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _};
    let refused = |error: landlock::RulesetError| io::Error::new(io::ErrorKind::PermissionDenied, error);
    let changes = AccessFs::from_write(ABI::V5);
    let mut rules = Ruleset::default().handle_access(changes).map_err(refused)?.create().map_err(refused)?;
    let devices = ["/dev/null", "/dev/zero", "/dev/full"].map(std::path::PathBuf::from);
    for path in writable.iter().chain(&devices) {
        if let Ok(folder) = PathFd::new(path) {
            let access = if path.is_dir() { changes } else { changes & AccessFs::from_file(ABI::V5) };
            rules = rules.add_rule(PathBeneath::new(folder, access)).map_err(refused)?;
        }
    }
    rules.restrict_self().map_err(refused)?;
    Ok(())
}

fn limit_resources() {
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // The limit is the current number of processes and some more, which stops a fork bomb. It does not apply to root.
    let tasks = std::fs::read_to_string("/proc/loadavg").ok().and_then(|line| {
        let (_, all) = line.split_ascii_whitespace().nth(3)?.split_once('/')?;
        all.parse::<u64>().ok()
    });
    if let Some(tasks) = tasks {
        let before = rustix::process::getrlimit(Resource::Nproc);
        let limit = [Some(tasks + EXTRA_PROCESSES), before.current, before.maximum].into_iter().flatten().min();
        let _ = rustix::process::setrlimit(Resource::Nproc, Rlimit { current: limit, maximum: limit });
    }
}

struct Supervisor<'a> {
    host: BorrowedFd<'a>,
    program: Pid,
    /// Whether the program itself is running, regardless of its descendants.
    running: bool,
    group: Option<ControlGroup>,
    ending: Option<Ending>,
    /// Bytes received from the host after the last complete line.
    received: Vec<u8>,
    grace: Duration,
    /// Whether processes that are left after the grace period are killed.
    kills: bool,
}

/// State of a tree that is being stopped; processes left at `by` are killed.
struct Ending {
    by: Instant,
    host_is_gone: bool,
}

impl Supervisor<'_> {
    fn watch(mut self) {
        loop {
            if !self.reap() {
                return;
            }
            if let Some(ending) = &self.ending
                && Instant::now() >= ending.by
                && self.kills
            {
                if let Some(group) = &self.group {
                    group.kill();
                }
                tree::kill();
            }
            self.wait();
        }
    }

    /// Reaps all children that have ended; returns `false` if no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(None) => return true,
                Ok(Some((pid, status))) if pid == self.program && (status.exited() || status.signaled()) => {
                    self.running = false;
                    let (code, signal) = (status.exit_status(), status.terminating_signal());
                    send_message(self.host, &SupervisorMessage::Ended { code, signal });
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits until the host sends a line, the program ends, or the poll interval is over.
    fn wait(&mut self) {
        let gone = self.ending.as_ref().is_some_and(|ending| ending.host_is_gone);
        let pidfd =
            if self.running { rustix::process::pidfd_open(self.program, PidfdFlags::empty()).ok() } else { None };
        let mut fds = Vec::new();
        if !gone {
            fds.push(PollFd::from_borrowed_fd(self.host, PollFlags::IN));
        }
        if let Some(pidfd) = &pidfd {
            fds.push(PollFd::new(pidfd, PollFlags::IN));
        }
        let limit = if self.ending.is_some() { ENDING_POLL_INTERVAL } else { POLL_INTERVAL };
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        let polled = poll(&mut fds, Some(&limit));
        let host_sent = !gone && polled.is_ok() && fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        if host_sent {
            self.receive();
        }
    }

    fn receive(&mut self) {
        let mut piece = [0; 256];
        match rustix::io::read(self.host, &mut piece) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.end(true),
            Ok(read) => {
                self.received.extend_from_slice(&piece[..read]);
                while let Some(at) = self.received.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.received.drain(..=at).collect();
                    self.handle_line(String::from_utf8_lossy(&line).trim_end());
                }
            }
        }
    }

    fn handle_line(&mut self, line: &str) {
        if line == "end" {
            self.end(false);
        } else if let Some((word, number)) = line.split_once(' ')
            && let Some(signal) = number.parse().ok().and_then(Signal::from_named_raw)
            // The program is not reaped yet, so the number still refers to it.
            && self.running
        {
            // The program may have ended.
            let _ = match word {
                "signal" => rustix::process::kill_process(self.program, signal),
                "signal-group" => rustix::process::kill_process_group(self.program, signal),
                _ => Ok(()),
            };
        }
    }

    fn end(&mut self, host_is_gone: bool) {
        match &mut self.ending {
            None => {
                tree::terminate(&tree::descendants());
                let grace = if host_is_gone { self.grace.min(SHORT_GRACE) } else { self.grace };
                self.ending = Some(Ending { by: Instant::now() + grace, host_is_gone });
            }
            Some(ending) => ending.host_is_gone |= host_is_gone,
        }
    }
}
