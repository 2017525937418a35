//! Finds the extension entries of a package or of an extensions folder.
//!
//! Implements pi's rules for discovery, `pi install` and `extc`. If `pi` in package.json is an object, it alone decides.
//! Otherwise the folder `extensions/` does; a folder that has neither, but that the user names, is one module. Where pi leaves
//! the order to `readdir`, entries are sorted by name.

use crate::collect::{ResourceKind, is_ignored_by, rules};
use crate::error::{InstallCode, PackageError, Result};
use crate::manifest::Manifest;
use crate::package_manifest::PackageManifest;
use crate::registry::Bundled;
use crate::source::printable;
use globset::{GlobBuilder, GlobMatcher};
use pijs_protocol::{globs, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Maximum number of files that globs are matched against.
const MAX_WALK: usize = 10_000;
const MAX_WALK_DEPTH: usize = 16;
/// Maximum number of globs in one list, each of which is matched against every file. Paths have no such limit, because they are
/// looked up.
const MAX_GLOBS: usize = 256;
/// Suffixes that pi's loader appends to `index` for a folder, in the loader's order.
const MODULE_SUFFIXES: [&str; 9] = ["js", "mjs", "cjs", "ts", "tsx", "mts", "cts", "mtsx", "ctsx"];

/// Name of the file that `extc build -o` writes an extension to.
pub const ARTIFACT_FILE: &str = "extension.artifact";

/// Entry of a package that has MCP servers but no code: the manifest that lists the servers.
pub const MANIFEST_FILE: &str = "package.json";

/// Message of an install for a package without any resource.
const NOTHING: &str = "it contains nothing that pi loads: its package.json has no \"pi\", and there are no extensions/, skills/, prompts/ or themes/ in it; a file in it that is an extension can be named with -e";

/// Extensions of a package.
#[derive(Debug, Default)]
pub struct PackageEntries {
    /// Entry files in load order.
    pub files: Vec<PathBuf>,
    /// Whether the folder as a whole is the extension, and the file its main module.
    pub is_module: bool,
    /// Manifest that lists the entries.
    pub manifest: PackageManifest,
    /// Error of a package without any resource. pi ignores such a package without a message.
    pub nothing: Option<PackageError>,
}

impl PackageEntries {
    fn of(files: Vec<PathBuf>) -> Self {
        Self { files, ..Self::default() }
    }

    fn under(self, manifest: &Manifest) -> Self {
        Self { manifest: PackageManifest::of(manifest), ..self }
    }

    fn none(root: &Path, why: &str, help: &str) -> Self {
        let error = PackageError::new(InstallCode::Manifest, root.display().to_string(), why).help(help);
        Self { nothing: Some(error), ..Self::default() }
    }
}

/// Finds the extensions of a package.
///
/// `named` is set for a folder that the user named, but not for a package of a registry or a repository. Without a list of
/// extensions such a folder is one module, like a folder that is imported. Fails if it is not a module.
pub fn package_entries(root: &Path, named: bool) -> Result<PackageEntries> {
    let manifest = Manifest::read(root)?.unwrap_or_default();
    Ok(entries_under(root, &manifest, named)?.under(&manifest))
}

fn entries_under(root: &Path, manifest: &Manifest, named: bool) -> Result<PackageEntries> {
    const LIST: &str = "add {\"pi\": {\"extensions\": [\"./FILE.ts\"]}} to its package.json";
    if let Some(pi) = &manifest.pi {
        let listed = pi.extensions.as_deref().unwrap_or_default();
        let files = declared_entries(root, listed, &manifest.bundle_dependencies)?;
        let others = ResourceKind::ALL.iter().any(|kind| pi.list(kind.key()).is_some_and(|list| !list.is_empty()));
        let has_servers = pi.mcp_servers.as_ref().is_some_and(|servers| !servers.is_empty());
        return Ok(match (files.is_empty(), listed.is_empty()) {
            (false, _) => PackageEntries::of(files),
            // The realm runs no code; its grants are the grants of the servers.
            (true, true) if has_servers => PackageEntries::of(vec![root.join(MANIFEST_FILE)]),
            (true, true) if others => PackageEntries::default(),
            (true, true) => PackageEntries::none(
                root,
                "\"pi\" of its package.json names neither extensions nor skills, prompts or themes",
                LIST,
            ),
            (true, false) => PackageEntries::none(
                root,
                &format!("no file matches \"pi.extensions\" of its package.json: {}", listed.join(", ")),
                &listed.iter().find_map(|entry| unbuilt_component(root, entry)).unwrap_or_else(|| {
                    "correct the paths under pi.extensions: files, folders, or patterns with * and ?".to_owned()
                }),
            ),
        });
    }
    let folder = root.join("extensions");
    let files = auto_dir(&folder)?;
    if !files.is_empty() {
        return Ok(PackageEntries::of(files));
    }
    match (folder.exists() || has_resources(root), named) {
        (true, _) if has_resources(root) => Ok(PackageEntries::default()),
        (true, _) => Ok(PackageEntries::none(root, "there is no extension in its folder extensions/", LIST)),
        (false, false) => Ok(PackageEntries::none(root, NOTHING, LIST)),
        (false, true) => match module_of(root, manifest.main.as_deref()).or_else(|| artifact_in(root)) {
            Some(file) => Ok(PackageEntries { files: vec![file], is_module: true, ..PackageEntries::default() }),
            None => Err(PackageError::new(
                InstallCode::Manifest,
                root.display().to_string(),
                "no extensions in it: looked for \"pi.extensions\" in package.json, extensions/*.ts, extensions/*.js, extensions/*/index.ts, index.ts, index.js, \"main\" and extension.artifact",
            )
            .help(LIST)),
        },
    }
}

/// Returns help for an entry that is a WebAssembly component and does not exist, because it is the output of a build.
pub(crate) fn unbuilt_component(root: &Path, entry: &str) -> Option<String> {
    let is_component = Path::new(entry).extension().is_some_and(|suffix| suffix == "wasm");
    if !is_component || entry.contains(['*', '?']) || root.join(entry).exists() {
        return None;
    }
    let file = crate::source::printable(entry);
    Some(match root.join("Cargo.toml").exists() {
        true => format!(
            "build the component first: cargo build --release --target wasm32-wasip2 (once before: rustup target add wasm32-wasip2); then copy the file .wasm below target/wasm32-wasip2/release to {file}"
        ),
        false => format!("build the component first, to {file}"),
    })
}

/// Lists paths under `pi.extensions` that do not exist. pi loads the other paths without a message.
pub(crate) fn missing_entries(root: &Path) -> Vec<String> {
    let pi = Manifest::read(root).ok().flatten().and_then(|manifest| manifest.pi);
    let named = pi.and_then(|pi| pi.extensions).unwrap_or_default().into_iter();
    let is_path = |entry: &String| !entry.starts_with(['!', '+', '-']) && !has_glob(entry);
    named.filter(|entry| is_path(entry) && !clean(root, entry).exists()).collect()
}

fn has_resources(root: &Path) -> bool {
    ResourceKind::ALL.iter().any(|kind| root.join(kind.key()).exists())
}

/// Returns the main module of a folder: `index`, or else `main`, for which Node does not try TypeScript's suffixes.
fn module_of(folder: &Path, main: Option<&str>) -> Option<PathBuf> {
    let index = MODULE_SUFFIXES.iter().map(|suffix| folder.join(format!("index.{suffix}")));
    let main = main.filter(|main| is_inside(main)).map(|main| folder.join(main)).into_iter();
    let main = main.flat_map(|main| [main.clone(), with_suffix(&main, ".js"), main.join("index.js")]);
    index.chain(main).find(|path| path.is_file())
}

/// Returns the artifact in a folder that `extc build -o` wrote to. Sources next to it take precedence, because they are at least
/// as new.
fn artifact_in(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(ARTIFACT_FILE)).filter(|path| path.is_file())
}

/// Returns whether a path is an extension that `extc build` compiled: a file named `*.artifact`.
pub fn is_artifact_file(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "artifact") && path.is_file()
}

/// Returns whether a path is a WebAssembly component: a file named `*.wasm`.
pub fn is_component_file(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "wasm") && path.is_file()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Resolves the files, folders, globs and `!`, `+`, `-` entries of a manifest, all inside the package.
fn declared_entries(root: &Path, patterns: &[String], bundled: &Bundled) -> Result<Vec<PathBuf>> {
    let mut found = UniqueFiles::default();
    let mut declared = DeclaredEntries::new(root, bundled);
    for pattern in patterns.iter().filter(|pattern| !pattern.starts_with(['!', '+', '-'])) {
        declared.check_inside(pattern)?;
        let is_glob = has_glob(pattern);
        for path in declared.files(pattern)? {
            if path.is_dir() {
                auto_dir(&path)?.into_iter().for_each(|file| found.push(file));
            } else if !is_glob && path.is_file() || is_module_file(&path) {
                found.push(path);
            }
        }
    }
    let filter: Vec<String> = patterns.iter().filter(|pattern| pattern.starts_with(['!', '+', '-'])).cloned().collect();
    apply_filter(root, found.files, &filter)
}

/// Files without duplicates, in the order in which they were found.
#[derive(Default)]
struct UniqueFiles {
    files: Vec<PathBuf>,
    known: BTreeSet<PathBuf>,
}

impl UniqueFiles {
    fn push(&mut self, file: PathBuf) {
        if self.known.insert(file.clone()) {
            self.files.push(file);
        }
    }
}

/// Resolves the entries of one list of a manifest. The package is walked once, for the first glob.
pub(crate) struct DeclaredEntries<'a> {
    root: &'a Path,
    bundled: &'a Bundled,
    walked: Option<Vec<PathBuf>>,
    globs: usize,
}

impl<'a> DeclaredEntries<'a> {
    pub(crate) fn new(root: &'a Path, bundled: &'a Bundled) -> Self {
        Self { root, bundled, walked: None, globs: 0 }
    }

    /// Returns the path that an entry names, or the paths that its glob matches.
    pub(crate) fn files(&mut self, pattern: &str) -> Result<Vec<PathBuf>> {
        let root = self.root;
        if !has_glob(pattern) {
            return Ok(vec![clean(root, pattern)]);
        }
        self.globs += 1;
        check_globs(root, self.globs)?;
        // Paths of the walk have no leading `./` and no trailing `/`.
        let glob = compile(root, pattern.trim_start_matches("./").trim_end_matches('/'))?;
        let only_folders = pattern.ends_with('/');
        if self.walked.is_none() {
            self.walked = Some(walk(root, self.bundled)?);
        }
        let borrows = pattern.trim_start_matches("./").starts_with("node_modules/");
        let matches = |path: &&PathBuf| {
            let relative = path.strip_prefix(root).expect("every walked path is below the root");
            glob.is_match(relative) && relative.starts_with("node_modules") == borrows
        };
        let walked = self.walked.iter().flatten().filter(matches);
        Ok(walked.filter(|path| !only_folders || path.is_dir()).cloned().collect())
    }

    /// Returns whether an entry stays in the package. Bundled dependencies belong to the package, other dependencies do not.
    pub(crate) fn is_inside(&self, pattern: &str) -> bool {
        let Some(path) = lexical(pattern) else { return !guard!(ManifestInside) };
        let mut names = path.iter().map(|name| name.to_str().unwrap_or_default());
        if names.next() != Some("node_modules") {
            return true;
        }
        let first = names.next().unwrap_or_default();
        let name = if first.starts_with('@') {
            format!("{first}/{}", names.next().unwrap_or_default())
        } else {
            first.to_owned()
        };
        let any = has_glob(&name) && !matches!(self.bundled, Bundled::All(false));
        self.bundled.contains(&name) || any || !guard!(ManifestInside)
    }

    fn check_inside(&self, pattern: &str) -> Result<()> {
        if self.is_inside(pattern) {
            return Ok(());
        }
        let why = format!("\"pi.extensions\" names {}, which is not part of the package", printable(pattern));
        Err(PackageError::new(InstallCode::Manifest, self.root.display().to_string(), why).help(
            "entries are paths inside the package; of node_modules only what is listed under bundledDependencies",
        ))
    }
}

fn check_globs(root: &Path, globs: usize) -> Result<()> {
    if globs <= MAX_GLOBS || !guard!(ManifestGlob) {
        return Ok(());
    }
    let why = format!("more than {MAX_GLOBS} patterns in one list");
    Err(PackageError::new(InstallCode::Manifest, root.display().to_string(), why)
        .help("name folders, or a pattern for several"))
}

fn has_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Decides about each file by the patterns of a settings entry with `"autoload": false`. The last pattern that matches a file
/// decides; a file that no pattern matches stays undecided.
pub(crate) fn delta_decisions(root: &Path, files: &[PathBuf], filter: &[String]) -> Result<Vec<Option<bool>>> {
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
    let decision = |file: &PathBuf| {
        let named = [Some(file.as_path()), skill_folder(file)].into_iter().flatten().filter_map(|path| paths.get(path));
        let matched = globs.iter().rev().find(|(glob, _)| is_matched(root, std::slice::from_ref(glob), file));
        named.chain(matched.map(|(_, decision)| decision)).max().map(|(_, is_on)| *is_on)
    };
    Ok(files.iter().map(decision).collect())
}

/// Returns whether a glob matches a file by its path in the package, its name or its whole path; for a skill, also by its folder.
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

/// Returns the folder of a skill's file.
fn skill_folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|_| file.file_name().is_some_and(|name| name == "SKILL.md"))
}

/// Applies the filter of a settings entry to files that the manifest lists: plain globs keep files, `!` drops files, and `+` and
/// `-` force exact paths in and out. Without a plain glob every file is kept.
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

/// Returns the entries of an extensions folder: the folder's own entries if it is a package or has an index; otherwise its files
/// and the entries of its folders, one level down, without those that its ignore files match.
fn auto_dir(dir: &Path) -> Result<Vec<PathBuf>> {
    let (files, problems) = auto_dir_with_problems(dir);
    match problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(files),
    }
}

/// Like [`auto_dir`], but returns the errors of single entries. A folder that cannot be used is skipped; its neighbours are not.
pub(crate) fn auto_dir_with_problems(dir: &Path) -> (Vec<PathBuf>, Vec<PackageError>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    if !dir.is_dir() {
        return (found, problems);
    }
    match directory_entries(dir) {
        Ok(own) if !own.is_empty() => return (own, problems),
        Ok(_) => {}
        Err(problem) => problems.push(problem),
    }
    let ignored = rules(dir);
    let inside = children(dir).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    for path in inside {
        let is_folder = path.is_dir();
        if is_ignored_by(&ignored, &path, is_folder) {
            continue;
        }
        if is_folder {
            match entries_of_child(&path) {
                Ok(entries) => found.extend(entries),
                Err(problem) => problems.push(problem),
            }
        } else if is_extension_file(&path) || is_artifact_file(&path) || is_component_file(&path) {
            found.push(path);
        }
    }
    (found, problems)
}

/// Returns the entries of one folder: existing paths of its manifest, without patterns, where a folder is a module; otherwise
/// `index.ts`, or else `index.js`.
pub(crate) fn directory_entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let manifest = Manifest::read(dir)?.unwrap_or_default();
    let mut found = UniqueFiles::default();
    let declared = DeclaredEntries::new(dir, &manifest.bundle_dependencies);
    for entry in manifest.pi.and_then(|pi| pi.extensions).unwrap_or_default() {
        let path = clean(dir, &entry);
        if !path.exists() {
            continue;
        }
        declared.check_inside(&entry)?;
        if path.is_file() {
            found.push(path);
            continue;
        }
        let main = Manifest::read(&path)?.and_then(|manifest| manifest.main);
        match module_of(&path, main.as_deref()) {
            Some(file) => found.push(file),
            None => {
                let why = format!("\"pi.extensions\" names {}, a folder without an index", printable(&entry));
                return Err(PackageError::new(InstallCode::Manifest, dir.display().to_string(), why)
                    .help("name its files, or give it an index.ts"));
            }
        }
    }
    if !found.files.is_empty() {
        return Ok(found.files);
    }
    let index = ["index.ts", "index.js"].into_iter().map(|name| dir.join(name)).find(|path| path.is_file());
    Ok(index.into_iter().collect())
}

/// Like [`directory_entries`] for a folder inside an extensions folder, which `extc build -o` may have written.
fn entries_of_child(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = directory_entries(dir)?;
    Ok(if entries.is_empty() { artifact_in(dir).into_iter().collect() } else { entries })
}

/// Returns whether a path is a `.ts` or `.js` file. Declaration files (`.d.ts`) do not count, because they contain no code.
pub(crate) fn is_extension_file(path: &Path) -> bool {
    // A name that is not UTF-8 counts, so that the user gets an error for it.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (name.ends_with(".ts") || name.ends_with(".js")) && !is_declaration(&name) && path.is_file()
}

/// Returns whether a file is a module. A pattern may match a README, on which pi fails.
fn is_module_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    MODULE_SUFFIXES.contains(&suffix) && !is_declaration(name) && path.is_file()
}

fn is_declaration(name: &str) -> bool {
    name.ends_with(".d.ts") || name.ends_with(".d.mts") || name.ends_with(".d.cts")
}

fn is_inside(path: &str) -> bool {
    lexical(path).is_some() || !guard!(ManifestInside)
}

/// Resolves `.` and `..` of a path in a package; returns `None` if the path leaves the package.
fn lexical(path: &str) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            // A glob may match any folder, so `..` after it is ambiguous.
            Component::ParentDir if !has_glob(path) && clean.pop() => {}
            _ => return None,
        }
    }
    (!path.contains('\\')).then_some(clean)
}

fn clean(root: &Path, relative: &str) -> PathBuf {
    match lexical(relative) {
        Some(inside) if inside.as_os_str().is_empty() => root.to_owned(),
        Some(inside) => root.join(inside),
        None => root.join(relative),
    }
}

fn compile(root: &Path, pattern: &str) -> Result<GlobMatcher> {
    let refuse = |why: String| PackageError::new(InstallCode::Manifest, root.display().to_string(), why);
    if pattern.len() > 512 && guard!(ManifestGlob) {
        return Err(refuse("a glob of more than 512 characters".to_owned()));
    }
    if !globs::fits(pattern) {
        return Err(refuse(format!("a glob {}", globs::problem())));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    Ok(glob
        .map_err(|error| refuse(format!("{} is not a valid glob: {}", printable(pattern), error.kind())))?
        .compile_matcher())
}

/// Lists a folder sorted, without dot names and `node_modules`.
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

/// Lists files and folders of the package and of its bundled dependencies, sorted. Links are listed, but not followed.
pub(crate) fn walk(root: &Path, bundled: &Bundled) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_path_buf(), 0)];
    let brought = |at: &Path| {
        let relative = at.strip_prefix(root.join("node_modules")).ok();
        relative.and_then(Path::to_str).is_some_and(|name| bundled.contains(name))
    };
    let modules = root.join("node_modules");
    for name in if modules.is_dir() { children(&modules)? } else { Vec::new() } {
        let is_scope = name.file_name().is_some_and(|name| name.to_string_lossy().starts_with('@'));
        let packages = if is_scope && name.is_dir() { children(&name)? } else { vec![name] };
        folders.extend(packages.into_iter().filter(|at| brought(at) && at.is_dir()).map(|at| (at, 0)));
    }
    while let Some((folder, depth)) = folders.pop() {
        for path in children(&folder)? {
            let kind =
                fs::symlink_metadata(&path).map_err(|error| PackageError::io("read it", &path, error))?.file_type();
            if kind.is_dir() && depth < MAX_WALK_DEPTH {
                folders.push((path.clone(), depth + 1));
            }
            if kind.is_dir() || kind.is_file() || kind.is_symlink() {
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
    fn a_component_that_is_not_built_is_reported_with_its_build() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let help = |entry: &str| {
            let manifest = serde_json::json!({"name": "judge", "pi": {"extensions": [entry]}});
            fs::write(root.join(MANIFEST_FILE), manifest.to_string()).expect("written");
            package_entries(root, true).expect("a manifest").nothing.expect("no entry").help.expect("help")
        };
        assert_eq!(help("./judge.wasm"), "build the component first, to ./judge.wasm");
        fs::write(root.join("Cargo.toml"), "").expect("written");
        let build = "cargo build --release --target wasm32-wasip2 (once before: rustup target add wasm32-wasip2)";
        assert!(help("./judge.wasm").contains(build), "{}", help("./judge.wasm"));
        for other in ["./judge.ts", "*.wasm"] {
            assert!(help(other).starts_with("correct the paths"), "{other}");
        }
    }

    #[test]
    fn a_list_may_have_any_number_of_paths_but_few_patterns() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for file in ["a.ts", "b.ts"] {
            fs::write(root.join(file), "").expect("written");
        }
        let many = |pattern: &str, count: usize| vec![pattern.to_owned(); count];
        let found = |patterns: &[String]| declared_entries(root, patterns, &Bundled::default());
        let both = [root.join("a.ts"), root.join("b.ts")];

        assert_eq!(found(&many("a.ts", 2000)).expect("paths"), both[..1]);
        assert_eq!(found(&many("*.ts", MAX_GLOBS)).expect("patterns"), both);
        let error = found(&many("*.ts", MAX_GLOBS + 1)).expect_err("too many");
        assert_eq!(error.code, InstallCode::Manifest);
        let error = found(&[many("*.ts", 1), many("!c.ts", MAX_GLOBS + 1)].concat()).expect_err("too many");
        assert_eq!(error.code, InstallCode::Manifest);
        assert!(delta_decisions(root, &both, &many("*.ts", MAX_GLOBS + 1)).is_err());
        assert_eq!(delta_decisions(root, &both, &many("+a.ts", 2000)).expect("paths"), [Some(true), None]);
        let last = ["*.ts", "-a.ts", "!b*", "+b.ts"].map(str::to_owned);
        assert_eq!(delta_decisions(root, &both, &last).expect("the last decides"), [Some(false), Some(true)]);

        let filter = ["!a*", "+a.ts", "-b.ts"].map(str::to_owned);
        assert_eq!(apply_filter(root, both.to_vec(), &filter).expect("filtered"), both[..1]);
    }
}
