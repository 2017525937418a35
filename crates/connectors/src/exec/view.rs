//! Keeps programs of extensions from files that no grant of a program is about.
//!
//! Two walls. Arguments that name a protected file are refused, unless every use of the program was granted. And where the
//! kernel has Landlock, the program and all it starts find PiJS's own files closed, however they are named; tools that need
//! no credentials find those of the home closed as well.
//!
//! `pi` itself is the exception: it is there to work with its own files, and runs extensions of its own under its own rules.

use super::ExecOptions;
use super::program::Program;
use pijs_durable::without_links;
use pijs_hostcall::places::{ProgramView, Protection, normal};
use pijs_hostcall::{Permit, Reason};
use pijs_programs::{Kind, files_of_argument, kind_of, name_of, needs_no_credentials};
use pijs_protocol::{HostcallError, guard};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns what a program is kept from.
pub(super) fn of(permit: &Permit, command: &str, program: &Program, options: &ExecOptions) -> ProgramView {
    if is_pi(program, options) || !guard!(ExecView) {
        return ProgramView::default();
    }
    let mut view = permit.places().program_view();
    if needs_no_credentials(command) || needs_no_credentials(&program.file.to_string_lossy()) {
        view.closed.extend(permit.places().credentials());
        view.unwritten.extend(permit.places().runs_in_home());
    }
    view
}

/// Whether a program is this one, or another installation of it.
fn is_pi(program: &Program, options: &ExecOptions) -> bool {
    let own = options.supervisor.as_deref().and_then(|path| path.metadata().ok());
    let is_this = own.is_some_and(|own| (own.dev(), own.ino()) == program.identity);
    is_this || program.found.file_name().is_some_and(|name| name_of(&name.to_string_lossy()) == "pi")
}

/// Refuses arguments that name a file which nobody reads, whatever is granted.
pub(super) fn check_arguments(
    permit: &Permit,
    command: &str,
    args: &[String],
    cwd: &Path,
) -> Result<(), HostcallError> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let runs_anything = kind_of(command) == Kind::Interpreter || permit.covers_every_use(command, &words);
    if runs_anything || permit.means_program(command, &words) || !guard!(ExecArguments) {
        return Ok(());
    }
    let is_identity = |at: usize| {
        command_takes_identity(command) && (words[at].starts_with("-i") || (at > 0 && words[at - 1] == "-i"))
    };
    let named = words.iter().enumerate().filter(|(at, _)| !is_identity(*at));
    for file in named.flat_map(|(_, arg)| files_of_argument(arg)) {
        let path = normal(cwd, Path::new(file));
        // What the system itself shows of processes and devices is not kept in a file.
        if [&path, &without_links(&path)].into_iter().any(|path| is_closed(permit, path)) {
            return Err(Reason::ProtectedPath
                .refusal("read", "exec", &format!("{command} '{file}'"))
                .with("hint", format!("grant exec:{command} * if every use of it is meant")));
        }
    }
    Ok(())
}

fn is_closed(permit: &Permit, path: &Path) -> bool {
    let is_system = ["/dev", "/proc", "/sys"].iter().any(|folder| path.starts_with(folder));
    !is_system && permit.places().protection(path, permit.package_root()) == Protection::All
}

/// Whether a program takes a file of keys behind `-i`, to use it and not to show it.
fn command_takes_identity(command: &str) -> bool {
    ["scp", "sftp", "ssh"].contains(&name_of(command))
}
