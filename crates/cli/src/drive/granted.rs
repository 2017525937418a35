//! What extensions of a scenario may do: what lies in its own folders, its servers, the environment it made, and
//! running programs.

use super::servers::Listening;
use pijs_hostcall::Grant;
use pijs_hostcall::vocabulary::CAPABILITIES;
use pijs_protocol::manifest::Scope;
use std::path::Path;

/// What every extension of a scenario may do: files in the scenario's folders and its sessions, its servers, its
/// environment, programs, and everything that concerns the session.
pub(super) fn grants(servers: &[Listening], sessions: &Path) -> Vec<Grant> {
    let sessions = format!("{}/**", sessions.display());
    let inside = ["<project>", "<package>", "<pi>", "<temp>", "~/**", &sessions].map(str::to_owned).to_vec();
    let inside = Scope { paths: Some(inside), ..Scope::default() };
    // `localhost` is the same server under another name.
    let named = |host: &str| host.replacen("127.0.0.1", "localhost", 1);
    let hosts = servers.iter().flat_map(|server| [server.host.clone(), named(&server.host)]);
    // A server of the extension's own listens where the system likes; whoever listens may connect there.
    let hosts = hosts.chain(["127.0.0.1:0", "[::1]:0"].map(str::to_owned)).collect();
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
