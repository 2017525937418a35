//! Finds the skills, prompt templates and themes of a session, in pi's order.
//!
//! Packages of `-e` and paths of options come first; then paths of settings and the folders of a scope, those of the project
//! before those of the user; then installed packages, in the same order. A file is used once, by its real path. Resources of a
//! project are used only if the user trusts the folder. Errors are ignored here, because
//! [`resolve_extensions`](crate::resolve_extensions) reads the same packages and reports them.

use crate::collect::{ResourceKind, SearchDepth, collect};
use crate::discover::DiscoverOptions;
use crate::entries::{DeclaredEntries, apply_filter};
use crate::manifest::Manifest;
use crate::registry::Bundled;
use crate::selection::{Selected, selected};
use crate::settings::PackageSettings;
use crate::source::{PackageSource, local_path};
use crate::store::PackageStore;
use crate::{Dirs, InstallScope};
use pijs_durable::{Disk, real_path};
use pijs_protocol::guard;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Options of the command line about resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceOptions {
    /// `--skill`: files and folders.
    pub skills: Vec<String>,
    /// `--prompt-template`: files and folders.
    pub prompts: Vec<String>,
    /// `--theme`: files and folders.
    pub themes: Vec<String>,
    /// `--no-skills`: uses only named skills.
    pub only_named_skills: bool,
    /// `--no-prompt-templates`: uses only named prompt templates.
    pub only_named_prompts: bool,
    /// `--no-themes`: uses only named themes.
    pub only_named_themes: bool,
}

impl ResourceOptions {
    fn named(&self, kind: ResourceKind) -> (&[String], bool) {
        match kind {
            ResourceKind::Skills => (&self.skills, self.only_named_skills),
            ResourceKind::Prompts => (&self.prompts, self.only_named_prompts),
            ResourceKind::Themes => (&self.themes, self.only_named_themes),
        }
    }
}

/// Source of an extension or resource, pi's `sourceInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// `cli`, `local`, `auto`, or a package as it is written in settings.
    pub source: String,
    /// `user`, `project` or `temporary`.
    pub scope: &'static str,
    /// `package` or `top-level`.
    pub origin: &'static str,
    /// Folder that the paths are relative to, if known.
    pub base_dir: Option<PathBuf>,
}

impl Provenance {
    pub(crate) fn cli() -> Self {
        Self { source: "cli".to_owned(), scope: "temporary", origin: "top-level", base_dir: None }
    }

    pub(crate) fn top_level(source: &str, scope: InstallScope, base_dir: Option<PathBuf>) -> Self {
        Self { source: source.to_owned(), scope: scope.as_str(), origin: "top-level", base_dir }
    }

    pub(crate) fn package(source: &str, scope: &'static str, root: &Path) -> Self {
        Self { source: source.to_owned(), scope, origin: "package", base_dir: Some(root.to_owned()) }
    }

    /// Returns pi's `sourceInfo` of a file.
    pub fn info(&self, path: &Path) -> Value {
        let mut info = json!({"path": path, "source": self.source, "scope": self.scope, "origin": self.origin});
        if let Some(base_dir) = &self.base_dir {
            info["baseDir"] = json!(base_dir);
        }
        info
    }
}

/// A file and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Absolute path.
    pub path: PathBuf,
    /// Source of the file.
    pub from: Provenance,
}

/// A file that a package lists, but that a link leads out of the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Path in the package.
    pub path: PathBuf,
    /// Target of the link.
    pub real: PathBuf,
    /// Folder of the package.
    pub package: PathBuf,
}

/// Resources that a session reads besides extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceFiles {
    /// Markdown files of skills.
    pub skills: Vec<Resource>,
    /// Markdown files of prompt templates.
    pub prompts: Vec<Resource>,
    /// JSON files of themes.
    pub themes: Vec<Resource>,
    /// Files that packages list, but that are outside of the package's folder.
    pub left_out: Vec<LeftOut>,
}

impl ResourceFiles {
    fn of(&mut self, kind: ResourceKind) -> &mut Vec<Resource> {
        match kind {
            ResourceKind::Skills => &mut self.skills,
            ResourceKind::Prompts => &mut self.prompts,
            ResourceKind::Themes => &mut self.themes,
        }
    }
}

/// Finds all resources of a session.
pub fn resolve_resources(options: &DiscoverOptions, asked: &ResourceOptions) -> ResourceFiles {
    let dirs = &options.dirs;
    let settings: Vec<(InstallScope, PackageSettings)> = options
        .scopes()
        .iter()
        .filter_map(|scope| Some((*scope, PackageSettings::read(&Disk::system(), &dirs.root(*scope)).ok()?)))
        .collect();
    // Each package is read once for all kinds.
    let packages: Vec<(Selected, OnceCell<Option<PackageFolder>>)> =
        selected(&settings, &dirs.home).into_iter().map(|package| (package, OnceCell::new())).collect();
    let mut files = ResourceFiles::default();
    let mut left_out = Vec::new();
    for kind in ResourceKind::ALL {
        let (named, only_named) = asked.named(kind);
        let (seen, left_out) = (BTreeSet::new(), &mut left_out);
        let mut found = ResourceFinder { dirs, kind, seen, files: files.of(kind), left_out };
        for text in &options.named {
            found.named_package(text, options.scopes());
        }
        if !only_named {
            for (scope, settings) in &settings {
                found.listed(*scope, settings);
                found.folders(*scope, settings);
            }
            for (package, place) in &packages {
                let place = place.get_or_init(|| place_of(dirs, package));
                if let Some(place) = place {
                    found.package(package, place);
                }
            }
        }
        for text in named {
            for path in named_files(kind, &local_path(text, &dirs.cwd, &dirs.home)) {
                let base_dir = path.parent().map(Path::to_owned);
                let from = Provenance { source: "local".to_owned(), scope: "temporary", origin: "top-level", base_dir };
                found.add([path], &from);
            }
        }
    }
    files.left_out = left_out;
    files
}

struct ResourceFinder<'a> {
    dirs: &'a Dirs,
    kind: ResourceKind,
    /// Real paths of the files found so far.
    seen: BTreeSet<PathBuf>,
    files: &'a mut Vec<Resource>,
    left_out: &'a mut Vec<LeftOut>,
}

impl ResourceFinder<'_> {
    fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>, from: &Provenance) {
        for path in paths {
            let real = real_path(&path).unwrap_or_else(|_| path.clone());
            if self.seen.insert(real) {
                self.files.push(Resource { path, from: from.clone() });
            }
        }
    }

    /// Adds the files of a package that are in its folder. The user agreed to the package, not to the targets of its links; code
    /// can request access to those by a capability.
    fn add_of_package(&mut self, root: &Path, paths: Vec<PathBuf>, from: &Provenance) {
        if paths.is_empty() {
            return;
        }
        let Ok(package) = real_path(root) else { return };
        let (inside, outside): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| {
            let real = real_path(path);
            real.is_ok_and(|real| real.starts_with(&package)) || !guard!(ResourcesPackageLinks)
        });
        self.add(inside, from);
        self.left_out.extend(outside.into_iter().map(|path| LeftOut {
            real: real_path(&path).unwrap_or_else(|_| path.clone()),
            package: root.to_owned(),
            path,
        }));
    }

    /// Adds a package of `-e`. pi reports its skills with the source `cli`, and its other resources with the package as source.
    fn named_package(&mut self, text: &str, scopes: &[InstallScope]) {
        let Ok(source) = PackageSource::from_settings(text, &self.dirs.cwd, &self.dirs.home) else { return };
        let root = match &source {
            PackageSource::Path(path) => Some(path.clone()).filter(|path| path.is_dir()),
            _ => scopes.iter().find_map(|scope| installed(&self.dirs.root(*scope), *scope, &source)),
        };
        let Some(root) = root else { return };
        let from = match self.kind {
            ResourceKind::Skills => Provenance::cli(),
            _ => Provenance::package(text, "temporary", &root),
        };
        self.add_of_package(&root, offered(self.kind, &root, declared(&root).as_ref(), false), &from);
    }

    /// Adds files and folders of settings, except those that patterns exclude.
    fn listed(&mut self, scope: InstallScope, settings: &PackageSettings) {
        let root = self.dirs.root(scope);
        let (patterns, plain): (Vec<String>, Vec<String>) =
            settings.list(self.kind.key()).into_iter().partition(|entry| is_pattern(entry));
        let files = plain.iter().flat_map(|text| files_at(self.kind, &local_path(text, &root, &self.dirs.home)));
        let files = apply_filter(&root, files.collect(), &patterns).unwrap_or_default();
        self.add(files, &Provenance::top_level("local", scope, None));
    }

    /// Adds the folders of a scope, except files that `!`, `+` and `-` of its settings exclude.
    fn folders(&mut self, scope: InstallScope, settings: &PackageSettings) {
        let (kind, dirs) = (self.kind, self.dirs);
        let root = dirs.root(scope);
        let overrides: Vec<String> =
            settings.list(kind.key()).into_iter().filter(|entry| entry.starts_with(['!', '+', '-'])).collect();
        let mut take = |folder: &Path, base: &Path, search| {
            let files = apply_filter(base, collect(kind, folder, search), &overrides).unwrap_or_default();
            self.add(files, &Provenance::top_level("auto", scope, Some(base.to_owned())));
        };
        if kind != ResourceKind::Skills {
            take(&root.join(kind.key()), &root, SearchDepth::Flat);
            return;
        }
        take(&root.join("skills"), &root, SearchDepth::Whole);
        let users = dirs.home.join(".agents");
        let bases = match scope {
            InstallScope::User => vec![users],
            InstallScope::Project => agents_above(&dirs.cwd).into_iter().filter(|base| *base != users).collect(),
        };
        for base in bases {
            take(&base.join("skills"), &base, SearchDepth::Agents);
        }
    }

    fn package(&mut self, package: &Selected, PackageFolder { root, manifest }: &PackageFolder) {
        let Selected { scope, choice, .. } = package;
        let from = Provenance::package(&choice.configured.text, scope.as_str(), root);
        let (kind, manifest) = (self.kind, manifest.as_ref());
        let default = || offered(kind, root, manifest, choice.configured.is_object);
        let chosen = choice.choose(kind.key(), root, default, || all_of(kind, root, manifest));
        self.add_of_package(root, chosen.unwrap_or_default(), &from);
    }
}

/// Folder of a package, and its manifest if that has a `pi` member.
struct PackageFolder {
    root: PathBuf,
    manifest: Option<Manifest>,
}

/// Finds the folder of a package that settings select, if it exists.
fn place_of(dirs: &Dirs, package: &Selected) -> Option<PackageFolder> {
    let root = match package.source.as_ref().ok()? {
        PackageSource::Path(path) => Some(path.clone()).filter(|path| path.is_dir()),
        source => installed(&dirs.root(package.lies_in), package.lies_in, source),
    }?;
    let manifest = declared(&root);
    Some(PackageFolder { root, manifest })
}

/// Returns the folder of an installed package.
fn installed(root: &Path, scope: InstallScope, source: &PackageSource) -> Option<PathBuf> {
    let place = PackageStore::place_of(root, source);
    PackageStore::holds(&Disk::system(), root, scope, &place).is_ok_and(|held| held).then_some(place)
}

/// Counts the skills, prompt templates and themes that a package loads without settings.
pub fn count_resources(root: &Path) -> [(ResourceKind, usize); 3] {
    let manifest = declared(root);
    ResourceKind::ALL.map(|kind| (kind, offered(kind, root, manifest.as_ref(), false).len()))
}

/// Returns the files that load by default: those that the manifest lists; or those in the kind's folder, if there is no manifest,
/// or if settings list the package and the manifest does not mention the kind.
fn offered(kind: ResourceKind, root: &Path, manifest: Option<&Manifest>, or_folder: bool) -> Vec<PathBuf> {
    match manifest {
        Some(manifest) => match manifest.resources(kind.key()) {
            Some(entries) => declared_resources(kind, root, entries, &manifest.bundle_dependencies),
            None if or_folder => collect(kind, &root.join(kind.key()), SearchDepth::Whole),
            None => Vec::new(),
        },
        None => collect(kind, &root.join(kind.key()), SearchDepth::Whole),
    }
}

/// Returns the files that patterns of settings may name: those that the manifest lists, or else those in the folder of that name.
fn all_of(kind: ResourceKind, root: &Path, manifest: Option<&Manifest>) -> Vec<PathBuf> {
    let named = manifest.and_then(|manifest| Some((manifest, manifest.resources(kind.key())?)));
    match named.filter(|(_, list)| !list.is_empty()) {
        Some((manifest, entries)) => declared_resources(kind, root, entries, &manifest.bundle_dependencies),
        None => collect(kind, &root.join(kind.key()), SearchDepth::Whole),
    }
}

/// Reads the manifest of a package, if it has a `pi` member.
fn declared(root: &Path) -> Option<Manifest> {
    Manifest::read(root).ok().flatten().filter(|manifest| manifest.pi.is_some())
}

/// Resolves files, folders, globs and `!`, `+`, `-` entries of a manifest. Paths that leave the package are ignored.
fn declared_resources(kind: ResourceKind, root: &Path, entries: &[String], bundled: &Bundled) -> Vec<PathBuf> {
    let (patterns, named): (Vec<String>, Vec<String>) =
        entries.iter().cloned().partition(|entry| entry.starts_with(['!', '+', '-']));
    let mut declared = DeclaredEntries::new(root, bundled);
    let mut files = Vec::new();
    for entry in &named {
        let paths = if declared.is_inside(entry) { declared.files(entry).unwrap_or_default() } else { Vec::new() };
        files.extend(paths.iter().flat_map(|path| files_at(kind, path)));
    }
    apply_filter(root, files, &patterns).unwrap_or_default()
}

/// Returns the files that an option names. For a folder of templates or themes, these are the files directly in it.
fn named_files(kind: ResourceKind, path: &Path) -> Vec<PathBuf> {
    if kind != ResourceKind::Skills && path.is_dir() {
        collect(kind, path, SearchDepth::Flat)
    } else {
        files_at(kind, path)
    }
}

/// Returns the file itself if it is of this kind; for a folder, the files in it.
pub fn files_at(kind: ResourceKind, path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return collect(kind, path, SearchDepth::Whole);
    }
    if kind.is_file(path) { vec![path.to_owned()] } else { Vec::new() }
}

fn is_pattern(entry: &str) -> bool {
    entry.starts_with(['!', '+', '-']) || entry.contains(['*', '?'])
}

/// Lists `.agents` in this folder and in the folders above, up to the repository's folder.
fn agents_above(cwd: &Path) -> Vec<PathBuf> {
    let repository = cwd.ancestors().find(|folder| folder.join(".git").exists());
    let mut found = Vec::new();
    for folder in cwd.ancestors() {
        found.push(folder.join(".agents"));
        if Some(folder) == repository {
            break;
        }
    }
    found
}
