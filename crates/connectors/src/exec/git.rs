//! Keeps a plain use of git from running programs that a repository's configuration names.
//!
//! A grant of `git`, or an answer about one command line of it, says nothing of the programs that `.git/config` names:
//! hooks, filters, drivers, an editor, a transport. [`restrict`] overrides them through git's environment, which counts
//! more than every file. Settings with a fixed name are always overridden; the others (`filter.NAME.clean`) are found by
//! listing the configuration first. What the user's own configuration (`--global`, `--system`) says of filters, drivers,
//! ssh, signatures and credentials stays: a repository cannot write it.
//!
//! What cannot be left out without changing what git stores or shows fails, with a line that names the grant: a filter
//! may be what encrypts a file.

use super::program::Program;
use pijs_hostcall::programs::name_of;
use pijs_hostcall::{Reason, Request};
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longest wait for a list of settings.
const DEADLINE: Duration = Duration::from_secs(5);
/// Most bytes of such a list.
const MOST_BYTES: u64 = 4 << 20;

/// A command that says why it fails. Nothing of the repository is in it: a shell reads it.
const FAILS: &str = "echo 'pi: a setting of this repository names a program; exec:git * permits it' >&2; false";

const FAILS_AS_ALIAS: &str = "!echo 'pi: a repository names this command; exec:git * permits it' >&2; false";

/// Commands that change files of the work tree while they go on, and with them what an included file says.
const CHANGE_FILES: &[&str] = &[
    "am",
    "apply",
    "bisect",
    "checkout",
    "cherry-pick",
    "clone",
    "merge",
    "pull",
    "rebase",
    "reset",
    "restore",
    "revert",
    "stash",
    "submodule",
    "switch",
    "worktree",
];

/// Programs that run git themselves.
const RUN_GIT: &[&str] = &["gh", "jj", "tig"];

/// Options of git before its command that take the next argument as their value.
const OPTIONS_WITH_VALUE: &[&str] =
    &["-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"];

/// Variables of git that count more than settings, with a value that runs nothing.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_ASKPASS", ""),
    ("GIT_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    ("GIT_PROXY_COMMAND", ""),
    ("GIT_SEQUENCE_EDITOR", ":"),
];

/// Settings that are overridden whatever the configuration says.
const SETTINGS: &[(&str, &str)] = &[
    ("core.askPass", ""),
    ("core.editor", ":"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    // A submodule's own configuration names a program that shows differences.
    ("diff.submodule", "short"),
    ("protocol.ext.allow", "never"),
    ("sequence.editor", ":"),
];

/// Settings that have the user's own value, or else git's.
const USERS_SETTINGS: &[(&str, &str)] = &[
    ("core.sshCommand", "ssh"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.program", "gpg"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.x509.program", "gpgsm"),
];

/// Adds settings to git's environment.
struct Settings<'a>(&'a mut BTreeMap<String, String>);

impl Settings<'_> {
    fn add(&mut self, key: &str, value: &str) {
        let count = self.0.get("GIT_CONFIG_COUNT").and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
        self.0.insert("GIT_CONFIG_COUNT".to_owned(), (count + 1).to_string());
        self.0.insert(format!("GIT_CONFIG_KEY_{count}"), key.to_owned());
        self.0.insert(format!("GIT_CONFIG_VALUE_{count}"), value.to_owned());
    }

    fn add_fixed(&mut self) {
        for (name, value) in VARIABLES {
            self.0.entry((*name).to_owned()).or_insert_with(|| (*value).to_owned());
        }
        for (key, value) in SETTINGS {
            self.add(key, value);
        }
    }
}

/// Restricts git, and programs that run it, to what the call's arguments say.
///
/// In any use git takes a folder for a repository only where it is called `.git`, or named: any other that looks like one
/// would have a configuration, too, and whoever may write can make one. And a plain `git push` reaches no repository of
/// this machine: git runs the hooks of the one that it pushes to, which may be such a folder.
pub(super) fn restrict(
    program: &Program,
    request: &Request,
    args: &[String],
    cwd: &Path,
    env: &mut BTreeMap<String, String>,
) -> Result<(), HostcallError> {
    let is_called = |name: &str| {
        [&program.file, &program.found].iter().any(|path| {
            path.file_name().is_some_and(|file| name_of(&file.to_string_lossy()).eq_ignore_ascii_case(name))
        })
    };
    let command = request.params.get("command").and_then(serde_json::Value::as_str).unwrap_or_default();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let is_every_use = request.permit.covers_every_use(command, &words) || !guard::is_up("exec.git-settings");
    if !is_every_use && is_called("hg") {
        // The configuration of a repository can name hooks and extensions.
        env.insert("HGRCSKIPREPO".to_owned(), "1".to_owned());
    }
    if !is_every_use && RUN_GIT.iter().any(|name| is_called(name)) {
        Settings(env).add_fixed();
    }
    if !is_called("git") {
        return Ok(());
    }
    let mut settings = Settings(env);
    if guard::is_up("exec.bare-repository") {
        settings.add("safe.bareRepository", "explicit");
    }
    if words.contains(&"push") && !request.permit.means_program(command, &words) && guard::is_up("exec.local-push") {
        settings.add("protocol.file.allow", "never");
    }
    if is_every_use {
        return Ok(());
    }
    settings.add_fixed();
    let listed = list(program, &words, cwd, settings.0)?;
    let includes = listed
        .iter()
        .any(|entry| !entry.is_users && (entry.key.starts_with("include.") || entry.key.starts_with("includeif.")));
    if includes && words.iter().any(|word| CHANGE_FILES.contains(word)) && guard::is_up("exec.git-includes") {
        return Err(Reason::Scope
            .refusal("exec", "exec", "git in a repository whose settings include others")
            .with("hint", "they can change while git runs; exec:git * permits it"));
    }
    let users = |key: &str| {
        let is_it = |entry: &&Entry| entry.is_users && entry.key.eq_ignore_ascii_case(key);
        listed.iter().rev().find(is_it).map(|entry| entry.value.as_str())
    };
    for (key, value) in USERS_SETTINGS {
        settings.add(key, users(key).unwrap_or(value));
    }
    // An empty helper forgets those before it.
    settings.add("credential.helper", "");
    for helper in listed.iter().filter(|entry| entry.is_users && is_credential_helper(&entry.key)) {
        settings.add(&helper.key, &helper.value);
    }
    for entry in listed.iter().filter(|entry| !entry.is_users) {
        override_setting(&mut settings, entry, users(&entry.key));
    }
    Ok(())
}

fn is_credential_helper(key: &str) -> bool {
    key.starts_with("credential.") && key.ends_with(".helper")
}

/// Overrides a setting of a repository that names a program: with the user's value, or with one that runs nothing.
fn override_setting(settings: &mut Settings<'_>, entry: &Entry, users: Option<&str>) {
    let Some((section, rest)) = entry.key.split_once('.') else { return };
    let (subsection, variable) = rest.rsplit_once('.').map_or((None, rest), |(name, variable)| (Some(name), variable));
    let neutral = match (section, variable) {
        ("filter", "clean" | "smudge") => FAILS,
        ("filter", "process") => "",
        ("diff", "external" | "command") | ("merge", "driver") => FAILS,
        ("diff", "textconv") | ("interactive", "difffilter") => "cat",
        ("trailer", "cmd" | "command") | ("init", "templatedir") => "",
        ("hook", "command") | ("core", "alternaterefscommand") => "true",
        // The first value counts. Other machines run it for themselves.
        ("remote", "receivepack" | "uploadpack") => {
            settings.add("protocol.file.allow", "never");
            return;
        }
        ("remote", "vcs") => "not-permitted",
        // Another command than the one that was named.
        ("alias", _) => FAILS_AS_ALIAS,
        ("man" | "browser" | "difftool" | "mergetool", "path") => "false",
        ("help", "format") => "man",
        ("help" | "web" | "instaweb", "browser") => "false",
        ("man", "viewer") => "man",
        ("submodule", "update") if entry.value.starts_with('!') => "checkout",
        ("gc", "recentobjectshook") => {
            settings.add("gc.auto", "0");
            settings.add("maintenance.auto", "false");
            return;
        }
        ("lfs", "clean" | "path" | "smudge") => "false",
        // Set above.
        ("gpg", "program") | ("credential", "helper") | ("core" | "sequence", "editor") => return,
        (_, "cmd" | "command" | "defaultkeycommand" | "driver" | "helper" | "program") => "false",
        _ => return,
    };
    settings.add(&entry.key, users.unwrap_or(neutral));
    if let ("filter", Some(name), None) = (section, subsection, users) {
        settings.add(&format!("filter.{name}.required"), "true");
    }
}

/// One setting.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Of the user's own files or the system's, not of the repository's.
    is_users: bool,
    /// Section and variable in lower case.
    key: String,
    value: String,
}

/// Lists the settings that a call of git would read.
fn list(
    program: &Program,
    args: &[&str],
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<Vec<Entry>, HostcallError> {
    let failed = |error: std::io::Error| HostcallError::io("EIO", "git config", format!("exec: git config: {error}"));
    let mut command = Command::new(&program.file);
    command.args(global_options(args)).args(["config", "--list", "-z", "--show-scope"]);
    command.env_clear().envs(env).current_dir(cwd);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let mut output = child.stdout.take().expect("piped").take(MOST_BYTES);
    let (tell, told) = mpsc::channel();
    std::thread::Builder::new()
        .name("pijs-git".to_owned())
        .spawn(move || {
            let mut text = Vec::new();
            let read = output.read_to_end(&mut text);
            // Nobody may be waiting any more.
            let _ = tell.send(read.map(|_| text));
        })
        .map_err(failed)?;
    let Ok(read) = told.recv_timeout(DEADLINE) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(HostcallError::io("ETIMEDOUT", "git config", "exec: git did not list its settings in time"));
    };
    let text = read.map_err(failed)?;
    let _ = child.kill();
    let status = child.wait().map_err(failed)?;
    if text.len() as u64 == MOST_BYTES || status.code() == Some(129) {
        // Too many to be known, or a git that cannot say where a setting comes from.
        return Err(Reason::Scope
            .refusal("exec", "exec", "git, whose settings cannot be listed")
            .with("hint", "git 2.31 or newer is needed; exec:git * permits every use of it"));
    }
    // One that fails otherwise fails in the call itself, too, and says why: no repository that it takes, a broken file.
    Ok(parse(&text))
}

/// The options in front of git's command, which say where the repository is.
fn global_options<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut options = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        options.push(*word);
        if OPTIONS_WITH_VALUE.contains(word) {
            options.extend(words.next());
        }
    }
    options.retain(|option| !matches!(*option, "--version" | "--help" | "-h" | "-v" | "-p" | "--paginate"));
    options
}

/// `SCOPE NUL KEY LF VALUE NUL` each; a key without a value has no line feed.
fn parse(text: &[u8]) -> Vec<Entry> {
    let text = String::from_utf8_lossy(text);
    let mut parts = text.split('\0');
    let mut entries = Vec::new();
    while let (Some(scope), Some(setting)) = (parts.next(), parts.next()) {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        // Settings of the environment are what the call itself says.
        if scope != "command" {
            let is_users = matches!(scope, "system" | "global");
            entries.push(Entry { is_users, key: key.to_owned(), value: value.to_owned() });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(key: &str, value: &str, users: Option<&str>) -> Vec<(String, String)> {
        let mut env = BTreeMap::new();
        let entry = Entry { is_users: false, key: key.to_owned(), value: value.to_owned() };
        override_setting(&mut Settings(&mut env), &entry, users);
        let count = env.get("GIT_CONFIG_COUNT").map_or(0, |count| count.parse().expect("a number"));
        let get = |what: &str, at: u32| env[&format!("GIT_CONFIG_{what}_{at}")].clone();
        (0..count).map(|at| (get("KEY", at), get("VALUE", at))).collect()
    }

    #[test]
    fn settings_of_a_repository_that_name_programs_are_overridden() {
        for key in [
            "filter.f.clean",
            "filter.a.b.process",
            "diff.external",
            "diff.d.command",
            "diff.d.textconv",
            "merge.m.driver",
            "trailer.t.cmd",
            "hook.h.command",
            "gpg.ssh.defaultkeycommand",
            "interactive.difffilter",
            "tar.xz.command",
            "browser.b.cmd",
            "lfs.extension.e.clean",
        ] {
            let found = overrides(key, "evil", None);
            assert_eq!(found.first().map(|(key, _)| key.as_str()), Some(key));
            assert!(found.iter().all(|(_, value)| !value.contains("evil")), "{key}");
            assert_eq!(overrides(key, "evil", Some("mine")), [(key.to_owned(), "mine".to_owned())], "{key}");
        }
        for key in ["user.name", "core.autocrlf", "remote.o.url", "branch.main.merge", "diff.algorithm"] {
            assert_eq!(overrides(key, "x", None), [], "{key}");
        }
        let never = [("protocol.file.allow".to_owned(), "never".to_owned())];
        assert_eq!(overrides("remote.o.uploadpack", "evil", None), never);
        assert_eq!(overrides("alias.co", "checkout", None).len(), 1);
        assert_eq!(overrides("alias.co", "checkout", Some("switch")), [("alias.co".to_owned(), "switch".to_owned())]);
        for key in ["man.man.path", "browser.w3m.path", "help.format", "help.browser", "web.browser"] {
            assert!(overrides(key, "evil", None).iter().any(|(_, value)| value != "evil"), "{key}");
        }
        assert_eq!(overrides("alias.x", "!sh", None).len(), 1);
        assert!(overrides("filter.f.clean", "x", None).contains(&("filter.f.required".to_owned(), "true".to_owned())));
    }

    #[test]
    fn a_list_says_where_a_setting_comes_from() {
        let entries = parse(b"global\0user.name\nA\0local\0core.bare\0local\0a.b\nx\ny\0command\0c.d\n1\0");
        let known: Vec<_> = entries.iter().map(|e| (e.is_users, e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(known, [(true, "user.name", "A"), (false, "core.bare", "true"), (false, "a.b", "x\ny")]);
        assert_eq!(global_options(&["-C", "sub", "--no-pager", "log", "-n", "1"]), ["-C", "sub", "--no-pager"]);
        assert_eq!(global_options(&["--version"]), [""; 0]);
    }
}
