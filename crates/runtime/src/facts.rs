//! Facts about the machine that realms receive. Only `process`, `node:os` and `node:path` read them.

use crate::environment::{Environment, terminal_size};
use pijs_hostcall::places::OWN_SCRIPT;
use pijs_hostcall::vocabulary::PLAIN_ENV;
use serde_json::{Map, Value, json};

/// Returns the facts for every realm of a session. The gate decides about each variable that is not plain.
pub fn facts(environment: &Environment) -> Map<String, Value> {
    let plain: Map<String, Value> = PLAIN_ENV
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), environment.variables.get(*name)?.clone().into())))
        .collect();
    let platform = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "x86" => "ia32",
        other => other,
    };
    let members = json!({
        "exec_path": node(environment),
        "os": system(),
        "cwd": environment.dirs.cwd,
        "homedir": environment.dirs.home,
        "tmpdir": environment.temp,
        "agentDir": environment.dirs.agent_dir,
        "platform": platform,
        "arch": arch,
        "pid": std::process::id(),
        "argv": ["pi", OWN_SCRIPT],
        "terminals": terminals(environment),
        "env": plain,
        "pijs": env!("CARGO_PKG_VERSION"),
    });
    match members {
        Value::Object(mut members) => {
            members.extend(owner());
            members
        }
        _ => unreachable!("written as an object"),
    }
}

/// Returns whether the descriptors 0 to 2 are terminals, and the initial size of the one at stdout.
fn terminals(environment: &Environment) -> Value {
    let Environment { stdin_is_terminal, stdout_is_terminal, stderr_is_terminal, .. } = environment;
    let size = if *stdout_is_terminal { terminal_size() } else { None };
    json!({ "fds": [stdin_is_terminal, stdout_is_terminal, stderr_is_terminal], "size": size })
}

/// Returns release and version of the kernel from `/proc`; `null` for values that cannot be read.
fn system() -> Value {
    let told = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        Some(text.trim_end().to_owned())
    };
    json!({ "release": told("osrelease"), "version": told("version") })
}

/// Returns the path of `node` in `PATH`. Extensions see it as the executable that runs pi, and start scripts with it.
pub fn node(environment: &Environment) -> Option<String> {
    let path = environment.variable("PATH")?;
    let found = std::env::split_paths(path).map(|folder| folder.join("node")).find(|file| file.is_file())?;
    Some(found.display().to_string())
}

/// Returns the ids of the user who runs pi, by which extensions recognise the user's files.
#[cfg(unix)]
fn owner() -> Vec<(String, Value)> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    vec![("uid".to_owned(), user.into()), ("gid".to_owned(), group.into())]
}

#[cfg(not(unix))]
fn owner() -> Vec<(String, Value)> {
    Vec::new()
}
