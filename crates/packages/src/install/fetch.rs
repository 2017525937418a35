//! Downloads, verifies and unpacks the tarballs of a plan into staging.

use super::Installer;
use crate::archive::{Unpacked, unpack};
use crate::error::{InstallCode, PackageError, Result};
use crate::integrity;
use crate::lock::{Locked, LockedPackage};
use crate::manifest::Manifest;
use crate::registry::RegistryClient;
use crate::resolve::DependencyTree;
use crate::source::{PackageName, printable};
use crate::store::{PackageStore, Staging};
use cap_std::fs::Dir;
use futures_util::{StreamExt, stream};
use pijs_durable::Disk;
use pijs_protocol::guard;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Number of concurrent downloads.
const PARALLEL_DOWNLOADS: usize = 6;

/// Tarballs of one install, by path.
pub(super) struct Plan(Vec<PlannedTarball>);

struct PlannedTarball {
    path: String,
    name: PackageName,
    version: String,
    tarball: String,
    integrity: Option<String>,
}

impl Plan {
    pub(super) fn from_tree(registry: &RegistryClient, tree: &DependencyTree) -> Self {
        let wanted = tree.packages.iter().map(|placed| PlannedTarball {
            path: placed.path.clone(),
            name: placed.name.clone(),
            version: placed.info.version.clone(),
            tarball: registry.location(&placed.name, &placed.info.dist.tarball),
            integrity: placed.info.dist.integrity.clone(),
        });
        Self(wanted.collect())
    }

    /// Removes the package itself, which comes from elsewhere.
    pub(super) fn without_root(mut self) -> Self {
        self.0.retain(|wanted| !wanted.path.is_empty());
        self
    }

    pub(super) fn from_lock(locked: &Locked) -> Result<Self> {
        let wanted = locked.packages.iter().map(|(path, package)| {
            Ok(PlannedTarball {
                path: path.clone(),
                name: PackageName::parse(&package.name)?,
                version: package.version.clone(),
                tarball: package.tarball.clone(),
                integrity: Some(package.integrity.clone()),
            })
        });
        Ok(Self(wanted.collect::<Result<_>>()?))
    }

    /// Returns the topmost folders that the plan writes to: `node_modules/a`, `member/node_modules/@s/b`.
    pub(super) fn tops(&self) -> BTreeSet<String> {
        let top = |path: &str| {
            let (before, rest) = path.split_once("node_modules/")?;
            let parts = if rest.starts_with('@') { 2 } else { 1 };
            let name: Vec<&str> = rest.split('/').take(parts).collect();
            Some(format!("{before}node_modules/{}", name.join("/")))
        };
        self.0.iter().filter_map(|wanted| top(&wanted.path)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &PackageName> {
        self.0.iter().map(|wanted| &wanted.name)
    }
}

/// A complete package in staging; deleted when dropped.
pub(super) struct StagedPackage {
    folder: PathBuf,
    _staging: Staging,
    pub(super) manifest: Manifest,
    /// sha256 over all files of all packages.
    pub(super) tree: String,
    pub(super) warnings: Vec<String>,
    packages: BTreeMap<String, LockedPackage>,
    names: Vec<PackageName>,
    commit: Option<String>,
}

impl StagedPackage {
    pub(super) fn package(&self) -> &Path {
        &self.folder
    }

    pub(super) fn dependencies(&self) -> usize {
        self.packages.len() - 1
    }

    pub(super) fn names(&self) -> &[PackageName] {
        &self.names
    }

    pub(super) fn locked(&self, source: &str) -> Locked {
        Locked {
            source: source.to_owned(),
            version: self.packages[""].version.clone(),
            commit: self.commit.clone(),
            manifest: self.manifest.hash.clone(),
            tree: self.tree.clone(),
            packages: self.packages.clone(),
        }
    }
}

impl Installer {
    async fn download<'a>(&self, wanted: &'a PlannedTarball) -> Result<Download<'a>> {
        let subject = format!("npm:{}@{}", wanted.name, wanted.version);
        let bytes = self.registry.tarball(&wanted.name, &wanted.tarball).await?;
        let sha512 = integrity::verify(&subject, &bytes, wanted.integrity.as_deref())?;
        let files = unpack(&bytes, &self.limits).map_err(|error| error.within(&subject))?;
        Ok(Download { wanted, subject, sha512, files })
    }

    /// Fetches into a new staging folder. `root` is the package itself if it does not come from a registry.
    pub(super) async fn fetch(
        &self,
        store: &PackageStore,
        label: &str,
        root: Option<RootPackage>,
        plan: &Plan,
    ) -> Result<StagedPackage> {
        self.fetch_into(store.disk(), store.stage("install")?, label, root, plan).await
    }

    /// Fetches into a given staging folder.
    pub(super) async fn fetch_into(
        &self,
        disk: &Disk,
        staging: Staging,
        label: &str,
        root: Option<RootPackage>,
        plan: &Plan,
    ) -> Result<StagedPackage> {
        let folder = staging.path().join("package");
        disk.create_dir(&folder).map_err(|error| PackageError::io("create it", &folder, error))?;
        let opened = disk.directory(&folder).map_err(|error| PackageError::io("open it", &folder, error))?;
        let dir = Dir::from_std_file(opened);

        self.step(&format!("downloading {label}"));
        let downloads: Vec<_> = plan.0.iter().map(|wanted| self.download(wanted)).collect();
        let mut downloads = stream::iter(downloads).buffered(PARALLEL_DOWNLOADS);

        let mut manifest = None;
        let mut warnings = Vec::new();
        let mut packages = BTreeMap::new();
        let mut tree = Sha256::new();
        let mut bytes = 0;
        let mut commit = None;
        if let Some(root) = root {
            bytes += root.files.size();
            warnings.extend(root.files.warnings.iter().map(|warning| format!("{label}: {warning}")));
            warnings.extend(not_run(label, &root.manifest, &root.files, true));
            check_bundled(&root.manifest, label, &root.files)?;
            root.files.write_into(&dir)?;
            add_to(&mut tree, "", &root.files.digest());
            packages.insert(String::new(), root.locked);
            manifest = Some(root.manifest);
            commit = Some(root.commit);
        }
        while let Some(download) = downloads.next().await {
            let Download { wanted, subject, sha512, files } = download?;
            bytes += files.size();
            if bytes > self.limits.tree {
                return Err(PackageError::new(
                    InstallCode::Size,
                    label,
                    format!("more than {} bytes with its dependencies", self.limits.tree),
                ));
            }
            let found = check_package(wanted, &subject, &files)?;
            warnings.extend(files.warnings.iter().map(|warning| format!("{subject}: {warning}")));
            warnings.extend(not_run(&subject, &found, &files, false));
            let unpacking = disk.step(&format!("unpack {subject}"));
            unpacking.map_err(|error| PackageError::io("unpack into it", &folder, error))?;
            // Paths are sorted, so the folder that contains a dependency is written first.
            write_below(&folder, &dir, &wanted.path, &subject, &files)?;
            add_to(&mut tree, &wanted.path, &files.digest());
            let locked = LockedPackage {
                name: wanted.name.as_str().to_owned(),
                version: wanted.version.clone(),
                tarball: wanted.tarball.clone(),
                integrity: sha512,
            };
            packages.insert(wanted.path.clone(), locked);
            if wanted.path.is_empty() {
                manifest = Some(found);
            }
            self.progress.done(packages.len(), plan.0.len());
        }
        drop(downloads);
        Ok(StagedPackage {
            folder,
            _staging: staging,
            manifest: manifest.expect("a plan includes the package itself"),
            tree: hex::encode(tree.finalize()),
            warnings,
            packages,
            names: plan.names().cloned().collect(),
            commit,
        })
    }
}

/// Writes the files of a package to `path` below `folder`, which is open as `dir`; to `folder` itself if `path` is empty.
fn write_below(folder: &Path, dir: &Dir, path: &str, subject: &str, files: &Unpacked) -> Result<()> {
    if path.is_empty() {
        return files.write_into(dir);
    }
    let failed = |error| PackageError::io("create it", &folder.join(path), error);
    // Two archives in one folder could make a repository that neither contains alone.
    if dir.symlink_metadata(path).is_ok() && guard!(PackagesOwnFolder) {
        let why = format!("its folder {path} has files of a package that bundles another one of this name");
        return Err(PackageError::new(InstallCode::Manifest, subject, why)
            .help("the author of the bundling package can remove it from bundleDependencies"));
    }
    dir.create_dir_all(path).map_err(failed)?;
    files.write_into(&dir.open_dir(path).map_err(failed)?)
}

/// A package that did not come from a registry.
pub(super) struct RootPackage {
    pub(super) files: Unpacked,
    pub(super) manifest: Manifest,
    pub(super) locked: LockedPackage,
    pub(super) commit: String,
}

fn add_to(tree: &mut Sha256, place: &str, digest: &str) {
    for part in [place, digest] {
        tree.update((part.len() as u64).to_le_bytes());
        tree.update(part.as_bytes());
    }
}

/// A tarball that was verified, then unpacked in memory.
struct Download<'a> {
    wanted: &'a PlannedTarball,
    subject: String,
    sha512: String,
    files: Unpacked,
}

/// Checks that the tarball is the requested package, and that it bundles only declared dependencies.
fn check_package(wanted: &PlannedTarball, subject: &str, files: &Unpacked) -> Result<Manifest> {
    let refuse = |why: String| PackageError::new(InstallCode::Manifest, subject, why);
    let bytes = files.get("package.json").ok_or_else(|| refuse("there is no package.json in it".to_owned()))?;
    let manifest = Manifest::parse_to_install(subject, bytes)?;
    manifest.is_named(wanted.name.as_str(), &wanted.version)?;
    manifest.check_names(subject)?;
    check_bundled(&manifest, subject, files)?;
    Ok(manifest)
}

/// Checks that a package bundles only declared dependencies, and no dependency that the host supplies.
fn check_bundled(manifest: &Manifest, subject: &str, files: &Unpacked) -> Result<()> {
    let refuse = |why: String| PackageError::new(InstallCode::Manifest, subject, why);
    for (path, _) in files.files() {
        let Some(rest) = path.strip_prefix("node_modules/") else { continue };
        let mut parts = rest.split('/');
        let first = parts.next().unwrap_or_default();
        let bundled = if first.starts_with('@') {
            format!("{first}/{}", parts.next().unwrap_or_default())
        } else {
            first.to_owned()
        };
        if !guard!(ManifestBundled) {
            continue;
        }
        if PackageName::parse(&bundled).is_ok_and(|name| name.is_host_supplied()) {
            return Err(refuse(format!("it ships its own copy of {bundled}, which the host supplies"))
                .help("its author should list it under peerDependencies"));
        }
        if !manifest.bundle_dependencies.contains(&bundled) {
            return Err(refuse(format!("it ships {} without listing it under bundleDependencies", printable(path))));
        }
    }
    Ok(())
}

/// Lists the scripts that npm would run for a package, as warnings.
fn not_run(subject: &str, manifest: &Manifest, files: &Unpacked, is_source: bool) -> Vec<String> {
    let named = manifest.install_scripts(is_source).into_iter().map(|script| format!("the script {script}"));
    let native = files.get("binding.gyp").map(|_| "the native build of binding.gyp".to_owned());
    named.chain(native).map(|script| format!("IN_SCRIPT: {subject}: {script} was not run")).collect()
}
