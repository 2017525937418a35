//! Changes as Linux tells them.
//!
//! The kernel takes a path; it gets the one that `/proc` has for an open handle, so what is watched is what
//! was opened, whatever its names are meanwhile.

use super::os::{same_kind, single};
use super::{Change, Dir, WatchId, Watcher};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;

/// What libuv asks for.
const WANTED: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

/// Bytes taken from the kernel at once.
const BUFFER: usize = 32 << 10;

pub(super) struct Inotify {
    fd: AsyncFd<OwnedFd>,
}

impl Inotify {
    pub(super) fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe, for types that may give out another descriptor; OwnedFd does not"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self { fd })
    }

    fn read(&self) -> io::Result<Vec<Change>> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        let mut changes = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            };
            let (flags, watch) = (event.events(), WatchId(event.wd()));
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                changes.push(Change::Overflow);
            } else if flags.contains(ReadFlags::IGNORED) {
                changes.push(Change::Gone(watch));
            } else {
                changes.push(Change::At {
                    watch,
                    name: event.file_name().map(|name| OsString::from(OsStr::from_bytes(name.to_bytes()))),
                    is_rename: !(flags - (ReadFlags::ATTRIB | ReadFlags::MODIFY | ReadFlags::ISDIR)).is_empty(),
                    is_new_folder: flags.contains(ReadFlags::ISDIR)
                        && flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO),
                });
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        Ok(changes)
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
        Ok(WatchId(inotify::add_watch(self.fd.get_ref(), path.as_str(), WANTED)?))
    }

    fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<Change>>> {
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            let changes = self.read()?;
            if changes.is_empty() {
                ready.clear_ready();
            } else {
                return Poll::Ready(Ok(changes));
            }
        }
    }
}
