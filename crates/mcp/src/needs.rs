//! The capabilities that a server needs: as grants, where the user's own file names it, and as requests, where a package does.

use crate::config::{Reach, ServerConfig};
use crate::values::Written;
use pijs_hostcall::Grant;
use pijs_protocol::manifest::{CapabilityRequest, Scope};

/// Keeps Python from looking for a module in the folder that it starts in.
pub(crate) const SAFE_PATH: &str = "PYTHONSAFEPATH";

/// Whether arguments have Python run a module, which it looks for in its working folder first. With a script it would miss the modules
/// beside the script.
pub(crate) fn runs_module(args: &[String]) -> bool {
    args.iter().any(|argument| argument == "-m")
}

/// Grants what a server of the user's own file may do unasked: start as it is written there, work in its folder, reach its address, and
/// read the variables that its values name. What it is called with is asked about all the same.
pub fn grants_for(config: &ServerConfig) -> Vec<Grant> {
    let id = |capability: &str| format!("mcp.json:{}:{capability}", config.name);
    let mut grants = Vec::new();
    let values: Vec<&String> = match &config.reach {
        Reach::Stdio { command, args, env, cwd } => {
            grants.push(Grant::any(id("exec"), "exec"));
            // A program by its place is meant wherever it lies, also where extensions may write.
            if command.contains('/') && !command.contains(char::is_whitespace) {
                let scope = Scope { commands: Some(vec![format!("{command} *")]), ..Scope::default() };
                grants.push(Grant::scoped(id("program"), "exec", scope));
            }
            if config.start_folder.is_some() && runs_module(args) {
                let scope = Scope { commands: Some(vec![format!("{SAFE_PATH}=1 {command} *")]), ..Scope::default() };
                grants.push(Grant::scoped(id("module"), "exec", scope));
            }
            if let Some(cwd) = cwd.as_ref().or(config.start_folder.as_ref()) {
                let scope = Scope { paths: Some(vec![cwd.clone()]), ..Scope::default() };
                grants.push(Grant::scoped(id("read"), "read", scope));
            }
            env.values().collect()
        }
        Reach::Http { url, headers } => {
            if let Ok(url) = url::Url::parse(url)
                && let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default())
            {
                let hosts = Some(vec![format!("{}:{port}", host.trim_end_matches('.'))]);
                grants.push(Grant::scoped(id("http"), "http", Scope { hosts, ..Scope::default() }));
            }
            headers.values().collect()
        }
    };
    let mut names: Vec<String> =
        values.into_iter().flat_map(|value| Written::parse(value).variables()).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        grants.push(Grant::scoped(id("env"), "env", Scope { env: Some(names), ..Scope::default() }));
    }
    grants
}

/// Requests what a server of a package's manifest does: start as it is written there, reach its address, read the variables that its values
/// name, and answer to its tools.
pub fn requests_of(config: &ServerConfig) -> Vec<CapabilityRequest> {
    let request = |capability: &str, scope: Scope| CapabilityRequest {
        capability: capability.into(),
        methods: None,
        scope: Some(scope),
    };
    let mut requests = Vec::new();
    if let Reach::Stdio { command, args, .. } = &config.reach {
        let words: Vec<&str> = std::iter::once(command).chain(args).map(String::as_str).collect();
        // A pattern cannot say an argument with blanks: such a program is asked about when it starts.
        if !words.iter().any(|word| word.is_empty() || word.contains(char::is_whitespace) || word.contains('*')) {
            requests.push(request("exec", Scope { commands: Some(vec![words.join(" ")]), ..Scope::default() }));
        }
    }
    for grant in grants_for(config) {
        if let (true, Some(scope)) = (matches!(grant.capability.as_str(), "http" | "env"), grant.scope) {
            requests.push(request(grant.capability.as_str(), scope));
        }
    }
    requests.push(request("mcp", Scope { tools: Some(vec![format!("{}/*", config.name)]), ..Scope::default() }));
    requests
}
