//! The terminal: raw mode, alternate screen, size and input.

use super::input::{Splitter, TerminalInput};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Enables the alternate screen, bracketed paste and the Kitty keyboard protocol, and disables line wrap.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?7l\u{1b}[?2004h\u{1b}[>7u\u{1b}[?25l\u{1b}[2J";
/// Restores the modes, regardless of which were enabled.
const LEAVE: &str = "\u{1b}[?2026l\u{1b}[0m\u{1b}[<u\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// Time after which an ESC that no other byte follows is a key.
const LONE_ESCAPE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A terminal in raw mode. Dropping it, or [`Tty::restore`], restores it.
pub(super) struct Tty {
    before: Mutex<Option<Termios>>,
    reading: Arc<ReaderState>,
}

/// State of the input, which is read by this program or by another one that uses the terminal.
struct ReaderState {
    state: Mutex<ReaderPause>,
    changed: Condvar,
    /// Wakes the reading thread.
    wake: UnixStream,
    woken: UnixStream,
}

#[derive(Default)]
struct ReaderPause {
    is_wanted: bool,
    is_kept: bool,
    /// Whether reading has ended.
    is_over: bool,
}

impl ReaderState {
    fn new() -> std::io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        Ok(Self { state: Mutex::default(), changed: Condvar::new(), wake, woken })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ReaderPause> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: std::sync::MutexGuard<'a, ReaderPause>) -> std::sync::MutexGuard<'a, ReaderPause> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the reading thread has paused.
    fn pause(&self) {
        let mut state = self.state();
        state.is_wanted = true;
        // If the thread has ended, the byte is not needed.
        let _ = (&self.wake).write_all(b".");
        while !state.is_kept && !state.is_over {
            state = self.wait(state);
        }
    }

    fn go_on(&self) {
        self.state().is_wanted = false;
        self.changed.notify_all();
    }

    /// Called on the reading thread: blocks while a pause is requested.
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
    /// Takes over the terminal; `None` if stdin or stdout is not a terminal.
    pub(super) fn open() -> std::io::Result<Option<Arc<Self>>> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let tty = Arc::new(Self { before: Mutex::new(None), reading: Arc::new(ReaderState::new()?) });
        tty.enter()?;
        Ok(Some(tty))
    }

    /// Enables raw mode and the alternate screen, unless they are already enabled.
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

    /// Restores the terminal, unless it is already restored.
    pub(super) fn restore(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = before.take() {
            self.write(LEAVE);
            // A closed terminal has no modes to restore.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &before);
        }
    }

    /// Restores the terminal for another program, which receives the input until [`Tty::take_back`]. The reading thread must be
    /// running.
    pub(super) fn lend(&self) {
        self.reading.pause();
        self.restore();
    }

    /// Takes back the terminal.
    pub(super) fn take_back(&self) -> std::io::Result<()> {
        let taken = self.enter();
        self.reading.go_on();
        taken
    }

    /// Returns columns and rows; 80 by 24 if the size is unknown.
    pub(super) fn size(&self) -> (usize, usize) {
        pijs_runtime::terminal_size().unwrap_or((80, 24))
    }

    /// Writes sanitised text, unless the terminal is restored.
    pub(super) fn draw(&self, text: &str) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_some() {
            self.write(text);
        }
    }

    /// Writes sanitised text. The reader detects a closed terminal.
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

/// Reads input on a separate thread until `take` returns `false` or the terminal is closed, for which `take` receives `None`.
pub(super) fn read(tty: &Tty, mut take: impl FnMut(Option<Vec<TerminalInput>>) -> bool + Send + 'static) {
    let reading = Arc::clone(&tty.reading);
    std::thread::spawn(move || {
        let is_gone = read_all(&reading, &mut take);
        reading.end();
        if is_gone {
            take(None);
        }
    });
}

/// Reads until the end. Returns whether the terminal was closed.
fn read_all(reading: &ReaderState, take: &mut impl FnMut(Option<Vec<TerminalInput>>) -> bool) -> bool {
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
            // If polling fails, the terminal is read directly.
            Ok(_) | Err(_) => {}
        }
        if waited[1].revents().contains(PollFlags::IN) {
            // The byte is available on the thread's wake socket.
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
