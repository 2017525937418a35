//! The child process of a [sandboxed build](crate::BuildOptions::sealed), which runs the same program as its parent.

use crate::build;
use crate::compiled::Compiled;
use crate::file_proxy::{FileProxy, done, receive};
use crate::options::BuildOptions;
use crate::sealed::{ARGUMENT, BuildAnswer, BuildRequest};
use crate::tree::SourceTree;
use pijs_artifact::encode;
use pijs_diagnostics::Diagnostic;
use std::io;

/// Compiles and exits, if this process was started as a build worker. Call it first in `main`.
///
/// Returns at once in every other process.
pub fn enter() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.next().is_none() {
        work();
    }
}

#[expect(clippy::exit, reason = "a worker has no caller to return to")]
fn work() -> ! {
    let code = match answer() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn answer() -> io::Result<()> {
    let (request, _, _) = receive::<BuildRequest>(&mut io::stdin().lock(), u64::MAX)?;
    let parent = FileProxy::new();
    sandbox::enter(request.seal.0, request.seal.1);
    let options = BuildOptions { minify: request.minify, limits: request.limits, ..BuildOptions::default() };
    let limits = request.package.limits(request.limits);
    let tree = SourceTree::over_proxy(parent, request.folders, limits);
    let (answer, bytes) = match build::compile(&request.package, tree, &options) {
        Ok(Compiled { artifact, diagnostics, .. }) => (BuildAnswer::Built(bounded(diagnostics)), encode(&artifact)),
        Err(failure) => (BuildAnswer::Failed(bounded(failure.diagnostics().to_vec())), Vec::new()),
    };
    done(answer, &bytes)
}

/// Limits the number of diagnostics, because every excerpt contains its whole file.
fn bounded(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    const EXCERPTS: usize = 20;
    diagnostics.iter_mut().skip(EXCERPTS).for_each(Diagnostic::forget_excerpt);
    diagnostics
}

#[cfg(target_os = "linux")]
mod sandbox {
    use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
    use pijs_protocol::guard;
    use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
    use seccompiler::{SeccompAction, SeccompFilter};
    use std::collections::BTreeMap;

    /// System calls that the sandbox refuses. A compiler needs threads and memory, so this is a deny list.
    const REFUSED: &[i64] = &[
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_sendmsg,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kill,
        libc::SYS_io_uring_setup,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_memfd_create,
    ];

    /// Sandboxes this process. Call it while the process has a single thread.
    pub(super) fn enter(memory_bytes: u64, cpu_seconds: u64) {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let limits = [
            (Resource::As, memory_bytes),
            (Resource::Cpu, cpu_seconds),
            (Resource::Nofile, 256),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
        ];
        for (resource, most) in limits {
            // Fails only if a lower hard limit is already in force, which satisfies the bound.
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        }
        if guard!(BuildFiles) {
            let _ = restrict_files();
        }
        let _ = refuse_calls();
    }

    fn restrict_files() -> Result<(), landlock::RulesetError> {
        const NEWEST: ABI = ABI::V6;
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        rules.restrict_self().map(drop)
    }

    fn refuse_calls() -> Result<(), Box<dyn std::error::Error>> {
        let rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>();
        let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, std::env::consts::ARCH.try_into()?)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        Ok(seccompiler::apply_filter(&program)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod sandbox {
    /// Does nothing: on this system, only the deadline is enforced.
    pub(super) fn enter(_memory_bytes: u64, _cpu_seconds: u64) {}
}
