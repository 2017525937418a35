//! Classifies programs by what they do with their standard input.
//!
//! Input that a program may execute is part of the permission prompt, because the arguments do not show which code runs. Only
//! input that is known to be data is left out of it.

use super::shell_words::words_of_text;
use super::starters::{Started, starter_of};
use super::{Kind, is_plain_word, is_standard_input, kind_of, name_of};

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

/// Programs that execute a file and leave their input to it, or without a file execute their input.
const SCRIPT_RUNNERS: &[&str] = &[
    "bun",
    "clj",
    "clojure",
    "crystal",
    "deno",
    "elixir",
    "gjs",
    "groovy",
    "guile",
    "ipython",
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
    "racket",
    "raku",
    "rscript",
    "ruby",
    "scala",
    "swift",
    "tclsh",
    "ts-node",
    "tsx",
    "xonsh",
];

/// Programs besides the interpreters that read commands from their input, and those that read arguments for another program.
const COMMAND_READERS: &[&str] =
    &["bc", "cgdb", "login", "newgrp", "parallel", "red", "redis-cli", "sqlite3", "ssh", "xargs"];

/// Interpreters that read their input as data, unless an argument names it as a file.
const DATA_READERS: &[&str] = &["eslint", "pandoc", "prettier"];

/// Interpreters that are usually started without input: builders, testers, package managers, converters.
const WITHOUT_INPUT: &[&str] = &[
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

/// Programs that execute a file and then their input.
const CONSOLES: &[&str] = &["erl", "ghci", "iex", "irb", "jshell", "r", "sbcl", "wish"];

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

/// Use that a program makes of its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputUse {
    /// It reads the input as data.
    Data,
    /// It may execute the input, but is usually started without any. An answer to a prompt about the program covers no input.
    Unusual,
    /// It executes the input, or may do so.
    Code,
}

/// Returns what a program with these arguments does with its standard input.
pub fn input_use(command: &str, args: &[&str]) -> InputUse {
    let file = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let name = name_of(command).to_ascii_lowercase();
    let is_in = |list: &[&str]| list.contains(&file.as_str()) || list.contains(&name.as_str());
    let code_if = |is_code: bool| if is_code { InputUse::Code } else { InputUse::Data };
    if is_in(COMMAND_READERS) || is_in(CONSOLES) {
        return InputUse::Code;
    }
    if is_in(SHELLS) {
        return match inline_command(args) {
            Some(line) => input_use_of_line(line),
            None => code_if(!runs_a_file(args)),
        };
    }
    if is_in(SCRIPT_RUNNERS) {
        // Another word may be a command that reads code: `deno repl`.
        let is_file = |arg: &&&str| arg.contains(['.', '/']) || arg.starts_with('-');
        let first = args.iter().find(|arg| !PLAIN_OPTIONS.contains(arg) && **arg != "run");
        return code_if(!runs_a_file(args) || first.filter(is_file).is_none());
    }
    // The started program inherits the input. Without one, many start a shell.
    if let Some(starter) = starter_of(command) {
        match starter.started(args) {
            Started::At(at) => {
                // In another folder, the name of a file may mean the input: `env -C /dev sh stdin`.
                let names = |arg: &&str| arg.split_once('=').is_some_and(|(name, value)| makes_input_code(name, value));
                let is_same = starter.keeps_context(&args[..at]) && !args[..at].iter().any(names);
                let least = if is_same { InputUse::Data } else { InputUse::Unusual };
                return least.max(input_use(args[at], &args[at + 1..]));
            }
            Started::Unknown => return InputUse::Code,
            Started::None => {}
        }
    }
    if is_in(DATA_READERS) {
        return code_if(args.iter().any(|arg| names_input(arg)));
    }
    match kind_of(command) {
        Kind::Interpreter if is_in(WITHOUT_INPUT) => InputUse::Unusual,
        Kind::Interpreter => InputUse::Code,
        // The input is inherited by a program that `find -exec` or a git alias starts, and by the `ed` that `sdiff -o` starts.
        Kind::Options => code_if(!super::is_plain(command, args, 0)),
        // An unknown program may start the one that an argument names: `dpkg-architecture -c sh`.
        Kind::Plain => code_if(!super::is_file_tool(command) && args.iter().any(|arg| mentions_interpreter(arg))),
    }
}

/// Returns whether a part of an argument is the name of a program that runs others: `sh`, `--command=sh`.
fn mentions_interpreter(arg: &str) -> bool {
    let is_one = |word: &str| kind_of(word) == Kind::Interpreter || COMMAND_READERS.contains(&name_of(word));
    words_of_text(arg).flat_map(|word| word.split(['=', ',', ':'])).any(is_one)
}

/// Returns whether a variable may make programs execute their input: it names the input as a file, starts a console, or names a
/// shell or an interpreter of scripts.
pub fn makes_input_code(name: &str, value: &str) -> bool {
    const CONSOLE: &[&str] = &["PERL5DB", "PERL5OPT", "PYTHONINSPECT", "RUBYOPT"];
    // Other devices, such as `/dev/null`, are not the input.
    let names_it = value.contains("stdin") || value.contains("fd/");
    let runs_it = |word: &str| {
        let name = name_of(word).to_ascii_lowercase();
        [COMMAND_READERS, CONSOLES, SCRIPT_RUNNERS, SHELLS].iter().any(|list| list.contains(&name.as_str()))
    };
    (names_it && names_input(value)) || CONSOLE.contains(&name) || words_of_text(value).any(runs_it)
}

/// Returns whether arguments after a script belong to the script.
pub(super) fn runs_scripts(name: &str) -> bool {
    let is_manager = matches!(name, "bun" | "deno");
    is_shell(name) || CONSOLES.contains(&name) || (SCRIPT_RUNNERS.contains(&name) && !is_manager)
}

/// Returns whether a program is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
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

/// Returns what a shell's command line does with the shell's input. Programs whose words the shell expands or unquotes, and
/// redirections other than to `/dev/null`, may execute it. Only one listed program with plain words is known to read it as data:
/// commands of the shell (`cd`, `export`), and other programs of the line (`tee x.js; node x.js`), change what it does.
fn input_use_of_line(line: &str) -> InputUse {
    let is_kept = |word: &&str| !DISCARDED.contains(word);
    let line = line.split([' ', '\t']).filter(is_kept).collect::<Vec<_>>().join(" ");
    // The result of expansions is unknown before the line runs.
    if line.contains(['$', '`', '<', '>']) {
        return InputUse::Code;
    }
    let use_of_part = |part: &str| {
        let words: Vec<&str> = part.split_whitespace().skip_while(|word| KEYWORDS.contains(word)).collect();
        let Some((first, rest)) = words.split_first() else { return InputUse::Data };
        let is_plain = rest.iter().all(|word| is_plain_word(word));
        let is_open = RUNNING_WORDS.contains(first)
            || first.contains(['=', ',', '%', '@', ':'])
            || !is_plain_word(first)
            || first.starts_with('-');
        if is_open || (kind_of(first) == Kind::Interpreter && !is_plain) {
            return InputUse::Code;
        }
        let is_listed = super::is_file_tool(first) || kind_of(first) != Kind::Plain;
        let least = if is_plain && is_listed { InputUse::Data } else { InputUse::Unusual };
        least.max(input_use(first, rest))
    };
    let parts = line.split(['|', ';', '&', '\n', '(', ')', '{', '}']).filter(|part| !part.trim().is_empty());
    let least = if parts.clone().count() > 1 { InputUse::Unusual } else { InputUse::Data };
    parts.map(use_of_part).max().unwrap_or(InputUse::Data).max(least)
}

/// Redirections of output that are no part of a command, if they are words of their own.
const DISCARDED: &[&str] = &["2>&1", "&>/dev/null", "1>/dev/null", "2>/dev/null", ">/dev/null"];

/// Returns the command line after `-c`, even if `-c` is in a cluster of options. Returns `None` behind other options: `sh -sc LINE`
/// runs its input after the line, and `sh -oc OPTION LINE` has another word for the line.
fn inline_command<'a>(args: &[&'a str]) -> Option<&'a str> {
    let is_option = |arg: &str| arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c');
    let is_usual = |arg: &&str| {
        let letters = arg.strip_prefix('-');
        letters.is_some_and(|letters| letters.chars().all(|letter| "cefluvx".contains(letter)))
    };
    let at = args.iter().position(|arg| is_option(arg))?;
    args.get(at + 1).copied().filter(|_| args[..=at].iter().all(is_usual))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::command_lines;

    #[test]
    fn the_use_of_the_input_is_known_from_the_arguments() {
        let check = |line: &str, expected: InputUse| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(input_use(words[0], &words[1..]), expected, "{line}");
        };
        for line in command_lines(include_str!("../../../fixtures/programs/input-is-program.txt")) {
            check(line, InputUse::Code);
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
            assert_eq!(input_use("sh", &["-c", line]), InputUse::Code, "{line}");
        }
        assert_eq!(input_use("python3", &["-c", "exec(input())"]), InputUse::Code);
        for (name, value) in [
            ("BASH_ENV", "/dev/stdin"),
            ("X", "/proc/self/fd/0"),
            ("PYTHONINSPECT", "1"),
            ("X", "$(sh)"),
            ("X", "a=exec=/bin/sh"),
        ] {
            assert!(makes_input_code(name, value), "{name}={value}");
        }
        for value in ["/usr/bin", "-", "/dev/null", "/dev/pts/0", "notes/stdin.md"] {
            assert!(!makes_input_code("A", value), "{value}");
        }
        for line in command_lines(include_str!("../../../fixtures/programs/input-is-unusual.txt")) {
            check(line, InputUse::Unusual);
        }
        for line in command_lines(include_str!("../../../fixtures/programs/input-is-data.txt")) {
            check(line, InputUse::Data);
        }
        for line in ["git status", "cat >/dev/null 2>&1", "grep x a.txt"] {
            assert_eq!(input_use("sh", &["-c", line]), InputUse::Data, "{line}");
        }
        for line in [
            "cd sub && npm test",
            "cd /dev; sh ./stdin.sh",
            "export A=b; bash x.sh",
            "grep \"x*\" a.txt",
            "mytool -c s\\h",
            "tee a.js; node a.js",
            "grep x a.txt | wc -l",
        ] {
            assert_eq!(input_use("sh", &["-c", line]), InputUse::Unusual, "{line}");
        }
    }
}
