//! Resolves a command to the file that runs.
//!
//! The file is found before anything starts, and pinned by device and inode, so that the file that the gate decided about is the
//! file that runs. A program in a folder that extensions can write to (the project, the package, temporary files, pi's own
//! folder, folders of a grant) is only found if a grant names its full path, because an extension could have written it
//! (`docs/spec/capabilities.md`, Programs).

use super::ExecOptions;
use pijs_hostcall::places::normal;
use pijs_hostcall::{Permit, Reason};
use pijs_programs::input::{InputUse, input_use};
use pijs_programs::{
    Kind, StartedProgram, is_plain, kind_of, name_behind, name_of, started_program, takes_modules_of_folder,
};
use pijs_protocol::{HostcallError, guard};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Search path if the host has no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Absolute path without links.
    pub(super) file: PathBuf,
    /// The path before links are resolved. A script, or a program with several names, sees this path as its own.
    pub(super) found: PathBuf,
    /// Device and inode.
    pub(super) identity: (u64, u64),
}

/// A command line, and the program that does the work. The gate decides about the line, and its grants name the line. What a
/// program may access depends on the program that the line starts in the end: on `git` in `timeout 60 git status`.
pub(super) struct ProgramLine<'a> {
    pub(super) command: &'a str,
    pub(super) words: &'a [&'a str],
    /// The file of `command`.
    pub(super) program: &'a Program,
    pub(super) started: StartedProgram<'a>,
    /// The file of the started program; `None` if it is not found, or only a grant of its own would cover it.
    pub(super) file: Option<Program>,
}

impl<'a> ProgramLine<'a> {
    /// Creates the line of a program that starts no other.
    pub(super) fn of(command: &'a str, words: &'a [&'a str], program: &'a Program) -> Self {
        let started = StartedProgram { command, args: words, is_direct: true, keeps_context: true };
        Self { command, words, program, started, file: Some(program.clone()) }
    }

    /// Finds the program that a line starts. A grant of the bare name of the line's first program covers whatever it starts.
    pub(super) fn find(
        (command, words): (&'a str, &'a [&'a str]),
        program: &'a Program,
        cwd: &Path,
        options: &ExecOptions,
        permit: &Permit,
    ) -> Self {
        let line = Self::of(command, words, program);
        let is_tool = kind_of(&program.file.to_string_lossy()) == Kind::Options;
        if is_tool || permit.names_program_alone(command, words) || !guard!(ExecStartedProgram) {
            return line;
        }
        let started = started_program(command, words);
        // The starter searches a path without the folders that are refused here.
        Self { started, file: find(started.command, cwd, options, permit).ok().flatten(), ..line }
    }

    /// Returns whether the name of one of the line's files, or of a link to it, satisfies `is_such`.
    pub(super) fn is_called(&self, is_such: impl Fn(&str) -> bool) -> bool {
        let files = self.file.iter().chain([self.program]).flat_map(|program| [&program.file, &program.found]);
        let mut names = files.filter_map(|path| Some(path.file_name()?.to_string_lossy()));
        is_such(name_of(self.started.command)) || names.any(|name| is_such(name_of(&name)))
    }
}

/// Finds `command` as `execvp` would, without the working folder. Returns `Ok(None)` if there is no such program.
///
/// Fails with `denied` `scope` if the program exists and running it requires a grant that names it.
pub(super) fn find(
    command: &str,
    cwd: &Path,
    options: &ExecOptions,
    permit: &Permit,
) -> Result<Option<Program>, HostcallError> {
    if command.contains('/') {
        let Some(program) = probe(&normal(cwd, Path::new(command))) else { return Ok(None) };
        return if may_run(&program, permit) && !is_written(&program, permit) {
            Ok(Some(program))
        } else {
            Err(refuse_unnamed(&program))
        };
    }
    let search = options.env.get("PATH").map_or(USUAL_PATH, String::as_str);
    let found = search
        .split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| probe(&folder.join(command)))
        .find(|program| may_run(program, permit));
    match found {
        Some(program) if is_written(&program, permit) => Err(refuse_unnamed(&program)),
        found => Ok(found),
    }
}

fn refuse_unnamed(program: &Program) -> HostcallError {
    Reason::Scope.refusal("exec", "exec", &program.file.to_string_lossy()).with(
        "hint",
        format!("an extension could have written this program: grant exec for {}", program.file.display()),
    )
}

/// Refuses a program that has another name than the call used, such as `bash` for a link `x`: the gate decided by the name.
/// Allows it if this use of the program is plain, or if more than plain uses of the name were granted, unless it runs its input.
///
/// Refuses `git`, `pi` and tools of python's library without the environment that restricts them.
pub(super) fn check_name(
    line: &ProgramLine<'_>,
    permit: &Permit,
    is_agent: bool,
    has_input: bool,
) -> Result<(), HostcallError> {
    let ProgramLine { words, started: StartedProgram { command, args, keeps_context, .. }, .. } = *line;
    let is_restricted = is_agent || line.is_called(|name| name.eq_ignore_ascii_case("git"));
    let is_library_tool = takes_modules_of_folder(command, args, keeps_context) && guard!(ExecLibraryTool);
    let needs_grant = |what: &str, instead: &str| {
        let hint = format!("{instead}, or grant exec:{} *", line.command);
        Err(Reason::Scope.refusal("exec", "exec", what).with("hint", hint))
    };
    if is_library_tool && keeps_context && !permit.covers_every_use(line.command, words) {
        let what = format!("{command} -E, which takes modules from the working folder");
        return needs_grant(&what, "leave out -E, or use -I");
    }
    if (is_library_tool || is_restricted) && !keeps_context && !permit.covers_every_use(line.command, words) {
        let what = format!("{command} behind {} with another environment or folder", line.command);
        return needs_grant(&what, &format!("start {command} itself with this environment and folder"));
    }
    let file = line.file.as_ref().map(|program| program.file.to_string_lossy());
    let agent = (is_agent && name_of(command) != "pi").then_some("pi");
    let Some(name) = agent.or_else(|| name_behind(command, file.as_deref()?)) else { return Ok(()) };
    // The question about the line did not show the input.
    let runs_input =
        has_input && input_use(name, args) != InputUse::Data && !permit.covers_every_use(line.command, words);
    let is_meant = is_plain(name, args, 0) || permit.means_program(line.command, words);
    if (is_meant && !runs_input) || !guard!(ExecNameBehind) {
        return Ok(());
    }
    let what = format!("{command}, which is {name} and may run other programs or its input");
    needs_grant(&what, &format!("start {name} itself"))
}

/// Returns whether the extension may have written the program by one of its grants, outside of the folders that all extensions
/// may write to.
fn is_written(program: &Program, permit: &Permit) -> bool {
    let named = permit.names_program(&program.file) || permit.names_program(&program.found);
    guard!(ExecProgram) && !named && (permit.may_have_written(&program.file) || permit.may_have_written(&program.found))
}

/// Resolves a command like [`find`], for an extension without a grant that names the program.
pub(super) fn locate(command: &str, cwd: &Path, search: Option<&str>, reach: &[PathBuf]) -> Option<PathBuf> {
    if command.contains('/') {
        return probe(&normal(cwd, Path::new(command))).map(|program| program.file);
    }
    let within = |path: &Path| reach.iter().any(|root| path.starts_with(root));
    let folders = search.unwrap_or(USUAL_PATH).split(':').map(Path::new).filter(|folder| folder.is_absolute());
    let mut found = folders.filter_map(|folder| probe(&folder.join(command)));
    found.find(|program| !within(&program.file) && !within(&program.found)).map(|program| program.file)
}

/// Resolves a command that the user runs.
pub(super) fn find_for_user(command: &str, search: Option<&str>) -> Option<Program> {
    let folders = search.unwrap_or(USUAL_PATH).split(':').map(Path::new).filter(|folder| folder.is_absolute());
    folders.into_iter().find_map(|folder| probe(&folder.join(command)))
}

fn probe(path: &Path) -> Option<Program> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let file = std::fs::canonicalize(path).ok()?;
    let stat = std::fs::metadata(&file).ok()?;
    let runs = stat.is_file() && accessat(CWD, &file, Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    runs.then(|| Program { file, found: path.to_owned(), identity: (stat.dev(), stat.ino()) })
}

fn may_run(program: &Program, permit: &Permit) -> bool {
    !guard!(ExecProgram)
        // Both paths are checked: a link inside such a folder can be redirected, and a link outside can lead into one.
        || (!is_writable_by_extensions(&program.file, permit) && !is_writable_by_extensions(&program.found, permit))
        || permit.names_program(&program.file)
        || permit.names_program(&program.found)
}

/// Returns whether a path lies in a folder that extensions, packages or a project write to.
fn is_writable_by_extensions(path: &Path, permit: &Permit) -> bool {
    let places = permit.places();
    let roots = [Some(&*places.project), Some(&*places.temp), Some(&*places.agent_dir), permit.package_root()];
    roots.iter().flatten().any(|root| path.starts_with(root))
}

/// Returns whether programs in a folder of the search path are trusted by their names, because only the user writes there.
pub(super) fn is_trusted(folder: &Path, permit: &Permit) -> bool {
    let Ok(real) = folder.canonicalize() else { return false };
    // Tools that pi downloads for itself; nothing else writes there.
    if folder == permit.places().agent_dir.join("bin") {
        return true;
    }
    let is_written =
        |folder: &Path| is_writable_by_extensions(folder, permit) || permit.may_have_written(&folder.join("program"));
    folder.is_absolute() && !is_written(folder) && !is_written(&real)
}
