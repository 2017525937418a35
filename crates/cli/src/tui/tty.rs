//! The terminal itself: raw mode and the other screen while a session is on, its size, what is typed.

use super::input::{Input, Splitter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The other screen, no line wrap, marked pastes.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?7l\u{1b}[?2004h\u{1b}[?25l\u{1b}[2J";
/// The same undone, whatever was on.
const LEAVE: &str = "\u{1b}[?2026l\u{1b}[0m\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// After an ESC that nothing follows for this long, it was the key.
const LONE_ESCAPE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A terminal in raw mode. Dropping it, or [`Tty::restore`], gives it back as it was.
pub(super) struct Tty {
    before: Mutex<Option<Termios>>,
}

impl Tty {
    /// Takes the terminal over. `None` when input or output is none.
    pub(super) fn open() -> std::io::Result<Option<Arc<Self>>> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let tty = Arc::new(Self { before: Mutex::new(None) });
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
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            self.write(LEAVE);
            // A terminal that is gone needs no modes.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &before);
        }
    }

    /// Columns and rows; what terminals once had where it does not say.
    pub(super) fn size(&self) -> (usize, usize) {
        let known = tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        known.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
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
pub(super) fn read(mut take: impl FnMut(Option<Vec<Input>>) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut splitter = Splitter::default();
        let mut buffer = [0; 4096];
        loop {
            let stdin = std::io::stdin();
            if splitter.is_open() {
                let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
                if matches!(poll(&mut waited, Some(&LONE_ESCAPE)), Ok(0)) {
                    if !take(Some(splitter.end())) {
                        return;
                    }
                    continue;
                }
            }
            match rustix::io::read(&stdin, &mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    if !take(Some(splitter.push(&buffer[..read]))) {
                        return;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        take(None);
    });
}
