//! `pi --help` with the flags that extensions register, and pi's commands that PiJS does not support.

use crate::args::{Cli, ExtensionFlag, RunArgs};
use crate::output::{clean, stdout};
use crate::session;
use clap::CommandFactory;
use pijs_runtime::Environment;
use pijs_runtime::{Result, UserError};
use std::ffi::OsString;

/// Column at which the help of pi's own options begins.
const COLUMN: usize = 30;

/// Returns the command line without `--help`, if that asks for the help of `pi` itself and not of one of its commands.
pub(crate) fn without_help(argv: &[OsString]) -> Option<Vec<OsString>> {
    let command = Cli::command();
    let is_help = |word: &OsString| word == "--help" || word == "-h";
    let words = || argv.iter().skip(1).take_while(|word| *word != "--");
    let names_command = words()
        .next()
        .and_then(|word| word.to_str())
        .is_some_and(|word| command.find_subcommand(word).is_some() || word == "help");
    if names_command || !words().any(is_help) {
        return None;
    }
    Some(argv.iter().filter(|word| !is_help(word)).cloned().collect())
}

/// Prints the options. Extensions are loaded for their flags, as in pi; flags of extensions that fail to load are missing.
pub(crate) async fn print(environment: &Environment, args: RunArgs, flags: Vec<ExtensionFlag>) -> Result<()> {
    let mut text = Cli::command().max_term_width(100).render_help().to_string();
    // Short and long help have the same text.
    text = text.replace(" (see more with '--help')", "");
    let registered = session::registered_flags(environment, args, flags).await.unwrap_or_default();
    if !registered.is_empty() {
        text.push_str("\nOptions of extensions:\n");
    }
    for flag in registered {
        let value = if flag.spec.flag_type == "string" { " <value>" } else { "" };
        let what = flag.spec.description.unwrap_or_else(|| format!("Registered by {}", flag.owner.path));
        let name = format!("  --{}{value}", flag.spec.name);
        text.push_str(&clean(&format!("{name:<COLUMN$}{what}\n")));
    }
    stdout(text.trim_end());
    Ok(())
}

/// `pi config`
pub(crate) fn no_config() -> UserError {
    UserError::usage("pi config is not supported: PiJS has no screen for choosing what a package loads").help(
        "list the package in settings.json as {\"source\": \"npm:NAME\", \"extensions\": [\"-path\"]} to leave out one extension, or uninstall it with: pi remove",
    )
}

/// `pi auth ...`
pub(crate) fn no_auth() -> UserError {
    UserError::usage("pi auth is not supported: pi never prints keys")
        .help("pi --list-models shows which providers have a key; /login in a session stores one in auth.json")
}
