//! Programs that run what is written to their standard input.
//!
//! Such input is part of what a user is asked about, since the arguments do not say what runs. Other programs read data.

use super::{COMPILERS, INTERPRETERS, is_sent, name_of, runs_what_it_is_sent};

/// Run a file, and their input where no file is named.
const SCRIPT_RUNNERS: &[&str] = &[
    "ash",
    "bash",
    "bash-static",
    "bun",
    "csh",
    "dash",
    "deno",
    "elixir",
    "fish",
    "gjs",
    "groovy",
    "guile",
    "hush",
    "iex",
    "irb",
    "julia",
    "ksh",
    "lksh",
    "lua",
    "luajit",
    "mksh",
    "node",
    "nodejs",
    "nu",
    "ocaml",
    "oksh",
    "osascript",
    "perl",
    "php",
    "posh",
    "powershell",
    "pwsh",
    "pypy",
    "python",
    "qjs",
    "r",
    "rscript",
    "ruby",
    "sh",
    "tclsh",
    "tcsh",
    "ts-node",
    "tsx",
    "wish",
    "xonsh",
    "yash",
    "zsh",
];

/// Take commands from their input whatever their arguments are.
const COMMAND_READERS: &[&str] = &[
    "at",
    "batch",
    "bc",
    "cmd",
    "crontab",
    "dc",
    "docker",
    "duckdb",
    "ed",
    "ex",
    "expect",
    "ftp",
    "gdb",
    "gnuplot",
    "kubectl",
    "lftp",
    "lldb",
    "m4",
    "mariadb",
    "mongosh",
    "mysql",
    "nerdctl",
    "octave",
    "parallel",
    "podman",
    "psql",
    "redis-cli",
    "sftp",
    "sqlite",
    "sqlite3",
    "ssh",
    "telnet",
    "xargs",
];

/// Whether a program with these arguments runs what is written to its standard input.
pub fn interprets_input(command: &str, args: &[&str]) -> bool {
    let file = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let name = name_of(command).to_ascii_lowercase();
    let is_in = |list: &[&str]| list.contains(&file.as_str()) || list.contains(&name.as_str());
    if is_in(COMMAND_READERS) {
        return true;
    }
    if is_in(SCRIPT_RUNNERS) {
        return match inline_command(args) {
            Some(line) => line.split(['|', ';', '&', '\n', '(', ')', '`']).any(|part| {
                let words: Vec<&str> = part.split_whitespace().collect();
                words.split_first().is_some_and(|(first, rest)| interprets_input(first, rest))
            }),
            None => {
                let reads = |arg: &&str| matches!(*arg, "-s" | "-i" | "--interactive");
                args.is_empty() || args.iter().any(reads) || runs_what_it_is_sent(args)
            }
        };
    }
    if args.iter().any(|arg| is_sent(arg)) && !COMPILERS.contains(&name.as_str()) {
        return INTERPRETERS.binary_search(&name.as_str()).is_ok() || super::runs_others(command, args, 0);
    }
    // `env bash`, `sudo -u x sh`: what it starts has the same input.
    INTERPRETERS.binary_search(&name.as_str()).is_ok()
        && (0..args.len()).any(|at| {
            let name = name_of(args[at]).to_ascii_lowercase();
            let is_reader = COMMAND_READERS.contains(&name.as_str()) || SCRIPT_RUNNERS.contains(&name.as_str());
            is_reader && interprets_input(args[at], &args[at + 1..])
        })
}

/// The command line behind `-c`, also in a cluster of options.
fn inline_command<'a>(args: &[&'a str]) -> Option<&'a str> {
    let is_option = |arg: &str| arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c');
    let at = args.iter().position(|arg| is_option(arg))?;
    args.get(at + 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_run_their_input_are_known_by_their_arguments() {
        let check = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            interprets_input(words[0], &words[1..])
        };
        for line in [
            "bash",
            "/bin/sh",
            "sh -s x",
            "python3 -",
            "python3.11",
            "node",
            "node /dev/stdin",
            "perl",
            "env bash",
            "sudo -u x sh",
            "make -f -",
            "psql db",
            "sqlite3 a.db",
            "xargs -n1",
            "ssh host",
            "docker exec -i x sh",
        ] {
            assert!(check(line), "{line}");
        }
        assert!(interprets_input("sh", &["-c", "cat | bash"]));
        for line in [
            "make clean",
            "npm test",
            "bash build.sh",
            "node build.js",
            "git commit -F -",
            "jq .",
            "cat -",
            "cargo build",
        ] {
            assert!(!check(line), "{line}");
        }
        assert!(!interprets_input("sh", &["-c", "git status"]));
    }
}
