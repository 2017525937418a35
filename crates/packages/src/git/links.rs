//! Replaces symbolic links of a repository by copies of their targets.
//!
//! In agent repositories `CLAUDE.md` is often a link to `AGENTS.md`, or `.claude/skills` a link to `.agents/skills`. The package
//! contains the file, or the files of the folder, under the link's name; no link is written or followed on disk. A link without a
//! target, or to a folder that contains it, is omitted with a warning. A package with a link that leaves the repository is
//! refused.

use crate::archive::InstallLimits;
use crate::error::{InstallCode, PackageError, Result};
use crate::source::printable;
use std::collections::BTreeMap;

/// Maximum number of links in the resolution of one path, as on Linux.
const MAX_HOPS: usize = 40;

/// A path of the tree in components.
type Parts = Vec<Vec<u8>>;

/// A file that replaces a link: its path and its content.
pub(super) type CopiedFile = (Vec<u8>, Vec<u8>);

/// Files and links of one tree.
pub(super) struct GitTree<'a> {
    files: BTreeMap<Parts, &'a [u8]>,
    links: BTreeMap<Parts, &'a [u8]>,
    limits: &'a InstallLimits,
}

/// Reason for which a link is omitted.
#[derive(Debug, PartialEq, Eq)]
enum Omitted {
    Leaves,
    NamesNothing,
    Circle,
    TooLarge,
}

impl<'a> GitTree<'a> {
    pub(super) fn new(limits: &'a InstallLimits) -> Self {
        Self { files: BTreeMap::new(), links: BTreeMap::new(), limits }
    }

    pub(super) fn file(&mut self, path: &[u8], content: &'a [u8]) {
        self.files.insert(parts(path), content);
    }

    pub(super) fn link(&mut self, path: &[u8], target: &'a [u8]) {
        self.links.insert(parts(path), target);
    }

    /// Lists the copies that replace links, and warnings about omitted links.
    pub(super) fn copies(&self) -> Result<(Vec<CopiedFile>, Vec<String>)> {
        let mut copies = Vec::new();
        let mut remarks = Vec::new();
        for link in self.links.keys() {
            let name = joined(link);
            let mut budget = CopyBudget::new(self, &copies);
            match self.copy(link, &mut vec![link.clone()], &mut budget) {
                Ok(found) => copies.extend(found.into_iter().map(|(below, bytes)| {
                    let path = link.iter().chain(&below).cloned().collect::<Parts>();
                    (joined(&path), bytes.to_vec())
                })),
                Err(Omitted::Leaves) => {
                    let why = "a link that leaves the repository; packages must not contain links";
                    return Err(PackageError::new(InstallCode::Link, shown(&name), why));
                }
                Err(Omitted::TooLarge) => {
                    let why = "more files or bytes than a package may have, with copies of the targets of links";
                    return Err(PackageError::new(InstallCode::Size, shown(&name), why));
                }
                Err(Omitted::NamesNothing) => {
                    remarks.push(format!("the link {} has no target in the repository and was skipped", shown(&name)));
                }
                Err(Omitted::Circle) => {
                    remarks.push(format!("the link {} leads back to itself and was skipped", shown(&name)));
                }
            }
        }
        Ok((copies, remarks))
    }

    /// Returns the files that a link leads to, by their paths below the link; the path is empty if the link leads to a file.
    fn copy(
        &self,
        link: &Parts,
        within: &mut Vec<Parts>,
        budget: &mut CopyBudget,
    ) -> Result<Vec<(Parts, &'a [u8])>, Omitted> {
        let target = self.resolve(link)?;
        if let Some(bytes) = self.files.get(&target) {
            budget.take(bytes.len())?;
            return Ok(vec![(Parts::new(), bytes)]);
        }
        if within.iter().any(|outer| outer.starts_with(&target)) {
            return Err(Omitted::Circle);
        }
        let below = |path: &Parts| path.starts_with(&target).then(|| path[target.len()..].to_vec());
        let mut found = Vec::new();
        for (path, bytes) in &self.files {
            if let Some(below) = below(path) {
                budget.take(bytes.len())?;
                found.push((below, *bytes));
            }
        }
        for inner in self.links.keys() {
            let Some(below) = below(inner) else { continue };
            within.push(inner.clone());
            let copied = self.copy(inner, within, budget);
            within.pop();
            match copied {
                Ok(copied) => found.extend(
                    copied.into_iter().map(|(rest, bytes)| (below.iter().cloned().chain(rest).collect(), bytes)),
                ),
                // Each of these links gets its own warning.
                Err(Omitted::NamesNothing | Omitted::Circle) => {}
                Err(refused) => return Err(refused),
            }
        }
        if found.is_empty() { Err(Omitted::NamesNothing) } else { Ok(found) }
    }

    /// Follows a link, through other links, to a file or folder.
    fn resolve(&self, link: &Parts) -> Result<Parts, Omitted> {
        let mut hops = 0;
        let mut at: Parts = link[..link.len() - 1].to_vec();
        let mut ahead: Vec<Vec<u8>> = reversed(self.links[link])?;
        while let Some(part) = ahead.pop() {
            match part.as_slice() {
                b"" | b"." => {}
                b".." => {
                    at.pop().ok_or(Omitted::Leaves)?;
                }
                _ => {
                    at.push(part);
                    if let Some(target) = self.links.get(&at) {
                        hops += 1;
                        if hops > MAX_HOPS {
                            return Err(Omitted::Circle);
                        }
                        at.pop();
                        ahead.extend(reversed(target)?);
                    }
                }
            }
        }
        Ok(at)
    }
}

/// Splits a target into components, the last one first.
fn reversed(target: &[u8]) -> Result<Vec<Vec<u8>>, Omitted> {
    let is_absolute = target.starts_with(b"/");
    let is_odd = target.is_empty() || target.iter().any(|byte| matches!(byte, 0 | b'\\' | b':'));
    if is_absolute || is_odd {
        return Err(Omitted::Leaves);
    }
    let mut parts = parts(target);
    parts.reverse();
    Ok(parts)
}

fn parts(path: &[u8]) -> Parts {
    path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()
}

fn joined(parts: &Parts) -> Vec<u8> {
    parts.join(&b'/')
}

fn shown(path: &[u8]) -> String {
    printable(&String::from_utf8_lossy(path))
}

/// Limits the copies, because links to folders with links would double them at each level.
struct CopyBudget {
    entries: usize,
    bytes: usize,
}

impl CopyBudget {
    fn new(tree: &GitTree<'_>, copies: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let used: usize = tree.files.values().map(|bytes| bytes.len()).sum::<usize>()
            + copies.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        Self {
            entries: tree.limits.entries.saturating_sub(tree.files.len() + copies.len()),
            bytes: tree.limits.unpacked.saturating_sub(used),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Omitted> {
        self.entries = self.entries.checked_sub(1).ok_or(Omitted::TooLarge)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Omitted::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = (Vec<(String, String)>, Vec<String>);

    fn copies(files: &[&str], links: &[(&str, &str)]) -> Result<Found> {
        let limits = InstallLimits { entries: 50, ..InstallLimits::default() };
        let mut tree = GitTree::new(&limits);
        files.iter().for_each(|path| tree.file(path.as_bytes(), path.as_bytes()));
        links.iter().for_each(|(path, target)| tree.link(path.as_bytes(), target.as_bytes()));
        let (copies, remarks) = tree.copies()?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ok((copies.into_iter().map(|(path, bytes)| (text(path), text(bytes))).collect(), remarks))
    }

    fn copied(files: &[&str], links: &[(&str, &str)]) -> Vec<String> {
        let (copies, remarks) = copies(files, links).expect("inside");
        assert!(remarks.is_empty(), "{remarks:?}");
        copies.into_iter().map(|(path, from)| format!("{path} <- {from}")).collect()
    }

    #[test]
    fn a_link_becomes_the_file_or_the_folder_that_it_names() {
        assert_eq!(copied(&["AGENTS.md"], &[("CLAUDE.md", "AGENTS.md")]), ["CLAUDE.md <- AGENTS.md"]);
        assert_eq!(
            copied(
                &[".agents/skills/a/SKILL.md", ".agents/skills/b.md", "x/y"],
                &[(".claude/skills", "../.agents/skills"), (".agents/skills/c.md", "./b.md"), ("z", "x/../x//y")],
            ),
            [
                ".agents/skills/c.md <- .agents/skills/b.md",
                ".claude/skills/a/SKILL.md <- .agents/skills/a/SKILL.md",
                ".claude/skills/b.md <- .agents/skills/b.md",
                ".claude/skills/c.md <- .agents/skills/b.md",
                "z <- x/y",
            ]
        );
        // `..` after another link is the parent of that link's target.
        assert_eq!(copied(&["a/b/f", "a/g"], &[("l", "a/b"), ("m", "l/../g")])[1..], ["m <- a/g"]);
    }

    #[test]
    fn a_link_that_leaves_refuses_the_package() {
        for target in ["/etc/passwd", "..", "../x", "a/../../x", "l/../..", "C:\\x", "a\\b", ""] {
            let error = copies(&["a/b/f"], &[("l", "a"), ("m", target)]).expect_err(target);
            assert_eq!((error.code, error.subject.as_str()), (InstallCode::Link, "m"), "{target}");
        }
    }

    #[test]
    fn a_dangling_or_circular_link_is_skipped_with_a_warning() {
        let (copied, remarks) = copies(
            &["a/f"],
            &[
                ("gone", "nowhere"),
                ("self", "self"),
                ("a/up", ".."),
                ("one", "two"),
                ("two", "one"),
                ("under", "a/f/x"),
            ],
        )
        .expect("inside");
        assert!(copied.is_empty(), "{copied:?}");
        let left_out: Vec<&str> = remarks.iter().filter_map(|remark| remark.split(' ').nth(2)).collect();
        assert_eq!(left_out, ["a/up", "gone", "one", "self", "two", "under"]);
    }

    #[test]
    fn copies_of_links_to_folders_of_links_are_limited() {
        let names: Vec<(String, String)> = (0..12).map(|n| (format!("d{n}/x"), format!("../d{}", n + 1))).collect();
        let more: Vec<(String, String)> = (0..12).map(|n| (format!("d{n}/y"), format!("../d{}", n + 1))).collect();
        let links: Vec<(&str, &str)> =
            names.iter().chain(&more).map(|(path, target)| (path.as_str(), target.as_str())).collect();
        assert_eq!(copies(&["d12/f"], &links).expect_err("doubles").code, InstallCode::Size);
    }
}
