//! Installs a file or folder: builds it in place with its own dependencies, and lists it relative to the settings; it is never
//! copied.

use super::own_modules::Filled;
use super::{BuildInput, Installed, Installer};
use crate::InstallScope;
use crate::entries::{is_artifact_file, is_component_file, is_extension_file, package_entries};
use crate::error::{InstallCode, PackageError, Result};
use crate::manifest::Manifest;
use crate::names;
use crate::settings::PackageSettings;
use crate::source::PackageSource;
use crate::store::PackageStore;
use std::path::Path;

impl Installer {
    pub(super) async fn install_path(&self, path: &Path, scope: InstallScope) -> Result<Installed> {
        let metadata = std::fs::metadata(path).map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                PackageError::new(InstallCode::Source, path.display().to_string(), "there is no such file or folder")
                    .help("for a package of the registry write npm:NAME")
            } else {
                PackageError::io("read it", path, error)
            }
        })?;
        let root = self.dirs.root(scope);
        let source = PackageSource::Path(path.to_path_buf());
        let mut warnings = Vec::new();
        let (folder, entries) = if metadata.is_dir() {
            names::check_folder(path)?;
            let entries = package_entries(path, true)?;
            warnings.extend(entries.nothing.map(|why| why.to_string()));
            (path, entries.files)
        } else if is_extension_file(path) || is_artifact_file(path) || is_component_file(path) {
            names::check_file(path)?;
            (path.parent().expect("the path of a file has a parent"), vec![path.to_path_buf()])
        } else {
            return Err(PackageError::new(
                InstallCode::Format,
                path.display().to_string(),
                "not a folder, a .ts, .js or .wasm file, or an artifact of extc build",
            ));
        };
        let manifest = if metadata.is_dir() { Manifest::read(path)?.unwrap_or_default() } else { Manifest::default() };
        manifest.check_names(&path.display().to_string())?;
        let filled = if metadata.is_dir() { self.fill_folder(path, &manifest).await } else { Filled::default() };
        warnings.extend(filled.warnings);
        self.step(&format!("building {}", path.display()));
        let input = BuildInput {
            id: source.identity(),
            root: folder.to_path_buf(),
            place: folder.to_path_buf(),
            entries,
            scope,
            version: manifest.version.clone(),
            replaces: None,
        };
        let built = self.builder.build(&input)?;
        warnings.extend(built.warnings);

        let store = PackageStore::open(&self.disk, &root, scope)?;
        let held = self.lock(&store)?;
        let mut settings = PackageSettings::read(store.files(), &root)?;
        settings.add(&source, &self.dirs.home)?;
        settings.save()?;
        drop(held);
        Ok(Installed {
            id: input.id,
            name: manifest.name,
            source: source.to_settings(&root),
            version: manifest.version,
            path: path.to_path_buf(),
            entries: input.entries,
            dependencies: filled.fetched,
            warnings,
            is_new: true,
        })
    }
}
