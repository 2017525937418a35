//! Files in memory, for embedders and tests: without a disk or a clock, and with the same results each time.
//!
//! ```
//! use pijs_environment::files::{FileSystem, MemoryFileSystem, Mounts};
//!
//! let files = MemoryFileSystem::new().file("/projects/app/a.txt", "hello");
//! let app = files.open_root("/projects/app".as_ref(), Mounts::Stay)?;
//! assert_eq!(app.lstat("a.txt".as_ref())?.size, 5);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! One user owns everything; permission bits are stored but not enforced. The time is a counter: each change is one millisecond
//! after the previous one.

use super::{Dir, File, FileSystem, Kind, Mounts, OpenHow, Stat, errno};
use rustix::io::Errno;
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of links followed in the path of a root, as in Linux.
const MAX_LINKS: usize = 40;

/// A file system in memory. Clones share the files.
#[derive(Clone)]
pub struct MemoryFileSystem {
    shared: Arc<Mutex<Tree>>,
}

/// All nodes by number; the root is the first.
struct Tree {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    now: u64,
    random: u64,
}

struct Node {
    content: Content,
    /// Permission bits.
    mode: u32,
    names: u64,
    /// Number of open handles. A node without a name is kept while it has handles.
    handles: usize,
    times: [f64; 4],
}

enum Content {
    File(Vec<u8>),
    Dir(BTreeMap<OsString, u64>),
    Symlink(PathBuf),
}

const TOP: u64 = 1;

/// Indexes of [`Node::times`].
const ACCESSED: usize = 0;
const MODIFIED: usize = 1;
const CHANGED: usize = 2;

impl Default for MemoryFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryFileSystem {
    /// Creates a file system with an empty root.
    pub fn new() -> Self {
        let mut tree = Tree { nodes: BTreeMap::new(), next: TOP, now: 0, random: 0 };
        tree.make(Content::Dir(BTreeMap::new()), 0o755);
        Self { shared: Arc::new(Mutex::new(tree)) }
    }

    /// Creates a file with its parent folders.
    ///
    /// # Panics
    ///
    /// Panics if another entry has this name, because the caller builds the tree and knows what it contains.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.put(path.as_ref(), Content::File(content.into()), 0o644);
        self
    }

    /// Creates a folder with its parent folders.
    ///
    /// # Panics
    ///
    /// Panics if another entry has this name.
    #[must_use]
    pub fn folder(self, path: impl AsRef<Path>) -> Self {
        self.tree().folders(path.as_ref()).expect("the folder can be created");
        self
    }

    /// Creates a symbolic link with its parent folders.
    ///
    /// # Panics
    ///
    /// Panics if another entry has this name.
    #[must_use]
    pub fn symlink(self, path: impl AsRef<Path>, target: impl Into<PathBuf>) -> Self {
        self.put(path.as_ref(), Content::Symlink(target.into()), 0o777);
        self
    }

    /// Returns the content of a file, without following links.
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let tree = self.tree();
        let mut at = TOP;
        for name in path.as_ref().iter().skip(1) {
            at = *tree.dir(at).ok()?.get(name)?;
        }
        match &tree.nodes.get(&at)?.content {
            Content::File(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    fn put(&self, path: &Path, content: Content, mode: u32) {
        let mut tree = self.tree();
        let parent = tree.folders(path.parent().expect("the path has a parent")).expect("the folders can be created");
        let made = tree.make(content, mode);
        tree.name(parent, path.file_name().expect("the path has a name"), made).expect("the name is free");
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileSystem for MemoryFileSystem {
    fn open_root(&self, path: &Path, _mounts: Mounts) -> io::Result<Arc<dyn Dir>> {
        let id = self.tree().resolve(path)?;
        Ok(Arc::new(MemoryDir { shared: Arc::clone(&self.shared), id }))
    }

    fn random_name(&self) -> String {
        let mut tree = self.tree();
        tree.random += 1;
        format!("{:06}", tree.random)
    }
}

impl Tree {
    fn make(&mut self, content: Content, mode: u32) -> u64 {
        let id = self.next;
        self.next += 1;
        let now = self.tick();
        // The root counts as having a name, although no folder contains it.
        let names = u64::from(id == TOP);
        self.nodes.insert(id, Node { content, mode, names, handles: 0, times: [now; 4] });
        id
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of changes")]
    fn tick(&mut self) -> f64 {
        self.now += 1;
        self.now as f64
    }

    fn touch(&mut self, id: u64, which: &[usize]) {
        let now = self.tick();
        if let Some(node) = self.nodes.get_mut(&id) {
            for at in which {
                node.times[*at] = now;
            }
        }
    }

    fn node(&self, id: u64) -> io::Result<&Node> {
        self.nodes.get(&id).ok_or_else(|| code(Errno::NOENT))
    }

    fn node_mut(&mut self, id: u64) -> io::Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or_else(|| code(Errno::NOENT))
    }

    fn dir(&self, id: u64) -> io::Result<&BTreeMap<OsString, u64>> {
        match &self.node(id)?.content {
            Content::Dir(entries) => Ok(entries),
            Content::Symlink(_) => Err(code(Errno::LOOP)),
            Content::File(_) => Err(code(Errno::NOTDIR)),
        }
    }

    fn entries(&mut self, id: u64) -> io::Result<&mut BTreeMap<OsString, u64>> {
        match &mut self.node_mut(id)?.content {
            Content::Dir(entries) => Ok(entries),
            _ => Err(code(Errno::NOTDIR)),
        }
    }

    fn child(&self, dir: u64, name: &OsStr) -> io::Result<u64> {
        self.dir(dir)?.get(single(name)?).copied().ok_or_else(|| code(Errno::NOENT))
    }

    fn kind(&self, id: u64) -> io::Result<Kind> {
        Ok(match self.node(id)?.content {
            Content::File(_) => Kind::File,
            Content::Dir(_) => Kind::Dir,
            Content::Symlink(_) => Kind::Symlink,
        })
    }

    /// Adds a node to a folder under an unused name.
    fn name(&mut self, dir: u64, name: &OsStr, id: u64) -> io::Result<()> {
        // A folder without a name was removed while it was open: nothing can be created in it.
        if self.node(dir)?.names == 0 {
            return Err(code(Errno::NOENT));
        }
        let entries = self.entries(dir)?;
        if entries.contains_key(single(name)?) {
            return Err(code(Errno::EXIST));
        }
        entries.insert(name.to_owned(), id);
        self.node_mut(id)?.names += 1;
        self.touch(dir, &[MODIFIED, CHANGED]);
        self.touch(id, &[CHANGED]);
        Ok(())
    }

    fn unname(&mut self, dir: u64, name: &OsStr) -> io::Result<()> {
        let Some(id) = self.entries(dir)?.remove(name) else { return Err(code(Errno::NOENT)) };
        self.node_mut(id)?.names -= 1;
        self.touch(dir, &[MODIFIED, CHANGED]);
        self.touch(id, &[CHANGED]);
        self.forget(id);
        Ok(())
    }

    /// Removes a node that has neither a name nor a handle.
    fn forget(&mut self, id: u64) {
        if self.nodes.get(&id).is_some_and(|node| node.names == 0 && node.handles == 0) {
            self.nodes.remove(&id);
        }
    }

    fn folders(&mut self, path: &Path) -> io::Result<u64> {
        let mut at = TOP;
        for name in path.iter().skip(1) {
            at = match self.dir(at)?.get(name) {
                Some(next) => *next,
                None => {
                    let made = self.make(Content::Dir(BTreeMap::new()), 0o755);
                    self.name(at, name, made)?;
                    made
                }
            };
            self.dir(at)?;
        }
        Ok(at)
    }

    /// Resolves a path that the host named. Follows links, as an operating system does.
    fn resolve(&self, path: &Path) -> io::Result<u64> {
        let mut path = path.to_owned();
        'again: for _ in 0..MAX_LINKS {
            let mut walked: Vec<u64> = vec![TOP];
            let mut so_far = PathBuf::from("/");
            let mut components = path.components();
            while let Some(component) = components.next() {
                match component {
                    Component::Normal(name) => {
                        let at = walked.last().copied().unwrap_or(TOP);
                        let next = self.child(at, name)?;
                        if let Content::Symlink(target) = &self.node(next)?.content {
                            path = so_far.join(target).join(components.as_path());
                            continue 'again;
                        }
                        walked.push(next);
                        so_far.push(name);
                    }
                    Component::ParentDir if walked.len() > 1 => {
                        walked.pop();
                        so_far.pop();
                    }
                    _ => {}
                }
            }
            let found = walked.last().copied().unwrap_or(TOP);
            self.dir(found)?;
            return Ok(found);
        }
        Err(code(Errno::LOOP))
    }

    fn stat(&self, id: u64) -> io::Result<Stat> {
        let node = self.node(id)?;
        let (kind, size) = match &node.content {
            Content::File(bytes) => (0o100_000, bytes.len()),
            Content::Dir(_) => (0o040_000, 4096),
            Content::Symlink(target) => (0o120_000, target.as_os_str().len()),
        };
        let size = size as u64;
        let [atime_ms, mtime_ms, ctime_ms, birthtime_ms] = node.times;
        Ok(Stat {
            dev: 1,
            ino: id,
            mode: kind | node.mode,
            nlink: node.names,
            uid: 0,
            gid: 0,
            rdev: 0,
            size,
            blksize: 4096,
            blocks: size.div_ceil(512),
            atime_ms,
            mtime_ms,
            ctime_ms,
            birthtime_ms,
        })
    }

    /// Returns whether `id` is `folder` or below it.
    fn is_within(&self, id: u64, folder: u64) -> bool {
        id == folder || self.dir(folder).is_ok_and(|entries| entries.values().any(|entry| self.is_within(id, *entry)))
    }
}

struct MemoryDir {
    shared: Arc<Mutex<Tree>>,
    id: u64,
}

impl MemoryDir {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a folder as this type, if it belongs to the same tree.
    fn same<'a>(&self, other: &'a dyn Dir) -> io::Result<&'a Self> {
        let other: &Self = other.as_any().downcast_ref().ok_or_else(|| code(Errno::XDEV))?;
        if Arc::ptr_eq(&self.shared, &other.shared) { Ok(other) } else { Err(code(Errno::XDEV)) }
    }
}

impl Dir for MemoryDir {
    fn child(&self, name: &OsStr) -> io::Result<Arc<dyn Dir>> {
        let tree = self.tree();
        let id = tree.child(self.id, name)?;
        tree.dir(id)?;
        Ok(Arc::new(Self { shared: Arc::clone(&self.shared), id }))
    }

    fn open(&self, name: &OsStr, how: OpenHow) -> io::Result<Box<dyn File>> {
        let flags = how.flags;
        let mut tree = self.tree();
        let id = match tree.child(self.id, name) {
            Err(error) if flags.create && error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
                let made = tree.make(Content::File(Vec::new()), how.mode & 0o7777);
                tree.name(self.id, name, made).inspect_err(|_| tree.forget(made))?;
                made
            }
            Err(error) => return Err(error),
            Ok(_) if flags.create && flags.exclusive => return Err(code(Errno::EXIST)),
            Ok(id) => id,
        };
        match tree.kind(id)? {
            Kind::Symlink => return Err(code(Errno::LOOP)),
            Kind::Dir if flags.write || flags.create => return Err(code(Errno::ISDIR)),
            Kind::File if flags.directory => return Err(code(Errno::NOTDIR)),
            _ => {}
        }
        if flags.truncate
            && let Content::File(bytes) = &mut tree.node_mut(id)?.content
        {
            bytes.clear();
            tree.touch(id, &[MODIFIED, CHANGED]);
        }
        tree.node_mut(id)?.handles += 1;
        Ok(Box::new(MemoryFile { shared: Arc::clone(&self.shared), id, at: 0, append: flags.append }))
    }

    fn lstat(&self, name: &OsStr) -> io::Result<Stat> {
        let tree = self.tree();
        tree.stat(tree.child(self.id, name)?)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.tree().stat(self.id)
    }

    fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let tree = self.tree();
        tree.dir(self.id)?.iter().map(|(name, id)| Ok((name.clone(), tree.kind(*id)?))).collect()
    }

    fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let mut tree = self.tree();
        let made = tree.make(Content::Dir(BTreeMap::new()), mode & 0o7777);
        tree.name(self.id, name, made).inspect_err(|_| tree.forget(made))
    }

    fn rmdir(&self, name: &OsStr) -> io::Result<()> {
        let mut tree = self.tree();
        let id = tree.child(self.id, name)?;
        if tree.kind(id)? != Kind::Dir {
            return Err(code(Errno::NOTDIR));
        }
        if !tree.dir(id)?.is_empty() {
            return Err(code(Errno::NOTEMPTY));
        }
        tree.unname(self.id, name)
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        let mut tree = self.tree();
        let id = tree.child(self.id, name)?;
        if tree.kind(id)? == Kind::Dir {
            return Err(code(Errno::ISDIR));
        }
        tree.unname(self.id, name)
    }

    fn rename(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()> {
        let to = self.same(to)?;
        let mut tree = self.tree();
        let id = tree.child(self.id, name)?;
        single(to_name)?;
        if let Ok(there) = tree.child(to.id, to_name) {
            if there == id {
                return Ok(());
            }
            match (tree.kind(id)?, tree.kind(there)?) {
                (Kind::Dir, Kind::Dir) if !tree.dir(there)?.is_empty() => return Err(code(Errno::NOTEMPTY)),
                (Kind::Dir, Kind::Dir) => {}
                (Kind::Dir, _) => return Err(code(Errno::NOTDIR)),
                (_, Kind::Dir) => return Err(code(Errno::ISDIR)),
                _ => {}
            }
        }
        if tree.is_within(to.id, id) {
            return Err(code(Errno::INVAL));
        }
        if tree.child(to.id, to_name).is_ok() {
            tree.unname(to.id, to_name)?;
        }
        tree.name(to.id, to_name, id)?;
        tree.unname(self.id, name)
    }

    fn replace(&self, name: &OsStr, data: &[u8], mode: u32) -> io::Result<Option<()>> {
        let mut tree = self.tree();
        let mut mode = mode & 0o777;
        if let Ok(id) = tree.child(self.id, name) {
            let node = tree.node(id)?;
            if !matches!(node.content, Content::File(_)) || node.names != 1 {
                return Ok(None);
            }
            mode = node.mode;
            tree.unname(self.id, name)?;
        }
        let made = tree.make(Content::File(data.to_vec()), mode);
        tree.name(self.id, name, made).map(Some)
    }

    fn link(&self, name: &OsStr, to: &dyn Dir, to_name: &OsStr) -> io::Result<()> {
        let to = self.same(to)?;
        let mut tree = self.tree();
        let id = tree.child(self.id, name)?;
        if tree.kind(id)? == Kind::Dir {
            return Err(code(Errno::PERM));
        }
        tree.name(to.id, to_name, id)
    }

    fn symlink(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        let mut tree = self.tree();
        let made = tree.make(Content::Symlink(target.to_owned()), 0o777);
        tree.name(self.id, name, made).inspect_err(|_| tree.forget(made))
    }

    fn readlink(&self, name: &OsStr) -> io::Result<PathBuf> {
        let tree = self.tree();
        match &tree.node(tree.child(self.id, name)?)?.content {
            Content::Symlink(target) => Ok(target.clone()),
            _ => Err(code(Errno::INVAL)),
        }
    }

    fn chmod(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let mut tree = self.tree();
        let id = tree.child(self.id, name)?;
        if tree.kind(id)? == Kind::Symlink {
            return Err(code(Errno::LOOP));
        }
        tree.node_mut(id)?.mode = mode & 0o1777;
        tree.touch(id, &[CHANGED]);
        Ok(())
    }

    fn utimes(&self, name: &OsStr, atime_ms: f64, mtime_ms: f64) -> io::Result<()> {
        let mut tree = self.tree();
        let id = tree.child(self.id, name)?;
        set_times(&mut tree, id, atime_ms, mtime_ms)
    }

    fn access(&self, name: &OsStr, _bits: u32) -> io::Result<()> {
        self.tree().child(self.id, name).map(drop)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct MemoryFile {
    shared: Arc<Mutex<Tree>>,
    id: u64,
    /// The position of the next sequential read or write.
    at: u64,
    append: bool,
}

impl MemoryFile {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut tree = self.tree();
        if let Ok(node) = tree.node_mut(self.id) {
            node.handles -= 1;
        }
        tree.forget(self.id);
    }
}

fn bytes(tree: &mut Tree, id: u64) -> io::Result<&mut Vec<u8>> {
    match &mut tree.node_mut(id)?.content {
        Content::File(bytes) => Ok(bytes),
        _ => Err(code(Errno::ISDIR)),
    }
}

impl File for MemoryFile {
    fn read(&mut self, at: Option<u64>, into: &mut [u8]) -> io::Result<usize> {
        let from = at.unwrap_or(self.at);
        let mut tree = self.tree();
        let bytes = bytes(&mut tree, self.id)?;
        let rest = usize::try_from(from).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
        let read = rest.len().min(into.len());
        into[..read].copy_from_slice(&rest[..read]);
        drop(tree);
        if at.is_none() {
            self.at += read as u64;
        }
        Ok(read)
    }

    fn write(&mut self, at: Option<u64>, data: &[u8]) -> io::Result<usize> {
        let mut tree = self.tree();
        let bytes = bytes(&mut tree, self.id)?;
        let from = match at {
            _ if self.append => bytes.len(),
            at => usize::try_from(at.unwrap_or(self.at)).map_err(|_| code(Errno::FBIG))?,
        };
        let end = from.checked_add(data.len()).ok_or_else(|| code(Errno::FBIG))?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(data);
        tree.touch(self.id, &[MODIFIED, CHANGED]);
        drop(tree);
        if at.is_none() {
            self.at = end as u64;
        }
        Ok(data.len())
    }

    fn stat(&self) -> io::Result<Stat> {
        self.tree().stat(self.id)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| code(Errno::FBIG))?;
        let mut tree = self.tree();
        bytes(&mut tree, self.id)?.resize(len, 0);
        tree.touch(self.id, &[MODIFIED, CHANGED]);
        Ok(())
    }

    fn chmod(&mut self, mode: u32) -> io::Result<()> {
        let mut tree = self.tree();
        tree.node_mut(self.id)?.mode = mode & 0o1777;
        tree.touch(self.id, &[CHANGED]);
        Ok(())
    }

    fn utimes(&mut self, atime_ms: f64, mtime_ms: f64) -> io::Result<()> {
        set_times(&mut self.tree(), self.id, atime_ms, mtime_ms)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn set_times(tree: &mut Tree, id: u64, atime_ms: f64, mtime_ms: f64) -> io::Result<()> {
    tree.touch(id, &[CHANGED]);
    let times = &mut tree.node_mut(id)?.times;
    (times[ACCESSED], times[MODIFIED]) = (atime_ms, mtime_ms);
    Ok(())
}

/// Checks that a name is a single path component.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(code(Errno::INVAL)),
    }
}

fn code(code: Errno) -> io::Error {
    errno(code.raw_os_error())
}
