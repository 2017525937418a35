//! Installs the dependencies of a local folder into its own `node_modules`, like `npm install` in that folder.
//!
//! A folder is used in place, so its dependencies have to be installed there. Only packages that Node would not find are fetched;
//! existing ones stay. Dependencies that are not on a registry are left to the user, with a warning.

use super::Installer;
use super::fetch::{Plan, RootPackage};
use crate::archive::Unpacked;
use crate::error::{PackageError, Result};
use crate::lock::LockedPackage;
use crate::manifest::Manifest;
use crate::members::{folder_of, manifest_folders, member_infos, members};
use crate::registry::VersionInfo;
use crate::resolve::MemberInfo;
use crate::source::{PackageName, VersionRequest, printable};
use crate::store::Staging;
use pijs_durable::read_regular;
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum size of a member's manifest that is read, in bytes.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// Result of installing the dependencies of a folder.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Number of packages that were installed.
    pub(super) fetched: usize,
    pub(super) warnings: Vec<String>,
}

impl Installer {
    /// Fetches dependencies in the manifests of a folder that Node would not find. A failure is only a warning; the build reports
    /// missing dependencies.
    pub(super) async fn fill_folder(&self, folder: &Path, manifest: &Manifest) -> Filled {
        let label = format!("path:{}", folder.display());
        let mut warnings = Vec::new();
        let wanted = wanted(folder, manifest, &label, &mut warnings);
        let fetched = match wanted {
            None => Ok((0, Vec::new())),
            Some((root, members)) => self.fetch_missing(folder, &label, root, members, manifest).await,
        };
        match fetched {
            Ok((fetched, more)) => {
                warnings.extend(more);
                Filled { fetched, warnings }
            }
            Err(error) => {
                warnings.push(format!("{label}: its dependencies were not installed: {error}"));
                Filled { fetched: 0, warnings }
            }
        }
    }

    async fn fetch_missing(
        &self,
        folder: &Path,
        label: &str,
        root: VersionInfo,
        members: Vec<MemberInfo>,
        manifest: &Manifest,
    ) -> Result<(usize, Vec<String>)> {
        self.step(&format!("resolving the dependencies of {}", folder.display()));
        let name = PackageName::parse("folder").expect("a constant name");
        let tree = crate::resolve::resolve(&self.registry, &self.limits, &name, root, members).await?;
        let plan = Plan::from_tree(&self.registry, &tree).without_root();
        let mut warnings: Vec<String> = tree.notes.iter().map(|note| format!("{label}: {note}")).collect();
        if plan.is_empty() {
            return Ok((0, warnings));
        }
        let failed = |what: &'static str, at: &Path| {
            let at = at.to_owned();
            move |error| PackageError::io(what, &at, error).help("run npm install in the folder")
        };
        // No link in the folder is followed, because its `node_modules` may link to another project.
        let disk = self.disk.beneath(&[folder.to_owned()]).map_err(failed("open it", folder))?;
        let modules = folder.join("node_modules");
        disk.create_dirs(&modules).map_err(failed("create it", &modules))?;
        let locked = LockedPackage {
            name: name.as_str().to_owned(),
            version: "0.0.0".to_owned(),
            tarball: String::new(),
            integrity: String::new(),
        };
        let nothing =
            RootPackage { files: Unpacked::empty(), manifest: Manifest::default(), locked, commit: String::new() };
        let staging = Staging::make(&disk, &modules, "install")?;
        let staged = self.fetch_into(&disk, staging, label, Some(nothing), &plan).await?;
        warnings.extend(staged.warnings.iter().cloned());
        let scripts = manifest.install_scripts(true).into_iter();
        warnings.extend(scripts.map(|script| format!("IN_SCRIPT: {label}: the script {script} was not run")));
        for top in plan.tops() {
            let (from, to) = (staged.package().join(&top), folder.join(&top));
            if disk.exists(&to).map_err(failed("look at it", &to))? {
                continue;
            }
            let parent = to.parent().expect("the path is below the folder");
            disk.create_dirs(parent).map_err(failed("create it", parent))?;
            disk.rename(&from, &to).map_err(failed("put the package in place", &to))?;
        }
        Ok((staged.dependencies(), warnings))
    }
}

/// Finds the dependencies of a folder and its members that Node would not find; returns `None` if nothing is missing.
fn wanted(
    folder: &Path,
    manifest: &Manifest,
    label: &str,
    warnings: &mut Vec<String>,
) -> Option<(VersionInfo, Vec<MemberInfo>)> {
    let read = |member: &str| read_regular(&folder.join(member).join("package.json"), MAX_MANIFEST_BYTES).ok();
    let known = members(&read("").unwrap_or_default(), &|| manifest_folders(folder), &read);
    let names: BTreeSet<String> = known.keys().cloned().collect();
    let mut root = manifest.as_version("folder", "0.0.0");
    let mut members = member_infos(known, &read);
    keep_missing(&mut root, folder, &names, label, warnings);
    for member in &mut members {
        keep_missing(&mut member.info, &folder.join(&member.folder), &names, label, warnings);
    }
    let is_missing = |info: &VersionInfo| !(info.dependencies.is_empty() && info.optional_dependencies.is_empty());
    let any = is_missing(&root) || members.iter().any(|member| is_missing(&member.info));
    any.then_some((root, members))
}

/// Drops dependencies that are installed, and, with a warning, dependencies that are on no registry.
fn keep_missing(
    info: &mut VersionInfo,
    at: &Path,
    members: &BTreeSet<String>,
    label: &str,
    warnings: &mut Vec<String>,
) {
    // npm installs peers of the root here only; listed peers are provided by the host or by a folder above.
    info.peer_dependencies.clear();
    let is_missing = |name: &str| {
        let host = PackageName::parse(name).is_ok_and(|name| name.is_host_supplied());
        !host && !members.contains(name) && !is_found(at, name)
    };
    info.dependencies.retain(|name, spec| {
        let is_of_registry = spec.starts_with("npm:")
            || folder_of(spec).is_none() && !spec.contains([':', '/']) && VersionRequest::parse(spec).is_some();
        let missing = is_missing(name);
        if missing && !is_of_registry {
            let (name, spec) = (printable(name), printable(spec));
            warnings.push(format!(
                "{label}: its dependency {name} ({spec}) is not a registry package; run npm install in the folder"
            ));
        }
        missing && is_of_registry
    });
    // If the other dependencies are installed, a missing optional one was omitted on purpose.
    let untouched = !at.join("node_modules").is_dir();
    info.optional_dependencies.retain(|name, _| untouched && is_missing(name));
}

/// Returns whether Node finds a package from a folder.
fn is_found(at: &Path, name: &str) -> bool {
    at.ancestors().any(|folder| folder.join("node_modules").join(name).join("package.json").is_file())
}
