//! Programs that run what their arguments say (rule R54), and which uses of them do not.
//!
//! Two kinds. An *interpreter* (`bash`, `env`, `make`) runs other programs whatever it is called with: whoever may run
//! it may run anything, and prompts say so. A *tool with running options* (`git`, `find`, `tar`, `ssh`, `node`) does so
//! for some arguments: a grant of its bare name covers the plain uses, and `NAME *` covers all of them.
//!
//! The tables are about arguments alone. What a repository's own configuration makes `git` run is the user's.

/// How a program treats its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs nothing that its arguments name.
    Plain,
    /// Some arguments make it run other programs.
    Options,
    /// It is there to run others.
    Interpreter,
}

/// The last name of a command, as programs are known by: `/usr/bin/python3.11` is `python`.
pub fn name_of(command: &str) -> &str {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let name = name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name);
    let bare = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    if bare.is_empty() { name } else { bare }
}

/// What is known about a program by its name.
pub fn kind_of(command: &str) -> Kind {
    let name = name_of(command).to_ascii_lowercase();
    if INTERPRETERS.binary_search(&name.as_str()).is_ok() {
        Kind::Interpreter
    } else if WITH_OPTIONS.iter().any(|program| program.name == name) {
        Kind::Options
    } else {
        Kind::Plain
    }
}

/// Whether running a program with these arguments can run another one that they name. `named` leading arguments
/// were named by the grant and count as meant.
pub fn runs_others(command: &str, args: &[&str], named: usize) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    let Some(program) = WITH_OPTIONS.iter().find(|program| program.name == name) else {
        return INTERPRETERS.binary_search(&name.as_str()).is_ok();
    };
    let open = args.get(named..).unwrap_or_default();
    if let Some(commands) = program.commands
        && named == 0
        && !args.first().is_some_and(|first| commands.contains(first))
    {
        return true;
    }
    open.iter().any(|arg| program.is_running(arg))
}

/// One tool with running options.
struct WithOptions {
    name: &'static str,
    /// First arguments that are plain; `None` where there are no sub-commands.
    commands: Option<&'static [&'static str]>,
    /// Options that run something. `--name` also means its abbreviations and `--name=value`, `-x` also `-xVALUE` and
    /// `-x` inside a cluster.
    options: &'static [&'static str],
    /// Arguments that begin so run something.
    prefixes: &'static [&'static str],
}

impl WithOptions {
    fn is_running(&self, arg: &str) -> bool {
        if self.prefixes.iter().any(|prefix| arg.starts_with(prefix)) {
            return true;
        }
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => {
                let Some(given) = arg.strip_prefix("--") else { return false };
                let given = given.split('=').next().unwrap_or(given);
                // Abbreviations as short as one letter are taken: `git ls-remote --u=evil`.
                !given.is_empty() && long.starts_with(given)
            }
            None if option.len() == 2 => {
                let letter = option.as_bytes()[1];
                arg.len() > 1 && arg.starts_with('-') && !arg.starts_with("--") && arg.as_bytes()[1..].contains(&letter)
            }
            None => arg == *option,
        })
    }
}

/// Sorted. Everything they get is a program or a program's text.
const INTERPRETERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "busybox",
    "chroot",
    "cmd",
    "csh",
    "dash",
    "deno",
    "doas",
    "docker",
    "env",
    "expect",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "ionice",
    "just",
    "ksh",
    "lua",
    "make",
    "mawk",
    "nawk",
    "nice",
    "nohup",
    "npm",
    "npx",
    "nsenter",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pi",
    "pip",
    "pnpm",
    "podman",
    "powershell",
    "pwsh",
    "rbash",
    "rsync",
    "scp",
    "script",
    "sed",
    "setsid",
    "sftp",
    "sh",
    "socat",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "tclsh",
    "time",
    "timeout",
    "tmux",
    "tsx",
    "unshare",
    "uv",
    "uvx",
    "vi",
    "vim",
    "watch",
    "xargs",
    "yarn",
    "zsh",
];

const WITH_OPTIONS: &[WithOptions] = &[
    WithOptions {
        name: "git",
        commands: Some(&[
            "--version",
            "add",
            "apply",
            "blame",
            "branch",
            "cat-file",
            "check-ignore",
            "checkout",
            "cherry",
            "cherry-pick",
            "commit",
            "count-objects",
            "describe",
            "diff",
            "diff-files",
            "diff-index",
            "diff-tree",
            "fetch",
            "for-each-ref",
            "grep",
            "hash-object",
            "init",
            "log",
            "ls-files",
            "ls-remote",
            "ls-tree",
            "merge",
            "merge-base",
            "mv",
            "name-rev",
            "pull",
            "push",
            "reflog",
            "reset",
            "restore",
            "rev-list",
            "rev-parse",
            "revert",
            "rm",
            "shortlog",
            "show",
            "show-ref",
            "stash",
            "status",
            "switch",
            "symbolic-ref",
            "tag",
            "version",
            "worktree",
        ]),
        options: &[
            "--config",
            "--config-env",
            "--exec",
            "--exec-path",
            "--open-files-in-pager",
            // What is written with them can be git's own configuration, which names programs.
            "--output",
            "--receive-pack",
            "--separate-git-dir",
            "--template",
            "--unsafe-paths",
            "--upload-pack",
            "-O",
        ],
        prefixes: &["ext::", "fd::"],
    },
    WithOptions {
        name: "find",
        commands: None,
        options: &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"],
        prefixes: &[],
    },
    WithOptions {
        name: "tar",
        commands: None,
        options: &[
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
            "-F",
            "-I",
        ],
        prefixes: &[],
    },
    WithOptions {
        name: "ssh",
        commands: None,
        options: &["-o", "-D", "-E", "-F", "-I", "-J", "-L", "-R", "-W"],
        prefixes: &[],
    },
    NODE,
    WithOptions { name: "bun", ..NODE },
    PYTHON,
    WithOptions { name: "pypy", ..PYTHON },
    WithOptions { name: "ruby", commands: None, options: &["-e", "-r", "-I"], prefixes: &[] },
    WithOptions { name: "curl", commands: None, options: &["--config", "-K"], prefixes: &[] },
    WithOptions { name: "rg", commands: None, options: &["--pre", "--hostname-bin"], prefixes: &[] },
    WithOptions { name: "fd", commands: None, options: &["--exec", "--exec-batch", "-x", "-X"], prefixes: &[] },
    WithOptions { name: "sort", commands: None, options: &["--compress-program", "--output", "-o"], prefixes: &[] },
    WithOptions {
        name: "cargo",
        commands: Some(&["--version", "metadata", "tree", "locate-project", "version"]),
        options: &["--config"],
        prefixes: &[],
    },
    WithOptions {
        name: "go",
        commands: Some(&["version", "env", "list"]),
        options: &["-toolexec", "-exec", "-w", "-u"],
        prefixes: &[],
    },
];

const NODE: WithOptions = WithOptions {
    name: "node",
    commands: None,
    options: &[
        "--eval",
        "--experimental-loader",
        "--import",
        "--inspect",
        "--inspect-brk",
        "--interactive",
        "--loader",
        "--print",
        "--require",
        "--run",
        "-e",
        "-i",
        "-p",
        "-r",
    ],
    prefixes: &["data:"],
};

const PYTHON: WithOptions = WithOptions { name: "python", commands: None, options: &["-c", "-i", "-m"], prefixes: &[] };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_last_name_without_version() {
        for (command, name) in
            [("git", "git"), ("/usr/bin/git", "git"), ("python3.11", "python"), ("C:\\Git\\git.exe", "git"), ("7", "7")]
        {
            assert_eq!(name_of(command), name);
        }
        assert_eq!(kind_of("/bin/BASH"), Kind::Interpreter);
        assert_eq!(kind_of("git"), Kind::Options);
        assert_eq!(kind_of("ls"), Kind::Plain);
        assert!(INTERPRETERS.is_sorted());
    }

    #[test]
    fn the_uses_that_run_others_are_told_from_the_plain_ones() {
        for plain in [
            "git status --short",
            "git log -n 5 --oneline",
            "git commit -m x",
            "git rev-parse --show-toplevel",
            "git diff --cached",
            "git log -S word",
            "git diff --output-indicator-new=> x",
            "git commit -m fix:a::b",
            "git cherry-pick -x abc",
            "find . -name *.ts -print",
            "tar -xzf a.tgz",
            "node build.js --eval-me-not",
            "python3 tool.py -v",
            "ls -e",
            "rg --pretty x",
            "cargo metadata",
        ] {
            assert!(!check(plain), "{plain}");
        }
        for running in [
            "git",
            "git -c alias.x=!sh x",
            "git -C dir status",
            "git fetch --upload-pack=evil",
            "git fetch --upl evil",
            "git clone ext::sh",
            "git pull ext::sh",
            "git fetch ext::sh -c x",
            "git config alias.x !sh",
            "git --exec-path=/tmp status",
            "git difftool",
            "git rebase -x evil",
            "git log --exec evil",
            "git grep -Oevil x",
            "git ls-remote --u=evil .",
            "git push --e=evil .",
            "git log -1 --format=evil --output=.git/config",
            "git init --separate-git-dir=x y",
            "git apply --unsafe-paths --directory=/home/me x",
            "ssh -I evil.so host",
            "git submodule foreach evil",
            "find . -exec evil ;",
            "find . -delete",
            "tar --to-command=evil -xf a",
            "tar --to-c evil -xf a",
            "tar -Ievil -cf a",
            "ssh -oProxyCommand=evil host",
            "ssh -o ProxyCommand=evil host",
            "node -e evil",
            "node -pe evil",
            "node --import=data:evil x.js",
            "python3 -c evil",
            "/usr/bin/python3.11 -c evil",
            "bash x.sh",
            "env ls",
            "xargs",
            "make",
            "sudo ls",
            "npx evil",
            "busybox sh",
            "fd . -x evil",
        ] {
            assert!(check(running), "{running}");
        }
    }

    #[test]
    fn arguments_that_a_grant_names_are_meant() {
        assert!(!runs_others("git", &["-c", "core.quotepath=off", "ls-files"], 3));
        assert!(runs_others("git", &["fetch", "--upload-pack=evil"], 1));
        assert!(!runs_others("git", &["fetch", "origin"], 1));
    }

    fn check(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        runs_others(words[0], &words[1..], 0)
    }
}
