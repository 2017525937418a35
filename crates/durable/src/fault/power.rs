//! Simulates a power cut: data that was not flushed is lost.
//!
//! Tracks the durable state of the real files: the content of a file at its last flush, and the names in a folder at the folder's
//! last flush. [`Power::cut`] replaces the files by that state. File systems persist more than they guarantee, and differ in
//! what, so there are several variants ([`Loss`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// Device and inode number of a file.
type Id = (u64, u64);

/// The data that a power cut loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All names and content that were not flushed.
    Everything,
    /// Content that was not flushed, which then reads as NULs; names are kept (delayed allocation).
    Content,
    /// Half of the appended content that was not flushed; names are kept.
    Half,
}

impl Loss {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Everything, Self::Content, Self::Half];
}

/// The durable state of a folder.
#[derive(Debug)]
pub struct Power {
    root: PathBuf,
    nodes: BTreeMap<Id, TrackedFile>,
}

#[derive(Debug)]
struct TrackedFile {
    /// Keeps the inode number in use, and gives access to unlinked files.
    open: File,
    mode: u32,
    kept: DurableContent,
}

#[derive(Debug)]
enum DurableContent {
    /// Content at the last flush; `None` before the first flush.
    File(Option<Vec<u8>>),
    /// Names at the last flush.
    Folder(BTreeMap<OsString, Id>),
}

/// The tree after a power cut.
enum TreeState {
    File { content: Vec<u8>, mode: u32 },
    Folder { names: BTreeMap<OsString, TreeState>, mode: u32 },
}

impl Power {
    /// Begins tracking with the state that everything below `root` is flushed.
    pub fn over(root: &Path) -> io::Result<Self> {
        let mut this = Self { root: root.to_owned(), nodes: BTreeMap::new() };
        this.all_synced(root)?;
        Ok(this)
    }

    /// Cuts the power: replaces the files below the root by their durable state.
    pub fn cut(self, loss: Loss) -> io::Result<()> {
        let picture = match loss {
            Loss::Everything => self.durable_state(id_of(&self.root)?)?,
            Loss::Content | Loss::Half => self.named_entries(&self.root, loss)?,
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
        write_tree(&self.root, picture)
    }

    pub(super) fn track(&mut self, path: &Path) -> io::Result<()> {
        if path.starts_with(&self.root) {
            self.node(path)?;
        }
        Ok(())
    }

    pub(super) fn file_synced(&mut self, id: Id) -> io::Result<()> {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.mode = mode_of(&node.open)?;
            node.kept = DurableContent::File(Some(content(&node.open)?));
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
            node.kept = DurableContent::Folder(names);
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
            let kept = if open.metadata()?.is_dir() {
                DurableContent::Folder(BTreeMap::new())
            } else {
                DurableContent::File(None)
            };
            vacant.insert(TrackedFile { mode: mode_of(&open)?, open, kept });
        }
        Ok(id)
    }

    fn durable_state(&self, id: Id) -> io::Result<TreeState> {
        let node = self.nodes.get(&id).expect("every flushed name refers to a node");
        Ok(match &node.kept {
            DurableContent::File(content) => {
                TreeState::File { content: content.clone().unwrap_or_default(), mode: node.mode }
            }
            DurableContent::Folder(names) => {
                let names = names.iter().map(|(name, id)| Ok((name.clone(), self.durable_state(*id)?)));
                TreeState::Folder { names: names.collect::<io::Result<_>>()?, mode: node.mode }
            }
        })
    }

    fn named_entries(&self, path: &Path, loss: Loss) -> io::Result<TreeState> {
        let open = File::open(path)?;
        let mode = mode_of(&open)?;
        if open.metadata()?.is_dir() {
            let mut names = BTreeMap::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                if !entry.file_type()?.is_symlink() {
                    names.insert(entry.file_name(), self.named_entries(&entry.path(), loss)?);
                }
            }
            return Ok(TreeState::Folder { names, mode });
        }
        let now = content(&open)?;
        let flushed = match self.nodes.get(&id_of(path)?).map(|node| &node.kept) {
            Some(DurableContent::File(Some(flushed))) => flushed.as_slice(),
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
        Ok(TreeState::File { content, mode })
    }
}

fn write_tree(path: &Path, picture: TreeState) -> io::Result<()> {
    match picture {
        TreeState::File { content, mode } => {
            fs::write(path, content)?;
            set_mode(path, mode)
        }
        TreeState::Folder { names, mode } => {
            if !path.is_dir() {
                fs::create_dir(path)?;
            }
            for (name, picture) in names {
                write_tree(&path.join(name), picture)?;
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
