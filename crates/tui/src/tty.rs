//! The terminal itself: raw mode and the other screen while a session is on, its size, what is typed.

use super::input::{Input, Splitter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The other screen, no line wrap, marked pastes; keys told apart where the terminal can, such as shift+enter.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?7l\u{1b}[?2004h\u{1b}[>7u\u{1b}[?25l\u{1b}[2J";
/// The same undone, whatever was on.
const LEAVE: &str = "\u{1b}[?2026l\u{1b}[0m\u{1b}[<u\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// After an ESC that nothing follows for this long, it was the key.
const LONE_ESCAPE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A terminal in raw mode. Dropping it, or [`Tty::restore`], gives it back as it was.
pub(super) struct Tty {
    before: Mutex<Option<Termios>>,
    reading: Arc<Reading>,
}

/// Whether what is typed is read here, or by a program that has the terminal for a while.
struct Reading {
    state: Mutex<Pause>,
    changed: Condvar,
    /// Wakes the thread that waits for a key.
    wake: UnixStream,
    woken: UnixStream,
}

#[derive(Default)]
struct Pause {
    is_wanted: bool,
    is_kept: bool,
    /// Nothing is read any more.
    is_over: bool,
}

impl Reading {
    fn new() -> std::io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        Ok(Self { state: Mutex::default(), changed: Condvar::new(), wake, woken })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Pause> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: std::sync::MutexGuard<'a, Pause>) -> std::sync::MutexGuard<'a, Pause> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when nobody here reads what is typed.
    fn pause(&self) {
        let mut state = self.state();
        state.is_wanted = true;
        // The thread wakes for a byte; one that has ended needs none.
        let _ = (&self.wake).write_all(b".");
        while !state.is_kept && !state.is_over {
            state = self.wait(state);
        }
    }

    fn go_on(&self) {
        self.state().is_wanted = false;
        self.changed.notify_all();
    }

    /// On the reading thread: keeps a pause for as long as it is wanted.
    fn keep(&self) {
        let mut state = self.state();
        while state.is_wanted {
            state.is_kept = true;
            self.changed.notify_all();
            state = self.wait(state);
        }
        state.is_kept = false;
    }

    fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }
}

impl Tty {
    /// Takes the terminal over. `None` when input or output is none.
    pub(super) fn open() -> std::io::Result<Option<Arc<Self>>> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let tty = Arc::new(Self { before: Mutex::new(None), reading: Arc::new(Reading::new()?) });
        tty.enter()?;
        Ok(Some(tty))
    }

    /// Raw mode and the other screen; nothing when they are on.
    pub(super) fn enter(&self) -> std::io::Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_none() {
            let found = tcgetattr(std::io::stdin())?;
            let mut raw = found.clone();
            raw.make_raw();
            tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
            *before = Some(found);
            self.write(ENTER);
        }
        Ok(())
    }

    /// The terminal as it was found; nothing when it is so already.
    pub(super) fn restore(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = before.take() {
            self.write(LEAVE);
            // A terminal that is gone needs no modes.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &before);
        }
    }

    /// Gives the terminal to another program until [`Tty::take_back`]: it is as it was found, and what is typed goes
    /// there. The thread that reads has to be running.
    pub(super) fn lend(&self) {
        self.reading.pause();
        self.restore();
    }

    /// What was lent is ours again.
    pub(super) fn take_back(&self) -> std::io::Result<()> {
        let taken = self.enter();
        self.reading.go_on();
        taken
    }

    /// Columns and rows; what terminals once had where it does not say.
    pub(super) fn size(&self) -> (usize, usize) {
        pijs_runtime::terminal_size().unwrap_or((80, 24))
    }

    /// Draws what is clean already; nothing while the terminal is not ours.
    pub(super) fn draw(&self, text: &str) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_some() {
            self.write(text);
        }
    }

    /// Writes what is clean already. A terminal that is gone is seen by the end of its input.
    pub(super) fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Reads what is typed on a thread of its own until `take` says no more, or the terminal is gone; `take` is then told so
/// by nothing.
pub(super) fn read(tty: &Tty, mut take: impl FnMut(Option<Vec<Input>>) -> bool + Send + 'static) {
    let reading = Arc::clone(&tty.reading);
    std::thread::spawn(move || {
        let is_gone = read_all(&reading, &mut take);
        reading.end();
        if is_gone {
            take(None);
        }
    });
}

/// Whether the terminal is gone.
fn read_all(reading: &Reading, take: &mut impl FnMut(Option<Vec<Input>>) -> bool) -> bool {
    let mut splitter = Splitter::default();
    let mut buffer = [0; 4096];
    let stdin = std::io::stdin();
    loop {
        let timeout = splitter.is_open().then_some(&LONE_ESCAPE);
        let mut waited = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&reading.woken, PollFlags::IN)];
        match poll(&mut waited, timeout) {
            Ok(0) => {
                if !take(Some(splitter.end())) {
                    return false;
                }
                continue;
            }
            Err(rustix::io::Errno::INTR) => continue,
            // Where a terminal cannot be waited for it is read.
            Ok(_) | Err(_) => {}
        }
        if waited[1].revents().contains(PollFlags::IN) {
            // Its own socket: the byte is there.
            let _ = (&reading.woken).read(&mut [0; 1]);
            reading.keep();
            continue;
        }
        match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) => return true,
            Ok(read) => {
                if !take(Some(splitter.push(&buffer[..read]))) {
                    return false;
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}
