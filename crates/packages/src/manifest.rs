//! Parses the members of `package.json` that installing and loading use.

use crate::error::{InstallCode, PackageError, Result};
use crate::names::check_declared;
use crate::registry::{Bundled, PeerMeta, VersionInfo};
use crate::source::printable;
use pijs_durable::{Disk, LinkInTheWay, read_regular};
use pijs_protocol::guard;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Maximum size of a manifest in bytes: larger than any real one, small enough for memory.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// Scripts that npm runs during an install. PiJS reports them, and never runs them.
const INSTALL_SCRIPTS: [&str; 3] = ["preinstall", "install", "postinstall"];
/// Script that npm runs for sources only; a published package was prepared before.
const PREPARE: &str = "prepare";

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Manifest {
    #[serde(deserialize_with = "if_readable")]
    pub(crate) name: Option<String>,
    #[serde(deserialize_with = "if_readable")]
    pub(crate) version: Option<String>,
    #[serde(deserialize_with = "if_object")]
    pub(crate) pi: Option<PiManifest>,
    #[serde(deserialize_with = "if_readable")]
    pub(crate) main: Option<String>,
    #[serde(deserialize_with = "readable_members")]
    pub(crate) dependencies: BTreeMap<String, String>,
    #[serde(deserialize_with = "readable_members")]
    pub(crate) optional_dependencies: BTreeMap<String, String>,
    #[serde(deserialize_with = "readable_members")]
    pub(crate) peer_dependencies: BTreeMap<String, String>,
    #[serde(deserialize_with = "readable_members")]
    pub(crate) peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    #[serde(alias = "bundledDependencies", deserialize_with = "if_readable")]
    pub(crate) bundle_dependencies: Bundled,
    #[serde(deserialize_with = "readable_members")]
    pub(crate) scripts: BTreeMap<String, Value>,
    /// One path, or paths by command name.
    bin: Value,
    /// sha256 of the file, in hex; part of the key under which grants are stored.
    #[serde(skip)]
    pub(crate) hash: String,
}

/// Reads a member, or its default if it has another form: npm accepts `"main": false` (dunder-proto 1.0.1).
pub(crate) fn if_readable<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Reads an object and leaves out the members of another form: `"dependencies": null` lists no dependencies.
pub(crate) fn readable_members<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, T>, D::Error> {
    let Value::Object(members) = Value::deserialize(deserializer)? else { return Ok(BTreeMap::new()) };
    let read = |(name, value)| Some((name, serde_json::from_value(value).ok()?));
    Ok(members.into_iter().filter_map(read).collect())
}

/// Reads a member of any form, including `null`.
fn as_it_is<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads `pi` if it is an object, as pi does.
fn if_object<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<PiManifest>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.is_object().then(|| serde_json::from_value(value).unwrap_or_default()))
}

/// The `pi` member. A list that contains anything but strings is ignored. A package without `extensions` only has other
/// resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PiManifest {
    #[serde(deserialize_with = "if_readable")]
    pub(crate) extensions: Option<Vec<String>>,
    #[serde(deserialize_with = "if_readable")]
    skills: Option<Vec<String>>,
    #[serde(deserialize_with = "if_readable")]
    prompts: Option<Vec<String>>,
    #[serde(deserialize_with = "if_readable")]
    themes: Option<Vec<String>>,
    /// Requested capabilities. The code for consent reports a value that cannot be parsed.
    #[serde(deserialize_with = "as_it_is")]
    pub(crate) capabilities: Option<Value>,
    /// MCP servers by name, in the form of `mcp.json`.
    #[serde(rename = "mcpServers", deserialize_with = "if_readable")]
    pub(crate) mcp_servers: Option<serde_json::Map<String, Value>>,
}

impl PiManifest {
    /// Returns the list under `skills`, `prompts` or `themes`.
    pub(crate) fn list(&self, key: &str) -> Option<&[String]> {
        match key {
            "skills" => self.skills.as_deref(),
            "prompts" => self.prompts.as_deref(),
            "themes" => self.themes.as_deref(),
            _ => None,
        }
    }

    fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [
            ("pi.extensions", &self.extensions),
            ("pi.skills", &self.skills),
            ("pi.prompts", &self.prompts),
            ("pi.themes", &self.themes),
        ];
        lists.into_iter().filter_map(|(key, list)| Some((key, list.as_deref()?)))
    }
}

impl Manifest {
    /// Returns the list under `skills`, `prompts` or `themes` of `pi`.
    pub(crate) fn resources(&self, key: &str) -> Option<&[String]> {
        self.pi.as_ref()?.list(key)
    }

    pub(crate) fn parse(subject: &str, bytes: &[u8]) -> Result<Self> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut manifest: Self = serde_json::from_slice(text).map_err(|error| {
            PackageError::new(
                InstallCode::Manifest,
                subject,
                format!("package.json cannot be read: {}", printable(&error.to_string())),
            )
            .caused_by(error)
        })?;
        manifest.hash = hex::encode(Sha256::digest(bytes));
        Ok(manifest)
    }

    /// Parses the manifest of a package that is about to be installed. Its dependencies have to be known: `null` means no
    /// dependencies, and a list or a string is an error, because it cannot be compared with the registry.
    pub(crate) fn parse_to_install(subject: &str, bytes: &[u8]) -> Result<Self> {
        let manifest = Self::parse(subject, bytes)?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let members: Value = serde_json::from_slice(text).unwrap_or_default();
        let is_odd = |key: &&str| members.get(key).is_some_and(|list| !list.is_null() && !list.is_object());
        match ["dependencies", "optionalDependencies"].iter().find(|key| is_odd(key)) {
            Some(key) => {
                let why = format!("package.json cannot be read: its {key} is not an object");
                Err(PackageError::new(InstallCode::Manifest, subject, why))
            }
            None => Ok(manifest),
        }
    }

    /// Reads `dir/package.json`; returns `None` if there is none. A link that leads out of the folder is an error: its target
    /// does not belong to the package, and messages about a manifest quote it.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("package.json");
        let is_outside =
            || path.canonicalize().is_ok_and(|real| dir.canonicalize().is_ok_and(|dir| !real.starts_with(dir)));
        if path.is_symlink() && is_outside() && guard!(ManifestInside) {
            let why = "it is a link that leads out of the package";
            return Err(PackageError::new(InstallCode::Path, path.display().to_string(), why)
                .help("put a manifest of the package in its place"));
        }
        Self::found(&path, read_regular(&path, MAX_MANIFEST_BYTES))
    }

    /// Like [`Manifest::read`], through a given disk.
    pub(crate) fn read_on(disk: &Disk, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("package.json");
        let read = disk.read(&path, MAX_MANIFEST_BYTES).and_then(|read| read.ok_or(ErrorKind::NotFound.into()));
        Self::found(&path, read)
    }

    /// Limits the bytes read, because a file below /proc reports no size and may never end.
    fn found(path: &Path, read: io::Result<Vec<u8>>) -> Result<Option<Self>> {
        let error = match read {
            Ok(bytes) => return Self::parse(&path.display().to_string(), &bytes).map(Some),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
            // The path names a folder or a pipe.
            ErrorKind::InvalidInput if LinkInTheWay::of(&error).is_none() => Ok(None),
            ErrorKind::FileTooLarge => {
                let why = format!("a manifest of more than {MAX_MANIFEST_BYTES} bytes");
                Err(PackageError::new(InstallCode::Size, path.display().to_string(), why))
            }
            _ => Err(PackageError::io("read it", path, error)),
        }
    }

    /// Checks the names that become files: the commands under `bin`, and the lists of `pi`.
    pub(crate) fn check_names(&self, subject: &str) -> Result<()> {
        let commands = self.bin.as_object().into_iter().flat_map(|bins| bins.keys().map(String::as_str));
        let paths = self.bin.as_object().into_iter().flat_map(|bins| bins.values()).chain([&self.bin]);
        let bins = commands.chain(paths.filter_map(Value::as_str)).map(|name| ("bin", name));
        let pi = self.pi.iter().flat_map(PiManifest::lists);
        let listed = pi.flat_map(|(key, names)| names.iter().map(move |name| (key, name.as_str())));
        for (key, name) in bins.chain(listed) {
            check_declared(name).map_err(|(code, why)| {
                let why = format!("\"{key}\" of its package.json names {}: {why}", printable(name));
                PackageError::new(code, subject, why)
            })?;
        }
        Ok(())
    }

    /// Checks that the manifest in a tarball equals the registry's, including the dependencies that were resolved for it.
    ///
    /// Registries list optional dependencies a second time under `dependencies`, so both sides are compared without them.
    pub(crate) fn agrees_with(&self, info: &VersionInfo) -> Result<()> {
        let refuse = |why: String| {
            let subject = format!("npm:{}@{}", info.name, info.version);
            Err(PackageError::new(InstallCode::Manifest, subject, why)
                .help("do not install it; tell the registry's operator"))
        };
        self.is_named(&info.name, &info.version)?;
        let required = |all: &BTreeMap<String, String>, optional: &BTreeMap<String, String>| {
            all.iter()
                .filter(|(name, _)| !optional.contains_key(*name))
                .map(|(n, r)| (n.clone(), r.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let inside = required(&self.dependencies, &self.optional_dependencies);
        let outside = required(&info.dependencies, &info.optional_dependencies);
        if inside != outside && guard!(ManifestAgrees) {
            return refuse("the dependencies in its package.json are not those the registry lists".to_owned());
        }
        Ok(())
    }

    /// Checks name and version. A leading `v` or build metadata does not make a different version.
    pub(crate) fn is_named(&self, name: &str, version: &str) -> Result<()> {
        let parse = |text: &str| nodejs_semver::Version::parse(text.trim_start_matches(['v', '=', ' '])).ok();
        let same_version = self.version.as_deref().and_then(parse) == parse(version);
        if self.name.as_deref() == Some(name) && same_version || !guard!(ManifestNamed) {
            return Ok(());
        }
        let named = format!(
            "{}@{}",
            self.name.as_deref().unwrap_or("(no name)"),
            self.version.as_deref().unwrap_or("(no version)")
        );
        let why = format!("its package.json names {}", printable(&named));
        Err(PackageError::new(InstallCode::Manifest, format!("npm:{name}@{version}"), why))
    }

    /// Converts the manifest to the registry's form, for a package that comes from elsewhere.
    pub(crate) fn as_version(&self, name: &str, version: &str) -> VersionInfo {
        VersionInfo {
            name: name.to_owned(),
            version: version.to_owned(),
            dependencies: self.dependencies.clone(),
            optional_dependencies: self.optional_dependencies.clone(),
            peer_dependencies: self.peer_dependencies.clone(),
            peer_dependencies_meta: self.peer_dependencies_meta.clone(),
            bundle_dependencies: self.bundle_dependencies.clone(),
            os: Value::Null,
            cpu: Value::Null,
            dist: crate::registry::Dist { tarball: String::new(), integrity: None },
        }
    }

    /// Lists the scripts that npm would run; `is_source` is set for a package that was not published.
    pub(crate) fn install_scripts(&self, is_source: bool) -> Vec<&'static str> {
        let prepare = Some(PREPARE).filter(|_| is_source);
        INSTALL_SCRIPTS.into_iter().chain(prepare).filter(|script| self.scripts.contains_key(*script)).collect()
    }
}
