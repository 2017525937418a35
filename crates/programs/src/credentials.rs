//! The keys and credentials in the home that a program needs.
//!
//! ```text
//! cat, tar, curl, gcc        none: they do not authenticate, or with arguments only
//! git log, git commit        those that sign commits
//! git fetch, ssh, aws        any
//! ```

use crate::{is_file_tool, name_of, tool};

/// Keys and credentials in the home that a program may read. Names are entries of the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialUse {
    /// None, whatever the arguments are.
    None,
    /// These entries only, in a use that the program's table knows.
    Only(&'static [&'static str]),
    /// All: the program authenticates to servers in ways of its own, or is not known.
    All,
}

/// Tools of the tables that use credentials of any kind, or start a program that does.
const USE_ALL: &[&str] = &["hg", "jj", "pi", "rsync", "scp", "sftp", "ssh", "svn", "tig"];

/// Commands of git that neither contact a server nor sign. Any other name may be an alias.
const LOCAL: &[&str] = &[
    "add",
    "apply",
    "bisect",
    "blame",
    "branch",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-ref-format",
    "checkout",
    "cherry",
    "clean",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "init",
    "ls-files",
    "ls-tree",
    "merge-base",
    "merge-tree",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "range-diff",
    "read-tree",
    "reflog",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "rm",
    "shortlog",
    "show-branch",
    "show-ref",
    "stash",
    "status",
    "switch",
    "symbolic-ref",
    "update-index",
    "update-ref",
    "var",
    "verify-pack",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Commands of git that sign, or check signatures.
const SIGN: &[&str] = &[
    "am",
    "cherry-pick",
    "commit",
    "commit-tree",
    "log",
    "merge",
    "rebase",
    "revert",
    "show",
    "tag",
    "verify-commit",
    "verify-tag",
];

/// Options of git before its command that take the next argument as their value.
pub const GIT_OPTIONS_WITH_VALUE: &[&str] =
    &["-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"];

/// Returns the credentials that a program with these arguments needs.
pub fn credential_use(command: &str, args: &[&str]) -> CredentialUse {
    let name = name_of(command).to_ascii_lowercase();
    if is_file_tool(command) {
        return CredentialUse::None;
    }
    match name.as_str() {
        _ if tool(&name).is_none() => CredentialUse::All,
        "git" => of_git(args),
        "gh" => CredentialUse::Only(&[
            ".config/gh",
            ".config/git/credentials",
            ".git-credentials",
            ".gnupg",
            ".netrc",
            ".ssh",
        ]),
        "ssh-add" | "ssh-keygen" => CredentialUse::Only(&[".ssh"]),
        name if name.starts_with("gpg") => CredentialUse::Only(&[".gnupg"]),
        name if USE_ALL.contains(&name) || name.starts_with("ssh") => CredentialUse::All,
        _ => CredentialUse::None,
    }
}

fn of_git(args: &[&str]) -> CredentialUse {
    match command_of_git(args) {
        Some(command) if LOCAL.contains(&command) => CredentialUse::Only(&[]),
        Some(command) if SIGN.contains(&command) => CredentialUse::Only(&[".gnupg", ".ssh"]),
        _ => CredentialUse::All,
    }
}

/// Returns the command among the arguments of git.
pub fn command_of_git<'a>(args: &[&'a str]) -> Option<&'a str> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if GIT_OPTIONS_WITH_VALUE.contains(arg) {
            rest.next();
        } else if !arg.starts_with('-') {
            return Some(arg);
        }
    }
    None
}

/// Returns whether a program with these arguments changes the user's settings of itself, such as `git config --global`.
pub fn changes_settings(command: &str, args: &[&str]) -> bool {
    name_of(command).eq_ignore_ascii_case("git") && command_of_git(args) == Some("config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_git_need_what_they_do() {
        let used = |line: &str| credential_use("git", &line.split(' ').collect::<Vec<_>>());
        assert_eq!(used("-C sub --no-pager status"), CredentialUse::Only(&[]));
        assert_eq!(used("commit -qm x"), CredentialUse::Only(&[".gnupg", ".ssh"]));
        for line in ["fetch", "-c a=b push", "remote update", "ls-remote x", "my-alias", "--version"] {
            assert_eq!(used(line), CredentialUse::All, "{line}");
        }
    }

    #[test]
    fn no_command_of_git_is_in_both_lists() {
        assert!(LOCAL.is_sorted() && SIGN.is_sorted() && SIGN.iter().all(|command| !LOCAL.contains(command)));
    }
}
