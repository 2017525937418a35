//! Things a sealed process must not be able to do, each tried by a process that seals itself first.
//!
//! The same attempt without the seal has to succeed: otherwise it would prove nothing.

use pijs_realm::seal;
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

/// One of them.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    deed: fn(&Facts) -> io::Result<()>,
}

/// What an attempt knows from before the seal.
struct Facts {
    parent: Pid,
    open: File,
}

pub(crate) const ALL: &[Attempt] = &[
    Attempt { name: "open_a_file", deed: |_| File::open("/etc/passwd").map(drop) },
    Attempt { name: "list_a_folder", deed: |_| fs::read_dir("/").map(drop) },
    Attempt { name: "look_at_a_file", deed: |_| fs::metadata("/etc/passwd").map(drop) },
    Attempt { name: "read_an_open_file", deed: |facts| { &facts.open }.read(&mut [0; 1]).map(drop) },
    Attempt { name: "open_a_tcp_socket", deed: |_| TcpListener::bind("127.0.0.1:0").map(drop) },
    Attempt { name: "open_a_udp_socket", deed: |_| UdpSocket::bind("127.0.0.1:0").map(drop) },
    Attempt { name: "open_unix_sockets", deed: |_| UnixStream::pair().map(drop) },
    Attempt { name: "start_a_program", deed: |_| Command::new("/bin/true").status().map(drop) },
    Attempt { name: "start_a_thread", deed: |_| thread::Builder::new().spawn(|| ())?.join().map_err(|_| failed()) },
    Attempt { name: "signal_its_parent", deed: |facts| Ok(rustix::process::test_kill_process(facts.parent)?) },
    Attempt {
        name: "take_hold_of_its_parent",
        deed: |facts| Ok(rustix::process::pidfd_open(facts.parent, PidfdFlags::empty()).map(drop)?),
    },
    Attempt { name: "make_a_memory_file", deed: |_| Ok(rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).map(drop)?) },
    Attempt { name: "copy_a_descriptor", deed: |_| io::stdin().as_fd().try_clone_to_owned().map(drop) },
    Attempt { name: "write_to_stderr", deed: |_| io::stderr().write_all(b"x") },
    Attempt { name: "change_its_folder", deed: |_| std::env::set_current_dir("/") },
    Attempt { name: "raise_its_limits", deed: |_| raise() },
];

fn failed() -> io::Error {
    io::Error::other("it did not run")
}

fn raise() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    Ok(setrlimit(Resource::Core, getrlimit(Resource::Core))?)
}

const SEALED: &str = "--attempt-sealed";
const OPEN: &str = "--attempt-open";
const DONE: i32 = 0;
const REFUSED: i32 = 3;

/// Carries out an attempt and exits, if this process was started for one.
#[expect(clippy::exit, reason = "the exit status is the attempt's answer")]
pub(crate) fn enter() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, name] = arguments.as_slice() else { return };
    if mode != SEALED && mode != OPEN {
        return;
    }
    let attempt = ALL.iter().find(|attempt| attempt.name == name).expect("an attempt");
    let parent = rustix::process::getppid().expect("a parent");
    let facts = Facts { parent, open: File::open("/etc/passwd").expect("readable before the seal") };
    if mode == SEALED {
        assert!(seal::this_process(64 << 20).holds());
    }
    // What a worker may do: use its socket.
    rustix::io::write(io::stdin().as_fd(), b"here").expect("the socket stays open");
    let done = (attempt.deed)(&facts);
    std::process::exit(if done.is_ok() { DONE } else { REFUSED })
}

/// Asserts that the attempt works in an open process and does not in a sealed one.
pub(crate) fn is_held(attempt: &Attempt) {
    let open = run(OPEN, attempt.name);
    assert_eq!(open.code(), Some(DONE), "works without the seal: {open}");
    let sealed = run(SEALED, attempt.name);
    assert_eq!(sealed.signal(), Some(31), "killed by SIGSYS: {sealed}");
}

fn run(mode: &str, name: &str) -> ExitStatus {
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let mut child = Command::new("/proc/self/exe")
        .args([mode, name])
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program");
    let mut said = String::new();
    ours.read_to_string(&mut said).expect("UTF-8");
    assert_eq!(said, "here", "it got past its own seal");
    child.wait().expect("a child")
}
