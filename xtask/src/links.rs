//! Checks the links between the pages of the workspace, and that the book is complete.
//!
//! - **Links.** Every relative link of a Markdown page leads to a file or folder that exists; its `#anchor` is a heading of that
//!   page.
//! - **Book.** `docs/SUMMARY.md` lists every page of `docs/`. Pages of the book link to pages and pictures of the book only,
//!   because nothing else is published with it; references to other files are formatted as code.
//!
//! Markdown in `fixtures` and `src` is test input or data, and is not checked.

use crate::violation::{Violation, violation};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Root folder of the book's pages.
const BOOK: &str = "docs";

/// Table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Folders that contain no pages: output, dependencies, test input, and data of crates (rule files are Markdown).
const SKIPPED: &[&str] = &["target", "node_modules", "fixtures", "src"];

/// Returns the broken links, and the pages that the book does not list.
pub fn violations() -> Result<Vec<Violation>> {
    let root = crate::root();
    let pages = pages(&root)?;
    let mut found = Vec::new();
    for page in &pages {
        let text = read(&root.join(page))?;
        for link in links(&text) {
            if let Some(what) = broken(&root, page, &link)? {
                found.push(violation(page.display().to_string(), what));
            }
        }
    }
    found.extend(unlisted(&read(&root.join(SUMMARY))?, &pages));
    Ok(found)
}

/// Returns the Markdown pages below a folder, relative to it, in alphabetical order.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the targets of a page's links and pictures, except those in code.
pub fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line: String = line.split('`').step_by(2).collect();
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| target.split(' ').next().unwrap_or_default().to_owned()));
    }
    found
}

/// Returns the reason why a link of a page is broken.
fn broken(root: &Path, page: &Path, link: &str) -> Result<Option<String>> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { page.to_path_buf() } else { joined(page, path) };
    if !root.join(&target).exists() {
        return Ok(Some(format!("links to {link}, which does not exist")));
    }
    if page.starts_with(BOOK) && !target.starts_with(BOOK) {
        return Ok(Some(format!("links to {link}, which is not part of the book; name the file as code")));
    }
    let Some(anchor) = anchor else { return Ok(None) };
    let is_heading = anchors(&read(&root.join(&target))?).contains(anchor);
    Ok((!is_heading).then(|| format!("links to {link}; {} has no such heading", target.display())))
}

/// Resolves a link against the folder of its page.
fn joined(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// Returns the anchors of a page's headings, as GitHub and mdBook generate them.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    headings.map(anchor).collect()
}

/// Returns the pages of the book that its table of contents does not list.
pub fn unlisted(summary: &str, pages: &[PathBuf]) -> Vec<Violation> {
    let listed: BTreeSet<PathBuf> = links(summary).iter().map(|link| joined(Path::new(SUMMARY), link)).collect();
    let missing = pages.iter().filter(|page| page.starts_with(BOOK) && *page != Path::new(SUMMARY));
    let missing = missing.filter(|page| !listed.contains(*page));
    missing.map(|page| violation(SUMMARY, format!("does not list {}", page.display()))).collect()
}

/// Returns the lines of a page that are not part of a fenced block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
