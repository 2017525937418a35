//! Finds the files and folders from which a command line runs code: scripts, modules, working folders, search paths.
//!
//! The result contains candidates, because this crate has no access to files. The caller resolves each of them against the
//! folder in which the program starts, and keeps those that exist or that may come to exist ([`CodePath`]). Arguments, variables
//! and the text of a shell are read word by word, after `~`, variables and braces are expanded as a shell does.
//!
//! Folders among the arguments are ambiguous: `node DIR` runs it, and a server of files reads it. Arguments up to the script or the
//! package (the *head*) belong to the interpreter, so a folder among them counts as code. Arguments behind it belong to the script,
//! and only files count.

use crate::file_addresses::decoded;
use crate::shell_words::{Variables, commands_of, is_text, words_of_text};
use crate::variables::steers;
use crate::{Kind, files_of_argument, kind_of, name_of, possible_files};
use std::collections::{BTreeMap, BTreeSet};

/// A candidate for a file or folder of code. Paths may be relative to the folder of the program, or to a [`CodePath::Folder`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodePath {
    /// A folder in which the program works, or from which it reads code, whether it exists or not.
    Folder(String),
    /// A folder of a search path. Counts if it exists.
    Searched(String),
    /// An argument of an interpreter: an existing folder or file, a file with the ending of a script added, or one that may come
    /// to exist.
    Script(String),
    /// A file. Counts if it exists, or if it has an ending and may come to exist.
    File(String),
    /// A word of a shell with a slash. Counts unless it is a folder.
    Program(String),
    /// A Python module, by the first part of its name.
    Module(String),
}

/// Options, and commands of a shell, that make a program change its working folder, or read its project from another folder.
const FOLDER_OPTIONS: &[&str] = &[
    "--cd",
    "--chdir",
    "--cwd",
    "--directory",
    "--prefix",
    "--project",
    "--project-directory",
    "--working-dir",
    "--working-directory",
    "-C",
    "-chdir",
    "cd",
    "chdir",
    "pushd",
];

/// Options, and a command of a shell, whose value is a file in a folder of code.
const PARENT_OPTIONS: &[&str] = &["--manifest-path", "--project", "dirname"];

/// Programs that start other programs in containers.
const CONTAINERS: &[&str] = &["docker", "finch", "nerdctl", "podman"];

/// Folders of an image that hold code by convention.
const FOLDERS_OF_IMAGE: &[&str] = &["/app", "/bin", "/code", "/lib", "/opt", "/src", "/srv", "/usr"];

/// Languages whose program text is an argument (`-c`, `-e`).
const LANGUAGES: &[&str] =
    &["bun", "deno", "elixir", "julia", "lua", "luajit", "node", "perl", "php", "python", "r", "rscript", "ruby"];

/// Words in front of a command in the text of a shell.
const BEFORE_COMMANDS: &[&str] = &[
    "!", "builtin", "command", "declare", "do", "else", "exec", "export", "if", "local", "readonly", "then", "until",
    "while", "{",
];

/// Sub-commands in front of a script or package.
const SUB_COMMANDS: &[&str] =
    &["compose", "create", "develop", "dlx", "exec", "execute", "run", "shell", "start", "test", "tool", "x"];

/// Options that take no value, so that the next argument is the script or package.
const SWITCHES: &[&str] = &[
    "--active",
    "--bun",
    "--enable-source-maps",
    "--exact",
    "--expose-gc",
    "--frozen",
    "--hot",
    "--inspect",
    "--isolated",
    "--locked",
    "--offline",
    "--prefer-offline",
    "--quiet",
    "--refresh",
    "--rm",
    "--script",
    "--silent",
    "--smol",
    "--verbose",
    "--watch",
    "--yes",
    "-A",
    "-B",
    "-O",
    "-OO",
    "-q",
    "-u",
    "-v",
    "-y",
];

/// Prefixes of options that take no separate value.
const SWITCH_PREFIXES: &[&str] = &["--allow-", "--experimental-", "--no-", "--trace-", "--unstable"];

/// Returns the candidates of a command with its arguments and its own variables. `home` replaces `~` and `$HOME`.
pub fn code_paths(command: &str, args: &[String], env: &BTreeMap<String, String>, home: &str) -> BTreeSet<CodePath> {
    let mut search = Search { variables: Variables::new(home), found: BTreeSet::new(), entered: None };
    for (name, value) in env {
        let value = search.variables.expand(value);
        search.search_path(name, &value);
        search.variables.set(name, value);
    }
    if command.contains('/') {
        let command = search.variables.expand(command);
        search.found.insert(CodePath::Program(command));
    }
    let line: Vec<String> =
        std::iter::once(command).chain(args.iter().map(String::as_str)).map(str::to_owned).collect();
    search.command(&line, false);
    let mut is_language = LANGUAGES.contains(&name_of(command).to_ascii_lowercase().as_str());
    for arg in args {
        if is_text(arg) {
            search.text(arg, is_language, 0);
        }
        is_language |= LANGUAGES.contains(&name_of(arg).to_ascii_lowercase().as_str());
    }
    search.found
}

/// Maximum depth of texts inside of texts (`bash -c "sh -c '...'"`).
const MAX_DEPTH: usize = 3;

struct Search {
    variables: Variables,
    found: BTreeSet<CodePath>,
    /// The folder that the last `cd` entered.
    entered: Option<String>,
}

impl Search {
    /// Searches the text of a shell, or of a program in one of [`LANGUAGES`].
    fn text(&mut self, text: &str, is_language: bool, depth: usize) {
        for word in words_of_text(text) {
            for word in self.variables.words(word) {
                self.word(&word);
                if is_language {
                    self.script(&word);
                }
            }
        }
        for command in commands_of(text) {
            let mut words = Vec::new();
            for word in &command {
                if is_text(word) && depth < MAX_DEPTH && word.len() < text.len() {
                    self.text(word, is_language, depth + 1);
                }
                let assigns = word.split_once('=').filter(|(name, _)| is_name(name));
                if let Some((name, value)) = assigns {
                    let value = self.variables.expand(value);
                    self.variables.set(name, value);
                }
                words.extend(self.variables.words(word));
            }
            self.command(&words, true);
        }
    }

    /// Searches a command with its arguments. `is_line` for a command in the text of a shell.
    fn command(&mut self, words: &[String], is_line: bool) {
        self.options(words);
        for word in words.iter().filter(|word| is_one_path(word)) {
            self.word(word);
            let is_path = word.contains('/') && !word.starts_with('-') && !word.contains("://") && !word.contains('$');
            if is_line && is_path && !is_assignment(word) {
                self.found.insert(CodePath::Program(word.clone()));
            }
        }
        let mut rest = words;
        while let Some((command, args)) = rest.split_first() {
            if is_assignment(command) || BEFORE_COMMANDS.contains(&command.as_str()) {
                rest = args;
                continue;
            }
            if CONTAINERS.contains(&name_of(command)) {
                return self.mounts(args);
            }
            let head = head_length(command, args);
            let is_code = |arg: &&String| !is_assignment(arg) && !arg.starts_with("--allow-") && is_one_path(arg);
            args[..head].iter().filter(is_code).for_each(|arg| self.script(arg));
            // `timeout 60 node DIR`: an argument may be a command itself.
            rest = match head {
                0 => &[],
                head => &args[head - 1..],
            };
        }
    }

    /// Searches options that name folders or modules, and assignments of variables that steer programs.
    fn options(&mut self, words: &[String]) {
        let is_python = words.iter().any(|word| name_of(word).eq_ignore_ascii_case("python"));
        for (at, word) in words.iter().enumerate() {
            let word = self.variables.expand(word);
            let next = words[at + 1..].iter().find(|next| !next.starts_with('-') || next.len() == 1);
            let next = next.map(|next| self.variables.expand(next));
            let (name, given) = word.split_once('=').map_or((&*word, None), |(name, value)| (name, Some(value)));
            let attached = word.strip_prefix("-C").filter(|value| !value.is_empty());
            let value = given.map(str::to_owned).or_else(|| next.clone());
            if let Some(value) = value.clone().filter(|_| FOLDER_OPTIONS.contains(&name)) {
                self.enter(&value, matches!(name, "cd" | "pushd" | "chdir"));
            }
            if let Some(folder) = attached {
                self.enter(folder, false);
            }
            if let Some(value) = value.filter(|_| PARENT_OPTIONS.contains(&name)) {
                let (above, file) = value.rsplit_once('/').unwrap_or((".", &value));
                if name == "dirname" || file.trim_start_matches('.').contains('.') {
                    self.enter(above, false);
                }
            }
            if let Some(attached) = module(&word).filter(|attached| attached.is_empty() || is_python) {
                let name = if attached.is_empty() { next.as_deref().unwrap_or_default() } else { attached };
                let first = name.split('.').next().filter(|first| !first.is_empty() && !first.contains('/'));
                self.found.extend(first.map(|first| CodePath::Module(first.to_owned())));
            }
            if let Some(value) = given {
                self.search_path(name, value);
            }
        }
    }

    /// Adds a folder, relative to the one that the last `cd` entered as well.
    fn enter(&mut self, folder: &str, is_cd: bool) {
        let nested =
            self.entered.as_ref().filter(|_| !folder.starts_with('/')).map(|above| format!("{above}/{folder}"));
        self.found.insert(CodePath::Folder(folder.to_owned()));
        self.found.extend(nested.clone().map(CodePath::Folder));
        if is_cd {
            self.entered = Some(nested.unwrap_or_else(|| folder.to_owned()));
        }
    }

    /// Adds the folders and files in the value of a variable that steers programs.
    fn search_path(&mut self, name: &str, value: &str) {
        if !steers(name) {
            return;
        }
        let folders = value.split(':').filter(|part| part.contains('/'));
        self.found.extend(folders.map(|part| CodePath::Searched(part.to_owned())));
        for part in value.split_whitespace().flat_map(possible_files).filter(|part| !part.starts_with('-')) {
            let is_path = part.contains('/');
            self.found.insert(if is_path {
                CodePath::Script(part.to_owned())
            } else {
                CodePath::File(part.to_owned())
            });
        }
    }

    /// Adds the files that any word may name.
    fn word(&mut self, word: &str) {
        let files = files_of_argument(word).filter(|part| !part.starts_with('-'));
        self.found.extend(files.map(|part| CodePath::File(named_by(word, part))));
    }

    /// Adds the files and folders that an argument of an interpreter may name, and the folder of a pattern.
    fn script(&mut self, arg: &str) {
        for arg in self.variables.words(arg) {
            let whole = Some(&*arg).filter(|arg| !arg.starts_with('-'));
            for part in whole.into_iter().chain(possible_files(&arg).filter(|part| !part.starts_with('-'))) {
                let part = named_by(&arg, part);
                match part.find(['*', '?']).map(|at| part[..at].rsplit_once('/')) {
                    Some(Some((folder, _))) => self.found.insert(CodePath::Searched(folder.to_owned())),
                    Some(None) => false,
                    None => self.found.insert(CodePath::Script(part)),
                };
            }
        }
    }

    /// Adds folders that a container shares, if it runs code from them: an argument names something in them, or the image keeps code
    /// there.
    fn mounts(&mut self, args: &[String]) {
        let is_below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named = |target: &str| {
            let inside = |word: &str| word.len() > target.len() && is_below(word, target);
            let works = |at: usize| {
                at > 0 && matches!(args[at - 1].as_str(), "-w" | "--workdir") && is_below(&args[at], target)
            };
            args.iter().enumerate().any(|(at, arg)| {
                let value = arg.split_once('=').map(|(_, value)| value);
                inside(arg)
                    || works(at)
                    || value.is_some_and(|value| is_below(value, target) && arg.starts_with("--workdir"))
            })
        };
        for (at, arg) in args.iter().enumerate() {
            let value = |names: &[&str]| {
                let (name, given) =
                    arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
                let next = args.get(at + 1).map(String::as_str);
                names.contains(&name).then(|| given.or(next)).flatten()
            };
            let attached = arg.strip_prefix("-v").filter(|value| !value.is_empty());
            let volume = attached.or_else(|| value(&["-v", "--volume"])).and_then(|volume| {
                let (from, rest) = volume.split_once(':')?;
                Some((from, rest.split(':').next().unwrap_or_default()))
            });
            // `--mount=type=bind,src=DIR,dst=/app`, or the options as the next argument.
            let text = arg.strip_prefix("--mount=").or_else(|| value(&["--mount"]));
            let member = |text: &'_ str, names: &[&str]| {
                let members = text.split(',').filter_map(|member| member.split_once('='));
                members.into_iter().find(|(name, _)| names.contains(name)).map(|(_, value)| value.to_owned())
            };
            let mount = text.and_then(|text| {
                Some((member(text, &["source", "src"])?, member(text, &["destination", "dst", "target"])?))
            });
            let mount = mount.or_else(|| volume.map(|(from, to)| (from.to_owned(), to.to_owned())));
            let Some((from, to)) = mount.filter(|(from, _)| from.contains('/')) else { continue };
            let to = to.trim_end_matches('/');
            if named(to) || FOLDERS_OF_IMAGE.iter().any(|folder| is_below(to, folder)) {
                let from = self.variables.expand(&from);
                self.found.insert(CodePath::Folder(from));
            }
        }
    }
}

/// Returns the number of arguments that belong to an interpreter: up to its script, package or command.
fn head_length(command: &str, args: &[String]) -> usize {
    if kind_of(command) == Kind::Plain {
        return 0;
    }
    let mut before = "";
    for (at, arg) in args.iter().enumerate() {
        let is_number = arg.starts_with(|first: char| first.is_ascii_digit()) && !arg.contains(['/', '.']);
        let is_in_front = arg.starts_with('-')
            || takes_value(before)
            || is_assignment(arg)
            || is_number
            || SUB_COMMANDS.contains(&arg.as_str());
        if !is_in_front {
            return at + 1;
        }
        before = arg;
    }
    args.len()
}

/// Returns whether the next argument may be the value of an option.
fn takes_value(option: &str) -> bool {
    option.starts_with('-')
        && option.len() > 1
        && option != "--"
        && !option.contains('=')
        && !SWITCHES.contains(&option)
        && !SWITCH_PREFIXES.iter().any(|prefix| option.starts_with(prefix))
}

/// Returns whether an argument may be a single path. A path may contain blanks; other text is searched by itself.
fn is_one_path(arg: &str) -> bool {
    !is_text(arg) || arg.starts_with(['/', '.', '~'])
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Returns the text after `-m`, alone or after other letters (`-um`): a Python module, if it is not the next argument.
fn module(argument: &str) -> Option<&str> {
    let letters = argument.strip_prefix('-')?;
    let (before, name) = letters.split_once('m')?;
    let is_module = before.bytes().all(|letter| letter.is_ascii_alphabetic());
    (is_module && (name.is_empty() || before.bytes().all(|letter| b"bBdEiIOPqsSuv".contains(&letter)))).then_some(name)
}

/// Returns the path that a part of an argument names: in a URL, `%2e` and its like are decoded.
fn named_by(arg: &str, part: &str) -> String {
    let decoded = if arg.contains("file:") { decoded(part, true) } else { None };
    decoded.unwrap_or_else(|| part.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &str, args: &[&str], env: &[(&str, &str)]) -> BTreeSet<CodePath> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        code_paths(command, &args, &env, "/home/me")
    }

    #[test]
    fn folders_of_code_are_found_in_every_spelling() {
        for (command, args, folder) in [
            ("bash", &["-c", "cd ~/srv && exec node index.mjs"][..], "/home/me/srv"),
            ("sh", &["-c", "cd $HOME/srv && ./x"], "/home/me/srv"),
            ("sh", &["-c", "D=/d/a; cd $D; ./x"], "/d/a"),
            ("sh", &["-c", "cd -- /d/a; ./x"], "/d/a"),
            ("sh", &["-c", "cd -P '/d/a b'; ./x"], "/d/a b"),
            ("sh", &["-c", "cd /d && cd a && ./x"], "/d/a"),
            ("bash", &["-c", "pushd /d/a && ./x"], "/d/a"),
            ("sh", &["-c", "cd \"$(dirname /d/a/y)\" && ./x"], "/d/a"),
            ("env", &["-C/d/a", "node", "x.js"], "/d/a"),
            ("cargo", &["run", "--manifest-path", "/d/a/Cargo.toml"], "/d/a"),
            ("dotnet", &["run", "--project=/d/a/S.csproj"], "/d/a"),
            ("docker", &["run", "-i", "-v", "/d/a:/x", "node", "node", "/x/s.js"], "/d/a"),
            ("docker", &["run", "--mount", "type=bind,src=/d/a,dst=/app", "image"], "/d/a"),
            ("docker", &["run", "-v/d/a:/x:ro", "-w", "/x", "node", "npm", "start"], "/d/a"),
        ] {
            let found = found(command, args, &[]);
            assert!(found.contains(&CodePath::Folder(folder.to_owned())), "{command} {args:?}: {found:?}");
        }
        assert!(found("sh", &["-c", "cd $SRV && ./x"], &[("SRV", "/d/a")]).contains(&CodePath::Folder("/d/a".into())));
    }

    #[test]
    fn arguments_up_to_the_script_may_be_folders_of_code() {
        for (command, args) in [
            ("python3", &["-X", "utf8", "/d/a"][..]),
            ("node", &["--max-old-space-size", "4096", "/d/a"]),
            ("node", &["-r", "dotenv/config", "/d/a"]),
            ("node", &["-r", "/d/a", "s.js"]),
            ("go", &["run", "/d/a"]),
            ("uv", &["run", "--with", "/d/a", "srv"]),
            ("npx", &["--package=/d/a", "srv"]),
            ("pipx", &["run", "--spec", "/d/a", "srv"]),
            ("conda", &["run", "-p", "/d/a", "srv"]),
            ("java", &["-cp", "/d/b:/d/a", "Main"]),
            ("ruby", &["-I/d/a", "-rfoo"]),
            ("nix", &["run", "path:/d/a#srv"]),
            ("timeout", &["60", "node", "/d/a"]),
            ("sh", &["-c", "exec node /d/a"]),
            ("python3", &["-c", "import sys; sys.path.insert(0, \"/d/a\"); import srv"]),
            ("node", &["--import", "file:///d/%61", "s.js"]),
        ] {
            let found = found(command, args, &[]);
            assert!(found.contains(&CodePath::Script("/d/a".to_owned())), "{command} {args:?}: {found:?}");
        }
    }

    #[test]
    fn folders_of_data_are_not_folders_of_code() {
        for (command, args) in [
            ("npx", &["-y", "@modelcontextprotocol/server-filesystem", "/d/a"][..]),
            ("node", &["--no-warnings", "server.js", "/d/a"]),
            ("uvx", &["mcp-server-git", "--repository", "/d/a"]),
            ("docker", &["run", "--mount", "type=bind,src=/d/a,dst=/projects/a", "mcp/filesystem", "/projects"]),
            ("deno", &["run", "--allow-read=/d/a", "s.ts"]),
            ("env", &["NOTES=/d/a", "node", "s.js"]),
            ("sh", &["-c", "ls /d/a; node s.js"]),
            ("srv", &["/d/a"]),
        ] {
            let found = found(command, args, &[]);
            let is_folder = |path: &CodePath| matches!(path, CodePath::Folder(path) | CodePath::Script(path) | CodePath::Searched(path) if path == "/d/a");
            assert!(!found.iter().any(is_folder), "{command} {args:?}: {found:?}");
        }
    }

    #[test]
    fn words_of_a_shell_name_programs() {
        for (text, program) in [
            ("exec /d/run", "/d/run"),
            ("$HOME/x/run", "/home/me/x/run"),
            ("${HOME}/x/run", "/home/me/x/run"),
            ("\"/d/a b/run\"", "/d/a b/run"),
            ("/d/r\\un", "/d/run"),
            ("D=/d; $D/run", "/d/run"),
            ("node /d/{a,b}/run", "/d/a/run"),
            ("bash -c 'sh -c \"/d/run\"'", "/d/run"),
        ] {
            let found = found("sh", &["-c", text], &[]);
            assert!(found.contains(&CodePath::Program(program.to_owned())), "{text}: {found:?}");
        }
        assert!(found("sh", &["-c", "node /d/a/*.js"], &[]).contains(&CodePath::Searched("/d/a".into())));
    }

    #[test]
    fn modules_and_variables_are_found() {
        for (args, module) in [(&["-m", "srv.main"][..], "srv"), (&["-um", "srv"], "srv"), (&["-msrv"], "srv")] {
            assert!(found("python3", args, &[]).contains(&CodePath::Module(module.to_owned())), "{args:?}");
        }
        let found =
            found("node", &["s.js"], &[("NODE_OPTIONS", "--require=${HOME}/lib/req.cjs"), ("PYTHONPATH", "/d/a")]);
        assert!(found.contains(&CodePath::Script("/home/me/lib/req.cjs".into())), "{found:?}");
        assert!(found.contains(&CodePath::Searched("/d/a".into())), "{found:?}");
    }
}
