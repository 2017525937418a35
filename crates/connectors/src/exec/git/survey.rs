//! Lists the settings of a repository, and of the repositories inside it, before git works in it.
//!
//! Git itself lists the settings, because only git knows which files it reads. The repository may be hostile, so this git runs
//! like a program of the extension, under a supervisor and with its file view, and with every transport, hook, monitor and prompt
//! disabled.

use super::super::ExecOptions;
use super::super::child::{Child, ProgramExit, StartOptions, start};
use super::super::program::Program;
use super::Settings;
use pijs_git_bounds::{GitSetting, changed_folder, git_folder};
use pijs_hostcall::Reason;
use pijs_hostcall::places::ProgramView;
use pijs_programs::GIT_OPTIONS_WITH_VALUE;
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Maximum wait for a list of settings.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum size of a list of settings in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Maximum number of submodules, at any depth, whose settings are listed: each costs two runs of git.
const MAX_SUBMODULES: usize = 64;

/// Maximum number of folders of a work tree that are searched for repositories.
const MAX_FOLDERS: usize = 200_000;

/// Maximum number of bytes of one line of errors.
const LONGEST_LINE: u64 = 64 << 10;

/// Git's exit code for an unknown option.
const UNKNOWN_OPTION: i32 = 129;

/// Option with which git itself opens a nested repository to look for changes.
const INNER: &[&str] = &["--git-dir=.git"];

/// Variables with which git starts no program, whatever a repository's settings are. They take precedence over settings.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_ASKPASS", "false"),
    ("GIT_EDITOR", ":"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_PROXY_COMMAND", ""),
    ("GIT_SEQUENCE_EDITOR", ":"),
    ("GIT_SSH", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Errors are recognised by their English prefix.
    ("LC_ALL", "C"),
    ("SSH_ASKPASS", "false"),
];

/// Settings with which git starts no program, in addition to those of every plain use.
const SETTINGS: &[(&str, &str)] = &[
    ("core.alternateRefsCommand", "true"),
    ("core.sshCommand", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "never"),
    ("protocol.git.allow", "never"),
    ("protocol.http.allow", "never"),
    ("protocol.https.allow", "never"),
    ("protocol.ssh.allow", "never"),
];

/// Variables that select a repository. Git drops them when it enters another repository.
const OF_ONE_REPOSITORY: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Lists the settings for one call.
pub(super) struct Survey<'a> {
    pub(super) git: Program,
    pub(super) options: &'a ExecOptions,
    pub(super) view: ProgramView,
    /// The working folder of the call, by name and by handle.
    pub(super) cwd: &'a Path,
    pub(super) folder: &'a Arc<File>,
    /// The options before git's command.
    pub(super) globals: Vec<&'a str>,
    /// The environment of the call so far.
    pub(super) env: BTreeMap<String, String>,
    /// The command that a grant would name.
    pub(super) command: &'a str,
}

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Whether the setting comes from the user's or the system's files, not from those of the repository.
    pub(super) is_users: bool,
    /// Whether the key is UTF-8, so that `key` is exact.
    pub(super) is_text: bool,
    /// Section and variable in lower case.
    pub(super) key: String,
    pub(super) value: String,
    /// The file that contains it, as git reports it; empty if it is in no file.
    pub(super) file: String,
}

impl Entry {
    pub(super) fn setting(&self) -> GitSetting<'_> {
        GitSetting { is_users: self.is_users, key: &self.key, value: &self.value, file: &self.file }
    }
}

/// A folder in which git is run.
struct Repository<'a> {
    path: PathBuf,
    folder: Arc<File>,
    globals: &'a [&'a str],
    /// Whether the folder is inside the repository of the call.
    is_inner: bool,
}

impl Repository<'_> {
    /// Opens a nested repository; `None` if the folder has no `.git` or is a link, because git does not enter it then.
    fn inside(path: PathBuf) -> Option<Self> {
        path.join(".git").symlink_metadata().ok()?;
        let folder = Arc::new(crate::system::open_folder(&path).ok()?);
        Some(Self { path, folder, globals: INNER, is_inner: true })
    }
}

/// The output of git.
struct GitOutput {
    text: Vec<u8>,
    is_success: bool,
    /// Whether git reported errors, in which case the list may be incomplete.
    has_errors: bool,
}

impl Survey<'_> {
    /// Lists the settings that the call would read.
    pub(super) fn settings(&self) -> Result<Vec<Entry>, HostcallError> {
        self.settings_at(&self.here())
    }

    /// Lists the settings of all submodules that are checked out, recursively.
    pub(super) fn settings_of_submodules(&self) -> Result<Vec<Entry>, HostcallError> {
        let (mut listed, mut count) = (Vec::new(), 0);
        let mut open = vec![self.here()];
        while let Some(repository) = open.pop() {
            for submodule in self.submodules(&repository)?.into_iter().filter_map(Repository::inside) {
                count += 1;
                if count > MAX_SUBMODULES {
                    return Err(
                        self.refusal(&format!("git in a repository with more than {MAX_SUBMODULES} submodules"))
                    );
                }
                listed.extend(self.settings_at(&submodule)?.into_iter().filter(|entry| !entry.is_users));
                open.push(submodule);
            }
        }
        Ok(listed)
    }

    /// Lists the settings of all nested repositories. A command that changes files can turn any nested repository into a
    /// submodule, and then look for changes in it.
    pub(super) fn settings_of_nested(&self) -> Result<Vec<Entry>, HostcallError> {
        let Some(top) = self.top(&self.here())? else { return Ok(Vec::new()) };
        let (mut listed, mut open, mut folders, mut repositories) = (Vec::new(), vec![top], 0, 0);
        while let Some(folder) = open.pop() {
            folders += 1;
            if folders > MAX_FOLDERS {
                return Err(self.refusal(&format!("git in a repository with more than {MAX_FOLDERS} folders")));
            }
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let is_repository = entry.file_name().eq_ignore_ascii_case(".git");
                if is_repository && folders > 1 {
                    repositories += 1;
                    if repositories > MAX_SUBMODULES {
                        let what = format!("git with more than {MAX_SUBMODULES} repositories inside a repository");
                        return Err(self.refusal(&what));
                    }
                    let entries =
                        Repository::inside(folder.clone()).map(|nested| self.settings_at(&nested)).transpose()?;
                    listed.extend(entries.into_iter().flatten().filter(|entry| !entry.is_users));
                } else if !is_repository && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
        Ok(listed)
    }

    /// Returns the error for a repository in which git may not run.
    pub(super) fn refusal(&self, what: &str) -> HostcallError {
        let hint = format!("exec:{} * permits it", self.command);
        Reason::Scope.refusal("exec", "exec", what).with("hint", hint)
    }

    fn here(&self) -> Repository<'_> {
        Repository {
            path: self.cwd.to_owned(),
            folder: Arc::clone(self.folder),
            globals: &self.globals,
            is_inner: false,
        }
    }

    fn settings_at(&self, repository: &Repository<'_>) -> Result<Vec<Entry>, HostcallError> {
        // If listing fails, the call itself fails as well and reports the reason: no repository, or a broken file.
        let entries =
            parse(&self.run(repository, &["config", "--list", "-z", "--show-scope", "--show-origin"], |_| true)?.text);
        for entry in entries.iter().filter(|entry| !entry.is_users && entry.key == "core.worktree") {
            if !self.works_here(repository, &entry.value)? && guard!(ExecGitWorkTree) {
                return Err(Reason::Scope
                    .refusal("exec", "exec", "git in a repository whose work tree is elsewhere (core.worktree)")
                    .with("hint", format!("it would write its files there; exec:{} * permits it", self.command)));
            }
        }
        Ok(entries)
    }

    /// Returns whether the work tree that a repository configures is the folder that contains the repository.
    fn works_here(&self, repository: &Repository<'_>, work_tree: &str) -> Result<bool, HostcallError> {
        let found = if repository.is_inner {
            Some((repository.path.clone(), git_folder(&repository.path)))
        } else {
            self.found_in(repository)?
        };
        let is_it = |(top, git): (PathBuf, PathBuf)| {
            let named = git.join(work_tree).canonicalize();
            matches!((named, top.canonicalize()), (Ok(named), Ok(top)) if named == top)
        };
        Ok(found.is_some_and(is_it))
    }

    /// Returns the folder in which git finds the repository of the call, and the repository's own folder.
    fn found_in(&self, repository: &Repository<'_>) -> Result<Option<(PathBuf, PathBuf)>, HostcallError> {
        let git = self.run_for_path(repository, "--absolute-git-dir")?.and_then(|git| git.canonicalize().ok());
        let from = changed_folder(&repository.path, repository.globals).canonicalize().ok();
        let (Some(git), Some(from)) = (git, from) else { return Ok(None) };
        let is_it = |top: &&Path| git_folder(top).canonicalize().is_ok_and(|found| found == git);
        Ok(from.ancestors().find(is_it).map(|top| (top.to_owned(), git.clone())))
    }

    /// Returns the repository's own folders: that of the call, and the one that it shares with other work trees. If git finds no
    /// repository, these are all that it may have tried.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>, HostcallError> {
        let options = ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"];
        let GitOutput { text, is_success, .. } = self.run(&self.here(), &options, |_| true)?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let found: Vec<PathBuf> = lines.map(|line| PathBuf::from(OsStr::from_bytes(line))).collect();
        if is_success && found.len() == 2 {
            return Ok(found);
        }
        let from = changed_folder(self.cwd, &self.globals);
        let tried = from.ancestors().filter(|top| top.join(".git").symlink_metadata().is_ok());
        Ok(tried.map(git_folder).collect())
    }

    /// Returns the top folder of the work tree; `None` if there is no work tree.
    fn top(&self, repository: &Repository<'_>) -> Result<Option<PathBuf>, HostcallError> {
        self.run_for_path(repository, "--show-toplevel")
    }

    fn run_for_path(&self, repository: &Repository<'_>, option: &str) -> Result<Option<PathBuf>, HostcallError> {
        let GitOutput { text, is_success, .. } = self.run(repository, &["rev-parse", option], |_| true)?;
        let path = text.strip_suffix(b"\n").filter(|path| is_success && !path.is_empty());
        Ok(path.map(|path| PathBuf::from(OsStr::from_bytes(path))))
    }

    /// Returns the folders that the index lists as submodules.
    fn submodules(&self, repository: &Repository<'_>) -> Result<Vec<PathBuf>, HostcallError> {
        let is_link = |record: &[u8]| record.starts_with(b"160000 ") || leads_out(record);
        let GitOutput { text, is_success, has_errors } =
            self.run(repository, &["ls-files", "--stage", "--full-name", "-z", ":/"], is_link)?;
        if text.split(|byte| *byte == 0).any(leads_out) && guard!(ExecGitIndexNames) {
            return Err(self.refusal("git in a repository whose index names files outside of it"));
        }
        let is_whole = (is_success && !has_errors) || !guard!(ExecGitWholeIndex);
        if is_whole && text.is_empty() {
            return Ok(Vec::new());
        }
        let Some(top) = self.top(repository)? else { return Ok(Vec::new()) };
        if !is_whole {
            // In a sparse index, for example, the call would fetch the missing folders from a server and enter their submodules.
            return Err(self.refusal("git in a repository whose index cannot be listed"));
        }
        let paths = text.split(|byte| *byte == 0).filter_map(path_of);
        Ok(paths.map(|path| top.join(OsStr::from_bytes(path))).collect())
    }

    /// Returns the environment for a listing run of git.
    fn environment(&self, is_inner: bool) -> BTreeMap<String, String> {
        let is_left = |name: &str| {
            name.ends_with("_PATHSPECS")
                || name.starts_with("GIT_TRACE")
                || (is_inner && OF_ONE_REPOSITORY.contains(&name))
        };
        let kept = self.env.iter().filter(|(name, _)| !is_left(name));
        let mut env: BTreeMap<String, String> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        if guard!(ExecGitOwnRuns) {
            env.extend(VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            let mut settings = Settings(&mut env);
            SETTINGS.iter().for_each(|(key, value)| settings.add(key, value));
        }
        env
    }

    /// Runs git and returns the NUL-terminated records of its output for which `kept` returns `true`.
    fn run(
        &self,
        repository: &Repository<'_>,
        args: &[&str],
        kept: fn(&[u8]) -> bool,
    ) -> Result<GitOutput, HostcallError> {
        let failed = |error: io::Error| HostcallError::io("EIO", "git config", format!("exec: git config: {error}"));
        let start_git = StartOptions {
            program: self.git.clone(),
            name: "git".to_owned(),
            args: repository.globals.iter().chain(args).map(|word| (*word).to_owned()).collect(),
            env: self.environment(repository.is_inner),
            folder: Arc::clone(&repository.folder),
            held: None,
            cwd: repository.path.clone(),
            has_stdin: false,
            joins_streams: false,
            is_own: false,
            view: self.view.clone(),
            bounds: None,
        };
        // Dropping the tree stops the program.
        let Child { stdout, stderr, ended, tree, .. } = start(start_git, self.options).map_err(failed)?;
        let (sender, receiver) = mpsc::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (errors_sender, errors_receiver) = mpsc::channel();
        let read_errors = move || {
            // The receiver may have been dropped.
            let _ = errors_sender.send(has_errors(stderr));
        };
        thread("pijs-git-errors").spawn(read_errors).map_err(failed)?;
        let read = move || {
            let read = read_records(stdout, kept);
            // The receiver may have been dropped.
            let _ = sender.send(read.map(|text| (text, ended.blocking_recv().ok())));
        };
        thread("pijs-git").spawn(read).map_err(failed)?;
        let read = receiver.recv_timeout(DEADLINE).and_then(|read| Ok((read, errors_receiver.recv_timeout(DEADLINE)?)));
        drop(tree);
        let Ok((read, has_errors)) = read else {
            return Err(HostcallError::io("ETIMEDOUT", "git config", "exec: git did not list its settings in time"));
        };
        match read.map_err(failed)? {
            (text, Some(ProgramExit { code: Some(code), .. }))
                if text.len() as u64 <= MAX_BYTES && code != UNKNOWN_OPTION =>
            {
                Ok(GitOutput { text, is_success: code == 0, has_errors })
            }
            // There are too many settings, or git cannot report their origin or was stopped.
            _ => Err(Reason::Scope
                .refusal("exec", "exec", "git, whose settings cannot be listed")
                .with("hint", format!("git 2.31 or newer is needed; exec:{} * permits every use of it", self.command))),
        }
    }
}

/// Reads records up to a little more than [`MAX_BYTES`], so that the caller can detect too many.
fn read_records(output: impl io::Read, kept: fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let (mut output, mut text) = (BufReader::new(output), Vec::new());
    while text.len() as u64 <= MAX_BYTES {
        let mut record = Vec::new();
        if output.by_ref().take(MAX_BYTES + 1).read_until(0, &mut record)? == 0 {
            break;
        }
        if kept(&record) {
            text.extend(record);
        }
    }
    Ok(text)
}

/// Returns whether the error output of git, which runs in the C locale, reports an error.
fn has_errors(errors: impl io::Read) -> bool {
    let (mut errors, mut line, mut found) = (BufReader::new(errors), Vec::new(), false);
    while matches!(errors.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(1..)) {
        found |= line.starts_with(b"error:") || line.starts_with(b"fatal:");
        line.clear();
    }
    found
}

/// Returns the path in a record of the index.
fn path_of(record: &[u8]) -> Option<&[u8]> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    Some(&record[tab + 1..])
}

/// Returns whether a record of the index names a file outside of the work tree, or in a repository's own folder. Git writes no
/// such record, but obeys one that it reads.
fn leads_out(record: &[u8]) -> bool {
    let path = path_of(record).unwrap_or_default();
    path.starts_with(b"/")
        || path.split(|byte| *byte == b'/').any(|name| name == b".." || name.eq_ignore_ascii_case(b".git"))
}

/// Returns the options before git's command, which select the repository.
pub(super) fn global_options<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut options = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        options.push(*word);
        if GIT_OPTIONS_WITH_VALUE.contains(word) {
            options.extend(words.next());
        }
    }
    let is_other = |option: &str| option.ends_with("-pathspecs") || option.starts_with("--list-cmds");
    options.retain(|option| !matches!(*option, "--version" | "--help" | "-h" | "-v" | "-p" | "--paginate"));
    options.retain(|option| !is_other(option));
    options
}

/// Parses `SCOPE NUL ORIGIN NUL KEY LF VALUE NUL` records; a key without a value has no line feed.
fn parse(text: &[u8]) -> Vec<Entry> {
    let mut parts = text.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    while let (Some(scope), Some(origin), Some(setting)) = (parts.next(), parts.next(), parts.next()) {
        let end = setting.iter().position(|byte| *byte == b'\n');
        let (key, value) = end.map_or((setting, &b"true"[..]), |at| (&setting[..at], &setting[at + 1..]));
        // Settings from the environment were set by the call.
        if scope != b"command" {
            entries.push(Entry {
                is_users: matches!(scope, b"system" | b"global"),
                is_text: std::str::from_utf8(key).is_ok(),
                key: String::from_utf8_lossy(key).into_owned(),
                value: String::from_utf8_lossy(value).into_owned(),
                file: String::from_utf8_lossy(origin.strip_prefix(b"file:").unwrap_or_default()).into_owned(),
            });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_where_a_setting_comes_from() {
        let text = b"global\0file:/g\0user.name\nA\0local\0file:.git/config\0core.bare\0local\0blob:x\0a.b\nx\ny\0\
                     command\0command line:\0c.d\n1\0";
        let entries = parse(text);
        let known: Vec<_> = entries.iter().map(|e| (e.is_users, e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(known, [(true, "user.name", "A"), (false, "core.bare", "true"), (false, "a.b", "x\ny")]);
        assert_eq!(entries.iter().map(|entry| &*entry.file).collect::<Vec<_>>(), ["/g", ".git/config", ""]);
        assert_eq!(global_options(&["-C", "sub", "--no-pager", "log", "-n", "1"]), ["-C", "sub", "--no-pager"]);
        assert_eq!(global_options(&["--version"]), [""; 0]);
    }

    #[test]
    fn a_key_that_is_no_text_is_known_as_such() {
        let entries = parse(b"local\0\0filter.\xff.clean\nx\0local\0\0filter.f.clean\n\xff\0");
        assert_eq!(entries.iter().map(|entry| entry.is_text).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_record_of_the_index_stays_in_the_work_tree() {
        let of = |path: &str| leads_out(format!("100644 0123 0\t{path}").as_bytes());
        for path in ["../a", "a/../../b", "/etc/passwd", ".git/config", "sub/.GIT/hooks/x"] {
            assert!(of(path), "{path}");
        }
        for path in ["a", "a/b..c", "..a/b", ".github/x", "a.git/x", "sparse/"] {
            assert!(!of(path), "{path}");
        }
        assert!(!leads_out(b""));
    }

    #[test]
    fn errors_are_found_between_other_lines() {
        let long = [b"warning: ", &vec![b'x'; 200_000][..], b"\nerror: Could not read\nhint: y\n"].concat();
        assert!(has_errors(&long[..]) && has_errors(&b"fatal: x"[..]));
        assert!(!has_errors(&b"warning: error: x\n"[..]));
    }
}
