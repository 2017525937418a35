//! Opens files below a folder without following links.
//!
//! Opening fails if a part of the path has become a link, so a decision about a path applies to the opened file.

pub(crate) use system::{folder_without_links, is_link, without_links};

#[cfg(unix)]
mod system {
    use cap_std::fs::Dir;
    use rustix::fs::{Mode, OFlags, open, openat};
    use rustix::io::Errno;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::{Component, Path};

    /// Opens intermediate folders for traversal only: they need not be readable.
    #[cfg(target_os = "linux")]
    const WAY: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const WAY: OFlags = OFlags::RDONLY;

    /// Opens the file at `relative` for reading. `..` and links are errors.
    pub(crate) fn without_links(root: &Dir, relative: &Path) -> io::Result<File> {
        let mut folder: Option<OwnedFd> = None;
        let mut parts = relative.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            let at = folder.as_ref().map_or_else(|| root.as_fd(), |folder| folder.as_fd());
            let is_last = parts.peek().is_none();
            // Opening a pipe in place of a file must not block.
            let kind = if is_last { OFlags::RDONLY | OFlags::NONBLOCK } else { WAY | OFlags::DIRECTORY };
            let opened = openat(at, name, kind | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            if is_last {
                return Ok(opened.into());
            }
            folder = Some(opened);
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Opens the folder at an absolute path. `..` and links are errors.
    pub(crate) fn folder_without_links(path: &Path) -> io::Result<Dir> {
        #[cfg(target_os = "linux")]
        if let Some(folder) = at_once(path)? {
            return Ok(Dir::from_std_file(File::from(folder)));
        }
        part_by_part(path)
    }

    /// Opens the path in one system call that refuses links; `None` if the kernel cannot, or not in this process.
    #[cfg(target_os = "linux")]
    fn at_once(path: &Path) -> io::Result<Option<OwnedFd>> {
        use rustix::fs::{CWD, ResolveFlags, openat2};
        let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(is_plain) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = WAY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn part_by_part(path: &Path) -> io::Result<Dir> {
        let at = |folder: &OwnedFd, name: &OsStr| {
            openat(folder, name, WAY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        };
        let mut parts = path.components();
        if parts.next() != Some(Component::RootDir) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut folder = open("/", WAY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in parts {
            let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            folder = at(&folder, name)?;
        }
        Ok(Dir::from_std_file(File::from(folder)))
    }

    /// Returns whether an error may mean that a part of the path is a link.
    pub(crate) fn is_link(error: &io::Error) -> bool {
        // FreeBSD reports EMLINK for a link, Linux ENOTDIR for one in place of a folder.
        let errors = [Errno::LOOP, Errno::NOTDIR, Errno::MLINK];
        errors.iter().any(|known| error.raw_os_error() == Some(known.raw_os_error()))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_folder_is_opened_only_by_its_canonical_path() {
        let temporary = tempfile::tempdir().expect("a folder");
        let real = temporary.path().canonicalize().expect("it is there");
        fs::create_dir_all(real.join("a/b")).expect("made");
        fs::write(real.join("file"), "").expect("written");
        std::os::unix::fs::symlink("a", real.join("link")).expect("made");
        std::os::unix::fs::symlink("b", real.join("a/last")).expect("made");
        assert!(folder_without_links(&real.join("a/b")).is_ok());
        for link in ["link/b", "a/last", "file"] {
            let error = folder_without_links(&real.join(link)).expect_err(link);
            assert!(is_link(&error), "{link}: {error}");
        }
        assert!(folder_without_links(&real.join("a/../a")).is_err());
        assert!(folder_without_links(Path::new("a")).is_err());
        assert!(folder_without_links(&real.join("none")).is_err_and(|error| !is_link(&error)));
    }
}

#[cfg(not(unix))]
mod system {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use std::fs::File;
    use std::io;
    use std::path::Path;

    /// Opens the file at `relative` for reading. Fails if the path is not canonical.
    pub(crate) fn without_links(root: &Dir, relative: &Path) -> io::Result<File> {
        if root.canonicalize(relative)? != relative {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        root.open(relative).map(|file| file.into_std())
    }

    /// Opens the folder at an absolute path. Fails if the path is not canonical.
    pub(crate) fn folder_without_links(path: &Path) -> io::Result<Dir> {
        let folder = Dir::open_ambient_dir(path, ambient_authority())?;
        if path.canonicalize()? != path {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(folder)
    }

    /// Returns whether an error may mean that a part of the path is a link.
    pub(crate) fn is_link(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotADirectory
    }
}
