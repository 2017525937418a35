//! Sandboxed builds: compiles code that is not the user's own in a child process that can do nothing else.
//!
//! Parsers and linkers process whatever a package contains; a bug in one of them must not reach further than the build. So
//! [`build`](crate::build()) with [`BuildOptions::sealed`](crate::BuildOptions) starts its own program as a child process. The
//! child gets a request on stdin, closes everything else off, compiles, and writes the artifact to stdout. It reads files through
//! the same streams ([`file_proxy`](crate::file_proxy)):
//!
//! - limits on memory, processor time, files and processes, no core dump, nothing written to any file;
//! - Landlock: no file can be opened; no TCP, no signals to others;
//! - seccomp: no sockets, no other program, no tracing, no io_uring, no namespaces.
//!
//! The parent enforces the deadline. The cache, its key and the MAC stay in the parent. A child that dies or is late is one
//! `BD_LIMIT` for that build; the next build starts a new one. The child's answer is decoded like any artifact and has to name
//! the inputs that it was given; its bytes equal those of an unsandboxed build.
//!
//! On systems without Landlock or seccomp the other measures apply.

use crate::build::{self, BuildOptions, Compiled, known};
use crate::dependency_manifest::DependencyManifest;
use crate::diagnostics::{BuildFailure, Code, Diagnostic};
use crate::file_proxy::{FileProxy, done, receive, send, serve};
use crate::limits::Limits;
use crate::resolve::Package;
use crate::tree::{Folders, SourceTree};
use pijs_artifact::{Artifact, decode, encode};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that starts a program as a build worker.
const ARGUMENT: &str = "--pijs-build-worker";
/// Poll interval of a running child.
const LOOK: Duration = Duration::from_millis(2);

/// Bounds of a sealed build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Longest wall-clock time.
    pub deadline: Duration,
    /// Longest processor time, in seconds.
    pub cpu_seconds: u64,
    /// Address space, in bytes. Stacks are reserved from it: 256 MiB for each processor.
    pub memory_bytes: u64,
}

impl Default for Seal {
    /// A minute, two minutes of processor time, 8 GiB of address space: twenty times the need of the largest published extension.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(60), cpu_seconds: 120, memory_bytes: 8 << 30 }
    }
}

/// The request to the child.
#[derive(Serialize, Deserialize)]
struct BuildRequest {
    package: Package,
    folders: Folders,
    minify: bool,
    limits: Limits,
    seal: (u64, u64),
}

/// The head of the child's answer; the artifact's bytes follow.
#[derive(Serialize, Deserialize)]
enum BuildAnswer {
    Built(Vec<Diagnostic>),
    Failed(Vec<Diagnostic>),
}

/// Compiles and exits, if this process was started to compile. Call it first in `main`.
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
    walls::close_off(request.seal.0, request.seal.1);
    let options = BuildOptions { minify: request.minify, limits: request.limits, ..BuildOptions::default() };
    let limits = request.package.limits(request.limits);
    let tree = SourceTree::asking(parent, request.folders, limits);
    let (answer, bytes) = match build::compile(&request.package, tree, &options) {
        Ok(Compiled { artifact, diagnostics, .. }) => (BuildAnswer::Built(bounded(diagnostics)), encode(&artifact)),
        Err(failure) => (BuildAnswer::Failed(bounded(failure.diagnostics().to_vec())), Vec::new()),
    };
    done(answer, &bytes)
}

/// Limits the number of diagnostics: every excerpt carries its whole file.
fn bounded(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    const EXCERPTS: usize = 20;
    diagnostics.iter_mut().skip(EXCERPTS).for_each(Diagnostic::forget_excerpt);
    diagnostics
}

/// Compiles `package` out of `tree` in a child process.
pub(crate) fn compile(
    package: &Package,
    tree: SourceTree,
    options: &BuildOptions,
    seal: Seal,
) -> Result<Compiled, BuildFailure> {
    let request = BuildRequest {
        package: package.clone(),
        folders: tree.folders(),
        minify: options.minify,
        limits: options.limits,
        seal: (seal.memory_bytes, seal.cpu_seconds),
    };
    let (answer, bytes) = run(&request, &tree, seal).map_err(|why| {
        let message = format!("{}: {why}", package.name);
        BuildFailure::from(
            Diagnostic::new(Code::Limit, message)
                .help("the package takes more than a build may, or breaks the compiler"),
        )
    })?;
    let broken = || BuildFailure::from(Diagnostic::new(Code::Limit, "the build worker returned a different artifact"));
    match answer {
        BuildAnswer::Failed(diagnostics) => Err(BuildFailure::new(diagnostics)),
        BuildAnswer::Built(diagnostics) => {
            let artifact = decode(&bytes).map_err(|_| broken())?;
            if !is_true(&artifact, package, &tree) && guard!(BuildInputList) {
                return Err(broken());
            }
            let (record, evidence) = (DependencyManifest::new(package, &tree), tree.evidence());
            Ok(Compiled { artifact, record, diagnostics, evidence })
        }
    }
}

/// Returns whether an artifact's metadata agree with the parent's own knowledge of the inputs. Grants are bound to the inputs: a
/// compromised compiler could otherwise pass off other code as the code that the user agreed to.
fn is_true(artifact: &Artifact, package: &Package, tree: &SourceTree) -> bool {
    let mut known = known(package, tree);
    if package.artifact {
        // The entries of an artifact are its own claim.
        known.entries.clone_from(&artifact.metadata.entries);
    }
    let ArtifactMetadata { name, version, engine, entries, inputs, .. } = &artifact.metadata;
    (name, version, engine, entries, inputs)
        == (&known.name, &known.version, &known.engine, &known.entries, &known.inputs)
}

/// Starts the child, serves its requests, and waits until the deadline. The error describes how the child ended.
fn run(request: &BuildRequest, tree: &SourceTree, seal: Seal) -> Result<(BuildAnswer, Vec<u8>), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut command = Command::new(program);
    command.arg(ARGUMENT).env_clear().current_dir("/");
    if !guard::down().is_empty() {
        command.env(guard::VARIABLE, guard::down().join(","));
    }
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| format!("no build worker: {error}"))?;
    let mut to = child.stdin.take().expect("piped");
    let mut from = child.stdout.take().expect("piped");
    let build = tracing::Span::current();
    std::thread::scope(|scope| {
        let server = std::thread::Builder::new().name("extc-files".to_owned()).spawn_scoped(scope, move || {
            // Phases of the child are spans within the build.
            let _build = build.entered();
            send(&mut to, request, &[])?;
            serve(tree, &mut from, &mut to)
        });
        // Without a server the child's reads fail, and it ends by itself.
        let outcome = wait(&mut child, seal.deadline);
        let served = server.map_err(|error| format!("no thread for the build worker: {error}"))?.join();
        let answer = served.unwrap_or_else(|_| Err(io::Error::other("the server stopped")));
        match outcome? {
            // A child that dies early does not answer; its exit status tells more than this error.
            status if status.success() => answer.map_err(|error| format!("its answer cannot be read: {error}")),
            status => Err(format!("the build worker ended: {status}")),
        }
    })
}

fn wait(child: &mut Child, deadline: Duration) -> Result<std::process::ExitStatus, String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if started.elapsed() < deadline => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the build did not finish within {} s", deadline.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(target_os = "linux")]
mod walls {
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
    pub(super) fn close_off(memory_bytes: u64, cpu_seconds: u64) {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let limits = [
            (Resource::As, memory_bytes),
            (Resource::Cpu, cpu_seconds),
            (Resource::Nofile, 256),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
        ];
        for (resource, most) in limits {
            // Fails only when a lower hard limit is in force already, which satisfies the bound.
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
mod walls {
    /// This system enforces the deadline only.
    pub(super) fn close_off(_memory_bytes: u64, _cpu_seconds: u64) {}
}
