//! Seals a process: after [`this_process`] it can only compute, and use the socket that is its stdin.
//!
//! | seal | removes |
//! |---|---|
//! | resource limits | address space beyond the heap limit, new files, processes, core dumps, file growth |
//! | Landlock | every file, TCP, abstract sockets and signals to other processes |
//! | seccomp | every system call outside a list; any other call kills the process |
//!
//! The seals overlap on purpose: one covers the gaps of another (Landlock has no rules for UDP, old kernels no scopes). The
//! process cannot undo any of them.
//!
//! Before sealing, the time zone must be loaded (the first use of local time opens a file), and the engine must exist.

use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The effective seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Effective restriction of files and TCP.
    pub landlock: Landlock,
    /// Whether system calls are restricted.
    pub seccomp: bool,
}

/// Support of the kernel for Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landlock {
    /// All requested restrictions.
    Full,
    /// Some restrictions, by an older version of Landlock.
    Partial,
    /// No restrictions.
    None,
}

impl Sealed {
    /// Returns whether extension code is isolated from the system: which requires seccomp.
    ///
    /// Landlock alone leaves UDP and Unix sockets open; seccomp alone still allows no system call that names a file.
    pub fn holds(self) -> bool {
        self.seccomp
    }

    /// Returns whether every seal is complete.
    pub fn is_complete(self) -> bool {
        self.seccomp && self.landlock == Landlock::Full
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = match self.landlock {
            Landlock::Full => "full",
            Landlock::Partial => "in part",
            Landlock::None => "missing",
        };
        write!(f, "landlock {landlock}, seccomp {}", if self.seccomp { "full" } else { "missing" })
    }
}

/// The seals to apply: all of them, except in tests of each one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seals {
    /// Resource limits.
    pub limits: bool,
    /// Files, TCP, signals.
    pub landlock: bool,
    /// System calls.
    pub seccomp: bool,
}

impl Seals {
    /// No seals.
    pub const NONE: Self = Self { limits: false, landlock: false, seccomp: false };

    /// Returns the seals whose guards are up: all of them, except in a test build.
    pub fn enabled() -> Self {
        Self { limits: guard!(RealmLimits), landlock: guard!(RealmLandlock), seccomp: guard!(RealmSeccomp) }
    }
}

#[cfg(target_os = "linux")]
pub use linux::this_process;

#[cfg(target_os = "linux")]
mod linux {
    use super::{Landlock, Sealed, Seals};
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
    use rustix::process::{Resource, Rlimit, setrlimit};
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    use std::collections::BTreeMap;

    /// Address space in bytes in addition to the heap: program, stack and data of the C library.
    const AROUND_THE_HEAP: u64 = 1 << 30;

    /// Limit of file descriptors, exclusive: enough for the three standard ones and those that Landlock needs.
    const FILES: u64 = 16;

    /// System calls that are allowed with any arguments: memory, signals and ids of the process itself, time, randomness, exit.
    const CALLS: [libc::c_long; 16] = [
        libc::SYS_brk,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_rt_sigprocmask,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigreturn,
        libc::SYS_clock_gettime,
        libc::SYS_sched_yield,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    /// File descriptor of the socket.
    const SOCKET: u64 = 0;

    /// The signal of `abort`.
    const ABORT: u64 = libc::SIGABRT.unsigned_abs() as u64;

    /// Descriptor argument of an anonymous mapping.
    const NO_FILE: u64 = 0xffff_ffff;

    /// Seals the calling process permanently. Call it while the process has only one thread.
    ///
    /// `memory_bytes` is the memory limit of the engine. Stdin must be the socket; stdout and stderr cannot be written to
    /// afterwards.
    ///
    /// Seals that the kernel does not support are not applied, as the result shows; the caller decides how to proceed.
    pub fn this_process(memory_bytes: u64, seals: Seals) -> Sealed {
        if seals.limits {
            limit_resources(memory_bytes);
        }
        let landlock = if seals.landlock { restrict_files() } else { Landlock::None };
        Sealed { landlock, seccomp: seals.seccomp && filter_calls() }
    }

    fn limit_resources(memory_bytes: u64) {
        let limits = [
            (Resource::As, memory_bytes.saturating_add(AROUND_THE_HEAP)),
            (Resource::Nofile, FILES),
            (Resource::Nproc, 0),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
        ];
        for (resource, most) in limits {
            // Fails only if a lower hard limit is in force, which is sufficient as well.
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        }
    }

    /// Denies all files, TCP and signals: a ruleset without a rule.
    fn restrict_files() -> Landlock {
        const NEWEST: ABI = ABI::V6;
        let enforced = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(NEWEST)))
            .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
            .and_then(Ruleset::create)
            .and_then(landlock::RulesetCreated::restrict_self);
        match enforced.map(|status| status.ruleset) {
            Ok(RulesetStatus::FullyEnforced) => Landlock::Full,
            Ok(RulesetStatus::PartiallyEnforced) => Landlock::Partial,
            Ok(RulesetStatus::NotEnforced) | Err(_) => Landlock::None,
        }
    }

    fn filter_calls() -> bool {
        filter().is_ok_and(|program| seccompiler::apply_filter(&program).is_ok())
    }

    fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
        let socket_only = || SeccompRule::new(vec![equal(0, SOCKET)?]);
        rules.insert(libc::SYS_read, vec![socket_only()?]);
        // Non-blocking read from the socket.
        rules.insert(libc::SYS_recvfrom, vec![socket_only()?]);
        rules.insert(libc::SYS_write, vec![socket_only()?]);
        // Wait with a time-out, for a single descriptor.
        rules.insert(libc::SYS_ppoll, vec![SeccompRule::new(vec![equal(1, 1)?])?]);
        // Maps memory, but neither files nor executable pages.
        rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![not_executable(2)?, equal(4, NO_FILE)?])?]);
        rules.insert(libc::SYS_mprotect, vec![SeccompRule::new(vec![not_executable(2)?])?]);
        // Restores the default action of these signals, so that the process dies of the signal and not of this filter.
        let handlers = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT]
            .map(|signal| SeccompRule::new(vec![equal(0, u64::from(signal.unsigned_abs()))?]));
        rules.insert(libc::SYS_rt_sigaction, handlers.into_iter().collect::<Result<_, _>>()?);
        // `abort` lets the host see how the process died: it may send SIGABRT only to itself.
        let myself = u64::from(std::process::id());
        rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![equal(0, myself)?, equal(2, ABORT)?])?]);
        SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?
            .try_into()
    }

    fn equal(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    }

    fn not_executable(argument: u8) -> Result<SeccompCondition, seccompiler::BackendError> {
        let mask = u64::from(libc::PROT_EXEC.unsigned_abs());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), 0)
    }
}
