//! One end of the socket between a host and a worker: whole frames in, whole frames out.
//!
//! The two sides take turns, so one of them always reads. A host must not rely on that: [`Link::queue`]
//! and [`Link::flush`] send without waiting, and [`Link::receive`] looks without waiting when asked to.
//! Where it does wait, a host's socket has a short time-out, and [`Link`] asks the caller at each whether
//! to go on; a worker's has none.
//!
//! Being woken takes longer than most turns do. While the other side answers quickly, a reader therefore looks again
//! and again before it goes to sleep, and stops that as soon as it was in vain. On a busy machine it costs more than it
//! saves: the system takes the core away from whoever looks, for milliseconds, and prefers whoever slept. Then a reader sleeps
//! at once for a while ([`BusyCore`]).

use crate::frame::{FrameError, MAX_FRAME, PREFIX, frame_length};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What is read at a time while no longer frame is under way. An idle worker holds this much, and there are many of them.
const READ: usize = 4 << 10;

/// Buffers that grew beyond this for one frame are given back after it.
const KEEP: usize = 64 << 10;

/// An answer within this is a quick one, and for this long the next is looked for without sleeping: a few times of what
/// being woken takes on a virtual machine.
const QUICK: Duration = Duration::from_micros(100);

/// Looks before whoever waits for this core has it. The system likes to put two that wake each other on one core, and there
/// each would look in vain for all of [`QUICK`]. An answer to a delta is there sooner, and letting others run takes a call
/// of the system.
const LOOKS: u32 = 24;

/// Letting others run takes longer than this when somebody did.
const SWITCHED: Duration = Duration::from_micros(3);
/// So many frames in a row that came only after somebody else had this core: the other side shares it.
const SHARED: u32 = 8;
/// Looking took this much longer than it may: somebody else had this core for a whole slice of the system's.
const LOST: Duration = Duration::from_micros(500);
/// Waits without looking after the core was lost once, and at most.
const REST: (u32, u32) = (16, 4096);
/// How often one end leaves the core that both are on.
const PARTED_FOR: Duration = Duration::from_millis(10);

/// A stream socket.
pub(crate) trait Pipe {
    fn read(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize>;
    fn write(&self, bytes: &[u8], wait: Wait) -> io::Result<usize>;
}

/// Whether a read or a write may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    /// For as long as somebody with nothing to do is not yet at rest: what that is, is the pipe's affair.
    ToRest,
    /// For as long as the socket's time-out says.
    ToTimeout,
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
    /// How much of `outbox` has been sent.
    sent: usize,
    /// Whether the other side can run while this one looks.
    has_cores: bool,
    /// Whether the last answer was a quick one.
    is_quick: bool,
    /// Decides when this end leaves a core that it shares with the other; `None` for an end that stays.
    sharing: Option<CoreSharing>,
    busy: BusyCore,
    frames: Frames,
}

/// Counts the frames that one end has sent and received: being woken for them is most of the cost of a short turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// From this end.
    pub sent: u64,
    /// To this end.
    pub received: u64,
}

/// Decides when a thread leaves the core that it shares with the thread it waits for.
///
/// Time is an argument, so the decision depends on nothing but the observations.
#[derive(Debug, Default)]
struct CoreSharing {
    /// Consecutive frames that arrived only after another thread had run on this core.
    shared: u32,
    /// When this end last left a core.
    left: Option<Instant>,
}

impl CoreSharing {
    /// Records whether another thread ran on this core before a frame arrived at `now`. Returns whether to leave the core.
    fn observe(&mut self, is_shared: bool, now: Instant) -> bool {
        self.shared = if is_shared { self.shared + 1 } else { 0 };
        let is_due = self.left.is_none_or(|left| now.saturating_duration_since(left) > PARTED_FOR);
        let leaves = self.shared >= SHARED && is_due;
        if leaves {
            *self = Self { shared: 0, left: Some(now) };
        }
        leaves
    }
}

/// Decides whether a reader looks for the next frame before it sleeps, on a core that others want, too.
///
/// Each time the core is lost while it looks, it rests for twice as many frames as the last time.
#[derive(Debug, Default)]
struct BusyCore {
    /// Frames for which it does not look.
    left: u32,
    /// For how many it does not the next time that the core is lost.
    rest: u32,
}

impl BusyCore {
    /// Counts a frame. Returns whether to sleep at once.
    fn is_resting(&mut self) -> bool {
        let is_resting = self.left > 0;
        self.left -= u32::from(is_resting);
        is_resting
    }

    /// Records how long looking for a frame took.
    fn observe(&mut self, took: Duration) {
        if took > LOST {
            self.left = self.rest.max(REST.0);
            self.rest = (self.left * 2).min(REST.1);
        } else {
            // What was lost once in a while is no reason to stop for long.
            self.rest = self.rest.saturating_sub(1);
        }
    }
}

impl<P: Pipe> Link<P> {
    pub(crate) fn new(pipe: P) -> Self {
        let has_cores = has_cores();
        let inbox = vec![0; READ];
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

    /// Lets this end leave a core that both are on: who is woken is put where its waker is, and there the two take turns
    /// although another core has nothing to do. For a thread that may say where it runs, which a sealed worker may not.
    #[cfg(target_os = "linux")]
    pub(crate) fn keeping_apart(mut self) -> Self {
        self.sharing = self.has_cores.then(CoreSharing::default);
        self
    }

    pub(crate) fn frames(&self) -> Frames {
        self.frames
    }

    /// Whether bytes have arrived that belong to no frame handed out.
    pub(crate) fn has_unread(&self) -> bool {
        self.begin < self.end
    }

    /// Looks, without waiting, whether the other side has sent anything.
    pub(crate) fn peek(&mut self) -> Result<bool, LinkError> {
        if self.has_unread() {
            return Ok(true);
        }
        self.make_room(0);
        match self.read(Wait::Never, &mut || ControlFlow::Break(())) {
            Ok(()) => Ok(true),
            Err(LinkError::GaveUp) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next frame, without its prefix. `go_on` is asked after each look that found nothing.
    pub(crate) fn receive(
        &mut self,
        wait: Wait,
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

    /// Reads once, more room made when the frame under way needs it.
    fn fill(
        &mut self,
        length: usize,
        wait: Wait,
        go_on: &mut impl FnMut() -> ControlFlow<()>,
    ) -> Result<(), LinkError> {
        self.make_room(length);
        let begin = Instant::now();
        if self.is_quick && !self.busy.is_resting() {
            let (mut looks, mut is_shared) = (0_u32, false);
            let mut while_quick = || {
                looks += 1;
                if looks.is_multiple_of(LOOKS) {
                    let before = Instant::now();
                    let_others_run();
                    is_shared |= before.elapsed() > SWITCHED;
                }
                if begin.elapsed() < QUICK { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let read = self.read(Wait::Never, &mut while_quick);
            self.busy.observe(begin.elapsed());
            if self.sharing.as_mut().is_some_and(|sharing| sharing.observe(is_shared, begin)) {
                go_to_another_core();
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

    /// Room for what is read next, of a frame of this length when that is known.
    fn make_room(&mut self, length: usize) {
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
    }

    /// Gives back what long frames needed.
    pub(crate) fn shrink(&mut self) {
        if self.begin == self.end && self.inbox.len() > READ {
            (self.begin, self.end) = (0, 0);
            self.inbox = vec![0; READ];
        }
        if !self.has_unsent() {
            self.outbox = Vec::new();
        }
    }

    fn read(&mut self, wait: Wait, go_on: &mut impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
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

    /// Puts what `encode` appends after what is not sent yet. Nothing is queued when it fails.
    pub(crate) fn queue(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        let before = self.outbox.len();
        encode(&mut self.outbox).inspect_err(|_| self.outbox.truncate(before))?;
        self.frames.sent += 1;
        Ok(())
    }

    /// Whether something is queued that the socket has not taken.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.outbox.len()
    }

    /// Sends what is queued. `go_on` is asked whenever the socket takes nothing.
    pub(crate) fn flush(&mut self, wait: Wait, mut go_on: impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
        while self.has_unsent() {
            match self.pipe.write(&self.outbox[self.sent..], wait) {
                Ok(count) => self.sent += count,
                Err(error) => try_again(&error, &mut go_on)?,
            }
        }
        self.sent = 0;
        self.outbox.clear();
        if self.outbox.capacity() > KEEP {
            self.outbox = Vec::new();
        }
        Ok(())
    }
}

/// Whether two processes can run at once.
fn has_cores() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getaffinity(None).is_ok_and(|cores| cores.count() > 1);
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Has this thread moved. It may run wherever it might before.
fn go_to_another_core() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
        let Ok(cores) = sched_getaffinity(None) else { return };
        let mut others = cores;
        others.unset(sched_getcpu());
        if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
            // What it was allowed before it is allowed again.
            let _ = sched_setaffinity(None, &cores);
        }
    }
}

fn let_others_run() {
    #[cfg(target_os = "linux")]
    rustix::thread::sched_yield();
}

/// Whether a failed read or write is tried again.
fn try_again(error: &io::Error, go_on: &mut impl FnMut() -> ControlFlow<()>) -> Result<(), LinkError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => match go_on() {
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
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    /// Hands out scripted reads and takes writes in pieces.
    #[derive(Default)]
    struct Script {
        reads: RefCell<VecDeque<io::Result<Vec<u8>>>>,
        written: RefCell<Vec<u8>>,
        /// Bytes taken without waiting.
        room: Cell<usize>,
    }

    impl Pipe for &Script {
        fn read(&self, buffer: &mut [u8], _wait: Wait) -> io::Result<usize> {
            let mut reads = self.reads.borrow_mut();
            let mut bytes = reads.pop_front().unwrap_or(Ok(Vec::new()))?;
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            if count < bytes.len() {
                reads.push_front(Ok(bytes.split_off(count)));
            }
            Ok(count)
        }

        fn write(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
            if wait == Wait::Never && self.written.borrow().len() >= self.room.get() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(3);
            self.written.borrow_mut().extend_from_slice(&bytes[..count]);
            Ok(count)
        }
    }

    /// Never has anything to say.
    struct Silent;

    impl Pipe for Silent {
        fn read(&self, _: &mut [u8], _: Wait) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }

        fn write(&self, bytes: &[u8], _: Wait) -> io::Result<usize> {
            Ok(bytes.len())
        }
    }

    #[test]
    fn a_shared_core_is_left_after_consecutive_frames_and_at_most_once_per_interval() {
        let start = Instant::now();
        let mut sharing = CoreSharing::default();
        let mut observe = |count: u32, is_shared, now| (0..count).any(|_| sharing.observe(is_shared, now));
        assert!(!observe(SHARED - 1, true, start));
        assert!(!observe(1, false, start), "a frame that came without sharing starts the count anew");
        assert!(!observe(SHARED - 1, true, start));
        assert!(observe(1, true, start));
        assert!(!observe(SHARED, true, start + PARTED_FOR), "not again within the interval");
        assert!(observe(1, true, start + PARTED_FOR + Duration::from_nanos(1)));
    }

    #[test]
    fn who_loses_the_core_while_it_looks_rests_ever_longer_and_recovers() {
        let mut busy = BusyCore::default();
        let rests = |busy: &mut BusyCore| (0..).take_while(|_| busy.is_resting()).count();
        busy.observe(QUICK);
        assert_eq!(rests(&mut busy), 0);
        let lost = LOST + Duration::from_nanos(1);
        let rested: Vec<usize> = (0..10)
            .map(|_| {
                busy.observe(lost);
                rests(&mut busy)
            })
            .collect();
        assert_eq!(rested, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096]);
        (0..REST.1).for_each(|_| busy.observe(QUICK));
        busy.observe(lost);
        assert_eq!(rests(&mut busy), 16);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn leaving_a_core_keeps_the_affinity_of_the_thread() {
        let before = rustix::thread::sched_getaffinity(None).expect("the affinity of this thread");
        go_to_another_core();
        assert_eq!(rustix::thread::sched_getaffinity(None).expect("the affinity of this thread"), before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_end_of_the_host_leaves_a_core() {
        assert!(Link { has_cores: true, ..Link::new(Silent) }.keeping_apart().sharing.is_some());
        assert!(Link { has_cores: false, ..Link::new(Silent) }.keeping_apart().sharing.is_none());
        assert!(Link::new(Silent).sharing.is_none());
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
                assert_eq!(link.receive(Wait::ToTimeout, never).expect("a frame"), expected, "in pieces of {piece}");
            }
            assert!(matches!(link.receive(Wait::ToTimeout, never), Err(LinkError::Closed)));
        }
    }

    #[test]
    fn a_prefix_past_the_limit_is_an_error_and_takes_no_memory() {
        let script = script([Ok(vec![0xff; 8])]);
        let mut link = Link::new(&script);
        assert!(matches!(link.receive(Wait::ToTimeout, never), Err(LinkError::Frame(FrameError::TooLarge { .. }))));
        assert_eq!(link.inbox.len(), READ);
    }

    #[test]
    fn a_promised_length_takes_memory_only_as_bytes_arrive() {
        let prefix = u32::try_from(MAX_FRAME).expect("fits").to_le_bytes().to_vec();
        let script = script([Ok(prefix), Ok(vec![0; READ])]);
        let mut link = Link::new(&script);
        assert!(matches!(link.receive(Wait::ToTimeout, never), Err(LinkError::Closed)));
        assert!(link.inbox.len() <= 4 * READ, "{}", link.inbox.len());
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
        assert_eq!(link.receive(Wait::ToTimeout, go_on).expect("a frame"), b"x");
        assert_eq!(asked, 1);
        assert!(matches!(link.receive(Wait::ToTimeout, || ControlFlow::Break(())), Err(LinkError::GaveUp)));
    }

    #[test]
    fn after_a_quick_answer_the_next_is_looked_for_and_the_caller_is_asked_only_in_the_end() {
        let not_yet = || Err(io::Error::from(ErrorKind::WouldBlock));
        let script = script([not_yet(), not_yet(), Ok(framed(b"x"))]);
        let mut link = Link { has_cores: true, is_quick: true, ..Link::new(&script) };
        assert_eq!(link.receive(Wait::ToTimeout, never).expect("a frame"), b"x");

        let mut link = Link { has_cores: true, is_quick: true, ..Link::new(Silent) };
        let asked = Cell::new(0);
        let give_up = || {
            asked.set(asked.get() + 1);
            ControlFlow::Break(())
        };
        assert!(matches!(link.receive(Wait::ToTimeout, give_up), Err(LinkError::GaveUp)));
        assert_eq!((asked.get(), link.is_quick), (1, false), "looking was in vain");
    }

    #[test]
    fn a_frame_is_sent_whole_and_as_far_as_there_is_room() {
        let script = script([]);
        let mut link = Link::new(&script);
        let content = framed(b"hello");
        let append = |out: &mut Vec<u8>| {
            out.extend_from_slice(&content);
            Ok(())
        };
        link.queue(append).expect("it is a frame");
        script.room.set(4);
        assert!(matches!(link.flush(Wait::Never, || ControlFlow::Break(())), Err(LinkError::GaveUp)));
        assert!(link.has_unsent());
        link.queue(append).expect("behind the first");
        assert_eq!(link.queue(|_| Err(FrameError::Truncated)), Err(FrameError::Truncated));
        link.flush(Wait::ToTimeout, never).expect("it is taken");
        assert_eq!(*script.written.borrow(), [content.clone(), content].concat());
        assert!(!link.has_unsent());
    }

    #[test]
    fn a_peek_takes_nothing_away() {
        let timeout = Err(io::Error::from(ErrorKind::WouldBlock));
        let script = script([timeout, Ok(framed(b"early"))]);
        let mut link = Link::new(&script);
        assert!(!link.peek().expect("open"));
        assert!(link.peek().expect("open"));
        assert_eq!(link.receive(Wait::ToTimeout, never).expect("a frame"), b"early");
        assert!(!link.has_unread());
    }
}
