//! Finds the extensions that a session loads, in pi's order.
//!
//! `-e` comes first, in argument order; then the project's `settings.json`, the project's `.pi/extensions`, the user's settings,
//! the user's `extensions` folder; then packages, those of the project before those of the user. A file is loaded once, by its
//! real path. Extensions of a project are loaded only if the user trusts the folder, even for packages that `-e` names: a cloned
//! folder must not replace a package that the user has installed.

use crate::entries::{
    PackageEntries, apply_filter, auto_dir_with_problems, directory_entries, is_artifact_file, is_component_file,
    is_extension_file, package_entries,
};
use crate::error::{InstallCode, PackageError, Result};
use crate::package_manifest::PackageManifest;
use crate::realms::realms;
use crate::resources::Provenance;
use crate::selection::{Selected, selected};
use crate::settings::PackageSettings;
use crate::source::{PackageSource, local_path};
use crate::store::PackageStore;
use crate::{Dirs, InstallScope};
use pijs_durable::{Disk, real_path};
use pijs_protocol::{ExtensionId, guard};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Options of the search.
#[derive(Debug, Clone)]
pub struct DiscoverOptions {
    /// Folders of user and project.
    pub dirs: Dirs,
    /// `-e`, in argument order: paths or sources.
    pub named: Vec<String>,
    /// `-ne`: loads only what `named` lists.
    pub only_named: bool,
    /// Whether the user trusts the project folder. Without trust, nothing in it is loaded.
    pub trusted: bool,
}

/// Setting or folder that an extension was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiscoveryOrigin {
    /// `-e`
    Named,
    /// `extensions` of a settings file.
    Settings(InstallScope),
    /// The `extensions` folder of a scope.
    Folder(InstallScope),
    /// `packages` of a settings file.
    Package(InstallScope),
}

/// One realm to load: its entries run in it in order. A package may have several realms ([`crate::realms()`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageEntry {
    /// `npm:NAME`, or `path:CANONICAL_PATH` of a folder or of a single file. For a component next to other entries, `#` and its
    /// path follow.
    pub id: ExtensionId,
    /// Name in the `package.json` of a folder or repository. It need not be unique.
    pub name: Option<String>,
    /// Folder of the package, or of the single file.
    pub root: PathBuf,
    /// Absolute paths of the entries.
    pub entries: Vec<PathBuf>,
    /// Setting or folder that the extension was found in.
    pub origin: DiscoveryOrigin,
    /// Scope that the package is installed in; `None` for a path. A lookup by name returns the first package.
    pub installed: Option<InstallScope>,
    /// Source of the extensions, as events report it.
    pub from: Provenance,
    /// Whether the folder as a whole is the extension, with the folder's name.
    pub is_module: bool,
    /// Manifest as read during discovery. A single file has none.
    pub manifest: PackageManifest,
}

impl PackageEntry {
    /// Returns the file if the package is an artifact, which contains all entries and their number.
    pub fn artifact_file(&self) -> Option<&Path> {
        match self.entries.as_slice() {
            [file] => is_artifact_file(file).then_some(file.as_path()),
            _ => None,
        }
    }

    /// Returns the file if the package is a single file, whose neighbours belong to no package.
    pub fn loose_file(&self) -> Option<&Path> {
        match self.entries.as_slice() {
            [file] => (self.id == path_id(file)).then_some(file.as_path()),
            _ => None,
        }
    }
}

/// Packages to load, and requests that failed.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Packages in load order.
    pub packages: Vec<PackageEntry>,
    /// Errors of extensions that the command line names.
    pub refused: Vec<PackageError>,
    /// Errors of extensions found elsewhere. They are reported, and the other extensions are loaded.
    pub problems: Vec<PackageError>,
    /// Whether a project that is not trusted has extensions.
    pub untrusted: bool,
}

impl DiscoverOptions {
    /// Returns the scopes to search, in pi's order. The project's scope comes first and needs trust.
    pub(crate) fn scopes(&self) -> &'static [InstallScope] {
        if self.trusted { &[InstallScope::Project, InstallScope::User] } else { &[InstallScope::User] }
    }
}

/// Finds all extensions that a session loads.
pub fn resolve_extensions(options: &DiscoverOptions) -> Discovery {
    let mut finder =
        Finder { dirs: &options.dirs, scopes: options.scopes(), seen: BTreeSet::new(), found: Discovery::default() };
    for named in &options.named {
        if let Err(error) = finder.named(named) {
            finder.found.refused.push(error);
        }
    }
    if options.only_named {
        return finder.found;
    }
    finder.found.untrusted = !options.trusted && offers_extensions(&options.dirs.root(InstallScope::Project));
    let mut settings = Vec::new();
    for scope in options.scopes() {
        match PackageSettings::read(&Disk::system(), &options.dirs.root(*scope)) {
            Ok(read) => settings.push((*scope, read)),
            Err(error) => finder.found.problems.push(error),
        }
    }
    for (scope, settings) in &settings {
        let result = finder.listed_and_folder(*scope, settings);
        finder.keep(result);
    }
    for package in selected(&settings, &options.dirs.home) {
        let result = finder.package(package);
        finder.keep(result);
    }
    finder.found
}

/// Finds the folder of a package that settings list by its path, by the name in the package's manifest. The project's settings
/// are searched first.
pub fn listed_folder(options: &DiscoverOptions, name: &str) -> Option<PathBuf> {
    let read =
        |scope: &InstallScope| Some((*scope, PackageSettings::read(&Disk::system(), &options.dirs.root(*scope)).ok()?));
    let settings: Vec<_> = options.scopes().iter().filter_map(read).collect();
    let folders = selected(&settings, &options.dirs.home).into_iter().filter_map(|selected| match selected.source {
        Ok(PackageSource::Path(path)) if path.is_dir() => Some(path),
        _ => None,
    });
    let has_name = |folder: &PathBuf| PackageManifest::read(folder).is_ok_and(|manifest| manifest.name() == Some(name));
    folders.into_iter().find(has_name)
}

fn offers_extensions(root: &Path) -> bool {
    let listed = PackageSettings::read(&Disk::system(), root)
        .is_ok_and(|settings| !settings.packages().is_empty() || !settings.extensions().is_empty());
    listed || root.join("extensions").is_dir()
}

struct Finder<'a> {
    dirs: &'a Dirs,
    /// Scopes whose installed packages can be named.
    scopes: &'static [InstallScope],
    /// Real paths of the entries found so far.
    seen: BTreeSet<PathBuf>,
    found: Discovery,
}

impl Finder<'_> {
    fn keep(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.found.problems.push(error);
        }
    }

    fn named(&mut self, text: &str) -> Result<()> {
        // As in settings, and unlike in `pi install`, a name without `npm:` is a path.
        let source = PackageSource::from_settings(text, &self.dirs.cwd, &self.dirs.home)?;
        match source {
            PackageSource::Path(path) => self.path(&path, DiscoveryOrigin::Named, Provenance::cli()),
            PackageSource::Npm { name, range } => {
                let Some((scope, root)) = self.installed(&PackageSource::Npm { name: name.clone(), range })? else {
                    return Err(PackageError::new(InstallCode::Source, format!("npm:{name}"), "it is not installed")
                        .help(format!("run: pi install npm:{name}")));
                };
                let entries = package_entries(&root, false)?;
                let id = ExtensionId::new(format!("npm:{name}"));
                self.package_at((id, Some(scope)), &root, entries, DiscoveryOrigin::Named, Provenance::cli());
                Ok(())
            }
            PackageSource::Git(git) => {
                let id = git.identity();
                let Some((scope, root)) = self.installed(&PackageSource::Git(git.clone()))? else {
                    return Err(PackageError::new(InstallCode::Source, id, "it is not installed")
                        .help(format!("run: pi install {}", git.to_settings())));
                };
                let entries = package_entries(&root, false)?;
                self.package_at(
                    (ExtensionId::new(id), Some(scope)),
                    &root,
                    entries,
                    DiscoveryOrigin::Named,
                    Provenance::cli(),
                );
                Ok(())
            }
        }
    }

    /// Returns the folder of an installed package, in the first scope that has it.
    fn installed(&self, source: &PackageSource) -> Result<Option<(InstallScope, PathBuf)>> {
        for scope in self.scopes {
            let root = self.dirs.root(*scope);
            let place = PackageStore::place_of(&root, source);
            if PackageStore::holds(&Disk::system(), &root, *scope, &place)? {
                return Ok(Some((*scope, place)));
            }
        }
        Ok(None)
    }

    /// Adds a file or folder that the user or settings name.
    fn path(&mut self, path: &Path, origin: DiscoveryOrigin, from: Provenance) -> Result<()> {
        if path.is_dir() {
            let entries = package_entries(path, true)?;
            self.package_at((path_id(path), None), path, entries, origin, from);
            return Ok(());
        }
        if !path.is_file() {
            return Err(PackageError::new(
                InstallCode::Source,
                path.display().to_string(),
                "Extension path does not exist",
            )
            .help("for a package of the registry write npm:NAME"));
        }
        self.loose(path, origin, from);
        Ok(())
    }

    fn loose(&mut self, file: &Path, origin: DiscoveryOrigin, from: Provenance) {
        let folder = file.parent().unwrap_or(file);
        self.push(
            (path_id(file), None),
            folder,
            vec![file.to_path_buf()],
            origin,
            (from, Some(PackageManifest::default())),
        );
    }

    /// Adds `extensions` of the settings, then the folder, filtered by the settings' `!`, `+` and `-` entries.
    fn listed_and_folder(&mut self, scope: InstallScope, settings: &PackageSettings) -> Result<()> {
        let root = self.dirs.root(scope);
        let (overrides, listed): (Vec<String>, Vec<String>) =
            settings.extensions().into_iter().partition(|entry| entry.starts_with(['!', '+', '-']));
        for text in listed {
            let path = local_path(&text, &root, &self.dirs.home);
            let result =
                self.path(&path, DiscoveryOrigin::Settings(scope), Provenance::top_level("local", scope, None));
            self.keep(result);
        }
        let folder = root.join("extensions");
        let from = Provenance::top_level("auto", scope, Some(root.clone()));
        let own = if folder.is_dir() { directory_entries(&folder).unwrap_or_default() } else { Vec::new() };
        if !own.is_empty() {
            let entries = apply_filter(&root, own, &overrides)?;
            self.push((path_id(&folder), None), &folder, entries, DiscoveryOrigin::Folder(scope), (from, None));
            return Ok(());
        }
        // Files are loose extensions; a folder with several entries is one package.
        let mut groups: Vec<(PathBuf, Vec<PathBuf>)> = Vec::new();
        let (inside, problems) = auto_dir_with_problems(&folder);
        self.found.problems.extend(problems);
        for entry in apply_filter(&root, inside, &overrides)? {
            let top = entry
                .strip_prefix(&folder)
                .ok()
                .and_then(|path| path.components().next())
                .map(|first| folder.join(first))
                .unwrap_or(entry.clone());
            match groups.last_mut() {
                Some((last, entries)) if *last == top => entries.push(entry),
                _ => groups.push((top, vec![entry])),
            }
        }
        for (top, entries) in groups {
            if is_extension_file(&top) || is_artifact_file(&top) || is_component_file(&top) {
                self.loose(&top, DiscoveryOrigin::Folder(scope), from.clone());
            } else {
                self.push((path_id(&top), None), &top, entries, DiscoveryOrigin::Folder(scope), (from.clone(), None));
            }
        }
        Ok(())
    }

    fn package(&mut self, Selected { scope, source, choice, is_change, .. }: Selected) -> Result<()> {
        let (source, text) = (source?, &choice.configured.text);
        // A package loads once, with its changes.
        if is_change || choice.is_empty("extensions") {
            return Ok(());
        }
        let settings_dir = self.dirs.root(scope);
        let identity = source.identity();
        let (id, root, local) = match &source {
            PackageSource::Npm { name, .. } => {
                (ExtensionId::new(identity), PackageStore::place(&settings_dir, name), false)
            }
            PackageSource::Git(_) => {
                (ExtensionId::new(identity), PackageStore::place_of(&settings_dir, &source), false)
            }
            PackageSource::Path(path) if path.is_dir() => (path_id(path), path.clone(), true),
            PackageSource::Path(path) => {
                let from = Provenance::package(text, scope.as_str(), path.parent().unwrap_or(path));
                return self.path(path, DiscoveryOrigin::Package(scope), from);
            }
        };
        if !local && !PackageStore::holds(&Disk::system(), &settings_dir, scope, &root)? {
            return Err(PackageError::new(
                InstallCode::Source,
                source.to_string(),
                "settings list it, but it is not installed",
            )
            .help(format!("run: pi install {text}{}", if scope == InstallScope::Project { " -l" } else { "" })));
        }
        let mut entries = package_entries(&root, local)?;
        let all = || entries.files.clone();
        let mut files = choice.added("extensions", &root, all())?;
        files.extend(choice.choose("extensions", &root, all, all)?);
        entries.files = files;
        let from = Provenance::package(text, scope.as_str(), &root);
        let installed = (!local).then_some(scope);
        self.package_at((id, installed), &root, entries, DiscoveryOrigin::Package(scope), from);
        Ok(())
    }

    /// Refuses a package of a project whose folder contains the project. A package may read its own folder, so it could read
    /// everything next to the project: with a path or a link, `..` would be a package if it contains `extensions/`.
    fn around_project(
        &self,
        id: &ExtensionId,
        root: &Path,
        entries: &[PathBuf],
        origin: DiscoveryOrigin,
    ) -> Option<PackageError> {
        let brought = matches!(
            origin,
            DiscoveryOrigin::Settings(InstallScope::Project)
                | DiscoveryOrigin::Folder(InstallScope::Project)
                | DiscoveryOrigin::Package(InstallScope::Project)
        );
        let loose = matches!(entries, [file] if *id == path_id(file));
        if !brought || loose || !guard!(PackagesEnclosingFolder) {
            return None;
        }
        let (root, project) = (real_path(root).ok()?, real_path(&self.dirs.cwd).ok()?);
        let home = real_path(&self.dirs.home).unwrap_or_else(|_| self.dirs.home.clone());
        // The project's repository belongs to the project, wherever in it pi was started. A home folder under version control
        // does not own everything in it.
        let is_no_home = |folder: &&Path| !home.starts_with(folder) || !guard!(PackagesEnclosingHome);
        let top = project.ancestors().take_while(is_no_home).find(|folder| folder.join(".git").exists());
        let top = top.unwrap_or(&project);
        if root == top || !top.starts_with(&root) {
            return None;
        }
        let why = "a package of this project whose folder contains the project";
        Some(
            PackageError::new(InstallCode::Path, root.display().to_string(), why)
                .help("name its files one by one under \"extensions\", or start pi in that folder"),
        )
    }

    /// Adds the entries of a package. A package without entries is reported, unless it is installed: its install reported that.
    fn package_at(
        &mut self,
        who: (ExtensionId, Option<InstallScope>),
        root: &Path,
        entries: PackageEntries,
        origin: DiscoveryOrigin,
        from: Provenance,
    ) {
        let told = who.1.is_some() && origin != DiscoveryOrigin::Named;
        self.found.problems.extend(entries.nothing.filter(|_| !told));
        let before = self.found.packages.len();
        self.push(who, root, entries.files, origin, (from, Some(entries.manifest)));
        if let Some(found) = self.found.packages.get_mut(before) {
            found.is_module = entries.is_module;
        }
    }

    fn push(
        &mut self,
        (id, installed): (ExtensionId, Option<InstallScope>),
        root: &Path,
        entries: Vec<PathBuf>,
        origin: DiscoveryOrigin,
        (from, manifest): (Provenance, Option<PackageManifest>),
    ) {
        let real = |path: &Path| real_path(path).unwrap_or_else(|_| path.to_path_buf());
        if let Some(error) = self.around_project(&id, root, &entries, origin) {
            self.found.problems.push(error);
            return;
        }
        let entries: Vec<PathBuf> =
            entries.into_iter().map(|entry| real(&entry)).filter(|entry| self.seen.insert(entry.clone())).collect();
        if entries.is_empty() {
            return;
        }
        // An unreadable manifest was reported when its entries were searched.
        let manifest = manifest.unwrap_or_else(|| PackageManifest::read(root).unwrap_or_default());
        let name = manifest.name().filter(|_| !id.as_str().starts_with("npm:")).map(str::to_owned);
        let root = real(root);
        for (id, entries) in realms(&id, &root, &entries) {
            let (name, from, root, manifest) = (name.clone(), from.clone(), root.clone(), manifest.clone());
            self.found.packages.push(PackageEntry {
                id,
                name,
                root,
                entries,
                origin,
                installed,
                from,
                is_module: false,
                manifest,
            });
        }
    }
}

fn path_id(path: &Path) -> ExtensionId {
    let real = real_path(path).unwrap_or_else(|_| path.to_path_buf());
    ExtensionId::new(format!("path:{}", real.display()))
}
