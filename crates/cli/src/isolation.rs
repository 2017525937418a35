//! `--isolation`: where the realms of a session run.

use crate::args::Isolation;
use crate::environment::Environment;
use crate::output::stderr;
use pijs_host::HostBuilder;
use pijs_hostcall::Mode;

/// Has the host open its realms in sealed processes, or in its own thread.
///
/// A kernel that cannot seal is told about; under the strict policy it is refused.
#[cfg(target_os = "linux")]
pub(crate) fn realms(host: HostBuilder, isolation: Isolation, environment: &Environment, policy: Mode) -> HostBuilder {
    use pijs_host::InProcess;
    use pijs_realm::ProcessOptions;

    if isolation == Isolation::Thread {
        return host;
    }
    let options = ProcessOptions { time_zone: environment.variable("TZ").map(Into::into), ..ProcessOptions::default() };
    let realms = InProcess::new(options).sealed_only(policy == Mode::Strict).on_incomplete(|sealed| {
        stderr(&format!("note: this kernel cannot seal extensions completely ({sealed}); see --policy strict"));
    });
    host.realms(realms)
}

/// Elsewhere there are no sealed processes; [`Isolation::Process`] was refused with the command line.
#[cfg(not(target_os = "linux"))]
pub(crate) fn realms(host: HostBuilder, _: Isolation, _: &Environment, _: Mode) -> HostBuilder {
    stderr("note: this system cannot seal extensions; they run inside pi, under its limits and its gate");
    host
}
