//! The machine's file system.

use crate::owner::Owner;
use crate::vfs::{Kind, Open, Stat, Vfs, VfsFile};
use pijs_protocol::guard;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;

/// The machine's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsVfs;

impl Vfs for OsVfs {
    fn open(&self, path: &Path, open: Open) -> io::Result<Box<dyn VfsFile>> {
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
            // NONBLOCK: a pipe put in the file's place must not hold the program up.
            let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
            if let Open::CreateNew(mode) | Open::Append(mode) = open {
                options.mode(mode);
                if guard::is_up("durable.no-follow") {
                    flags |= OFlags::NOFOLLOW;
                }
            }
            options.custom_flags(i32::try_from(flags.bits()).expect("flags of open fit"));
        }
        Ok(Box::new(OsFile(options.open(path)?)))
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
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            use rustix::io::Errno;
            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                other => return other.map_err(io::Error::from),
            }
        }
        fs::hard_link(from, to)?;
        fs::remove_file(from)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_vendor = "apple"))]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            use rustix::io::Errno;
            match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                other => return other.map_err(io::Error::from),
            }
        }
        let _ = (a, b);
        Err(io::Error::new(io::ErrorKind::Unsupported, "this file system cannot swap two entries"))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
    }

    fn sync_tree(&self, directory: &Path) -> io::Result<()> {
        // One call for the file system where there is one; a flush for each of a package's files costs seconds.
        #[cfg(target_os = "linux")]
        {
            rustix::fs::syncfs(File::open(directory)?)?;
            Ok(())
        }
        #[cfg(not(target_os = "linux"))]
        {
            for name in self.list(directory)? {
                let path = directory.join(name);
                match self.stat(&path)?.kind {
                    Kind::Directory => self.sync_tree(&path)?,
                    Kind::File => File::open(&path)?.sync_all()?,
                    Kind::Link | Kind::Other => {}
                }
            }
            self.sync_dir(directory)
        }
    }

    fn step(&self, _what: &str) -> io::Result<()> {
        Ok(())
    }

    fn owner(&self) -> io::Result<Owner> {
        Owner::this_process()
    }
}

#[derive(Debug)]
struct OsFile(File);

impl VfsFile for OsFile {
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
        }
    }
    #[cfg(not(unix))]
    {
        Stat { kind, len: metadata.len(), mode: 0o600, uid: 0, links: 1, id: (0, 0) }
    }
}
