//! File change notification with inotify.
//!
//! The kernel's interface takes a path. It gets the path of the open handle in `/proc`, so the opened file is watched even if it
//! was renamed in the meantime.
//!
//! A user may have few inotify instances but many watches, so watchers share an [`Instance`]. The kernel identifies a watch by
//! the watched inode: watchers of the same folder get the same number, and each change is delivered to all watchers that
//! registered this number. A watcher that is polled reads all events of the kernel and distributes them to the queues of the
//! others, under one lock. A watcher's task is woken by its own descriptor for the instance, or by the watcher that distributed
//! the changes.

use super::os::{same_kind, single};
use super::{Change, Dir, WatchId, Watcher, Watches};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::unix::AsyncFd;

/// The events that libuv subscribes to.
const WANTED: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

/// Maximum number of bytes read from the kernel at once.
const BUFFER: usize = 32 << 10;

/// Maximum number of undelivered changes of a watcher; the same as the limit of the kernel's queue.
const MAX_UNDELIVERED: usize = 16_384;

/// Maximum number of buffers read in one poll, so that continuous changes of files cannot occupy a thread forever.
const AT_ONCE: usize = 16;

/// An inotify instance.
pub(super) struct Instance {
    fd: OwnedFd,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    next: u64,
    /// Undelivered changes by watcher.
    waiting: BTreeMap<u64, Waiting>,
    /// The watchers of each watch.
    owners: BTreeMap<WatchId, BTreeSet<u64>>,
    /// Device and inode of each watch.
    things: BTreeMap<WatchId, (u64, u64)>,
}

#[derive(Default)]
struct Waiting {
    changes: Vec<Change>,
    /// Waker of the task that waits for changes.
    waker: Option<Waker>,
}

impl Shared {
    fn tell(&mut self, watcher: u64, change: Change) {
        let Some(waiting) = self.waiting.get_mut(&watcher) else { return };
        if waiting.changes.len() < MAX_UNDELIVERED {
            waiting.changes.push(change);
        } else if waiting.changes.len() == MAX_UNDELIVERED {
            waiting.changes.push(Change::Overflow);
        }
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }

    fn tell_owners(&mut self, watch: WatchId, change: &Change) {
        for owner in self.owners.get(&watch).cloned().unwrap_or_default() {
            self.tell(owner, change.clone());
        }
    }
}

impl Instance {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { fd: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?, shared: Mutex::default() })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Distributes the events of the kernel to the watchers. Returns whether all events were read.
    fn distribute(&self, shared: &mut Shared) -> io::Result<bool> {
        for _ in 0..AT_ONCE {
            if self.distribute_some(shared)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn distribute_some(&self, shared: &mut Shared) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            let (flags, watch) = (event.events(), WatchId(event.wd()));
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                let all: Vec<u64> = shared.waiting.keys().copied().collect();
                all.into_iter().for_each(|watcher| shared.tell(watcher, Change::Overflow));
            } else if flags.contains(ReadFlags::IGNORED) {
                shared.tell_owners(watch, &Change::Gone(watch));
                shared.owners.remove(&watch);
                shared.things.remove(&watch);
            } else {
                let change = Change::At {
                    watch,
                    name: event.file_name().map(|name| OsString::from(OsStr::from_bytes(name.to_bytes()))),
                    is_rename: !(flags - (ReadFlags::ATTRIB | ReadFlags::MODIFY | ReadFlags::ISDIR)).is_empty(),
                    is_new_folder: flags.contains(ReadFlags::ISDIR)
                        && flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO),
                };
                shared.tell_owners(watch, &change);
            }
            if reader.is_buffer_empty() {
                return Ok(false);
            }
        }
    }
}

impl Watches for Instance {
    fn watcher(self: Arc<Self>) -> io::Result<Box<dyn Watcher>> {
        let fd = Waking::Idle(self.fd.try_clone()?);
        let mut shared = self.shared();
        let id = shared.next;
        shared.next += 1;
        shared.waiting.insert(id, Waiting::default());
        drop(shared);
        Ok(Box::new(Inotify { instance: self, fd, id }))
    }

    fn is_watched(&self, dir: &dyn Dir, name: &OsStr) -> bool {
        let shared = self.shared();
        if shared.things.is_empty() {
            return false;
        }
        let Ok(dir) = same_kind(dir) else { return false };
        let file = single(name).ok().and_then(|name| rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok());
        let found = [rustix::fs::fstat(&dir.fd).ok(), file];
        found.iter().flatten().any(|stat| shared.things.values().any(|thing| *thing == identity(stat)))
    }
}

fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// One watcher of an instance.
struct Inotify {
    instance: Arc<Instance>,
    fd: Waking,
    id: u64,
}

/// The descriptor that wakes a watcher's task. It is registered with a runtime at the first poll.
enum Waking {
    Idle(OwnedFd),
    Known(AsyncFd<OwnedFd>),
    /// The state during registration; permanent if the runtime rejected the descriptor.
    Lost,
}

impl Waking {
    fn known(&mut self) -> io::Result<&AsyncFd<OwnedFd>> {
        if let Self::Idle(_) = self
            && let Self::Idle(fd) = std::mem::replace(self, Self::Lost)
        {
            #[expect(
                deprecated,
                reason = "its replacement is unsafe, for types that may give out another descriptor; OwnedFd does not"
            )]
            let known = AsyncFd::new(fd)?;
            *self = Self::Known(known);
        }
        match self {
            Self::Known(known) => Ok(known),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Watcher for Inotify {
    fn add(&mut self, dir: &dyn Dir, name: Option<&OsStr>) -> io::Result<WatchId> {
        let dir = same_kind(dir)?;
        let opened;
        let handle: BorrowedFd<'_> = match name {
            None => dir.fd.as_fd(),
            Some(name) => {
                let bits = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                opened = rustix::fs::openat(&dir.fd, single(name)?, bits, Mode::empty())?;
                opened.as_fd()
            }
        };
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        let mut shared = self.instance.shared();
        // Changes from before this watch was added belong to other watchers.
        self.instance.distribute(&mut shared)?;
        let watch = WatchId(inotify::add_watch(&self.instance.fd, path.as_str(), WANTED)?);
        shared.owners.entry(watch).or_default().insert(self.id);
        shared.things.insert(watch, identity(&rustix::fs::fstat(handle)?));
        Ok(watch)
    }

    fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<Change>>> {
        loop {
            {
                let mut shared = self.instance.shared();
                let is_all = self.instance.distribute(&mut shared)?;
                let own = shared.waiting.entry(self.id).or_default();
                if !own.changes.is_empty() {
                    return Poll::Ready(Ok(std::mem::take(&mut own.changes)));
                }
                own.waker = Some(cx.waker().clone());
                if !is_all {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            ready!(self.fd.known()?.poll_read_ready(cx))?.clear_ready();
        }
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        let mut shared = self.instance.shared();
        shared.waiting.remove(&self.id);
        let mut unwatched = Vec::new();
        shared.owners.retain(|watch, owners| {
            owners.remove(&self.id);
            if owners.is_empty() {
                unwatched.push(*watch);
            }
            !owners.is_empty()
        });
        shared.things.retain(|watch, _| !unwatched.contains(watch));
        for watch in unwatched {
            // The watch may already have been removed.
            let _ = inotify::remove_watch(&self.instance.fd, watch.0);
        }
    }
}
