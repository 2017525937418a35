//! Walks the files below a directory under the rules of ignore files, like ripgrep and fd.
//!
//! `.ignore` files apply everywhere. `.gitignore` files apply inside a repository, from its root down, and not beyond the root of
//! a nested repository; outside of a repository they apply only if the caller requests it. Ignore files above the start apply as
//! well.

use super::ToolContext;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::Override;
use pijs_protocol::globs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum depth of directories that are entered.
const MAX_DEPTH: usize = 64;
/// Maximum number of directories that one walk reads.
const MAX_DIRECTORIES: usize = 50_000;
/// Maximum number of lines of an ignore file that are read.
const MAX_RULES: usize = 10_000;

/// A file or directory of the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WalkEntry {
    /// Path relative to the start of the walk, with `/`.
    pub(super) relative: String,
    /// The absolute path.
    pub(super) path: PathBuf,
    /// Whether the entry is a directory.
    pub(super) is_directory: bool,
}

/// A directory that has not been read yet.
struct PendingDirectory {
    found: WalkEntry,
    depth: usize,
    /// Ignore rules that apply in the directory.
    rules: IgnoreRules,
}

/// Rules of ignore files, outermost first.
#[derive(Debug, Clone, Default)]
struct IgnoreRules {
    /// Whether `.gitignore` files apply here.
    is_in_repository: bool,
    ignore: Vec<Arc<Gitignore>>,
    gitignore: Vec<Arc<Gitignore>>,
}

impl IgnoreRules {
    /// Adds the ignore files of a directory to the rules.
    async fn enter(&mut self, context: &ToolContext<'_>, directory: &Path, has: impl Fn(&str) -> bool) {
        if has(".git") {
            self.is_in_repository = true;
            self.gitignore.clear();
        }
        if has(".ignore") {
            self.ignore.extend(read_rules(context, directory, ".ignore").await.map(Arc::new));
        }
        if self.is_in_repository && has(".gitignore") {
            self.gitignore.extend(read_rules(context, directory, ".gitignore").await.map(Arc::new));
        }
    }

    /// Returns whether the innermost matching rule ignores a path; `.ignore` has precedence over `.gitignore`.
    fn ignore(&self, path: &Path, is_directory: bool) -> bool {
        let innermost_first = self.ignore.iter().rev().chain(self.gitignore.iter().rev());
        innermost_first
            .map(|rules| rules.matched(path, is_directory))
            .find(|matched| !matched.is_none())
            .is_some_and(|matched| matched.is_ignore())
    }
}

/// Iterates over everything below a directory, depth first and sorted by name. Skips `.git` and directories that cannot be
/// listed, and does not follow links.
pub(super) struct FileWalk {
    waiting: Vec<PendingDirectory>,
    looked_into: usize,
    chosen: Override,
}

impl FileWalk {
    /// Begins a walk. `chosen` has precedence over all ignore files. With `everywhere`, `.gitignore` also applies outside of
    /// repositories.
    pub(super) async fn below(context: &ToolContext<'_>, root: &Path, chosen: Override, everywhere: bool) -> Self {
        // Removes `.` components: rules match against names.
        let root: PathBuf = root.components().collect();
        let rules = above(context, &root, everywhere).await;
        let found = WalkEntry { relative: String::new(), path: root, is_directory: true };
        Self { waiting: vec![PendingDirectory { found, depth: 0, rules }], looked_into: 0, chosen }
    }

    /// Returns the next file or directory; `None` at the end.
    pub(super) async fn next(&mut self, context: &ToolContext<'_>) -> Result<Option<WalkEntry>, String> {
        while let Some(open) = self.waiting.pop() {
            let found = open.found.clone();
            if found.is_directory {
                self.read_directory(context, open).await?;
            }
            if !found.relative.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn read_directory(&mut self, context: &ToolContext<'_>, open: PendingDirectory) -> Result<(), String> {
        let PendingDirectory { found, depth, mut rules } = open;
        if context.cancel.is_cancelled() {
            return Err("Operation aborted".to_owned());
        }
        self.looked_into += 1;
        if depth > MAX_DEPTH || self.looked_into > MAX_DIRECTORIES {
            return Ok(());
        }
        let Ok(listed) = context.system.list(&found.path).await else { return Ok(()) };
        let has = |name: &str| listed.iter().any(|item| item.name == name && (item.is_file || name == ".git"));
        rules.enter(context, &found.path, has).await;
        for item in listed.into_iter().rev() {
            let path = found.path.join(&item.name);
            let ours = (item.is_directory || item.is_file) && item.name != ".git";
            let is_left_out = || match self.chosen.matched(&path, item.is_directory) {
                Match::None => rules.ignore(&path, item.is_directory),
                chosen => chosen.is_ignore(),
            };
            if !ours || is_left_out() {
                continue;
            }
            let relative =
                if found.relative.is_empty() { item.name } else { format!("{}/{}", found.relative, item.name) };
            let child = WalkEntry { relative, path, is_directory: item.is_directory };
            self.waiting.push(PendingDirectory { found: child, depth: depth + 1, rules: rules.clone() });
        }
        Ok(())
    }
}

/// Returns the rules of ignore files above the start, up to the root of its repository or, outside of a repository, to the
/// session's folder.
async fn above(context: &ToolContext<'_>, root: &Path, everywhere: bool) -> IgnoreRules {
    let is_there = async |path: PathBuf| context.system.kind(&path).await.is_ok();
    let mut repository = None;
    for folder in root.ancestors().take(MAX_DEPTH) {
        if is_there(folder.join(".git")).await {
            repository = Some(folder);
            break;
        }
    }
    let mut rules = IgnoreRules { is_in_repository: repository.is_some() || everywhere, ..IgnoreRules::default() };
    let outermost = repository.unwrap_or(context.cwd);
    let mut folders: Vec<&Path> = root.ancestors().skip(1).take_while(|folder| folder.starts_with(outermost)).collect();
    while let Some(folder) = folders.pop() {
        let files = [is_there(folder.join(".ignore")).await, is_there(folder.join(".gitignore")).await];
        rules
            .enter(context, folder, |name| (name == ".ignore" && files[0]) || (name == ".gitignore" && files[1]))
            .await;
    }
    rules
}

async fn read_rules(context: &ToolContext<'_>, directory: &Path, name: &str) -> Option<Gitignore> {
    let bytes = context.system.read(&directory.join(name)).await.ok()?;
    let directory = directory.to_owned();
    // Runs on a blocking thread, because thousands of rules take long to compile.
    tokio::task::spawn_blocking(move || rules(&directory, &bytes)).await.ok()?
}

fn rules(directory: &Path, bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(directory);
    for line in String::from_utf8_lossy(bytes).lines().take(MAX_RULES).filter(|line| globs::fits(line)) {
        // As in git, an invalid pattern is ignored.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
