//! Reads an npm tarball into memory, and refuses every form that two readers could interpret differently.
//!
//! [`unpack`] returns the files of the package, or the violated rule; [`Unpacked::write_into`] then creates them below a
//! directory handle. Only regular files and directories are accepted: links, devices and sparse files are refused, not skipped.
//! Nothing is written before the whole archive has been read.
//!
//! Only the header type of the crate `tar` is used, because its iterator and its `unpack` repair archives that have to be
//! refused.

use crate::error::{InstallCode, PackageError, Result};
use crate::names::{BARE, check, fold, is_bare_repository};
use crate::source::printable;
use cap_std::fs::{Dir, OpenOptions};
use pijs_protocol::guard;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::Range;
use std::time::Duration;

const BLOCK: usize = 512;
/// Maximum size of PAX or GNU records, which contain a path or a time, in bytes; npm's longest paths are far below this.
const MAX_EXTENSION_BYTES: usize = 64 * 1024;
/// Unpacked size in bytes from which the ratio is checked: small archives of repetitive text may exceed the ratio.
const RATIO_FLOOR: usize = 1024 * 1024;

/// Limits on one package, and on one install. The defaults are above the largest honest dependencies of the corpus (mistralai
/// 2.7.0: 6,300 files; onnxruntime-node 1.14: 93 MB unpacked).
#[derive(Debug, Clone)]
pub struct InstallLimits {
    /// Maximum size of one tarball in bytes.
    pub compressed: usize,
    /// Maximum size of one unpacked archive in bytes.
    pub unpacked: usize,
    /// Maximum number of files and directories of one archive.
    pub entries: usize,
    /// Maximum number of unpacked bytes for each compressed byte.
    pub ratio: usize,
    /// Maximum number of PAX records of one entry.
    pub pax_records: usize,
    /// Maximum number of directories above a file.
    pub depth: usize,
    /// Maximum number of packages in one dependency tree.
    pub packages: usize,
    /// Maximum size of a whole unpacked dependency tree in bytes.
    pub tree: usize,
    /// Maximum size of one registry document in bytes.
    pub metadata: usize,
    /// Maximum time without data from a server.
    pub idle: Duration,
    /// Maximum duration of a download.
    pub total: Duration,
    /// Maximum wait for another process that changes the store.
    pub lock: Duration,
}

impl Default for InstallLimits {
    fn default() -> Self {
        Self {
            compressed: 64 << 20,
            unpacked: 160 << 20,
            entries: 20_000,
            ratio: 200,
            pax_records: 100,
            depth: 32,
            packages: 2_000,
            tree: 512 << 20,
            metadata: 64 << 20,
            idle: Duration::from_secs(30),
            total: Duration::from_secs(300),
            // A change holds the lock for a few renames and flushes, and others wait in front.
            lock: Duration::from_secs(60),
        }
    }
}

/// The files of one archive, with checked names and without the leading folder.
#[derive(Debug)]
pub struct Unpacked {
    tar: Vec<u8>,
    files: BTreeMap<String, Range<usize>>,
    /// Warnings about entries that were changed on purpose, such as a setuid bit that was dropped.
    pub warnings: Vec<String>,
}

impl Unpacked {
    /// Returns an archive without files.
    pub(crate) fn empty() -> Self {
        Self { tar: Vec::new(), files: BTreeMap::new(), warnings: Vec::new() }
    }

    /// Collects files that do not come from a tarball under the same rules for names. Each path begins with a top folder.
    pub(crate) fn from_files(files: impl Iterator<Item = (Vec<u8>, Vec<u8>)>, limits: &InstallLimits) -> Result<Self> {
        let mut this = Self::empty();
        let mut names = TakenNames::default();
        for (raw, bytes) in files {
            // No tool writes such an entry into a tree.
            if guard!(ArchivePath) && raw.split(|byte| *byte == b'/').any(|component| component == b".") {
                return Err(refuse(InstallCode::Path, &String::from_utf8_lossy(&raw), "an entry that is called `.`"));
            }
            let start = this.tar.len();
            this.tar.extend_from_slice(&bytes);
            if let Some(path) = names.take(&raw, false, limits)?
                && this.files.insert(path, start..this.tar.len()).is_some()
            {
                return Err(refuse(InstallCode::Format, &String::from_utf8_lossy(&raw), "the same file twice"));
            }
        }
        Ok(this)
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Iterates over paths and contents in path order; `/` separates components on every system.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, range)| (path.as_str(), &self.tar[range.clone()]))
    }

    /// Returns the content of one file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(|range| &self.tar[range.clone()])
    }

    /// Returns the number of bytes of all files.
    pub fn size(&self) -> usize {
        self.files.values().map(Range::len).sum()
    }

    /// Returns a sha256 over all names and contents, in hex. It does not depend on the order in the archive, on modes or on
    /// times.
    pub fn digest(&self) -> String {
        digest_files(self.files())
    }

    /// Drops the files whose paths `is_kept` refuses.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.files.retain(|path, _| is_kept(path));
    }

    /// Creates the files below `dir`. Fails with `IN_FORMAT` if a name already exists.
    ///
    /// Modes are 0644 and 0755, whatever the archive states.
    pub fn write_into(&self, dir: &Dir) -> Result<()> {
        for (path, bytes) in self.files() {
            let failed = |error| PackageError::io("write", std::path::Path::new(path), error);
            if let Some((parent, _)) = path.rsplit_once('/') {
                dir.create_dir_all(parent).map_err(failed)?;
            }
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            {
                use cap_std::fs::OpenOptionsExt;
                // Only the owner may write installed files, whatever the umask is.
                options.mode(if guard!(ArchiveModes) { 0o644 } else { 0o777 });
            }
            let mut file = dir.open_with(path, &options).map_err(failed)?;
            file.write_all(bytes).map_err(failed)?;
        }
        Ok(())
    }
}

/// Returns the digest of [`Unpacked::digest`] over any list of files in path order.
pub(crate) fn digest_files<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut tree = Sha256::new();
    for (path, bytes) in files {
        tree.update((path.len() as u64).to_le_bytes());
        tree.update(path.as_bytes());
        tree.update((bytes.len() as u64).to_le_bytes());
        tree.update(bytes);
    }
    hex::encode(tree.finalize())
}

/// Reads a gzipped tar archive in npm's form: one folder at the top, regular files below.
///
/// # Errors
///
/// Fails with `IN_PATH`, `IN_LINK`, `IN_SIZE` or `IN_FORMAT`; the error names the entry.
pub fn unpack(tgz: &[u8], limits: &InstallLimits) -> Result<Unpacked> {
    let tar = gunzip(tgz, limits)?;
    let mut reader =
        ArchiveReader { tar: &tar, at: 0, limits, names: TakenNames::default(), entries: 0, warnings: Vec::new() };
    let files = reader.read()?;
    let warnings = std::mem::take(&mut reader.warnings);
    Ok(Unpacked { tar, files, warnings })
}

fn refuse(code: InstallCode, entry: &str, why: impl Into<String>) -> PackageError {
    PackageError::new(code, printable(entry), why)
}

/// Decompresses exactly one gzip member; bytes after it are refused.
fn gunzip(tgz: &[u8], limits: &InstallLimits) -> Result<Vec<u8>> {
    let archive = "archive";
    if tgz.len() > limits.compressed && guard!(ArchiveCaps) {
        return Err(refuse(InstallCode::Size, archive, format!("more than {} bytes compressed", limits.compressed)));
    }
    // Leaves space for headers and padding, which are not part of the files' bytes.
    let cap = limits.unpacked + limits.entries * 4 * BLOCK;
    let mut rest = tgz;
    let mut gz = flate2::bufread::GzDecoder::new(&mut rest);
    let mut tar = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let got = gz.read(&mut chunk).map_err(|error| {
            refuse(InstallCode::Format, archive, format!("not a complete gzip stream: {error}")).caused_by(error)
        })?;
        if got == 0 {
            break;
        }
        tar.extend_from_slice(&chunk[..got]);
        if tar.len() > cap && guard!(ArchiveCaps) {
            return Err(refuse(InstallCode::Size, archive, format!("more than {} bytes unpacked", limits.unpacked)));
        }
        if tar.len() > RATIO_FLOOR && tar.len() / limits.ratio > tgz.len() && guard!(ArchiveCaps) {
            return Err(refuse(
                InstallCode::Size,
                archive,
                format!("unpacks to more than {} times its size", limits.ratio),
            ));
        }
    }
    drop(gz);
    if !rest.is_empty() && guard!(ArchiveOneMember) {
        return Err(refuse(InstallCode::Format, archive, "bytes after the end of the gzip stream"));
    }
    Ok(tar)
}

/// Fields of an extension header, which apply to the entry that follows it.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    seen: bool,
}

struct ArchiveReader<'a> {
    tar: &'a [u8],
    at: usize,
    limits: &'a InstallLimits,
    names: TakenNames,
    entries: usize,
    warnings: Vec<String>,
}

impl<'a> ArchiveReader<'a> {
    fn read(&mut self) -> Result<BTreeMap<String, Range<usize>>> {
        let mut files = BTreeMap::new();
        let mut pending = Extended::default();
        let mut bytes = 0;
        while let Some(header) = self.header()? {
            let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            let size = header.entry_size().map_err(|_| refuse(InstallCode::Format, &name, "unreadable size field"))?;
            let kind = header.as_bytes()[156];
            if matches!(kind, b'x' | b'g' | b'L') {
                let data = self.extension_data(&name, size)?;
                self.extend(kind, &name, data, &mut pending)?;
                continue;
            }
            let Extended { path, size: pax_size, .. } = std::mem::take(&mut pending);
            if pax_size.is_some_and(|pax| pax != size) && guard!(ArchiveSizes) {
                return Err(refuse(InstallCode::Format, &name, "the header and its PAX record give different sizes"));
            }
            let raw = path.unwrap_or_else(|| header.path_bytes().into_owned());
            let shown = String::from_utf8_lossy(&raw).into_owned();
            self.entries += 1;
            if self.entries > self.limits.entries && guard!(ArchiveCaps) {
                return Err(refuse(InstallCode::Size, "archive", format!("more than {} files", self.limits.entries)));
            }
            let directory = match kind {
                b'5' => true,
                b'0' | 0 => raw.ends_with(b"/"),
                b'1' | b'2' | b'K' if guard!(ArchiveLinks) => {
                    return Err(refuse(InstallCode::Link, &shown, "packages must not contain links"));
                }
                other if guard!(ArchiveKinds) => {
                    let kind = char::from(other).escape_default();
                    return Err(refuse(
                        InstallCode::Format,
                        &shown,
                        format!("entry type {kind:?} is neither file nor folder"),
                    ));
                }
                _ => false,
            };
            if directory && size != 0 {
                return Err(refuse(InstallCode::Format, &shown, "a folder with contents of its own"));
            }
            if header.mode().is_ok_and(|mode| mode & 0o7000 != 0) {
                self.warnings.push(format!("{}: setuid, setgid or sticky bit dropped", printable(&shown)));
            }
            let data = self.data(&shown, size)?;
            bytes += data.len();
            if bytes > self.limits.unpacked && guard!(ArchiveCaps) {
                return Err(refuse(
                    InstallCode::Size,
                    "archive",
                    format!("more than {} bytes unpacked", self.limits.unpacked),
                ));
            }
            if let Some(path) = self.names.take(&raw, directory, self.limits)?
                && let Some(before) = files.insert(path, data.clone())
                // A repeated entry with equal bytes is harmless, and some packers write one (agent-base 7.1.4).
                && self.tar[before] != self.tar[data]
                && guard!(ArchiveDuplicates)
            {
                return Err(refuse(InstallCode::Format, &shown, "two different files have the same name"));
            }
        }
        if pending.seen && guard!(ArchiveExtensions) {
            return Err(refuse(InstallCode::Format, "archive", "an extension header without an entry after it"));
        }
        if files.is_empty() {
            return Err(refuse(InstallCode::Format, "archive", "no files in it"));
        }
        Ok(files)
    }

    /// Returns the next header; `None` at the end, which is a zero block followed only by zeros.
    fn header(&mut self) -> Result<Option<&'a tar::Header>> {
        let tar = self.tar;
        let Some(block) = tar.get(self.at..self.at + BLOCK) else {
            if !guard!(ArchiveEnd) {
                return Ok(None);
            }
            return Err(refuse(InstallCode::Format, "archive", "it ends without an end marker"));
        };
        if block.iter().all(|byte| *byte == 0) {
            let clean = tar[self.at..].iter().all(|byte| *byte == 0);
            return if clean || !guard!(ArchiveEnd) {
                Ok(None)
            } else {
                Err(refuse(InstallCode::Format, "archive", "bytes after the end marker"))
            };
        }
        let header = tar::Header::from_byte_slice(block);
        let sum: u32 =
            block.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { 32 } else { u32::from(*b) }).sum();
        if header.cksum().ok() != Some(sum) {
            return Err(refuse(
                InstallCode::Format,
                "archive",
                format!("bad checksum of the header at byte {}", self.at),
            ));
        }
        self.at += BLOCK;
        Ok(Some(header))
    }

    fn data(&mut self, name: &str, size: u64) -> Result<Range<usize>> {
        let range = usize::try_from(size).ok().and_then(|size| Some(self.at..self.at.checked_add(size)?));
        match range {
            Some(range) if range.end <= self.tar.len() => {
                self.at = range.end.next_multiple_of(BLOCK);
                Ok(range)
            }
            _ => Err(refuse(InstallCode::Format, name, "the archive ends inside it")),
        }
    }

    fn extension_data(&mut self, name: &str, size: u64) -> Result<&'a [u8]> {
        if size > MAX_EXTENSION_BYTES as u64 && guard!(ArchiveExtensions) {
            return Err(refuse(InstallCode::Format, name, format!("an extension header of {size} bytes")));
        }
        let range = self.data(name, size)?;
        Ok(&self.tar[range])
    }

    fn extend(&mut self, kind: u8, name: &str, data: &[u8], pending: &mut Extended) -> Result<()> {
        let format = |why: &str| Err(refuse(InstallCode::Format, name, why));
        if pending.seen && guard!(ArchiveExtensions) {
            return format("two extension headers for one entry");
        }
        match kind {
            b'g' => {
                // `git archive` writes the commit to a global header. Any other record would change entries that have not been
                // read yet.
                if self.entries > 0 && guard!(ArchiveExtensions) {
                    return format("a global header in the middle of the archive");
                }
                let records = pax_records(name, data, self.limits)?;
                if records.iter().any(|(key, _)| *key != b"comment") && guard!(ArchivePax) {
                    return format("a global header that changes entries");
                }
            }
            b'L' => {
                let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
                if data[end..].iter().any(|byte| *byte != 0) && guard!(ArchiveExtensions) {
                    return format("bytes after the end of a long name");
                }
                *pending = Extended { path: Some(data[..end].to_vec()), size: None, seen: true };
            }
            _ => {
                pending.seen = true;
                for (key, value) in pax_records(name, data, self.limits)? {
                    match key {
                        b"path" if pending.path.is_none() => pending.path = Some(value.to_vec()),
                        b"size" if pending.size.is_none() => match decimal(value) {
                            Some(size) => pending.size = Some(size),
                            None => return format("a PAX size that is not a number"),
                        },
                        b"path" | b"size" if guard!(ArchivePax) => {
                            return format("the same PAX record twice");
                        }
                        b"linkpath" if guard!(ArchiveLinks) => {
                            return Err(refuse(InstallCode::Link, name, "packages must not contain links"));
                        }
                        key if is_harmless(key) || !guard!(ArchivePax) => {}
                        key => {
                            let key = printable(&String::from_utf8_lossy(key));
                            return format(&format!("the PAX record {key} is not understood"));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a record contains an owner, a time or a comment of an archiver. Such records are ignored.
fn is_harmless(key: &[u8]) -> bool {
    matches!(key, b"mtime" | b"atime" | b"ctime" | b"uid" | b"gid" | b"uname" | b"gname" | b"comment")
        || [&b"SCHILY."[..], b"LIBARCHIVE.", b"NODETAR.", b"RHT."].iter().any(|prefix| key.starts_with(prefix))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// The key and value of a PAX record.
type PaxRecord<'a> = (&'a [u8], &'a [u8]);

fn pax_records<'a>(name: &str, data: &'a [u8], limits: &InstallLimits) -> Result<Vec<PaxRecord<'a>>> {
    match parse_pax(name, data, limits) {
        Err(_) if !guard!(ArchivePax) => Ok(Vec::new()),
        parsed => parsed,
    }
}

/// Parses records of the form `LENGTH KEY=VALUE`, each with a line feed, where LENGTH counts the whole record.
fn parse_pax<'a>(name: &str, mut data: &'a [u8], limits: &InstallLimits) -> Result<Vec<PaxRecord<'a>>> {
    let broken = || refuse(InstallCode::Format, name, "a malformed PAX record");
    let mut records = Vec::new();
    while !data.is_empty() {
        if records.len() == limits.pax_records && guard!(ArchivePax) {
            return Err(refuse(InstallCode::Format, name, format!("more than {} PAX records", limits.pax_records)));
        }
        let blank = data.iter().take(8).position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length = decimal(&data[..blank]).and_then(|length| usize::try_from(length).ok()).ok_or_else(broken)?;
        let record = data.get(blank + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(broken)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        if value.contains(&0) {
            return Err(broken());
        }
        records.push((key, value));
        data = &data[length..];
    }
    Ok(records)
}

/// Kind of a path, or of a folder above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Folder,
}

/// Names of the entries so far. Refuses two names that a file system may treat as one.
#[derive(Default)]
struct TakenNames {
    top: Option<String>,
    /// Case-folded path, with the spelling that was seen first.
    taken: BTreeMap<String, (String, EntryKind)>,
}

impl TakenNames {
    /// Checks one entry. Returns the path to write for a file; `None` for a folder.
    fn take(&mut self, raw: &[u8], directory: bool, limits: &InstallLimits) -> Result<Option<String>> {
        let shown = String::from_utf8_lossy(raw).into_owned();
        let Ok(text) = std::str::from_utf8(raw) else {
            return Err(refuse(InstallCode::Path, &shown, "the name is not UTF-8"));
        };
        let text = if directory { text.strip_suffix('/').unwrap_or(text) } else { text };
        // Some packers write `package/./dist/index.js` (agent-base 7.1.4).
        let components: Vec<&str> = text.split('/').filter(|component| *component != ".").collect();
        if components.len() > limits.depth + 1 && guard!(ArchiveCaps) {
            return Err(refuse(InstallCode::Size, &shown, format!("more than {} folders deep", limits.depth)));
        }
        if directory && components.iter().all(|component| component.is_empty()) {
            return Ok(None);
        }
        if components.is_empty() {
            return Err(refuse(InstallCode::Path, &shown, "an empty name, or an absolute path"));
        }
        if guard!(ArchivePath) {
            for component in &components {
                check(component).map_err(|(code, why)| refuse(code, &shown, why))?;
            }
        }
        let top = self.top.get_or_insert_with(|| components[0].to_owned());
        if top != components[0] && guard!(ArchiveTop) {
            return Err(refuse(
                InstallCode::Format,
                &shown,
                format!("two folders at the top, {top} and {}", components[0]),
            ));
        }
        if components.len() == 1 {
            return if directory || !guard!(ArchiveTop) {
                Ok(None)
            } else {
                Err(refuse(InstallCode::Format, &shown, "a file beside the top folder"))
            };
        }
        let inner = &components[1..];
        for end in 1..=inner.len() {
            let path = inner[..end].join("/");
            let kind = if end < inner.len() || directory { EntryKind::Folder } else { EntryKind::File };
            let (spelling, before) = self.taken.entry(fold(&path)).or_insert_with(|| (path.clone(), kind));
            if *spelling != path && guard!(ArchiveTwins) {
                let why = format!("cannot be told from {} on every file system", printable(spelling));
                return Err(refuse(InstallCode::Path, &shown, why));
            }
            if *before != kind && guard!(ArchiveDuplicates) {
                return Err(refuse(InstallCode::Format, &shown, "both a file and a folder"));
            }
        }
        for end in 0..inner.len() {
            let folder: String = inner[..end].iter().flat_map(|name| [*name, "/"]).collect();
            let is_folder = |name: &str| {
                let (_, kind) = self.taken.get(&fold(&format!("{folder}{name}")))?;
                Some(*kind == EntryKind::Folder)
            };
            if is_bare_repository(&inner[..end], is_folder) {
                return Err(refuse(InstallCode::Path, &shown, BARE));
            }
        }
        Ok((!directory).then(|| inner.join("/")))
    }
}

#[cfg(test)]
mod tests;
