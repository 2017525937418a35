//! Command patterns of a scope: program, arguments, variables, folder and input.

use super::CompiledScope;
use crate::places::{Places, normal};
use crate::subject::{Input, ProgramContext};
use crate::variables::{Variable, VariableEffect, VariablePattern, split_assignments};
use pijs_programs::{self as programs, Kind};
use pijs_protocol::guard;
use std::path::{Path, PathBuf};

/// A program and its leading arguments.
#[derive(Debug, Clone)]
pub(super) struct CommandPattern {
    /// Variables that may be set, and variables that have to be set.
    variables: Vec<VariablePattern>,
    program: String,
    leading: Vec<String>,
    rest: TrailingArguments,
    /// The required working folder, if any.
    folder: CommandFolder,
    /// The session's folder, if the program or an argument names a file relative to it; in another folder it would be another
    /// file.
    relative_to: Option<PathBuf>,
    /// Required code on standard input; for exact commands only.
    input: Input,
}

/// Program that a call starts.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// Name or path of the program.
    pub program: &'a str,
    /// Arguments of the program.
    pub args: &'a [&'a str],
    /// Working folder.
    pub folder: &'a Path,
    /// Environment and input.
    pub given: &'a ProgramContext<'a>,
}

/// Arguments that may follow the arguments in the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailingArguments {
    /// Arguments that run no other program, see [`pijs_programs`].
    Plain,
    /// Any arguments: `git *`.
    Any,
    /// No further arguments: the exact command that the user allowed. Written as an empty word at the end, as in sudo: `git log
    /// ""`. Valid only in the project's folder, because the same command acts differently in another folder.
    None,
}

/// The working folders that a pattern allows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CommandFolder {
    Any,
    One(PathBuf),
    /// Any folder, with one exception: a program that obeys files in its folder is limited to the project and to `empty`, the
    /// folder in which servers of the extension start. `own` is the extension's package in the project.
    Project {
        project: PathBuf,
        own: Option<PathBuf>,
        empty: Option<PathBuf>,
    },
}

/// The last word of a pattern without further arguments.
const EXACT_MARK: &str = "\"\"";

/// Returns the pattern of exactly this program with exactly these arguments; `None` if no pattern expresses it: words are
/// separated by blanks, and some words are special.
pub(crate) fn exact_command(variables: &[(String, String)], command: &str, args: &[String]) -> Option<String> {
    let words: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
    let is_other = |word: &&str| {
        word.is_empty()
            || matches!(*word, "*" | EXACT_MARK | "~")
            || word.starts_with("~/")
            || word.contains(char::is_whitespace)
    };
    // A program of this name would be parsed as a variable, and its first argument as the program.
    if words.iter().any(is_other) || VariablePattern::parse(command).is_some() {
        return None;
    }
    let assignments: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !assignments.iter().all(|word| VariablePattern::parse(word).is_some()) {
        return None;
    }
    let mut words: Vec<&str> = assignments.iter().map(String::as_str).chain(words).collect();
    if guard!(ExecExact) {
        words.push(EXACT_MARK);
    }
    Some(words.join(" "))
}

/// Returns the pattern of this program with as many leading arguments as a pattern expresses, followed by any arguments; `None`
/// if no pattern expresses the program.
pub(crate) fn command_with_any_rest(variables: &[(String, String)], command: &str, args: &[String]) -> Option<String> {
    let exact = (0..args.len()).rev().find_map(|count| exact_command(variables, command, &args[..count]))?;
    Some(format!("{} *", exact.trim_end_matches(EXACT_MARK).trim_end()))
}

impl CompiledScope {
    /// Creates a scope of exactly this program, arguments and working folder.
    pub(crate) fn exactly_program(
        command: &str,
        args: &[&str],
        folder: Option<&Path>,
        given: &ProgramContext<'_>,
    ) -> Self {
        let pattern = CommandPattern {
            variables: given.asked().map(VariablePattern::exactly).collect(),
            program: command.to_owned(),
            leading: args.iter().map(|arg| (*arg).to_owned()).collect(),
            rest: TrailingArguments::None,
            folder: folder.map_or(CommandFolder::Any, |folder| CommandFolder::One(folder.to_owned())),
            relative_to: None,
            input: given.input.clone(),
        };
        Self { commands: Some(vec![pattern]), ..Self::default() }
    }

    /// Returns whether the scope restricts commands.
    pub(crate) fn has_commands(&self) -> bool {
        self.commands.is_some()
    }

    /// Returns whether the scope allows a program with some arguments, by name or by full path.
    pub(crate) fn names_or_covers(&self, program: &Path) -> bool {
        let name = program.file_name().unwrap_or_default();
        let is_it = |pattern: &CommandPattern| Path::new(&pattern.program) == program || *pattern.program == *name;
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(is_it))
    }

    /// Returns whether the scope covers a program with these arguments. A name without a slash matches only a command without a
    /// slash, which the search path resolves; a program elsewhere needs its full path.
    ///
    /// The bare name of a program that can run others (`git -c alias.x='!sh' x`) covers its plain uses; `git *` covers all uses.
    /// `folder` matters only for exact commands.
    pub fn command(&self, command: &Command<'_>) -> bool {
        let Command { program, args, folder, given } = *command;
        let covers = |pattern: &CommandPattern| {
            pattern.covers(program, args) && pattern.is_in(program, folder) && pattern.takes(given)
        };
        match &self.commands {
            Some(commands) => commands.iter().any(covers),
            None => given.asked().all(|variable| !is_steering(variable)),
        }
    }

    /// Returns whether a denial with this scope applies to a program: an exact command in its folder, or a program's name and
    /// leading arguments, in any location, with any further arguments and environment.
    pub(crate) fn refuses_command(&self, command: &Command<'_>) -> bool {
        let Command { program, args, folder, given } = *command;
        let is_named = |pattern: &CommandPattern| {
            (pattern.program == program || pattern.program == programs::name_of(program))
                && args.len() >= pattern.leading.len()
                && pattern.leading.iter().zip(args).all(|(leading, arg)| leading == arg)
        };
        let refuses = |pattern: &CommandPattern| match pattern.rest {
            TrailingArguments::None => {
                pattern.covers(program, args) && pattern.is_in(program, folder) && pattern.takes(given)
            }
            TrailingArguments::Plain | TrailingArguments::Any => is_named(pattern),
        };
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(refuses))
    }

    /// Returns whether the scope allows a variable for a covered program. A pattern with several variables needs all of them.
    pub(crate) fn variable(&self, command: &Command<'_>, variable: &Variable<'_>) -> bool {
        let Command { program, args, folder, given } = *command;
        let permits = |pattern: &CommandPattern| {
            let covers = pattern.covers(program, args) && pattern.is_in(program, folder);
            covers && pattern.permits(variable) && pattern.is_met(given)
        };
        match &self.commands {
            Some(commands) => commands.iter().any(permits),
            None => !is_steering(variable),
        }
    }

    /// Returns whether the scope covers every use of a program, including other programs that it runs. Neither a plain use nor an
    /// exact command does, because the configuration of a repository can change its effect.
    pub(crate) fn covers_every_use(&self, command: &str, args: &[&str]) -> bool {
        let covers = |pattern: &CommandPattern| pattern.rest == TrailingArguments::Any && pattern.covers(command, args);
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(covers))
    }

    /// Returns whether the scope covers a program with these arguments by more than a plain use.
    pub(crate) fn means_command(&self, command: &str, args: &[&str]) -> bool {
        let means =
            |pattern: &CommandPattern| pattern.rest != TrailingArguments::Plain && pattern.covers(command, args);
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(means))
    }

    /// Returns whether the scope covers a call by the name of the program alone.
    pub(crate) fn names_program_alone(&self, command: &str, args: &[&str]) -> bool {
        let names = |pattern: &CommandPattern| pattern.leading.is_empty() && pattern.covers(command, args);
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(names))
    }

    /// Returns whether the scope names a program by its full path, which a program in a writable folder requires. A relative path
    /// is relative to the required working folder, or to `project`.
    pub fn names_program(&self, program: &Path, project: &Path) -> bool {
        let named = |pattern: &CommandPattern| {
            let base = match &pattern.folder {
                CommandFolder::One(folder) => folder,
                CommandFolder::Any | CommandFolder::Project { .. } => project,
            };
            pattern.program.contains('/') && normal(base, Path::new(&pattern.program)) == program
        };
        self.commands.as_ref().is_some_and(|commands| commands.iter().any(named))
    }
}

/// Returns a word of a pattern with the home in place of a leading `~`, as a shell would pass it.
fn expand_home(word: &str, home: &Path) -> String {
    let rest = if word == "~" { Some("") } else { word.strip_prefix("~/") };
    match rest.filter(|_| guard!(ExecHome)) {
        Some(rest) => normal(home, Path::new(rest.trim_start_matches('/'))).to_string_lossy().into_owned(),
        None => word.to_owned(),
    }
}

fn is_steering(variable: &Variable<'_>) -> bool {
    variable.effect == VariableEffect::Steering && guard!(ExecEnv)
}

/// Returns whether a grant of plain uses, or of an exact command, has to name a variable.
fn is_part_of_grant(variable: &Variable<'_>) -> bool {
    is_steering(variable) || (variable.effect == VariableEffect::Open && guard!(ExecVariables))
}

impl CommandPattern {
    /// Parses a pattern; returns `None` without a program. `~` is the home. `own` is the folder of the extension's package inside
    /// the project, `empty` the folder in which its servers start.
    pub(super) fn parse(pattern: &str, places: &Places, own: Option<&Path>, empty: Option<&Path>) -> Option<Self> {
        let project = &*places.project;
        let (variables, words) = split_assignments(pattern);
        let mut words = words.into_iter().map(|word| expand_home(word, &places.home));
        let program = words.next()?;
        let mut leading: Vec<String> = words.collect();
        let rest = match leading.last().map(String::as_str) {
            Some("*") => TrailingArguments::Any,
            Some(EXACT_MARK) => TrailingArguments::None,
            _ => TrailingArguments::Plain,
        };
        if rest != TrailingArguments::Plain {
            leading.pop();
        }
        let folder = match rest {
            TrailingArguments::None => CommandFolder::One(project.to_owned()),
            TrailingArguments::Plain => {
                let (own, empty) = (own.map(Path::to_owned), empty.map(Path::to_owned));
                CommandFolder::Project { project: project.to_owned(), own, empty }
            }
            TrailingArguments::Any => CommandFolder::Any,
        };
        let words: Vec<&str> = leading.iter().map(String::as_str).collect();
        let is_relative = (program.contains('/') && !program.starts_with('/'))
            || (rest == TrailingArguments::Plain && programs::names_relative_file(&program, &words));
        let relative_to = is_relative.then(|| project.to_owned());
        Some(Self { variables, program, leading, rest, folder, relative_to, input: Input::Data })
    }

    /// Returns whether environment and input of the program match the pattern.
    fn takes(&self, given: &ProgramContext<'_>) -> bool {
        let is_asked = self.is_met(given);
        // The bare name of an interpreter covers any input.
        let is_meant = match self.rest {
            TrailingArguments::Any => true,
            TrailingArguments::None => false,
            TrailingArguments::Plain => {
                self.leading.is_empty() && programs::kind_of(&self.program) == Kind::Interpreter
            }
        };
        // An answer about input that was not there yet covers any.
        let is_same = is_meant || [&given.input, &Input::Later].contains(&&self.input) || !guard!(ExecInput);
        is_asked && is_same && given.asked().all(|variable| self.permits(variable))
    }

    fn is_met(&self, given: &ProgramContext<'_>) -> bool {
        self.variables.iter().all(|pattern| pattern.is_met(&given.variables)) || !guard!(ExecVariables)
    }

    fn permits(&self, variable: &Variable<'_>) -> bool {
        let is_any = self.rest == TrailingArguments::Any && !is_steering(variable);
        is_any || self.variables.iter().any(|pattern| pattern.permits(variable)) || !is_part_of_grant(variable)
    }

    /// Returns whether a program may run in a folder. A file that the grant names by a relative path is the file in the session's
    /// folder. A program that obeys files of its folder may run in the project, outside of the extension's own files. A grant of
    /// an interpreter's bare name has no such limit.
    fn is_in(&self, program: &str, folder: &Path) -> bool {
        if self.relative_to.as_deref().is_some_and(|base| base != folder) && guard!(ExecNamedFile) {
            return false;
        }
        match &self.folder {
            CommandFolder::Any => true,
            CommandFolder::One(one) => one == folder || !guard!(ExecFolder),
            CommandFolder::Project { project, own, empty } => {
                let is_meant = self.leading.is_empty() && programs::kind_of(program) == Kind::Interpreter;
                let is_own = own.as_deref().is_some_and(|own| folder.starts_with(own));
                // Installed files in these folders belong to packages, too.
                let is_packages =
                    folder.strip_prefix(project).is_ok_and(|rest| rest.iter().any(|name| name == "node_modules"));
                is_meant
                    || (folder.starts_with(project) && !is_own && !is_packages)
                    || empty.as_deref() == Some(folder)
                    || !programs::obeys_folder(program)
                    || !guard!(ExecObeyedFolder)
            }
        }
    }

    fn covers(&self, command: &str, args: &[&str]) -> bool {
        let named = self.leading.len();
        let begins = self.program == command
            && args.len() >= named
            && self.leading.iter().zip(args).all(|(want, have)| want == have);
        begins
            && match self.rest {
                TrailingArguments::None => args.len() == named,
                TrailingArguments::Any => true,
                // A grant of an interpreter covers running code.
                TrailingArguments::Plain => {
                    let runs_others =
                        programs::kind_of(command) == Kind::Options && !programs::is_plain(command, args, named);
                    let is_elsewhere = named > 0 && programs::names_folder(command, &args[named..]);
                    let is_other = guard!(ExecNamedOptions) && !programs::stays_as_named(command, args, named);
                    !is_other && (!(runs_others || is_elsewhere) || !guard!(ExecPlainUse))
                }
            }
    }
}
