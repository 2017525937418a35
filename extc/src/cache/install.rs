//! The installation's key and the folders around the cache: the only module that reads the environment, makes secrets and sets
//! permissions.

use pijs_artifact::InstallKey;
use pijs_durable::Disk;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the key file in the base directory.
const KEY_FILE: &str = "install.key";

/// Returns the candidate cache folders, best first: `$XDG_CACHE_HOME/pijs`, else `~/.cache/pijs`; then a folder of pi's own, in
/// case another user can write to the first.
pub(super) fn user_bases() -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME");
    let first = absolute("XDG_CACHE_HOME").or_else(|| home.as_ref().map(|home| home.join(".cache")));
    let agent = absolute("PI_CODING_AGENT_DIR").or_else(|| home.map(|home| home.join(".pi/agent")));
    first.map(|cache| cache.join("pijs")).into_iter().chain(agent.map(|agent| agent.join("pijs/cache"))).collect()
}

/// Reads the key of this installation, or creates it. If two callers create it concurrently, both get the key of one of them.
pub(super) fn read_or_create_key(disk: &Disk, base: &Path) -> io::Result<InstallKey> {
    disk.private_dir(base)?;
    let path = base.join(KEY_FILE);
    if let Some(key) = read_key(disk, &path)? {
        return Ok(key);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    if disk.create_once(&path, &secret)? {
        return Ok(InstallKey::from_bytes(secret));
    }
    read_key(disk, &path)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the key was removed in the meantime"))
}

fn read_key(disk: &Disk, path: &Path) -> io::Result<Option<InstallKey>> {
    let Some(bytes) = disk.read(path, 64)? else { return Ok(None) };
    let mode = disk.stat(path)?.mode;
    if mode & 0o077 != 0 {
        let message = format!("others can access {} (mode {:o}); remove it to create a new key", path.display(), mode);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let secret: [u8; 32] = bytes.try_into().map_err(|_| {
        let message = format!("{} is not a key; remove it to create a new one", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })?;
    Ok(Some(InstallKey::from_bytes(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_key_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("pijs");
        let first = read_or_create_key(&Disk::system(), &base).unwrap();
        assert_eq!(read_or_create_key(&Disk::system(), &base).unwrap(), first);
        assert_ne!(first.as_bytes(), &[0; 32]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&base), mode(&base.join(KEY_FILE))), (0o700, 0o600));
            fs::set_permissions(base.join(KEY_FILE), fs::Permissions::from_mode(0o644)).unwrap();
            let error = read_or_create_key(&Disk::system(), &base).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Disk::system().create_once(&dir.path().join(KEY_FILE), b"short").unwrap();
        assert_eq!(read_or_create_key(&Disk::system(), dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
