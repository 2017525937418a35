//! Classifies programs that run other programs, and the uses of such programs that do not.
//!
//! There are two kinds. An *interpreter* (`bash`, `env`, `make`) runs other programs with any arguments: a grant of it allows
//! anything, and prompts state that. A *tool with running options* (`git`, `find`, `tar`, `ssh`, `node`) runs others only for
//! some arguments: a grant of its bare name covers the uses that are listed as plain, and `NAME *` covers all uses.
//!
//! The tables classify arguments. [`input`] classifies standard input, [`variables`] environment variables, and [`git_settings`]
//! the settings of a repository; the connector that starts `git` overrides those that name programs.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

mod agents;
pub mod code_paths;
mod credentials;
pub mod file_addresses;
mod file_tools;
mod folder_readers;
pub mod git_settings;
pub mod input;
mod interpreters;
mod named_uses;
pub mod obeyed;
mod own_caches;
mod plain_uses;
mod python;
pub mod secrets;
pub mod shell_words;
mod starters;
pub mod variables;
pub mod version_files;

pub use agents::{AgentFile, files_of_agent, session_by_id};
pub use credentials::{CredentialUse, GIT_OPTIONS_WITH_VALUE, changes_settings, command_of_git, credential_use};
pub use folder_readers::{FolderReading, folder_reading, folder_reading_of_call};
pub use named_uses::{names_relative_file, stays_as_named};
pub use own_caches::own_caches;
pub use python::{runs_library_tool, takes_modules_of_folder};
pub use shell_words::is_plain_word;
pub use starters::{StartedProgram, mentions_program, started_program};

use file_tools::FILE_TOOLS;
use interpreters::INTERPRETERS;
use plain_uses::{PlainTool, TOOLS};

/// The effect of a program's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No argument runs another program.
    Plain,
    /// Some arguments run other programs.
    Options,
    /// The purpose of the program is to run other programs.
    Interpreter,
}

/// Tools of compilers, whose names may have a target prefix: `x86_64-linux-gnu-gcc-12`.
const COMPILERS: &[&str] = &[
    "ar", "as", "c++", "cc", "clang", "clang++", "cpp", "g++", "gcc", "gfortran", "ld", "nm", "objcopy", "ranlib",
    "strip",
];

/// Returns the canonical name of a command: `/usr/bin/python3.11` is `python`.
pub fn name_of(command: &str) -> &str {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let suffix = [".exe", ".cmd", ".bat", ".com"].into_iter().find(|suffix| {
        let at = name.len().saturating_sub(suffix.len());
        name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    });
    let name = suffix.map_or(name, |suffix| &name[..name.len() - suffix.len()]);
    let lower = name.to_ascii_lowercase();
    if let Some((_, known)) = ALIASES.iter().find(|(alias, _)| *alias == lower) {
        return known;
    }
    // `m4` is not version 4 of `m`.
    if is_known(&lower) {
        return name;
    }
    if let Some(known) = versioned(&lower) {
        return known;
    }
    let bare = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    // `gcc-12`, but not a name without letters.
    let bare = if bare.len() < name.len() { bare.trim_end_matches('-') } else { bare };
    let bare = if bare.is_empty() { name } else { bare };
    bare.rsplit('-').next().filter(|last| COMPILERS.contains(last)).unwrap_or(bare)
}

/// Other names of programs in the tables. GNU's tools have the prefix `g` next to the system's own.
const ALIASES: &[(&str, &str)] = &[
    ("editor", "vi"),
    ("gchroot", "chroot"),
    ("gdiff3", "diff3"),
    ("genv", "env"),
    ("ginstall", "install"),
    ("gnice", "nice"),
    ("gnohup", "nohup"),
    ("gnumake", "make"),
    ("gsdiff", "sdiff"),
    ("gsort", "sort"),
    ("gsplit", "split"),
    ("gstdbuf", "stdbuf"),
    ("gtime", "time"),
    ("gtimeout", "timeout"),
    ("gxargs", "xargs"),
    ("sensible-editor", "vi"),
    ("slogin", "ssh"),
];

/// Programs that act by the name under which they are started, so that the name of their file is irrelevant.
const NAMED_BY_CALLER: &[&str] =
    &["asdf", "busybox", "coreutils", "mise", "proto", "rtx", "rustup", "snap", "toybox", "volta", "volta-shim"];

/// Parts of a name after a version that name a platform or a build: `perl5.36-x86_64-linux-gnu`.
const PLATFORMS: &[&str] = &[
    "aarch64",
    "amd64",
    "arm",
    "darwin",
    "dbg",
    "debug",
    "i386",
    "i686",
    "intel64",
    "linux",
    "mips",
    "powerpc",
    "ppc",
    "riscv64",
    "s390x",
    "universal",
    "x86",
];

fn is_known(name: &str) -> bool {
    known(name).is_some()
}

/// Returns the spelling of a name in the tables.
fn known(name: &str) -> Option<&'static str> {
    let at = INTERPRETERS.binary_search(&name).ok().map(|at| INTERPRETERS[at]);
    at.or_else(|| tool(name)?.names.iter().copied().find(|known| *known == name))
}

/// Returns the known program for a name with a version or target: `python3.13t`, `php8.2-cgi`, `x86_64-linux-gnu-ld.bfd`.
fn versioned(name: &str) -> Option<&'static str> {
    if let Some((_, rest)) = name.split_once("-linux-gnu-").or_else(|| name.split_once("-linux-musl-")) {
        return known(rest).or_else(|| versioned(rest));
    }
    let at = name.find(|c: char| c.is_ascii_digit()).filter(|at| *at > 0)?;
    let front = name[..at].trim_end_matches(['-', '.', '_']);
    let (version, build) =
        name[at..].split_once('-').map_or((&name[at..], None), |(version, build)| (version, Some(build)));
    let letters = version.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if letters.len() > 2 || !letters.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    match build {
        None => known(front),
        Some(build) => known(&format!("{front}-{build}")).or_else(|| {
            let is_platform = PLATFORMS.iter().any(|platform| build.starts_with(platform));
            known(front).filter(|_| is_platform)
        }),
    }
}

/// Returns the name of the file that a command resolves to, if the tables know the file but not the command: a link to `ssh`
/// under another name is `ssh`.
pub fn name_behind<'a>(command: &str, file: &'a str) -> Option<&'a str> {
    let name = name_of(file);
    (kind_of(command) == Kind::Plain && kind_of(file) != Kind::Plain && !NAMED_BY_CALLER.contains(&name))
        .then_some(name)
}

/// Returns the table entry of a tool with running options.
fn tool(name: &str) -> Option<&'static PlainTool> {
    TOOLS.iter().find(|tool| tool.names.contains(&name))
}

/// Classifies a program by its name.
pub fn kind_of(command: &str) -> Kind {
    let name = name_of(command).to_ascii_lowercase();
    if INTERPRETERS.binary_search(&name.as_str()).is_ok() {
        Kind::Interpreter
    } else if tool(&name).is_some() {
        Kind::Options
    } else {
        Kind::Plain
    }
}

/// Returns whether a program with these arguments is known not to run other programs at the request of the arguments or of files
/// that they name. The first `named` arguments are named by the grant and are allowed.
pub fn is_plain(command: &str, args: &[&str], named: usize) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    match tool(&name) {
        Some(tool) => tool.is_plain(args, named),
        None => INTERPRETERS.binary_search(&name.as_str()).is_err(),
    }
}

/// Options that select another folder or configuration file for programs that obey files in a folder.
const FOLDER_OPTIONS: &[&str] = &[
    "--chdir",
    "--cwd",
    "--dir",
    "--directory",
    "--file",
    "--makefile",
    "--manifest-path",
    "--prefix",
    "--project",
    "-C",
    "-chdir",
    "-f",
];

/// Returns whether arguments select the folder whose files a program obeys, instead of its working folder.
pub fn names_folder(command: &str, args: &[&str]) -> bool {
    let names = |arg: &&str| {
        FOLDER_OPTIONS.iter().any(|option| match option.len() {
            2 => arg.starts_with(option) && !arg.starts_with("--"),
            _ => arg.split('=').next() == Some(option),
        })
    };
    obeys_folder(command) && args.iter().any(names)
}

/// Returns whether a program obeys files in its working folder, so that the same arguments act differently in another folder.
pub fn obeys_folder(command: &str) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    INTERPRETERS.binary_search(&name.as_str()).is_ok() || tool(&name).is_some_and(|tool| tool.obeys_folder)
}

/// Git commands that write no file of the work tree.
const LEAVE_WORK_TREE: &[&str] = &[
    "add",
    "commit",
    "diff",
    "diff-files",
    "diff-index",
    "ls-files",
    "read-tree",
    "rev-parse",
    "status",
    "update-index",
    "write-tree",
];

/// Returns whether git with these arguments writes no file of the work tree. Options before the command are not supported.
pub fn leaves_work_tree(args: &[&str]) -> bool {
    // `read-tree -u` writes files.
    let is_plain =
        |rest: &[&str]| args[0] != "read-tree" || rest.iter().all(|arg| !arg.starts_with('-') || *arg == "--empty");
    args.split_first().is_some_and(|(command, rest)| LEAVE_WORK_TREE.contains(command) && is_plain(rest))
}

/// Returns whether a program copies, moves, shows or changes files, and stores no files of its own in the home.
pub fn is_file_tool(command: &str) -> bool {
    let file = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let name = name_of(command).to_ascii_lowercase();
    // GNU's tools are also installed next to the system's tools with a prefix: `gcp`.
    let names = [Some(file.as_str()), Some(name.as_str()), file.strip_prefix('g')];
    names.into_iter().flatten().any(|name| FILE_TOOLS.binary_search(&name).is_ok())
}

/// Returns whether path arguments of a program may refer to another machine, or not to files.
pub fn names_other_folders(command: &str) -> bool {
    ["gh", "ssh"].contains(&name_of(command))
}

/// Returns whether an extension that starts a program is assumed to need every use of it. Not true for `pi`, which can change the
/// grants of extensions.
pub fn is_used_in_full(command: &str) -> bool {
    kind_of(command) == Kind::Options && name_of(command) != "pi"
}

/// Maximum number of letters of a cluster of short options: `-qnF` has three.
const MAX_CLUSTER: usize = 64;

/// Returns all parts of an argument that may name a file: the files of [`files_of_argument`], the texts between and after
/// separators, and the values attached to the letters of a cluster of short options.
pub fn possible_files(arg: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| "=:,;@<>|#\"'`(){}[]".contains(c);
    let after = arg.match_indices(is_separator).map(|(at, mark)| &arg[at + mark.len()..]);
    let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
    let values = letters.char_indices().skip(1).take(MAX_CLUSTER).map(|(at, _)| &letters[at..]);
    files_of_argument(arg).chain(arg.split(is_separator)).chain(after).chain(values).filter(|part| !part.is_empty())
}

/// Returns the files that an argument may name: the argument itself, the value of an option, the part after `@`, and a `file:`
/// URL.
pub fn files_of_argument(arg: &str) -> impl Iterator<Item = &str> {
    let behind = |mark: char| arg.split_once(mark).map(|(_, value)| value);
    let cluster = || {
        let letters = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
        letters.get(letters.chars().next()?.len_utf8()..)
    };
    let address = arg.find("file:").map(|at| {
        let rest = &arg[at + "file:".len()..];
        rest.strip_prefix("//localhost").or_else(|| rest.strip_prefix("//")).unwrap_or(rest)
    });
    let parts = [Some(arg), behind('='), behind('@'), behind('<'), behind(','), cluster(), address];
    parts.into_iter().flatten().filter(|part| !part.is_empty())
}

/// Returns whether an argument, or the value of an option after `=`, is neither an option nor an absolute path.
fn is_relative(arg: &str) -> bool {
    let value = arg.split_once('=').map(|(_, value)| value);
    match arg.starts_with('-') {
        true => {
            value.is_some_and(|value| is_relative_file(value) || is_relative_file(value.trim_start_matches("exec=")))
        }
        false => !arg.starts_with('/') && !arg.contains("://"),
    }
}

/// Returns whether an argument, or the value of an option, looks like a relative path: it contains a slash, or a dot inside.
fn is_relative_file(arg: &str) -> bool {
    let parts = [Some(arg), arg.rsplit_once('=').map(|(_, value)| value)];
    let mut parts = parts.into_iter().flatten().filter(|part| !part.starts_with(['-', '/']) && !part.contains("://"));
    parts.any(|part| part.contains('/') || part.trim_matches('.').contains('.'))
}

/// Returns whether a name may refer to standard input: `-`, any path below `/dev` or `/proc`, and the names there (`stdin`, `fd/0`),
/// which are relative to the working folder.
fn is_standard_input(arg: &str) -> bool {
    let parts: Vec<&str> = arg.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.last() == Some(&"stdin") || parts.contains(&"fd") {
        return true;
    }
    let is_system = |part: &&str| matches!(*part, "dev" | "proc");
    match parts.contains(&"..") {
        true => parts.iter().any(is_system),
        false => arg == "-" || (arg.starts_with('/') && parts.first().is_some_and(is_system)),
    }
}

/// Returns whether a file is on another machine: a colon with no slash before it, also in `--file=HOST:FILE`.
fn names_a_host(arg: &str) -> bool {
    let file = match arg.strip_prefix("--").and_then(|option| option.split_once('=')) {
        Some((name, file)) if "file".starts_with(name) => file,
        Some(_) => return false,
        None => arg,
    };
    file.split('/').next().is_some_and(|first| first.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_canonical_without_path_and_version() {
        for (command, name) in
            [("git", "git"), ("/usr/bin/git", "git"), ("python3.11", "python"), ("C:\\Git\\git.exe", "git"), ("7", "7")]
        {
            assert_eq!(name_of(command), name);
        }
        for (command, name) in [
            ("perl5.36-x86_64-linux-gnu", "perl"),
            ("python3.13t", "python"),
            ("python3.11-dbg", "python-dbg"),
            ("php8.2-cgi", "php-cgi"),
            ("sensible-editor", "vi"),
            ("slogin", "ssh"),
            ("x86_64-linux-gnu-ld.bfd", "ld.bfd"),
            ("pydoc3.11", "pydoc"),
            ("ps2pdf", "ps2pdf"),
            ("python3-config", "python3-config"),
            ("clang-format-15", "clang-format"),
        ] {
            assert_eq!(name_of(command), name);
        }
        assert_eq!(name_behind("connect", "/usr/bin/ssh"), Some("ssh"));
        assert_eq!(name_behind("ls", "/bin/busybox"), None);
        assert_eq!(name_behind("rustfmt", "/x/rustup"), None);
        assert_eq!(name_behind("sh", "/bin/dash"), None, "known by its own name");
        assert_eq!(kind_of("/bin/BASH"), Kind::Interpreter);
        assert_eq!(kind_of("git"), Kind::Options);
        assert_eq!(kind_of("ls"), Kind::Plain);
        assert!(INTERPRETERS.is_sorted());
        for name in INTERPRETERS.iter().copied().chain(TOOLS.iter().flat_map(|tool| tool.names).copied()) {
            assert_eq!(name_of(name), name, "no program is known by this name");
        }
    }

    #[test]
    fn tools_for_files_need_no_credentials() {
        assert!(FILE_TOOLS.is_sorted());
        for command in ["cp", "/usr/bin/cat", "gcp", "rgrep", "xzgrep", "base64", "sed", "tar", "curl", "zstd"] {
            assert_eq!(credential_use(command, &[]), CredentialUse::None, "{command}");
        }
        for command in ["git", "ssh", "pi", "gh", "aws", "rsync", "ssh-keygen"] {
            assert_ne!(credential_use(command, &[]), CredentialUse::None, "{command}");
        }
        assert!(is_file_tool("tar") && !is_file_tool("curl") && !is_file_tool("git"));
    }

    #[test]
    fn files_in_any_part_of_an_argument_are_possible() {
        for arg in ["-qnF../a", "x:../a:ro", "--x=y=../a", "fileb:../a", "src=../a,dst=b", "-tF../a", "{../a}"] {
            assert!(possible_files(arg).any(|part| part == "../a"), "{arg}");
        }
        assert_eq!(possible_files("plain text").collect::<Vec<_>>(), ["plain text", "plain text"]);
    }

    #[test]
    fn agents_are_plain_uses_of_pi_and_changes_of_grants_are_not() {
        for plain in [
            "pi --mode json -p --no-session --model a/b:high --tools read,grep --append-system-prompt /tmp/p.md Task",
            "pi -p --print --no-extensions --no-tools --no-session --model haiku",
            "pi -p --models sonnet --extension /pkg/index.ts --session-control --session /x/a.jsonl",
            "pi -p --models sonnet -e /pkg/index.ts --session-control --session /x/a.jsonl",
            "pi -p -e ./x.ts --model own/m",
            "pi --version",
            "pi -p @a.txt -ne -ns -np -nc -na",
        ] {
            assert!(!check(plain), "{plain}");
        }
        for other in [
            "pi trust",
            "pi ext grants allow x exec",
            "pi mcp add x",
            "pi install ./x --yes",
            "pi update",
            "pi remove x",
            "pi uninstall x",
            "pi config",
            "pi auth",
            "pi --export x",
            "pi -p --allow exec",
            "pi -p --allow=exec",
            "pi -p --policy permissive",
            "pi -p --approve",
            "pi -pa",
            "pi --mode rpc",
            "pi --mode=rpc",
            "pi -p --model script:x",
            "pi -p --model=script:x",
            "pi -p --base-url http://x",
            "pi -p -e npm:x",
            "pi -p -enpm:x",
            "pi -penpm:x",
            "pi -p --extension=git:x",
            "pi -p -e https://a.example/x",
            "pi -c",
            "pi -r",
            "pi --fork x",
            "pi --tape x",
            "pi rules test x",
        ] {
            assert!(check(other), "{other}");
        }
        assert!(!is_used_in_full("pi") && is_used_in_full("git") && !is_used_in_full("ls"));
        assert_eq!(input::input_use("pi", &["-p"]), input::InputUse::Data);
        assert_eq!(input::input_use("pi", &["--mode", "rpc"]), input::InputUse::Code);
    }

    #[test]
    fn a_folder_that_an_option_names_is_known() {
        let names = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            names_folder(words[0], &words[1..])
        };
        for line in [
            "npm test --prefix x",
            "make test -C x",
            "make -Cx",
            "make -f x",
            "cargo tree --manifest-path=x",
            "go list -C x",
        ] {
            assert!(names(line), "{line}");
        }
        for line in ["npm test", "make check", "git -C x status", "cargo metadata", "ls -f"] {
            assert!(!names(line), "{line}");
        }
    }

    #[test]
    fn options_behind_a_named_command_of_git_are_known() {
        let runs = |line: &str, named: usize| {
            let args: Vec<&str> = line.split(' ').collect();
            !is_plain("git", &args, named)
        };
        for line in [
            "clone -u evil a b",
            "clone -qc x.y=evil a b",
            "rebase -x evil HEAD~1",
            "bisect run evil",
            "bisect view x",
            "filter-branch --tree-filter x",
            "submodule foreach x",
        ] {
            assert!(runs(line, 1), "{line}");
        }
        for line in ["clone a b", "rebase -i HEAD~1", "bisect good", "push -u origin main", "add -u"] {
            assert!(!runs(line, 1), "{line}");
        }
        assert!(!runs("bisect run", 2), "it was named");
        assert!(runs("bisect run x", 2), "nothing is known about what follows");
    }

    #[test]
    fn uses_that_run_other_programs_are_distinguished_from_plain_ones() {
        for plain in command_lines(include_str!("../../../fixtures/programs/plain-uses.txt")) {
            assert!(!check(plain), "{plain}");
        }
        for running in command_lines(include_str!("../../../fixtures/programs/running-uses.txt")) {
            assert!(check(running), "{running}");
        }
    }

    #[test]
    fn a_model_of_an_agent_with_a_blank_is_refused_and_a_prompt_is_not() {
        let is_asked = |args: &[&str]| !is_plain("pi", args, 0);
        assert!(is_asked(&["-p", "--no-session", "--model", "script:/p/m y.jsonl", "Task"]));
        assert!(is_asked(&["-p", "--model=script:/p/m y.jsonl", "Task"]));
        assert!(is_asked(&["-p", "--models", "haiku, script:/p/m y.jsonl", "Task"]));
        assert!(is_asked(&["-p", "--provider", "script: x", "Task"]));
        assert!(is_asked(&["-p", "--skill", "https://a.example/a b", "Task"]));
        assert!(!is_asked(&["-p", "script: write one for https://a.example"]));
        assert!(!is_asked(&["-p", "--append-system-prompt", "see https://a.example first", "Task"]));
    }

    #[test]
    fn the_value_of_an_option_is_no_script() {
        for (program, args, named) in [
            ("node", &["--import", "./a.mjs", "-e", "x"][..], 2),
            ("node", &["--import", "./a.mjs", "--eval=x"], 2),
            ("python3", &["-W", "ignore", "-c", "x"], 2),
            ("python3", &["-X", "dev", "-mtimeit", "x"], 2),
            ("python3", &["-c", "x"], 1),
            ("ruby", &["-r", "json", "-e", "x"], 2),
            ("bun", &["--cwd", "x", "-e", "y"], 2),
            ("bun", &["test", "--preload", "./evil.ts"], 1),
            ("bun", &["run", "build", "--preload=./evil.ts"], 2),
        ] {
            assert!(!is_plain(program, args, named), "{program} {args:?}");
        }
        for (program, args, named) in [
            ("node", &["--import", "./a.mjs", "x.js", "-e"][..], 2),
            ("node", &["--no-warnings", "x.js", "-e", "y"], 2),
            ("node", &["--test", "a.test.js"], 1),
            ("node", &["--import", "./a.mjs"], 2),
            ("python3", &["-m", "pytest", "-x", "tests"], 2),
            ("python3", &["-Im", "pytest", "-x"], 2),
            ("python3", &["-W", "ignore", "tool.py", "-c"], 2),
            ("bun", &["run", "build", "--", "--watch"], 2),
            ("bun", &["test", "a.test.ts"], 1),
        ] {
            assert!(is_plain(program, args, named), "{program} {args:?}");
        }
    }

    #[test]
    fn named_arguments_count_as_allowed() {
        assert!(is_plain("git", &["-c", "core.quotepath=off", "ls-files"], 3));
        assert!(is_plain("git", &["-c", "core.quotepath=off", "ls-files", "-z"], 3));
        assert!(!is_plain("git", &["-c", "core.quotepath=off", "ls-files", "--recurse-submodules"], 3));
        assert!(!is_plain("git", &["fetch", "--upload-pack=evil"], 1));
        assert!(is_plain("git", &["fetch", "origin"], 1));
        assert!(is_plain("git", &["worktree", "add", "../x"], 2));
        assert!(!is_plain("git", &["worktree", "add", "../x"], 0));
        assert!(is_plain("git", &["frotz", "x"], 2), "nothing but what is named");
        assert!(!is_plain("git", &["frotz", "x"], 1), "nothing is known about it");
    }

    fn check(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        !is_plain(words[0], &words[1..], 0)
    }

    /// Returns the command lines of a fixture, whose words are separated by single spaces.
    pub(crate) fn command_lines(text: &str) -> impl Iterator<Item = &str> {
        text.lines().filter(|line| !line.starts_with("# "))
    }
}
