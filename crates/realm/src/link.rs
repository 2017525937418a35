//! One end of the socket between a host and a worker, which sends and receives whole frames.
//!
//! The two sides take turns, so one of them always reads. A host must not rely on that: [`Link::queue`] and [`Link::flush`] send
//! without blocking, and [`Link::receive`] can poll. Blocking calls on a host's socket have a short time-out, after which
//! [`Link`] asks the caller whether to continue; a worker's socket has none.
//!
//! A wake-up takes longer than most turns. While the other side answers quickly, a reader therefore polls for a while before it
//! sleeps, and stops polling after the first failure. On a busy machine polling costs more than it saves: the scheduler prefers
//! threads that slept, and takes the core away from the poller for milliseconds. After that a reader does not poll for a number
//! of frames ([`BusyCore`]).

#![expect(clippy::disallowed_methods, reason = "polling stops by the clock of the machine; no turn sees it")]

use crate::frame::{FrameError, MAX_FRAME, PREFIX, frame_length};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Size of a read in bytes, unless a longer frame is in progress. Each of many idle workers has a buffer of this size.
const READ_BYTES: usize = 4 << 10;

/// Size in bytes above which a buffer is freed after the frame that needed it.
const KEPT_BYTES: usize = 64 << 10;

/// Maximum time of an answer that counts as quick, and time to poll for the next one: a few times the cost of a wake-up on a
/// virtual machine.
const QUICK: Duration = Duration::from_micros(100);

/// Number of polls before the thread yields the core. The scheduler tends to put two threads that wake each other on one core,
/// where each would poll in vain for all of [`QUICK`]. The answer to a delta usually arrives sooner, and yielding is a system
/// call.
const POLLS_BEFORE_YIELD: u32 = 24;

/// Minimum duration of a yield during which another thread ran.
const SWITCH_TIME: Duration = Duration::from_micros(3);
/// Number of consecutive frames that arrived only after another thread ran on this core, which shows that both ends share it.
const SHARED_FRAMES: u32 = 8;
/// Time beyond the polling time which shows that another thread had this core for a whole time slice.
const CORE_LOST: Duration = Duration::from_micros(500);
/// Number of frames without polling after the core was lost: the initial and the maximum value.
const POLL_PAUSE: (u32, u32) = (16, 4096);
/// Minimum interval between two moves of an end to another core.
const MOVE_INTERVAL: Duration = Duration::from_millis(10);

/// A stream socket.
pub(crate) trait Pipe {
    fn read(&self, buffer: &mut [u8], wait: PipeWait) -> io::Result<usize>;
    fn write(&self, bytes: &[u8], wait: PipeWait) -> io::Result<usize>;
}

/// The blocking behaviour of a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeWait {
    Never,
    /// Blocks until data arrives or this end counts as idle, as the pipe defines it.
    UntilIdle,
    /// Blocks until the socket's time-out.
    UntilTimeout,
}

/// Reason why no frame was received.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The other side has closed the socket.
    Closed,
    /// The caller decided not to wait any longer.
    GaveUp,
    /// The other side sent an invalid frame, or this side tried to send one.
    Frame(FrameError),
}

/// Frames over a [`Pipe`].
pub(crate) struct Link<P> {
    pipe: P,
    inbox: Vec<u8>,
    /// Index of the first unread byte in `inbox`.
    begin: usize,
    end: usize,
    outbox: Vec<u8>,
    /// Number of sent bytes of `outbox`.
    sent: usize,
    /// Whether both sides can run at the same time.
    has_cores: bool,
    /// Whether the last answer was quick.
    is_quick: bool,
    /// Moves this end away from a core that it shares with the other end; `None` for an end that must not move.
    sharing: Option<CoreSharing>,
    busy: BusyCore,
    frames: Frames,
}

/// Numbers of frames of one end: their wake-ups are most of the cost of a short turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Frames from this end.
    pub sent: u64,
    /// Frames to this end.
    pub received: u64,
}

/// Decides when a thread leaves the core that it shares with the thread it waits for.
///
/// Time is an argument, so the decision depends only on the observations.
#[derive(Debug, Default)]
struct CoreSharing {
    /// Consecutive frames that arrived only after another thread had run on this core.
    shared: u32,
    /// Time of the last move; `None` before the first.
    left: Option<Instant>,
}

impl CoreSharing {
    /// Records a frame that arrived at `now`; `is_shared`: another thread ran on this core while this one waited. Returns whether
    /// this thread should move to another core.
    fn observe(&mut self, is_shared: bool, now: Instant) -> bool {
        self.shared = if is_shared { self.shared + 1 } else { 0 };
        let is_due = self.left.is_none_or(|left| now.saturating_duration_since(left) > MOVE_INTERVAL);
        let leaves = self.shared >= SHARED_FRAMES && is_due;
        if leaves {
            *self = Self { shared: 0, left: Some(now) };
        }
        leaves
    }
}

/// Decides whether a reader on a contended core polls for the next frame before it sleeps.
///
/// Each time the core is lost during polling, polling pauses for twice as many frames as the last time.
#[derive(Debug, Default)]
struct BusyCore {
    /// Frames left before polling resumes.
    left: u32,
    /// Length of the next pause in frames.
    next_pause: u32,
}

impl BusyCore {
    /// Counts a frame. Returns whether to sleep without polling.
    fn skips_polling(&mut self) -> bool {
        let skips_polling = self.left > 0;
        self.left -= u32::from(skips_polling);
        skips_polling
    }

    /// Records the time that polling for a frame took.
    fn observe(&mut self, took: Duration) {
        if took > CORE_LOST {
            self.left = self.next_pause.max(POLL_PAUSE.0);
            self.next_pause = (self.left * 2).min(POLL_PAUSE.1);
        } else {
            // A rare loss does not justify a long pause.
            self.next_pause = self.next_pause.saturating_sub(1);
        }
    }
}

impl<P: Pipe> Link<P> {
    pub(crate) fn new(pipe: P) -> Self {
        let has_cores = has_cores();
        let inbox = vec![0; READ_BYTES];
        Self {
            pipe,
            inbox,
            begin: 0,
            end: 0,
            outbox: Vec::new(),
            sent: 0,
            has_cores,
            is_quick: false,
            sharing: None,
            busy: BusyCore::default(),
            frames: Frames::default(),
        }
    }

    /// Lets this end move to a core that the other end does not use: the scheduler puts a woken thread on its waker's core, where
    /// the two alternate although another core is idle. Only for a thread that may set its affinity, which a sealed worker may
    /// not.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_core_sharing(mut self) -> Self {
        self.sharing = self.has_cores.then(CoreSharing::default);
        self
    }

    pub(crate) fn frames(&self) -> Frames {
        self.frames
    }

    /// Returns whether unread bytes have arrived.
    pub(crate) fn has_unread(&self) -> bool {
        self.begin < self.end
    }

    /// Returns whether the other side has sent data, without reading it.
    pub(crate) fn peek(&mut self) -> Result<bool, LinkError> {
        if self.has_unread() {
            return Ok(true);
        }
        self.make_room(0);
        match self.read(PipeWait::Never, &mut || ControlFlow::Break(())) {
            Ok(()) => Ok(true),
            Err(LinkError::GaveUp) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives the next frame, without its prefix. Calls `go_on` after each unsuccessful poll, which decides whether to
    /// continue.
    pub(crate) fn receive(
        &mut self,
        wait: PipeWait,
        mut go_on: impl FnMut() -> ControlFlow<()>,
    ) -> Result<&[u8], LinkError> {
        let length = loop {
            let length = frame_length(&self.inbox[self.begin..self.end]).map_err(LinkError::Frame)?;
            match length {
                Some(length) if self.end - self.begin >= PREFIX + length => break length,
                _ => self.fill(length.unwrap_or_default(), wait, &mut go_on)?,
            }
        };
        let from = self.begin + PREFIX;
        self.begin = from + length;
        self.frames.received += 1;
        Ok(&self.inbox[from..from + length])
    }

    /// Reads once, after enlarging the buffer if the frame in progress needs it.
    fn fill(
        &mut self,
        length: usize,
        wait: PipeWait,
        go_on: &mut impl FnMut() -> ControlFlow<()>,
    ) -> Result<(), LinkError> {
        self.make_room(length);
        let begin = Instant::now();
        if self.is_quick && !self.busy.skips_polling() {
            let (mut looks, mut is_shared) = (0_u32, false);
            let mut while_quick = || {
                looks += 1;
                if looks.is_multiple_of(POLLS_BEFORE_YIELD) {
                    let before = Instant::now();
                    yield_core();
                    is_shared |= before.elapsed() > SWITCH_TIME;
                }
                if begin.elapsed() < QUICK { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let read = self.read(PipeWait::Never, &mut while_quick);
            self.busy.observe(begin.elapsed());
            if self.sharing.as_mut().is_some_and(|sharing| sharing.observe(is_shared, begin)) {
                move_to_another_core();
            }
            match read {
                Err(LinkError::GaveUp) => {}
                other => return other,
            }
        }
        let read = self.read(wait, go_on);
        self.is_quick = self.has_cores && read.is_ok() && begin.elapsed() < QUICK;
        read
    }

    /// Makes room for the next read, for a frame of this length if it is known.
    fn make_room(&mut self, length: usize) {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            if self.inbox.len() > KEPT_BYTES {
                self.inbox = vec![0; READ_BYTES];
            }
        }
        if self.begin > 0 {
            self.inbox.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end == self.inbox.len() {
            // At most twice the received bytes, not the announced length: a sender has to send bytes to make this side allocate.
            let room = (self.inbox.len() * 2).min((PREFIX + length).max(READ_BYTES)).min(PREFIX + MAX_FRAME);
            self.inbox.resize(room, 0);
        }
    }

    /// Frees the memory of long frames.
    pub(crate) fn shrink(&mut self) {
        if self.begin == self.end && self.inbox.len() > READ_BYTES {
            (self.begin, self.end) = (0, 0);
            self.inbox = vec![0; READ_BYTES];
        }
        if !self.has_unsent() {
            self.outbox = Vec::new();
        }
    }

    fn read(&mut self, wait: PipeWait, go_on: &mut impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
        loop {
            match self.pipe.read(&mut self.inbox[self.end..], wait) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) => try_again(&error, go_on)?,
            }
        }
    }

    /// Appends the output of `encode` to the unsent bytes. If `encode` fails, nothing is queued.
    pub(crate) fn queue(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        let before = self.outbox.len();
        encode(&mut self.outbox).inspect_err(|_| self.outbox.truncate(before))?;
        self.frames.sent += 1;
        Ok(())
    }

    /// Returns whether queued bytes are unsent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.outbox.len()
    }

    /// Sends queued bytes. Calls `go_on` whenever the socket accepts nothing.
    pub(crate) fn flush(
        &mut self,
        wait: PipeWait,
        mut go_on: impl FnMut() -> ControlFlow<()>,
    ) -> Result<(), LinkError> {
        while self.has_unsent() {
            match self.pipe.write(&self.outbox[self.sent..], wait) {
                Ok(count) => self.sent += count,
                Err(error) => try_again(&error, &mut go_on)?,
            }
        }
        self.sent = 0;
        self.outbox.clear();
        if self.outbox.capacity() > KEPT_BYTES {
            self.outbox = Vec::new();
        }
        Ok(())
    }
}

/// Returns whether two processes can run at the same time.
fn has_cores() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getaffinity(None).is_ok_and(|cores| cores.count() > 1);
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Moves this thread to another core. Its affinity is unchanged afterwards.
fn move_to_another_core() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
        let Ok(cores) = sched_getaffinity(None) else { return };
        let mut others = cores;
        others.unset(sched_getcpu());
        if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
            // Restores the previous affinity.
            let _ = sched_setaffinity(None, &cores);
        }
    }
}

fn yield_core() {
    #[cfg(target_os = "linux")]
    rustix::thread::sched_yield();
}

/// Returns whether a failed read or write is retried.
fn try_again(error: &io::Error, go_on: &mut impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => match go_on() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(LinkError::GaveUp),
        },
        // The pipe is broken or was reset. After any other error the connection is unusable, too.
        _ => Err(LinkError::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    /// Replays scripted reads and accepts writes in pieces.
    #[derive(Default)]
    struct ScriptedPipe {
        reads: RefCell<VecDeque<io::Result<Vec<u8>>>>,
        written: RefCell<Vec<u8>>,
        /// Number of bytes that the pipe accepts without blocking.
        room: Cell<usize>,
    }

    impl Pipe for &ScriptedPipe {
        fn read(&self, buffer: &mut [u8], _wait: PipeWait) -> io::Result<usize> {
            let mut reads = self.reads.borrow_mut();
            let mut bytes = reads.pop_front().unwrap_or(Ok(Vec::new()))?;
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            if count < bytes.len() {
                reads.push_front(Ok(bytes.split_off(count)));
            }
            Ok(count)
        }

        fn write(&self, bytes: &[u8], wait: PipeWait) -> io::Result<usize> {
            if wait == PipeWait::Never && self.written.borrow().len() >= self.room.get() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(3);
            self.written.borrow_mut().extend_from_slice(&bytes[..count]);
            Ok(count)
        }
    }

    /// A pipe that never sends anything.
    struct SilentPipe;

    impl Pipe for SilentPipe {
        fn read(&self, _: &mut [u8], _: PipeWait) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }

        fn write(&self, bytes: &[u8], _: PipeWait) -> io::Result<usize> {
            Ok(bytes.len())
        }
    }

    #[test]
    fn a_shared_core_is_left_after_consecutive_frames_and_at_most_once_per_interval() {
        let start = Instant::now();
        let mut sharing = CoreSharing::default();
        let mut observe = |count: u32, is_shared, now| (0..count).any(|_| sharing.observe(is_shared, now));
        assert!(!observe(SHARED_FRAMES - 1, true, start));
        assert!(!observe(1, false, start), "a frame that came without sharing starts the count anew");
        assert!(!observe(SHARED_FRAMES - 1, true, start));
        assert!(observe(1, true, start));
        assert!(!observe(SHARED_FRAMES, true, start + MOVE_INTERVAL), "not again within the interval");
        assert!(observe(1, true, start + MOVE_INTERVAL + Duration::from_nanos(1)));
    }

    #[test]
    fn a_reader_that_loses_the_core_pauses_polling_longer_and_recovers() {
        let mut busy = BusyCore::default();
        let rests = |busy: &mut BusyCore| (0..).take_while(|_| busy.skips_polling()).count();
        busy.observe(QUICK);
        assert_eq!(rests(&mut busy), 0);
        let lost = CORE_LOST + Duration::from_nanos(1);
        let rested: Vec<usize> = (0..10)
            .map(|_| {
                busy.observe(lost);
                rests(&mut busy)
            })
            .collect();
        assert_eq!(rested, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096]);
        (0..POLL_PAUSE.1).for_each(|_| busy.observe(QUICK));
        busy.observe(lost);
        assert_eq!(rests(&mut busy), 16);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn leaving_a_core_keeps_the_affinity_of_the_thread() {
        let before = rustix::thread::sched_getaffinity(None).expect("the affinity of this thread");
        move_to_another_core();
        assert_eq!(rustix::thread::sched_getaffinity(None).expect("the affinity of this thread"), before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_end_of_the_host_leaves_a_core() {
        assert!(Link { has_cores: true, ..Link::new(SilentPipe) }.with_core_sharing().sharing.is_some());
        assert!(Link { has_cores: false, ..Link::new(SilentPipe) }.with_core_sharing().sharing.is_none());
        assert!(Link::new(SilentPipe).sharing.is_none());
    }

    fn framed(content: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(content.len()).expect("short").to_le_bytes().to_vec();
        frame.extend_from_slice(content);
        frame
    }

    fn script(reads: impl IntoIterator<Item = io::Result<Vec<u8>>>) -> ScriptedPipe {
        ScriptedPipe { reads: RefCell::new(reads.into_iter().collect()), ..ScriptedPipe::default() }
    }

    fn never() -> ControlFlow<()> {
        panic!("nothing timed out")
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let long = vec![7; 3 * READ_BYTES];
        let mut bytes = framed(b"one");
        bytes.extend(framed(b""));
        bytes.extend(framed(&long));
        bytes.extend(framed(b"end"));
        for piece in [1, 2, 5, 1000, bytes.len()] {
            let script = script(bytes.chunks(piece).map(|piece| Ok(piece.to_vec())));
            let mut link = Link::new(&script);
            for expected in [b"one".as_slice(), b"", &long, b"end"] {
                assert_eq!(
                    link.receive(PipeWait::UntilTimeout, never).expect("a frame"),
                    expected,
                    "in pieces of {piece}"
                );
            }
            assert!(matches!(link.receive(PipeWait::UntilTimeout, never), Err(LinkError::Closed)));
        }
    }

    #[test]
    fn a_prefix_past_the_limit_is_an_error_and_takes_no_memory() {
        let script = script([Ok(vec![0xff; 8])]);
        let mut link = Link::new(&script);
        assert!(matches!(
            link.receive(PipeWait::UntilTimeout, never),
            Err(LinkError::Frame(FrameError::TooLarge { .. }))
        ));
        assert_eq!(link.inbox.len(), READ_BYTES);
    }

    #[test]
    fn a_promised_length_takes_memory_only_as_bytes_arrive() {
        let prefix = u32::try_from(MAX_FRAME).expect("fits").to_le_bytes().to_vec();
        let script = script([Ok(prefix), Ok(vec![0; READ_BYTES])]);
        let mut link = Link::new(&script);
        assert!(matches!(link.receive(PipeWait::UntilTimeout, never), Err(LinkError::Closed)));
        assert!(link.inbox.len() <= 4 * READ_BYTES, "{}", link.inbox.len());
    }

    #[test]
    fn a_timeout_asks_the_caller() {
        let timeout = || Err(io::Error::from(ErrorKind::WouldBlock));
        let script = script([timeout(), Ok(framed(b"x")), timeout()]);
        let mut link = Link { has_cores: false, ..Link::new(&script) };
        let mut asked = 0;
        let go_on = || {
            asked += 1;
            ControlFlow::Continue(())
        };
        assert_eq!(link.receive(PipeWait::UntilTimeout, go_on).expect("a frame"), b"x");
        assert_eq!(asked, 1);
        assert!(matches!(link.receive(PipeWait::UntilTimeout, || ControlFlow::Break(())), Err(LinkError::GaveUp)));
    }

    #[test]
    fn after_a_quick_answer_the_reader_polls_before_it_asks_the_caller() {
        let not_yet = || Err(io::Error::from(ErrorKind::WouldBlock));
        let script = script([not_yet(), not_yet(), Ok(framed(b"x"))]);
        let mut link = Link { has_cores: true, is_quick: true, ..Link::new(&script) };
        assert_eq!(link.receive(PipeWait::UntilTimeout, never).expect("a frame"), b"x");

        let mut link = Link { has_cores: true, is_quick: true, ..Link::new(SilentPipe) };
        let asked = Cell::new(0);
        let give_up = || {
            asked.set(asked.get() + 1);
            ControlFlow::Break(())
        };
        assert!(matches!(link.receive(PipeWait::UntilTimeout, give_up), Err(LinkError::GaveUp)));
        assert_eq!((asked.get(), link.is_quick), (1, false), "looking was in vain");
    }

    #[test]
    fn a_frame_is_sent_as_far_as_the_socket_accepts() {
        let script = script([]);
        let mut link = Link::new(&script);
        let content = framed(b"hello");
        let append = |out: &mut Vec<u8>| {
            out.extend_from_slice(&content);
            Ok(())
        };
        link.queue(append).expect("it is a frame");
        script.room.set(4);
        assert!(matches!(link.flush(PipeWait::Never, || ControlFlow::Break(())), Err(LinkError::GaveUp)));
        assert!(link.has_unsent());
        link.queue(append).expect("behind the first");
        assert_eq!(link.queue(|_| Err(FrameError::Truncated)), Err(FrameError::Truncated));
        link.flush(PipeWait::UntilTimeout, never).expect("it is taken");
        assert_eq!(*script.written.borrow(), [content.clone(), content].concat());
        assert!(!link.has_unsent());
    }

    #[test]
    fn a_peek_does_not_consume() {
        let timeout = Err(io::Error::from(ErrorKind::WouldBlock));
        let script = script([timeout, Ok(framed(b"early"))]);
        let mut link = Link::new(&script);
        assert!(!link.peek().expect("open"));
        assert!(link.peek().expect("open"));
        assert_eq!(link.receive(PipeWait::UntilTimeout, never).expect("a frame"), b"early");
        assert!(!link.has_unread());
    }
}
