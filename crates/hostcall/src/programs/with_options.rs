//! Which programs run others by some of their arguments, and by which.

use super::{PLAIN, WithOptions};

pub(super) const WITH_OPTIONS: &[WithOptions] = &[
    WithOptions {
        name: "git",
        // `mv` is none of them: what it moves into `.git` it moves before it finds that it must not.
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
        ]),
        options: &[
            "--config",
            "--config-env",
            "--exec",
            "--exec-path",
            // The configuration names the program that shows it.
            "--help",
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
        // A submodule's own configuration names a program that shows differences.
        prefixes: &["ext::", "fd::", "--submodule=d"],
        behind: &[
            ("archive", &["--remote", "-o"]),
            ("bisect", &["run", "view", "visualize"]),
            (
                "filter-branch",
                &[
                    "--commit-filter",
                    "--env-filter",
                    "--index-filter",
                    "--msg-filter",
                    "--parent-filter",
                    "--setup",
                    "--tag-name-filter",
                    "--tree-filter",
                ],
            ),
            ("clone", &["-c", "-u"]),
            ("difftool", &["--extcmd", "-x"]),
            ("format-patch", &["-o", "--output-directory"]),
            ("rebase", &["-x"]),
            ("submodule", &["foreach"]),
        ],
        ..PLAIN
    },
    FIND,
    WithOptions { name: "gfind", ..FIND },
    TAR,
    WithOptions { name: "bsdtar", ..TAR },
    WithOptions { name: "gtar", ..TAR },
    WithOptions { name: "ssh", options: &["-o", "-D", "-E", "-F", "-I", "-J", "-L", "-R", "-W"], ..PLAIN },
    NODE,
    WithOptions { name: "nodejs", ..NODE },
    // Its first word is a script only where it looks like a file: `bun x`, `bun exec`, and whatever `package.json` calls a
    // script, run something else.
    WithOptions { name: "bun", commands: Some(&["--help", "--version", "-h", "-v"]), takes_file: true, ..NODE },
    PYTHON,
    WithOptions { name: "pypy", ..PYTHON },
    WithOptions { name: "ruby", options: &["-e", "-r", "-I"], takes_script: true, ..PLAIN },
    // A library that it loads, and sockets of services that run what they are told.
    WithOptions {
        name: "curl",
        options: &["--abstract-unix-socket", "--config", "--engine", "--unix-socket", "-K"],
        ..PLAIN
    },
    WithOptions { name: "rg", options: &["--pre", "--hostname-bin"], ..PLAIN },
    FD,
    WithOptions { name: "fdfind", ..FD },
    WithOptions { name: "sort", options: &["--compress-program", "--output", "-o"], ..PLAIN },
    WithOptions {
        name: "cargo",
        commands: Some(&["--version", "metadata", "tree", "locate-project", "version"]),
        options: &["--config"],
        prefixes: &["+"],
        obeys_folder: true,
        ..PLAIN
    },
    WithOptions {
        name: "go",
        commands: Some(&["version", "env", "list"]),
        options: &["-toolexec", "-exec", "-w", "-u"],
        obeys_folder: true,
        ..PLAIN
    },
    COMPILER,
    WithOptions { name: "c++", ..COMPILER },
    WithOptions { name: "c89", ..COMPILER },
    WithOptions { name: "c99", ..COMPILER },
    WithOptions { name: "clang", ..COMPILER },
    WithOptions { name: "clang++", ..COMPILER },
    WithOptions { name: "clang-cl", ..COMPILER },
    WithOptions { name: "cpp", ..COMPILER },
    WithOptions { name: "flang", ..COMPILER },
    WithOptions { name: "g++", ..COMPILER },
    WithOptions { name: "gcc", ..COMPILER },
    WithOptions { name: "gccgo", ..COMPILER },
    WithOptions { name: "gdc", ..COMPILER },
    WithOptions { name: "gfortran", ..COMPILER },
    WithOptions {
        name: "rustc",
        options: &["--codegen", "--extern", "--sysroot", "-C", "-L", "-Z"],
        prefixes: &["+", "@"],
        obeys_folder: true,
        ..PLAIN
    },
    WithOptions {
        name: "gh",
        commands: Some(&[
            "--version",
            "api",
            "auth",
            "browse",
            "gist",
            "issue",
            "label",
            "org",
            "pr",
            "project",
            "release",
            "repo",
            "run",
            "search",
            "secret",
            "status",
            "variable",
            "version",
            "workflow",
        ]),
        options: &["--config", "--upload-pack"],
        prefixes: &["-c"],
        ..PLAIN
    },
    WithOptions {
        name: "hg",
        options: &["--config", "--config-file", "--remotecmd", "--ssh", "--tool", "-e", "-t"],
        words: &["bisect", "debugshell", "extdiff", "serve"],
        ..PLAIN
    },
    WithOptions {
        name: "jj",
        options: &["--config", "--config-file", "--config-toml", "--tool"],
        words: &["bisect", "fix", "run", "util"],
        ..PLAIN
    },
    WithOptions {
        name: "svn",
        options: &["--config-dir", "--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"],
        // A repository in a folder, whose hooks run.
        prefixes: &["file:"],
        ..PLAIN
    },
    WithOptions {
        name: "less",
        options: &["--lesskey-content", "--lesskey-file", "--lesskey-src", "-k"],
        prefixes: &["+"],
        ..PLAIN
    },
    WithOptions { name: "bat", options: &["--pager"], ..PLAIN },
    WithOptions { name: "batcat", options: &["--pager"], ..PLAIN },
    WithOptions { name: "delta", options: &["--pager"], ..PLAIN },
    WithOptions {
        name: "openssl",
        options: &["-config", "-engine", "-module", "-provider", "-provider-path", "-ssl_client_engine"],
        prefixes: &["org.openssl.engine:"],
        words: &["engine", "fipsinstall"],
        ..PLAIN
    },
    WithOptions { name: "ip", prefixes: &["-ba"], words: &["-b", "ex", "exe", "exec"], ..PLAIN },
    WithOptions { name: "wget", options: &["--config", "--execute", "--use-askpass", "-e"], ..PLAIN },
    // `-T` tests with a program of its own, which `-TT` names, also in a cluster.
    WithOptions { name: "zip", options: &["--unzip-command", "-T"], ..PLAIN },
    WithOptions { name: "split", options: &["--filter"], ..PLAIN },
    WithOptions { name: "cpio", options: &["--rsh-command"], takes_hosts: true, ..PLAIN },
    WithOptions { name: "mt", options: &["--rsh-command"], takes_hosts: true, ..PLAIN },
    WithOptions { name: "install", options: &["--strip-program"], ..PLAIN },
    WithOptions { name: "diff3", options: &["--diff-program"], ..PLAIN },
    WithOptions { name: "sdiff", options: &["--diff-program"], ..PLAIN },
    WithOptions { name: "ack", options: &["--ackrc", "--pager"], ..PLAIN },
    WithOptions { name: "ag", options: &["--pager"], ..PLAIN },
    WithOptions { name: "ug", options: &["--config", "--filter", "--pager", "--view"], ..PLAIN },
    WithOptions { name: "ugrep", options: &["--config", "--filter", "--pager", "--view"], ..PLAIN },
    GPG,
    WithOptions { name: "gpgsm", ..GPG },
    // They load the library that is to speak to a token.
    WithOptions { name: "ssh-add", options: &["-s", "-S"], ..PLAIN },
    WithOptions { name: "ssh-keygen", options: &["-D", "-O", "-w"], ..PLAIN },
    BINUTILS,
    LINKER,
    WithOptions { name: "gold", ..LINKER },
    WithOptions { name: "ld.bfd", ..LINKER },
    WithOptions { name: "ld.gold", ..LINKER },
    WithOptions { name: "ld.lld", ..LINKER },
    WithOptions { name: "nm", ..BINUTILS },
    WithOptions { name: "objcopy", ..BINUTILS },
    WithOptions { name: "ranlib", ..BINUTILS },
    WithOptions { name: "strip", ..BINUTILS },
    WithOptions {
        name: "javac",
        // Processors are looked for wherever classes are.
        options: &[
            "--class-path",
            "--processor-module-path",
            "--processor-path",
            "-classpath",
            "-cp",
            "-proc",
            "-processor",
            "-processorpath",
        ],
        prefixes: &["-J", "-Xplugin", "@"],
        obeys_folder: true,
        ..PLAIN
    },
    WithOptions { name: "protoc", options: &["--plugin"], prefixes: &["@"], ..PLAIN },
    WithOptions { name: "tcpdump", options: &["-z"], ..PLAIN },
    WithOptions {
        name: "mypy",
        options: &["--config-file", "--python-executable"],
        prefixes: &["@"],
        obeys_folder: true,
        ..PLAIN
    },
    WithOptions { name: "aria2c", options: &["--conf-path"], prefixes: &["--on-"], ..PLAIN },
    WithOptions { name: "borg", options: &["--rsh"], ..PLAIN },
    WithOptions {
        name: "chromium",
        options: &["--browser-subprocess-path", "--load-extension"],
        prefixes: &["--gpu-launcher", "--renderer-cmd-prefix", "--utility-cmd-prefix"],
        ..PLAIN
    },
];

const FD: WithOptions = WithOptions { name: "fd", options: &["--exec", "--exec-batch", "-x", "-X"], ..PLAIN };

/// Their options may all stand in a file, too.
const GPG: WithOptions = WithOptions {
    name: "gpg",
    options: &[
        "--agent-program",
        "--dirmngr-program",
        "--exec-path",
        "--gpgconf-path",
        "--homedir",
        "--keyboxd-program",
        "--options",
        "--photo-viewer",
    ],
    ..PLAIN
};

/// Tools on object files, which read some formats with a library that they load.
const BINUTILS: WithOptions = WithOptions { name: "ar", options: &["--plugin"], prefixes: &["@"], ..PLAIN };

const LINKER: WithOptions = WithOptions {
    name: "ld",
    options: &["--load-pass-plugin", "--plugin", "-load", "-plugin"],
    prefixes: &["@"],
    ..PLAIN
};

const FIND: WithOptions = WithOptions {
    name: "find",
    options: &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"],
    ..PLAIN
};

const TAR: WithOptions = WithOptions {
    name: "tar",
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
    takes_letters: true,
    takes_hosts: true,
    ..PLAIN
};

/// Where it finds its own parts, and what it loads into itself.
const COMPILER: WithOptions = WithOptions {
    name: "cc",
    options: &[
        "--config",
        "--for-linker",
        "--gcc-install-dir",
        "--gcc-toolchain",
        "--ld-path",
        "--prefix",
        "--specs",
        "-B",
        "-Xclang",
        "-Xlinker",
        "-cc1",
        "-ccc-install-dir",
        "-gcc-toolchain",
        "-load",
        "-specs",
        "-wrapper",
    ],
    prefixes: &["-Wp,", "-fmodule-mapper", "-fplugin", "-fpass-plugin", "-fuse-ld", "-Wl,", "-specs=", "@"],
    ..PLAIN
};

const NODE: WithOptions = WithOptions {
    name: "node",
    options: &[
        "--build-snapshot",
        "--env-file",
        "--env-file-if-exists",
        "--eval",
        "--experimental-config-file",
        "--experimental-default-config-file",
        "--experimental-loader",
        "--import",
        "--inspect",
        "--inspect-brk",
        "--inspect-wait",
        "--interactive",
        "--loader",
        "--openssl-config",
        "--print",
        // What is written with them is half of the caller's making.
        "--redirect-warnings",
        "--require",
        "--run",
        "--snapshot-blob",
        "--test",
        "--tls-keylog",
        "--trace-event-file-pattern",
        "--watch",
        "-e",
        "-i",
        "-p",
        "-r",
    ],
    prefixes: &["data:"],
    // A debugger, which runs what it is sent.
    words: &["debug", "inspect"],
    takes_script: true,
    takes_underscores: true,
    ..PLAIN
};

const PYTHON: WithOptions = WithOptions { name: "python", options: &["-c", "-i", "-m"], takes_script: true, ..PLAIN };
