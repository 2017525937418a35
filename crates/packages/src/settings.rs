//! Reads and writes `packages` and `extensions` of pi's `settings.json`.
//!
//! The file belongs to the user and to the real pi as well: every other key keeps its value and its position, the file is
//! replaced in one rename, and the previous version stays next to it as `settings.json.bak`.

use crate::error::{InstallCode, PackageError, Result};
use crate::source::PackageSource;
use crate::store::write_file;
use pijs_durable::{Disk, Replace};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings of one scope, as they are on disk.
pub(crate) struct PackageSettings {
    disk: Disk,
    path: PathBuf,
    object: Map<String, Value>,
}

/// Maximum size of a settings file that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// One element of `packages`: a string, or an object with filters.
#[derive(Debug, Clone)]
pub(crate) struct Configured {
    pub(crate) text: String,
    /// Lists of the object form by key. An absent list means the package's default, an empty list no files.
    filters: BTreeMap<&'static str, Vec<String>>,
    /// Whether files that no list names are loaded.
    pub(crate) autoload: bool,
    /// Whether the element has the object form.
    pub(crate) is_object: bool,
}

impl Configured {
    /// Returns the list under `extensions`, `skills`, `prompts` or `themes`.
    pub(crate) fn filter_of(&self, key: &str) -> Option<&[String]> {
        self.filters.get(key).map(Vec::as_slice)
    }
}

/// Keys under which settings list paths and patterns.
const KEYS: [&str; 4] = ["extensions", "skills", "prompts", "themes"];

impl PackageSettings {
    pub(crate) fn read(disk: &Disk, root: &Path) -> Result<Self> {
        let path = root.join("settings.json");
        let refuse = |why: String| {
            PackageError::new(InstallCode::Manifest, path.display().to_string(), why)
                .help("correct the file; it was not changed")
        };
        let before = disk.read(&path, LARGEST).map_err(|error| PackageError::io("read it", &path, error))?;
        let text = before.as_deref().unwrap_or_default();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let object = if text.trim_ascii().is_empty() {
            Map::new()
        } else {
            match serde_json::from_slice(text) {
                Ok(Value::Object(object)) => object,
                Ok(_) => return Err(refuse("the settings are not a JSON object".to_owned())),
                Err(error) => return Err(refuse(format!("the settings are not JSON: {error}"))),
            }
        };
        Ok(Self { disk: disk.clone(), path, object })
    }

    /// Returns the folder that relative paths are resolved against.
    pub(crate) fn dir(&self) -> &Path {
        self.path.parent().expect("the path of a file has a parent")
    }

    pub(crate) fn packages(&self) -> Vec<Configured> {
        let list = self.object.get("packages").and_then(Value::as_array);
        let read = |value: &Value| match value {
            Value::String(text) => {
                Some(Configured { text: text.clone(), filters: BTreeMap::new(), autoload: true, is_object: false })
            }
            Value::Object(object) => Some(Configured {
                text: object.get("source")?.as_str()?.to_owned(),
                filters: KEYS
                    .into_iter()
                    .filter_map(|key| Some((key, strings(object.get(key)?.as_array()?))))
                    .collect(),
                autoload: object.get("autoload") != Some(&Value::Bool(false)),
                is_object: true,
            }),
            _ => None,
        };
        list.into_iter().flatten().filter_map(read).collect()
    }

    pub(crate) fn extensions(&self) -> Vec<String> {
        self.list("extensions")
    }

    /// Returns the paths and patterns under `extensions`, `skills`, `prompts` or `themes`.
    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        self.object.get(key).and_then(Value::as_array).map(|list| strings(list)).unwrap_or_default()
    }

    /// Adds a package to the list. An entry with the same identity keeps its position and filters, and gets the new source.
    pub(crate) fn add(&mut self, source: &PackageSource, home: &Path) -> Result<()> {
        let dir = self.dir().to_path_buf();
        let text = Value::String(source.to_settings(&dir));
        let path = self.path.clone();
        let list = self.object.entry("packages").or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else {
            return Err(PackageError::new(
                InstallCode::Manifest,
                path.display().to_string(),
                "\"packages\" is not a list",
            )
            .help("correct the file; it was not changed"));
        };
        match list.iter_mut().find(|element| identity_of(element, &dir, home) == Some(source.identity())) {
            Some(Value::Object(object)) => {
                object.insert("source".to_owned(), text);
            }
            Some(element) => *element = text,
            None => list.push(text),
        }
        Ok(())
    }

    /// Removes a package from the list; returns false if it was not listed.
    pub(crate) fn remove(&mut self, identity: &str, home: &Path) -> bool {
        let dir = self.dir().to_path_buf();
        let Some(Value::Array(list)) = self.object.get_mut("packages") else { return false };
        let before = list.len();
        list.retain(|element| identity_of(element, &dir, home).as_deref() != Some(identity));
        list.len() != before
    }

    /// Replaces the file if something changed.
    pub(crate) fn save(&self) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(&self.object).expect("the settings were read from JSON");
        bytes.push(b'\n');
        write_file(&self.disk, &self.path, &bytes, Replace::SHARED)
    }

    /// Returns the source text of a listed package.
    pub(crate) fn listed(&self, identity: &str, home: &Path) -> Option<String> {
        let packages = self.packages();
        let found = packages.into_iter().find(|package| {
            PackageSource::from_settings(&package.text, self.dir(), home)
                .is_ok_and(|source| source.identity() == identity)
        });
        found.map(|package| package.text)
    }
}

fn strings(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn identity_of(element: &Value, dir: &Path, home: &Path) -> Option<String> {
    let text = element.as_str().or_else(|| element.get("source")?.as_str())?;
    PackageSource::from_settings(text, dir, home).ok().map(|source| source.identity())
}
