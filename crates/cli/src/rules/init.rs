//! `pi rules init`: writes a commented example rule.

use crate::output::stdout;
use clap::Args;
use pijs_runtime::Environment;
use pijs_runtime::trust::Trust;
use pijs_runtime::{Result, UserError};
use std::io::Write as _;

/// The example rule. It stops a reply, so that the command that the output suggests can be tried at once.
const EXAMPLE: &str = include_str!("init/example.md");

/// `pi rules init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Name of the rule, and of its file
    #[arg(default_value = "no-filler-text")]
    name: String,
    /// Write to ~/.pi/rules, for all projects, instead of this one
    #[arg(long)]
    user: bool,
}

/// Runs `pi rules init`.
pub(crate) fn run(environment: &Environment, args: &InitArgs) -> Result<()> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if args.name.is_empty() || args.name.starts_with('.') || !args.name.chars().all(is_name) {
        return Err(UserError::usage(format!("{:?} cannot be the name of a rule", args.name))
            .help("use letters, digits, `-`, `_` and `.`, as in no-filler-text"));
    }
    let home = if args.user { &environment.dirs.home } else { &environment.dirs.cwd };
    let folder = home.join(".pi/rules");
    let path = folder.join(format!("{}.md", args.name));
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::File::create_new(&path))
        .and_then(|mut file| file.write_all(EXAMPLE.as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(UserError::failed(format!("{} exists already", path.display()))
                .help("give another name: pi rules init NAME"));
        }
        Err(error) => return Err(UserError::failed(format!("{} cannot be written: {error}", path.display()))),
    }
    stdout(&format!("wrote {}", path.display()));
    stdout("try it:     echo 'lorem ipsum dolor' | pi rules test -");
    stdout("check it:   pi rules lint");
    let is_trusted = args.user || Trust::read(environment)?.covers(&environment.dirs.cwd);
    stdout(&format!("use it:     {}pi --rules", if is_trusted { "" } else { "pi trust, once for this folder; then " }));
    stdout("always:     \"ttsr\": {\"enabled\": true} in ~/.pi/agent/settings.json");
    Ok(())
}
