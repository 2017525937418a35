//! One end of the socket between a host and a worker: whole frames in, whole frames out.
//!
//! The two sides take turns, so one of them always reads: neither can wait for the other to take what
//! it sends. A host's socket has a short time-out, and [`Link`] asks the caller at each whether to go
//! on; a worker's has none.

use crate::frame::{FrameError, MAX_FRAME, PREFIX, frame_length};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;

/// What is read at a time while no longer frame is under way.
const READ: usize = 64 << 10;

/// Buffers that grew beyond this for one frame are given back after it.
const KEEP: usize = 1 << 20;

/// A stream socket.
pub(crate) trait Pipe {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
}

/// Why there is no frame.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The other side is gone.
    Closed,
    /// The caller did not want to wait longer.
    GaveUp,
    /// The other side sent no frame, or this one wanted to send something that is none.
    Frame(FrameError),
}

/// Frames over a [`Pipe`].
pub(crate) struct Link<P> {
    pipe: P,
    inbox: Vec<u8>,
    /// The part of `inbox` that holds bytes which were not handed out.
    begin: usize,
    end: usize,
    outbox: Vec<u8>,
}

impl<P: Pipe> Link<P> {
    pub(crate) fn new(pipe: P) -> Self {
        Self { pipe, inbox: vec![0; READ], begin: 0, end: 0, outbox: Vec::new() }
    }

    /// The next frame, without its prefix. `wait` is asked after each time-out.
    pub(crate) fn receive(&mut self, mut wait: impl FnMut() -> ControlFlow<()>) -> Result<&[u8], LinkError> {
        let length = loop {
            let length = frame_length(&self.inbox[self.begin..self.end]).map_err(LinkError::Frame)?;
            match length {
                Some(length) if self.end - self.begin >= PREFIX + length => break length,
                _ => self.fill(length.unwrap_or_default(), &mut wait)?,
            }
        };
        let from = self.begin + PREFIX;
        self.begin = from + length;
        Ok(&self.inbox[from..from + length])
    }

    /// Reads once, more room made when the frame under way needs it.
    fn fill(&mut self, length: usize, wait: &mut impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            if self.inbox.len() > KEEP {
                self.inbox = vec![0; READ];
            }
        }
        if self.begin > 0 {
            self.inbox.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end == self.inbox.len() {
            // Twice what has arrived, never what a prefix promises: memory costs the sender bytes.
            let room = (self.inbox.len() * 2).min((PREFIX + length).max(READ)).min(PREFIX + MAX_FRAME);
            self.inbox.resize(room, 0);
        }
        loop {
            match self.pipe.read(&mut self.inbox[self.end..]) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) => go_on(&error, wait)?,
            }
        }
    }

    /// Sends what `encode` appends. Nothing is sent when it fails.
    pub(crate) fn send(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>,
        mut wait: impl FnMut() -> ControlFlow<()>,
    ) -> Result<(), LinkError> {
        self.outbox.clear();
        encode(&mut self.outbox).map_err(LinkError::Frame)?;
        let mut rest = self.outbox.as_slice();
        while !rest.is_empty() {
            match self.pipe.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => go_on(&error, &mut wait)?,
            }
        }
        if self.outbox.capacity() > KEEP {
            self.outbox = Vec::new();
        }
        Ok(())
    }
}

/// Whether a failed read or write is tried again.
fn go_on(error: &io::Error, wait: &mut impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => match wait() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(LinkError::GaveUp),
        },
        // A broken pipe or a reset; whatever else a socket may say, there is nobody left to talk to.
        _ => Err(LinkError::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;

    /// Hands out scripted reads and takes writes in pieces.
    #[derive(Default)]
    struct Script {
        reads: RefCell<VecDeque<io::Result<Vec<u8>>>>,
        written: RefCell<Vec<u8>>,
    }

    impl Pipe for &Script {
        fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut reads = self.reads.borrow_mut();
            let mut bytes = reads.pop_front().unwrap_or(Ok(Vec::new()))?;
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            if count < bytes.len() {
                reads.push_front(Ok(bytes.split_off(count)));
            }
            Ok(count)
        }

        fn write(&self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(3);
            self.written.borrow_mut().extend_from_slice(&bytes[..count]);
            Ok(count)
        }
    }

    fn framed(content: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(content.len()).expect("short").to_le_bytes().to_vec();
        frame.extend_from_slice(content);
        frame
    }

    fn script(reads: impl IntoIterator<Item = io::Result<Vec<u8>>>) -> Script {
        Script { reads: RefCell::new(reads.into_iter().collect()), ..Script::default() }
    }

    fn never() -> ControlFlow<()> {
        panic!("nothing timed out")
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let long = vec![7; 3 * READ];
        let mut bytes = framed(b"one");
        bytes.extend(framed(b""));
        bytes.extend(framed(&long));
        bytes.extend(framed(b"end"));
        for piece in [1, 2, 5, 1000, bytes.len()] {
            let script = script(bytes.chunks(piece).map(|piece| Ok(piece.to_vec())));
            let mut link = Link::new(&script);
            for expected in [b"one".as_slice(), b"", &long, b"end"] {
                assert_eq!(link.receive(never).expect("a frame"), expected, "in pieces of {piece}");
            }
            assert!(matches!(link.receive(never), Err(LinkError::Closed)));
        }
    }

    #[test]
    fn a_prefix_past_the_limit_is_an_error_and_takes_no_memory() {
        let script = script([Ok(vec![0xff; 8])]);
        let mut link = Link::new(&script);
        assert!(matches!(link.receive(never), Err(LinkError::Frame(FrameError::TooLarge { .. }))));
        assert_eq!(link.inbox.len(), READ);
    }

    #[test]
    fn a_promised_length_takes_memory_only_as_bytes_arrive() {
        let prefix = u32::try_from(MAX_FRAME).expect("fits").to_le_bytes().to_vec();
        let script = script([Ok(prefix), Ok(vec![0; READ])]);
        let mut link = Link::new(&script);
        assert!(matches!(link.receive(never), Err(LinkError::Closed)));
        assert!(link.inbox.len() <= 4 * READ, "{}", link.inbox.len());
    }

    #[test]
    fn a_timeout_asks_the_caller() {
        let timeout = || Err(io::Error::from(ErrorKind::WouldBlock));
        let script = script([timeout(), Ok(framed(b"x")), timeout()]);
        let mut link = Link::new(&script);
        let mut asked = 0;
        let go_on = || {
            asked += 1;
            ControlFlow::Continue(())
        };
        assert_eq!(link.receive(go_on).expect("a frame"), b"x");
        assert_eq!(asked, 1);
        assert!(matches!(link.receive(|| ControlFlow::Break(())), Err(LinkError::GaveUp)));
    }

    #[test]
    fn a_frame_is_sent_whole() {
        let script = script([]);
        let mut link = Link::new(&script);
        let content = framed(b"hello");
        link.send(
            |out| {
                out.extend_from_slice(&content);
                Ok(())
            },
            never,
        )
        .expect("it is taken");
        assert_eq!(*script.written.borrow(), content);
    }
}
