//! `auth.json` of pi's agent folder: what was stored for each provider.
//!
//! The file is shared with the real pi, which may run at the same time: whoever changes it holds the folder
//! `auth.json.lock` beside it, as pi does, and reads it again first. It is written as a whole or not at all, for its
//! owner alone.

use pijs_durable::{Disk, Replace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Largest file that is read.
const LARGEST: u64 = 1 << 20;

/// What is stored for a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Stored {
    /// A key.
    ApiKey {
        /// As it is written: see [`super::value`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Variables for this provider alone.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// The extension that brings the provider; none for one of pi's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extension: Option<String>,
    },
    /// A log-in.
    Oauth(Login),
}

impl Stored {
    /// The extension through which it came about.
    pub(super) fn extension(&self) -> Option<&str> {
        match self {
            Self::ApiKey { extension, .. } => extension.as_deref(),
            Self::Oauth(login) => login.rest.get("extension")?.as_str(),
        }
    }
}

/// The tokens of a log-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Login {
    /// Lets requests in.
    pub access: String,
    /// Gets a new one.
    pub refresh: String,
    /// When `access` ends, milliseconds since 1970.
    pub expires: f64,
    /// What else the provider keeps there.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The file.
#[derive(Debug, Clone)]
pub struct AuthFile {
    disk: Disk,
    path: PathBuf,
}

impl AuthFile {
    /// The file at this path; it need not be there.
    pub fn new(disk: Disk, path: PathBuf) -> Self {
        Self { disk, path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is stored now.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or holds something else.
    pub fn read(&self) -> io::Result<BTreeMap<String, Stored>> {
        let entries = self.entries()?;
        let entry = |(provider, value): (String, Value)| match serde_json::from_value(value) {
            Ok(stored) => Ok((provider, stored)),
            // The value may be a secret: it is not shown.
            Err(_) => Err(self.wrong(&format!("the entry of {provider:?} is neither an api_key nor an oauth one"))),
        };
        entries.into_iter().map(entry).collect()
    }

    fn entries(&self) -> io::Result<Map<String, Value>> {
        let Some(bytes) = self.disk.read(&self.path, LARGEST)? else { return Ok(Map::new()) };
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(Map::new());
        }
        serde_json::from_slice(text).map_err(|_| self.wrong("it is no JSON object"))
    }

    /// Stores something for a provider; all other entries stay as they are. [`AuthFile::lock`] comes first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub(super) fn put(&self, provider: &str, stored: &Stored) -> io::Result<()> {
        let mut entries = self.entries()?;
        let mut value = serde_json::to_value(stored).map_err(io::Error::other)?;
        // What is there and unknown to us is pi's, but a key takes nothing over from a log-in.
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

    /// Takes out what is stored for a provider; whether there was something. [`AuthFile::lock`] comes first.
    ///
    /// # Errors
    ///
    /// As [`AuthFile::put`].
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
        // No backup: it would keep a token that was taken back.
        self.disk.replace(&self.path, &text, Replace { backup: false, follow_links: true, keep_mode: false })
    }

    /// Takes pi's lock; `None` while somebody else has it.
    pub(super) fn lock(&self) -> io::Result<Option<Held>> {
        let folder = self.lock_folder();
        if let Some(parent) = self.path.parent() {
            self.disk.create_dirs(parent)?;
        }
        match self.disk.create_dir(&folder) {
            Ok(()) => Ok(Some(Held { disk: self.disk.clone(), folder })),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The folder that is pi's lock.
    pub(super) fn lock_folder(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        name.into()
    }

    fn wrong(&self, what: &str) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", self.path.display()))
    }
}

/// pi's lock; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    disk: Disk,
    folder: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Somebody who took it for stale has taken it away already.
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
            matches!(&stored["groq"], Stored::ApiKey { key: Some(key), env, .. } if key == "$G" && env["G"] == "k")
        );
        assert!(matches!(&stored["xai"], Stored::Oauth(login) if login.access == "a" && login.rest["extra"] == 1));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_secret() {
        for text in
            [r#"{"groq": {"type": "api_key", "key": {"secret": "hush-hush"}}}"#, r#"["hush-hush"]"#, "hush-hush"]
        {
            let (_folder, auth) = file(Some(text));
            let said = auth.read().unwrap_err().to_string();
            assert!(said.contains("auth.json") && !said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn a_new_token_is_written_for_the_owner_alone_and_the_rest_stays() {
        let text = r#"{"a": {"type": "api_key", "key": "k", "later": true}, "b": {"type": "oauth", "access": "1",
            "refresh": "2", "expires": 3, "enterpriseUrl": "e"}}"#;
        let (folder, auth) = file(Some(text));
        let login = Login { access: "new".into(), refresh: "2".into(), expires: 9.0, rest: Map::new() };
        let held = auth.lock().unwrap().expect("free");
        assert!(auth.lock().unwrap().is_none(), "one at a time");
        auth.put("b", &Stored::Oauth(login)).unwrap();
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
    fn a_key_takes_the_place_of_a_login_and_can_be_taken_out() {
        let text = r#"{"a": {"type": "oauth", "access": "1", "refresh": "2", "expires": 3}, "b": {"type": "api_key"}}"#;
        let (_folder, auth) = file(Some(text));
        let _held = auth.lock().unwrap().expect("free");
        auth.put("a", &Stored::ApiKey { key: Some("k".to_owned()), env: BTreeMap::new(), extension: None }).unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(auth.path()).unwrap()).unwrap();
        assert_eq!(written["a"], serde_json::json!({"type": "api_key", "key": "k"}));
        assert!(auth.remove("a").unwrap() && !auth.remove("a").unwrap());
        assert_eq!(auth.read().unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
