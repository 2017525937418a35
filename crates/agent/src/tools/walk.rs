//! The files below a directory, by the rules of `.gitignore`.

use super::ToolContext;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Deeper directories are not entered.
const MAX_DEPTH: usize = 64;
/// Directories looked into by one walk.
const MAX_DIRECTORIES: usize = 50_000;

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
    rules: Vec<Rc<Gitignore>>,
}

/// Everything below `root` in order of name, depth first, until `visit` says stop. Links are not
/// followed; `.git` is left out; what cannot be listed is skipped.
pub(super) async fn walk(
    context: &ToolContext<'_>,
    root: &Path,
    mut visit: impl AsyncFnMut(&Found) -> bool,
) -> Result<(), String> {
    let start = Found { relative: String::new(), path: root.to_owned(), is_directory: true };
    let mut waiting = vec![Open { found: start, depth: 0, rules: Vec::new() }];
    let mut looked_into = 0;
    while let Some(Open { found, depth, mut rules }) = waiting.pop() {
        if !found.relative.is_empty() && !visit(&found).await {
            return Ok(());
        }
        if !found.is_directory {
            continue;
        }
        if context.cancel.is_cancelled() {
            return Err("Operation aborted".to_owned());
        }
        looked_into += 1;
        if depth > MAX_DEPTH || looked_into > MAX_DIRECTORIES {
            continue;
        }
        let Ok(listed) = context.system.list(&found.path).await else { continue };
        for name in [".gitignore", ".ignore"] {
            if listed.iter().any(|item| item.name == name && item.is_file) {
                rules.extend(read_rules(context, &found.path, name).await.map(Rc::new));
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
            waiting.push(Open { found: child, depth: depth + 1, rules: rules.clone() });
        }
    }
    Ok(())
}

async fn read_rules(context: &ToolContext<'_>, directory: &Path, name: &str) -> Option<Gitignore> {
    let bytes = context.system.read(&directory.join(name)).await.ok()?;
    let mut builder = GitignoreBuilder::new(directory);
    for line in String::from_utf8_lossy(&bytes).lines() {
        // A line that is no pattern is no rule, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

/// The innermost rule that says something decides.
fn ignored(rules: &[Rc<Gitignore>], path: &Path, is_directory: bool) -> bool {
    rules
        .iter()
        .rev()
        .map(|rules| rules.matched(path, is_directory))
        .find(|matched| !matched.is_none())
        .is_some_and(|matched| matched.is_ignore())
}
