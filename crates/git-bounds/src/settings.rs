//! Determines the keys that a use of git needs, and the files that the user's configuration names.

use pijs_programs::{CredentialUse, command_of_git, credential_use};

/// A setting of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitSetting<'a> {
    /// Whether it is in the user's or the system's configuration, not in that of the repository.
    pub is_users: bool,
    /// Section and variable in lower case.
    pub key: &'a str,
    /// The value.
    pub value: &'a str,
    /// The file that contains it, as git reports it; empty if it is in no file.
    pub file: &'a str,
}

/// Keys in the home that a use of git opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitKeys {
    /// None.
    None,
    /// Those of gpg, to make or check a signature.
    OfGpg,
    /// The ssh key that the user's configuration names.
    OfSshSignature,
    /// All: git connects to a server.
    All,
}

/// Commands that sign what they store.
const SIGNING: &[&str] = &["am", "cherry-pick", "commit", "commit-tree", "merge", "rebase", "revert", "tag"];

/// Settings by which a user configures signatures.
const SIGNATURE_SETTINGS: &[&str] =
    &["commit.gpgsign", "tag.forcesignannotated", "tag.gpgsign", "user.signingkey", "gpg.ssh.defaultkeycommand"];

/// Settings whose files only a connection or a signature needs.
const CONNECTION_SECTIONS: &[&str] =
    &["alias", "credential", "http", "imap", "remote", "sendemail", "ssh", "submodule", "url"];

/// Returns the keys that git needs. A command signs only if the user's own configuration says how: the arguments and the
/// repository's configuration belong to the extension and to the project.
pub fn git_keys(args: &[&str], settings: &[GitSetting<'_>]) -> GitKeys {
    let command = command_of_git(args).unwrap_or_default();
    match credential_use("git", args) {
        CredentialUse::All => GitKeys::All,
        CredentialUse::None | CredentialUse::Only([]) => GitKeys::None,
        CredentialUse::Only(_) if SIGNING.contains(&command) => match signs(settings) {
            true if last(settings, "gpg.format") == Some("ssh") => GitKeys::OfSshSignature,
            true => GitKeys::OfGpg,
            false if command == "tag" && args.iter().any(|arg| matches!(*arg, "-v" | "--verify")) => GitKeys::OfGpg,
            false => GitKeys::None,
        },
        CredentialUse::Only(_) if verifies(command, args, settings) => GitKeys::OfGpg,
        CredentialUse::Only(_) => GitKeys::None,
    }
}

/// Returns whether only the repository configures that a command signs.
pub fn only_repository_signs(args: &[&str], settings: &[GitSetting<'_>]) -> bool {
    let key = match command_of_git(args) {
        Some("tag") => "tag.gpgsign",
        Some(command) if SIGNING.contains(&command) => "commit.gpgsign",
        _ => return false,
    };
    !signs(settings) && last(settings, key).is_some_and(is_true) && !args.contains(&"--no-gpg-sign")
}

fn signs(settings: &[GitSetting<'_>]) -> bool {
    let is_set = |setting: &&GitSetting<'_>| {
        setting.is_users
            && SIGNATURE_SETTINGS.contains(&setting.key)
            && (is_true(setting.value) || setting.key.ends_with("key") || setting.key.ends_with("command"))
    };
    settings.iter().any(|setting| is_set(&setting))
}

/// Returns whether a command that shows commits checks signatures.
fn verifies(command: &str, args: &[&str], settings: &[GitSetting<'_>]) -> bool {
    let is_format = |setting: &GitSetting<'_>| setting.key == "format.pretty" || setting.key.starts_with("pretty.");
    command.starts_with("verify-")
        || args.iter().any(|arg| *arg == "--show-signature" || arg.contains("%G"))
        || last(settings, "log.showsignature").is_some_and(is_true)
        || settings.iter().any(|setting| is_format(setting) && setting.value.contains("%G"))
}

fn last<'a>(settings: &[GitSetting<'a>], key: &str) -> Option<&'a str> {
    settings.iter().rev().find(|setting| setting.key == key).map(|setting| setting.value)
}

fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Returns whether a setting of the user makes a command with these keys run a program whose files in the home are not known: a
/// filter, a diff or merge program, or a program that signs. `git-lfs` reads nothing in the home, and gpg and ssh-keygen their keys.
pub(crate) fn runs_program_of_user(setting: &GitSetting<'_>, keys: GitKeys) -> bool {
    let (section, variable) = setting.key.split_once('.').unwrap_or_default();
    let variable = variable.rsplit('.').next().unwrap_or_default();
    let is_program = match section {
        "filter" => matches!(variable, "clean" | "smudge" | "process"),
        "diff" => matches!(variable, "command" | "external" | "textconv"),
        "gpg" => variable == "program" && keys != GitKeys::None,
        "merge" => variable == "driver",
        "trailer" => matches!(variable, "cmd" | "command"),
        _ => false,
    };
    let program = setting.value.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let is_lfs = program == "git-lfs" || setting.value.starts_with("git lfs ");
    setting.is_users && is_program && !is_lfs && !matches!(program, "" | "gpg" | "gpg2" | "gpgsm" | "ssh-keygen")
}

/// Returns the absolute paths, or paths with a leading `~/`, that a setting of the user names, as far as a command with these keys
/// reads them.
pub(crate) fn files_of_setting<'a>(setting: &GitSetting<'a>, keys: GitKeys) -> Vec<&'a str> {
    let (section, _) = setting.key.split_once('.').unwrap_or_default();
    let is_key = setting.key == "user.signingkey";
    let is_for_connections = CONNECTION_SECTIONS.contains(&section) || setting.key == "core.sshcommand";
    let is_read = match keys {
        GitKeys::All => true,
        GitKeys::OfSshSignature => !is_for_connections,
        GitKeys::OfGpg | GitKeys::None => !is_for_connections && !is_key,
    };
    if !setting.is_users || !is_read {
        return Vec::new();
    }
    // The whole value may be a path with blanks.
    let words = setting.value.split([' ', '\t', '"', '\'', '=']).chain([setting.value]);
    let mut files: Vec<&str> = words.filter(|word| word.starts_with('/') || word.starts_with("~/")).collect();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(line: &str, settings: &[(bool, &str, &str)]) -> GitKeys {
        git_keys(&line.split(' ').collect::<Vec<_>>(), &of(settings))
    }

    fn of<'a>(settings: &[(bool, &'a str, &'a str)]) -> Vec<GitSetting<'a>> {
        settings.iter().map(|(is_users, key, value)| GitSetting { is_users: *is_users, key, value, file: "" }).collect()
    }

    #[test]
    fn keys_are_for_signatures_that_the_user_configured() {
        let gpg = [(true, "user.signingkey", "A1")];
        let ssh = [(true, "user.signingkey", "~/.ssh/id"), (true, "gpg.format", "ssh")];
        let unset = [(true, "commit.gpgsign", "false")];
        let repository = [(false, "user.signingkey", "A1"), (false, "commit.gpgsign", "true")];
        for line in ["commit -S -F d/f", "-C sub tag -s x", "merge x"] {
            assert_eq!(keys(line, &[]), GitKeys::None, "{line}");
            assert_eq!(keys(line, &unset), GitKeys::None, "{line}");
            assert_eq!(keys(line, &repository), GitKeys::None, "{line}");
            assert_eq!(keys(line, &gpg), GitKeys::OfGpg, "{line}");
            assert_eq!(keys(line, &ssh), GitKeys::OfSshSignature, "{line}");
        }
        assert_eq!(keys("status", &gpg), GitKeys::None);
        assert_eq!(keys("fetch", &[]), GitKeys::All);
        assert!(only_repository_signs(&["commit", "-m", "x"], &of(&repository)));
        assert!(!only_repository_signs(&["commit", "--no-gpg-sign"], &of(&repository)));
        assert!(
            !only_repository_signs(&["tag", "x"], &of(&repository)) && !only_repository_signs(&["commit"], &of(&gpg))
        );
    }

    #[test]
    fn keys_are_for_signatures_that_are_checked() {
        assert_eq!(keys("log -1", &[]), GitKeys::None);
        for (line, settings) in [
            ("log --show-signature", &[][..]),
            ("show --format=%G?", &[]),
            ("tag -v x", &[]),
            ("log", &[(false, "log.showsignature", "true")]),
            ("log --pretty=mine", &[(true, "pretty.mine", "%GK %s")]),
        ] {
            assert_eq!(keys(line, settings), GitKeys::OfGpg, "{line}");
        }
    }

    #[test]
    fn settings_name_files_and_programs() {
        let files = |key, value, keys| files_of_setting(&GitSetting { is_users: true, key, value, file: "" }, keys);
        assert_eq!(files("include.path", "~/a b", GitKeys::None), ["~/a", "~/a b"]);
        assert_eq!(files("filter.f.clean", "x -c=/etc/x %f", GitKeys::None), ["/etc/x"]);
        assert_eq!(files("core.sshcommand", "ssh -i ~/.ssh/id", GitKeys::None), [""; 0]);
        assert_eq!(files("core.sshcommand", "ssh -i ~/.ssh/id", GitKeys::All), ["~/.ssh/id"]);
        assert_eq!(files("user.signingkey", "~/.ssh/id", GitKeys::OfGpg), [""; 0]);
        assert_eq!(files("user.signingkey", "~/.ssh/id", GitKeys::OfSshSignature), ["~/.ssh/id"]);
        for (key, value, runs) in [
            ("filter.lfs.process", "git-lfs filter-process", false),
            ("filter.f.smudge", "nbstripout", true),
            ("diff.d.textconv", "pdftotext", true),
            ("filter.f.required", "true", false),
            ("merge.m.driver", "", false),
            ("gpg.program", "/usr/bin/gpg2", false),
            ("gpg.ssh.program", "/opt/signer", true),
        ] {
            let setting = GitSetting { is_users: true, key, value, file: "" };
            assert_eq!(runs_program_of_user(&setting, GitKeys::OfGpg), runs, "{key}");
        }
    }
}
