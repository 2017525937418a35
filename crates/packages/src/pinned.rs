//! Fetches packages that a program pins by version and sha512, keeps their tarballs, and verifies them at every use.
//!
//! ```text
//! <dir>/NAME@VERSION.tgz        exactly the bytes of the digest; a file with other bytes is fetched again
//! ```
//!
//! A tarball is verified in memory before it is unpacked, so a file that changed in between is never used. No registry document
//! is fetched: the version determines the address of the tarball, and the digest its identity.

use crate::archive::{InstallLimits, unpack};
use crate::error::{InstallCode, PackageError, Result};
use crate::integrity;
use crate::npmrc::NpmConfig;
use crate::registry::RegistryClient;
use crate::source::PackageName;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use futures_util::{StreamExt, TryStreamExt, stream};
use pijs_durable::{Disk, Replace};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Number of concurrent downloads.
const PARALLEL_DOWNLOADS: usize = 6;

/// A package pinned to one version and digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedPackage {
    /// npm's name.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// `sha512-...` of the tarball.
    pub integrity: String,
}

/// Fetches pinned packages, and keeps their tarballs in a folder.
///
/// ```no_run
/// # async fn example() -> pijs_packages::Result<()> {
/// use pijs_packages::{TarballCache, NpmConfig, PinnedPackage};
/// let depot = TarballCache::open("/home/me/.cache/pijs/packages", NpmConfig::default())?;
/// let package = PinnedPackage {
///     name: "left-pad".to_owned(),
///     version: "1.3.0".to_owned(),
///     integrity: "sha512-...".to_owned(),
/// };
/// depot.unpack(&[package], "/tmp/here".as_ref()).await?; // /tmp/here/node_modules/left-pad/package.json
/// # Ok(())
/// # }
/// ```
pub struct TarballCache {
    dir: PathBuf,
    registry: RegistryClient,
    limits: InstallLimits,
    /// Embedded tarballs by file name.
    carried: BTreeMap<&'static str, &'static [u8]>,
    /// Whether a file of a package is unpacked, by its path in the package.
    is_unpacked: fn(&str) -> bool,
}

impl TarballCache {
    /// Uses a folder, which is created on the first download.
    ///
    /// # Errors
    ///
    /// Fails with `io` when the https client cannot be created.
    pub fn open(dir: impl Into<PathBuf>, npm: NpmConfig) -> Result<Self> {
        let limits = InstallLimits::default();
        let registry = RegistryClient::new(npm, limits.clone())?;
        Ok(Self { dir: dir.into(), registry, limits, carried: BTreeMap::new(), is_unpacked: |_| true })
    }

    /// Adds embedded tarballs by file name. They are verified like any other.
    #[must_use]
    pub fn carrying(mut self, tarballs: impl IntoIterator<Item = (&'static str, &'static [u8])>) -> Self {
        self.carried.extend(tarballs);
        self
    }

    /// Unpacks only the files that `is_unpacked` accepts, by their paths in their packages.
    #[must_use]
    pub fn only(self, is_unpacked: fn(&str) -> bool) -> Self {
        Self { is_unpacked, ..self }
    }

    /// Unpacks packages below `folder` as `node_modules/NAME`, from the cache or their registry.
    ///
    /// # Errors
    ///
    /// Fails with `io` or `timeout` when a package is not cached and cannot be fetched, with `IN_INTEGRITY` when the registry
    /// sends other bytes, and like [`unpack`]. Files written before an error stay in `folder`, which belongs to the caller.
    pub async fn unpack(&self, packages: &[PinnedPackage], folder: &Path) -> Result<()> {
        let tarballs: Vec<Vec<u8>> = stream::iter(packages.iter().map(|package| self.tarball(package)))
            .buffered(PARALLEL_DOWNLOADS)
            .try_collect()
            .await?;
        self.write(packages, &tarballs, folder)
    }

    /// Unpacks packages like [`TarballCache::unpack`], but from the cache alone. Returns false, and writes nothing, if one is
    /// not cached.
    ///
    /// # Errors
    ///
    /// Fails like [`unpack`].
    pub fn unpack_cached(&self, packages: &[PinnedPackage], folder: &Path) -> Result<bool> {
        let cached = packages.iter().map(|package| Ok(self.cached(package, &file_name_of(package)?.1)));
        let Some(tarballs) = cached.collect::<Result<Option<Vec<Vec<u8>>>>>()? else { return Ok(false) };
        self.write(packages, &tarballs, folder)?;
        Ok(true)
    }

    fn write(&self, packages: &[PinnedPackage], tarballs: &[Vec<u8>], folder: &Path) -> Result<()> {
        for (package, tarball) in packages.iter().zip(tarballs) {
            let mut files = unpack(tarball, &self.limits).map_err(|error| error.within(&subject(package)))?;
            files.retain(self.is_unpacked);
            let target = folder.join("node_modules").join(&package.name);
            let failed = |error| PackageError::io("create it", &target, error);
            std::fs::create_dir_all(&target).map_err(failed)?;
            files.write_into(&Dir::open_ambient_dir(&target, ambient_authority()).map_err(failed)?)?;
        }
        Ok(())
    }

    /// Returns whether a package is cached, so that unpacking it needs no network.
    pub fn holds(&self, package: &PinnedPackage) -> bool {
        let Ok(name) = PackageName::parse(&package.name) else { return false };
        let file = file_name(&name, &package.version);
        self.carried.contains_key(file.as_str()) || self.dir.join(file).is_file()
    }

    /// Returns the verified bytes of a package, from the cache or its registry.
    ///
    /// # Errors
    ///
    /// Fails like [`TarballCache::unpack`].
    pub async fn tarball(&self, package: &PinnedPackage) -> Result<Vec<u8>> {
        let (name, file_name) = file_name_of(package)?;
        if let Some(cached) = self.cached(package, &file_name) {
            return Ok(cached);
        }
        let file = self.dir.join(file_name);
        let version = &package.version;
        let base = name.as_str().rsplit('/').next().unwrap_or_default();
        let bytes = self.registry.tarball(&name, &format!("{name}/-/{base}-{version}.tgz")).await?;
        integrity::verify(&subject(package), &bytes, Some(&package.integrity))?;
        // Caching saves the next download; a failure to cache is not an error.
        let _ = self.keep(&file, &bytes);
        Ok(bytes)
    }

    /// Returns the verified bytes of a package from this program or the cache.
    fn cached(&self, package: &PinnedPackage, file_name: &str) -> Option<Vec<u8>> {
        let is_true = |bytes: &[u8]| integrity::verify(&subject(package), bytes, Some(&package.integrity)).is_ok();
        let carried = self.carried.get(file_name).filter(|carried| is_true(carried)).map(|carried| carried.to_vec());
        carried.or_else(|| read_bounded(&self.dir.join(file_name), self.limits.compressed).filter(|kept| is_true(kept)))
    }

    fn keep(&self, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let disk = Disk::system();
        disk.private_dir(&self.dir)?;
        disk.replace(file, bytes, Replace::DERIVED)
    }
}

/// Returns the validated name of a package, and its file in the cache.
fn file_name_of(package: &PinnedPackage) -> Result<(PackageName, String)> {
    // The name becomes a path here and part of a URL.
    let name = PackageName::parse(&package.name)?;
    let version = nodejs_semver::Version::parse(&package.version).map_err(|_| {
        PackageError::new(InstallCode::Manifest, subject(package), "a pinned package has an exact version")
    })?;
    let file = file_name(&name, &version.to_string());
    Ok((name, file))
}

fn file_name(name: &PackageName, version: &str) -> String {
    format!("{}@{version}.tgz", name.as_str().replace('/', "+"))
}

fn subject(package: &PinnedPackage) -> String {
    format!("npm:{}@{}", package.name, package.version)
}

fn read_bounded(file: &Path, cap: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(cap as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= cap).then_some(bytes)
}
