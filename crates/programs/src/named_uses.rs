//! Decides whether an interpreter with more arguments than a grant names is still used as granted.
//!
//! | the grant names | judged by |
//! |---|---|
//! | a program that starts another (`timeout 60 make clean`) | the rules of the started program, which has to be named; an unknown option ends the search for it |
//! | a script (`sh run.sh`) | nothing further: the arguments belong to the script |
//! | a command (`make clean`) | each further argument, also after `--`, unless the program passes those to the named script |
//!
//! The value of an option is not an operand: `sh -o pipefail` names no script.

use super::starters::{Started, starter_of};
use super::{
    INTERPRETERS, Kind, input, is_plain, is_relative, is_relative_file, kind_of, name_of, names_a_host, names_folder,
    tool,
};

/// Options of interpreters that control output or the number of jobs.
const HARMLESS_OPTIONS: &[&str] = &[
    "--color",
    "--colour",
    "--dry-run",
    "--help",
    "--if-present",
    "--json",
    "--keep-going",
    "--no-color",
    "--quiet",
    "--silent",
    "--verbose",
    "--version",
];

/// Interpreters that take commands, addresses of programs, files with commands or tests, or users' names as operands.
const RUN_OPERANDS: &[&str] = &[
    "ansible",
    "ansible-playbook",
    "at",
    "autossh",
    "ava",
    "batch",
    "bats",
    "cucumber-js",
    "cypress",
    "dotnet",
    "duckdb",
    "ed",
    "emacs",
    "ex",
    "expect",
    "gdb",
    "gnuplot",
    "gs",
    "gvim",
    "jasmine",
    "jest",
    "karma",
    "lldb",
    "m4",
    "mail",
    "mailx",
    "mariadb",
    "mocha",
    "mongosh",
    "mosh",
    "mutt",
    "mvn",
    "mvnw",
    "mysql",
    "nix",
    "nose2",
    "nosetests",
    "nvim",
    "osascript",
    "parallel",
    "pest",
    "phpunit",
    "playwright",
    "prove",
    "psql",
    "pytest",
    "rspec",
    "rview",
    "rvim",
    "sbt",
    "screen",
    "sg",
    "socat",
    "sqlite",
    "su",
    "tap",
    "testcafe",
    "tmux",
    "ts-mocha",
    "uvu",
    "vi",
    "view",
    "vim",
    "vitest",
    "xterm",
    "zellij",
];

/// Programs that copy files to and from servers that operands name.
const COPY_TO_HOSTS: &[&str] = &["rclone", "rsync", "scp", "sftp"];

/// Programs that install programs, whose names or addresses are operands.
const INSTALLERS: &[&str] = &[
    "apk",
    "apt",
    "apt-get",
    "aptitude",
    "asdf",
    "brew",
    "bundle",
    "bundler",
    "cabal",
    "composer",
    "conda",
    "corepack",
    "cpan",
    "cpanm",
    "deno",
    "dnf",
    "easy_install",
    "flatpak",
    "gem",
    "hatch",
    "helm",
    "lerna",
    "mamba",
    "micromamba",
    "mise",
    "mix",
    "npm",
    "opam",
    "pacman",
    "pdm",
    "pip",
    "pipenv",
    "pipx",
    "pixi",
    "pnpm",
    "poetry",
    "rebar",
    "rustup",
    "rye",
    "snap",
    "stack",
    "uv",
    "volta",
    "yarn",
    "yarnpkg",
    "yum",
    "zypper",
];

/// Commands of these programs that install or run what an operand names.
const INSTALL_COMMANDS: &[&str] = &[
    "add",
    "build-dep",
    "create",
    "develop",
    "dist-upgrade",
    "download",
    "edit",
    "enable",
    "full-upgrade",
    "get",
    "global",
    "i",
    "import",
    "in",
    "init",
    "inject",
    "ins",
    "inst",
    "insta",
    "instal",
    "install",
    "isnt",
    "isnta",
    "isntal",
    "isntall",
    "link",
    "ln",
    "local",
    "pin",
    "plugin",
    "plugins",
    "reinstall",
    "require",
    "set",
    "shell",
    "source",
    "sync",
    "tap",
    "tool",
    "toolchain",
    "up",
    "update",
    "upgrade",
    "use",
];

/// Programs that pass the arguments after `--` to the script that the arguments before it name.
const PASS_BEHIND_DASHES: &[&str] = &[
    "composer",
    "deno",
    "lerna",
    "npm",
    "npm-run",
    "npm-run-all",
    "nx",
    "pnpm",
    "run-p",
    "run-s",
    "rush",
    "rushx",
    "task",
    "turbo",
    "yarn",
    "yarnpkg",
];

/// Returns whether a program with more arguments than a grant names is still used as granted.
pub fn stays_as_named(command: &str, args: &[&str], named: usize) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    let (leading, rest) = args.split_at(named.min(args.len()));
    if leading.is_empty() || rest.is_empty() {
        return true;
    }
    // The server's shell runs all words after the host.
    if name == "ssh" {
        return operands_of_ssh(leading) < 2;
    }
    if INTERPRETERS.binary_search(&name.as_str()).is_err() {
        return true;
    }
    if RUN_OPERANDS.contains(&name.as_str()) {
        return rest.iter().all(|arg| is_harmless_option(arg));
    }
    if installs(&name, leading) {
        return rest.iter().all(|arg| is_harmless_option(arg));
    }
    match starter_of(command).map(|starter| starter.started(args)) {
        Some(Started::At(at)) => return at < named && covers_started(args[at], &args[at + 1..], named - at - 1),
        Some(Started::Unknown) => return false,
        Some(Started::None) | None => {}
    }
    if input::runs_scripts(&name) {
        return operand_of_script(&name, leading);
    }
    let is_make = name.ends_with("make");
    let passes = PASS_BEHIND_DASHES.contains(&name.as_str());
    let mut is_behind = leading.contains(&"--");
    has_command(&name, leading)
        && rest.iter().all(|arg| {
            if is_behind && passes {
                return true;
            }
            if *arg == "--" && !is_behind {
                is_behind = true;
                return true;
            }
            match arg.strip_prefix('-') {
                // Make expands the name of a variable.
                None | Some("") if is_make => !arg.contains(['=', '$']),
                None | Some("") => {
                    let is_elsewhere = COPY_TO_HOSTS.contains(&name.as_str()) && names_a_host(arg);
                    !is_assignment(arg) && !leads_out(arg) && !is_elsewhere
                }
                Some(_) if is_make && is_count_or_quiet(arg) => true,
                Some(_) => is_harmless_option(arg),
            }
        })
}

/// Programs that create, change, move or delete the files that their arguments name.
const FILE_CHANGERS: &[&str] = &[
    "bunzip2",
    "bzip2",
    "chgrp",
    "chmod",
    "chown",
    "compress",
    "cp",
    "csplit",
    "dd",
    "gunzip",
    "gzip",
    "install",
    "ln",
    "lz4",
    "mkdir",
    "mkfifo",
    "mknod",
    "mv",
    "patch",
    "rm",
    "rmdir",
    "shred",
    "split",
    "tee",
    "touch",
    "truncate",
    "uncompress",
    "unlink",
    "unlz4",
    "unxz",
    "unzip",
    "unzstd",
    "xz",
    "zip",
    "zstd",
];

/// Returns whether one of the arguments that a grant names may be a file relative to the working folder that the program executes
/// or reads as configuration. Such a grant is valid in one folder only.
pub fn names_relative_file(command: &str, args: &[&str]) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    let is_spelled = |arg: &&str| arg.starts_with("./") || arg.starts_with("../");
    if FILE_CHANGERS.contains(&name.as_str()) && args.iter().any(|arg| is_relative(arg)) {
        return true;
    }
    match kind_of(command) {
        // For other programs, only arguments that are written as a path count.
        Kind::Plain => args.iter().any(is_spelled),
        Kind::Options => tool(&name).is_some_and(|tool| tool.names_relative_file(args)),
        Kind::Interpreter => match starter_of(command).map(|starter| starter.started(args)) {
            Some(Started::At(at)) => {
                let is_path = args[at].contains('/') && is_relative(args[at]);
                is_path
                    || args[..at].iter().any(|arg| is_relative_file(arg))
                    || names_relative_file(args[at], &args[at + 1..])
            }
            Some(Started::Unknown) => args.iter().any(|arg| is_relative(arg) || may_name_file(arg)),
            None if input::runs_scripts(&name) => args.iter().any(|arg| is_relative(arg) || may_name_file(arg)),
            Some(Started::None) | None => {
                args.iter().any(|arg| is_relative_file(arg) || arg.starts_with('@') || may_name_file(arg))
            }
        },
    }
}

/// Returns whether an option may name a file in its value, or in the next argument: `-frules`, `-f rules`, `--env-file=x`.
pub(super) fn may_name_file(arg: &str) -> bool {
    let takes_value = arg.contains('=') || !arg.starts_with("--");
    arg.starts_with('-') && takes_value && !is_harmless_option(arg) && !is_count_or_quiet(arg)
}

/// Returns whether a grant that names a started program with its leading arguments covers that program with all of its arguments.
fn covers_started(program: &str, args: &[&str], named: usize) -> bool {
    let is_elsewhere = || named > 0 && names_folder(program, &args[named..]);
    match kind_of(program) {
        Kind::Plain => true,
        Kind::Options => is_plain(program, args, named) && stays_as_named(program, args, named) && !is_elsewhere(),
        Kind::Interpreter => stays_as_named(program, args, named) && !is_elsewhere(),
    }
}

/// Returns whether arguments that a grant names begin a command that installs programs.
fn installs(name: &str, leading: &[&str]) -> bool {
    // The operands of `deno test` are files that run.
    let is_test = |arg: &str| name == "deno" && matches!(arg, "bench" | "test");
    let is_install = |arg: &&&str| INSTALL_COMMANDS.contains(*arg) || is_test(arg);
    let is_command = |arg: &&&str| is_install(arg) || matches!(**arg, "exec" | "run" | "run-script" | "task" | "x");
    INSTALLERS.contains(&name) && leading.iter().find(is_command).as_ref().is_some_and(is_install)
}

/// Returns the number of operands of `ssh`: a host, and words of a remote command.
fn operands_of_ssh(args: &[&str]) -> usize {
    let mut at = 0;
    while let Some(arg) = args.get(at).filter(|arg| arg.starts_with('-')) {
        let takes_next = arg.len() == 2 && "BbcDEeFIiJLlmOoPpQRSWw".contains(&arg[1..]);
        at += if takes_next { 2 } else { 1 };
    }
    args.len().saturating_sub(at)
}

/// Returns whether an argument may be a file outside of the working folder, or a command of an editor.
fn leads_out(arg: &str) -> bool {
    arg.starts_with(['/', '~', '+', '@']) || arg.split(['/', '\\']).any(|part| part == "..")
}

/// Returns whether an option controls output only.
pub(super) fn is_harmless_option(arg: &str) -> bool {
    HARMLESS_OPTIONS.contains(&arg)
}

/// Returns whether arguments of a shell or a script runner contain a script or a line of code, and not just values of options.
fn operand_of_script(name: &str, leading: &[&str]) -> bool {
    const FLAGS: &[&str] = &[
        "--",
        "--enable-source-maps",
        "--login",
        "--no-warnings",
        "--noprofile",
        "--norc",
        "--posix",
        "--restricted",
        "--verbose",
        "-B",
        "-T",
        "-W",
        "-l",
        "-n",
        "-q",
        "-s",
        "-t",
        "-u",
        "-w",
    ];
    let is_flag = |arg: &str| {
        let letters = arg.trim_start_matches(['-', '+']);
        // The line after `-c` of a shell is an operand; `-o` is followed by the name of an option.
        let is_cluster = input::is_shell(name) && !arg.starts_with("--") && !letters.contains(['o', 'O']);
        is_cluster || FLAGS.contains(&arg) || (arg.starts_with("--") && arg.contains('='))
    };
    let is_option =
        |arg: &str| arg.len() > 1 && (arg.starts_with('-') || (arg.starts_with('+') && input::is_shell(name)));
    first_operand(leading, is_option, is_flag).is_some()
}

/// Returns whether arguments contain the name of a command, and not just values of options.
fn has_command(name: &str, leading: &[&str]) -> bool {
    let is_flag = |arg: &str| {
        let is_quiet = name.ends_with("make") && (is_count_or_quiet(arg) || (arg.len() > 2 && !arg.starts_with("--")));
        let is_command = name == "cmake" && arg == "--build";
        is_quiet || is_command || is_harmless_option(arg) || arg == "--" || (arg.starts_with("--") && arg.contains('='))
    };
    let is_option = |arg: &str| arg.starts_with('-') || is_assignment(arg);
    first_operand(leading, is_option, |arg| is_assignment(arg) || is_flag(arg)).is_some()
}

/// Returns the first argument that is neither an option nor the value of an option; `None` if there are only flags.
fn first_operand<'a>(
    args: &[&'a str],
    is_option: impl Fn(&str) -> bool,
    is_flag: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if !is_option(arg) {
            return Some(arg);
        }
        at += if is_flag(arg) { 1 } else { 2 };
    }
    None
}

/// Returns whether an argument sets a variable: `SHELL=/bin/x` of `make`.
pub(super) fn is_assignment(arg: &str) -> bool {
    arg.split_once('=').is_some_and(|(name, _)| !name.starts_with('-') && !name.contains('/'))
}

/// Returns whether an option of `make` is `-s`, `-k` or a number of jobs.
fn is_count_or_quiet(arg: &str) -> bool {
    matches!(arg, "-k" | "-s")
        || arg.strip_prefix("-j").is_some_and(|jobs| jobs.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::starters::STARTERS;
    use crate::tests::command_lines;

    /// Evaluates a line of a fixture: `PROGRAM ARGS | ARGS`, where the part before the bar is the grant.
    fn stays(line: &str) -> bool {
        let (named, rest) = line.split_once(" | ").expect("a bar behind what is named");
        let words: Vec<&str> = named.split(' ').chain(rest.split(' ')).collect();
        let (command, args, named) = (words[0], &words[1..], named.split(' ').count() - 1);
        (kind_of(command) != Kind::Options || is_plain(command, args, named)) && stays_as_named(command, args, named)
    }

    #[test]
    fn further_arguments_do_not_change_a_named_interpreter_command() {
        for line in command_lines(include_str!("../../../fixtures/programs/named-uses.txt")) {
            assert!(stays(line), "{line}");
        }
        for line in command_lines(include_str!("../../../fixtures/programs/changed-uses.txt")) {
            assert!(!stays(line), "{line}");
        }
        assert!(stays_as_named("ls", &["-l", "-a"], 1), "no interpreter");
    }

    #[test]
    fn a_file_that_a_grant_names_by_a_relative_path_is_known() {
        let names = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            names_relative_file(words[0], &words[1..])
        };
        for line in command_lines(include_str!("../../../fixtures/programs/relative-files.txt")) {
            assert!(names(line), "{line}");
        }
        for line in command_lines(include_str!("../../../fixtures/programs/no-relative-files.txt")) {
            assert!(!names(line), "{line}");
        }
    }

    #[test]
    fn each_program_that_starts_others_is_listed_once() {
        assert!(RUN_OPERANDS.iter().all(|name| INTERPRETERS.binary_search(name).is_ok()));
        let names: Vec<&str> = STARTERS.iter().flat_map(|starter| starter.names).copied().collect();
        for (at, name) in names.iter().enumerate() {
            assert!(INTERPRETERS.binary_search(name).is_ok(), "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
    }
}
