//! Classifies programs that execute their standard input.
//!
//! Such input is part of the permission prompt, because the arguments do not show which code runs. Other programs read their
//! input as data.

use super::starters::{Started, starter_of};
use super::{COMPILERS, INTERPRETERS, is_standard_input, name_of};

/// Shells, which execute a file, the command line after `-c`, or their input.
const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "bash-static",
    "csh",
    "dash",
    "fish",
    "hush",
    "ksh",
    "lksh",
    "mksh",
    "oksh",
    "posh",
    "rbash",
    "sh",
    "tcsh",
    "yash",
    "zsh",
];

/// Programs that execute a file, or without a file their input.
const SCRIPT_RUNNERS: &[&str] = &[
    "bun",
    "clj",
    "clojure",
    "crystal",
    "deno",
    "elixir",
    "erl",
    "ghci",
    "gjs",
    "groovy",
    "guile",
    "iex",
    "ipython",
    "irb",
    "jshell",
    "julia",
    "lua",
    "luajit",
    "node",
    "nodejs",
    "nu",
    "ocaml",
    "osascript",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "pypy",
    "python",
    "qjs",
    "r",
    "racket",
    "raku",
    "rscript",
    "ruby",
    "sbcl",
    "scala",
    "swift",
    "tclsh",
    "ts-node",
    "tsx",
    "wish",
    "xonsh",
];

/// Programs that read commands from their input with any arguments.
const COMMAND_READERS: &[&str] = &[
    "at",
    "batch",
    "bc",
    "cgdb",
    "chroot",
    "cmd",
    "crontab",
    "dc",
    "docker",
    "duckdb",
    "ed",
    "emacs",
    "ex",
    "expect",
    "ftp",
    "gdb",
    "gnuplot",
    "gvim",
    "i386",
    "jdb",
    "kubectl",
    "lftp",
    "linux32",
    "linux64",
    "lldb",
    "login",
    "m4",
    "mail",
    "mailx",
    "mariadb",
    "mongosh",
    "mysql",
    "nerdctl",
    "newgrp",
    "nix-shell",
    "nsenter",
    "nvim",
    "octave",
    "parallel",
    "pdb",
    "pipenv",
    "podman",
    "poetry",
    "psql",
    "red",
    "redis-cli",
    "rlwrap",
    "runuser",
    "rview",
    "rvim",
    "screen",
    "script",
    "setarch",
    "sftp",
    "sg",
    "sqlite",
    "sqlite3",
    "ssh",
    "su",
    "telnet",
    "tmux",
    "unshare",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "x86_64",
    "xargs",
];

/// Interpreters that read their input as data, or not at all: builders, testers, package managers, converters. The input of all
/// other interpreters may be a program.
const DATA_READERS: &[&str] = &[
    "act",
    "ansible",
    "ansible-playbook",
    "ant",
    "apk",
    "apt",
    "apt-get",
    "aptitude",
    "astro",
    "ava",
    "awk",
    "bats",
    "bazel",
    "bison",
    "bmake",
    "brew",
    "bundle",
    "bundler",
    "c8",
    "cabal",
    "cdk",
    "cmake",
    "compare",
    "composer",
    "composite",
    "conda",
    "convert",
    "corepack",
    "coverage",
    "cpulimit",
    "ctest",
    "cucumber-js",
    "cypress",
    "dotnet",
    "dune",
    "earthly",
    "eleventy",
    "eslint",
    "flex",
    "flit",
    "flutter",
    "fzf",
    "gatsby",
    "gawk",
    "gem",
    "gm",
    "gmake",
    "gradle",
    "gradlew",
    "grunt",
    "gsed",
    "gulp",
    "hatch",
    "helm",
    "husky",
    "icecc",
    "identify",
    "jasmine",
    "java",
    "javac",
    "jekyll",
    "jest",
    "just",
    "karma",
    "latexmk",
    "lefthook",
    "lein",
    "lerna",
    "lint-staged",
    "mage",
    "magick",
    "make",
    "man",
    "mawk",
    "meson",
    "mill",
    "mix",
    "mlr",
    "mocha",
    "mogrify",
    "mold",
    "montage",
    "msbuild",
    "mvn",
    "mvnw",
    "mypy",
    "nawk",
    "next",
    "ng",
    "nim",
    "ninja",
    "node-gyp",
    "nose2",
    "nosetests",
    "nox",
    "npm",
    "npm-run",
    "npm-run-all",
    "npx",
    "nuxt",
    "nvcc",
    "nx",
    "nyc",
    "opam",
    "open",
    "packer",
    "pandoc",
    "parcel",
    "pdm",
    "pest",
    "phpstan",
    "phpunit",
    "pip",
    "pipx",
    "pixi",
    "playwright",
    "pnpm",
    "pnpx",
    "postcss",
    "pre-commit",
    "prettier",
    "prove",
    "psalm",
    "pulumi",
    "pylint",
    "pyproject-build",
    "pytest",
    "rake",
    "rclone",
    "rebar",
    "release-it",
    "restic",
    "rollup",
    "rsbuild",
    "rspack",
    "rspec",
    "rsync",
    "run-p",
    "run-s",
    "rush",
    "rushx",
    "rustup",
    "rye",
    "scalac",
    "sccache",
    "scons",
    "scp",
    "sed",
    "semantic-release",
    "serverless",
    "sk",
    "sls",
    "snakemake",
    "sphinx-build",
    "stack",
    "storybook",
    "tailwindcss",
    "tap",
    "task",
    "terraform",
    "testcafe",
    "tofu",
    "tox",
    "ts-mocha",
    "tsup",
    "turbo",
    "uv",
    "uvu",
    "uvx",
    "vite",
    "vitest",
    "webpack",
    "wrangler",
    "xdg-open",
    "yarn",
    "yarnpkg",
    "youtube-dl",
    "yt-dlp",
    "zig",
];

/// Options of script runners that take no value and execute nothing.
const PLAIN_OPTIONS: &[&str] = &["--enable-source-maps", "--no-warnings", "-B", "-u"];

/// Shell commands that execute their arguments or input.
const RUNNING_WORDS: &[&str] = &[
    ".",
    "alias",
    "builtin",
    "command",
    "coproc",
    "eval",
    "exec",
    "hash",
    "mapfile",
    "noglob",
    "read",
    "readarray",
    "source",
    "trap",
];

/// Shell keywords that precede a command.
const KEYWORDS: &[&str] =
    &["!", "and", "begin", "do", "elif", "else", "if", "not", "or", "then", "time", "until", "while"];

/// Package managers that start a shell, or execute their input, with some commands.
const MANAGERS: &[&str] = &["bun", "deno", "npm", "pnpm", "uv", "yarn"];
/// Commands of package managers that read their input as data, or not at all. Any other may start a shell; npm takes unique
/// beginnings, too.
const MANAGERS_READ: &[&str] = &[
    "add",
    "audit",
    "build",
    "ci",
    "i",
    "info",
    "init",
    "install",
    "link",
    "list",
    "lock",
    "login",
    "ls",
    "outdated",
    "pack",
    "pip",
    "publish",
    "remove",
    "rm",
    "run",
    "run-script",
    "start",
    "stop",
    "sync",
    "t",
    "test",
    "uninstall",
    "update",
    "upgrade",
    "version",
    "view",
    "why",
];

/// Arguments with which an interpreter reads code or commands from its input.
const CONSOLES: &[&str] = &["--interactive", "--shell", "-i", "console", "explore", "fsi", "ghci", "repl", "shell"];

/// Returns whether a program with these arguments executes its standard input. Returns true in case of doubt: the input is then
/// part of the prompt.
pub fn interprets_input(command: &str, args: &[&str]) -> bool {
    let file = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let name = name_of(command).to_ascii_lowercase();
    let is_in = |list: &[&str]| list.contains(&file.as_str()) || list.contains(&name.as_str());
    if is_in(COMMAND_READERS) {
        return true;
    }
    if is_in(SHELLS)
        && let Some(line) = inline_command(args)
    {
        // `sh -sc LINE` runs its input after the line, and `sh -oc OPTION LINE` has another word for the line.
        let is_usual = |arg: &&str| arg.trim_start_matches('-').chars().all(|letter| "cefluvx".contains(letter));
        return !args.iter().take_while(|arg| **arg != line).all(is_usual) || line_interprets_input(line);
    }
    if is_in(SHELLS) {
        return !runs_a_file(args);
    }
    if is_in(SCRIPT_RUNNERS) {
        // Another word may be a command that reads code: `deno repl`.
        let is_file = |arg: &&&str| arg.contains(['.', '/']) || arg.starts_with('-');
        let first = args.iter().find(|arg| !PLAIN_OPTIONS.contains(arg) && **arg != "run");
        return !runs_a_file(args) || first.filter(is_file).is_none();
    }
    // The started program inherits the input. Without one, many start a shell.
    match starter_of(command).map(|starter| starter.started(args)) {
        Some(Started::At(at)) => {
            let is_input = |arg: &&str| arg.split_once('=').is_some_and(|(name, value)| makes_input_code(name, value));
            return args[..at].iter().any(is_input) || interprets_input(args[at], &args[at + 1..]);
        }
        Some(Started::Unknown) => return true,
        Some(Started::None) | None => {}
    }
    let is_interpreter = INTERPRETERS.binary_search(&name.as_str()).is_ok();
    let is_starter = starts_another(&name);
    if is_interpreter && !is_starter && !is_in(DATA_READERS) {
        return true;
    }
    // `make SHELL=/bin/sh .SHELLFLAGS=-s` runs its input.
    let is_setting = |arg: &&str| name.ends_with("make") && arg.contains('=') && !arg.starts_with('-');
    if is_interpreter && args.iter().any(|arg| CONSOLES.contains(arg) || is_setting(arg)) {
        return true;
    }
    if is_in(MANAGERS) {
        let mut words = args.iter().filter(|arg| !arg.starts_with('-'));
        let is_read = words
            .next()
            .is_none_or(|command| MANAGERS_READ.contains(command) && (*command != "run" || words.next().is_some()));
        if !is_read {
            return true;
        }
    }
    if args.iter().any(|arg| names_input(arg)) && !COMPILERS.contains(&name.as_str()) {
        return is_interpreter || !super::is_plain(command, args, 0);
    }
    // The input is inherited by a program that `find -exec` or a git alias starts, and by the `ed` that `sdiff -o` starts.
    if !is_interpreter && !super::is_plain(command, args, 0) {
        return true;
    }
    if EDITORS_OF_STREAMS.contains(&name.as_str()) {
        let is_plain = |arg: &&str| SED_OPTIONS.contains(arg) || is_plain_script(arg);
        return args.iter().any(|arg| runs_in_script(arg)) || (name.ends_with("sed") && !args.iter().all(is_plain));
    }
    // `env bash`, `sudo -u x sh`, `env -Sbash`: the started program inherits the input.
    is_interpreter
        && (0..args.len()).any(|at| {
            let word = args[at].trim_start_matches("-S").trim_start_matches("--split-string=");
            let first = word.split_whitespace().next().unwrap_or_default();
            let name = name_of(first).to_ascii_lowercase();
            let is_reader = [COMMAND_READERS, SCRIPT_RUNNERS, SHELLS].iter().any(|list| list.contains(&name.as_str()))
                || is_starter && INTERPRETERS.binary_search(&name.as_str()).is_ok();
            is_reader && interprets_input(first, &args[at + 1..])
        })
}

/// Returns whether a variable makes programs execute their input, because it names the input as a file or starts a console.
pub fn makes_input_code(name: &str, value: &str) -> bool {
    const CONSOLE: &[&str] = &["PERL5DB", "PERL5OPT", "PYTHONINSPECT", "RUBYOPT"];
    // Other devices, such as `/dev/null`, are not the input.
    let names_it = value.contains("stdin") || value.contains("fd/");
    (names_it && names_input(value)) || CONSOLE.contains(&name)
}

/// Programs that read their input and may execute commands in their script.
const EDITORS_OF_STREAMS: &[&str] = &["awk", "gawk", "mawk", "nawk", "sed"];

/// Programs whose arguments contain another program with its arguments; that program inherits the input.
const STARTERS: &[&str] = &[
    "annotate-output",
    "arch",
    "bunx",
    "bwrap",
    "caffeinate",
    "capsh",
    "ccache",
    "choom",
    "chpst",
    "chronic",
    "concurrently",
    "coresched",
    "cross-env",
    "dbus-launch",
    "dbus-run-session",
    "distcc",
    "doppler",
    "dotenv",
    "dotenvx",
    "eatmydata",
    "entr",
    "envdir",
    "envuidgid",
    "fakeroot",
    "faketime",
    "firejail",
    "flock",
    "hyperfine",
    "ifne",
    "lckdo",
    "ltrace",
    "mispipe",
    "nodemon",
    "nsjail",
    "numactl",
    "onchange",
    "perf",
    "prlimit",
    "proot",
    "proxychains",
    "run0",
    "runcon",
    "sandbox-exec",
    "sem",
    "setlock",
    "setpriv",
    "setuidgid",
    "softlimit",
    "sops",
    "sshpass",
    "strace",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-run",
    "taskset",
    "torify",
    "torsocks",
    "uclampset",
    "valgrind",
    "watch",
    "watchexec",
    "xcrun",
    "xvfb-run",
];

/// Programs that run the program in their arguments.
const WRAPPERS: &[&str] = &[
    "chrt", "doas", "env", "ionice", "nice", "nohup", "setsid", "stdbuf", "sudo", "time", "timeout", "unbuffer",
    "xargs",
];

/// Returns whether arguments after a script belong to the script.
pub(super) fn runs_scripts(name: &str) -> bool {
    is_shell(name) || (SCRIPT_RUNNERS.contains(&name) && !MANAGERS.contains(&name))
}

/// Returns whether a program is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Returns whether the purpose of a program is to run the program in its arguments.
pub(super) fn starts_another(name: &str) -> bool {
    WRAPPERS.contains(&name) || STARTERS.contains(&name)
}

/// Returns whether a script of `awk` or `sed` may run a program: `system(...)`, a pipe, `getline`, or the command or flag `e`.
fn runs_in_script(script: &str) -> bool {
    let flags = script.rsplit(['/', '|', ',', '#']).next().unwrap_or_default();
    let has_flag = flags.len() < script.len() && flags.len() <= 8 && flags.contains('e');
    let is_command =
        |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit() || "$,!{ ".contains(c)).starts_with('e');
    ["system", "|", "getline"].iter().any(|word| script.contains(word))
        || has_flag
        || script.split([';', '\n', '}']).any(is_command)
}

/// Options of `sed` that execute nothing; a script may follow.
const SED_OPTIONS: &[&str] = &["-E", "-e", "-n", "-r", "-s", "-u", "-z"];

/// Returns whether a script of `sed` has nothing but substitutions with `/`, without the flag `e`, and commands of one letter after
/// an address of digits.
fn is_plain_script(script: &str) -> bool {
    script.split([';', '\n']).map(str::trim).all(|command| {
        let command = command.trim_start_matches(|c: char| c.is_ascii_digit() || "$,!".contains(c));
        match command.strip_prefix("s/").map(|rest| rest.split('/').collect::<Vec<_>>()) {
            Some(parts) => parts.len() == 3 && !parts[2].contains(|c: char| !c.is_ascii_digit() && !"gpiI".contains(c)),
            None => command.len() < 2 && !command.contains('e'),
        }
    })
}

/// Returns whether the first argument after plain options is a file to execute, which is not the input. Interpreters differ in
/// the options that take a value, so the answer is false after any other option.
fn runs_a_file(args: &[&str]) -> bool {
    if matches!(args, ["--version" | "-V" | "-v" | "--help" | "-h"]) {
        return true;
    }
    let rest = args.iter().skip_while(|arg| PLAIN_OPTIONS.contains(arg)).copied().collect::<Vec<_>>();
    let rest = rest.strip_prefix(&["run"]).unwrap_or(&rest);
    rest.first().is_some_and(|file| !file.starts_with(['-', '+'])) && !rest.iter().any(|arg| names_input(arg))
}

/// Returns whether an argument names standard input, alone or as the value of an option: `-`, `-f-`, `--file=/dev/stdin`.
fn names_input(arg: &str) -> bool {
    let behind_letters = || {
        let is_cluster = arg.starts_with('-') && !arg.starts_with("--");
        is_cluster && (2..arg.len()).any(|at| arg.get(at..).is_some_and(is_standard_input))
    };
    let value = || arg.split_once('=').is_some_and(|(_, value)| is_standard_input(value.trim_start_matches('@')));
    // `@FILE` contains further arguments.
    is_standard_input(arg.trim_start_matches('@')) || behind_letters() || value()
}

/// Returns whether a shell's command line executes the shell's input. Programs whose words the shell expands or unquotes, and
/// redirections other than to `/dev/null`, count as executing it.
fn line_interprets_input(line: &str) -> bool {
    let is_kept = |word: &&str| !DISCARDED.contains(word);
    let line = line.split([' ', '\t']).filter(is_kept).collect::<Vec<_>>().join(" ");
    let is_simple = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,@%+=".contains(c));
    // The result of expansions is unknown before the line runs.
    line.contains(['$', '`', '<', '>'])
        || line.split(['|', ';', '&', '\n', '(', ')', '{', '}']).any(|part| {
            let words: Vec<&str> = part.split_whitespace().skip_while(|word| KEYWORDS.contains(word)).collect();
            words.split_first().is_some_and(|(first, rest)| {
                let runs_words = INTERPRETERS.binary_search(&name_of(first).to_ascii_lowercase().as_str()).is_ok();
                RUNNING_WORDS.contains(first)
                    || first.contains(['=', ',', '%', '@', ':'])
                    || !is_simple(first)
                    || first.starts_with('-')
                    || (runs_words && !rest.iter().all(|word| is_simple(word)))
                    || interprets_input(first, rest)
            })
        })
}

/// Redirections of output that are no part of a command, if they are words of their own.
const DISCARDED: &[&str] = &["2>&1", "&>/dev/null", "1>/dev/null", "2>/dev/null", ">/dev/null"];

/// Returns the command line after `-c`, even if `-c` is in a cluster of options.
fn inline_command<'a>(args: &[&'a str]) -> Option<&'a str> {
    let is_option = |arg: &str| arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c');
    let at = args.iter().position(|arg| is_option(arg))?;
    args.get(at + 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::command_lines;

    #[test]
    fn programs_that_run_their_input_are_recognised_by_arguments() {
        let check = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            interprets_input(words[0], &words[1..])
        };
        for line in command_lines(include_str!("../../../fixtures/programs/input-is-program.txt")) {
            assert!(check(line), "{line}");
        }
        for line in [
            "cat | bash",
            "eval \"$(cat)\"",
            "while read x; do $x; done",
            ". /dev/stdin",
            "if true; then sh; fi",
            "2>/dev/null sh",
            "time -p sh",
            "hash -p /bin/sh q; q",
            "alias q=sh\nq",
            "2> /dev/null sh",
            "cat >/dev/null;sh",
            "2>&1 python3 -",
            ">log sh",
            "</dev/stdin bash",
            "{bash,--norc}",
            "/bin/bas[h]",
            "\\sh",
            "timeout 5 ba?h",
            "nice {sh,-s}",
            "alias x=sh",
            "fakeroot",
            "true && not sh",
            "sh 2>&1",
            "~/sh",
        ] {
            assert!(interprets_input("sh", &["-c", line]), "{line}");
        }
        assert!(interprets_input("python3", &["-c", "exec(input())"]));
        for (name, value) in [("BASH_ENV", "/dev/stdin"), ("X", "/proc/self/fd/0"), ("PYTHONINSPECT", "1")] {
            assert!(makes_input_code(name, value), "{name}={value}");
        }
        for value in ["/usr/bin", "-", "/dev/null", "/dev/pts/0", "notes/stdin.md"] {
            assert!(!makes_input_code("A", value), "{value}");
        }
        for line in command_lines(include_str!("../../../fixtures/programs/input-is-data.txt")) {
            assert!(!check(line), "{line}");
        }
        for line in ["git status", "cat >/dev/null 2>&1", "grep \"x*\" a.txt | wc -l", "cd sub && npm test"] {
            assert!(!interprets_input("sh", &["-c", line]), "{line}");
        }
    }
}
