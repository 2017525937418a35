//! The file system of the machine.

use crate::owner::Owner;
use crate::vfs::{Kind, Open, Stat, Vfs, VfsFile};
use pijs_protocol::guard;
#[cfg(unix)]
use rustix::fs::{AtFlags, CWD};
#[cfg(unix)]
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsVfs;

impl OsVfs {
    pub(crate) fn open_file(self, path: &Path, open: Open) -> io::Result<OsFile> {
        let mut options = File::options();
        match open {
            Open::Read => options.read(true),
            Open::CreateNew(_) => options.write(true).create_new(true),
            Open::Append(_) => options.read(true).append(true).create(true),
        };
        #[cfg(unix)]
        {
            use rustix::fs::OFlags;
            use std::os::unix::fs::OpenOptionsExt;
            // NONBLOCK: opening a pipe in place of the file must not block.
            let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
            if let Open::CreateNew(mode) | Open::Append(mode) = open {
                options.mode(mode);
                if guard!(DurableNoFollow) {
                    flags |= OFlags::NOFOLLOW;
                }
            }
            options.custom_flags(i32::try_from(flags.bits()).expect("flags of `open` fit into an `i32`"));
        }
        options.open(path).map(OsFile)
    }
}

impl Vfs for OsVfs {
    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(self.open_file(path, open)?))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        fs::symlink_metadata(path).map(|metadata| stat(&metadata))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        #[cfg(unix)]
        {
            rename_new(CWD, from, CWD, to)
        }
        #[cfg(not(unix))]
        {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        #[cfg(unix)]
        {
            exchange(CWD, a, CWD, b)
        }
        #[cfg(not(unix))]
        {
            let _ = (a, b);
            Err(cannot_swap())
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn directory(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        if cfg!(unix) { self.directory(directory)?.sync_all() } else { Ok(()) }
    }

    fn sync_tree(&self, directory: &Path) -> io::Result<()> {
        sync_tree(self, directory)
    }

    fn step(&self, _what: &str) -> io::Result<()> {
        Ok(())
    }

    fn owner(&self) -> io::Result<Owner> {
        Owner::this_process()
    }

    fn beneath(&self, roots: &[PathBuf]) -> io::Result<Arc<dyn Vfs>> {
        #[cfg(unix)]
        {
            Ok(Arc::new(crate::beneath::Beneath::new(roots)))
        }
        #[cfg(not(unix))]
        {
            let _ = roots;
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot open files without following links"))
        }
    }
}

/// Moves a name from one open folder to another; fails if the name exists there.
#[cfg(unix)]
pub(crate) fn rename_new<P: rustix::path::Arg + Copy>(a: impl AsFd, from: P, b: impl AsFd, to: P) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(&a, from, &b, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            other => return other.map_err(io::Error::from),
        }
    }
    rustix::fs::linkat(&a, from, &b, to, AtFlags::empty())?;
    Ok(rustix::fs::unlinkat(&a, from, AtFlags::empty())?)
}

/// Swaps two names of open folders.
#[cfg(unix)]
pub(crate) fn exchange<P: rustix::path::Arg>(first: impl AsFd, a: P, second: impl AsFd, b: P) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(first, a, second, b, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            other => return other.map_err(io::Error::from),
        }
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    let _ = (first, a, second, b);
    Err(cannot_swap())
}

fn cannot_swap() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this file system cannot swap two entries")
}

/// Makes everything below a folder durable.
pub(crate) fn sync_tree(vfs: &dyn Vfs, directory: &Path) -> io::Result<()> {
    // Uses one call for the whole file system if the system has it, because flushing each file of a package takes seconds.
    #[cfg(target_os = "linux")]
    {
        rustix::fs::syncfs(vfs.directory(directory)?)?;
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    {
        for name in vfs.list(directory)? {
            let path = directory.join(name);
            match vfs.stat(&path)?.kind {
                Kind::Directory => sync_tree(vfs, &path)?,
                Kind::File => vfs.open(&path, Open::Read)?.sync()?,
                Kind::Link | Kind::Other => {}
            }
        }
        vfs.sync_dir(directory)
    }
}

/// Returns the resolved path by a handle that is opened neither for reading nor with blocking; `None` if the kernel does not
/// report the path of a handle.
#[cfg(target_os = "linux")]
pub(crate) fn path_of_handle(path: &Path) -> io::Result<Option<PathBuf>> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let Ok(named) = fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())) else { return Ok(None) };
    // For a file that has just been removed, or is outside of this process's root, the reported path is not valid.
    let is_path = named.is_absolute() && !named.as_os_str().as_bytes().ends_with(b" (deleted)");
    Ok(is_path.then_some(named))
}

#[derive(Debug)]
pub(crate) struct OsFile(pub(crate) File);

impl VfsFile for OsFile {
    /// Resolves `path` again if the system cannot report the path of an open file.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let named = fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
            if named.is_ok() {
                return named;
            }
        }
        path.canonicalize()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::read_at(&self.0, buffer, at)
        }
        #[cfg(not(unix))]
        {
            use std::io::{Seek, SeekFrom};
            let before = self.0.stream_position()?;
            self.0.seek(SeekFrom::Start(at))?;
            let read = self.0.read(buffer);
            self.0.seek(SeekFrom::Start(before))?;
            read
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn set_mode(&mut self, mode: u32) -> io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            self.0.set_permissions(fs::Permissions::from_mode(mode))
        }
        #[cfg(not(unix))]
        {
            let _ = mode;
            Ok(())
        }
    }

    fn stat(&self) -> io::Result<Stat> {
        self.0.metadata().map(|metadata| stat(&metadata))
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn stat(metadata: &Metadata) -> Stat {
    let file_type = metadata.file_type();
    let kind = if file_type.is_symlink() {
        Kind::Link
    } else if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_file() {
        Kind::File
    } else {
        Kind::Other
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Stat {
            kind,
            len: metadata.len(),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            links: metadata.nlink(),
            id: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
    #[cfg(not(unix))]
    {
        Stat { kind, len: metadata.len(), mode: 0o600, uid: 0, links: 1, id: (0, 0), modified: (0, 0) }
    }
}
