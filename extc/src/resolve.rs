//! Resolve: from what the user names to a package folder and its extension entries.
//!
//! A folder is read as pi reads it: `pi.extensions` of `package.json` (paths, folders, globs,
//! `!`, `+` and `-` entries), else `index.ts` or `index.js`, else what lies in `extensions/`, else
//! `main`. A file is one extension by itself; its imports may reach what lies in its package.

use crate::diagnostics::{Code, Diagnostic};
use globset::GlobBuilder;
use pijs_durable::read_regular;
use pijs_protocol::{globs, guard};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most files looked at when a manifest has patterns.
const MAX_WALK: usize = 20_000;
/// Most patterns of a manifest, each of which is held against every file.
const MOST_PATTERNS: usize = 256;
/// Bytes of a manifest that are read.
const LONGEST_MANIFEST: u64 = 4 << 20;
/// How far up the package of a single file is looked for.
const MAX_CLIMB: usize = 8;

/// What to compile: a package folder or one extension file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    path: PathBuf,
    entries: Option<Vec<PathBuf>>,
    dependencies: Option<Vec<PathBuf>>,
}

impl Input {
    /// The folder or file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A package folder, or an extension file. Dependencies may come from the package and from the
    /// `node_modules` folders around it, as under Node.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), entries: None, dependencies: None }
    }

    /// Compiles exactly these files of the package folder, in this order, whatever its manifest lists: for callers
    /// that chose among the entries already, by settings or by the user's word. Relative paths start at the folder.
    ///
    /// ```no_run
    /// let input = pijs_extc::Input::at("pkg").with_entries(vec!["extensions/b.ts".into(), "extensions/a.ts".into()]);
    /// ```
    #[must_use]
    pub fn with_entries(mut self, entries: Vec<PathBuf>) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Takes dependencies from the package and from these folders only.
    #[must_use]
    pub fn with_dependencies(mut self, folders: Vec<PathBuf>) -> Self {
        self.dependencies = Some(folders);
        self
    }
}

/// A package that was found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Package {
    /// Canonical folder that imports may not leave.
    pub(crate) root: PathBuf,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Bytes of `package.json`, empty without one.
    pub(crate) manifest: Vec<u8>,
    /// Canonical files, in the order they are loaded; at least one.
    pub(crate) entries: Vec<PathBuf>,
    /// Folders beside the package that hold dependencies.
    pub(crate) dependencies: Vec<PathBuf>,
}

/// Finds the package and its entries.
pub(crate) fn resolve(input: &Input) -> Result<Package, Diagnostic> {
    let shown = input.path.display();
    let path = input
        .path
        .canonicalize()
        .map_err(|error| Diagnostic::new(Code::Entry, format!("{shown}: {error}")).help("check the path"))?;
    if path.to_str().is_none() {
        return Err(Diagnostic::new(Code::Entry, format!("{shown}: the path is not UTF-8")));
    }
    let (root, entries, stem) = if path.is_dir() {
        (path.clone(), None, path.file_name())
    } else {
        let root = root_of_file(&path);
        let stem = if path.file_stem().is_some_and(|stem| stem == "index") {
            path.parent().and_then(Path::file_name)
        } else {
            path.file_stem()
        };
        (root, Some(vec![path.clone()]), stem)
    };
    let manifest = read_regular(&root.join("package.json"), LONGEST_MANIFEST).unwrap_or_default();
    let json: Value = if manifest.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(without_mark(&manifest)).map_err(|error| {
            Diagnostic::of_json(Code::Entry, "package.json", &String::from_utf8_lossy(&manifest), &error)
        })?
    };
    let stem = stem.map_or_else(|| "extension".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let loose = entries.is_some();
    let field = |name: &str| json.get(name).and_then(Value::as_str).filter(|_| !loose);
    let entries = match (entries, &input.entries) {
        (Some(file), _) => file,
        (None, Some(chosen)) => chosen.iter().map(|entry| root.join(entry)).collect(),
        (None, None) => entries_of_folder(&root, &json)?,
    };
    let entries = entries.into_iter().map(|entry| contained(&root, entry)).collect::<Result<Vec<_>, _>>()?;
    if entries.is_empty() {
        return Err(Diagnostic::new(Code::Entry, format!("{shown}: no extension here"))
            .help("list the files under `pi.extensions` in package.json, or name the entry index.ts"));
    }
    Ok(Package {
        name: field("name").unwrap_or(&stem).to_owned(),
        version: field("version").unwrap_or("0.0.0").to_owned(),
        dependencies: input.dependencies.clone().unwrap_or_else(|| folders_around(&root)),
        root,
        manifest,
        entries,
    })
}

/// A manifest as npm reads it: some editors put a byte order mark before it.
pub(crate) fn without_mark(manifest: &[u8]) -> &[u8] {
    manifest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(manifest)
}

/// The package of a single file: the nearest folder with a `package.json`, but never above a folder
/// named `extensions`, so that an extension of the user does not own the home folder.
fn root_of_file(file: &Path) -> PathBuf {
    let parent = file.parent().expect("a file is in a folder");
    for folder in parent.ancestors().take(MAX_CLIMB) {
        if folder.join("package.json").is_file() || folder.file_name().is_some_and(|name| name == "extensions") {
            return folder.to_owned();
        }
    }
    parent.to_owned()
}

fn contained(root: &Path, entry: PathBuf) -> Result<PathBuf, Diagnostic> {
    let shown = entry.strip_prefix(root).unwrap_or(&entry).display();
    let canonical = entry.canonicalize().map_err(|error| {
        Diagnostic::new(Code::Entry, format!("the entry `{shown}` cannot be opened: {error}")).help("check the path")
    })?;
    if !canonical.starts_with(root) && guard::is_up("build.entry") {
        return Err(Diagnostic::new(Code::Escape, format!("the entry `{shown}` is outside the package"))
            .help("entries are files of the package; a link that leads out of it does not count"));
    }
    if canonical.to_str().is_none() {
        return Err(Diagnostic::new(Code::Entry, format!("the entry `{shown}`: its path is not UTF-8"))
            .help("give the file another name"));
    }
    Ok(canonical)
}

/// Every `node_modules` that Node would look into from `root`, outside of it, nearest first.
fn folders_around(root: &Path) -> Vec<PathBuf> {
    root.ancestors()
        .skip(1)
        .map(|folder| {
            if folder.file_name().is_some_and(|name| name == "node_modules") {
                folder.to_owned()
            } else {
                folder.join("node_modules")
            }
        })
        .filter(|folder| folder.is_dir())
        .fold(Vec::new(), |mut folders, folder| {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
            folders
        })
}

fn entries_of_folder(root: &Path, manifest: &Value) -> Result<Vec<PathBuf>, Diagnostic> {
    if let Some(listed) = manifest.pointer("/pi/extensions").and_then(Value::as_array) {
        let patterns: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
        let entries = listed_entries(root, &patterns)?;
        if !entries.is_empty() {
            return Ok(entries);
        }
    }
    if let Some(index) = index_of(root) {
        return Ok(vec![index]);
    }
    let found = entries_in(&root.join("extensions"));
    if !found.is_empty() {
        return Ok(found);
    }
    let main = manifest.get("main").and_then(Value::as_str).map(|main| root.join(main)).filter(|main| main.is_file());
    Ok(main.into_iter().collect())
}

/// `pi.extensions`: plain entries and globs add, `!glob` takes away, `-path` and `+path` decide last.
fn listed_entries(root: &Path, patterns: &[&str]) -> Result<Vec<PathBuf>, Diagnostic> {
    let is_glob = |pattern: &str| pattern.contains(['*', '?']);
    let is_pattern = |pattern: &&&str| pattern.starts_with('!') || is_glob(pattern);
    if patterns.iter().filter(is_pattern).count() > MOST_PATTERNS && guard::is_up("build.size") {
        let message = format!("more than {MOST_PATTERNS} patterns under pi.extensions");
        return Err(Diagnostic::new(Code::Limit, message)
            .in_file("package.json")
            .help("name folders, or a pattern for several"));
    }
    let mut entries: Vec<PathBuf> = Vec::new();
    let mut known = BTreeSet::new();
    let mut add = |path: PathBuf| {
        if known.insert(path.clone()) {
            entries.push(path);
        }
    };
    let mut files = None;
    for &pattern in patterns.iter().filter(|pattern| !pattern.starts_with(['!', '-'])) {
        let pattern = pattern.strip_prefix('+').unwrap_or(pattern);
        if is_glob(pattern) {
            let files = files.get_or_insert_with(|| walk(root));
            let matcher = glob(pattern)?;
            files.iter().filter(|file| matcher.is_match(file)).for_each(|file| add(root.join(file)));
            continue;
        }
        let path = root.join(plain(pattern));
        if path.is_dir() {
            entries_in(&path).into_iter().for_each(&mut add);
        } else if path.is_file() {
            add(path);
        }
    }
    let marked = |mark: char| patterns.iter().filter_map(move |pattern| pattern.strip_prefix(mark));
    let places = |mark| marked(mark).map(|place| root.join(plain(place))).collect::<BTreeSet<_>>();
    let (forced, excluded) = (places('+'), places('-'));
    let dropped = marked('!').map(glob).collect::<Result<Vec<_>, _>>()?;
    entries.retain(|path| {
        let is_dropped =
            || path.strip_prefix(root).is_ok_and(|path| dropped.iter().any(|matcher| matcher.is_match(path)));
        !excluded.contains(path) && (forced.contains(path) || !is_dropped())
    });
    Ok(entries)
}

fn plain(pattern: &str) -> &str {
    pattern.trim_start_matches("./")
}

fn glob(pattern: &str) -> Result<globset::GlobMatcher, Diagnostic> {
    let wrong = |what: String| {
        Diagnostic::new(Code::Entry, format!("{what} under pi.extensions in package.json")).in_file("package.json")
    };
    if !globs::fits(pattern) {
        return Err(wrong(format!("a glob {}", globs::problem())));
    }
    let glob = GlobBuilder::new(plain(pattern)).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| {
        Diagnostic::new(Code::Entry, format!("`{pattern}` under pi.extensions: {error}")).in_file("package.json")
    })
}

fn index_of(folder: &Path) -> Option<PathBuf> {
    ["index.ts", "index.js"].iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The extensions in a folder of them: its files, and one entry for each folder in it.
fn entries_in(folder: &Path) -> Vec<PathBuf> {
    if let Some(index) = index_of(folder) {
        return vec![index];
    }
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if is_hidden(&path) {
            continue;
        }
        if path.is_dir() {
            let manifest = read_regular(&path.join("package.json"), LONGEST_MANIFEST).ok();
            let json = manifest.and_then(|bytes| serde_json::from_slice(without_mark(&bytes)).ok());
            let listed = json.as_ref().and_then(|json: &Value| json.pointer("/pi/extensions")?.as_array().cloned());
            let listed = listed.unwrap_or_default();
            let paths: Vec<PathBuf> = listed
                .iter()
                .filter_map(Value::as_str)
                .map(|entry| path.join(plain(entry)))
                .filter(|entry| entry.is_file())
                .collect();
            found.extend(if paths.is_empty() { index_of(&path).into_iter().collect() } else { paths });
        } else if matches!(path.extension().and_then(|extension| extension.to_str()), Some("ts" | "js")) {
            found.insert(path);
        }
    }
    found.into_iter().collect()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name == "node_modules" || name.to_string_lossy().starts_with('.'))
}

/// Files below a folder, relative to it, in order.
fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            seen += 1;
            // Links are not followed: a pattern finds files of the package, and a loop has no end.
            let Ok(kind) = entry.file_type() else { continue };
            if seen > MAX_WALK || is_hidden(&path) {
                continue;
            }
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file()
                && let Ok(relative) = path.strip_prefix(root)
            {
                found.insert(relative.to_owned());
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_paths_without_end_and_some_patterns() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for file in ["a.ts", "b.ts"] {
            fs::write(root.join(file), "").expect("written");
        }
        let both = [root.join("a.ts"), root.join("b.ts")];
        let found = |patterns: &[&str]| listed_entries(root, patterns);

        assert_eq!(found(&["./b.ts"; 2000]).expect("paths"), both[1..]);
        assert_eq!(found(&["*.ts"; MOST_PATTERNS]).expect("patterns"), both);
        assert_eq!(found(&["*.ts"; MOST_PATTERNS + 1]).expect_err("too many").code(), Code::Limit);
        assert_eq!(found(&["!*.ts"; MOST_PATTERNS + 1]).expect_err("too many").code(), Code::Limit);
        assert_eq!(found(&["*.ts", "!a*", "+a.ts", "-b.ts"]).expect("filtered"), both[..1]);
    }
}
