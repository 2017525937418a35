//! Which files of a package, or of an extensions folder, are extension entries.
//!
//! pi's rules: the `pi` manifest wins; without one, the folder `extensions/`; for a folder named by hand, `index.*` or
//! `main`. Order is made visible: what pi leaves to `readdir` is sorted by name here.

use crate::collect::Kind;
use crate::error::{InstallCode, PackageError, Result};
use crate::manifest::Manifest;
use crate::source::printable;
use globset::{GlobBuilder, GlobMatcher};
use pijs_protocol::{globs, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Files looked at for globs, and how deep.
const MAX_WALK: usize = 10_000;
const MAX_WALK_DEPTH: usize = 16;
/// Globs of one list, each of which is held against every file. Paths have no such limit: they are looked up.
const MOST_GLOBS: usize = 256;

/// What an install says of a package that brings nothing.
pub(crate) const NOTHING: &str = "pi loads nothing of it: its package.json has no \"pi\", and there are no extensions/, skills/, prompts/ or themes/ in it; a file of it that is an extension can be named with -e";

/// Whether a package without a word to pi brings nothing that pi would load.
pub(crate) fn brings_nothing(root: &Path) -> Result<bool> {
    let is_silent = Manifest::read(root)?.is_none_or(|manifest| manifest.pi.is_none());
    Ok(is_silent && package_entries(root, false)?.is_empty() && !has_resources(root))
}

fn has_resources(root: &Path) -> bool {
    Kind::ALL.iter().any(|kind| root.join(kind.key()).is_dir())
}

/// The entries of an installed or local package: none when it brings other things only, or an installed one brings nothing
/// and says nothing. `IN_MANIFEST` says what was looked for when it should bring something.
pub(crate) fn package_entries(root: &Path, local: bool) -> Result<Vec<PathBuf>> {
    let manifest = Manifest::read(root)?;
    let declared = manifest.as_ref().and_then(|manifest| manifest.pi.as_ref());
    let listed = declared.and_then(|pi| pi.extensions.as_deref()).unwrap_or_default();
    let mut entries = match declared {
        Some(_) => declared_entries(root, listed)?,
        None => auto_dir(&root.join("extensions"))?,
    };
    let others = match declared {
        Some(pi) => Kind::ALL.iter().any(|kind| pi.list(kind.key()).is_some_and(|list| !list.is_empty())),
        None => has_resources(root),
    };
    if entries.is_empty() && declared.is_none() && !others && local {
        let main = manifest.as_ref().and_then(|manifest| manifest.main.clone());
        let candidates = ["index.ts", "index.js"].map(str::to_owned).into_iter().chain(main);
        entries.extend(candidates.map(|name| root.join(name)).find(|path| path.is_file()));
    }
    if entries.is_empty() && !(others && listed.is_empty()) {
        let (why, help) = match declared {
            Some(_) if !listed.is_empty() => {
                ("no file matches \"pi.extensions\" of its package.json", "correct the paths under pi.extensions")
            }
            Some(_) => (
                "\"pi\" of its package.json names neither extensions nor skills, prompts or themes",
                "add {\"pi\": {\"extensions\": [\"./FILE.ts\"]}} to its package.json",
            ),
            None if local => (
                "no extensions in it: looked for \"pi.extensions\" in package.json, extensions/*.ts, extensions/*.js, extensions/*/index.ts, index.ts, index.js and \"main\"",
                "add {\"pi\": {\"extensions\": [\"./FILE.ts\"]}} to its package.json",
            ),
            // pi installs it and loads nothing of it.
            None => return Ok(entries),
        };
        return Err(PackageError::new(InstallCode::Manifest, root.display().to_string(), why).help(help));
    }
    Ok(entries)
}

/// Files, folders, globs and `!`, `+`, `-` entries of a manifest, all inside the package.
fn declared_entries(root: &Path, patterns: &[String]) -> Result<Vec<PathBuf>> {
    let mut found = Found::default();
    let mut declared = Declared::new(root);
    for pattern in patterns.iter().filter(|pattern| !pattern.starts_with(['!', '+', '-'])) {
        check_inside(root, pattern)?;
        let is_glob = has_glob(pattern);
        for path in declared.files(pattern)? {
            if path.is_dir() && !is_glob {
                auto_dir(&path)?.into_iter().for_each(|file| found.push(file));
            } else if !is_glob && path.is_file() || is_extension_file(&path) {
                found.push(path);
            }
        }
    }
    let filter: Vec<String> = patterns.iter().filter(|pattern| pattern.starts_with(['!', '+', '-'])).cloned().collect();
    apply_filter(root, found.files, &filter)
}

/// Files, each once, in the order they were found.
#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    known: BTreeSet<PathBuf>,
}

impl Found {
    fn push(&mut self, file: PathBuf) {
        if self.known.insert(file.clone()) {
            self.files.push(file);
        }
    }
}

/// What the entries of one list in a manifest name. The package is walked for the first glob of it, and once.
pub(crate) struct Declared<'a> {
    root: &'a Path,
    walked: Option<Vec<PathBuf>>,
    globs: usize,
}

impl<'a> Declared<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        Self { root, walked: None, globs: 0 }
    }

    /// The files and folders that one entry names: itself, or what a glob matches.
    pub(crate) fn files(&mut self, pattern: &str) -> Result<Vec<PathBuf>> {
        let root = self.root;
        if !has_glob(pattern) {
            return Ok(vec![clean(root, pattern)]);
        }
        self.globs += 1;
        check_globs(root, self.globs)?;
        let glob = compile(root, pattern)?;
        let walked = match &mut self.walked {
            Some(walked) => walked,
            none => none.insert(walk(root)?),
        };
        let matches = |path: &&PathBuf| glob.is_match(path.strip_prefix(root).expect("walked from root"));
        Ok(walked.iter().filter(matches).cloned().collect())
    }
}

fn check_globs(root: &Path, globs: usize) -> Result<()> {
    if globs <= MOST_GLOBS || !guard::is_up("manifest.glob") {
        return Ok(());
    }
    let why = format!("more than {MOST_GLOBS} patterns in one list");
    Err(PackageError::new(InstallCode::Manifest, root.display().to_string(), why)
        .help("name folders, or a pattern for several"))
}

fn has_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

/// The filter of a settings entry with `"autoload": false`: only what a pattern names, and of several the last decides.
pub(crate) fn delta_filter(root: &Path, files: Vec<PathBuf>, filter: &[String]) -> Result<Vec<PathBuf>> {
    let mut globs = Vec::new();
    let mut paths = BTreeMap::new();
    for (place, entry) in filter.iter().enumerate() {
        let rest = entry.strip_prefix(['!', '+', '-']).unwrap_or(entry);
        let decision = (place, !entry.starts_with(['!', '-']));
        if entry.starts_with(['+', '-']) {
            paths.insert(clean(root, rest), decision);
        } else {
            globs.push((compile(root, rest)?, decision));
            check_globs(root, globs.len())?;
        }
    }
    let is_on = |file: &PathBuf| {
        let named = [Some(file.as_path()), skill_folder(file)].into_iter().flatten().filter_map(|path| paths.get(path));
        let matched = globs.iter().rev().find(|(glob, _)| is_matched(root, std::slice::from_ref(glob), file));
        named.chain(matched.map(|(_, decision)| decision)).max().is_some_and(|(_, is_on)| *is_on)
    };
    Ok(files.into_iter().filter(is_on).collect())
}

/// Whether a glob matches a file by its path in the package, its name or its whole path; a skill also by its folder.
fn is_matched(root: &Path, globs: &[GlobMatcher], file: &Path) -> bool {
    let one = |path: &Path| {
        let relative = path.strip_prefix(root).unwrap_or(path);
        let name = path.file_name().map(Path::new).unwrap_or(path);
        globs.iter().any(|glob| glob.is_match(relative) || glob.is_match(name) || glob.is_match(path))
    };
    one(file) || skill_folder(file).is_some_and(one)
}

fn is_named(paths: &BTreeSet<PathBuf>, file: &Path) -> bool {
    paths.contains(file) || skill_folder(file).is_some_and(|folder| paths.contains(folder))
}

/// The folder that a skill's file stands for.
fn skill_folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|_| file.file_name().is_some_and(|name| name == "SKILL.md"))
}

/// The filter of a settings entry over files that already passed the manifest: plain globs keep, `!` drops, `+` and `-`
/// force exact paths in and out. No plain glob keeps everything.
pub(crate) fn apply_filter(root: &Path, files: Vec<PathBuf>, filter: &[String]) -> Result<Vec<PathBuf>> {
    let mut keep = Vec::new();
    let mut drop = Vec::new();
    let mut force_in = BTreeSet::new();
    let mut force_out = BTreeSet::new();
    for entry in filter {
        match entry.strip_prefix(['!', '+', '-']) {
            Some(rest) if entry.starts_with('!') => drop.push(compile(root, rest)?),
            Some(rest) if entry.starts_with('+') => _ = force_in.insert(clean(root, rest)),
            Some(rest) => _ = force_out.insert(clean(root, rest)),
            None => keep.push(compile(root, entry)?),
        }
        check_globs(root, keep.len() + drop.len())?;
    }
    let kept = files.into_iter().filter(|file| {
        let plain = (keep.is_empty() || is_matched(root, &keep, file)) && !is_matched(root, &drop, file);
        !is_named(&force_out, file) && (plain || is_named(&force_in, file))
    });
    Ok(kept.collect())
}

/// The entries of an extensions folder: the folder's own, if it is a package or has an index; else its files and the
/// entries of its folders, one level down.
pub(crate) fn auto_dir(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let own = directory_entries(dir)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let mut found = Vec::new();
    for path in children(dir)? {
        if path.is_dir() {
            found.extend(directory_entries(&path)?);
        } else if is_extension_file(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The entries of one folder: those of its manifest that exist, else `index.ts`, else `index.js`.
pub(crate) fn directory_entries(dir: &Path) -> Result<Vec<PathBuf>> {
    if let Some(declared) = Manifest::read(dir)?.and_then(|manifest| manifest.pi).and_then(|pi| pi.extensions) {
        let entries = declared_entries(dir, &declared)?;
        if !entries.is_empty() {
            return Ok(entries);
        }
    }
    Ok(["index.ts", "index.js"]
        .into_iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file())
        .into_iter()
        .collect())
}

/// `.ts` and `.js`; declarations hold no code.
pub(crate) fn is_extension_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    (name.ends_with(".ts") || name.ends_with(".js")) && !name.ends_with(".d.ts") && path.is_file()
}

fn check_inside(root: &Path, pattern: &str) -> Result<()> {
    if is_inside(pattern) {
        return Ok(());
    }
    let why = format!("\"pi.extensions\" names {}, which is not part of the package", printable(pattern));
    Err(PackageError::new(InstallCode::Manifest, root.display().to_string(), why)
        .help("entries are paths inside the package"))
}

/// Whether an entry of a manifest stays in its package, and out of what that borrows.
pub(crate) fn is_inside(pattern: &str) -> bool {
    let path = Path::new(pattern);
    let mut components = path.components().filter(|component| !matches!(component, Component::CurDir)).peekable();
    let leaves =
        path.is_absolute() || pattern.contains('\\') || components.clone().any(|c| !matches!(c, Component::Normal(_)));
    let borrowed = components.peek().is_some_and(|first| first.as_os_str() == "node_modules");
    !(leaves || borrowed) || !guard::is_up("manifest.inside")
}

fn clean(root: &Path, relative: &str) -> PathBuf {
    root.join(relative.trim_start_matches("./"))
}

fn compile(root: &Path, pattern: &str) -> Result<GlobMatcher> {
    let refuse = |why: String| PackageError::new(InstallCode::Manifest, root.display().to_string(), why);
    if pattern.len() > 512 && guard::is_up("manifest.glob") {
        return Err(refuse("a glob of more than 512 characters".to_owned()));
    }
    if !globs::fits(pattern) {
        return Err(refuse(format!("a glob {}", globs::problem())));
    }
    let glob = GlobBuilder::new(pattern.trim_start_matches("./")).literal_separator(true).build();
    Ok(glob
        .map_err(|error| refuse(format!("{} is no usable glob: {}", printable(pattern), error.kind())))?
        .compile_matcher())
}

/// Sorted; without dot names and `node_modules`.
fn children(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| PackageError::io("list it", dir, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name != "node_modules" && !name.to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for path in children(&folder)? {
            let kind =
                fs::symlink_metadata(&path).map_err(|error| PackageError::io("read it", &path, error))?.file_type();
            if kind.is_dir() && depth < MAX_WALK_DEPTH {
                folders.push((path.clone(), depth + 1));
            }
            if kind.is_dir() || kind.is_file() {
                files.push(path);
            }
            if files.len() > MAX_WALK {
                let why = format!("more than {MAX_WALK} files and folders to match a glob against");
                return Err(PackageError::new(InstallCode::Size, root.display().to_string(), why));
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_paths_without_end_and_some_patterns() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for file in ["a.ts", "b.ts"] {
            fs::write(root.join(file), "").expect("written");
        }
        let many = |pattern: &str, count: usize| vec![pattern.to_owned(); count];
        let found = |patterns: &[String]| declared_entries(root, patterns);
        let both = [root.join("a.ts"), root.join("b.ts")];

        assert_eq!(found(&many("a.ts", 2000)).expect("paths"), both[..1]);
        assert_eq!(found(&many("*.ts", MOST_GLOBS)).expect("patterns"), both);
        let error = found(&many("*.ts", MOST_GLOBS + 1)).expect_err("too many");
        assert_eq!(error.code, InstallCode::Manifest);
        let error = found(&[many("*.ts", 1), many("!c.ts", MOST_GLOBS + 1)].concat()).expect_err("too many");
        assert_eq!(error.code, InstallCode::Manifest);
        assert!(delta_filter(root, both.to_vec(), &many("*.ts", MOST_GLOBS + 1)).is_err());
        assert_eq!(delta_filter(root, both.to_vec(), &many("+a.ts", 2000)).expect("paths"), both[..1]);
        let last = ["*.ts", "-a.ts", "!b*", "+b.ts"].map(str::to_owned);
        assert_eq!(delta_filter(root, both.to_vec(), &last).expect("the last decides"), both[1..]);

        let filter = ["!a*", "+a.ts", "-b.ts"].map(str::to_owned);
        assert_eq!(apply_filter(root, both.to_vec(), &filter).expect("filtered"), both[..1]);
    }
}
