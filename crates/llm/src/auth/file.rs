//! `auth.json` in pi's agent folder: the stored credentials of each provider.
//!
//! The file is shared with the real pi, which may run at the same time. A writer takes pi's lock, the folder `auth.json.lock`,
//! and reads the file again before it changes it. Writes are atomic and give access to the owner only.

use pijs_durable::{Disk, Replace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Stored credentials of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StoredCredential {
    /// An API key.
    ApiKey {
        /// The key in configuration syntax: see [`super::value`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Environment variables for this provider only.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// The extension that registers the provider; `None` for a provider of pi.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extension: Option<String>,
    },
    /// An OAuth login.
    Oauth(Login),
}

impl StoredCredential {
    /// Returns the extension that stored the credentials.
    pub(super) fn extension(&self) -> Option<&str> {
        match self {
            Self::ApiKey { extension, .. } => extension.as_deref(),
            Self::Oauth(login) => login.rest.get("extension")?.as_str(),
        }
    }
}

/// Tokens of an OAuth login.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Login {
    /// Access token for requests.
    pub access: String,
    /// Refresh token.
    pub refresh: String,
    /// Expiry of `access` in milliseconds since 1970.
    pub expires: f64,
    /// Other members, which the provider defines.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The file `auth.json`.
#[derive(Debug, Clone)]
pub struct AuthFile {
    disk: Disk,
    path: PathBuf,
}

impl AuthFile {
    /// Returns a handle to the file at this path, which need not exist.
    pub fn new(disk: Disk, path: PathBuf) -> Self {
        Self { disk, path }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all credentials by provider.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read or has an invalid format.
    pub fn read(&self) -> io::Result<BTreeMap<String, StoredCredential>> {
        let entries = self.entries()?;
        let entry = |(provider, value): (String, Value)| match serde_json::from_value(value) {
            Ok(stored) => Ok((provider, stored)),
            // The message omits the value, which may be a secret.
            Err(_) => Err(self.wrong(&format!("the entry of {provider:?} has neither type api_key nor oauth"))),
        };
        entries.into_iter().map(entry).collect()
    }

    fn entries(&self) -> io::Result<Map<String, Value>> {
        let Some(bytes) = self.disk.read(&self.path, MAX_FILE_BYTES)? else { return Ok(Map::new()) };
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(Map::new());
        }
        serde_json::from_slice(text).map_err(|_| self.wrong("it is not a JSON object"))
    }

    /// Stores credentials for a provider and keeps all other entries. The caller must hold [`AuthFile::lock`].
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read or written.
    pub(super) fn put(&self, provider: &str, stored: &StoredCredential) -> io::Result<()> {
        let mut entries = self.entries()?;
        let mut value = serde_json::to_value(stored).map_err(io::Error::other)?;
        // Keeps members of pi that are unknown here, unless the type changes between login and key.
        if let (Some(Value::Object(known)), Some(given)) = (entries.get(provider), value.as_object_mut())
            && known.get("type") == given.get("type")
        {
            for (key, value) in known.iter().filter(|(key, _)| *key != "extension") {
                given.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        entries.insert(provider.to_owned(), value);
        self.write(&entries)
    }

    /// Removes the credentials of a provider; returns whether there were any. The caller must hold [`AuthFile::lock`].
    ///
    /// # Errors
    ///
    /// Fails like [`AuthFile::put`].
    pub(super) fn remove(&self, provider: &str) -> io::Result<bool> {
        let mut entries = self.entries()?;
        if entries.shift_remove(provider).is_none() {
            return Ok(false);
        }
        self.write(&entries)?;
        Ok(true)
    }

    fn write(&self, entries: &Map<String, Value>) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(entries).map_err(io::Error::other)?;
        // A backup would keep a revoked token.
        self.disk.replace(&self.path, &text, Replace { follow_links: true, ..Replace::DERIVED })
    }

    /// Acquires pi's lock; returns `None` while another process holds it.
    pub(super) fn lock(&self) -> io::Result<Option<AuthLock>> {
        let folder = self.lock_folder();
        if let Some(parent) = self.path.parent() {
            self.disk.create_dirs(parent)?;
        }
        match self.disk.create_dir(&folder) {
            Ok(()) => Ok(Some(AuthLock { disk: self.disk.clone(), folder })),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the folder that serves as pi's lock.
    pub(super) fn lock_folder(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        name.into()
    }

    fn wrong(&self, what: &str) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", self.path.display()))
    }
}

/// A guard of pi's lock, which is released on drop.
#[derive(Debug)]
pub(super) struct AuthLock {
    disk: Disk,
    folder: PathBuf,
}

impl Drop for AuthLock {
    fn drop(&mut self) {
        // Another process may have removed the lock as stale.
        let _ = self.disk.remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(text: Option<&str>) -> (tempfile::TempDir, AuthFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        (folder, AuthFile::new(Disk::system(), path))
    }

    #[test]
    fn both_kinds_of_entries_are_read_and_a_file_that_is_missing_is_empty() {
        let (_folder, auth) = file(None);
        assert!(auth.read().unwrap().is_empty());
        let text = r#"{"groq": {"type": "api_key", "key": "$G", "env": {"G": "k"}}, "xai": {"type": "oauth",
            "access": "a", "refresh": "r", "expires": 12, "extra": 1}}"#;
        let (_folder, auth) = file(Some(text));
        let stored = auth.read().unwrap();
        assert!(
            matches!(&stored["groq"], StoredCredential::ApiKey { key: Some(key), env, .. } if key == "$G" && env["G"] == "k")
        );
        assert!(
            matches!(&stored["xai"], StoredCredential::Oauth(login) if login.access == "a" && login.rest["extra"] == 1)
        );
    }

    #[test]
    fn errors_do_not_contain_secrets() {
        for text in
            [r#"{"groq": {"type": "api_key", "key": {"secret": "hush-hush"}}}"#, r#"["hush-hush"]"#, "hush-hush"]
        {
            let (_folder, auth) = file(Some(text));
            let said = auth.read().unwrap_err().to_string();
            assert!(said.contains("auth.json") && !said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn a_new_token_is_written_with_owner_access_and_other_entries_stay() {
        let text = r#"{"a": {"type": "api_key", "key": "k", "later": true}, "b": {"type": "oauth", "access": "1",
            "refresh": "2", "expires": 3, "enterpriseUrl": "e"}}"#;
        let (folder, auth) = file(Some(text));
        let login = Login { access: "new".into(), refresh: "2".into(), expires: 9.0, rest: Map::new() };
        let held = auth.lock().unwrap().expect("free");
        assert!(auth.lock().unwrap().is_none(), "one at a time");
        auth.put("b", &StoredCredential::Oauth(login)).unwrap();
        drop(held);
        assert!(auth.lock().unwrap().is_some());
        let written: Value = serde_json::from_slice(&std::fs::read(auth.path()).unwrap()).unwrap();
        assert_eq!(written["a"], serde_json::json!({"type": "api_key", "key": "k", "later": true}));
        assert_eq!((&written["b"]["access"], &written["b"]["enterpriseUrl"]), (&"new".into(), &"e".into()));
        assert_eq!(std::fs::metadata(auth.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let others: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(others, ["auth.json"], "no copy of the old token");
    }

    #[test]
    fn a_key_replaces_a_login_and_can_be_removed() {
        let text = r#"{"a": {"type": "oauth", "access": "1", "refresh": "2", "expires": 3}, "b": {"type": "api_key"}}"#;
        let (_folder, auth) = file(Some(text));
        let _held = auth.lock().unwrap().expect("free");
        auth.put("a", &StoredCredential::ApiKey { key: Some("k".to_owned()), env: BTreeMap::new(), extension: None })
            .unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(auth.path()).unwrap()).unwrap();
        assert_eq!(written["a"], serde_json::json!({"type": "api_key", "key": "k"}));
        assert!(auth.remove("a").unwrap() && !auth.remove("a").unwrap());
        assert_eq!(auth.read().unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
