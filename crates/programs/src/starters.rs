//! Finds the program that a command line starts through others: `timeout 60 git status` is a use of git.
//!
//! The gate decides about the whole line. The tables about programs, such as the credentials that a program needs, apply to the
//! program that does the work.

use super::git_settings::runs_git;
use super::named_uses::{is_assignment, is_harmless_option};
use super::{Kind, is_file_tool, kind_of, name_of, variables};

/// The program that a command line starts in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedProgram<'a> {
    /// The name or path of the program.
    pub command: &'a str,
    /// Its arguments.
    pub args: &'a [&'a str],
    /// Whether the line alone determines the arguments, and the programs before this one only start it: not `xargs`, which adds
    /// arguments, and not a package manager, which has files of its own.
    pub is_direct: bool,
    /// Whether the program gets the environment and the working folder of the line: not behind `env -i`.
    pub keeps_context: bool,
}

/// Returns the program that a command line starts through programs like `timeout` and `env`, which may start each other. If the
/// arguments of one are not understood, the first argument counts that names a program with restrictions.
pub fn started_program<'a>(command: &'a str, args: &'a [&'a str]) -> StartedProgram<'a> {
    let mut found = StartedProgram { command, args, is_direct: true, keeps_context: true };
    while let Some(starter) = starter_of(found.command) {
        let (at, is_understood) = match starter.started(found.args) {
            Started::At(at) => (Some(at), true),
            Started::None => (None, true),
            Started::Unknown => (found.args.iter().position(|arg| is_restricted(arg)), false),
        };
        let Some(at) = at else { break };
        found = StartedProgram {
            command: found.args[at],
            args: &found.args[at + 1..],
            is_direct: found.is_direct && is_understood && starter.only_starts(),
            keeps_context: found.keeps_context && starter.keeps_context(&found.args[..at]),
        };
    }
    found
}

/// Returns whether there are restrictions for a program, or for programs that it starts.
fn is_restricted(command: &str) -> bool {
    let name = name_of(command);
    is_file_tool(command)
        || kind_of(command) == Kind::Options
        || runs_git(name)
        || ["pi", "python"].contains(&name)
        || starter_of(command).is_some()
}

/// Returns whether a command line that can run other programs mentions a program: in an argument, or in the command line of a
/// shell that is an argument.
pub fn mentions_program(command: &str, args: &[&str], program: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || "'\"`;|&()<>{}$=".contains(c);
    !super::is_plain(command, args, 0)
        && args.iter().flat_map(|arg| arg.split(is_between)).any(|word| name_of(word).eq_ignore_ascii_case(program))
}

/// Returns the entry of a program that starts another one.
pub(super) fn starter_of(command: &str) -> Option<&'static Starter> {
    let name = name_of(command).to_ascii_lowercase();
    // The loader of programs has a name for each system: `ld-linux-x86-64.so.2`.
    let name = if name.starts_with("ld-") { "ld.so" } else { &name };
    STARTERS.iter().find(|starter| starter.names.contains(&name))
}

/// A program that starts the program in its arguments.
pub(super) struct Starter {
    pub(super) names: &'static [&'static str],
    /// Sub-commands that start a program; empty if the program has no sub-commands.
    commands: &'static [&'static str],
    /// `None` if they are not listed, so that the program is searched for among all arguments.
    options: Option<Options>,
    /// Number of operands before the program.
    operands: usize,
    /// Whether assignments may precede the program.
    assigns: bool,
    /// Whether the program may get another environment or working folder than the one that starts it.
    changes_context: bool,
}

/// Options before the started program.
struct Options {
    /// Options without a value, or with a value in the same argument; letters may form a cluster.
    flags: &'static str,
    /// Options whose value may be the next argument.
    with_value: &'static str,
}

const fn starter(
    names: &'static [&'static str],
    flags: &'static str,
    with_value: &'static str,
    operands: usize,
) -> Starter {
    let options = Some(Options { flags, with_value });
    Starter { names, commands: &[], options, operands, assigns: false, changes_context: false }
}

/// Creates the entry of programs whose options are not listed.
const fn searched(names: &'static [&'static str]) -> Starter {
    Starter { options: None, ..starter(names, "", "", 0) }
}

/// Creates the entry of a program that starts another one by a sub-command.
const fn command_of(
    names: &'static [&'static str],
    commands: &'static [&'static str],
    flags: &'static str,
    with_value: &'static str,
) -> Starter {
    Starter { commands, ..starter(names, flags, with_value, 0) }
}

impl Starter {
    const fn assigning(self) -> Self {
        Self { assigns: true, ..self }
    }

    const fn changing_context(self) -> Self {
        Self { changes_context: true, ..self }
    }
}

pub(super) const STARTERS: &[Starter] = &[
    starter(
        &["env"],
        "-i -0 -v - --ignore-environment --null --debug --list-signal-handling",
        "-u -C --unset --chdir",
        0,
    )
    .assigning(),
    starter(&["cross-env"], "", "", 0).assigning(),
    starter(&["timeout"], "-v -f -p --foreground --preserve-status --verbose", "-k -s --kill-after --signal", 1),
    starter(&["nice"], "-#", "-n --adjustment", 0),
    starter(
        &["nohup", "chronic", "eatmydata", "ifne", "ccache", "sccache", "distcc", "linux32", "linux64", "unbuffer"],
        "",
        "",
        0,
    ),
    starter(&["torify", "torsocks", "annotate-output", "dbus-run-session", "fakeroot"], "", "", 0),
    starter(&["time"], "-a -p -v -q --append --portability --verbose --quiet", "-o -f --output --format", 0),
    starter(&["stdbuf"], "", "-i -o -e --input --output --error", 0),
    starter(&["setsid"], "-c -f -w --ctty --fork --wait", "", 0),
    starter(&["ionice"], "-t --ignore", "-c -n --class --classdata", 0),
    starter(
        &["chrt"],
        "-f -r -o -b -i -d -R -v -a --fifo --rr --other --batch --idle --deadline --reset-on-fork",
        "-T -P -D",
        1,
    ),
    starter(&["taskset"], "-c --cpu-list", "", 1),
    starter(&["choom"], "", "-n --adjust", 0),
    starter(&["doas"], "-n", "-u", 0).changing_context(),
    starter(
        &["sudo"],
        "-n -E -H -S -k -P --non-interactive --preserve-env --set-home --stdin",
        "-u -g -p -C -T --user --group --prompt",
        0,
    )
    .assigning()
    .changing_context(),
    starter(
        &["xargs"],
        "-0 -r -t -x --null --no-run-if-empty --verbose --exit",
        "-n -P -L -s -d -E -I --max-args --max-procs --max-lines --max-chars --delimiter",
        0,
    ),
    starter(&["strace", "ltrace"], "-f -c -C -q -t -T -v -y", "-e -o -s -p", 0),
    starter(&["xvfb-run"], "-a -l --auto-servernum", "-e -f -n -p --error-file --auth-file --server-num", 0),
    starter(&["setuidgid", "faketime", "runcon", "softlimit"], "", "", 1),
    command_of(&["poetry", "pipenv", "pdm", "rye", "hatch", "pixi"], &["run"], "-q -v --quiet --verbose", ""),
    command_of(&["uv"], &["run"], "-q -v --quiet --verbose --frozen --locked --no-sync --offline", "-p --python"),
    command_of(&["conda", "mamba", "micromamba"], &["run"], "--no-capture-output", "-n --name"),
    command_of(&["bundle", "bundler", "stack", "cabal", "dune", "opam"], &["exec"], "", ""),
    command_of(&["npm", "pnpm", "yarn", "yarnpkg"], &["exec", "x", "dlx"], "-s --silent -y --yes --no", ""),
    command_of(&["asdf"], &["exec"], "", ""),
    Starter { operands: 1, ..command_of(&["direnv"], &["exec"], "", "") },
    // Names of tools precede the program, and cannot be distinguished from it.
    Starter { operands: usize::MAX, ..command_of(&["mise"], &["exec", "x"], "", "") },
    starter(&["busybox", "toybox"], "", "", 0),
    // On macOS `arch` starts a program for an architecture.
    starter(&["arch"], "-arm64 -arm64e -x86_64 -i386 -32 -64 -c", "-e -d", 0).changing_context(),
    starter(&["caffeinate"], "-d -i -m -s -u", "-t -w", 0),
    starter(&["sandbox-exec"], "", "-f -n -p -D", 0),
    starter(&["xcrun"], "-n -r -v --no-cache --run --verbose", "-sdk -toolchain --sdk --toolchain", 0),
    starter(
        &["run0"],
        "--no-ask-password --pty --pipe",
        "-u -g -D --user --group --nice --chdir --setenv --unit --property --description --slice",
        0,
    )
    .changing_context(),
    starter(
        &["npx", "pnpx", "bunx"],
        "-q -y --yes --no --no-install --prefer-offline --quiet --silent",
        "-p --package",
        0,
    ),
    starter(&["uvx"], "-q --quiet --offline --isolated", "-p --from --with --python", 0),
    command_of(&["pipx"], &["run"], "--quiet --verbose", "--spec --python"),
    searched(&[
        "abduco",
        "concurrently",
        "coresched",
        "cpulimit",
        "dtach",
        "dumb-init",
        "entr",
        "flock",
        "hyperfine",
        "i386",
        "i686",
        "icecc",
        "lckdo",
        "ld.so",
        "mispipe",
        "nodemon",
        "numactl",
        "onchange",
        "perf",
        "prlimit",
        "proxychains",
        "rlwrap",
        "run-one",
        "sem",
        "setarch",
        "setlock",
        "sshpass",
        "systemd-cat",
        "systemd-inhibit",
        "tini",
        "uclampset",
        "uname26",
        "valgrind",
        "watch",
        "x86_64",
    ]),
    searched(&[
        "bwrap",
        "capsh",
        "chpst",
        "chroot",
        "dbus-launch",
        "dotenv",
        "dotenvx",
        "doppler",
        "envdir",
        "envuidgid",
        "firejail",
        "gdb",
        "lldb",
        "nsenter",
        "nsjail",
        "parallel",
        "pkexec",
        "proot",
        "rr",
        "runuser",
        "script",
        "setpriv",
        "sops",
        "start-stop-daemon",
        "su",
        "systemd-run",
        "toolbox",
        "unshare",
        "watchexec",
    ])
    .changing_context(),
];

/// The result of searching the arguments of a program for another program.
pub(super) enum Started {
    /// Index of the program.
    At(usize),
    /// The arguments start no program.
    None,
    /// The arguments are not understood.
    Unknown,
}

impl Starter {
    /// Finds the program that these arguments start.
    pub(super) fn started(&self, args: &[&str]) -> Started {
        let Some(Options { flags, with_value }) = &self.options else { return Started::Unknown };
        let has = |list: &str, option: &str| list.split(' ').any(|known| known == option);
        let mut at = 0;
        if !self.commands.is_empty() {
            at = args.iter().take_while(|arg| is_harmless_option(arg)).count();
            match args.get(at) {
                Some(first) if self.commands.contains(first) => at += 1,
                // After an unknown option the command is unknown.
                Some(first) if first.starts_with('-') => return Started::Unknown,
                _ => return Started::None,
            }
        }
        let mut operands = self.operands;
        let mut is_open = true;
        while let Some(arg) = args.get(at) {
            let name = arg.split_once('=').map_or(*arg, |(name, _)| name);
            if is_open && *arg == "--" {
                is_open = false;
            } else if is_open && arg.starts_with('-') {
                if has(with_value, arg) {
                    at += 1;
                } else if has(flags, arg) || (has(flags, "-#") && arg[1..].bytes().all(|byte| byte.is_ascii_digit())) {
                } else if arg.starts_with("--") || *arg == "-" {
                    let is_known = has(flags, name) || (name.len() < arg.len() && has(with_value, name));
                    if !is_known {
                        return Started::Unknown;
                    }
                } else if !is_cluster(&arg[1..], |option| has(flags, option), |option| has(with_value, option)) {
                    return Started::Unknown;
                }
            } else if operands > 0 {
                operands -= 1;
            } else if !(self.assigns && is_assignment(arg)) {
                return Started::At(at);
            }
            at += 1;
        }
        Started::Unknown
    }

    /// Returns whether the program does nothing but start another one with exactly the arguments that it was given.
    fn only_starts(&self) -> bool {
        const OTHERS: &[&str] = &["npx", "uvx", "xargs"];
        self.commands.is_empty() && !OTHERS.iter().any(|name| self.names.contains(name))
    }

    /// Returns whether the started program gets the same environment and working folder.
    pub(super) fn keeps_context(&self, before: &[&str]) -> bool {
        let is_harmless = |arg: &&str| {
            let assigned = arg.split_once('=').filter(|(name, _)| !name.starts_with('-'));
            assigned.map_or(**arg == *"--", |(name, value)| {
                !variables::steers(name) || variables::is_harmless("git", name, value)
            })
        };
        !self.changes_context && (!self.assigns || before.iter().all(is_harmless))
    }
}

/// Returns whether all letters are flags, up to a letter whose value is the rest of the argument.
fn is_cluster(letters: &str, is_flag: impl Fn(&str) -> bool, has_value: impl Fn(&str) -> bool) -> bool {
    for (at, letter) in letters.char_indices() {
        let option = format!("-{letter}");
        if has_value(&option) {
            return at + letter.len_utf8() < letters.len();
        }
        if !is_flag(&option) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::started_program;

    #[test]
    fn a_program_is_found_behind_options_that_are_not_understood() {
        for (line, started) in [
            ("timeout 60 tar -c d", "tar"),
            ("timeout --kill-aft=5 60 tar -c d", "tar"),
            ("flock l tar -chf - d", "tar"),
            ("prlimit --nofile=100 nice python3 -m json.tool a", "python3"),
            ("setpriv --nnp npm version patch", "npm"),
            ("xargs -a list tar -chf -", "tar"),
            ("linux32 -R timeout 5 /usr/bin/tar -c d", "/usr/bin/tar"),
            ("/usr/lib64/ld-linux-x86-64.so.2 /usr/bin/tar -c d", "/usr/bin/tar"),
            ("make tar", "make"),
            ("flock l make", "flock"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(started_program(words[0], &words[1..]).command, started, "{line}");
        }
    }

    #[test]
    fn a_starter_that_may_change_the_environment_is_known() {
        let keeps = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            started_program(words[0], &words[1..]).keeps_context
        };
        for line in ["timeout 60 git log", "flock l git log", "valgrind timeout 5 git log"] {
            assert!(keeps(line), "{line}");
        }
        for line in ["env -i git log", "bwrap --clearenv git log", "timeout 60 unshare git log", "sudo git log"] {
            assert!(!keeps(line), "{line}");
        }
    }
}
