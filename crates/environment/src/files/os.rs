//! The operating system's files, through handles and single names.
//!
//! Every open uses `O_NOFOLLOW` and `O_NONBLOCK`. If the kernel has `openat2`, it resolves several names at once: beneath the
//! folder, without links, magic links and other file systems. Otherwise each name is opened separately, which enforces the same
//! rule.

#[cfg(target_os = "linux")]
use super::StatFs;
use super::{Dir, File, FileSystem, Kind, Mounts, OpenHow, Stat};
use pijs_protocol::guard;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of entries of a listed folder.
const MAX_ENTRIES: usize = 1_000_000;

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFileSystem;

impl OsFileSystem {
    /// Returns the file system of this process.
    pub fn new() -> Self {
        Self
    }
}

impl FileSystem for OsFileSystem {
    fn open_root(&self, path: &Path, mounts: Mounts) -> io::Result<Arc<dyn Dir>> {
        let fd = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Arc::new(OsDir { fd, mounts }))
    }

    fn open_files(&self) -> usize {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
    }

    fn random_name(&self) -> String {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        #[expect(
            clippy::disallowed_methods,
            reason = "the randomness of the machine, for the names of temporary files"
        )]
        let bytes = uuid::Uuid::new_v4().into_bytes();
        bytes.iter().take(6).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
    }

    #[cfg(target_os = "linux")]
    fn watches(&self) -> io::Result<Arc<dyn super::Watches>> {
        Ok(Arc::new(super::inotify::Instance::new()?))
    }
}

pub(super) struct OsDir {
    pub(super) fd: OwnedFd,
    mounts: Mounts,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Dir for OsDir {
    fn child(&self, name: &OsStr) -> io::Result<Arc<dyn Dir>> {
        let fd = open_beneath(&self.fd, Path::new(single(name)?), FOLDER, Mode::empty(), self.mounts)?;
        Ok(Arc::new(Self { fd, mounts: self.mounts }))
    }

    fn descend(&self, names: &[&OsStr]) -> io::Result<Option<Arc<dyn Dir>>> {
        let found = descend(&self.fd, names, self.mounts)?;
        Ok(found.map(|fd| Arc::new(Self { fd, mounts: self.mounts }) as Arc<dyn Dir>))
    }

    fn open(&self, name: &OsStr, how: OpenHow) -> io::Result<Box<dyn File>> {
        let flags = how.flags;
        let mut bits = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        bits |= match (flags.read, flags.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        for (wanted, bit) in [
            (flags.append, OFlags::APPEND),
            (flags.create, OFlags::CREATE),
            (flags.exclusive, OFlags::EXCL),
            (flags.directory, OFlags::DIRECTORY),
        ] {
            if wanted {
                bits |= bit;
            }
        }
        // `openat2` rejects a mode if the call cannot create a file.
        let mode = if flags.create { Mode::from_raw_mode(how.mode & 0o7777) } else { Mode::empty() };
        let fd = open_beneath(&self.fd, Path::new(single(name)?), bits, mode, self.mounts)?;
        let found = convert(&fs::fstat(&fd)?);
        match found.kind() {
            Kind::File => {}
            Kind::Dir if flags.write => return Err(Errno::ISDIR.into()),
            // A folder may be opened for its metadata; reading it fails with EISDIR, as in Node.
            Kind::Dir => {}
            // Pipes, sockets and devices are channels to other processes.
            _ if guard!(FsSpecial) => return Err(Errno::OPNOTSUPP.into()),
            _ => {}
        }
        if flags.truncate && found.kind() == Kind::File {
            fs::ftruncate(&fd, 0)?;
        }
        Ok(Box::new(OsFile { file: fd.into() }))
    }

    fn lstat(&self, name: &OsStr) -> io::Result<Stat> {
        stat_at(&self.fd, single(name)?)
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(convert(&fs::fstat(&self.fd)?))
    }

    #[cfg(target_os = "linux")]
    fn statfs(&self, name: Option<&OsStr>) -> io::Result<StatFs> {
        let found = match name {
            Some(name) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                fs::fstatfs(fs::openat(&self.fd, single(name)?, flags, Mode::empty())?)?
            }
            None => fs::fstatfs(&self.fd)?,
        };
        Ok(StatFs {
            kind: found.f_type.cast_unsigned(),
            bsize: found.f_bsize.cast_unsigned(),
            blocks: found.f_blocks,
            bfree: found.f_bfree,
            bavail: found.f_bavail,
            files: found.f_files,
            ffree: found.f_ffree,
        })
    }

    fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() >= MAX_ENTRIES {
                return Err(Errno::OVERFLOW.into());
            }
            let kind = match entry.file_type() {
                fs::FileType::RegularFile => Kind::File,
                fs::FileType::Directory => Kind::Dir,
                fs::FileType::Symlink => Kind::Symlink,
                fs::FileType::Fifo => Kind::Fifo,
                fs::FileType::Socket => Kind::Socket,
                fs::FileType::CharacterDevice => Kind::Char,
                fs::FileType::BlockDevice => Kind::Block,
                // Some file systems do not report the kind; an entry that was removed in the meantime is omitted.
                fs::FileType::Unknown => match stat_at(&self.fd, name) {
                    Ok(stat) => stat.kind(),
                    Err(_) => continue,
                },
            };
            entries.push((name.to_owned(), kind));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(fs::mkdirat(&self.fd, single(name)?, Mode::from_raw_mode(mode & 0o7777))?)
    }

    fn rmdir(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, single(name)?, AtFlags::REMOVEDIR)?)
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, single(name)?, AtFlags::empty())?)
    }

    fn rename(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, single(name)?, &same_kind(to)?.fd, single(to_name)?)?)
    }

    fn replace(&self, name: &OsStr, data: &[u8], mode: u32) -> io::Result<Option<()>> {
        let name = single(name)?;
        let kept = match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
            Ok(stat) => {
                // Replacing the file would lose other hard links, another owner and special permission bits.
                let own = stat.st_uid == rustix::process::geteuid().as_raw();
                if convert(&stat).kind() != Kind::File || stat.st_nlink != 1 || !own {
                    return Ok(None);
                }
                fs::accessat(&self.fd, name, fs::Access::WRITE_OK, AtFlags::EACCESS)?;
                if self.has_attributes(name) {
                    return Ok(None);
                }
                Some(stat)
            }
        };
        let temporary = format!(".pijs-{}.tmp", OsFileSystem.random_name());
        let bits = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match fs::openat(&self.fd, temporary.as_str(), bits, Mode::from_raw_mode(mode & 0o777)) {
            Ok(fd) => fd,
            // The file is writable, but its folder is not.
            Err(Errno::ACCESS | Errno::PERM) if kept.is_some() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let finish = || -> io::Result<()> {
            if let Some(kept) = &kept {
                let group = Some(rustix::fs::Gid::from_raw(kept.st_gid));
                fs::fchown(&fd, None, group)?;
                fs::fchmod(&fd, Mode::from_raw_mode(kept.st_mode & 0o7777))?;
            }
            let mut file = std::fs::File::from(fd.try_clone()?);
            io::Write::write_all(&mut file, data)?;
            Ok(fs::renameat(&self.fd, temporary.as_str(), &self.fd, name)?)
        };
        let done = finish();
        if done.is_err() {
            let _ = fs::unlinkat(&self.fd, temporary.as_str(), AtFlags::empty());
        }
        match done {
            // The process may not set this group.
            Err(error) if kept.is_some() && error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => Ok(None),
            // The file is a mount point, as a container may have one.
            Err(error) if kept.is_some() && error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => Ok(None),
            done => done.map(Some),
        }
    }

    fn link(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()> {
        // Without a flag the link itself is linked, not its target.
        Ok(fs::linkat(&self.fd, single(name)?, &same_kind(to)?.fd, single(to_name)?, AtFlags::empty())?)
    }

    fn symlink(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.fd, single(name)?)?)
    }

    fn readlink(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = fs::readlinkat(&self.fd, single(name)?, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    fn chmod(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        // Uses a handle, because a path would follow a link that was swapped in. A file that its owner can neither read nor
        // write keeps its bits.
        let bits = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |access| fs::openat(&self.fd, single(name)?, bits | access, Mode::empty());
        let fd = match open(OFlags::RDONLY) {
            Err(Errno::ACCESS) => open(OFlags::WRONLY)?,
            other => other?,
        };
        if !matches!(convert(&fs::fstat(&fd)?).kind(), Kind::File | Kind::Dir) {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(fs::fchmod(&fd, plain_bits(mode))?)
    }

    fn utimes(&self, name: &OsStr, atime_ms: f64, mtime_ms: f64) -> io::Result<()> {
        let times = fs::Timestamps { last_access: timespec(atime_ms), last_modification: timespec(mtime_ms) };
        Ok(fs::utimensat(&self.fd, single(name)?, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn access(&self, name: &OsStr, bits: u32) -> io::Result<()> {
        let mut access = fs::Access::EXISTS;
        for (bit, what) in [(4, fs::Access::READ_OK), (2, fs::Access::WRITE_OK), (1, fs::Access::EXEC_OK)] {
            if bits & bit != 0 {
                access |= what;
            }
        }
        Ok(fs::accessat(&self.fd, single(name)?, access, AtFlags::EACCESS)?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Handles of a file and its folder, which stay valid when these are renamed. They are opened with `O_PATH`: they cannot be used
/// to read or write, and closing them releases no locks.
#[cfg(target_os = "linux")]
pub struct Pinned {
    /// Handle of the folder.
    pub folder: OwnedFd,
    /// Handle of the file in the folder.
    pub file: OwnedFd,
}

/// Opens handles of `name` in `dir`, which must be a folder of the operating system.
///
/// # Errors
///
/// Fails for a folder of another implementation, for a link, and if the file does not exist.
#[cfg(target_os = "linux")]
pub fn pin(dir: &dyn Dir, name: &OsStr) -> io::Result<Pinned> {
    let dir = same_kind(dir)?;
    let file = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = fs::openat(&dir.fd, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Pinned { folder, file: open_beneath(&dir.fd, Path::new(single(name)?), file, Mode::empty(), dir.mounts)? })
}

/// Opens a folder by an absolute path without following any link, so the opened folder has exactly this path.
///
/// # Errors
///
/// Fails if a component is a link or does not exist.
pub fn open_folder(path: &Path) -> io::Result<std::fs::File> {
    let top = fs::open("/", FOLDER, Mode::empty())?;
    let names: Vec<&OsStr> = path.iter().skip(1).collect();
    Ok(descend(&top, &names, Mounts::Cross)?.unwrap_or(top).into())
}

/// Opens a folder several levels down without following links; `None` for an empty list of names.
fn descend(from: &OwnedFd, names: &[&OsStr], mounts: Mounts) -> io::Result<Option<OwnedFd>> {
    if names.is_empty() {
        return Ok(None);
    }
    let mut path = PathBuf::new();
    for name in names {
        path.push(single(name)?);
    }
    Ok(Some(open_beneath(from, &path, FOLDER, Mode::empty(), mounts)?))
}

/// Opens a path below a folder: does not follow a link, leave the folder or, with [`Mounts::Stay`], enter another file system.
/// `path` consists of names that [`single`] accepts.
fn open_beneath(from: &OwnedFd, path: &Path, bits: OFlags, mode: Mode, mounts: Mounts) -> io::Result<OwnedFd> {
    let stays = mounts == Mounts::Stay && guard!(FsMounts);
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if stays {
            resolve |= ResolveFlags::NO_XDEV;
        }
        match fs::openat2(from, path, bits, mode, resolve) {
            Ok(fd) => return Ok(fd),
            // The kernel is too old, or an outer sandbox does not allow the call.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Opens each name separately, which enforces the same rule; a mounted file system has another device number.
    let device = fs::fstat(from)?.st_dev;
    let mut at: Option<OwnedFd> = None;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next() {
        let (bits, mode) = if names.peek().is_some() { (FOLDER, Mode::empty()) } else { (bits, mode) };
        let next = fs::openat(at.as_ref().unwrap_or(from), name, bits | OFlags::NOFOLLOW, mode)?;
        if stays && fs::fstat(&next)?.st_dev != device {
            return Err(Errno::XDEV.into());
        }
        at = Some(next);
    }
    at.ok_or_else(|| Errno::NOENT.into())
}

impl OsDir {
    /// Returns whether a file has extended attributes such as access lists, which an ordinary new file does not have.
    fn has_attributes(&self, name: &OsStr) -> bool {
        #[cfg(target_os = "linux")]
        {
            let bits = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(fd) = fs::openat(&self.fd, name, bits, Mode::empty()) else { return true };
            let mut names = [0_u8; 1024];
            // Fails on a file system without attributes, and with ERANGE on a file with many.
            match fs::flistxattr(&fd, &mut names) {
                // A security label is ignored, because such a system labels a new file as well.
                Ok(length) => {
                    names[..length].split(|byte| *byte == 0).any(|name| !name.is_empty() && name != b"security.selinux")
                }
                Err(error) => error != Errno::OPNOTSUPP,
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = name;
            false
        }
    }
}

/// Returns the name if it is a single path component. The safety of all operations of this file depends on this check.
pub(super) fn single(name: &OsStr) -> Result<&OsStr, Errno> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(Errno::INVAL);
    }
    Ok(name)
}

pub(super) fn same_kind(dir: &dyn Dir) -> io::Result<&OsDir> {
    dir.as_any().downcast_ref().ok_or_else(|| Errno::XDEV.into())
}

/// Removes the set-user-id and set-group-id bits, which would give other users the rights of this user.
fn plain_bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o1777)
}

struct OsFile {
    file: std::fs::File,
}

impl File for OsFile {
    fn read(&mut self, at: Option<u64>, into: &mut [u8]) -> io::Result<usize> {
        match at {
            Some(at) => std::os::unix::fs::FileExt::read_at(&self.file, into, at),
            None => io::Read::read(&mut self.file, into),
        }
    }

    fn write(&mut self, at: Option<u64>, data: &[u8]) -> io::Result<usize> {
        match at {
            Some(at) => std::os::unix::fs::FileExt::write_at(&self.file, data, at),
            None => io::Write::write(&mut self.file, data),
        }
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(convert(&fs::fstat(&self.file)?))
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn chmod(&mut self, mode: u32) -> io::Result<()> {
        Ok(fs::fchmod(&self.file, plain_bits(mode))?)
    }

    fn utimes(&mut self, atime_ms: f64, mtime_ms: f64) -> io::Result<()> {
        let times = fs::Timestamps { last_access: timespec(atime_ms), last_modification: timespec(mtime_ms) };
        Ok(fs::futimens(&self.file, &times)?)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

#[cfg(target_os = "linux")]
fn stat_at(fd: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    use rustix::fs::StatxFlags;
    let mut stat = convert(&fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?);
    // Only statx reports the creation time, and not for all file systems.
    if let Ok(more) = fs::statx(fd, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME)
        && more.stx_mask & StatxFlags::BTIME.bits() != 0
    {
        stat.birthtime_ms = millis(more.stx_btime.tv_sec, u64::from(more.stx_btime.tv_nsec));
    }
    Ok(stat)
}

#[cfg(not(target_os = "linux"))]
fn stat_at(fd: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    Ok(convert(&fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

#[expect(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the widths of these fields differ between platforms"
)]
fn convert(stat: &fs::Stat) -> Stat {
    let ctime_ms = millis(stat.st_ctime as i64, stat.st_ctime_nsec as u64);
    let mtime_ms = millis(stat.st_mtime as i64, stat.st_mtime_nsec as u64);
    Stat {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        mode: u32::from(stat.st_mode),
        nlink: stat.st_nlink as u64,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u64,
        size: stat.st_size as u64,
        blksize: stat.st_blksize as u64,
        blocks: stat.st_blocks as u64,
        atime_ms: millis(stat.st_atime as i64, stat.st_atime_nsec as u64),
        mtime_ms,
        ctime_ms,
        // stat(2) does not report the creation time; the change time is the closest value.
        birthtime_ms: ctime_ms.min(mtime_ms),
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds as JavaScript has them")]
fn millis(seconds: i64, nanos: u64) -> f64 {
    seconds as f64 * 1000.0 + nanos as f64 / 1_000_000.0
}

#[expect(clippy::cast_possible_truncation, reason = "file times fit; saturating is what is wanted beyond")]
fn timespec(ms: f64) -> fs::Timespec {
    let seconds = (ms / 1000.0).floor();
    let nanos = ((ms - seconds * 1000.0) * 1_000_000.0).round().clamp(0.0, 999_999_999.0);
    fs::Timespec { tv_sec: seconds as i64, tv_nsec: nanos as i64 as _ }
}
