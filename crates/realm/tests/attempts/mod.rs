//! Attempts operations that a sealed process must not be able to do, each in a process that seals itself first.
//!
//! Without the seal the attempt has to succeed; otherwise it would prove nothing.

use pijs_engine::hooks;
use pijs_realm::seal::{self, Seals};
use rustix::fs::MemfdFlags;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

/// One operation.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    /// Seals, each of which prevents the operation alone.
    held_by: &'static [Seal],
    deed: fn(&Preparation) -> io::Result<()>,
}

/// One seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seal {
    Limits,
    Landlock,
    Seccomp,
}

use Seal::{Landlock, Limits, Seccomp};

impl Seal {
    fn alone(self) -> Seals {
        match self {
            Limits => Seals { limits: true, ..Seals::NONE },
            Landlock => Seals { landlock: true, ..Seals::NONE },
            Seccomp => Seals { seccomp: true, ..Seals::NONE },
        }
    }
}

/// State that is prepared before the process is sealed.
struct Preparation {
    parent: Pid,
    open: File,
    /// A socket other than the worker's, with data to read.
    socket: UnixStream,
}

pub(crate) const ALL: &[Attempt] = &[
    Attempt { name: "open_a_file", held_by: &[Landlock, Seccomp], deed: |_| File::open("/etc/passwd").map(drop) },
    Attempt { name: "list_a_folder", held_by: &[Landlock, Seccomp], deed: |_| fs::read_dir("/").map(drop) },
    Attempt { name: "look_at_a_file", held_by: &[Seccomp], deed: |_| fs::metadata("/etc/passwd").map(drop) },
    Attempt {
        name: "read_an_open_file",
        held_by: &[Seccomp],
        deed: |facts| { &facts.open }.read(&mut [0; 1]).map(drop),
    },
    Attempt {
        name: "listen_on_another_socket",
        held_by: &[Seccomp],
        deed: |facts| Ok(recv(&facts.socket, &mut [0; 1], RecvFlags::DONTWAIT).map(drop)?),
    },
    Attempt {
        name: "open_a_tcp_socket",
        held_by: &[Landlock, Seccomp],
        deed: |_| TcpListener::bind("127.0.0.1:0").map(drop),
    },
    Attempt { name: "open_a_udp_socket", held_by: &[Seccomp], deed: |_| UdpSocket::bind("127.0.0.1:0").map(drop) },
    Attempt { name: "open_unix_sockets", held_by: &[Seccomp], deed: |_| UnixStream::pair().map(drop) },
    Attempt {
        name: "start_a_program",
        held_by: &[Landlock, Seccomp],
        deed: |_| Command::new("/bin/true").status().map(drop),
    },
    Attempt {
        name: "start_a_thread",
        held_by: &[Seccomp],
        deed: |_| thread::Builder::new().spawn(|| ())?.join().map_err(|_| failed()),
    },
    Attempt {
        name: "signal_its_parent",
        held_by: &[Landlock, Seccomp],
        deed: |facts| Ok(rustix::process::test_kill_process(facts.parent)?),
    },
    Attempt {
        name: "take_hold_of_its_parent",
        held_by: &[Seccomp],
        deed: |facts| Ok(rustix::process::pidfd_open(facts.parent, PidfdFlags::empty()).map(drop)?),
    },
    Attempt {
        name: "make_a_memory_file",
        held_by: &[Seccomp],
        deed: |_| Ok(rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).map(drop)?),
    },
    Attempt {
        name: "copy_a_descriptor",
        held_by: &[Seccomp],
        deed: |_| io::stdin().as_fd().try_clone_to_owned().map(drop),
    },
    Attempt { name: "write_to_stderr", held_by: &[Seccomp], deed: |_| io::stderr().write_all(b"x") },
    Attempt { name: "change_its_folder", held_by: &[Seccomp], deed: |_| std::env::set_current_dir("/") },
    Attempt { name: "take_more_memory", held_by: &[Limits], deed: |_| take_memory(8 << 30) },
    Attempt { name: "open_many_files", held_by: &[Limits, Landlock, Seccomp], deed: |_| open_many() },
    Attempt { name: "grow_a_file", held_by: &[Limits, Landlock, Seccomp], deed: |_| grow() },
    Attempt { name: "raise_its_limits", held_by: &[Seccomp], deed: |_| raise() },
];

/// Reserves address space without touching it.
fn take_memory(bytes: usize) -> io::Result<()> {
    let mut all: Vec<u8> = Vec::new();
    all.try_reserve_exact(bytes).map_err(|_| failed())?;
    std::hint::black_box(&mut all);
    Ok(())
}

fn open_many() -> io::Result<()> {
    (0..64).map(|_| File::open("/dev/null")).collect::<io::Result<Vec<_>>>().map(drop)
}

fn grow() -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("pijs-attempt-{}", std::process::id()));
    let file = File::create(&path)?;
    fs::remove_file(&path)?;
    { &file }.write_all(b"one byte is one too many")
}

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
    if !mode.starts_with("--attempt-") {
        return;
    }
    let own = ALL.iter().find(|attempt| attempt.name == name);
    let parent = rustix::process::getppid().expect("a parent");
    let (mut speaker, socket) = UnixStream::pair().expect("sockets");
    speaker.write_all(b"x").expect("room for a byte");
    let facts = Preparation { parent, open: File::open("/etc/passwd").expect("readable before the seal"), socket };
    let seals = match mode.as_str() {
        SEALED => Seals { limits: true, landlock: true, seccomp: true },
        OPEN => Seals::NONE,
        alone => [Limits, Landlock, Seccomp].into_iter().find(|wall| flag(*wall) == alone).expect("a wall").alone(),
    };
    let sealed = seal::this_process(64 << 20, seals);
    assert_eq!(sealed.holds(), seals.seccomp);
    assert_eq!(sealed.landlock == seal::Landlock::None, !seals.landlock);
    // A worker may use the socket it was started with.
    let heard = recv(io::stdin(), &mut [0; 1], RecvFlags::DONTWAIT);
    assert_eq!(heard.err(), Some(rustix::io::Errno::AGAIN), "nothing has been said");
    rustix::io::write(io::stdin().as_fd(), b"here").expect("the socket stays open");
    let done = match own {
        Some(attempt) => (attempt.deed)(&facts),
        None => hooks::forbidden(name).expect("an attempt, or an operation of the hooks"),
    };
    std::process::exit(if done.is_ok() { DONE } else { REFUSED })
}

fn flag(wall: Seal) -> String {
    format!("--attempt-{wall:?}")
}

/// Checks that the attempt works in an unsealed process, but neither in a sealed one nor with any single seal of the list.
pub(crate) fn is_prevented(attempt: &Attempt) {
    let open = run(OPEN, attempt.name);
    assert_eq!(open.code(), Some(DONE), "works without the seal: {open}");
    for wall in attempt.held_by {
        let held = run(&flag(*wall), attempt.name);
        assert_ne!(held.code(), Some(DONE), "{wall:?} alone");
    }
    let sealed = run(SEALED, attempt.name);
    let killed = sealed.signal() == Some(SIGSYS);
    assert!(killed || (!attempt.held_by.contains(&Seccomp) && sealed.code() == Some(REFUSED)), "{sealed}");
}

/// Checks that no operation that only native code can request works in a sealed process (E29).
pub(crate) fn no_forbidden_operation_works() {
    let mut proved = 0;
    for name in hooks::FORBIDDEN {
        // A system may deny an operation to every process (ptrace, io_uring), which proves nothing.
        proved += u32::from(run(OPEN, name).code() == Some(DONE));
        assert_eq!(run(SEALED, name).signal(), Some(SIGSYS), "{name}");
    }
    assert!(proved >= 10, "only {proved} of them work in an open process");
}

const SIGSYS: i32 = 31;

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
