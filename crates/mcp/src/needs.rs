//! Derives the capabilities that a server needs: grants for an entry of the user's own file, requests for a server of a package.

use crate::config::{Reach, ServerConfig};
use crate::values::ValueTemplate;
use pijs_hostcall::Grant;
use pijs_protocol::manifest::{CapabilityRequest, Scope};

/// Variable that keeps Python from importing modules of its working folder.
pub(crate) const SAFE_PATH: &str = "PYTHONSAFEPATH";

/// Returns whether the arguments make Python run a module, which Python looks up in its working folder first. [`SAFE_PATH`] is
/// not set for a script, because it would hide modules in the script's folder.
pub(crate) fn runs_module(args: &[String]) -> bool {
    args.iter().any(|argument| argument == "-m")
}

/// Returns the grants of a server of the user's own file: starting its program as written, its working folder, its URL, and the
/// variables that its values name. Calls of its tools still require consent.
pub fn grants_for(config: &ServerConfig) -> Vec<Grant> {
    let id = |capability: &str| format!("mcp.json:{}:{capability}", config.name);
    let mut grants = Vec::new();
    let values: Vec<&String> = match &config.reach {
        Reach::Stdio { command, args, env, cwd } => {
            grants.push(Grant::any(id("exec"), "exec"));
            // A full path names the program explicitly, so the program may be in a folder that extensions can write to.
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
        values.into_iter().flat_map(|value| ValueTemplate::parse(value).variables()).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        grants.push(Grant::scoped(id("env"), "env", Scope { env: Some(names), ..Scope::default() }));
    }
    grants
}

/// Returns the requests of a server of a package's manifest: starting its program as written, its URL, the variables that its
/// values name, and calls of its tools.
pub fn requests_of(config: &ServerConfig) -> Vec<CapabilityRequest> {
    let request = |capability: &str, scope: Scope| CapabilityRequest {
        capability: capability.into(),
        methods: None,
        scope: Some(scope),
    };
    let mut requests = Vec::new();
    if let Some(command) = command_of(&config.reach) {
        requests.push(request("exec", Scope { commands: Some(vec![command]), ..Scope::default() }));
    }
    for grant in grants_for(config) {
        if let (true, Some(scope)) = (matches!(grant.capability.as_str(), "http" | "env"), grant.scope) {
            requests.push(request(grant.capability.as_str(), scope));
        }
    }
    requests.push(request("mcp", Scope { tools: Some(vec![format!("{}/*", config.name)]), ..Scope::default() }));
    requests
}

/// Returns the command pattern of a program with its arguments and variables. Returns `None` if no pattern expresses the program,
/// for example because of an argument with blanks or a reference to a variable; such a program requires consent when it starts.
fn command_of(reach: &Reach) -> Option<String> {
    let Reach::Stdio { command, args, env, .. } = reach else { return None };
    let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace) && !word.contains('*');
    let mut words = Vec::new();
    for (name, value) in env {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| !c.is_ascii_digit());
        let is_literal = matches!(ValueTemplate::parse(value).literal(), Some(text) if text == *value);
        if !is_name || !is_literal || !is_word(value) {
            return None;
        }
        words.push(format!("{name}={value}"));
    }
    // The host sets this variable in an untrusted folder. Any value is safe, since it only removes import paths.
    if runs_module(args) && !env.contains_key(SAFE_PATH) {
        words.push(format!("{SAFE_PATH}=*"));
    }
    // A program with such a name would be parsed as a variable.
    if command.contains('=') || !std::iter::once(command).chain(args).all(|word| is_word(word)) {
        return None;
    }
    words.extend(std::iter::once(command).chain(args).cloned());
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Parsed;
    use serde_json::{Value, json};

    fn commands(entry: Value) -> Vec<String> {
        let server = Parsed::of_extension("npm:x", "s", &entry).expect("an entry");
        let of_programs = requests_of(&server).into_iter().filter(|request| request.capability.as_str() == "exec");
        of_programs.filter_map(|request| request.scope?.commands).flatten().collect()
    }

    #[test]
    fn a_program_is_requested_as_it_starts() {
        let cases = [
            (json!({"command": "serve", "args": ["--port", "1"]}), "serve --port 1"),
            (json!({"command": "serve", "env": {"MODE": "fast", "A": "x=y"}}), "A=x=y MODE=fast serve"),
            (json!({"command": "python", "args": ["-m", "serve"]}), "PYTHONSAFEPATH=* python -m serve"),
        ];
        for (entry, expected) in cases {
            assert_eq!(commands(entry), [expected]);
        }
    }

    #[test]
    fn a_program_that_no_pattern_expresses_is_not_requested() {
        let cases = [
            json!({"command": "serve", "args": ["two words"]}),
            json!({"command": "serve", "args": [""]}),
            json!({"command": "serve", "args": ["*"]}),
            json!({"command": "A=b", "args": ["serve"]}),
            json!({"command": "serve", "env": {"KEY": "${KEY}"}}),
            json!({"command": "serve", "env": {"KEY": "!print it"}}),
            json!({"command": "serve", "env": {"KEY": "two words"}}),
            json!({"command": "serve", "env": {"KEY": "*"}}),
            json!({"command": "serve", "env": {"A*": "b"}}),
        ];
        for entry in cases {
            assert_eq!(commands(entry.clone()), [""; 0], "{entry}");
        }
    }
}
