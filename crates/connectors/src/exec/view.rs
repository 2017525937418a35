//! Prevents programs of extensions from accessing files that a grant for a program does not cover.
//!
//! There are two mechanisms. Arguments that name a protected file, or a folder that contains credentials which the program may
//! read, are refused unless every use of the program was granted. If the kernel has Landlock, the program and its descendants
//! cannot access PiJS's own files by any path, and tools that need no credentials cannot access those in the home folder.
//!
//! `pi` itself is exempt: it works with these files, and runs its extensions under its own rules.

use self::unwritten::ListedUse;
use super::ExecOptions;
use super::program::{Program, ProgramLine};
use pijs_durable::{CheckedFiles, open_real, without_links};
use pijs_hostcall::places::{ProgramView, Protection, normal};
use pijs_hostcall::{Access, Permit, Reason};
use pijs_programs::{
    AgentFile, CredentialUse, Kind, StartedProgram, changes_settings, credential_use, files_of_agent,
    files_of_argument, is_file_tool, kind_of, name_of, names_other_folders, possible_files, session_by_id,
};
use pijs_protocol::{HostcallError, guard};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

mod unwritten;

/// Returns the files that the program of a line cannot access.
pub(super) fn of(permit: &Permit, line: &ProgramLine<'_>, options: &ExecOptions) -> ProgramView {
    if is_pi(line.program, options) || !guard!(ExecView) {
        return ProgramView::default();
    }
    let StartedProgram { command, args, .. } = line.started;
    let places = permit.places();
    let file = line.file.as_ref().map_or(command.into(), |program| program.file.to_string_lossy());
    let mut view = places.program_view();
    if guard!(ExecTerminals) {
        view.closed.extend(terminals());
    }
    let is_every_use = permit.covers_every_use(line.command, line.words);
    let names = [command, &file];
    let used = names.map(|name| credential_use(name, args));
    let needs_none = used.contains(&CredentialUse::None) || names.into_iter().any(is_file_tool);
    let needed = used.into_iter().find_map(|used| match used {
        CredentialUse::Only(entries) if !is_every_use && guard!(ExecToolCredentials) => Some(entries),
        _ => None,
    });
    if needs_none {
        view.closed.extend(places.credentials());
    } else if let Some(entries) = needed {
        let open = entries.iter().map(|entry| places.home.join(entry)).flat_map(|path| [without_links(&path), path]);
        let open: Vec<PathBuf> = open.collect();
        view.closed.extend(places.credentials().filter(|path| !open.iter().any(|open| path.starts_with(open))));
    }
    let is_tool = names.into_iter().any(|name| kind_of(name) == Kind::Options) && guard!(ExecToolSettings);
    let keeps_settings = is_tool && !is_every_use && !changes_settings(command, args);
    view.unwritten.extend(unwritten::by_listed_tool(&ListedUse { permit, names, args, needs_none, keeps_settings }));
    view
}

/// Returns whether a program is the running executable, or another installation of `pi` that no process of this user could have
/// written.
fn is_pi(program: &Program, options: &ExecOptions) -> bool {
    let is_called_so = || program.found.file_name().is_some_and(|name| name_of(&name.to_string_lossy()) == "pi");
    is_this(program, options) || (is_called_so() && (is_out_of_reach(program) || !guard!(ExecOwnIdentity)))
}

/// Returns whether a program is the running executable, under any name.
fn is_this(program: &Program, options: &ExecOptions) -> bool {
    let own = options.supervisor.as_deref().and_then(|path| path.metadata().ok());
    own.is_some_and(|own| (own.dev(), own.ino()) == program.identity)
}

/// Returns whether a line starts an agent: a command or its file is called `pi`, or it is the running executable under another name.
pub(super) fn is_agent(line: &ProgramLine<'_>, options: &ExecOptions) -> bool {
    let is_behind = |program: &Program| name_of(&program.file.to_string_lossy()) == "pi" || is_this(program, options);
    [line.command, line.started.command].map(name_of).contains(&"pi")
        || (line.file.iter().chain([line.program]).any(is_behind) && guard!(ExecAgentByFile))
}

/// Returns whether this user cannot change the program, the path by which it was found, or any folder above either.
fn is_out_of_reach(program: &Program) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let is_fixed = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_err();
    [&program.file, &program.found].into_iter().all(|path| path.is_absolute() && path.ancestors().all(is_fixed))
}

/// Refuses arguments that name a protected file without a grant for it, or a folder that contains credentials. Returns the files
/// that were checked for a `pi` that the extension starts; `None` for other programs, and if every use was granted.
pub(super) fn check_arguments(
    permit: &Permit,
    line: &ProgramLine<'_>,
    cwd: &Path,
    is_agent: bool,
) -> Result<Option<CheckedFiles>, HostcallError> {
    let ProgramLine { command, words, started, .. } = line;
    // A grant that names a command of an interpreter does not cover the files of further arguments.
    let runs_anything = kind_of(command) == Kind::Interpreter
        && (permit.names_program_alone(command, words) || !guard!(ExecInterpreterFiles));
    if runs_anything || permit.covers_every_use(command, words) || permit.means_program(command, words) {
        return Ok(None);
    }
    let is_identity = |at: usize| {
        command_takes_identity(started.command) && (words[at].starts_with("-i") || (at > 0 && words[at - 1] == "-i"))
    };
    let named = words.iter().enumerate().filter(|(at, _)| !is_identity(*at));
    for (_, arg) in named {
        for file in files_of_argument(arg) {
            let file = NamedFile::new(permit, cwd, file);
            let is_refused = file.leads_through_process()
                || file.paths().iter().any(|path| {
                    let is_closed = is_closed(permit, path) && !(is_agent && is_own_session(permit, path));
                    (is_closed && guard!(ExecArguments)) || is_above_credentials(permit, started, path)
                });
            if is_refused {
                return Err(refusal(command, file.name));
            }
        }
        // `gh` expands patterns itself.
        let pattern = (name_of(started.command) == "gh").then(|| arg.find(['*', '?', '['])).flatten();
        let above = pattern.and_then(|at| arg[..at].rsplit_once('/')).map(|(above, _)| above);
        let holds_keys = |path: &PathBuf| {
            is_closed(permit, path) || permit.places().credentials().any(|kept| kept.starts_with(path))
        };
        if let Some(above) = above.filter(|_| guard!(ExecPartsOfArguments))
            && NamedFile::new(permit, cwd, above).paths().iter().any(holds_keys)
        {
            return Err(refusal(command, arg));
        }
        // Any other part of the argument may be a file in the program's own syntax, or a word of a text.
        let parts = possible_files(arg).filter(|part| !ends_inside_names(cwd, arg, part));
        for file in parts.map(|part| NamedFile::new(permit, cwd, part)) {
            let is_closed = |path: &PathBuf| is_closed(permit, path) && !(is_agent && is_own_session(permit, path));
            let is_refused = |file: &NamedFile<'_>| file.leads_through_process() || file.paths().iter().any(is_closed);
            if file.looks_like_path() && is_refused(&file) && guard!(ExecPartsOfArguments) {
                return Err(refusal(command, file.name));
            }
        }
    }
    let checks = is_agent && guard!(ExecAgentFiles);
    let checked = checks.then(|| check_files_of_agent(permit, command, started.args, cwd)).transpose()?;
    let session = is_agent.then(|| session_by_id(started.args)).flatten().filter(|_| guard!(ExecArguments));
    session.map_or(Ok(checked), |id| Err(refusal(command, id)))
}

/// Refuses files for a started `pi` that the starting extension cannot read, because extensions of the started `pi` see their
/// content. An extension's package is the folder around its file, so that folder must be readable as well.
///
/// Returns the files and folders that were checked: the started `pi` reads and writes no other under these names.
fn check_files_of_agent(
    permit: &Permit,
    command: &str,
    words: &[&str],
    cwd: &Path,
) -> Result<CheckedFiles, HostcallError> {
    let mut checked = CheckedFiles::default();
    for named_file in files_of_agent(words) {
        let AgentFile { option, file, is_written } = named_file;
        let named = NamedFile::new(permit, cwd, file);
        let is_read = |path: &Path| permit.path(Access::Read, path).is_ok();
        let is_around_read =
            |real: &PathBuf| !named_file.is_extension() || real.is_dir() || real.parent().is_some_and(is_read);
        let mut paths = named.paths();
        if is_written {
            // The file that has the name now, or the folder in which it would be new.
            if let Some((file, real)) = opened_above(&paths[0]) {
                paths.push(real);
                checked.add_written(&file);
            }
            if named.leads_through_process() || paths.iter().any(|path| is_refused_to_agent(permit, option, path)) {
                return Err(refusal(command, file));
            }
            continue;
        }
        // The file that has the name now, by handle.
        if let Some((file, real)) = opened(&paths[0]) {
            paths.push(real);
            checked.add_read(&file);
        }
        let mut targets = Vec::new();
        let exists = paths.iter().any(|path| path.symlink_metadata().is_ok());
        let mut is_covered = || {
            paths.iter().all(|path| is_read(path))
                && paths[1..].iter().all(is_around_read)
                && links_below(&paths[1], &mut targets)
                && targets.iter().all(|(_, target)| is_read(target))
        };
        if named.leads_through_process() || (exists && !is_covered()) {
            return Err(Reason::Scope
                .refusal("read", "exec", &format!("{command} {option} '{file}'"))
                .with("hint", format!("grant read for it, and for the folder of an extension, or exec:{command} *")));
        }
        targets.iter().for_each(|(file, _)| checked.add_read(file));
    }
    Ok(checked)
}

/// Opens a file, and returns its state and its path without links.
fn opened(path: &Path) -> Option<(Metadata, PathBuf)> {
    let (file, real) = open_real(path).ok()?;
    Some((file.metadata().ok()?, real))
}

/// Opens a file, or the nearest folder above it that exists. Returns the state of what was opened, and the file's path without links.
fn opened_above(path: &Path) -> Option<(Metadata, PathBuf)> {
    path.ancestors().find_map(|above| {
        let (file, real) = opened(above)?;
        let rest = path.strip_prefix(above).ok()?;
        Some((file, if above == path { real } else { real.join(rest) }))
    })
}

/// Returns whether a `pi` that an extension starts may not write a session, a tape or a log at a path: at a protected one, to a
/// session that the extension may not read, and, outside of the folders that are read freely, may not write, or to a folder in which
/// the user's sessions are.
fn is_refused_to_agent(permit: &Permit, option: &str, path: &Path) -> bool {
    let places = permit.places();
    let protection = |path: &Path| places.protection(path, permit.package_root());
    let is_new = path.symlink_metadata().is_err();
    let access = if is_new { Access::Make } else { Access::Write };
    // An id of a session is a name without a protection.
    if protection(path) != Protection::None && permit.path(access, path).is_err() && guard!(ExecAgentWrites) {
        return true;
    }
    let may = |access| permit.path(access, path).is_ok();
    let is_free = |path: &Path| places.reads_freely(path, None) || path.starts_with(&places.temp);
    if option == "--session" && path.is_file() && !(may(Access::Read) && (is_free(path) || may(Access::Write))) {
        return guard!(ExecAgentSessions);
    }
    // Any session in the folder has the protection of this one.
    let inside = path.join("new.jsonl");
    let made = if option == "--session-dir" { &inside } else { path };
    let may_make = || (is_free(made) && !permit.runs_later(made)) || permit.path(Access::Make, made).is_ok();
    if (is_new || made != path) && !may_make() && guard!(ExecAgentNewFiles) {
        return true;
    }
    let is_among_sessions = option == "--session-dir" && protection(&inside) == Protection::All;
    is_among_sessions && permit.path(Access::Make, &inside).is_err() && guard!(ExecAgentSessions)
}

/// A part of an argument that may be the name of a file.
struct NamedFile<'a> {
    /// The name, without a leading `~/`.
    name: &'a str,
    /// Folder that the name is relative to.
    base: &'a Path,
}

impl<'a> NamedFile<'a> {
    /// Without a shell, the program itself may expand `~`, as `pi` does.
    fn new(permit: &'a Permit, cwd: &'a Path, name: &'a str) -> Self {
        match name.strip_prefix("~/") {
            Some(name) => Self { name, base: &permit.places().home },
            None => Self { name, base: cwd },
        }
    }

    /// Returns the paths of the file: by its name, with links resolved, and as the kernel resolves it, which follows a link before
    /// the `..` after it.
    fn paths(&self) -> Vec<PathBuf> {
        let path = normal(self.base, Path::new(self.name));
        let mut paths = vec![path.clone(), without_links(&path)];
        let named = self.base.join(self.name);
        let parent = || Some(named.parent()?.canonicalize().ok()?.join(named.file_name()?));
        if guard!(ExecResolvedArguments) {
            paths.extend(named.canonicalize().ok().or_else(parent));
        }
        paths
    }

    /// Returns whether the path leads through a folder or an open file of a process, such as `/proc/self/cwd/x` or `/dev/fd/3/x`,
    /// which only that process can resolve.
    fn leads_through_process(&self) -> bool {
        let named = self.base.join(self.name);
        let mut parts = named.components();
        let mut before = PathBuf::new();
        while let Some(part) = parts.next() {
            before.push(part);
            let path = normal(Path::new("/"), &before);
            let is_folder = path.starts_with("/proc") && (path.ends_with("cwd") || path.ends_with("root"));
            let is_open_file = ["/dev", "/proc"].iter().any(|system| path.starts_with(system))
                && path.parent().is_some_and(|folder| folder.ends_with("fd"));
            if is_folder || (is_open_file && !parts.as_path().as_os_str().is_empty()) {
                return guard!(ExecResolvedArguments);
            }
        }
        false
    }

    /// Returns whether the name has the form of a path, or is that of an existing file.
    fn looks_like_path(&self) -> bool {
        let is_path = self.name.contains('/') || self.name.starts_with('.');
        is_path || self.base.join(self.name).symlink_metadata().is_ok()
    }
}

/// Returns whether each occurrence of a part in an argument ends inside the name of an existing file, as the part before `@` in
/// `/x/node_modules/@scope/package` does: the argument names the longer path, which is checked by itself.
fn ends_inside_names(cwd: &Path, arg: &str, part: &str) -> bool {
    let mut longer = arg.match_indices(part).map(|(start, _)| {
        let rest = &arg[start + part.len()..];
        let name = rest.split('/').next().unwrap_or_default();
        (!name.is_empty()).then(|| cwd.join(&arg[start..start + part.len() + name.len()]))
    });
    longer.all(|path| path.is_some_and(|path| path.symlink_metadata().is_ok()))
}

/// Adds the targets of the links in a folder of texts for an agent, by handle; returns `false` if the folder has too many entries
/// or links. A file has none.
fn links_below(folder: &Path, targets: &mut Vec<(Metadata, PathBuf)>) -> bool {
    const MAX_ENTRIES: usize = 5000;
    const MAX_LINKS: usize = 500;
    let (mut open, mut entries) = (vec![folder.to_owned()], 0);
    while let Some(folder) = open.pop().filter(|_| guard!(ExecAgentLinks)) {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES || targets.len() > MAX_LINKS {
                return false;
            }
            match entry.file_type() {
                // The agent reads no target that cannot be opened now.
                Ok(kind) if kind.is_symlink() => targets.extend(opened(&entry.path())),
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ => {}
            }
        }
    }
    true
}

fn refusal(command: &str, file: &str) -> HostcallError {
    Reason::ProtectedPath
        .refusal("read", "exec", &format!("{command} '{file}'"))
        .with("hint", format!("grant exec:{command} * if every use of it is meant"))
}

fn is_closed(permit: &Permit, path: &Path) -> bool {
    if is_terminal(path) && guard!(ExecTerminals) {
        return true;
    }
    let is_system = ["/dev", "/proc", "/sys"].iter().any(|folder| path.starts_with(folder));
    !is_system && permit.places().protection(path, permit.package_root()) == Protection::All
}

/// Returns the terminals and input devices of this machine.
pub(super) fn terminals() -> impl Iterator<Item = PathBuf> {
    let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
    devices.filter(|path| is_terminal(path))
}

/// Returns whether a path is a terminal or an input device, or below one: a program that opens it draws questions of its own, and
/// reads what the user types. `/dev/tty` is the program's own terminal, and it has none.
fn is_terminal(path: &Path) -> bool {
    const DEVICES: [&str; 7] = ["console", "hidraw", "input", "pts", "tty", "uinput", "vcs"];
    let device = path.strip_prefix("/dev").ok().and_then(|device| device.iter().next()).and_then(OsStr::to_str);
    device.is_some_and(|device| device != "tty" && DEVICES.iter().any(|known| device.starts_with(known)))
}

/// Returns whether credentials exist below a folder that the program could access.
fn is_above_credentials(permit: &Permit, started: &StartedProgram<'_>, path: &Path) -> bool {
    let is_above = |kept: PathBuf| kept != *path && kept.starts_with(path) && kept.symlink_metadata().is_ok();
    credential_use(started.command, started.args) != CredentialUse::None
        && !names_other_folders(started.command)
        && permit.places().credentials().any(is_above)
        && guard!(ExecFolderAbove)
}

/// Returns whether an extension may pass a session file or folder to a `pi` that it starts: it must be able to read it or to
/// create it.
fn is_own_session(permit: &Permit, path: &Path) -> bool {
    let is_new = path.symlink_metadata().is_err();
    permit.path(Access::Read, path).is_ok() || (is_new && permit.path(Access::Make, path).is_ok())
}

/// Returns whether a program takes a key file after `-i`, which it uses but does not print.
fn command_takes_identity(command: &str) -> bool {
    ["scp", "sftp", "ssh"].contains(&name_of(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_a_longer_existing_path_continues_is_not_named_by_the_argument() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path();
        std::fs::create_dir_all(cwd.join("modules/@scope")).unwrap();
        std::fs::write(cwd.join("key"), "").unwrap();
        assert!(ends_inside_names(cwd, "modules/@scope/new/index.ts", "modules/"));
        for (arg, part) in [
            ("modules/@scope", "modules/@scope"),
            ("modules/:x", "modules/"),
            ("modules/@other/x", "modules/"),
            ("key:ro", "key"),
            ("key:/x", "key"),
            ("modules/@scope,modules/:x", "modules/"),
        ] {
            assert!(!ends_inside_names(cwd, arg, part), "{arg}");
        }
    }
}
