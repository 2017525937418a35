//! Where PiJS keeps what is its own, for those who keep extensions out of it.
//!
//! One list for everything that lies outside of pi's own folders: what variables, options and settings move, what a
//! symbolic link leads to, and where sessions were kept in earlier runs.

use crate::environment::Environment;
use crate::{ledger, opening};
use pijs_durable::{Disk, read_regular};
use pijs_extc::Cache;
use pijs_hostcall::places::{OwnState, Places, Protection, normal};
use pijs_session_store::{SessionPlace, SessionRecords};
use std::path::{Component, Path, PathBuf};

/// Symbolic links that are followed on the way to one place, as by the system.
const MOST_LINKS: usize = 40;
/// Longest file that names a repository.
const LONGEST_NAME: u64 = 8 << 10;

/// Names in pi's folders (the user's and the project's) that extensions never read or write.
const CLOSED: [&str; 10] = [
    "auth.json",
    "mcp-auth.json",
    "models.json",
    "trust.json",
    "pijs-lock.json",
    "pijs-lock.json.bak",
    "pijs",
    "logs",
    "logs/extensions",
    "logs/ledger.key",
];

/// What is never written.
const UNWRITTEN: [&str; 6] = ["mcp.json", "settings.json", "settings.json.bak", "bin", "pi", "rummy"];

/// Names of texts that pi tells its models when it begins.
const TEXTS: [&str; 5] = ["SYSTEM.md", "APPEND_SYSTEM.md", "skills", "prompts", "rules"];

/// What PiJS keeps outside of pi's folders, as this run was started.
pub(crate) fn of(environment: &Environment) -> OwnState {
    let agent_dir = &environment.dirs.agent_dir;
    let mut own = OwnState::default();
    for folder in Cache::user_folders() {
        add(&mut own, |own| &mut own.closed, &folder);
        add(&mut own, |own| &mut own.closed_to_programs, &folder);
    }
    // Tokens of registries, where npm is told to look for them.
    if let Some(config) = environment.variable("NPM_CONFIG_USERCONFIG") {
        add(&mut own, |own| &mut own.closed, &environment.dirs.cwd.join(config));
    }
    add(&mut own, |own| &mut own.ledgers, &ledger::folder(environment));
    for folder in [agent_dir.clone(), environment.dirs.cwd.join(".pi")] {
        CLOSED.iter().for_each(|name| add_linked(&mut own, |own| &mut own.closed, &folder.join(name)));
        CLOSED.iter().for_each(|name| add_linked(&mut own, |own| &mut own.closed_to_programs, &folder.join(name)));
        UNWRITTEN
            .iter()
            .for_each(|name| add_linked(&mut own, |own| &mut own.unwritten_by_programs, &folder.join(name)));
        UNWRITTEN.iter().for_each(|name| add_linked(&mut own, |own| &mut own.unwritten, &folder.join(name)));
        TEXTS.iter().for_each(|name| add_linked(&mut own, |own| &mut own.runs_later, &folder.join(name)));
        add_linked(&mut own, |own| &mut own.extensions, &folder.join("extensions"));
        ["npm", "git"].iter().for_each(|name| add_linked(&mut own, |own| &mut own.stores, &folder.join(name)));
    }
    for (name, protection) in Places::protected_in_home() {
        let path = environment.dirs.home.join(name);
        match protection {
            Protection::All => {
                add_linked(&mut own, |own| &mut own.closed, &path);
                add_linked(&mut own, |own| &mut own.credentials, &path);
            }
            Protection::Write => add_linked(&mut own, |own| &mut own.unwritten, &path),
            Protection::RunsLater => add_linked(&mut own, |own| &mut own.runs_later, &path),
            Protection::None => {}
        }
    }
    for repository in repositories(&environment.dirs.cwd) {
        add(&mut own, |own| &mut own.unwritten, &repository);
    }
    add_linked(&mut own, |own| &mut own.sessions, &agent_dir.join("sessions"));
    add(&mut own, |own| &mut own.sessions, &opening::folder(environment, environment.session_dir.as_deref()));
    if let Some(tape) = &environment.tape {
        add(&mut own, |own| &mut own.closed, tape);
        add(&mut own, |own| &mut own.closed_to_programs, tape);
    }
    if let Some(file) = environment.session.as_deref().filter(|name| opening::is_path(name)) {
        add(&mut own, |own| &mut own.session_files, &environment.path(file));
    }
    for place in SessionRecords::new(Disk::system(), agent_dir).places() {
        match place {
            SessionPlace::Folder(folder) => add(&mut own, |own| &mut own.sessions, &folder),
            SessionPlace::File(file) => add(&mut own, |own| &mut own.session_files, &file),
        }
    }
    let usual = pijs_durable::without_links(&agent_dir.join("sessions"));
    own.sessions.retain(|folder| !folder.starts_with(&usual) || *folder == usual);
    own
}

/// The folders in which git keeps the repository of a working folder, where these have another name than `.git`: a link leads to
/// them, or a file names them. Their configuration and hooks run.
fn repositories(cwd: &Path) -> Vec<PathBuf> {
    let Some(dot_git) = cwd.ancestors().map(|folder| folder.join(".git")).find(|path| path.symlink_metadata().is_ok())
    else {
        return Vec::new();
    };
    let named_in = |file: &Path, before: &str| {
        let text = String::from_utf8(read_regular(file, LONGEST_NAME).ok()?).ok()?;
        let name = text.strip_prefix(before)?.trim();
        (!name.is_empty()).then(|| file.parent().map(|folder| normal(folder, Path::new(name))))?
    };
    let repository = match dot_git.is_file() {
        true => named_in(&dot_git, "gitdir:"),
        false => dot_git.is_symlink().then_some(dot_git),
    };
    let common = repository.as_ref().and_then(|repository| named_in(&repository.join("commondir"), ""));
    repository.into_iter().chain(common).collect()
}

/// Adds a place under each of its names.
fn add(own: &mut OwnState, list: impl Fn(&mut OwnState) -> &mut Vec<PathBuf>, path: &Path) {
    let (names, links) = names(path);
    list(own).extend(names);
    own.links.extend(links);
}

/// The same for a place that is protected by its own name.
fn add_linked(own: &mut OwnState, list: impl Fn(&mut OwnState) -> &mut Vec<PathBuf>, path: &Path) {
    let (mut names, links) = names(path);
    names.retain(|name| name != path);
    list(own).extend(names);
    own.links.extend(links);
}

/// Every name that leads to a path, itself first, and the symbolic links on the way.
fn names(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let root = Path::new("/");
    let (mut names, mut links) = (vec![normal(root, path)], Vec::new());
    let climbed = climb(path, &mut links);
    if !names.contains(&climbed) {
        names.push(climbed);
    }
    while let Some((link, next)) = names.last().and_then(|name| through_first_link(name))
        && links.len() < MOST_LINKS
    {
        links.push(link);
        names.push(next);
    }
    // `..` behind a link is another folder than its name says.
    let real = pijs_durable::without_links(path);
    if !names.contains(&real) {
        names.push(real);
    }
    (names, links)
}

/// Takes `..` off a path as the system does: behind a link that is the folder above the one that the link leads to. Adds the
/// links that are left so.
fn climb(path: &Path, links: &mut Vec<PathBuf>) -> PathBuf {
    let mut at = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                let mut on_the_way = at.clone();
                while let Some((link, next)) = through_first_link(&on_the_way)
                    && links.len() < MOST_LINKS
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

/// The first symbolic link of a path, and the path with what it leads to in its place.
fn through_first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    let (link, target) = above.into_iter().find_map(|at| Some((at, std::fs::read_link(at).ok()?)))?;
    let leads = normal(link.parent()?, &target);
    let rest = path.strip_prefix(link).ok()?;
    Some((link.to_owned(), if rest.as_os_str().is_empty() { leads } else { leads.join(rest) }))
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
        let (names, links) = names(&at.join("a/cache/pijs"));
        assert_eq!(names, ["a/cache/pijs", "b/cache/pijs", "data/cache/pijs"].map(|name| at.join(name)));
        assert_eq!(links, ["a", "b"].map(|name| at.join(name)));
        std::fs::create_dir_all(at.join("data/sub")).expect("a folder");
        symlink(at.join("data/sub"), at.join("way")).expect("a link");
        let (names, links) = super::names(&at.join("way/../cache"));
        assert!(names.contains(&at.join("data/cache")), "{names:?}");
        assert_eq!(links, [at.join("way")], "who exchanges the link has another folder");
        let plain = at.join("data/none/pijs");
        assert_eq!(super::names(&plain), (vec![plain], vec![]));
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        symlink("b", at.join("a")).expect("a link");
        symlink("a", at.join("b")).expect("a link");
        assert_eq!(names(&at.join("a/x")).1.len(), MOST_LINKS);
    }
}
