//! Prevents programs of extensions from accessing files that a grant for a program does not cover.
//!
//! There are two mechanisms. Arguments that name a protected file, or a folder that contains credentials which the program may
//! read, are refused unless every use of the program was granted. If the kernel has Landlock, the program and its descendants
//! cannot access PiJS's own files by any path, and tools that need no credentials cannot access those in the home folder.
//!
//! `pi` itself is exempt: it works with these files, and runs its extensions under its own rules.

use super::ExecOptions;
use super::program::Program;
use pijs_durable::without_links;
use pijs_hostcall::places::{ProgramView, Protection, normal};
use pijs_hostcall::{Access, Permit, Reason};
use pijs_programs::{
    Kind, files_of_argument, is_file_tool, kind_of, name_of, names_other_folders, needs_no_credentials,
};
use pijs_protocol::{HostcallError, guard};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Returns the files that a program cannot access.
pub(super) fn of(permit: &Permit, command: &str, program: &Program, options: &ExecOptions) -> ProgramView {
    if is_pi(program, options) || !guard!(ExecView) {
        return ProgramView::default();
    }
    let (places, file) = (permit.places(), program.file.to_string_lossy());
    let mut view = places.program_view();
    if needs_no_credentials(command) || needs_no_credentials(&file) {
        view.closed.extend(places.credentials());
        view.unwritten.extend(places.runs_in_home());
    }
    if is_file_tool(command) || is_file_tool(&file) {
        // Such a tool cannot create entries directly in the home folder, so the list of present entries is complete.
        let entries = std::fs::read_dir(&places.home).into_iter().flatten().flatten().map(|entry| entry.path());
        view.unwritten.extend(entries.filter(|entry| places.is_settings_of_home(entry)));
    }
    view
}

/// Returns whether a program is the running executable, or another installation of `pi` that no process of this user could have
/// written.
fn is_pi(program: &Program, options: &ExecOptions) -> bool {
    let own = options.supervisor.as_deref().and_then(|path| path.metadata().ok());
    let is_this = own.is_some_and(|own| (own.dev(), own.ino()) == program.identity);
    let is_called_so = || program.found.file_name().is_some_and(|name| name_of(&name.to_string_lossy()) == "pi");
    is_this || (is_called_so() && (is_out_of_reach(program) || !guard!(ExecOwnIdentity)))
}

/// Returns whether this user cannot change the program, the path by which it was found, or any folder above either.
fn is_out_of_reach(program: &Program) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let is_fixed = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_err();
    [&program.file, &program.found].into_iter().all(|path| path.is_absolute() && path.ancestors().all(is_fixed))
}

/// Refuses arguments that name a protected file without a grant for it, or a folder that contains credentials.
pub(super) fn check_arguments(
    permit: &Permit,
    command: &str,
    args: &[String],
    cwd: &Path,
) -> Result<(), HostcallError> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let runs_anything = kind_of(command) == Kind::Interpreter || permit.covers_every_use(command, &words);
    if runs_anything || permit.means_program(command, &words) {
        return Ok(());
    }
    let is_agent = name_of(command) == "pi";
    let is_identity = |at: usize| {
        command_takes_identity(command) && (words[at].starts_with("-i") || (at > 0 && words[at - 1] == "-i"))
    };
    let named = words.iter().enumerate().filter(|(at, _)| !is_identity(*at));
    for file in named.flat_map(|(_, arg)| files_of_argument(arg)) {
        // Without a shell, the program itself may expand `~`, as `pi` does.
        let (base, file) = file.strip_prefix("~/").map_or((cwd, file), |rest| (&*permit.places().home, rest));
        let path = normal(base, Path::new(file));
        // The kernel provides the files of `/dev`, `/proc` and `/sys`; they are never refused here.
        let is_refused = [path.clone(), without_links(&path)].iter().any(|path| {
            let is_closed = is_closed(permit, path) && !(is_agent && is_own_session(permit, path));
            (is_closed && guard!(ExecArguments)) || is_above_credentials(permit, command, path)
        });
        if is_refused {
            return Err(refusal(command, file));
        }
    }
    if is_agent && guard!(ExecAgentFiles) {
        check_files_of_agent(permit, command, &words, cwd)?;
    }
    let session = is_agent.then(|| session_by_id(&words)).flatten().filter(|_| guard!(ExecArguments));
    session.map_or(Ok(()), |id| Err(refusal(command, id)))
}

/// Refuses files for a started `pi` that the starting extension cannot read, because extensions of the started `pi` see their
/// content. An extension's package is the folder around its file, so that folder must be readable as well.
fn check_files_of_agent(permit: &Permit, command: &str, words: &[&str], cwd: &Path) -> Result<(), HostcallError> {
    const FILES: &[&str] = &["--append-system-prompt", "--prompt-template", "--skill", "--system-prompt"];
    let is_file_option = |option: &str| FILES.contains(&option) || names_extension(option);
    let value = |at: usize| {
        let joined = words[at].split_once('=').filter(|(option, _)| option.starts_with("--") && is_file_option(option));
        // Letters after `-e` in the same argument are its value.
        let attached = words[at].find('e').map(|letter| words[at].split_at(letter + 1));
        let attached = attached
            .filter(|(letters, file)| !letters.starts_with("--") && names_extension(letters) && !file.is_empty());
        let before = at.checked_sub(1).map(|before| (words[before], words[at]));
        joined.or(attached).or(before.filter(|(option, _)| is_file_option(option)))
    };
    for (at, word) in words.iter().enumerate() {
        let attached = word.strip_prefix('@').map(|file| ("", file));
        let Some((option, file)) = value(at).or(attached) else { continue };
        let (base, rest) = file.strip_prefix("~/").map_or((cwd, file), |rest| (&*permit.places().home, rest));
        let path = normal(base, Path::new(rest));
        let real = without_links(&path);
        let is_read = |path: &Path| permit.path(Access::Read, path).is_ok();
        let is_around_read = || !names_extension(option) || real.is_dir() || real.parent().is_some_and(is_read);
        if path.symlink_metadata().is_ok() && !(is_read(&path) && is_read(&real) && is_around_read()) {
            return Err(Reason::Scope
                .refusal("read", "exec", &format!("{command} {option} '{file}'"))
                .with("hint", format!("grant read for it, and for the folder of an extension, or exec:{command} *")));
        }
    }
    Ok(())
}

/// Returns whether an option of `pi` takes an extension as its value: `--extension`, `-e`, or short options that end in `e`.
fn names_extension(option: &str) -> bool {
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    option == "--extension" || letters.is_some_and(|letters| letters.ends_with('e'))
}

fn refusal(command: &str, file: &str) -> HostcallError {
    Reason::ProtectedPath
        .refusal("read", "exec", &format!("{command} '{file}'"))
        .with("hint", format!("grant exec:{command} * if every use of it is meant"))
}

fn is_closed(permit: &Permit, path: &Path) -> bool {
    let is_system = ["/dev", "/proc", "/sys"].iter().any(|folder| path.starts_with(folder));
    !is_system && permit.places().protection(path, permit.package_root()) == Protection::All
}

/// Returns whether credentials exist below a folder that the program could access.
fn is_above_credentials(permit: &Permit, command: &str, path: &Path) -> bool {
    let is_above = |kept: PathBuf| kept != *path && kept.starts_with(path) && kept.symlink_metadata().is_ok();
    !needs_no_credentials(command)
        && !names_other_folders(command)
        && permit.places().credentials().any(is_above)
        && guard!(ExecFolderAbove)
}

/// Returns whether an extension may pass a session file or folder to a `pi` that it starts: it must be able to read it or to
/// create it.
fn is_own_session(permit: &Permit, path: &Path) -> bool {
    let is_new = path.symlink_metadata().is_err();
    permit.path(Access::Read, path).is_ok() || (is_new && permit.path(Access::Make, path).is_ok())
}

/// Returns the id of a session in `--session ID`, which selects any session of the user instead of a file.
fn session_by_id<'a>(words: &[&'a str]) -> Option<&'a str> {
    let values = words.iter().enumerate().filter_map(|(at, word)| match word.split_once('=') {
        Some(("--session", value)) => Some(value),
        None if *word == "--session" => words.get(at + 1).copied(),
        _ => None,
    });
    values.into_iter().find(|value| !value.contains('/') && !value.ends_with(".jsonl"))
}

/// Returns whether a program takes a key file after `-i`, which it uses but does not print.
fn command_takes_identity(command: &str) -> bool {
    ["scp", "sftp", "ssh"].contains(&name_of(command))
}
