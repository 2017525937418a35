//! The screen: a [`View`] shared by several threads, and a thread that draws it and reads keys.
//!
//! The drawing thread is independent of the session: an extension that computes, or a call that waits for the user, blocks the
//! session but not the keys. The thread ends with [`Screen::close`].

use super::draw;
use super::input::TerminalInput;
use super::task::UiTask;
use super::tty::Tty;
use super::view::View;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// Maximum number of lines of the conversation that remain on the main screen.
const FAREWELL: usize = 1_000;

/// Events of the drawing thread.
enum Wake {
    Typed(Vec<TerminalInput>),
    /// The view has changed.
    Changed,
    /// The terminal was resized, or another program has drawn on it.
    Redraw,
    Close,
}

/// A handle to the screen.
#[derive(Clone)]
pub(super) struct Screen(Arc<ScreenState>);

struct ScreenState {
    view: Mutex<View>,
    wake: Sender<Wake>,
    work: mpsc::UnboundedSender<UiTask>,
    tty: Arc<Tty>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Screen {
    /// Starts drawing. The receiver yields work for the session's thread.
    pub(super) fn open(tty: Arc<Tty>) -> (Self, mpsc::UnboundedReceiver<UiTask>) {
        let (wake, wakes) = channel();
        let (work, works) = mpsc::unbounded_channel();
        let view = View::new(tty.size());
        let shared = ScreenState { view: Mutex::new(view), wake, work, tty, thread: Mutex::new(None) };
        let screen = Self(Arc::new(shared));
        let drawing = screen.clone();
        let thread = std::thread::spawn(move || drawing.draw(&wakes));
        *screen.0.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        let typing = screen.clone();
        super::tty::read(&screen.0.tty, move |typed| match typed {
            Some(inputs) => typing.0.wake.send(Wake::Typed(inputs)).is_ok(),
            None => {
                typing.change(|view| view.leave());
                typing.0.work.send(UiTask::Exit).is_ok()
            }
        });
        (screen, works)
    }

    /// Changes the view and redraws it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut View) -> R) -> R {
        let result = change(&mut self.view());
        // The drawing thread may have ended.
        let _ = self.0.wake.send(Wake::Changed);
        result
    }

    /// Reads the view.
    pub(super) fn read<R>(&self, read: impl FnOnce(&View) -> R) -> R {
        read(&self.view())
    }

    /// Sends work to the session's thread.
    pub(super) fn ask(&self, work: UiTask) {
        // The session may have ended.
        let _ = self.0.work.send(work);
    }

    /// Reads the size of the terminal.
    pub(super) fn measure(&self) {
        self.view().size = self.0.tty.size();
    }

    /// Handles a resized terminal after its size was published.
    pub(super) fn resized(&self) {
        // Visibility and position of components may depend on the size.
        self.view().pictures.dirty_all();
        self.redraw();
    }

    /// Copies text to the clipboard of a terminal that supports it.
    pub(super) fn copy(&self, text: &str) {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.0.tty.write(&format!("\u{1b}]52;c;{encoded}\u{7}"));
    }

    /// Redraws the whole screen.
    pub(super) fn redraw(&self) {
        let _ = self.0.wake.send(Wake::Redraw);
    }

    /// Restores the terminal while the program is stopped.
    pub(super) fn suspend(&self) {
        self.0.tty.restore();
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        // The program was continued.
        let _ = self.0.tty.enter();
        self.redraw();
    }

    /// Restores the terminal with its current contents.
    pub(super) fn give_back(&self) {
        self.0.tty.restore();
    }

    /// Restores the terminal for another program until `outside` completes.
    pub(super) async fn lend<R>(&self, outside: impl Future<Output = R>) -> R {
        // Takes the terminal back on drop as well, in case the session ends in between.
        struct LentTerminal<'a>(&'a Screen);
        impl Drop for LentTerminal<'_> {
            fn drop(&mut self) {
                // The reader detects a closed terminal.
                let _ = self.0.0.tty.take_back();
                self.0.redraw();
            }
        }
        self.0.tty.lend();
        let _lent = LentTerminal(self);
        outside.await
    }

    /// Restores the terminal and prints the conversation.
    pub(super) fn close(&self) {
        let _ = self.0.wake.send(Wake::Close);
        let thread = self.0.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The panic of the thread was already reported.
            let _ = thread.join();
            let lines = draw::farewell(&mut self.view(), FAREWELL);
            self.0.tty.restore();
            let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            self.0.tty.write(&text);
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.0.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, wakes: &Receiver<Wake>) {
        let mut shown: Vec<String> = Vec::new();
        let mut title = None;
        loop {
            let (lines, work, next) = {
                let mut view = self.view();
                let (lines, work) = draw::frame(&mut view, Instant::now());
                if view.session.title != title {
                    title.clone_from(&view.session.title);
                    let clean = pijs_terminal::plain(title.as_deref().unwrap_or_default());
                    let limits = pijs_terminal::Limits { styles: false, ..pijs_terminal::Limits::columns(120) };
                    let clean = pijs_terminal::within(&pijs_terminal::line(&clean), limits);
                    self.0.tty.draw(&format!("\u{1b}]0;{}\u{7}", clean.trim_end()));
                }
                (lines, work, view.next_change())
            };
            self.0.tty.draw(&draw::difference(&shown, &lines));
            shown = lines;
            for work in work {
                self.ask(work);
            }
            let drawn = Instant::now();
            // Animations are drawn when they are due, everything else when it changes.
            let first = match next {
                Some(after) => match wakes.recv_timeout(after) {
                    Ok(wake) => Some(wake),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                None => match wakes.recv() {
                    Ok(wake) => Some(wake),
                    Err(_) => return,
                },
            };
            let mut wake = first;
            while let Some(woken) = wake {
                match woken {
                    Wake::Close => return,
                    Wake::Changed => {}
                    Wake::Redraw => shown.clear(),
                    Wake::Typed(inputs) => {
                        for input in inputs {
                            let work = self.view().typed(&input, Instant::now());
                            for work in work {
                                self.ask(work);
                            }
                        }
                    }
                }
                let left = FRAME.saturating_sub(drawn.elapsed());
                wake = match wakes.try_recv() {
                    Ok(wake) => Some(wake),
                    Err(_) if !left.is_zero() => wakes.recv_timeout(left).ok(),
                    Err(_) => None,
                };
            }
        }
    }
}
