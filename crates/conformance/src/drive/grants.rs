//! Builds the grants of a scenario's extensions.

use pijs_hostcall::Grant;
use pijs_hostcall::vocabulary::CAPABILITIES;
use pijs_protocol::manifest::Scope;
use std::path::Path;

/// Returns the grants of every extension of a scenario: files in the scenario's folders and its sessions, servers at this
/// machine's loopback addresses, its environment, programs, and everything that concerns the session.
pub(super) fn grants(sessions: &Path) -> Vec<Grant> {
    let sessions = format!("{}/**", sessions.display());
    let inside =
        ["<project>", "<package>", "<pi>", "<temp>", "~/**", "~/.*", "~/.*/**", &sessions].map(str::to_owned).to_vec();
    let inside = Scope { paths: Some(inside), ..Scope::default() };
    // All servers of a scenario are local, and an extension's own server may listen on any port. An extension that may run
    // programs could reach them anyway.
    let hosts = ["127.0.0.1:*", "[::1]:*", "localhost:*"].map(str::to_owned).to_vec();
    let hosts = Scope { hosts: Some(hosts), ..Scope::default() };
    CAPABILITIES
        .iter()
        .map(|(capability, _)| match *capability {
            "read" | "write" => Grant::scoped("drive", *capability, inside.clone()),
            "http" => Grant::scoped("drive", *capability, hosts.clone()),
            other => Grant::any("drive", other),
        })
        .collect()
}
