//! Misbehaves on request, to test the code around a realm. Compiled only with the feature `test-hooks`, which no released program
//! has. Only host modules can import it, not modules of an extension.
//!
//! It simulates an attacker who controls the engine: it crashes in every way, makes any system call, writes anything to the
//! socket, or stops reading.

use crate::native_call::NativeCall;
use rquickjs::{Exception, Result, Value};
use std::hint::black_box;
use std::io;

/// `misbehave(kind, bytes?)`: does not return if the process dies.
pub(crate) fn misbehave<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let what = call.text(0)?;
    match what.as_str() {
        "SIGSEGV" => segfault(),
        "SIGBUS" => misalign(),
        // SAFETY: ends the process, as its name says.
        "SIGABRT" => unsafe { libc::abort() },
        // SAFETY: the same, without running anything on the way out.
        "exit" => unsafe { libc::_exit(0) },
        "stack" => drop(black_box(overflow_stack(1))),
        "panic" => panic!("a panic in native code"),
        "say" => write_unframed(&call.bytes(1)?),
        "flood" => write_endlessly(&call.bytes(1)?),
        "say-and-deaf" => {
            write_unframed(&call.bytes(1)?);
            loop {
                std::hint::spin_loop();
            }
        }
        other => {
            let Some(done) = forbidden(other) else {
                return Err(Exception::throw_type(call.ctx(), &format!("misbehave: no {other}")));
            };
            if let Err(error) = done {
                return Err(Exception::throw_message(call.ctx(), &format!("{other}: {error}")));
            }
        }
    }
    Ok(Value::new_undefined(call.ctx().clone()))
}

fn segfault() {
    // SAFETY: unsound on purpose, because the caller wants the fault. No page is ever mapped at the bottom of the address space.
    unsafe { black_box(std::ptr::with_exposed_provenance_mut::<u64>(16)).write_volatile(1) }
}

/// Causes a bus error without truncating a file: loads from an odd address with alignment checks on.
fn misalign() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none; the kernel ends the process at the load.
    unsafe {
        std::arch::asm!(
            "pushfq",
            "or dword ptr [rsp], 0x40000",
            "popfq",
            "mov {word}, qword ptr [rsp + 1]",
            word = out(reg) _,
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    segfault();
}

#[expect(unconditional_recursion, reason = "it is to run out of stack")]
fn overflow_stack(depth: u64) -> u64 {
    let here = [depth; 64];
    black_box(overflow_stack(black_box(depth + 1))) + black_box(here)[0]
}

/// Writes to the socket without framing.
fn write_unframed(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are those of a live slice.
        let written = unsafe { libc::write(0, bytes.as_ptr().cast(), bytes.len()) };
        let Ok(written @ 1..) = usize::try_from(written) else { return };
        bytes = &bytes[written..];
    }
}

/// Writes to the socket without framing until it fails.
fn write_endlessly(bytes: &[u8]) {
    loop {
        write_unframed(bytes);
    }
}

/// Operations that the seal of a process must prevent. Each of them works in an ordinary process of the same user.
pub const FORBIDDEN: [&str; 15] = [
    "open",
    "tcp",
    "udp",
    "unix",
    "execve",
    "ptrace",
    "kill",
    "parent-memory",
    "read-parent",
    "io_uring",
    "memfd",
    "fork",
    "executable-memory",
    "unshare",
    "poll-several",
];

/// Attempts one of [`FORBIDDEN`]; returns `None` if there is no such operation.
pub fn forbidden(name: &str) -> Option<io::Result<()>> {
    use libc::{
        AF_INET, AF_UNIX, O_RDONLY, PROT_EXEC, PROT_READ, PROT_WRITE, SOCK_DGRAM, SOCK_STREAM, SYS_clone,
        SYS_io_uring_setup, SYS_memfd_create, SYS_process_vm_readv,
    };
    // SAFETY: every pointer is to a live, NUL-terminated or zeroed value of this function; the effects of the calls on the
    // process are under test. The child of `fork` leaves at once through `_exit`.
    let result = unsafe {
        match name {
            "open" => i64::from(libc::open(c"/etc/passwd".as_ptr(), O_RDONLY)),
            "tcp" => i64::from(libc::socket(AF_INET, SOCK_STREAM, 0)),
            "udp" => i64::from(libc::socket(AF_INET, SOCK_DGRAM, 0)),
            "unix" => i64::from(libc::socket(AF_UNIX, SOCK_STREAM, 0)),
            "execve" => {
                let arguments = [c"/bin/true".as_ptr(), std::ptr::null()];
                i64::from(libc::execve(arguments[0], arguments.as_ptr(), arguments[1..].as_ptr()))
            }
            // Asks to be traced by the parent, which requires no rights over other processes.
            "ptrace" => libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0),
            "kill" => i64::from(libc::kill(libc::getppid(), 0)),
            "parent-memory" => {
                let path = format!("/proc/{}/mem\0", libc::getppid());
                i64::from(libc::open(path.as_ptr().cast(), O_RDONLY))
            }
            "read-parent" => {
                let mut word = 0_u64;
                let here = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 8 };
                let there = libc::iovec { iov_base: misalign as *const () as *mut libc::c_void, iov_len: 8 };
                libc::syscall(SYS_process_vm_readv, libc::getppid(), &raw const here, 1, &raw const there, 1, 0)
            }
            "io_uring" => {
                let mut parameters = [0_u64; 15];
                libc::syscall(SYS_io_uring_setup, 1, parameters.as_mut_ptr())
            }
            "memfd" => libc::syscall(SYS_memfd_create, c"x".as_ptr(), 0),
            "fork" => {
                let child = libc::syscall(SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
                if child == 0 {
                    libc::_exit(0);
                }
                child
            }
            "executable-memory" => {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let page = libc::mmap(std::ptr::null_mut(), 4096, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
                if page == libc::MAP_FAILED { -1 } else { 0 }
            }
            "unshare" => libc::syscall(libc::SYS_unshare, libc::CLONE_FS),
            // A worker may poll one descriptor, its socket.
            "poll-several" => {
                let mut several = [libc::pollfd { fd: 0, events: 0, revents: 0 }; 2];
                let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                i64::from(libc::ppoll(several.as_mut_ptr(), 2, &raw const at_once, std::ptr::null()))
            }
            _ => return None,
        }
    };
    Some(if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
}
