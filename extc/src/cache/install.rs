//! The installation's key and the folders around the cache: the only place that reads the
//! environment, makes secrets and sets permissions.

use pijs_artifact::InstallKey;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Name of the key file in the base directory.
const KEY_FILE: &str = "install.key";

/// `$XDG_CACHE_HOME/pijs`, else `~/.cache/pijs`.
pub(super) fn user_base() -> io::Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("pijs"))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME names a folder"))
}

/// The key of this installation; the first caller makes it, and of two at once one wins for both.
pub(super) fn read_or_create_key(base: &Path) -> io::Result<InstallKey> {
    let path = base.join(KEY_FILE);
    match read_key(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    create_private_dir(base)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    // A temporary file is made with mode 0600, and keeps it.
    let mut file = NamedTempFile::new_in(base)?;
    file.write_all(&secret)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(InstallKey::from_bytes(secret)),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read_key(&path),
        Err(error) => Err(error.error),
    }
}

fn read_key(path: &Path) -> io::Result<InstallKey> {
    let bytes = super::read_bounded(path)?;
    refuse_if_readable_by_others(path)?;
    let secret: [u8; 32] = bytes.try_into().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a key; remove it to make a new one", path.display()),
        )
    })?;
    Ok(InstallKey::from_bytes(secret))
}

#[cfg(unix)]
fn refuse_if_readable_by_others(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message =
            format!("{} is open to others (mode {:o}); remove it to make a new one", path.display(), mode & 0o777);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_if_readable_by_others(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a folder that only its user enters, with the folders above it.
pub(super) fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("pijs");
        let first = read_or_create_key(&base).unwrap();
        assert_eq!(read_or_create_key(&base).unwrap(), first);
        assert_ne!(first.as_bytes(), &[0; 32]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&base), mode(&base.join(KEY_FILE))), (0o700, 0o600));
            fs::set_permissions(base.join(KEY_FILE), fs::Permissions::from_mode(0o644)).unwrap();
            let error = read_or_create_key(&base).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = NamedTempFile::new_in(dir.path()).unwrap();
        file.write_all(b"short").unwrap();
        file.persist(dir.path().join(KEY_FILE)).unwrap();
        assert_eq!(read_or_create_key(dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
