//! Replaces, reads and removes files durably.

use crate::fault;
use crate::os::{OsVfs, path_of_handle};
use crate::owner::Owner;
use crate::vfs::{Kind, LinkInTheWay, Open, Stat, Vfs, VfsFile};
use pijs_protocol::guard;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Permissions of new files.
pub(crate) const PRIVATE: u32 = 0o600;
/// Maximum size of a file that is backed up when it is replaced.
const MAX_BACKUP_BYTES: u64 = 64 << 20;
/// Number of retries after another process has removed a temporary file by mistake (equal process ids in another container).
const ATTEMPTS: u32 = 3;

/// A file system with durable operations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Disk {
    vfs: Arc<dyn Vfs>,
}

/// Options of [`Disk::replace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replace {
    /// Whether the previous content is kept as `NAME.bak`.
    pub backup: bool,
    /// Whether a symbolic link to the file is followed, so that linked settings stay linked; otherwise the link is replaced.
    pub follow_links: bool,
    /// Whether the permissions of the replaced file are kept; otherwise they are 0600.
    pub keep_mode: bool,
    /// Whether temporary files of dead processes are removed, which lists the folder.
    pub sweep: bool,
}

impl Replace {
    /// Options for the state of PiJS: 0600, with one backup.
    pub const STATE: Self = Self { backup: true, follow_links: false, keep_mode: false, sweep: true };
    /// Options for files that the user and other programs also write: keeps permissions and links.
    pub const SHARED: Self = Self { backup: true, follow_links: true, keep_mode: true, sweep: true };
    /// Options for data that can be recomputed: 0600, no backup.
    pub const DERIVED: Self = Self { backup: false, follow_links: false, keep_mode: false, sweep: true };
    /// Options for derived data in a folder that [`Disk::tidy`] keeps small.
    pub const CACHED: Self = Self { sweep: false, ..Self::DERIVED };
}

impl Disk {
    /// Returns the file system of the machine.
    ///
    /// In a build with guard switches, `PIJS_FAULT` injects a fault ([`fault::from_environment`]).
    pub fn system() -> Self {
        if guard::SWITCHES
            && let Some(vfs) = fault::from_environment()
        {
            return Self { vfs };
        }
        Self { vfs: Arc::new(OsVfs) }
    }

    /// Wraps another file system.
    pub fn over(vfs: Arc<dyn Vfs>) -> Self {
        Self { vfs }
    }

    /// Returns a disk that refuses symbolic links below some folders: a link inside a path is the error [`LinkInTheWay`], and so
    /// is a link at the end of a path that would have to be followed.
    ///
    /// The path to a root may contain links, and a root inside another root may be a link itself, because the user has set these
    /// up. Paths below a root are resolved by handles, so a link that appears during the operation is refused as well.
    ///
    /// # Errors
    ///
    /// `Unsupported` on a system without directory handles.
    pub fn beneath(&self, roots: &[PathBuf]) -> io::Result<Self> {
        Ok(Self { vfs: self.vfs.beneath(roots)? })
    }

    /// Replaces a file atomically, or creates it with its parent folders: after a crash it has either the old or the new content,
    /// complete.
    ///
    /// Does not write equal content, but still makes it durable. Removes temporary files that killed processes left in the same
    /// folder.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system; the old content stays. After a failed flush of the folder the new content may be
    /// visible without being durable. Refuses to replace anything but a regular file.
    pub fn replace(&self, path: &Path, bytes: &[u8], how: Replace) -> io::Result<()> {
        let target = if how.follow_links { self.resolve(path)? } else { path.to_owned() };
        let folder = folder_of(&target)?;
        self.create_dirs(folder)?;
        let previous_content = self.previous_content(&target)?;
        let mode = match &previous_content {
            Some((_, mode)) if how.keep_mode => *mode,
            _ => PRIVATE,
        };
        if previous_content.as_ref().is_some_and(|(content, now)| content == bytes && *now == mode) {
            return self.vfs.sync_dir(folder);
        }
        if how.sweep {
            self.sweep(folder, &target)?;
        }
        if let Some((content, _)) = previous_content.filter(|_| how.backup) {
            let mut name = target.file_name().unwrap_or_default().to_owned();
            name.push(".bak");
            self.write_new(&folder.join(name), &content, mode)?;
        }
        self.write_new(&target, bytes, mode)?;
        self.vfs.sync_dir(folder)
    }

    /// Creates a file with its parent folders; returns `false` and changes nothing if the file exists.
    pub fn create_once(&self, path: &Path, bytes: &[u8]) -> io::Result<bool> {
        let folder = folder_of(path)?;
        self.create_dirs(folder)?;
        if self.exists(path)? {
            return Ok(false);
        }
        self.sweep(folder, path)?;
        let temporary = self.temporary(path, bytes, PRIVATE)?;
        let created = match self.vfs.rename_new(&temporary, path) {
            Ok(()) => true,
            Err(error) => {
                let _ = self.vfs.remove_file(&temporary);
                if error.kind() != ErrorKind::AlreadyExists {
                    return Err(error);
                }
                false
            }
        };
        self.vfs.sync_dir(folder)?;
        Ok(created)
    }

    /// Reads a regular file of at most `limit` bytes; returns `None` if the file is missing. Follows links.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        self.read_prepared(path, limit, |_| ())
    }

    /// Reads a regular file like [`Disk::read`], into a buffer that `prepare` gets before it is filled.
    pub fn read_prepared(
        &self,
        path: &Path,
        limit: u64,
        prepare: impl FnOnce(&mut [u8]),
    ) -> io::Result<Option<Vec<u8>>> {
        let mut file = match self.vfs.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = file.stat()?;
        if stat.kind != Kind::File {
            return Err(not_a_file(path, stat.kind));
        }
        let mut buffer = buffer_for(stat.len, limit);
        prepare(&mut buffer);
        fill_to_end(&mut *file, stat.len, limit, buffer).map(Some)
    }

    /// Returns whether the path exists, including as a dangling link.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.vfs.stat(path) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a folder and its parents, accessible to the user only, and makes their names durable.
    pub fn create_dirs(&self, folder: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut at = folder;
        loop {
            // A link to a folder is accepted; callers that need a private folder check the target.
            match self.vfs.stat(at) {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            missing.push(at);
            match at.parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        for folder in missing.into_iter().rev() {
            match self.vfs.create_dir(folder) {
                Ok(()) => {}
                // Another process created it first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            if let Some(parent) = folder.parent() {
                self.vfs.sync_dir(parent)?;
            }
        }
        Ok(())
    }

    /// Removes a file durably, if it exists.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match self.vfs.remove_file(path) {
            Ok(()) => self.vfs.sync_dir(folder_of(path)?),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a file, or a folder with its content; removes links without following them.
    pub fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let kind = match self.vfs.stat(path) {
            Ok(stat) => stat.kind,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let removed = if kind == Kind::Directory {
            for name in self.vfs.list(path)? {
                self.remove_tree(&path.join(name))?;
            }
            self.vfs.remove_dir(path)
        } else {
            self.vfs.remove_file(path)
        };
        match removed {
            // Another process removed it first.
            Err(error) if is_missing(&error) => Ok(()),
            other => other,
        }
    }

    /// Removes the files of dead processes in a folder of temporary files. The names of the files contain the owner.
    pub fn sweep_owned(&self, folder: &Path) -> io::Result<()> {
        let this = self.vfs.owner()?;
        let names = match self.vfs.list(folder) {
            Ok(names) => names,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in names {
            if name.to_str().and_then(Owner::of).is_some_and(|owner| owner.is_gone(this)) {
                self.remove_tree(&folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Tidies a folder of files that can be recomputed: removes files of dead processes, and if more than `max` entries are
    /// left, the oldest files until half of that number is left.
    pub fn tidy(&self, folder: &Path, max: usize) -> io::Result<()> {
        self.sweep_owned(folder)?;
        let names = self.vfs.list(folder)?;
        if names.len() <= max {
            return Ok(());
        }
        let stat = |name: &OsString| self.vfs.stat(&folder.join(name)).ok().filter(|stat| stat.kind == Kind::File);
        let mut files: Vec<_> = names.into_iter().filter_map(|name| Some((stat(&name)?.modified, name))).collect();
        files.sort();
        let surplus = files.len().saturating_sub(max / 2);
        files.into_iter().take(surplus).try_for_each(|(_, name)| self.remove_tree(&folder.join(name)))
    }

    /// Returns an unused path in `folder` whose name identifies this process.
    pub fn temporary_in(&self, folder: &Path, label: &str) -> io::Result<PathBuf> {
        Ok(folder.join(self.vfs.owner()?.temporary_name(label)))
    }

    fn sweep(&self, folder: &Path, target: &Path) -> io::Result<()> {
        let Ok(this) = self.vfs.owner() else { return Ok(()) };
        let label = label_of(target);
        for name in self.vfs.list(folder).unwrap_or_default() {
            let stale = name
                .to_str()
                .filter(|name| name.starts_with(&label))
                .and_then(Owner::of)
                .is_some_and(|owner| owner.is_gone(this));
            if stale {
                match self.vfs.remove_file(&folder.join(name)) {
                    Err(error) if !is_missing(&error) => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn previous_content(&self, target: &Path) -> io::Result<Option<(Vec<u8>, u32)>> {
        let stat = match self.vfs.stat(target) {
            Ok(stat) => stat,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match stat.kind {
            Kind::File => Ok(self.read(target, MAX_BACKUP_BYTES)?.map(|content| (content, stat.mode))),
            Kind::Link => Ok(None),
            kind => Err(not_a_file(target, kind)),
        }
    }

    fn write_new(&self, target: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut attempt = 1;
        loop {
            let temporary = self.temporary(target, bytes, mode)?;
            let Err(error) = self.vfs.rename(&temporary, target) else { return Ok(()) };
            let _ = self.vfs.remove_file(&temporary);
            if error.kind() != ErrorKind::NotFound || attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// Writes a complete, flushed temporary file in the folder of `target`.
    fn temporary(&self, target: &Path, bytes: &[u8], mode: u32) -> io::Result<PathBuf> {
        let folder = folder_of(target)?;
        let path = folder.join(self.vfs.owner()?.temporary_name(&label_of(target)));
        let mut file = self.vfs.open(&path, Open::CreateNew(mode))?;
        let written = (|| {
            // The umask may have removed bits, even the owner's.
            if file.stat()?.mode != mode {
                file.set_mode(mode)?;
            }
            write_all(&mut *file, bytes)?;
            file.sync()
        })();
        drop(file);
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = self.vfs.remove_file(&path);
                Err(error)
            }
        }
    }

    /// Resolves a chain of links; the end need not exist.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        if !self.vfs.stat(path).is_ok_and(|stat| stat.kind == Kind::Link) {
            return Ok(path.to_owned());
        }
        // A file system that does not follow links reports a link when the file is opened.
        match self.vfs.open(path, Open::Read) {
            Err(error) if LinkInTheWay::of(&error).is_some() => Err(error),
            // A dangling link is replaced.
            _ => Ok(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())),
        }
    }
}

impl Deref for Disk {
    type Target = dyn Vfs;

    fn deref(&self) -> &Self::Target {
        &*self.vfs
    }
}

/// Returns `.NAME`, the prefix of a target's temporary files, which are hidden and named after the target.
fn label_of(target: &Path) -> String {
    format!(".{}", target.file_name().map(OsString::from).unwrap_or_default().to_string_lossy())
}

pub(crate) fn folder_of(path: &Path) -> io::Result<&Path> {
    path.parent()
        .filter(|folder| folder.is_absolute())
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, format!("{} is not an absolute path", path.display())))
}

/// Returns whether an error means that the path does not exist, including when a parent is not a folder.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

pub(crate) fn not_a_file(path: &Path, kind: Kind) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("{} is {kind}, not a regular file", path.display()))
}

/// Writes all bytes, continuing after interruptions and short writes.
///
/// # Errors
///
/// Returns the error of the file; `WriteZero` if the file accepts no bytes.
pub fn write_all(file: &mut dyn VfsFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a regular file of at most `limit` bytes from a foreign source: a package, a cloned folder. Follows links, does not block
/// on a pipe, and does not read a device.
///
/// # Errors
///
/// Returns the error of the system; `FileTooLarge` beyond the limit.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !guard!(FilesRegular) {
        return std::fs::read(path);
    }
    Disk::system().read(path, limit)?.ok_or_else(|| ErrorKind::NotFound.into())
}

/// Returns the absolute path with all links resolved, as [`std::fs::canonicalize`] does. On Linux this takes two system calls
/// instead of one for each component, because the kernel reports the path of a handle.
///
/// # Errors
///
/// Returns the error of the system, for example if the path does not exist.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    if let Some(real) = path_of_handle(path)? {
        return Ok(real);
    }
    path.canonicalize()
}

/// Resolves the links of a path, as far as it exists.
pub fn without_links(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((real_path(above).ok()?, path.strip_prefix(above).ok()?)));
    match found {
        Some((above, rest)) if rest.as_os_str().is_empty() => above,
        Some((above, rest)) => above.join(rest),
        None => path.to_owned(),
    }
}

/// Opens a file for reading and returns its path with all links resolved. Follows links; does not block on a pipe.
///
/// The file and the path refer to the same file, even if names are exchanged concurrently.
///
/// # Errors
///
/// Returns the error of the system.
pub fn open_real(path: &Path) -> io::Result<(std::fs::File, PathBuf)> {
    let file = OsVfs.open_file(path, Open::Read)?;
    let real = file.real_path(path)?;
    Ok((file.0, real))
}

/// Reads a regular file like [`read_regular`], if `judge` allows it. `judge` gets the resolved path and the state of the file that
/// is then read, even if names are exchanged concurrently.
///
/// # Errors
///
/// Returns the error of `judge`, or of the system; `FileTooLarge` beyond the limit.
pub fn read_judged<E: From<io::Error>>(
    path: &Path,
    limit: u64,
    judge: impl FnOnce(&Path, &Stat) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut file = OsVfs.open_file(path, Open::Read)?;
    let stat = file.stat()?;
    judge(&file.real_path(path)?, &stat)?;
    if stat.kind != Kind::File && guard!(FilesRegular) {
        return Err(not_a_file(path, stat.kind).into());
    }
    Ok(read_to_end(&mut file, stat.len, limit)?)
}

/// Reads a file of about `length` bytes, and of at most `limit`.
pub(crate) fn read_to_end(file: &mut dyn VfsFile, length: u64, limit: u64) -> io::Result<Vec<u8>> {
    fill_to_end(file, length, limit, buffer_for(length, limit))
}

/// Returns a buffer for a file of about `length` bytes.
fn buffer_for(length: u64, limit: u64) -> Vec<u8> {
    // One additional byte, so that the end is detected without growing the buffer.
    let expected = usize::try_from(length.min(limit)).map_or(0, |length| length + 1);
    vec![0; expected.max(16 << 10)]
}

fn fill_to_end(file: &mut dyn VfsFile, length: u64, limit: u64, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut filled = 0;
    loop {
        if filled as u64 > limit {
            return Err(io::Error::new(ErrorKind::FileTooLarge, format!("larger than {limit} bytes")));
        }
        if filled == bytes.len() {
            // Doubled each time, so that a large file takes few calls and few copies.
            bytes.resize(2 * filled, 0);
        }
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => {
                filled += read;
                // The content is as long as the file, and nothing more was read although there was space, so this is the end.
                if filled as u64 == length && filled < bytes.len() && length <= limit {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
