//! Sandboxed builds: compiles code that is not the user's own in a child process that can do nothing else.
//!
//! Parsers and linkers process whatever a package contains; a bug in one of them must not reach further than the build. So
//! [`build`](crate::build()) with [`BuildOptions::sealed`](crate::BuildOptions) starts its own program as a child process
//! ([`worker`](crate::worker)). The child reads a request from stdin, enters a sandbox, compiles, and writes the artifact to
//! stdout. It reads files through the same streams ([`file_proxy`](crate::file_proxy)):
//!
//! - limits on memory, processor time, files and processes, no core dump, nothing written to any file;
//! - Landlock: no file can be opened; no TCP, no signals to others;
//! - seccomp: no sockets, no other program, no tracing, no io_uring, no namespaces.
//!
//! The parent enforces the deadline. The cache, its key and the MAC stay in the parent. A child that crashes or exceeds the
//! deadline causes one `BD_LIMIT` for that build; the next build starts a new one. The child's answer is decoded like any
//! artifact and must list the inputs that the child received; its bytes equal those of an unsandboxed build.
//!
//! On systems without Landlock or seccomp the other measures apply.

use crate::compiled::{Compiled, known};
use crate::file_proxy::send;
use crate::file_server::serve;
use crate::limits::Limits;
use crate::options::{BuildOptions, Seal};
use crate::package::{Folders, Package};
use crate::tree::SourceTree;
use pijs_artifact::{Artifact, decode};
use pijs_diagnostics::{BuildFailure, Code, Diagnostic};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that starts a program as a build worker.
pub(crate) const ARGUMENT: &str = "--pijs-build-worker";
/// Interval between polls of a running child.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The request to the child.
#[derive(Serialize, Deserialize)]
pub(crate) struct BuildRequest {
    pub(crate) package: Package,
    pub(crate) folders: Folders,
    pub(crate) minify: bool,
    pub(crate) limits: Limits,
    /// Maximum address space in bytes, and processor time in seconds.
    pub(crate) seal: (u64, u64),
}

/// The head of the child's answer; the artifact's bytes follow.
#[derive(Serialize, Deserialize)]
pub(crate) enum BuildAnswer {
    Built(Vec<Diagnostic>),
    Failed(Vec<Diagnostic>),
}

/// Compiles `package` from `tree` in a child process.
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
                .help("the package exceeds the limits of a build, or crashes the compiler"),
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
            Ok(Compiled::new(artifact, diagnostics, package, &tree))
        }
    }
}

/// Returns whether an artifact's metadata match the inputs known to the parent. Grants are bound to the inputs: otherwise a
/// compromised compiler could pass off other code as the code that the user agreed to.
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

/// Starts the child, serves its requests, and waits until the deadline. The error describes how the child exited.
fn run(request: &BuildRequest, tree: &SourceTree, seal: Seal) -> Result<(BuildAnswer, Vec<u8>), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut command = Command::new(program);
    command.arg(ARGUMENT).env_clear().current_dir("/");
    if !guard::down().is_empty() {
        command.env(guard::VARIABLE, guard::down().join(","));
    }
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| format!("cannot start a build worker: {error}"))?;
    let mut to = child.stdin.take().expect("piped");
    let mut from = child.stdout.take().expect("piped");
    let build = tracing::Span::current();
    std::thread::scope(|scope| {
        let server = std::thread::Builder::new().name("extc-files".to_owned()).spawn_scoped(scope, move || {
            // Spans of the child's phases nest in the build's span.
            let _build = build.entered();
            send(&mut to, request, &[])?;
            serve(tree, &mut from, &mut to)
        });
        // Without a server, the child's reads fail and it exits.
        let outcome = wait(&mut child, seal.deadline);
        let served = server.map_err(|error| format!("cannot start a thread for the build worker: {error}"))?.join();
        let answer = served.unwrap_or_else(|_| Err(io::Error::other("the server stopped")));
        match outcome? {
            // For a child that dies early, the exit status says more than this error.
            status if status.success() => answer.map_err(|error| format!("its answer cannot be read: {error}")),
            status => Err(format!("the build worker exited: {status}")),
        }
    })
}

fn wait(child: &mut Child, deadline: Duration) -> Result<std::process::ExitStatus, String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if started.elapsed() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the build did not finish within {} s", deadline.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
