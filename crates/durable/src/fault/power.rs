//! A power cut: what was not flushed is gone.
//!
//! Beside the real files stands a picture of what a disk promises: the content of a file as of its last flush, the
//! names in a folder as of the folder's last flush. [`Power::cut`] puts that picture in the place of the files.
//! File systems keep more than they promise, each in its own way, so there are several pictures ([`Loss`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// Device and number of a file.
type Id = (u64, u64);

/// What a cut takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Names and content that were not flushed.
    Everything,
    /// Content that was not flushed; its place is full of NULs, and names are there (delayed allocation).
    Content,
    /// Half of what was appended and not flushed; names are there.
    Half,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Everything, Self::Content, Self::Half];
}

/// What a folder would look like after a cut.
#[derive(Debug)]
pub struct Power {
    root: PathBuf,
    nodes: BTreeMap<Id, Node>,
}

#[derive(Debug)]
struct Node {
    /// Keeps the number from being used again, and reads what was unlinked.
    open: File,
    mode: u32,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    /// Content at the last flush; `None` before the first.
    File(Option<Vec<u8>>),
    /// Names at the last flush.
    Folder(BTreeMap<OsString, Id>),
}

/// A tree as it will be.
enum Picture {
    File { content: Vec<u8>, mode: u32 },
    Folder { names: BTreeMap<OsString, Picture>, mode: u32 },
}

impl Power {
    /// All that is below `root` now is on the disk.
    pub fn over(root: &Path) -> io::Result<Self> {
        let mut this = Self { root: root.to_owned(), nodes: BTreeMap::new() };
        this.all_synced(root)?;
        Ok(this)
    }

    /// Cuts the power: the files below the root become what was promised.
    pub fn cut(self, loss: Loss) -> io::Result<()> {
        let picture = match loss {
            Loss::Everything => self.promised(id_of(&self.root)?)?,
            Loss::Content | Loss::Half => self.named(&self.root, loss)?,
        };
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        drop(self.nodes);
        paint(&self.root, picture)
    }

    pub(super) fn seen(&mut self, path: &Path) -> io::Result<()> {
        if path.starts_with(&self.root) {
            self.node(path)?;
        }
        Ok(())
    }

    pub(super) fn file_synced(&mut self, id: Id) -> io::Result<()> {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.mode = mode_of(&node.open)?;
            node.kept = Kept::File(Some(content(&node.open)?));
        }
        Ok(())
    }

    pub(super) fn dir_synced(&mut self, folder: &Path) -> io::Result<()> {
        if !folder.starts_with(&self.root) {
            return Ok(());
        }
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_symlink() {
                names.insert(entry.file_name(), self.node(&entry.path())?);
            }
        }
        let id = self.node(folder)?;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.kept = Kept::Folder(names);
        }
        Ok(())
    }

    pub(super) fn all_synced(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let (path, kind) = {
                let entry = entry?;
                (entry.path(), entry.file_type()?)
            };
            if kind.is_dir() {
                self.all_synced(&path)?;
            } else if kind.is_file() {
                let id = self.node(&path)?;
                self.file_synced(id)?;
            }
        }
        self.dir_synced(folder)
    }

    fn node(&mut self, path: &Path) -> io::Result<Id> {
        let id = id_of(path)?;
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.nodes.entry(id) {
            let open = File::open(path)?;
            let kept = if open.metadata()?.is_dir() { Kept::Folder(BTreeMap::new()) } else { Kept::File(None) };
            vacant.insert(Node { mode: mode_of(&open)?, open, kept });
        }
        Ok(id)
    }

    fn promised(&self, id: Id) -> io::Result<Picture> {
        let node = self.nodes.get(&id).expect("every name that was flushed leads to a node");
        Ok(match &node.kept {
            Kept::File(content) => Picture::File { content: content.clone().unwrap_or_default(), mode: node.mode },
            Kept::Folder(names) => {
                let names = names.iter().map(|(name, id)| Ok((name.clone(), self.promised(*id)?)));
                Picture::Folder { names: names.collect::<io::Result<_>>()?, mode: node.mode }
            }
        })
    }

    fn named(&self, path: &Path, loss: Loss) -> io::Result<Picture> {
        let open = File::open(path)?;
        let mode = mode_of(&open)?;
        if open.metadata()?.is_dir() {
            let mut names = BTreeMap::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                if !entry.file_type()?.is_symlink() {
                    names.insert(entry.file_name(), self.named(&entry.path(), loss)?);
                }
            }
            return Ok(Picture::Folder { names, mode });
        }
        let now = content(&open)?;
        let flushed = match self.nodes.get(&id_of(path)?).map(|node| &node.kept) {
            Some(Kept::File(Some(flushed))) => flushed.as_slice(),
            _ => &[],
        };
        let content = match loss {
            Loss::Half if now.starts_with(flushed) => now[..flushed.len() + (now.len() - flushed.len()) / 2].to_vec(),
            Loss::Half => flushed.to_vec(),
            Loss::Everything | Loss::Content => {
                let mut content = flushed.to_vec();
                content.resize(now.len(), 0);
                content
            }
        };
        Ok(Picture::File { content, mode })
    }
}

fn paint(path: &Path, picture: Picture) -> io::Result<()> {
    match picture {
        Picture::File { content, mode } => {
            fs::write(path, content)?;
            set_mode(path, mode)
        }
        Picture::Folder { names, mode } => {
            if !path.is_dir() {
                fs::create_dir(path)?;
            }
            for (name, picture) in names {
                paint(&path.join(name), picture)?;
            }
            set_mode(path, mode)
        }
    }
}

fn content(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn id_of(path: &Path) -> io::Result<Id> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(unix)]
fn mode_of(file: &File) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o7777)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn id_of(path: &Path) -> io::Result<Id> {
    let _ = path;
    Err(io::Error::new(io::ErrorKind::Unsupported, "files have no numbers here"))
}

#[cfg(not(unix))]
fn mode_of(_file: &File) -> io::Result<u32> {
    Ok(0o600)
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
