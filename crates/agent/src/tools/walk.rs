//! The files below a directory, by the rules of `.gitignore`.

use super::ToolContext;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use pijs_protocol::globs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deeper directories are not entered.
const MAX_DEPTH: usize = 64;
/// Directories looked into by one walk.
const MAX_DIRECTORIES: usize = 50_000;
/// Lines of a file of rules that are read.
const MOST_RULES: usize = 10_000;

/// One file or directory of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Seen from the start of the walk, with `/`.
    pub(super) relative: String,
    /// Where it is.
    pub(super) path: PathBuf,
    /// Whether it is a directory.
    pub(super) is_directory: bool,
}

/// A directory waiting to be looked into.
struct Open {
    found: Found,
    depth: usize,
    /// The rules that hold in it, outermost first.
    rules: Vec<Arc<Gitignore>>,
}

/// Everything below a directory in order of name, depth first. Links are not followed; `.git` is left
/// out; what cannot be listed is skipped.
pub(super) struct Walk {
    waiting: Vec<Open>,
    looked_into: usize,
}

impl Walk {
    /// A walk that has not begun.
    pub(super) fn below(root: &Path) -> Self {
        let found = Found { relative: String::new(), path: root.to_owned(), is_directory: true };
        Self { waiting: vec![Open { found, depth: 0, rules: Vec::new() }], looked_into: 0 }
    }

    /// The next file or directory; `None` after the last.
    pub(super) async fn next(&mut self, context: &ToolContext<'_>) -> Result<Option<Found>, String> {
        while let Some(open) = self.waiting.pop() {
            let found = open.found.clone();
            if found.is_directory {
                self.look_into(context, open).await?;
            }
            if !found.relative.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn look_into(&mut self, context: &ToolContext<'_>, open: Open) -> Result<(), String> {
        let Open { found, depth, mut rules } = open;
        if context.cancel.is_cancelled() {
            return Err("Operation aborted".to_owned());
        }
        self.looked_into += 1;
        if depth > MAX_DEPTH || self.looked_into > MAX_DIRECTORIES {
            return Ok(());
        }
        let Ok(listed) = context.system.list(&found.path).await else { return Ok(()) };
        for name in [".gitignore", ".ignore"] {
            if listed.iter().any(|item| item.name == name && item.is_file) {
                rules.extend(read_rules(context, &found.path, name).await.map(Arc::new));
            }
        }
        for item in listed.into_iter().rev() {
            let path = found.path.join(&item.name);
            let ours = (item.is_directory || item.is_file) && item.name != ".git";
            if !ours || ignored(&rules, &path, item.is_directory) {
                continue;
            }
            let relative =
                if found.relative.is_empty() { item.name } else { format!("{}/{}", found.relative, item.name) };
            let child = Found { relative, path, is_directory: item.is_directory };
            self.waiting.push(Open { found: child, depth: depth + 1, rules: rules.clone() });
        }
        Ok(())
    }
}

async fn read_rules(context: &ToolContext<'_>, directory: &Path, name: &str) -> Option<Gitignore> {
    let bytes = context.system.read(&directory.join(name)).await.ok()?;
    let directory = directory.to_owned();
    // Thousands of rules take long, and others wait.
    tokio::task::spawn_blocking(move || rules(&directory, &bytes)).await.ok()?
}

fn rules(directory: &Path, bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(directory);
    for line in String::from_utf8_lossy(bytes).lines().take(MOST_RULES).filter(|line| globs::fits(line)) {
        // A line that is no pattern is no rule, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

/// The innermost rule that says something decides.
fn ignored(rules: &[Arc<Gitignore>], path: &Path, is_directory: bool) -> bool {
    rules
        .iter()
        .rev()
        .map(|rules| rules.matched(path, is_directory))
        .find(|matched| !matched.is_none())
        .is_some_and(|matched| matched.is_ignore())
}
