//! Settings of builds and checks.

use crate::access::FileAccess;
use crate::cache::Cache;
use crate::interface::HostInterface;
use crate::limits::Limits;
use std::time::Duration;

/// Settings of [`build`](crate::build()).
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Minifies the bundled source. Off by default, because it does not make the bytecode smaller.
    pub minify: bool,
    /// Caches finished artifacts; with `None` every build compiles.
    pub cache: Option<Cache>,
    /// The host modules that imports are checked against.
    pub host: HostInterface,
    /// Caps on the input.
    pub limits: Limits,
    /// Decides which files the build may read. By default, files of the package and its dependencies.
    pub access: FileAccess,
    /// Compiles in a sandboxed child process, for code that the user did not write. The program has to call
    /// [`enter`](crate::worker::enter) first in `main`.
    pub sealed: Option<Seal>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let (host, limits, access) = (HostInterface::embedded(), Limits::default(), FileAccess::default());
        Self { minify: false, cache: None, host, limits, access, sealed: None }
    }
}

/// Settings of [`check`](crate::check()).
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// The host modules that imports are checked against.
    pub host: HostInterface,
    /// Caps on the input.
    pub limits: Limits,
    /// Decides which files the check may read.
    pub access: FileAccess,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { host: HostInterface::embedded(), limits: Limits::default(), access: FileAccess::default() }
    }
}

/// Limits of a sandboxed build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Maximum wall-clock time.
    pub deadline: Duration,
    /// Maximum processor time, in seconds.
    pub cpu_seconds: u64,
    /// Maximum address space, in bytes. Stacks are reserved from it: 256 MiB for each processor.
    pub memory_bytes: u64,
}

impl Default for Seal {
    /// A minute, two minutes of processor time, 8 GiB of address space: twenty times the need of the largest published extension.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(60), cpu_seconds: 120, memory_bytes: 8 << 30 }
    }
}
