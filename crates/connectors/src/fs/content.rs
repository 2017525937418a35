//! Operations on whole contents: read, write, append, truncate, copy.

use super::FsState;
use super::error::{EEXIST, ErrorContext, FsError, code, too_large};
use super::walk::FinalLink;
use super::written::{TrackedName, change_recorded, check_unchanged};
use crate::system::{File, Kind, OpenHow};
use pijs_hostcall::connector::cancelled;
use pijs_hostcall::{Access, CancelToken, Output, Permit, Request};
use pijs_protocol::HostcallError;
use pijs_protocol::call::{FileTarget, OpenFlags};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// Maximum size in bytes of a file that is read as a whole.
const LARGEST: u64 = 128 << 20;
/// Number of bytes copied in one step.
const STEP: usize = 256 << 10;

impl FsState {
    pub(super) fn read_file(
        &self,
        request: &Request,
        file: &FileTarget,
        encoding: Option<&str>,
    ) -> Result<Output, HostcallError> {
        let data = match file {
            FileTarget::Handle(fd) => {
                let handle = self.handle(request, *fd, "read")?;
                let mut file = handle.file();
                let own = check_unchanged(&request.permit, handle.real(), || file.stat());
                own.map_err(|failure| failure.at(&ErrorContext::handle("read")))?;
                read_all(&mut **file, &request.cancel, "")?
            }
            FileTarget::Path(path) => {
                let flags = OpenFlags { read: true, ..OpenFlags::default() };
                let opened = self.open_at(request, path, flags, None);
                let (mut file, _) = opened.map_err(|failure| failure.at(&ErrorContext::path("open", path)))?;
                read_all(&mut *file, &request.cancel, path)?
            }
        };
        match encoding {
            Some("utf8" | "utf-8") => {
                // Invalid UTF-8 becomes U+FFFD, as in Node.
                let text = String::from_utf8(data)
                    .unwrap_or_else(|bytes| String::from_utf8_lossy(bytes.as_bytes()).into_owned());
                Ok(Output::new(json!({ "text": text })))
            }
            _ => Ok(Output::new(Value::Null).with_bytes("data", data)),
        }
    }

    /// Performs `writeFile` and `appendFile` by handle.
    pub(super) fn write_handle(&self, request: &Request, fd: u64, data: &[u8]) -> Result<Output, HostcallError> {
        let handle = self.handle(request, fd, "write")?;
        if !handle.flags.write {
            return Err(super::error::bad_handle("write"));
        }
        let mut file = handle.file();
        change_recorded(&request.permit, handle.real(), &mut **file, |file| write_all(file, data))
            .map_err(|error| ErrorContext::handle("write").io(&error))?;
        Ok(Output::empty())
    }

    /// Performs `writeFile` and `appendFile` by path.
    pub(super) fn write_file(
        &self,
        request: &Request,
        path: &str,
        data: &[u8],
        flags: OpenFlags,
        mode: Option<u64>,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::path("open", path);
        if flags.truncate && flags.create && !flags.append && !flags.exclusive && !flags.nofollow {
            let absolute = request.permit.places().node_path(path)?;
            match self.replace(&request.permit, &absolute, data, permission_bits(mode)) {
                Ok(Some(())) => return Ok(Output::empty()),
                Ok(None) => {}
                // An existing file may not be replaced here; a new one may be created.
                Err(FsError::Denied(..)) => {}
                Err(failure) => return Err(failure.at(&at)),
            }
        }
        let (mut file, real) = self.open_at(request, path, flags, mode).map_err(|failure| failure.at(&at))?;
        change_recorded(&request.permit, &real, &mut *file, |file| write_all(file, data))
            .map_err(|error| ErrorContext::path("write", path).io(&error))?;
        Ok(Output::empty())
    }

    /// Replaces the file at `path` atomically; returns `None` if it must be written in place.
    pub(super) fn replace(
        &self,
        permit: &Permit,
        path: &std::path::Path,
        data: &[u8],
        mode: u32,
    ) -> Result<Option<()>, FsError> {
        let reached = self.walk(permit, path, Access::Write, FinalLink::Follow)?;
        match &reached.name {
            Some(name) if self.is_watched(&*reached.dir, name) => Ok(None),
            Some(name) => {
                let replaced = reached.dir.replace(name, data, mode)?;
                if replaced.is_some() {
                    TrackedName::new(permit, &reached).record(true);
                }
                Ok(replaced)
            }
            None => Err(code(super::error::EISDIR).into()),
        }
    }

    pub(super) fn truncate(&self, request: &Request, path: &str, len: u64) -> Result<Output, HostcallError> {
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let opened = self.open_at(request, path, flags, None);
        let (mut file, real) = opened.map_err(|failure| failure.at(&ErrorContext::path("open", path)))?;
        change_recorded(&request.permit, &real, &mut *file, |file| file.set_len(len))
            .map_err(|error| ErrorContext::path("truncate", path).io(&error))?;
        Ok(Output::empty())
    }

    pub(super) fn copy_file(
        &self,
        request: &Request,
        from: &str,
        to: &str,
        exclusive: bool,
    ) -> Result<Output, HostcallError> {
        let at = ErrorContext::both("copyfile", from, to);
        let places = request.permit.places();
        let (from, to) = (places.node_path(from)?, places.node_path(to)?);
        let copied = self
            .walk(&request.permit, &from, Access::Read, FinalLink::Follow)
            .and_then(|from| Ok((from, self.walk(&request.permit, &to, Access::Write, FinalLink::Follow)?)))
            .and_then(|(from, to)| {
                if from.real == to.real {
                    return if exclusive { Err(code(EEXIST).into()) } else { Ok(()) };
                }
                request.permit.reads_content(&from.real);
                copy(&*from.dir, (from.named()?, &from.real), &*to.dir, to.named()?, exclusive, request)?;
                TrackedName::new(&request.permit, &to).record(true);
                Ok(())
            });
        copied.map_err(|failure| failure.at(&at))?;
        Ok(Output::empty())
    }
}

/// Returns the permission bits of a file that a call creates.
pub(super) fn permission_bits(mode: Option<u64>) -> u32 {
    // The mask keeps nine bits.
    (mode.unwrap_or(0o666) & 0o777) as u32
}

/// Copies one regular file between open folders.
pub(super) fn copy(
    from: &dyn crate::system::Dir,
    (name, real): (&std::ffi::OsStr, &Path),
    to: &dyn crate::system::Dir,
    to_name: &std::ffi::OsStr,
    exclusive: bool,
    request: &Request,
) -> Result<(), FsError> {
    let reading = OpenHow { flags: OpenFlags { read: true, ..OpenFlags::default() }, mode: 0 };
    let mut source = from.open(name, reading)?;
    let stat = source.stat()?;
    if stat.kind() != Kind::File {
        return Err(code(super::error::EISDIR).into());
    }
    check_unchanged(&request.permit, real, || Ok(stat))?;
    let writing = OpenFlags { write: true, create: true, truncate: true, exclusive, ..OpenFlags::default() };
    let mut target = to.open(to_name, OpenHow { flags: writing, mode: stat.mode & 0o777 })?;
    let mut step = vec![0; STEP];
    loop {
        if request.cancel.is_cancelled() {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        match source.read(None, &mut step)? {
            0 => return Ok(()),
            read => write_all(&mut *target, &step[..read])?,
        }
    }
}

pub(super) fn read_all(file: &mut dyn File, cancel: &CancelToken, path: &str) -> Result<Vec<u8>, HostcallError> {
    let at = ErrorContext { syscall: "read", path: (!path.is_empty()).then_some(path), dest: None };
    let stat = file.stat().map_err(|error| at.io(&error))?;
    if stat.kind() == Kind::Dir {
        return Err(ErrorContext::handle("read").io(&code(super::error::EISDIR)));
    }
    if stat.size > LARGEST {
        return Err(too_large(path, LARGEST));
    }
    // One byte more than the announced size: most files are read completely, including the end, in two calls.
    let mut data = vec![0; usize::try_from(stat.size).unwrap_or(0) + 1];
    let mut filled = 0;
    loop {
        if cancel.is_cancelled() {
            return Err(cancelled("fs"));
        }
        let read = match file.read(None, &mut data[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(|error| at.io(&error))?,
        };
        filled += read;
        if read == 0 {
            data.truncate(filled);
            return Ok(data);
        }
        if filled as u64 > LARGEST {
            return Err(too_large(path, LARGEST));
        }
        if filled == data.len() {
            // The file has grown since its size was read.
            data.resize(data.len() + STEP, 0);
        }
    }
}

pub(super) fn write_all(file: &mut dyn File, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.write(None, data) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => data = &data[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
