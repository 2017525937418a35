//! The artifact cache: compiled once, loaded in a few milliseconds.
//!
//! Files are named by [`Key`]. Each artifact has a MAC under this installation's key, and only an artifact whose
//! MAC matches for this engine build and this use is ever loaded: any other file is rebuilt from source. Files appear by rename,
//! so that a reader sees a whole file or none, and two concurrent builds end with one of two equal files.
//!
//! ```text
//! KEY.artifact   bytecode and metadata, all that a start reads    KEY.mac     its MAC, the digest of the whole artifact
//! KEY.texts      sources and maps, preceded by their MAC          KEY.json    the note that leads to an artifact
//! KEY.stamps     stamps for the note, preceded by their MAC       KEY.data    data that a program generated
//! ```
//!
//! The cache is best effort: a failure in it costs time, and never fails the build. A full one loses its oldest files.

mod install;
mod key;

pub(crate) use key::{Key, KeyBuilder};

use crate::stamps::{Moment, Stamps};
use pijs_artifact::{Artifact, InstallKey, Mac, Verified, encode, sign, verifies};
use pijs_durable::{Disk, Replace};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Maximum size of a cached file that is read: four times the input limit of a build.
const MAX_FILE_BYTES: u64 = 128 << 20;
/// Number of files above which the oldest are removed: some hundred packages, half a gigabyte.
const MAX_FILES: usize = 4096;
const MAC_LENGTH: usize = 32;

/// Returns the id that the MAC of bytecode is bound to, together with the artifact that the bytecode is a part of.
fn code_id(id: &str, digest: &str) -> String {
    format!("{id} of {digest}")
}

/// Returns the id that the MAC of sources and maps is bound to.
fn texts_id(id: &str) -> String {
    format!("texts of {id}")
}

/// Returns the id that the MAC of stamps is bound to.
fn stamps_id(key: &Key) -> String {
    format!("stamps:{key}")
}

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
    disk: Disk,
    notice: Option<String>,
    /// Done before the first write.
    tidied: Arc<OnceLock<()>>,
}

/// An authentic artifact of an extension from the cache.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) artifact: Verified,
    /// Digest of the whole encoded artifact, as `sha256:HEX`.
    pub(crate) digest: String,
}

impl Cache {
    /// Opens a cache in a directory, which is created on the first write. The caller keeps the key.
    pub fn open(dir: impl Into<PathBuf>, key: InstallKey) -> Self {
        Self { dir: dir.into(), key, disk: Disk::system(), notice: None, tidied: Arc::default() }
    }

    /// Opens the cache of the user who runs this process: `$XDG_CACHE_HOME/pijs/artifacts`, else `~/.cache/pijs/artifacts`, with
    /// the key in the directory above, made on first use. If another user owns or can write to that directory, a folder below
    /// pi's own is used, and [`Cache::notice`] says so.
    ///
    /// # Errors
    ///
    /// Fails without a home directory, or if the key can neither be read nor created. Callers continue without a cache.
    pub fn user() -> io::Result<Self> {
        Self::at_first(Self::user_folders(), &Disk::system())
    }

    /// Returns the folders that [`Cache::user`] may use, best first, each with the key in it, to deny access to them.
    pub fn user_folders() -> Vec<PathBuf> {
        install::user_bases()
    }

    fn at_first(bases: Vec<PathBuf>, disk: &Disk) -> io::Result<Self> {
        let mut refused: Option<io::Error> = None;
        for base in bases {
            let dir = base.join("artifacts");
            match install::read_or_create_key(disk, &base).and_then(|key| disk.private_dir(&dir).map(|()| key)) {
                Ok(key) => {
                    let notice = refused.map(|error| format!("{error}; using {} instead", dir.display()));
                    return Ok(Self { dir, key, disk: disk.clone(), notice, tidied: Arc::default() });
                }
                Err(error) => refused = Some(refused.unwrap_or(error)),
            }
        }
        Err(refused.unwrap_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME names a folder")
        }))
    }

    /// Sets the disk that the cache writes through.
    #[must_use]
    pub fn on(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// Returns a notice for the user about the location of the cache.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Returns the directory of the cache.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Loads an artifact that this installation stored under `key` for `id`.
    ///
    /// Returns `None` for a damaged file, another engine build or a foreign MAC: the caller compiles again.
    pub(crate) fn load(&self, key: &Key, id: &str) -> Option<Verified> {
        let bytes = self.read(&self.file(key, "artifact"))?;
        let mac = Mac::from_bytes(&self.read(&self.file(key, "mac"))?)?;
        self.check(key, bytes, &mac, id)
    }

    /// Checks the MAC. Bytecode stays in `bytes`, a private copy, so that the checked bytes are the loaded ones.
    fn check(&self, key: &Key, bytes: Vec<u8>, mac: &Mac, id: &str) -> Option<Verified> {
        match Verified::check_shared(&bytes.into(), mac, &self.key, &pijs_engine::engine_build(), id) {
            Ok(artifact) => Some(artifact),
            Err(error) => {
                tracing::warn!(%error, %key, "cached artifact refused; rebuilding from source");
                None
            }
        }
    }

    /// Stores an encoded artifact with its MAC. The MAC is written last: until then there is no hit.
    pub(crate) fn store(&self, key: &Key, id: &str, bytes: &[u8]) -> io::Result<()> {
        let mac = sign(&self.key, bytes, &pijs_engine::engine_build(), id);
        self.write(&self.file(key, "artifact"), bytes)?;
        self.write(&self.file(key, "mac"), mac.as_bytes())
    }

    /// Loads an artifact that [`Cache::store_apart`] stored. Its sources and maps are read on first use.
    pub(crate) fn load_apart(&self, key: &Key, id: &str) -> Option<Hit> {
        let file = self.file(key, "artifact");
        let bytes = self.disk.read_prepared(&file, MAX_FILE_BYTES, pijs_engine::fault_in).ok()??;
        let beside = self.read(&self.file(key, "mac"))?;
        let (mac, digest) = beside.split_at_checked(MAC_LENGTH)?;
        let digest = std::str::from_utf8(digest).ok()?.to_owned();
        let artifact = self.check(key, bytes, &Mac::from_bytes(mac)?, &code_id(id, &digest))?;
        // Without sources and maps, errors could not be shown at the author's lines.
        if !self.disk.exists(&self.file(key, "texts")).ok()? {
            return None;
        }
        let (cache, key, id) = (self.clone(), key.clone(), texts_id(id));
        Some(Hit { artifact: artifact.with_texts(move || cache.load_texts(&key, &id)), digest })
    }

    /// Stores an artifact: bytecode in one file, sources and maps in another. The MAC is written last; a hit needs it.
    pub(crate) fn store_apart(&self, key: &Key, id: &str, artifact: &Artifact, digest: &str) -> io::Result<()> {
        let engine = pijs_engine::engine_build();
        let texts = encode(&artifact.clone().into_texts());
        let mac = sign(&self.key, &texts, &engine, &texts_id(id));
        self.write(&self.file(key, "texts"), &[mac.as_bytes().as_slice(), &texts].concat())?;
        let code = encode(&artifact.clone().into_code());
        let mac = sign(&self.key, &code, &engine, &code_id(id, digest));
        self.write(&self.file(key, "artifact"), &code)?;
        self.write(&self.file(key, "mac"), &[mac.as_bytes().as_slice(), digest.as_bytes()].concat())
    }

    fn load_texts(&self, key: &Key, id: &str) -> Option<Artifact> {
        let read = || {
            let bytes = self.read(&self.file(key, "texts"))?;
            let (mac, bytes) = bytes.split_at_checked(MAC_LENGTH)?;
            Verified::check_texts(bytes, &Mac::from_bytes(mac)?, &self.key, &pijs_engine::engine_build(), id).ok()
        };
        let texts = read();
        if texts.is_none() {
            tracing::warn!(%key, "sources of a cached artifact refused; rebuilding at the next start");
            let _ = self.disk.remove(&self.file(key, "mac"));
        }
        texts
    }

    /// Loads data that this installation stored under `key` for `id`. Only data that this program wrote may be used, so its MAC
    /// is checked like an artifact's.
    pub(crate) fn load_data(&self, key: &Key, id: &str) -> Option<Vec<u8>> {
        let bytes = self.read(&self.file(key, "data"))?;
        let mac = Mac::from_bytes(&self.read(&self.file(key, "mac"))?)?;
        verifies(&self.key, &mac, &bytes, &pijs_engine::engine_build(), id).then_some(bytes)
    }

    /// Stores data with its MAC.
    pub(crate) fn store_data(&self, key: &Key, id: &str, bytes: &[u8]) -> io::Result<()> {
        let mac = sign(&self.key, bytes, &pijs_engine::engine_build(), id);
        self.write(&self.file(key, "data"), bytes)?;
        self.write(&self.file(key, "mac"), mac.as_bytes())
    }

    /// Reads an unauthenticated note. It only hints which artifact to check.
    pub(crate) fn load_note(&self, key: &Key) -> Option<Vec<u8>> {
        self.read(&self.file(key, "json"))
    }

    /// Stores a note and returns its bytes.
    pub(crate) fn store_note<T: Serialize>(&self, key: &Key, note: &T) -> io::Result<Vec<u8>> {
        let bytes = serde_json::to_vec(note)?;
        self.write(&self.file(key, "json"), &bytes)?;
        Ok(bytes)
    }

    /// Loads the stamps that this installation stored for a note, after checking the MAC that precedes them.
    pub(crate) fn load_stamps(&self, key: &Key) -> Option<Stamps> {
        let bytes = self.read(&self.file(key, "stamps"))?;
        let (mac, bytes) = bytes.split_at_checked(MAC_LENGTH)?;
        let is_ours = verifies(&self.key, &Mac::from_bytes(mac)?, bytes, &pijs_engine::engine_build(), &stamps_id(key));
        if is_ours { serde_json::from_slice(bytes).ok() } else { None }
    }

    /// Stores the stamps of a note.
    pub(crate) fn store_stamps(&self, key: &Key, stamps: &Stamps) -> io::Result<()> {
        let bytes = serde_json::to_vec(stamps)?;
        let mac = sign(&self.key, &bytes, &pijs_engine::engine_build(), &stamps_id(key));
        self.write(&self.file(key, "stamps"), &[mac.as_bytes().as_slice(), &bytes].concat())
    }

    /// Returns the current time by the clock of the cache's file system.
    pub(crate) fn moment(&self) -> Option<Moment> {
        self.disk.private_dir(&self.dir).ok()?;
        Moment::of(&self.dir)
    }

    fn file(&self, key: &Key, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", key.hex()))
    }

    /// Reads a file of bounded size into memory once, so that the checked bytes are the ones in use.
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.disk.read(path, MAX_FILE_BYTES).ok()?
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.disk.private_dir(&self.dir)?;
        self.tidied.get_or_init(|| drop(self.disk.tidy(&self.dir, MAX_FILES)));
        self.disk.replace(path, bytes, Replace::CACHED)
    }
}

#[cfg(test)]
mod tests;
