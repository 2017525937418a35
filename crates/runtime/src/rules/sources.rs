//! Finds and reads rule files.
//!
//! | folder | files | read |
//! |---|---|---|
//! | `.pi/rules` of the working folder | `*.md`, `*.mdc` | in a trusted folder |
//! | `~/.pi/rules` | `*.md`, `*.mdc` | always |
//! | `.omp/rules`, `~/.omp/agent/rules` | `*.md`, `*.mdc` | with `--rules-from omp` |
//! | `.cursor/rules`, `~/.cursor/rules` | `*.mdc`, `*.md` | with `--rules-from cursor` |
//! | none: compiled into the program | | with `--rules-from built-in` |
//!
//! Folders are read in the order of the table's first column, names in alphabetical order, and not recursively. If two rules have
//! the same name, the project's takes precedence.

use crate::environment::Environment;
use crate::trust::Trust;
use pijs_durable::open_real;
use pijs_hostcall::Places;
use pijs_protocol::guard;
use pijs_rules::file::{self, MAX_FILE};
use pijs_rules::{Format, Origin, ParsedFile};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

/// Maximum number of rule files of one folder: more than a session can use, and a limit of the work at every turn.
const MAX_FILES: usize = 10_000;

/// Optional sources of rules: another program, or the built-in ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleProgram {
    /// oh-my-pi
    Omp,
    /// Cursor
    Cursor,
    /// the rules that come with pi
    BuiltIn,
}

impl RuleProgram {
    /// All variants, by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("omp", Self::Omp), ("cursor", Self::Cursor), ("built-in", Self::BuiltIn)];
}

impl FromStr for RuleProgram {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, peer)| peer).ok_or(())
    }
}

/// Format of the files of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleFormat {
    /// The format that the extension of each file selects.
    ByPath,
    /// The format of another program.
    Of(Format),
}

/// A folder of rule files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleFolder {
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
    pub(crate) format: RuleFormat,
}

impl RuleFolder {
    fn parse(&self, path: &Path, bytes: &[u8]) -> ParsedFile {
        let format = match self.format {
            RuleFormat::ByPath => Format::of_path(path),
            RuleFormat::Of(format) => format,
        };
        file::parse_bytes(path, bytes, format, self.origin)
    }
}

/// The result of reading the folders.
#[derive(Debug, Default)]
pub(crate) struct RuleFileSet {
    pub(crate) files: Vec<ParsedFile>,
    /// Files and folders that cannot be read, each with the reason.
    pub(crate) problems: Vec<String>,
    /// Folder of an untrusted project that contains rules.
    pub(crate) untrusted: Option<PathBuf>,
}

/// State of all rule files: path, length and modification time of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleStamp(Vec<(PathBuf, u64, Option<SystemTime>)>);

/// The folders of a session's rule files.
#[derive(Debug, Clone)]
pub(crate) struct RuleSources {
    folders: Vec<RuleFolder>,
    /// All folders that were searched, including an untrusted project's.
    pub(crate) searched: Vec<PathBuf>,
    untrusted: Option<PathBuf>,
    /// Paths that a rule file must not link to; `None` for files that the user names.
    protected: Option<Places>,
}

impl RuleSources {
    /// Lists the folders of a session in this working folder. `peers` adds those of other programs. The project's are skipped
    /// unless it is trusted.
    pub(crate) fn of_session(environment: &Environment, peers: &[RuleProgram]) -> Self {
        Self::new(environment, peers, false)
    }

    /// Lists the same folders, always with the project's: reading rules needs no trust, applying them does.
    pub(crate) fn all(environment: &Environment, peers: &[RuleProgram]) -> Self {
        Self::new(environment, peers, true)
    }

    fn new(environment: &Environment, peers: &[RuleProgram], has_project: bool) -> Self {
        let (cwd, home) = (&environment.dirs.cwd, &environment.dirs.home);
        let is_trusted = Trust::read(environment).is_ok_and(|trust| trust.covers(cwd));
        let mut pairs = vec![(RuleFormat::ByPath, cwd.join(".pi/rules"), home.join(".pi/rules"))];
        for peer in peers {
            pairs.push(match peer {
                RuleProgram::Omp => {
                    (RuleFormat::Of(Format::Omp), cwd.join(".omp/rules"), home.join(".omp/agent/rules"))
                }
                RuleProgram::Cursor => {
                    (RuleFormat::Of(Format::Cursor), cwd.join(".cursor/rules"), home.join(".cursor/rules"))
                }
                // Built-in rules are in no folder.
                RuleProgram::BuiltIn => continue,
            });
        }
        let protected = Some(environment.places());
        let mut sources = Self { folders: Vec::new(), searched: Vec::new(), untrusted: None, protected };
        for (format, project, user) in pairs {
            // In the home both are the same folder, which belongs to the user.
            if project != user {
                sources.searched.push(project.clone());
                if !is_trusted && sources.untrusted.is_none() && has_rules(&project) {
                    sources.untrusted = Some(project.clone());
                }
                if is_trusted || has_project {
                    sources.folders.push(RuleFolder { path: project, origin: Origin::Project, format });
                }
            }
            sources.searched.push(user.clone());
            sources.folders.push(RuleFolder { path: user, origin: Origin::User, format });
        }
        sources
    }

    /// Uses only folders that the user named.
    pub(crate) fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let folder = |path| RuleFolder { path, origin: Origin::User, format: RuleFormat::ByPath };
        let folders: Vec<RuleFolder> = paths.into_iter().map(folder).collect();
        let searched = folders.iter().map(|folder| folder.path.clone()).collect();
        Self { folders, searched, untrusted: None, protected: None }
    }

    /// Reads all rule files. An unreadable file is a problem and does not affect the others.
    pub(crate) fn read(&self) -> RuleFileSet {
        let mut found = RuleFileSet { untrusted: self.untrusted.clone(), ..RuleFileSet::default() };
        for folder in &self.folders {
            for path in files(&folder.path, &mut found.problems) {
                match read_bytes(&path, self.protected.as_ref()) {
                    Ok(bytes) => found.files.push(folder.parse(&path, &bytes)),
                    Err(error) => found.problems.push(format!("{} cannot be read: {error}", path.display())),
                }
            }
        }
        found
    }

    /// Returns the state of the files, which changes when one is written, created or removed.
    pub(crate) fn stamp(&self) -> RuleStamp {
        let mut ignored = Vec::new();
        let files = self.folders.iter().flat_map(|folder| files(&folder.path, &mut ignored));
        RuleStamp(
            files
                .map(|path| {
                    let metadata = std::fs::metadata(&path).ok();
                    let length = metadata.as_ref().map_or(0, std::fs::Metadata::len);
                    (path, length, metadata.and_then(|metadata| metadata.modified().ok()))
                })
                .collect(),
        )
    }
}

/// Lists the rule files of a folder, or the file itself, by name. A missing folder is empty.
fn files(folder: &Path, problems: &mut Vec<String>) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if crate::user_error::is_missing(&error) => return Vec::new(),
        Err(error) => {
            problems.push(format!("{} cannot be read: {error}", folder.display()));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_rule_file(path)).collect();
    paths.sort();
    if paths.len() > MAX_FILES {
        problems.push(format!(
            "{}: only the first {MAX_FILES} of {} rule files are read",
            folder.display(),
            paths.len()
        ));
        paths.truncate(MAX_FILES);
    }
    paths
}

fn has_rules(folder: &Path) -> bool {
    !files(folder, &mut Vec::new()).is_empty()
}

fn is_rule_file(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(std::ffi::OsStr::to_str);
    !is_hidden && matches!(extension, Some("md" | "mdc")) && path.is_file()
}

/// Reads a file up to one byte more than the limit, so that the parser can report that it is too long.
///
/// With `protected`, rejects a link to a protected path: a user who trusts a project has not checked the targets of its links.
fn read_bytes(path: &Path, protected: Option<&Places>) -> io::Result<Vec<u8>> {
    let (mut file, real) = open_real(path)?;
    if protected.is_some_and(|places| places.is_withheld(&real)) && guard!(RulesProtected) {
        return Err(io::Error::other(format!("it is a link to {}, which is protected", real.display())));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn rule_files_are_read_by_name_without_folders_below_and_hidden_files() {
        let folder = tempfile::tempdir().expect("a folder");
        at(folder.path(), "b.md", "b");
        at(folder.path(), "a.mdc", "a");
        at(folder.path(), ".c.md", "hidden");
        at(folder.path(), "notes.txt", "no rule");
        at(folder.path(), "below/d.md", "too deep");
        let sources = RuleSources::of([folder.path().to_owned()]);
        let names: Vec<String> =
            sources.read().files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into()).collect();
        assert_eq!(names, ["a.mdc", "b.md"]);
    }

    #[test]
    fn a_project_s_rule_must_not_link_to_a_protected_file() {
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().canonicalize().expect("a path");
        at(&home, ".ssh/key.md", "private");
        at(&home, "project/.pi/rules/own.md", "own");
        std::os::unix::fs::symlink("../../../.ssh/key.md", home.join("project/.pi/rules/key.md")).expect("a link");
        let places = Places::new(home.join("project"), &home, home.join(".pi/agent"), "/tmp");
        let sources = RuleSources { protected: Some(places), ..RuleSources::of([home.join("project/.pi/rules")]) };
        let found = sources.read();
        assert_eq!(found.files.len(), 1, "{:?}", found.files);
        assert!(found.problems[0].contains("protected"), "{:?}", found.problems);
    }

    #[test]
    fn the_stamp_changes_with_a_new_file_and_a_longer_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = RuleSources::of([folder.path().to_owned()]);
        let empty = sources.stamp();
        at(folder.path(), "a.md", "a");
        let one = sources.stamp();
        at(folder.path(), "a.md", "longer");
        assert!(empty != one && one != sources.stamp());
        assert_eq!(sources.stamp(), sources.stamp());
    }
}
