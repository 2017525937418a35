//! Keeps a plain use of git from running programs that a repository's configuration names.
//!
//! A grant of `git`, or an answer about one command line of it, says nothing of the programs that `.git/config` names:
//! hooks, filters, drivers, an editor, a transport. [`restrict`] overrides them through git's environment, which counts
//! more than every file. Settings with a fixed name are always overridden. Of what else the repository's configuration
//! says, found by listing it first, only the settings of [`git_settings`] stay: those that name a program are replaced by one
//! that runs nothing, all others by the user's value or an empty one. What the user's own configuration (`--global`,
//! `--system`) says of filters, drivers, ssh, signatures and credentials stays: a repository cannot write it.
//!
//! A submodule has a configuration of its own, which counts where git looks for changes in it. The environment holds there,
//! too, so what the submodules say is overridden with what the repository says.
//!
//! What cannot be left out without changing what git stores or shows fails, with a line that names the grant: a filter
//! may be what encrypts a file.

use super::program::Program;
use pijs_hostcall::{Reason, Request};
use pijs_programs::{git_settings, name_of};
use pijs_protocol::call::ProgramParams;
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longest wait for a list of settings.
const DEADLINE: Duration = Duration::from_secs(5);
/// Most bytes of such a list.
const MOST_BYTES: u64 = 4 << 20;

/// Most submodules whose settings are listed, with theirs: each costs two runs of git.
const MOST_SUBMODULES: usize = 64;

/// Most folders of a work tree that are searched for repositories.
const MOST_FOLDERS: usize = 200_000;

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
    ("diff.submodule", "short"),
    // The settings of a submodule are its own: what is fetched into one is nothing that a plain use names.
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("submodule.recurse", "false"),
    // Any other protocol is a program of that name.
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "user"),
    ("protocol.git.allow", "always"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("protocol.ssh.allow", "always"),
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

/// Strategies of merging that git has itself. Any other is the program `git-merge-NAME`.
const STRATEGIES: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

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
    ProgramParams { command, args, .. }: &ProgramParams,
    cwd: &Path,
    env: &mut BTreeMap<String, String>,
) -> Result<(), HostcallError> {
    let is_called = |name: &str| {
        [&program.file, &program.found].iter().any(|path| {
            path.file_name().is_some_and(|file| name_of(&file.to_string_lossy()).eq_ignore_ascii_case(name))
        })
    };
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let is_every_use = request.permit.covers_every_use(command, &words) || !guard!(ExecGitSettings);
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
    if guard!(ExecBareRepository) {
        settings.add("safe.bareRepository", "explicit");
    }
    if !is_every_use {
        settings.add_fixed();
    }
    let is_pushing = words.contains(&"push") && !request.permit.means_program(command, &words) && guard!(ExecLocalPush);
    if is_pushing {
        settings.add("protocol.file.allow", "never");
    }
    if is_every_use {
        return Ok(());
    }
    let mut listed = list(program, &words, cwd, settings.0)?;
    check_work_tree(&listed, cwd)?;
    if guard!(ExecGitSubmodules) {
        listed.extend(list_submodules(program, &words, cwd, settings.0)?);
    }
    if words.iter().any(|word| CHANGE_FILES.contains(word)) && guard!(ExecGitNested) {
        listed.extend(list_nested(program, cwd, settings.0)?);
    }
    let includes = listed
        .iter()
        .any(|entry| !entry.is_users && (entry.key.starts_with("include.") || entry.key.starts_with("includeif.")));
    if includes && words.iter().any(|word| CHANGE_FILES.contains(word)) && guard!(ExecGitIncludes) {
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
    for entry in listed.iter().filter(|entry| entry.is_users && is_protocol(&entry.key)) {
        if !(is_pushing && entry.key == "protocol.file.allow") {
            settings.add(&entry.key, &entry.value);
        }
    }
    for entry in listed.iter().filter(|entry| !entry.is_users) {
        if !override_setting(&mut settings, entry, users(&entry.key)) {
            let what = format!("git in a repository that sets {}, which may name a program", entry.key);
            return Err(Reason::Scope.refusal("exec", "exec", &what).with("hint", "exec:git * permits it"));
        }
    }
    Ok(())
}

/// Refuses a repository whose settings say that its files belong elsewhere: git would write them there.
fn check_work_tree(listed: &[Entry], folder: &Path) -> Result<(), HostcallError> {
    let repository = Repository::around(folder);
    let is_here = |entry: &Entry| repository.as_ref().is_some_and(|found| found.works_in(&entry.value));
    let is_elsewhere = |entry: &Entry| !entry.is_users && entry.key == "core.worktree" && !is_here(entry);
    if listed.iter().any(is_elsewhere) && guard!(ExecGitWorkTree) {
        return Err(Reason::Scope
            .refusal("exec", "exec", "git in a repository whose work tree is elsewhere (core.worktree)")
            .with("hint", "it would write its files there; exec:git * permits it"));
    }
    Ok(())
}

/// Whether a setting says which of the protocols that are programs may be used. `ext` runs whatever an address says.
fn is_protocol(key: &str) -> bool {
    key.starts_with("protocol.") && key.ends_with(".allow") && !matches!(key, "protocol.allow" | "protocol.ext.allow")
}

/// The repository that git finds from a folder.
struct Repository {
    /// The folder that `.git` is in.
    top: PathBuf,
    /// Where its settings are.
    folder: PathBuf,
}

impl Repository {
    fn around(cwd: &Path) -> Option<Self> {
        let top = cwd.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
        let git = top.join(".git");
        let named = std::fs::read_to_string(&git).ok();
        let named = named.as_deref().and_then(|text| text.strip_prefix("gitdir:")).map(|path| top.join(path.trim()));
        Some(Self { top: top.to_owned(), folder: named.unwrap_or(git) })
    }

    /// Whether a work tree that its settings name is the one that it lies in.
    fn works_in(&self, work_tree: &str) -> bool {
        let (named, top) = (self.folder.join(work_tree).canonicalize(), self.top.canonicalize());
        matches!((named, top), (Ok(named), Ok(top)) if named == top)
    }
}

fn is_credential_helper(key: &str) -> bool {
    key.starts_with("credential.") && key.ends_with(".helper")
}

/// Whether a setting is overridden whatever the configuration says.
fn is_fixed(key: &str) -> bool {
    SETTINGS.iter().chain(USERS_SETTINGS).any(|(fixed, _)| fixed.eq_ignore_ascii_case(key))
}

/// Overrides a setting of a repository that is not known to be harmless: with the user's value, or with one that runs nothing.
fn override_setting(settings: &mut Settings<'_>, entry: &Entry, users: Option<&str>) -> bool {
    let Some((section, rest)) = entry.key.split_once('.') else { return true };
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
            return true;
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
            return true;
        }
        ("lfs", "clean" | "path" | "smudge") => "false",
        // `GIT_PROXY_COMMAND` counts more, and helpers are set above.
        ("core", "gitproxy") | ("gpg", "program") | ("credential", "helper") => return true,
        _ if is_fixed(&entry.key) => return true,
        // The first value counts here, too.
        ("pull", "twohead" | "octopus") if guard!(ExecGitHarmless) => {
            return users.is_some() || entry.value.split_whitespace().all(|name| STRATEGIES.contains(&name));
        }
        ("rebase", "instructionformat") if guard!(ExecGitHarmless) => "%s",
        ("protocol", "allow") => "never",
        (_, "cmd" | "command" | "defaultkeycommand" | "driver" | "helper" | "program") => "false",
        _ if git_settings::is_harmless(section, variable) || !guard!(ExecGitHarmless) => return true,
        // Of a later git, perhaps.
        _ if git_settings::is_gits_own(section) => return users.is_some(),
        // Of another tool.
        _ => "",
    };
    settings.add(&entry.key, users.unwrap_or(neutral));
    if let ("filter", Some(name), None) = (section, subsection, users) {
        settings.add(&format!("filter.{name}.required"), "true");
    }
    true
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
    let listing = [&global_options(args)[..], &["config", "--list", "-z", "--show-scope"]].concat();
    run(program, &listing, cwd, env, |_| true).map(|text| parse(&text))
}

/// Lists what the submodules that are there say, and theirs.
fn list_submodules(
    program: &Program,
    args: &[&str],
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Result<Vec<Entry>, HostcallError> {
    let (mut listed, mut count) = (Vec::new(), 0);
    let mut open = vec![(cwd.to_owned(), global_options(args))];
    while let Some((folder, options)) = open.pop() {
        for submodule in submodules_of(program, &options, &folder, env)? {
            count += 1;
            if count > MOST_SUBMODULES {
                let what = format!("git in a repository with more than {MOST_SUBMODULES} submodules");
                return Err(Reason::Scope.refusal("exec", "exec", &what).with("hint", "exec:git * permits it"));
            }
            let entries = list(program, &[], &submodule, env)?;
            check_work_tree(&entries, &submodule)?;
            listed.extend(entries.into_iter().filter(|entry| !entry.is_users));
            open.push((submodule, Vec::new()));
        }
    }
    Ok(listed)
}

/// Lists what the repositories inside of this one say. A command that changes files can make any of them a submodule, and
/// looks for changes in it then.
fn list_nested(program: &Program, cwd: &Path, env: &BTreeMap<String, String>) -> Result<Vec<Entry>, HostcallError> {
    let refused = |what: String| Reason::Scope.refusal("exec", "exec", &what).with("hint", "exec:git * permits it");
    let Some(Repository { top, .. }) = Repository::around(cwd) else { return Ok(Vec::new()) };
    let (mut listed, mut open, mut folders, mut repositories) = (Vec::new(), vec![top], 0, 0);
    while let Some(folder) = open.pop() {
        folders += 1;
        if folders > MOST_FOLDERS {
            return Err(refused(format!("git in a repository with more than {MOST_FOLDERS} folders")));
        }
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let is_repository = entry.file_name().eq_ignore_ascii_case(".git");
            if is_repository && folders > 1 {
                repositories += 1;
                if repositories > MOST_SUBMODULES {
                    return Err(refused(format!("git with more than {MOST_SUBMODULES} repositories inside of one")));
                }
                let entries = list(program, &[], &folder, env)?;
                check_work_tree(&entries, &folder)?;
                listed.extend(entries.into_iter().filter(|entry| !entry.is_users));
            } else if !is_repository && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    Ok(listed)
}

/// The folders of submodules that hold a repository, of those that the index names.
fn submodules_of(
    program: &Program,
    options: &[&str],
    folder: &Path,
    env: &BTreeMap<String, String>,
) -> Result<Vec<PathBuf>, HostcallError> {
    let is_link = |record: &[u8]| record.starts_with(b"160000 ");
    let links =
        run(program, &[options, &["ls-files", "--stage", "--full-name", "-z", ":/"]].concat(), folder, env, is_link)?;
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let top = run(program, &[options, &["rev-parse", "--show-toplevel"]].concat(), folder, env, |_| true)?;
    let top = PathBuf::from(String::from_utf8_lossy(&top).trim_end_matches('\n'));
    let links = String::from_utf8_lossy(&links);
    let paths = links.split('\0').filter_map(|record| record.split_once('\t')).map(|(_, path)| top.join(path));
    Ok(paths.filter(|path| path.join(".git").symlink_metadata().is_ok()).collect())
}

/// Runs git for a list, and keeps the records of it that are `kept`; each ends with NUL.
fn run(
    program: &Program,
    args: &[&str],
    cwd: &Path,
    env: &BTreeMap<String, String>,
    kept: fn(&[u8]) -> bool,
) -> Result<Vec<u8>, HostcallError> {
    let failed = |error: std::io::Error| HostcallError::io("EIO", "git config", format!("exec: git config: {error}"));
    let mut command = Command::new(&program.file);
    command.args(args);
    command.env_clear().envs(env.iter().filter(|(name, _)| !name.ends_with("_PATHSPECS"))).current_dir(cwd);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let output = child.stdout.take().expect("piped");
    let (tell, told) = mpsc::channel();
    std::thread::Builder::new()
        .name("pijs-git".to_owned())
        .spawn(move || {
            // Nobody may be waiting any more.
            let _ = tell.send(read_records(output, kept));
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
    if text.len() as u64 > MOST_BYTES || status.code() == Some(129) {
        // Too many to be known, or a git that cannot say where a setting comes from.
        return Err(Reason::Scope
            .refusal("exec", "exec", "git, whose settings cannot be listed")
            .with("hint", "git 2.31 or newer is needed; exec:git * permits every use of it"));
    }
    // One that fails otherwise fails in the call itself, too, and says why: no repository that it takes, a broken file.
    Ok(text)
}

/// Reads records up to [`MOST_BYTES`] and a little more, by which it shows that there are too many.
fn read_records(output: impl std::io::Read, kept: fn(&[u8]) -> bool) -> std::io::Result<Vec<u8>> {
    let (mut output, mut text) = (BufReader::new(output), Vec::new());
    while text.len() as u64 <= MOST_BYTES {
        let mut record = Vec::new();
        if output.by_ref().take(MOST_BYTES + 1).read_until(0, &mut record)? == 0 {
            break;
        }
        if kept(&record) {
            text.extend(record);
        }
    }
    Ok(text)
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
    let is_other = |option: &str| option.ends_with("-pathspecs") || option.starts_with("--list-cmds");
    options.retain(|option| !matches!(*option, "--version" | "--help" | "-h" | "-v" | "-p" | "--paginate"));
    options.retain(|option| !is_other(option));
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
        assert!(override_setting(&mut Settings(&mut env), &entry, users), "{key}");
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
        for (key, neutral) in [
            ("branch.main.mergeoptions", ""),
            ("rebase.instructionformat", "%s"),
            ("protocol.evil.allow", "never"),
            ("frotz.nitfol", ""),
            ("branch.main.frotz", ""),
        ] {
            assert_eq!(overrides(key, "x/evil", None), [(key.to_owned(), neutral.to_owned())], "{key}");
        }
        for key in
            ["core.hookspath", "core.fsmonitor", "core.sshcommand", "gpg.program", "credential.helper", "include.path"]
        {
            assert_eq!(overrides(key, "evil", None), [], "{key} is set for every call");
        }
        assert!(overrides("filter.f.clean", "x", None).contains(&("filter.f.required".to_owned(), "true".to_owned())));
    }

    #[test]
    fn settings_that_cannot_be_overridden_are_refused() {
        let is_taken = |key: &str, value: &str, users: Option<&str>| {
            let entry = Entry { is_users: false, key: key.to_owned(), value: value.to_owned() };
            override_setting(&mut Settings(&mut BTreeMap::new()), &entry, users)
        };
        for key in ["pull.twohead", "pull.octopus", "core.nobodyknows", "rebase.frotz"] {
            assert!(!is_taken(key, "x/evil", None) && is_taken(key, "x/evil", Some("mine")), "{key}");
        }
        assert!(is_taken("pull.twohead", "ort recursive", None));
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
