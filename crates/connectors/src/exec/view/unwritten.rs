//! Lists the files that a listed tool cannot write: settings, programs and code that run later. A grant of a tool covers what the
//! tool does for the project, not what others obey.

use pijs_durable::without_links;
use pijs_git_bounds::{is_repository, makes_work_tree};
use pijs_hostcall::places::Places;
use pijs_hostcall::{Access, Permit};
use pijs_programs::{is_file_tool, name_of, own_caches};
use pijs_protocol::guard;
use rustix::fs::{AtFlags, CWD, accessat};
use std::path::{Path, PathBuf};

/// A use of a listed tool.
pub(super) struct ListedUse<'a> {
    pub(super) permit: &'a Permit,
    /// The command, and the name of its file.
    pub(super) names: [&'a str; 2],
    pub(super) args: &'a [&'a str],
    /// Whether the use needs no credentials.
    pub(super) needs_none: bool,
    /// Whether the use changes no settings of the tool, and the grant does not cover every use.
    pub(super) keeps_settings: bool,
}

/// Returns the files that the tool cannot write, under their names and where links lead; empty for other programs.
pub(super) fn by_listed_tool(used: &ListedUse<'_>) -> Vec<PathBuf> {
    if !used.needs_none && !used.keeps_settings {
        return Vec::new();
    }
    let places = used.permit.places();
    let own: Vec<PathBuf> = used.names.into_iter().flat_map(own_caches).map(|own| places.home.join(own)).collect();
    let mut kept: Vec<PathBuf> = places.runs_in_home().filter(|path| !own.contains(path)).collect();
    if used.keeps_settings && !used.needs_none {
        kept.extend(settings_of_others(places));
    }
    let is_file_tool = used.names.into_iter().any(is_file_tool);
    if is_file_tool || (used.needs_none && guard!(ExecToolSettings)) {
        // Such a tool cannot create entries directly in the home folder, so the list of present entries is complete.
        kept.extend(entries(&places.home).filter(|entry| places.is_settings_of_home(entry)));
    }
    if guard!(ExecCachedCode) {
        let is_closed = |entry: &PathBuf| is_closed_cache(used.permit, is_file_tool, entry);
        kept.extend(entries(&places.home.join(".cache")).filter(is_closed));
    }
    if guard!(ExecCodeElsewhere) {
        let targets: Vec<PathBuf> = kept.iter().map(|path| without_links(path)).collect();
        kept.extend(targets.into_iter().filter(|target| !places.is_open_to_programs(target)));
        // Git makes no work tree in a folder with files, and needs the folder around it.
        let is_making = used.names.into_iter().any(|name| name_of(name) == "git") && makes_work_tree(used.args);
        let others = places.runs_elsewhere(used.permit.package_root()).filter(|_| !is_making);
        // Tools that run git write to the repository of a linked work tree.
        kept.extend(others.filter(|path| !is_fixed(path) && (used.needs_none || !is_repository(path))));
    }
    kept
}

/// Returns the settings and programs in the home that git, ssh and their like do not write when they authenticate or sign.
fn settings_of_others(places: &Places) -> Vec<PathBuf> {
    const FOLDERS: &[(&str, &[&str])] = &[
        ("", &[".config", ".git-credential-cache", ".git-credentials", ".gnupg", ".local", ".ssh"]),
        (".config", &["gh", "git"]),
        (".local", &["share", "state"]),
        (".local/share", &["gnupg"]),
        (".local/state", &["gh"]),
    ];
    let entries = FOLDERS.iter().flat_map(|(folder, own)| {
        entries(&places.home.join(folder)).filter(|entry| !own.iter().any(|own| entry.ends_with(own)))
    });
    entries.filter(|entry| places.is_settings_of_home(entry)).collect()
}

/// Returns whether a tool cannot write an entry of `~/.cache`: a file directly in it, which no listed tool has, or, for a file
/// tool, a folder in which the extension may not write either.
fn is_closed_cache(permit: &Permit, is_file_tool: bool, entry: &Path) -> bool {
    if !entry.is_dir() {
        return permit.path(Access::Write, entry).is_err();
    }
    is_file_tool && permit.path(Access::Write, &entry.join("x")).is_err()
}

/// Returns whether this user can change neither a path nor any folder above it, so that no program needs to be kept from it.
fn is_fixed(path: &Path) -> bool {
    path.ancestors().all(|path| accessat(CWD, path, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS).is_err())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
