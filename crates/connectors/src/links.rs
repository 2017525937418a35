//! Finds symbolic links in folders. A protected name that is a link extends the protection to the link's target.

use pijs_hostcall::places::{Places, normal};
use pijs_protocol::guard;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Depth to which the folders of a project are searched: `sub/deep/conftest.py`, and one more.
const PROJECT_DEPTH: usize = 3;

/// Maximum number of entries of one folder that are checked, so that a large folder leaves something for the others.
const MAX_FOLDER_ENTRIES: usize = 1000;

/// Names of context files, which pi reads in the folders above a project as well.
const CONTEXT_FILES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];

/// Folder of dependencies. Its programs are links to files of packages in it.
const PACKAGES: &str = "node_modules";

/// Returns the links in a folder and in the folders below it, those nearest to the top first.
pub fn links_below(folder: &Path, max_depth: usize, max_entries: usize) -> Vec<PathBuf> {
    let mut open = VecDeque::from([(folder.to_owned(), 0)]);
    let (mut links, mut entries) = (Vec::new(), 0);
    while let Some((folder, depth)) = open.pop_front().filter(|_| guard!(PlacesLinkedEntries)) {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            entries += 1;
            let kind = entry.file_type().ok().filter(|_| entries <= max_entries);
            if kind.is_some_and(|kind| kind.is_symlink()) {
                links.push(entry.path());
            } else if kind.is_some_and(|kind| kind.is_dir()) && depth < max_depth {
                open.push_back((entry.path(), depth + 1));
            }
        }
    }
    links
}

/// Returns the links of a project that are called like files which tools or prompts obey, such as `Makefile`, `sub/.envrc` or
/// `.git/hooks/pre-commit`, those nearest to the top first, and those above it: context files, and links near the top of a folder
/// of the same repository.
pub fn obeyed_links(project: &Path, home: &Path, max_entries: usize) -> Vec<PathBuf> {
    let mut links = obeyed_links_below(project, PROJECT_DEPTH, max_entries);
    if !guard!(PlacesLinkedSubfolders) {
        return links;
    }
    let is_repository = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let top = project.ancestors().take_while(|folder| *folder != home).find(is_repository);
    for folder in project.ancestors().skip(1) {
        if top.is_some_and(|top| folder.starts_with(top)) {
            let found = obeyed_links_below(folder, 1, max_entries);
            links.extend(found.into_iter().filter(|link| !link.starts_with(project)));
        } else {
            links.extend(CONTEXT_FILES.map(|name| folder.join(name)).into_iter().filter(|file| file.is_symlink()));
        }
    }
    links
}

fn obeyed_links_below(top: &Path, max_depth: usize, max_entries: usize) -> Vec<PathBuf> {
    let mut open = VecDeque::from([(top.to_owned(), 0)]);
    let (mut links, mut entries) = (Vec::new(), 0);
    while let Some((folder, depth)) = open.pop_front() {
        let most = if depth == 0 { max_entries } else { MAX_FOLDER_ENTRIES };
        for entry in folder.read_dir().into_iter().flatten().flatten().take(most) {
            entries += 1;
            let Some(kind) = entry.file_type().ok().filter(|_| entries <= max_entries) else { continue };
            let (path, name) = (entry.path(), entry.file_name());
            if kind.is_symlink() && path.strip_prefix(top).is_ok_and(Places::is_obeyed) && !leads_to_package(&path) {
                links.push(path);
            } else if kind.is_dir() && name == PACKAGES {
                open.push_back((path.join(".bin"), max_depth));
            } else if kind.is_dir() && depth < max_depth {
                let below = match name.as_encoded_bytes() {
                    // Only files at the top of a repository, and hooks, are programs or name some.
                    b".git" => max_depth - 1,
                    // Settings of tools, which may have folders of their own.
                    [b'.', ..] => depth,
                    _ => depth + 1,
                };
                if below == 0 || guard!(PlacesLinkedSubfolders) {
                    open.push_back((path, below));
                }
            }
        }
    }
    links
}

/// Returns whether a link leads to a package among the dependencies, whose other files are no better protected.
fn leads_to_package(link: &Path) -> bool {
    let Ok(target) = link.read_link() else { return false };
    let target = normal(link.parent().unwrap_or(link), &target);
    let packages = link.ancestors().find(|folder| folder.ends_with(PACKAGES));
    packages.is_some_and(|packages| target.starts_with(packages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_found_below_and_above_a_project_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        symlink("elsewhere", at.join("AGENTS.md")).expect("a link");
        let (repository, project) = (at.join("repo"), at.join("repo/app"));
        let link = |path: &str, target: &str| {
            let path = repository.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            symlink(target, path).expect("a link");
        };
        for path in [".git/hooks/pre-commit", "Makefile", ".husky/pre-push", ".github/workflows/ci.yml"] {
            link(path, "elsewhere");
        }
        for path in [
            "Makefile",
            "sub/.envrc",
            "sub/deep/conftest.py",
            "sub/.github/workflows/ci.yml",
            "notes.md",
            "a/b/c/d/Makefile",
        ] {
            link(&format!("app/{path}"), "elsewhere");
        }
        link("app/node_modules/.bin/own", "../../lib/own.js");
        link("app/node_modules/.bin/tool", "../tool/cli.js");
        let mut found = obeyed_links(&project, &at, 1000);
        found.sort();
        found.dedup();
        let mut expected = [
            ".git/hooks/pre-commit",
            ".github/workflows/ci.yml",
            ".husky/pre-push",
            "../AGENTS.md",
            "Makefile",
            "app/Makefile",
            "app/sub/.envrc",
            "app/sub/deep/conftest.py",
            "app/sub/.github/workflows/ci.yml",
            "app/node_modules/.bin/own",
        ]
        .map(|path| normal(&repository, Path::new(path)));
        expected.sort();
        assert_eq!(found, expected);
    }
}
