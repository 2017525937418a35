//! Copies folders of plugins and packages into the staged package.
//!
//! Each file is read under the rules of a build ([`CopiedFolder`]): protected files are refused in any folder, links are not
//! followed, and files that were read or refused are added to the record of the build. Refused files are not copied, but listed.

use super::{KEPT, MAX_BYTES, MAX_FILES, MAX_LEVELS, make, name_of, sorted, write};
use crate::error::RummyError;
use pijs_extc::{Code, CopiedFolder, Diagnostic, FileAccess, FileEvidence, Limits};
use pijs_hostcall::BuildRecord;
use pijs_protocol::guard;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};

/// Advice for a folder that exceeds a limit.
const SMALLER: &str = "move files that the plugins do not need out of the folder";

/// Limits of one source: a bundle and the packages that it depends on.
fn limits() -> Limits {
    let (file_bytes, total_bytes, files) = (MAX_BYTES, 2 * MAX_BYTES, 2 * MAX_FILES);
    Limits { file_bytes, total_bytes, files, ..Limits::default() }
}

/// A folder from which files are copied, by its real path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) folder: PathBuf,
    /// The plugin's file if a variable names a single file; other files in the folder do not belong to the plugin.
    pub(super) loose: Option<PathBuf>,
}

/// Copies files that code may import or read. Skips links, tests, hidden folders and dependencies.
pub(super) struct Copier<'a> {
    access: &'a FileAccess,
    sources: BTreeMap<Source, CopiedFolder>,
    /// Real path of the staged package. It is skipped if a copied folder contains it.
    package: PathBuf,
    refused: Vec<String>,
}

/// Number of files and bytes of the current bundle.
#[derive(Default)]
pub(super) struct Copied {
    files: usize,
    bytes: usize,
}

impl<'a> Copier<'a> {
    pub(super) fn new(access: &'a FileAccess, package: PathBuf, refused: Vec<String>) -> Self {
        Self { access, sources: BTreeMap::new(), package, refused }
    }

    fn source(&mut self, source: &Source) -> Result<&CopiedFolder, RummyError> {
        Ok(match self.sources.entry(source.clone()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let open = CopiedFolder::open(&source.folder, source.loose.as_deref(), self.access, limits());
                vacant.insert(open.map_err(|problem| failed(&source.folder, &problem))?)
            }
        })
    }

    /// Returns whether the real path of a package is in a source's folder, or in a `node_modules` of a parent folder. If it is
    /// not, records a refusal.
    pub(super) fn holds(&mut self, source: &Source, found: &Path, real: &Path) -> Result<bool, RummyError> {
        let holds = self.source(source)?.holds(real) || !guard!(RummyLinks);
        if !holds {
            self.refused.push(leads_out(found, real, &source.folder));
        }
        Ok(holds)
    }

    /// Copies an installed package and the packages inside it.
    pub(super) fn package(
        &mut self,
        source: &Source,
        copied: &mut Copied,
        from: &Path,
        to: &Path,
    ) -> Result<(), RummyError> {
        self.folder(source, copied, (from, to), 0)?;
        let inside = from.join("node_modules");
        let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|about| about.is_dir());
        for path in if is_folder(&inside) { sorted(&inside)? } else { Vec::new() } {
            if is_folder(&path) && !name_of(&path).starts_with('.') {
                let to = to.join("node_modules").join(name_of(&path));
                self.folder(source, copied, (&path, &to), 0)?;
            }
        }
        Ok(())
    }

    /// Copies a folder recursively.
    pub(super) fn folder(
        &mut self,
        source: &Source,
        copied: &mut Copied,
        (from, to): (&Path, &Path),
        level: usize,
    ) -> Result<(), RummyError> {
        if level > MAX_LEVELS {
            return Err(RummyError::TooMuch {
                what: "too many levels of folders in a plugin folder",
                most: MAX_LEVELS,
                help: SMALLER,
            });
        }
        make(to)?;
        for path in sorted(from)? {
            let name = name_of(&path);
            let Ok(about) = path.symlink_metadata() else { continue };
            if name.starts_with('.') || name == "node_modules" || path == self.package {
                continue;
            }
            if about.is_dir() {
                self.folder(source, copied, (&path, &to.join(&name)), level + 1)?;
                continue;
            }
            if about.is_symlink() {
                self.note_link(source, &path)?;
                continue;
            }
            let is_kept = path.extension().is_some_and(|ending| KEPT.iter().any(|kept| ending == *kept));
            if !about.is_file() || !is_kept || name.ends_with(".test.js") {
                continue;
            }
            self.file(source, copied, &path, &to.join(&name))?;
        }
        Ok(())
    }

    fn file(&mut self, source: &Source, copied: &mut Copied, from: &Path, to: &Path) -> Result<(), RummyError> {
        let bytes = match self.source(source)?.read(from) {
            Ok(bytes) => bytes,
            Err(problem) if problem.code() == Code::Escape => {
                self.refused.push(format!("{}: {}", from.display(), problem.message()));
                return Ok(());
            }
            Err(problem) => return Err(failed(from, &problem)),
        };
        (copied.files, copied.bytes) = (copied.files + 1, copied.bytes + bytes.len());
        if copied.files > MAX_FILES {
            return Err(RummyError::TooMuch {
                what: "too many files in a plugin folder",
                most: MAX_FILES,
                help: SMALLER,
            });
        }
        if copied.bytes > MAX_BYTES {
            return Err(RummyError::TooMuch {
                what: "too many bytes in a plugin folder",
                most: MAX_BYTES,
                help: SMALLER,
            });
        }
        write(to, &bytes)
    }

    /// Records a link that leads out of its folder, because the user may expect its target to be copied.
    fn note_link(&mut self, source: &Source, link: &Path) -> Result<(), RummyError> {
        if let Ok(real) = link.canonicalize()
            && !self.source(source)?.holds(&real)
        {
            self.refused.push(leads_out(link, &real, &source.folder));
        }
        Ok(())
    }

    /// Returns the record of files that were read or refused.
    pub(super) fn record(self) -> BuildRecord {
        let mut record = BuildRecord { refused: self.refused, ..BuildRecord::default() };
        for (index, open) in self.sources.values().enumerate() {
            record.inputs.extend(open.inputs().into_iter().map(|(name, digest)| (format!("{index}/{name}"), digest)));
            let read = open.evidence().into_iter().filter_map(|(path, evidence)| match evidence {
                FileEvidence::Read { secrets } => Some((path, secrets)),
                FileEvidence::Refused => None,
            });
            record.read.extend(read);
        }
        record
    }
}

/// Returns the message about a link that leads out of a folder.
pub(crate) fn leads_out(link: &Path, real: &Path, folder: &Path) -> String {
    format!("{} leads out of {}, to {}", link.display(), folder.display(), real.display())
}

fn failed(path: &Path, problem: &Diagnostic) -> RummyError {
    RummyError::File { path: path.to_owned(), source: io::Error::other(problem.message().to_owned()) }
}
