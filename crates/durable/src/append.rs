//! Append-only files of lines.

use crate::disk::{Disk, PRIVATE, folder_of, not_a_file};
use crate::vfs::{Kind, Open, VfsFile};
use pijs_protocol::guard;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Number of bytes per read when searching for the last line break.
const BLOCK: u64 = 64 << 10;

/// The writer of an append-only file of lines.
///
/// [`Appender::append`] is atomic: the partial data of a failed or short write is truncated. The kernel's lock excludes a second
/// writer, in this process and in others.
#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: Box<dyn VfsFile>,
    length: u64,
    /// Whether the end of the file is unknown, because a truncation or a flush failed.
    end_unknown: bool,
}

/// The result of opening a file for appending.
#[derive(Debug)]
pub struct Opened {
    /// The writer, which appends after the last whole line. Data after that line stays until [`Appender::cut`].
    pub appender: Appender,
    /// Number of bytes up to and including the last line break.
    pub whole: u64,
    /// Number of bytes after the last line break, left by an interrupted write.
    pub torn: u64,
    /// Whether the file was created.
    pub created: bool,
}

impl Appender {
    /// Opens or creates a file, with its parent folders.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` when another writer has the file open. `InvalidInput` for a link, a directory, a pipe or a device,
    /// `PermissionDenied` for a file that belongs to another user or has a second hard link.
    pub fn open(disk: &Disk, path: &Path) -> io::Result<Opened> {
        disk.create_dirs(folder_of(path)?)?;
        match disk.stat(path) {
            Ok(stat) if stat.kind != Kind::File && guard!(DurableRegularFile) => {
                return Err(not_a_file(path, stat.kind));
            }
            _ => {}
        }
        let created = !disk.exists(path)?;
        let mut file = disk.open(path, Open::Append(PRIVATE))?;
        let stat = file.stat()?;
        if guard!(DurableRegularFile) {
            if stat.kind != Kind::File {
                return Err(not_a_file(path, stat.kind));
            }
            if stat.links > 1 || crate::private::is_foreign(&stat) {
                let message = format!("{} belongs to another user or has a second hard link", path.display());
                return Err(io::Error::new(ErrorKind::PermissionDenied, message));
            }
        }
        if !crate::lock::try_lock(&*file)? && guard!(DurableSingleWriter) {
            let message = format!("{} is being written by another process", path.display());
            return Err(io::Error::new(ErrorKind::ResourceBusy, message));
        }
        // The umask may have removed bits from a new file, even the owner's.
        if created || stat.mode & 0o077 != 0 {
            file.set_mode(PRIVATE)?;
        }
        if created {
            disk.sync_dir(folder_of(path)?)?;
        }
        // The length is stable only while the lock is held.
        let length = file.stat()?.len;
        let whole = whole_lines(&mut *file, length)?;
        let appender = Self { path: path.to_owned(), file, length, end_unknown: false };
        Ok(Opened { appender, whole, torn: length - whole, created })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the open file, with all links resolved.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        self.file.real_path(&self.path)
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether the end of the file is unknown, so that the file must be opened again.
    pub fn is_broken(&self) -> bool {
        self.end_unknown
    }

    /// Truncates the file to `length`.
    pub fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }

    /// Appends all of `lines` or, on an error, nothing.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.end_unknown {
            return Err(io::Error::other(format!("{} cannot be trusted after an earlier error", self.path.display())));
        }
        match crate::disk::write_all(&mut *self.file, lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A partial line would merge with the next one.
                self.end_unknown = self.file.set_len(self.length).is_err();
                Err(error)
            }
        }
    }

    /// Makes the appended data durable. After an error the file is broken: it is unknown which data will persist.
    pub fn sync(&mut self) -> io::Result<()> {
        let synced = if self.end_unknown { Err(ErrorKind::Other.into()) } else { self.file.sync() };
        self.end_unknown |= synced.is_err();
        synced
    }

    /// Reads at an offset.
    pub fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    /// Reads the bytes from `from` to `to`.
    pub fn read_range(&mut self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?];
        read_exact_at(&mut *self.file, &mut bytes, from)?;
        Ok(bytes)
    }
}

/// Returns the bytes up to and including the last line break, searching from the end.
fn whole_lines(file: &mut dyn VfsFile, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut block = vec![0; BLOCK as usize];
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let part = &mut block[..(end - start) as usize];
        read_exact_at(file, part, start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn read_exact_at(file: &mut dyn VfsFile, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
