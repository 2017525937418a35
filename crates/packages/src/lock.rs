//! Reads and writes `pijs-lock.json`, the lock file next to the scope's `settings.json`.
//!
//! Tarballs are recorded relative to the registry of their scope, and the registry of each scope once, so that a mirror can serve
//! the same lock file and a private name is never looked up in a public registry. Digests reveal an edited entry; a file with a
//! duplicate key is refused.

use crate::error::{InstallCode, PackageError, Result};
use crate::git::GitSource;
use crate::names::check;
use crate::source::PackageName;
use pijs_durable::Disk;
use pijs_protocol::guard;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A valid lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockText {
    /// Text of the lock file in normalized form.
    pub text: String,
    /// Paths of the dependencies, relative to their package.
    pub places: Vec<String>,
}

/// Reads the text of a `pijs-lock.json` as an install does. Fails if it cannot be parsed or an entry is unusable.
pub fn read_lock(bytes: &[u8]) -> Result<LockText> {
    let lock = LockFile::parse("pijs-lock.json", bytes)?;
    let places = lock.packages.values().flat_map(|locked| locked.packages.keys().cloned()).collect();
    Ok(LockText { text: lock.to_text(), places })
}

/// Returns the path of the lock file of a scope, given the folder from [`Dirs::root`](crate::Dirs::root).
pub fn lock_path(root: &Path) -> PathBuf {
    LockFile::path(root)
}

/// Returns whether the lock file at a path lists a package whose manifest has this sha256 (in hex).
pub fn is_locked(file: &Path, identity: &str, manifest: &str) -> bool {
    let lock = file.parent().and_then(|root| LockFile::read(&Disk::system(), root).ok());
    lock.is_some_and(|lock| lock.packages.get(identity).is_some_and(|locked| locked.manifest == manifest))
}

const VERSION: u32 = 1;
/// Maximum size of a lock file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LockFile {
    pub(crate) lockfile_version: u32,
    /// Registry by scope: `@scope`, or empty for packages without one.
    #[serde(deserialize_with = "unique")]
    pub(crate) registries: BTreeMap<String, String>,
    /// Installed packages by identity, such as `npm:NAME`.
    #[serde(deserialize_with = "unique")]
    pub(crate) packages: BTreeMap<String, Locked>,
}

/// One installed package with its dependency tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Locked {
    /// Source as in settings: `npm:NAME@RANGE`.
    pub(crate) source: String,
    pub(crate) version: String,
    /// Commit of a git source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// sha256 of the package's `package.json`.
    pub(crate) manifest: String,
    /// sha256 over all files of all packages.
    pub(crate) tree: String,
    /// Packages by path: empty for the package itself, `node_modules/...` for its dependencies, `FOLDER/node_modules/...` for the
    /// dependencies of a member.
    #[serde(deserialize_with = "unique")]
    pub(crate) packages: BTreeMap<String, LockedPackage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LockedPackage {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Tarball, relative to the registry of the package's scope, or an absolute URL.
    pub(crate) tarball: String,
    pub(crate) integrity: String,
}

impl Default for LockFile {
    fn default() -> Self {
        Self { lockfile_version: VERSION, registries: BTreeMap::new(), packages: BTreeMap::new() }
    }
}

impl LockFile {
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join("pijs-lock.json")
    }

    /// Reads the lock file of a scope; empty if there is none.
    pub(crate) fn read(disk: &Disk, root: &Path) -> Result<Self> {
        Ok(Self::read_text(disk, root)?.0)
    }

    /// Like [`LockFile::read`], but also returns the text; `None` if there is no file.
    pub(crate) fn read_text(disk: &Disk, root: &Path) -> Result<(Self, Option<String>)> {
        let path = Self::path(root);
        let read = disk.read(&path, LARGEST).map_err(|error| PackageError::io("read it", &path, error))?;
        let Some(bytes) = read else { return Ok((Self::default(), None)) };
        let lock = Self::parse(&path.display().to_string(), &bytes)?;
        // JSON that was parsed is UTF-8.
        Ok((lock, String::from_utf8(bytes).ok()))
    }

    /// Reads and checks the text of a lock file.
    fn parse(subject: &str, bytes: &[u8]) -> Result<Self> {
        let refuse = |why: String| {
            PackageError::new(InstallCode::Manifest, subject, why)
                .help("restore it from version control or its .bak, or delete it and install the packages again")
        };
        let lock: Self =
            serde_json::from_slice(bytes).map_err(|error| refuse(format!("the lock file cannot be read: {error}")))?;
        if lock.lockfile_version != VERSION {
            return Err(refuse(format!("lock file version {} is not known", lock.lockfile_version)));
        }
        for (identity, locked) in &lock.packages {
            if !guard!(LockEntries) {
                continue;
            }
            locked
                .check(identity)
                .map_err(|error| refuse(format!("the entry {identity:?} is not usable: {}", error.message)))?;
        }
        Ok(lock)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("maps and strings serialize to JSON");
        text.push('\n');
        text
    }
}

impl Locked {
    /// Checks that names are valid and that paths stay inside the package.
    fn check(&self, identity: &str) -> Result<()> {
        let name = match GitSource::parse(identity) {
            Some(git) => {
                git?;
                None
            }
            None => Some(PackageName::parse(identity.strip_prefix("npm:").unwrap_or_default())?),
        };
        let broken = |what: &str| PackageError::new(InstallCode::Manifest, identity, what);
        let root = self.packages.get("").ok_or_else(|| broken("it lacks the package itself"))?;
        if name.is_some_and(|name| root.name != name.as_str()) || root.version != self.version {
            return Err(broken("it names another package"));
        }
        for (place, package) in &self.packages {
            PackageName::parse(&package.name)?;
            for part in place.split("node_modules/").skip(1) {
                PackageName::parse(part.strip_suffix('/').unwrap_or(part))?;
            }
            // A member of the package may have its own dependencies.
            let member = place.split_once("node_modules/").map(|(member, _)| member);
            let is_folder = |member: &str| {
                let folder = member.strip_suffix('/');
                folder.is_some_and(|folder| folder.split('/').all(|part| part != "." && check(part).is_ok()))
            };
            if !place.is_empty() && !member.is_some_and(|member| member.is_empty() || is_folder(member)) {
                return Err(broken("it names a path outside the package"));
            }
        }
        Ok(())
    }
}

/// Deserializes a map and refuses duplicate keys, because JSON parsers disagree about them.
fn unique<'de, D: Deserializer<'de>, V: Deserialize<'de>>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error> {
    struct Unique<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object without duplicate keys")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry::<String, V>()? {
                if map.contains_key(&key) && guard!(LockUnique) {
                    return Err(A::Error::custom(format!("the key {key:?} occurs twice")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Unique(PhantomData))
}
