//! Passes file descriptors to a worker: one message before the first frame.
//!
//! ```text files = count: u8, with as many descriptors in the control message ```

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of files of a worker.
pub(crate) const MAX_FILES: usize = 16;

/// Sends at most [`MAX_FILES`] files.
pub(crate) fn send(socket: impl AsFd, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let count = [u8::try_from(files.len()).map_err(io::Error::other)?];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other(format!("{} files; at most {MAX_FILES} can be sent", files.len())));
    }
    sendmsg(socket, &[IoSlice::new(&count)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the files of [`send`].
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut count = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut count)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    if received.bytes == 0 || files.len() != usize::from(count[0]) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(files)
}
