//! Builds the environment of a program (`docs/spec/capabilities.md`, Variables of a program): an allow list, and the variables
//! that the caller adds to it.

use super::ExecOptions;
use super::program::ProgramLine;
use pijs_durable::CheckedFiles;
use pijs_hostcall::scope::Command;
use pijs_hostcall::subject::Input;
use pijs_hostcall::variables::{Variable, VariableEffect};
use pijs_hostcall::vocabulary::PLAIN_ENV;
use pijs_hostcall::{Permit, Reason, Request};
use pijs_programs::input::InputUse;
use pijs_programs::{name_of, runs_library_tool};
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the part of the host's environment that programs see.
pub(super) fn visible(options: &ExecOptions) -> BTreeMap<String, String> {
    let visible =
        |name: &str| PLAIN_ENV.contains(&name) || name.starts_with("LC_") || name == "TZ" || name == "LOGNAME";
    let all = !guard!(ExecEnv);
    options.env.iter().filter(|(name, _)| all || visible(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
}

/// Returns the environment that the caller passed in place of the allow list. The gate has allowed the environment as a whole.
/// Each variable is checked once more, and dropped if it is not permitted and the program can start without it. `has_input`: whether
/// the program gets input.
pub(super) fn of(
    request: &Request,
    options: &ExecOptions,
    command: &Command<'_>,
    has_input: bool,
) -> Result<BTreeMap<String, String>, HostcallError> {
    let mut env = BTreeMap::new();
    for Variable { name, value, effect } in command.given.variables.iter().copied() {
        let variable = Variable { name, value, effect };
        let is_own = is_own(options, &variable);
        let permitted = request.permit.variable(command, &variable);
        if name == "PATH" && !is_own && guard!(ExecEnv) && request.permit.keeps_search_path(value) {
            // The host's own value is inserted below.
            continue;
        }
        if is_own || permitted.is_ok() {
            env.insert(name.to_owned(), value.to_owned());
        } else if !command.given.can_be_left_out(&variable) {
            return Err(Reason::Scope.refusal("exec", "exec", &format!("environment variable {name}")));
        }
    }
    // Each variable is permitted, but maybe by grants that differ, or that do not cover the input. One has to permit all.
    let mut kept = command.given.clone();
    kept.is_inherited = false;
    kept.variables.retain(|variable| env.contains_key(variable.name) && !is_own(options, variable));
    if has_input && kept.input_use(command.program, command.args) != InputUse::Data {
        kept.input = Input::UNKNOWN;
    }
    if command.given.is_inherited
        && !request.permit.runs_in(&Command { given: &kept, ..*command })
        && guard!(ExecVariables)
    {
        let (harmless, dropped): (Vec<_>, Vec<_>) =
            kept.variables.drain(..).partition(|variable| variable.effect == VariableEffect::Harmless);
        dropped.iter().for_each(|variable| drop(env.remove(variable.name)));
        // A grant may require a variable that was dropped.
        (kept.variables, kept.input) = (harmless, command.given.input.clone());
        if let (false, [first, ..]) = (request.permit.runs_in(&Command { given: &kept, ..*command }), &dropped[..]) {
            return Err(Reason::Scope.refusal("exec", "exec", &format!("environment variable {}", first.name)));
        }
    }
    // Most programs need these two to work at all.
    for name in ["PATH", "HOME"] {
        if let (false, Some(value)) = (env.contains_key(name), options.env.get(name)) {
            env.insert(name.to_owned(), value.clone());
        }
    }
    Ok(env)
}

fn is_own(options: &ExecOptions, variable: &Variable<'_>) -> bool {
    options.env.get(variable.name).map(String::as_str) == Some(variable.value)
}

/// The variable that tells `pi` which extension started it.
pub const STARTED_BY: &str = "PIJS_STARTED_BY";

/// Tells `pi`, by [`STARTED_BY`], that an extension started it and so chose the arguments. It uses the same installation, with its
/// settings and grants, whatever environment the extension passes.
pub(super) fn name_starter(permit: &Permit, is_agent: bool, args: &[String], env: &mut BTreeMap<String, String>) {
    if !is_agent && !args.iter().any(|arg| name_of(arg) == "pi") {
        return;
    }
    if !guard::down().is_empty() {
        // Passes the guard switches on, which exist only in builds for the attack suite.
        env.insert(guard::VARIABLE.to_owned(), guard::down().join(","));
    }
    if guard!(AttributionStarted) {
        env.insert(STARTED_BY.to_owned(), permit.extension().to_string());
    }
    let places = permit.places();
    if places.agent_dir != places.home.join(".pi/agent") && guard!(ExecAgentInstallation) {
        env.insert(AGENT_DIR.to_owned(), places.agent_dir.to_string_lossy().into_owned());
    }
}

/// The variable that selects the installation of `pi`.
const AGENT_DIR: &str = "PI_CODING_AGENT_DIR";

/// The variable that tells `pi` which files were checked when an extension started it: the text form of [`CheckedFiles`]. The
/// extension can exchange a named file before `pi` opens it.
pub const STARTED_WITH: &str = "PIJS_STARTED_WITH";

/// Tells `pi`, by [`STARTED_WITH`], which of its named files were checked.
pub(super) fn name_files(files: &CheckedFiles, env: &mut BTreeMap<String, String>) {
    if guard!(ExecAgentIdentity) {
        env.insert(STARTED_WITH.to_owned(), files.to_string());
    }
}

/// Keeps python from taking the modules that a tool of its library imports from the working folder. Python 3.11 and newer obey this.
pub(super) fn leave_out_folder(line: &ProgramLine<'_>, env: &mut BTreeMap<String, String>) {
    // The variable is inherited, so it is set if any word of the line starts such a tool.
    let mut starts = (0..line.words.len()).map(|at| (line.words[at], &line.words[at + 1..]));
    let is_tool =
        runs_library_tool(line.command, line.words) || starts.any(|(word, rest)| runs_library_tool(word, rest));
    if is_tool && guard!(ExecLibraryTool) {
        env.insert("PYTHONSAFEPATH".to_owned(), "1".to_owned());
    }
}

/// Removes folders from the search path that extensions, packages or the project can write to: the started program might look up
/// another program there that the extension wrote. A grant for every use of the program covers such programs, so the path is not
/// changed then.
pub(super) fn leave_out_written(permit: &Permit, command: &str, words: &[&str], env: &mut BTreeMap<String, String>) {
    if permit.covers_every_use(command, words) || !guard!(ExecWrittenPath) {
        return;
    }
    if let Some(path) = env.get_mut("PATH") {
        let is_left = |folder: &&str| super::program::is_trusted(Path::new(folder), permit);
        *path = path.split(':').filter(is_left).collect::<Vec<_>>().join(":");
    }
}
