//! The artifact cache: compiled once, loaded in a few milliseconds.
//!
//! A directory of files named by [`Key`]. An artifact lies beside a MAC under this installation's
//! key, and only an artifact whose MAC matches for this engine build and this use is ever loaded:
//! whatever else lies there is rebuilt from source. Files appear by rename, so that a reader sees a
//! whole file or none, and two builds at once end with one of two equal files.
//!
//! A cache is a convenience. Whatever fails in it costs time, never the build.

mod install;
mod key;

pub(crate) use key::{Key, KeyBuilder};

use pijs_artifact::{InstallKey, Mac, Verified, sign};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Largest file that is read back: four times what one build takes in.
const MAX_FILE_BYTES: u64 = 128 << 20;

/// A directory of authenticated artifacts.
///
/// ```no_run
/// let cache = pijs_extc::Cache::user()?;
/// let host = pijs_extc::host_modules(Some(&cache)).expect("our own modules compile");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
    key: InstallKey,
}

/// An authentic artifact from the cache.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) artifact: Verified,
    pub(crate) bytes: Vec<u8>,
}

impl Cache {
    /// Uses a directory, which is created on the first write, under a key that the caller keeps.
    pub fn open(dir: impl Into<PathBuf>, key: InstallKey) -> Self {
        Self { dir: dir.into(), key }
    }

    /// The cache of the user who runs this process: `$XDG_CACHE_HOME/pijs/artifacts`, else
    /// `~/.cache/pijs/artifacts`, with the key in the directory above, made on first use.
    ///
    /// # Errors
    ///
    /// No home directory, or the key can neither be read nor made. Callers go on without a cache.
    pub fn user() -> io::Result<Self> {
        let base = install::user_base()?;
        let key = install::read_or_create_key(&base)?;
        Ok(Self::open(base.join("artifacts"), key))
    }

    /// Where the files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// An artifact that this installation stored under `key` for `id`, or nothing.
    ///
    /// Damage, another engine build and a foreign MAC are all nothing: the caller compiles again.
    pub(crate) fn load(&self, key: &Key, id: &str) -> Option<Hit> {
        let bytes = read_bounded(&self.file(key, "artifact")).ok()?;
        let mac = Mac::from_bytes(&read_bounded(&self.file(key, "mac")).ok()?)?;
        match Verified::check(&bytes, &mac, &self.key, &pijs_engine::engine_build(), id) {
            Ok(artifact) => Some(Hit { artifact, bytes }),
            Err(error) => {
                tracing::warn!(%error, %key, "cached artifact refused; rebuilding from source");
                None
            }
        }
    }

    /// Stores an encoded artifact with its MAC. The MAC goes last: until then there is no hit.
    pub(crate) fn store(&self, key: &Key, id: &str, bytes: &[u8]) -> io::Result<()> {
        let mac = sign(&self.key, bytes, &pijs_engine::engine_build(), id);
        self.write(&self.file(key, "artifact"), bytes)?;
        self.write(&self.file(key, "mac"), mac.as_bytes())
    }

    /// A note kept beside artifacts. Nothing authenticates it, so it may only say where to look.
    pub(crate) fn load_note<T: DeserializeOwned>(&self, key: &Key) -> Option<T> {
        serde_json::from_slice(&read_bounded(&self.file(key, "json")).ok()?).ok()
    }

    /// Stores a note.
    pub(crate) fn store_note<T: Serialize>(&self, key: &Key, note: &T) -> io::Result<()> {
        self.write(&self.file(key, "json"), &serde_json::to_vec(note)?)
    }

    fn file(&self, key: &Key, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", key.hex()))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        install::create_private_dir(&self.dir)?;
        let mut file = NamedTempFile::new_in(&self.dir)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }
}

/// Reads a file of bounded size into memory once; what is checked is what is used.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any artifact"));
    }
    Ok(bytes)
}
