//! Stages a plugin of another package, which has a separate staged package, realm and grants.

use super::{PluginSet, Staged, at};
use crate::error::RummyError;
use pijs_extc::FileAccess;
use pijs_packages::InstallScope;
use pijs_protocol::ExtensionId;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// A plugin that a variable names.
#[derive(Debug, Clone)]
pub struct ExternalPlugin {
    /// Name of the plugin.
    pub name: String,
    /// Extension id of the plugin's realm: `rummy:PACKAGE`, or `path:PATH` for a file or folder that is used in place.
    pub id: ExtensionId,
    /// Scope in which the package is installed; `None` for a path.
    pub installed: Option<InstallScope>,
    pub(super) set: PluginSet,
}

impl ExternalPlugin {
    /// Returns the command of the plugin's realm that receives deliveries.
    pub fn command(&self) -> String {
        format!("rummy:{}", self.name)
    }

    /// Writes the plugin's package next to that of the shared realm.
    ///
    /// # Errors
    ///
    /// As [`PluginSet::stage`].
    pub fn stage(&self, beside: &Path, options: &Value, access: &FileAccess) -> Result<Staged, RummyError> {
        let mut options = options.clone();
        options["command"] = self.command().into();
        self.set.stage(&folder_beside(beside, &self.name), &options, access)
    }
}

/// Returns the folder of a package next to another one. A name with characters other than ASCII letters, digits, `-` and `_` is
/// replaced by its digest.
fn folder_beside(beside: &Path, name: &str) -> PathBuf {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let name = match is_plain {
        true => name.to_owned(),
        false => hex::encode(&Sha256::digest(name)[..8]),
    };
    let mut of = beside.file_name().unwrap_or_default().to_owned();
    of.push(format!(".{name}"));
    beside.with_file_name(of)
}

/// Removes packages next to another one whose plugins are not named by any variable.
pub(crate) fn remove_others(beside: &Path, named: &[ExternalPlugin]) -> Result<(), RummyError> {
    let kept: Vec<PathBuf> = named.iter().map(|one| folder_beside(beside, &one.name)).collect();
    let start = format!("{}.", beside.file_name().unwrap_or_default().to_string_lossy());
    let Some(Ok(around)) = beside.parent().map(fs::read_dir) else { return Ok(()) };
    for path in around.map_while(Result::ok).map(|entry| entry.path()) {
        let is_one = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
        if is_one && path.is_dir() && !kept.contains(&path) {
            fs::remove_dir_all(&path).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Adds the members to the options that every realm of a session needs if there are several.
pub(crate) fn options_with_externals(mut options: Value, externals: &[ExternalPlugin]) -> Value {
    if !externals.is_empty() {
        options["isOneOfSeveral"] = json!(true);
        options["taken"] = externals.iter().map(|one| Value::from(one.name.as_str())).collect();
    }
    options
}
