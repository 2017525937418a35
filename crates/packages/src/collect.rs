//! Finds skills, prompt templates and themes in a folder.
//!
//! Follows pi's rules: skips hidden names, `node_modules` and the patterns of `.gitignore`, `.ignore` and `.fdignore`. A folder
//! with a `SKILL.md` is one skill; other Markdown files count as skills only at the top level. Results are sorted by name.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use pijs_durable::read_regular;
use pijs_protocol::{globs, guard};
use std::fs;
use std::path::{Path, PathBuf};

/// Kinds of resources that a package provides besides extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    /// Instructions for the model.
    Skills,
    /// Templates of user messages.
    Prompts,
    /// Colours of the terminal.
    Themes,
}

impl ResourceKind {
    pub(crate) const ALL: [Self; 3] = [Self::Skills, Self::Prompts, Self::Themes];

    /// Returns the key in `pi` of package.json and in settings, which is also the name of the folder.
    pub fn key(self) -> &'static str {
        match self {
            Self::Skills => "skills",
            Self::Prompts => "prompts",
            Self::Themes => "themes",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Skills | Self::Prompts => "md",
            Self::Themes => "json",
        }
    }

    pub(crate) fn is_file(self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == self.extension()) && path.is_file()
    }
}

/// Depth to which a folder is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchDepth {
    /// All levels: for the folder of a package, or a folder that the user named.
    Whole,
    /// Only the files in the folder: for `prompts` or `themes` of a scope.
    Flat,
    /// For `.agents/skills`: Markdown files count below the top level, but not at it.
    Agents,
}

/// Maximum depth of a search. A deeper path is most likely a cycle of links.
const MAX_DEPTH: usize = 12;
/// Maximum number of files of one folder.
const MAX_FILES: usize = 10_000;
/// Maximum number of folders of one search over all levels: two links to their own folder double the number with each level.
const MAX_FOLDERS: usize = 10_000;
/// Maximum size of an ignore file that is read, in bytes.
const MAX_PATTERNS: u64 = 1 << 20;
/// Maximum number of lines of an ignore file.
const MAX_RULES: usize = 10_000;
const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".fdignore"];

/// Returns the files of one kind in a folder; empty if the folder does not exist.
pub(crate) fn collect(kind: ResourceKind, folder: &Path, search: SearchDepth) -> Vec<PathBuf> {
    let mut walk = Walk { kind, search, folders: 0, ignored: Vec::new(), found: Vec::new() };
    walk.folder(folder, 0);
    walk.found
}

struct Walk {
    kind: ResourceKind,
    search: SearchDepth,
    /// Number of folders visited so far.
    folders: usize,
    /// Ignore rules of the folders from the top to this folder.
    ignored: Vec<Gitignore>,
    found: Vec<PathBuf>,
}

impl Walk {
    fn folder(&mut self, folder: &Path, depth: usize) {
        if self.folders >= MAX_FOLDERS && guard!(PackagesWalk) {
            return;
        }
        self.folders += 1;
        self.ignored.push(rules(folder));
        self.contents(folder, depth);
        self.ignored.pop();
    }

    fn contents(&mut self, folder: &Path, depth: usize) {
        if self.kind == ResourceKind::Skills {
            let declared = folder.join("SKILL.md");
            if declared.is_file() && !self.is_ignored(&declared, false) {
                self.found.push(declared);
                return;
            }
        }
        for path in shown(folder) {
            let is_folder = path.is_dir();
            if self.found.len() >= MAX_FILES || self.is_ignored(&path, is_folder) {
                continue;
            }
            if is_folder {
                if self.search != SearchDepth::Flat && depth < MAX_DEPTH {
                    self.folder(&path, depth + 1);
                }
            } else if self.counts_at(depth) && self.kind.is_file(&path) {
                self.found.push(path);
            }
        }
    }

    fn counts_at(&self, depth: usize) -> bool {
        match (self.kind, self.search) {
            (ResourceKind::Skills, SearchDepth::Agents) => depth > 0,
            (ResourceKind::Skills, _) => depth == 0,
            _ => true,
        }
    }

    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let verdicts = self.ignored.iter().rev().map(|rules| rules.matched(path, is_folder));
        verdicts
            .into_iter()
            .find(|verdict| !verdict.is_none())
            .is_some_and(|verdict| matches!(verdict, Match::Ignore(_)))
    }
}

/// Reads the ignore files of a folder.
pub(crate) fn rules(folder: &Path) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for name in IGNORE_FILES {
        let file = folder.join(name);
        let Ok(bytes) = read_regular(&file, MAX_PATTERNS) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        for line in text.trim_start_matches('\u{feff}').lines().take(MAX_RULES).filter(|line| globs::fits(line)) {
            // An invalid pattern is ignored, as in git.
            let _ = builder.add_line(Some(file.clone()), line);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns whether the rules of one folder ignore a path in it.
pub(crate) fn is_ignored_by(rules: &Gitignore, path: &Path, is_folder: bool) -> bool {
    matches!(rules.matched(path, is_folder), Match::Ignore(_))
}

/// Lists a folder by name, without hidden names and `node_modules`.
fn shown(folder: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(folder) else { return Vec::new() };
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| !name.starts_with('.') && name != "node_modules")
    };
    let mut found: Vec<PathBuf> = listing.filter_map(|item| Some(item.ok()?.path())).filter(named).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn names(folder: &tempfile::TempDir, kind: ResourceKind, search: SearchDepth) -> Vec<String> {
        let relative = |path: PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
        collect(kind, folder.path(), search).into_iter().map(relative).collect()
    }

    #[test]
    fn skills_are_found_by_pis_rules() {
        let folder = tree(&[
            ("a/SKILL.md", ""),
            ("a/deeper/SKILL.md", ""),
            ("b.md", ""),
            ("group/c/SKILL.md", ""),
            ("group/d.md", ""),
            ("node_modules/x/SKILL.md", ""),
            (".hidden/SKILL.md", ""),
        ]);
        assert_eq!(
            names(&folder, ResourceKind::Skills, SearchDepth::Whole),
            ["a/SKILL.md", "b.md", "group/c/SKILL.md"]
        );
        let agents = names(&folder, ResourceKind::Skills, SearchDepth::Agents);
        assert_eq!(agents, ["a/SKILL.md", "group/c/SKILL.md", "group/d.md"]);
    }

    /// Links make each level contain the folders of the level above several times; the search must end.
    #[cfg(unix)]
    #[test]
    fn a_search_through_circular_links_ends() {
        // The links lead to no files, so the limit on files does not end the walk.
        let folder = tree(&[("z.md", "")]);
        for name in ["b", "c", "d", "e", "f", "g"] {
            std::os::unix::fs::symlink(".", folder.path().join(name)).unwrap();
        }
        assert_eq!(names(&folder, ResourceKind::Skills, SearchDepth::Whole), ["z.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_patterns_without_an_end_is_none() {
        let folder = tree(&[("a/SKILL.md", "")]);
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(".gitignore")).unwrap();
        assert_eq!(names(&folder, ResourceKind::Skills, SearchDepth::Whole), ["a/SKILL.md"]);
    }

    #[test]
    fn ignored_files_are_skipped_unless_a_lower_ignore_file_reincludes_them() {
        let folder = tree(&[
            (".gitignore", "*.md\n!keep.md\nout/\n"),
            ("keep.md", ""),
            ("drop.md", ""),
            ("in/.fdignore", "!again.md\n"),
            ("in/again.md", ""),
            ("in/drop.md", ""),
            ("out/keep.md", ""),
        ]);
        assert_eq!(names(&folder, ResourceKind::Prompts, SearchDepth::Whole), ["in/again.md", "keep.md"]);
        assert_eq!(names(&folder, ResourceKind::Prompts, SearchDepth::Flat), ["keep.md"]);
    }
}
