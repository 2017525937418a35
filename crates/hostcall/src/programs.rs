//! Programs that run what their arguments say (rule R54), and which uses of them do not.
//!
//! Two kinds. An *interpreter* (`bash`, `env`, `make`) runs other programs whatever it is called with: whoever may run
//! it may run anything, and prompts say so. A *tool with running options* (`git`, `find`, `tar`, `ssh`, `node`) does so
//! for some arguments: a grant of its bare name covers the plain uses, and `NAME *` covers all of them.
//!
//! The tables are about arguments alone. What variables change is in [`variables`], what standard input runs in [`input`];
//! whoever starts `git` switches off what a repository's own configuration would run.

pub mod input;
mod interpreters;
pub mod variables;
mod with_options;

use interpreters::INTERPRETERS;
use with_options::WITH_OPTIONS;

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

/// Compilers of another system's programs, and what belongs to them, have its name before theirs: `x86_64-linux-gnu-gcc-12`.
const COMPILERS: &[&str] = &[
    "ar", "as", "c++", "cc", "clang", "clang++", "cpp", "g++", "gcc", "gfortran", "ld", "nm", "objcopy", "ranlib",
    "strip",
];

/// The last name of a command, as programs are known by: `/usr/bin/python3.11` is `python`.
pub fn name_of(command: &str) -> &str {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let suffix = [".exe", ".cmd", ".bat", ".com"].into_iter().find(|suffix| {
        let at = name.len().saturating_sub(suffix.len());
        name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    });
    let name = suffix.map_or(name, |suffix| &name[..name.len() - suffix.len()]);
    // `m4` is no fourth `m`.
    if is_known(&name.to_ascii_lowercase()) {
        return name;
    }
    let bare = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    // `gcc-12`, but not a name of nothing else.
    let bare = if bare.len() < name.len() { bare.trim_end_matches('-') } else { bare };
    let bare = if bare.is_empty() { name } else { bare };
    bare.rsplit('-').next().filter(|last| COMPILERS.contains(last)).unwrap_or(bare)
}

fn is_known(name: &str) -> bool {
    INTERPRETERS.binary_search(&name).is_ok() || WITH_OPTIONS.iter().any(|program| program.name == name)
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
    if let Some(commands) = program.commands
        && named == 0
        && !args.first().is_some_and(|first| commands.contains(first))
        && !(program.takes_file && is_file_to_run(args))
    {
        return true;
    }
    program.runs_by_arguments(args, named)
}

/// Tells whether an argument names what runs, whatever the sub-command does by itself.
fn runs_by_arguments(command: &str, args: &[&str]) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    WITH_OPTIONS.iter().any(|program| program.name == name && program.runs_by_arguments(args, 0))
}

/// Options of programs that do what files in a folder say, which name another folder or file of that kind.
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

/// Whether arguments name the folder whose files a program obeys, which is then not the one it works in.
pub(crate) fn names_folder(command: &str, args: &[&str]) -> bool {
    let names = |arg: &&str| {
        FOLDER_OPTIONS.iter().any(|option| match option.len() {
            2 => arg.starts_with(option) && !arg.starts_with("--"),
            _ => arg.split('=').next() == Some(option),
        })
    };
    obeys_folder(command) && args.iter().any(names)
}

/// Whether a program does what files in its working folder say: the same words mean something else in another one.
pub fn obeys_folder(command: &str) -> bool {
    let name = name_of(command).to_ascii_lowercase();
    INTERPRETERS.binary_search(&name.as_str()).is_ok()
        || WITH_OPTIONS.iter().any(|program| program.name == name && program.obeys_folder)
}

/// Commands of git that write no file of the work tree.
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

/// Whether git with these arguments writes no file of the work tree. Options in front of its command are not known here.
pub(crate) fn leaves_work_tree(args: &[&str]) -> bool {
    // `read-tree -u` takes files out.
    let is_plain =
        |rest: &[&str]| args[0] != "read-tree" || rest.iter().all(|arg| !arg.starts_with('-') || *arg == "--empty");
    args.split_first().is_some_and(|(command, rest)| LEAVE_WORK_TREE.contains(command) && is_plain(rest))
}

/// Whether a program that runs a file has none to run, or one that is what whoever started it writes: then it runs any text.
fn runs_what_it_is_sent(args: &[&str]) -> bool {
    if matches!(args, ["--version" | "-V" | "-v" | "--help" | "-h"]) {
        return false;
    }
    args.iter().all(|arg| arg.starts_with('-')) || args.iter().any(|arg| is_sent(arg))
}

/// Whether the first argument can be nothing but the name of a file, also as `run FILE`: commands and scripts of
/// `package.json` have neither dot nor slash.
fn is_file_to_run(args: &[&str]) -> bool {
    let rest = args.strip_prefix(&["run"]).unwrap_or(args);
    rest.first().is_some_and(|first| !first.starts_with('-') && first.contains(['.', '/']))
}

/// Standard input by one of its names: `-`, a device, a descriptor.
fn is_sent(arg: &str) -> bool {
    let parts: Vec<&str> = arg.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_system = |part: &&str| matches!(*part, "dev" | "proc");
    match parts.contains(&"..") {
        true => parts.iter().any(is_system),
        false => arg == "-" || (arg.starts_with('/') && parts.first().is_some_and(is_system)),
    }
}

/// Whether a file is one of another machine: a colon with no slash before it. As `--file=HOST:FILE`, too.
fn names_a_host(arg: &str) -> bool {
    let file = match arg.strip_prefix("--").and_then(|option| option.split_once('=')) {
        Some((name, file)) if "file".starts_with(name) => file,
        Some(_) => return false,
        None => arg,
    };
    file.split('/').next().is_some_and(|first| first.contains(':'))
}

/// One tool with running options.
struct WithOptions {
    name: &'static str,
    /// First arguments that are plain; `None` where there are no sub-commands.
    commands: Option<&'static [&'static str]>,
    /// Options that run something. `--name` also means its abbreviations and `--name=value`, `-x` also `-xVALUE` and
    /// `-x` inside a cluster, `-name` also `--name` and `-name=value`.
    options: &'static [&'static str],
    /// Arguments that begin so run something.
    prefixes: &'static [&'static str],
    /// Arguments that are commands which run something, wherever they stand: what comes before may be an option's value.
    words: &'static [&'static str],
    /// Options and words that run something behind one of its commands only, by the command.
    behind: &'static [(&'static str, &'static [&'static str])],
    /// It does what files in its working folder say, also in its plain uses.
    obeys_folder: bool,
    /// It runs the file that is its first argument, and what it is sent where there is none.
    takes_script: bool,
    /// A first argument that looks like a file is plain as well, also behind `run`.
    takes_file: bool,
    /// It reads `--an_option` as `--an-option`.
    takes_underscores: bool,
    /// Its first argument is a cluster of options that needs no dash.
    takes_letters: bool,
    /// An archive `HOST:FILE` is read by a program that is given HOST as it is written, also where it is an option.
    takes_hosts: bool,
}

/// What most programs have none of.
const PLAIN: WithOptions = WithOptions {
    name: "",
    commands: None,
    options: &[],
    prefixes: &[],
    words: &[],
    behind: &[],
    obeys_folder: false,
    takes_script: false,
    takes_file: false,
    takes_underscores: false,
    takes_letters: false,
    takes_hosts: false,
};

impl WithOptions {
    /// Whether one of the arguments names what runs. `named` leading ones count as meant.
    fn runs_by_arguments(&self, args: &[&str], named: usize) -> bool {
        let open = args.get(named..).unwrap_or_default();
        // `tar xf a.tar`: the first letters are options without a dash.
        let letters = (self.takes_letters && named == 0).then(|| args.first()).flatten();
        let letters = letters.filter(|first| !first.starts_with('-')).map(|first| format!("-{first}"));
        (self.takes_script && runs_what_it_is_sent(args))
            || letters.is_some_and(|letters| self.is_running(&letters))
            || open.iter().any(|arg| self.is_running(arg))
            || self.is_running_behind(args, named)
    }

    /// Whether an argument behind one of its commands makes that run something, of those that nobody named.
    fn is_running_behind(&self, args: &[&str], named: usize) -> bool {
        let Some((command, rest)) = args.split_first() else { return false };
        let Some((_, running)) = self.behind.iter().find(|(known, _)| known == command) else { return false };
        let as_options = WithOptions { options: running, words: running, ..PLAIN };
        rest.iter().skip(named.saturating_sub(1)).any(|arg| as_options.is_running(arg))
    }

    fn is_running(&self, arg: &str) -> bool {
        if self.prefixes.iter().any(|prefix| arg.starts_with(prefix)) || self.words.contains(&arg) {
            return true;
        }
        if self.takes_hosts && names_a_host(arg) {
            return true;
        }
        let name = arg.split('=').next().unwrap_or(arg);
        if self.takes_underscores && name.starts_with("--") && name.contains('_') {
            return self.is_running(&name.replace('_', "-"));
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
            None => {
                let given = if arg.starts_with("--") { &arg[1..] } else { arg };
                given.split('=').next() == Some(option)
            }
        })
    }
}

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
        for name in INTERPRETERS.iter().copied().chain(WITH_OPTIONS.iter().map(|program| program.name)) {
            assert_eq!(name_of(name), name, "no program is known by this name");
        }
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
            runs_others("git", &args, named)
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
        assert!(!runs("bisect run x", 2), "it was named");
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
            "tar xzf a.tgz Index",
            "gcc-12 -O2 -c a.c",
            "zip -q -r a.zip b",
            "find . -executable",
            "node build.js --eval-me-not",
            "node --version",
            "nodejs --no-warnings build.js",
            "python3 -V",
            "python3 src/dev/tool.py",
            "gcc -O2 -c a.c -o a.o",
            "gh pr list",
            "wget https://a.example/x",
            "less a.txt",
            "python3 tool.py -v",
            "ls -e",
            "rg --pretty x",
            "cargo metadata",
            "node build.js --with_name=x_y",
            "bun src/tool.ts",
            "bun run ./tool.ts -v",
            "bun --version",
            "fdfind tool",
            "install -m 644 a b",
            "gpg --verify a.sig a",
            "nm -D a.so",
            "javac -d out A.java",
            "hg log -l 5",
            "tar czf ./a:b.tgz src/a:b",
            "tar -C sub --exclude=x:y -xf a.tgz",
            "curl -sSL https://a.example/x",
            "openssl rand -hex 8",
            "gfortran -O2 -c a.f90",
            "ip -br addr show",
            "python3-config --libs",
            "jj log",
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
            "git mv x .git/hooks/pre-commit",
            "svn mkdir file:///project/x/y -m z",
            "less --lesskey-content=x a.txt",
            "bat --paging=always --pager evil a.txt",
            "watchexec x",
            "ninja",
            "ssh -I evil.so host",
            "git submodule foreach evil",
            "git status --help",
            "git diff --submodule=diff",
            "zip -qTT evil a.zip b",
            "gcc -Wp,-fplugin=./evil.so -c a.c",
            "openssl pkey -in org.openssl.engine:/evil.so:k",
            "g++ -fmodule-mapper=|evil -c m.cc",
            "openssl fipsinstall -module ./evil.so",
            "hg debugshell",
            "hg merge -t evil",
            "ip netns exe space evil",
            "cargo +/evil version",
            "rustc +/evil a.rs",
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
            // The program is what is written to it.
            "node",
            "nodejs -",
            "node --no-warnings",
            "node /dev/stdin",
            "python3",
            "python3 -u",
            "python3 - x",
            "python3 /proc/self/fd/0",
            "python3 ../../../dev/stdin",
            "node //dev/./stdin",
            "ruby",
            "node --env-file=evil x.js",
            "gtar --to-command=evil -xf a",
            "gfind . -exec evil ;",
            "gcc -fplugin=evil.so a.c",
            "gcc -B. a.c",
            "rustc -Clinker=evil a.rs",
            "gh alias set x !evil",
            "gh evil",
            "wget -e use_askpass=evil x",
            "zip -T -TT evil a.zip b",
            "zip -T -TTevil a.zip b",
            "tar cIf evil a.tar b",
            "gtar xIfv evil a.tar",
            "gcc-12 -wrapper evil -c a.c",
            "x86_64-linux-gnu-gcc-12 -fplugin=evil.so a.c",
            "clang-15 -fplugin=evil.so a.c",
            "openssl rand -engine=evil.so 4",
            "openssl rand --engine evil 4",
            "openssl rand --provider-path=. 4",
            "git worktree add ../.config/autostart",
            "go list -toolexec=evil ./...",
            "go env -w=GOFLAGS=x",
            "rustc --extern m=./libm.so a.rs",
            "rustc @evil",
            "clang-15 --config=evil a.c",
            "clang -cc1 -load evil.so a.c",
            "hg pull --ssh evil",
            "hg clone -e evil x",
            "jj util exec -- evil",
            "jj diff --tool evil",
            "gh repo clone x -- --upload-pack=evil",
            "gh repo clone x -- -c core.sshCommand=evil",
            "nc -e evil host 1",
            "vim.basic -c !evil",
            "split --filter=evil a",
            "less +!evil a",
            "openssl req -engine evil",
            "svn diff --diff-cmd evil",
            "tcsh x",
            "nvim -c !evil",
            "GIT.EXE -c alias.x=!sh x",
            "ld-linux-x86-64.so.2 ./evil",
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
            "node --experimental_loader=data:x x.js",
            "node --env_file=evil x.js",
            "node inspect x.js",
            "node --title x.y inspect x.js",
            "node --inspect-wait=0.0.0.0:1 x.js",
            "node --redirect-warnings=.bashrc x.js",
            "bun x evil",
            "bun exec evil",
            "bun run build",
            "bun install",
            "bun",
            "fdfind . -x evil",
            "install -s --strip-program=./evil a b",
            "install -s --strip-p ./evil a b",
            "diff3 --diff-program=./evil a b c",
            "sdiff --diff-prog ./evil a b",
            "gpg --agent-program ./evil --list-keys",
            "gpg2 --homedir . -k",
            "ssh-keygen -D ./evil.so",
            "ssh-add -s ./evil.so",
            "nm --plugin ./evil.so a",
            "ar --plugin ./evil.so t a",
            "gcc-nm-12 --plugin ./evil.so a",
            "javac -processorpath . A.java",
            "javac -J-javaagent:evil.jar A.java",
            "protoc --plugin=protoc-gen-x=./evil a.proto",
            "tcpdump -z ./evil -w x",
            "ag --pager ./evil x",
            "hg bisect --command evil",
            "hg merge --tool evil",
            "jj bisect run evil",
            "aria2c --on-download-complete=./evil u",
            "duckdb -c .shell",
            "mlr -n put x",
            "lualatex x",
            "tar -tf -oProxyCommand=evil:x",
            "tar tf -oProxyCommand=evil:x",
            "tar -xf-oProxyCommand=evil:x",
            "tar -x --file=-oProxyCommand=evil:x",
            "cpio -i -F -oProxyCommand=evil:x",
            "curl --engine ./evil.so x",
            "curl --unix-socket /run/docker.sock http://x",
            "openssl engine dynamic -pre SO_PATH:./evil.so -pre LOAD",
            "gcc --prefix=./evil/ a.c",
            "cpp -B./evil/ a.c",
            "c99 -wrapper evil a.c",
            "x86_64-linux-gnu-gfortran-12 -B. a.f90",
            "clang --gcc-toolchain=./evil a.c",
            "ld.gold --plugin ./evil.so a.o",
            "objcopy --plugin ./evil.so a",
            "rustc -L . a.rs",
            "javac -cp . A.java",
            "linux64 evil",
            "systemd-cat evil",
            "gpg-agent --daemon evil",
            "python3-dbg -c evil",
            "pee evil",
            "qjs evil.js",
            "dpkg --pre-invoke=evil -i x",
            "ip netns exec x evil",
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
