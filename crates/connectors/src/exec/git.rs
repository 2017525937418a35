//! Prevents a plain use of git from running programs that a repository's configuration names.
//!
//! A grant of `git`, or consent to one command line of it, does not cover the programs that `.git/config` names: hooks, filters,
//! drivers, an editor, a transport. [`restrict`] overrides them through git's environment, which takes precedence over every
//! file. Settings with a fixed name are always overridden. The other settings of the repository are listed first: settings in
//! [`git_settings`] are kept, settings that name a program are replaced by a value that runs nothing, and all others by the
//! user's value or an empty one. The user's own configuration (`--global`, `--system`) of filters, drivers, ssh, signatures and
//! credentials is kept, because a repository cannot write it.
//!
//! A submodule has its own configuration, which git reads when it looks for changes in the submodule. The environment applies to
//! submodules as well, so the settings of submodules are overridden along with those of the repository. Programs that run git get
//! the same environment.
//!
//! Some settings cannot be overridden without changing what git stores or shows: a filter may encrypt a file, for example. Such a
//! setting makes the command fail, with a message that names the required grant.

use super::ExecOptions;
use super::program::{self, Program, ProgramLine};
use super::{shims, view};
use pijs_git_bounds::{
    FileBounds, GitKeys, GitSetting, GitUse, LinkSearch, SessionFolders, git_keys, only_repository_signs, search_links,
};
use pijs_hostcall::places::{Places, ProgramView, Protection};
use pijs_hostcall::{Permit, Reason};
use pijs_programs::git_settings::{CHANGE_FILES, SETTINGS, STRATEGIES, USERS_SETTINGS, VARIABLES};
use pijs_programs::{git_settings, is_plain, mentions_program, name_of};
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use survey::{Entry, Survey, global_options};

mod survey;

/// A command that fails with a reason. It contains no text of the repository, because a shell runs it.
const FAILS: &str = "echo 'pi: a setting of this repository names a program; exec:git * permits it' >&2; false";

const FAILS_AS_ALIAS: &str = "!echo 'pi: a repository names this command; exec:git * permits it' >&2; false";

/// Git's environment, to which settings are added.
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

/// A call that starts a program.
pub(super) struct Call<'a> {
    pub(super) line: &'a ProgramLine<'a>,
    pub(super) permit: &'a Permit,
    /// The working folder, by name and by handle.
    pub(super) cwd: &'a Path,
    pub(super) folder: &'a Arc<File>,
    pub(super) options: &'a ExecOptions,
}

impl Call<'_> {
    /// Returns the git executable that the call runs, directly or through another program.
    fn git(&self, is_git: bool) -> Option<Program> {
        match is_git {
            true => self.line.file.clone(),
            false => program::find("git", self.cwd, self.options, self.permit).ok().flatten(),
        }
    }
}

/// Restricts git, and programs that run it, to what the call's arguments say.
///
/// In every use, git accepts a folder as a repository only if it is called `.git` or is named explicitly: any other folder with
/// the layout of a repository would have a configuration as well, and any process with write access can create one. A plain `git
/// push` cannot reach a repository on this machine, because git would run the hooks of the target.
///
/// Returns what git may open and which keys it uses, if the use is plain.
pub(super) fn restrict(
    call: &Call<'_>,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<(FileBounds, GitKeys)>, HostcallError> {
    let Call { line, permit, .. } = call;
    let ProgramLine { command, words, started, .. } = *line;
    let is_every_use = permit.covers_every_use(command, words) || !guard!(ExecGitSettings);
    let is_agreed_to = permit.means_program(command, words);
    // A grant of an interpreter's bare name covers whatever it runs.
    let mentions = |name: &str| {
        mentions_program(command, words, name) && !permit.names_program_alone(command, words) && guard!(ExecGitInLine)
    };
    let runs_git = line.is_called(git_settings::runs_git) || mentions("git");
    if !is_every_use && (runs_git || line.is_called(|name| name.eq_ignore_ascii_case("hg")) || mentions("hg")) {
        // The configuration of a repository can name hooks and extensions. Programs that run git run `hg` in its repositories.
        env.insert("HGRCSKIPREPO".to_owned(), "1".to_owned());
    }
    let is_git = line.is_called(|name| name.eq_ignore_ascii_case("git"));
    let mut settings = Settings(env);
    if is_git && guard!(ExecBareRepository) {
        settings.add("safe.bareRepository", "explicit");
    }
    if !is_git && (is_every_use || !runs_git) {
        return Ok(None);
    }
    if !is_every_use {
        settings.add_fixed();
    }
    let is_pushing = is_git && started.args.contains(&"push") && !is_agreed_to && guard!(ExecLocalPush);
    if is_pushing {
        settings.add("protocol.file.allow", "never");
    }
    let Some(git) = call.git(is_git).filter(|_| !is_every_use) else { return Ok(None) };
    // The arguments of another program are not git's.
    let words = if is_git { started.args } else { &[] };
    if !is_git {
        shims::check(&git, permit, ("git", &[]), call.cwd, &call.options.env)?;
    }
    let survey = Survey {
        view: view::of(permit, &ProgramLine::of("git", &["config", "--list"], &git), call.options),
        git,
        options: call.options,
        cwd: call.cwd,
        folder: call.folder,
        globals: global_options(words),
        env: settings.0.clone(),
        command: name_of(command),
    };
    let folders = survey.folders()?;
    let links = check_links(call, &survey, &folders)?;
    let listed = list_settings(&survey, words)?;
    override_settings(&mut settings, &survey, &listed, is_pushing)?;
    // The user agreed to a command that runs other programs.
    let is_agreed_to = !is_plain("git", words, 0) && is_agreed_to;
    if !is_git || is_agreed_to || !started.is_direct || !guard!(ExecGitBounds) {
        return Ok(None);
    }
    let listed: Vec<GitSetting<'_>> = listed.iter().map(Entry::setting).collect();
    if only_repository_signs(words, &listed) && guard!(ExecGitKeys) {
        return Err(survey.refusal("git with a signature that only the repository configures"));
    }
    let keys = if guard!(ExecGitKeys) { git_keys(words, &listed) } else { GitKeys::All };
    let places = permit.places();
    let session = SessionFolders {
        home: &places.home,
        project: &places.project,
        temp: &places.temp,
        package: permit.package_root(),
        credentials: places.credentials().collect(),
    };
    let used = GitUse {
        git: [&survey.git.file, &survey.git.found],
        words,
        globals: &survey.globals,
        cwd: call.cwd,
        env: &survey.env,
        users_env: &call.options.env,
        settings: &listed,
        folders: &folders,
        links: &links,
        keys,
    };
    Ok(Some((FileBounds::of(&used, &session), keys)))
}

/// Closes the keys and credentials that git does not use.
pub(super) fn close_keys(places: &Places, keys: GitKeys, view: &mut ProgramView) {
    let used = match keys {
        GitKeys::All => return,
        GitKeys::None => None,
        GitKeys::OfGpg => places.home.join(".gnupg").canonicalize().ok(),
        // The bounds contain the key itself.
        GitKeys::OfSshSignature => places.home.join(".ssh").canonicalize().ok(),
    };
    let is_used =
        |path: &PathBuf| used.as_ref().is_some_and(|used| path.canonicalize().is_ok_and(|real| real.starts_with(used)));
    view.closed.extend(places.credentials().filter(|path| !is_used(path)));
}

/// Refuses a repository with a link to a file that programs cannot read. Returns the name and target of each link.
fn check_links(
    call: &Call<'_>,
    survey: &Survey<'_>,
    folders: &[PathBuf],
) -> Result<Vec<(OsString, PathBuf)>, HostcallError> {
    let permit = call.permit;
    let is_closed = |path: &Path| {
        guard!(ExecGitLinks) && permit.places().protection(path, permit.package_root()) == Protection::All
    };
    match search_links(folders, is_closed) {
        LinkSearch::Open(links) => Ok(links),
        LinkSearch::Found(link) => {
            let name = link.file_name().unwrap_or_default().to_string_lossy();
            Err(survey.refusal(&format!("git in a repository whose file {} is a link to a key", name.escape_debug())))
        }
        LinkSearch::TooMany => Err(survey.refusal("git in a repository with too many files of its own")),
    }
}

/// Lists the settings that a call of git reads. Fails for a repository whose settings cannot be known in advance.
fn list_settings(survey: &Survey<'_>, words: &[&str]) -> Result<Vec<Entry>, HostcallError> {
    let changes_files = words.iter().any(|word| CHANGE_FILES.contains(word));
    let mut listed = survey.settings()?;
    if guard!(ExecGitSubmodules) {
        listed.extend(survey.settings_of_submodules()?);
    }
    if changes_files && guard!(ExecGitNested) {
        listed.extend(survey.settings_of_nested()?);
    }
    let includes = |entry: &Entry| entry.key.starts_with("include.") || entry.key.starts_with("includeif.");
    if changes_files && listed.iter().any(|entry| !entry.is_users && includes(entry)) && guard!(ExecGitIncludes) {
        return Err(Reason::Scope
            .refusal("exec", "exec", "git in a repository whose settings include others")
            .with("hint", "they can change while git runs; exec:git * permits it"));
    }
    Ok(listed)
}

/// Overrides the listed settings with the user's values, or with values that do not name a program.
fn override_settings(
    settings: &mut Settings<'_>,
    survey: &Survey<'_>,
    listed: &[Entry],
    is_pushing: bool,
) -> Result<(), HostcallError> {
    let users = |key: &str| {
        let is_it = |entry: &&Entry| entry.is_users && entry.key.eq_ignore_ascii_case(key);
        listed.iter().rev().find(is_it).map(|entry| entry.value.as_str())
    };
    for (key, value) in USERS_SETTINGS {
        settings.add(key, users(key).unwrap_or(value));
    }
    // An empty helper resets the list of helpers.
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
        // The user's value for all servers applies to each server.
        let general = || git_settings::general(&entry.key).and_then(|key| users(&key));
        let mut needed = BTreeMap::new();
        let is_taken = override_setting(&mut Settings(&mut needed), entry, users(&entry.key).or_else(general));
        // The environment is UTF-8, so a key with other bytes cannot be overridden.
        if !is_taken || (!entry.is_text && !needed.is_empty() && guard!(ExecGitText)) {
            return Err(survey.refusal(&format!(
                "git in a repository that sets {}, which may name a program",
                entry.key.escape_debug()
            )));
        }
        override_setting(settings, entry, users(&entry.key).or_else(general));
    }
    Ok(())
}

/// Returns whether a file name stays below the work tree. Links are not considered.
fn stays_below(name: &str) -> bool {
    !name.starts_with(['/', '~', '%', ':']) && !name.split('/').any(|part| part == "..")
}

/// Returns whether a setting permits a protocol that a helper program implements. `ext` is excluded, because it runs any command
/// that an address contains.
fn is_protocol(key: &str) -> bool {
    key.starts_with("protocol.") && key.ends_with(".allow") && !matches!(key, "protocol.allow" | "protocol.ext.allow")
}

fn is_credential_helper(key: &str) -> bool {
    key.starts_with("credential.") && key.ends_with(".helper")
}

/// Returns whether a setting is always overridden, regardless of the configuration.
fn is_fixed(key: &str) -> bool {
    SETTINGS.iter().chain(USERS_SETTINGS).any(|(fixed, _)| fixed.eq_ignore_ascii_case(key))
}

/// Overrides a setting of a repository that is not known to be harmless, with the user's value or with one that runs nothing.
/// Returns `false` if that is not possible.
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
        // The first value has precedence, so it cannot be overridden. A remote machine runs the program itself; a local
        // repository is not reached.
        ("remote", "receivepack" | "uploadpack") => {
            settings.add("protocol.file.allow", "never");
            return true;
        }
        ("remote", "vcs") => "not-permitted",
        // An alias runs a command other than the one that was allowed.
        ("alias", _) => FAILS_AS_ALIAS,
        ("man" | "browser" | "difftool" | "mergetool", "path") => "false",
        ("help", "format") => "man",
        ("help" | "web" | "instaweb", "browser") => "false",
        ("man", "viewer") => "man",
        ("submodule", "update") if entry.value.starts_with('!') => "checkout",
        // Every value is run, and no value resets the earlier ones.
        ("gc", "recentobjectshook") if guard!(ExecGitHarmless) => return false,
        ("lfs", "clean" | "path" | "smudge") => "false",
        // `GIT_PROXY_COMMAND` takes precedence, and helpers are set above.
        ("core", "gitproxy") | ("gpg", "program") | ("credential", "helper") => return true,
        _ if is_fixed(&entry.key) => return true,
        // The first value has precedence, so it cannot be overridden.
        ("pull", "twohead" | "octopus") if guard!(ExecGitHarmless) => {
            return users.is_some() || entry.value.split_whitespace().all(|name| STRATEGIES.contains(&name));
        }
        ("rebase", "instructionformat") if guard!(ExecGitHarmless) => "%s",
        ("protocol", "allow") => "never",
        (_, "cmd" | "command" | "defaultkeycommand" | "driver" | "helper" | "program") => "false",
        ("imap", "tunnel") => "false",
        // The folder may be anywhere, and patches are written into it.
        ("format", "outputdirectory") if guard!(ExecGitHarmless) => ".",
        // A later value is added to the list and does not reset it.
        ("blame", "ignorerevsfile") if guard!(ExecGitHarmless) => return stays_below(&entry.value),
        _ if let Some(neutral) = git_settings::neutral_file(section, variable)
            && guard!(ExecGitHarmless) =>
        {
            neutral
        }
        _ if let Some(neutral) = git_settings::neutral_connection(section, variable)
            && guard!(ExecGitHarmless) =>
        {
            neutral
        }
        _ if git_settings::is_harmless(section, variable) || !guard!(ExecGitHarmless) => return true,
        // The setting may belong to a later version of git.
        _ if git_settings::is_gits_own(section) => return users.is_some(),
        // The setting belongs to another tool.
        _ => "",
    };
    settings.add(&entry.key, users.unwrap_or(neutral));
    if let ("filter", Some(name), None) = (section, subsection, users) {
        settings.add(&format!("filter.{name}.required"), "true");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(key: &str, value: &str, users: Option<&str>) -> Vec<(String, String)> {
        let mut env = BTreeMap::new();
        let (value, file) = (value.to_owned(), String::new());
        let entry = Entry { is_users: false, is_text: true, key: key.to_owned(), value, file };
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
            let (key, value, file) = (key.to_owned(), value.to_owned(), String::new());
            let entry = Entry { is_users: false, is_text: true, key, value, file };
            override_setting(&mut Settings(&mut BTreeMap::new()), &entry, users)
        };
        for key in ["pull.twohead", "pull.octopus", "core.nobodyknows", "rebase.frotz"] {
            assert!(!is_taken(key, "x/evil", None) && is_taken(key, "x/evil", Some("mine")), "{key}");
        }
        for file in ["/etc/x", "~/.netrc", "../x", "a/../../x", "%(prefix)/x", ":(optional)/x"] {
            assert!(!is_taken("blame.ignorerevsfile", file, None), "{file}");
        }
        assert!(is_taken("blame.ignorerevsfile", ".git-blame-ignore-revs", None));
        assert!(is_taken("pull.twohead", "ort recursive", None));
        assert!(
            !is_taken("gc.recentobjectshook", "evil", None) && !is_taken("gc.recentobjectshook", "x", Some("mine"))
        );
    }

    /// Settings that are commands, or the paths of programs: those of `git help --config`, and of tools that come with git.
    const COMMANDS: &str = "alias.x browser.b.cmd browser.b.path core.alternaterefscommand core.askpass core.editor \
        core.fsmonitor core.gitproxy core.hookspath core.pager core.sshcommand credential.helper credential.https://a.helper \
        diff.d.command diff.d.textconv diff.external difftool.t.cmd difftool.t.path filter.f.clean filter.f.process \
        filter.f.smudge gc.recentobjectshook gpg.openpgp.program gpg.program gpg.ssh.defaultkeycommand gpg.ssh.program \
        gpg.x509.program guitool.g.cmd help.browser hook.h.command imap.tunnel init.templatedir instaweb.browser \
        instaweb.httpd interactive.difffilter lfs.customtransfer.x.path lfs.extension.e.clean man.m.cmd man.m.path \
        merge.m.driver mergetool.t.cmd mergetool.t.path mergetool.vimdiff.layout pager.log remote.o.receivepack \
        remote.o.uploadpack remote.o.vcs sendemail.cccmd sendemail.headercmd sendemail.smtpserver sendemail.tocmd \
        sequence.editor tar.xz.command trailer.t.cmd trailer.t.command web.browser";

    #[test]
    fn every_setting_that_is_a_command_is_overridden_or_refused() {
        for key in COMMANDS.split_whitespace() {
            let (value, file) = ("evil".to_owned(), String::new());
            let entry = Entry { is_users: false, is_text: true, key: key.to_owned(), value, file };
            let mut env = BTreeMap::new();
            let is_refused = !override_setting(&mut Settings(&mut env), &entry, None);
            let is_set_for_every_call = is_fixed(key) || is_credential_helper(key) || key == "core.gitproxy";
            assert!(is_refused || is_set_for_every_call || !env.is_empty(), "{key}");
            assert!(env.values().all(|value| value != "evil"), "{key}");
        }
    }

    #[test]
    fn connections_and_places_of_files_are_the_users() {
        for (key, neutral) in [
            ("http.proxy", ""),
            ("http.https://a.example/.proxy", ""),
            ("remote.o.proxy", ""),
            ("http.sslverify", "true"),
            ("http.https://a.example.sslverify", "true"),
            ("http.delegation", "none"),
            ("http.emptyauth", "auto"),
            ("http.savecookies", "false"),
            ("credential.protectprotocol", "true"),
            ("imap.tunnel", "false"),
            ("commit.template", "/dev/null"),
            ("core.attributesfile", "/dev/null"),
            ("gpg.ssh.allowedsignersfile", "/dev/null"),
            ("receive.fsck.skiplist", "/dev/null"),
            ("format.outputdirectory", "."),
            ("format.signaturefile", "/dev/null"),
        ] {
            assert_eq!(overrides(key, "evil", None), [(key.to_owned(), neutral.to_owned())], "{key}");
            assert_eq!(overrides(key, "evil", Some("mine")), [(key.to_owned(), "mine".to_owned())], "{key}");
        }
        for key in ["http.sslcainfo", "http.sslcert", "http.proxysslcainfo"] {
            assert!(overrides(key, "evil", None).iter().all(|(_, value)| value.contains("exec:git *")), "{key}");
        }
    }
}
