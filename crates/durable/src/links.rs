//! Resolves symbolic links on a path, and collects the names that they give it.

use crate::disk::without_links;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links that are followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Cache of the file system's answers: most protected paths are in the same few folders.
///
/// A cache is used for one list of paths. Paths that are checked later are resolved at that time.
#[derive(Debug, Default)]
pub struct Links {
    items: HashMap<PathBuf, PathItem>,
    resolved: HashMap<PathBuf, Option<PathBuf>>,
}

/// The item at a path, links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathItem {
    /// The path does not exist, or is not accessible.
    Missing,
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, and its target.
    Link(PathBuf),
}

impl PathItem {
    fn at(path: &Path) -> Self {
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => std::fs::read_link(path).map_or(Self::Missing, Self::Link),
            Ok(found) if found.is_dir() => Self::Folder,
            Ok(_) => Self::File,
            Err(_) => Self::Missing,
        }
    }
}

impl Links {
    /// Returns every name that leads to a path, itself first, and the symbolic links on the way.
    pub fn names(&mut self, path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let root = Path::new("/");
        let (mut names, mut links) = (vec![normal(root, path)], Vec::new());
        let climbed = self.climb(path, &mut links);
        if !names.contains(&climbed) {
            names.push(climbed);
        }
        while let Some((link, next)) = names.last().and_then(|name| self.through_first_link(name))
            && links.len() < MAX_LINKS
        {
            links.push(link);
            names.push(next);
        }
        // `..` after a link leads to the parent of the link's target.
        let real = self.resolved(path);
        if !names.contains(&real) {
            names.push(real);
        }
        (names, links)
    }

    /// Returns a path with its links resolved, as far as it exists: as [`without_links`] does.
    pub fn resolved(&mut self, path: &Path) -> PathBuf {
        if has_parent(path) || !path.is_absolute() {
            return without_links(path);
        }
        let found = path.ancestors().find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            Some((self.real(above, 0)?, rest))
        });
        match found {
            Some((above, rest)) if rest.as_os_str().is_empty() => above,
            Some((above, rest)) => above.join(rest),
            None => path.to_owned(),
        }
    }

    /// Returns the real path of an existing item. `followed` links led to it.
    fn real(&mut self, path: &Path, followed: usize) -> Option<PathBuf> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Some(path.to_owned()) };
        if let Some(known) = self.resolved.get(path) {
            return known.clone();
        }
        if followed > MAX_LINKS {
            return None;
        }
        let real = self.real(folder, followed).and_then(|folder| {
            let at = folder.join(name);
            match self.item(&at) {
                PathItem::Missing => None,
                PathItem::File | PathItem::Folder => Some(at),
                PathItem::Link(target) if has_parent(&target) => at.canonicalize().ok(),
                PathItem::Link(target) => self.real(&folder.join(target), followed + 1),
            }
        });
        self.resolved.insert(path.to_owned(), real.clone());
        real
    }

    /// Returns whether a folder exists at a path, links not followed.
    pub fn is_folder(&mut self, path: &Path) -> bool {
        self.item(path) == PathItem::Folder
    }

    fn item(&mut self, path: &Path) -> PathItem {
        if let Some(known) = self.items.get(path) {
            return known.clone();
        }
        let is_below_nothing = path.parent().is_some_and(|folder| self.items.get(folder) == Some(&PathItem::Missing));
        let found = if is_below_nothing { PathItem::Missing } else { PathItem::at(path) };
        self.items.insert(path.to_owned(), found.clone());
        found
    }

    /// Resolves `..` of a path like the system: after a link it is the parent of the link's target. Adds the links that `..`
    /// leaves to `links`.
    fn climb(&mut self, path: &Path, links: &mut Vec<PathBuf>) -> PathBuf {
        let mut at = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    let mut on_the_way = at.clone();
                    while let Some((link, next)) = self.through_first_link(&on_the_way)
                        && links.len() < MAX_LINKS
                    {
                        links.push(link);
                        on_the_way = next;
                    }
                    at = on_the_way;
                    at.pop();
                }
                part => at.push(part),
            }
        }
        at
    }

    /// Returns the first symbolic link of a path, and the path with that link replaced by its target.
    fn through_first_link(&mut self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        let (link, target) = above.into_iter().find_map(|at| match self.item(at) {
            PathItem::Link(target) => Some((at, target)),
            PathItem::Missing | PathItem::File | PathItem::Folder => None,
        })?;
        let leads = normal(link.parent()?, &target);
        let rest = path.strip_prefix(link).ok()?;
        Some((link.to_owned(), if rest.as_os_str().is_empty() { leads } else { leads.join(rest) }))
    }
}

/// Joins two paths and resolves `.` and `..` by name.
pub fn normal(base: &Path, path: &Path) -> PathBuf {
    let mut out = if path.is_absolute() { PathBuf::new() } else { base.to_owned() };
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

fn has_parent(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_place_is_known_under_each_name_that_links_give_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(at.join("data/cache")).expect("folders");
        symlink("b", at.join("a")).expect("a link");
        symlink(at.join("data"), at.join("b")).expect("a link");
        let (names, links) = Links::default().names(&at.join("a/cache/pijs"));
        assert_eq!(names, ["a/cache/pijs", "b/cache/pijs", "data/cache/pijs"].map(|name| at.join(name)));
        assert_eq!(links, ["a", "b"].map(|name| at.join(name)));
        std::fs::create_dir_all(at.join("data/sub")).expect("a folder");
        symlink(at.join("data/sub"), at.join("way")).expect("a link");
        let (names, links) = Links::default().names(&at.join("way/../cache"));
        assert!(names.contains(&at.join("data/cache")), "{names:?}");
        assert_eq!(links, [at.join("way")], "who exchanges the link has another folder");
        let plain = at.join("data/none/pijs");
        assert_eq!(Links::default().names(&plain), (vec![plain], vec![]));
    }

    #[test]
    fn paths_are_resolved_as_the_system_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(at.join("data/deep/deeper")).expect("folders");
        std::fs::write(at.join("data/file"), "").expect("a file");
        for (target, link) in [
            ("data", "a"),
            ("a/deep", "b"),
            ("data/deep/../file", "c"),
            ("b/../file", "d"),
            ("nowhere", "e"),
            ("g", "f"),
            ("f", "g"),
            ("/", "root"),
            ("../a", "data/up"),
        ] {
            symlink(target, at.join(link)).expect("a link");
        }
        // One cache for all paths: a cached answer must not be used for another path.
        let mut links = Links::default();
        for path in [
            "a",
            "a/deep",
            "a/file",
            "a/file/x",
            "a/none/x",
            "b",
            "b/deeper",
            "b/x",
            "c",
            "c/x",
            "d",
            "e",
            "e/x",
            "f/x",
            "g",
            "a/../data",
            "b/../file",
            "data/up/deep",
            "data/up/up/file",
            "none/none",
            "root",
            "root/etc",
        ] {
            assert_eq!(links.resolved(&at.join(path)), without_links(&at.join(path)), "{path}");
        }
        assert_eq!(links.resolved(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn a_replaced_link_is_seen_by_the_next_list() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        symlink("one", at.join("link")).expect("a link");
        std::fs::create_dir_all(at.join("one")).expect("a folder");
        std::fs::create_dir_all(at.join("two")).expect("a folder");
        assert_eq!(Links::default().resolved(&at.join("link/x")), at.join("one/x"));
        std::fs::remove_file(at.join("link")).expect("removed");
        symlink("two", at.join("link")).expect("a link");
        assert_eq!(Links::default().resolved(&at.join("link/x")), at.join("two/x"));
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        symlink("b", at.join("a")).expect("a link");
        symlink("a", at.join("b")).expect("a link");
        assert_eq!(Links::default().names(&at.join("a/x")).1.len(), MAX_LINKS);
    }
}
