//! Recognises an installed package whose files match the lock file, so that installing it again fetches nothing.

use super::{BuildInput, Installed, Installer};
use crate::InstallScope;
use crate::entries::package_entries;
use crate::error::Result;
use crate::lock::Locked;
use crate::manifest::Manifest;
use crate::settings::PackageSettings;
use crate::source::PackageSource;
use crate::store::PackageStore;
use pijs_durable::read_regular;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of files of one package and its dependencies that are compared.
const MAX_FILES: usize = 200_000;

impl Installer {
    /// Builds a package again in place, if settings list this source and each of its files matches the lock file; returns `None`
    /// if something differs.
    pub(super) fn keep_in_place(
        &self,
        (store, scope): (&PackageStore, InstallScope),
        source: &PackageSource,
        locked: &Locked,
    ) -> Result<Option<Installed>> {
        // A pending change is settled first, by the next process that takes the lock.
        if store.is_unsettled() {
            return Ok(None);
        }
        let (id, root) = (source.identity(), store.root());
        let text = source.to_settings(root);
        let place = PackageStore::place_of(root, source);
        let listed = PackageSettings::read(store.files(), root)?.listed(&id, &self.dirs.home);
        if locked.source != text || listed.as_ref() != Some(&text) {
            return Ok(None);
        }
        let Some(replaces) = self.in_place(store, scope, &place)? else { return Ok(None) };
        let largest = self.limits.unpacked as u64;
        if tree_of(&place, locked, largest).as_deref() != Some(&locked.tree) {
            return Ok(None);
        }
        self.step(&format!("building {source}"));
        let entries = package_entries(&place, false)?;
        let Manifest { name, version, .. } = Manifest::read_on(store.disk(), &place)?.unwrap_or_default();
        let input = BuildInput {
            id: id.clone(),
            root: place.clone(),
            place: place.clone(),
            entries: entries.files,
            scope,
            version: version.clone(),
            replaces: Some(replaces),
        };
        let mut built = self.builder.build(&input)?;
        built.warnings.extend(entries.nothing.map(|why| format!("{source}: {}", why.message)));
        Ok(Some(Installed {
            id,
            name,
            source: text,
            version,
            path: place,
            entries: input.entries,
            dependencies: locked.packages.len() - 1,
            warnings: built.warnings,
            is_new: false,
        }))
    }
}

/// Computes the digest of a package on disk with its dependencies, as in the lock file; returns `None` if it contains anything
/// but files and folders.
fn tree_of(place: &Path, locked: &Locked, largest: u64) -> Option<String> {
    // Files by the path of their package, then by path in the package.
    let mut packages: BTreeMap<&str, BTreeMap<String, PathBuf>> =
        locked.packages.keys().map(|place| (place.as_str(), BTreeMap::new())).collect();
    let mut folders = vec![(place.to_owned(), String::new())];
    let mut seen = 0;
    while let Some((folder, relative)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let relative = if relative.is_empty() { name } else { format!("{relative}/{name}") };
            let kind = entry.file_type().ok()?;
            seen += 1;
            if seen > MAX_FILES {
                return None;
            }
            if kind.is_dir() {
                folders.push((entry.path(), relative));
            } else if kind.is_file() {
                let (owner, inside) = owner_of(&packages, &relative);
                packages.get_mut(owner)?.insert(inside, entry.path());
            } else {
                return None;
            }
        }
    }
    let mut tree = Sha256::new();
    for (place, files) in packages {
        let mut digest = Sha256::new();
        for (path, file) in files {
            let bytes = read_regular(&file, largest).ok()?;
            add_to(&mut digest, path.as_bytes());
            add_to(&mut digest, &bytes);
        }
        add_to(&mut tree, place.as_bytes());
        add_to(&mut tree, hex::encode(digest.finalize()).as_bytes());
    }
    Some(hex::encode(tree.finalize()))
}

/// Returns the path of the package that a file belongs to, and the file's path in it.
fn owner_of<'a>(packages: &BTreeMap<&'a str, BTreeMap<String, PathBuf>>, path: &str) -> (&'a str, String) {
    let folders = path.rmatch_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..]));
    let owned = |(folder, inside): (&str, &str)| Some((*packages.get_key_value(folder)?.0, inside.to_owned()));
    folders.into_iter().find_map(owned).unwrap_or(("", path.to_owned()))
}

fn add_to(digest: &mut Sha256, part: &[u8]) {
    digest.update((part.len() as u64).to_le_bytes());
    digest.update(part);
}
