//! Runs `pi` on a pseudo-terminal, and renders the screen that a user would see.

use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time to wait for a text.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const ROWS: u16 = 30;
pub(crate) const COLUMNS: u16 = 90;

fn side_length(length: u16) -> NonZero<u16> {
    NonZero::new(length).expect("a screen has room")
}

/// The terminal's output, as bytes and as a screen.
struct TerminalOutput {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    is_over: bool,
}

/// A running `pi` and the user's side of its terminal.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    seen: Arc<(Mutex<TerminalOutput>, Condvar)>,
}

impl Terminal {
    pub(crate) fn start(mut command: Command) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        let side = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("pi starts");
        // Reading ends when no process has the other side open.
        drop((pty.slave, command));
        let master = File::from(pty.master);
        let parser = vt100::Parser::new(side_length(ROWS), side_length(COLUMNS), 1_000);
        let seen = Arc::new((Mutex::new(TerminalOutput { parser, bytes: Vec::new(), is_over: false }), Condvar::new()));
        let (mut from, shared) = (master.try_clone().expect("a descriptor"), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let read = from.read(&mut buffer).unwrap_or(0);
                let mut seen = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
                seen.parser.process(&buffer[..read]);
                seen.bytes.extend_from_slice(&buffer[..read]);
                seen.is_over = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self { child, master, seen }
    }

    fn seen(&self) -> MutexGuard<'_, TerminalOutput> {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("a terminal that listens");
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.send(line);
        self.send("\r");
    }

    /// Types a line, and waits until `text` is on the screen.
    #[track_caller]
    pub(crate) fn answers(&mut self, line: &str, text: &str) -> Vec<String> {
        self.say(line);
        self.sees(text)
    }

    /// Presses keys, and waits until `text` is on the screen.
    #[track_caller]
    pub(crate) fn presses(&mut self, keys: &str, text: &str) -> Vec<String> {
        self.send(keys);
        self.sees(text)
    }

    /// Presses a key twice, within the time of a double press; repeats this if the machine was too slow.
    #[track_caller]
    pub(crate) fn presses_twice(&mut self, key: &str, text: &str) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.send(key);
            self.send(key);
            let is_so = |rows: &[String]| rows.iter().any(|row| row.contains(text));
            if let Some(rows) = self.within(Duration::from_secs(2), is_so) {
                return rows;
            }
            assert!(Instant::now() < deadline, "{text} did not come:\n{}", rows_of(&self.seen()).join("\n"));
        }
    }

    /// Resizes the terminal.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.seen().parser.screen_mut().set_size(side_length(rows), side_length(columns));
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.master, size).expect("a terminal has a size");
        // This is not the program's controlling terminal, which would send the signal itself.
        self.signal(rustix::process::Signal::WINCH);
    }

    /// Sends the program a termination signal, as a service manager does.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends a signal; errors are ignored, because an earlier signal may have ended the program.
    pub(crate) fn tell(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal);
    }

    /// Returns the process ids of the program's workers.
    pub(crate) fn workers(&self) -> Vec<rustix::process::Pid> {
        let parent = self.child.id().to_string();
        let all = std::fs::read_dir("/proc").expect("it is mounted").flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_worker = |number: &i32| {
            let read = |name: &str| std::fs::read_to_string(format!("/proc/{number}/{name}")).unwrap_or_default();
            let parent_of = read("status").lines().find_map(|line| Some(line.strip_prefix("PPid:")?.trim().to_owned()));
            parent_of.as_deref() == Some(&parent) && read("cmdline").starts_with("pijs-worker")
        };
        let found: Vec<_> = numbers.filter(is_worker).filter_map(rustix::process::Pid::from_raw).collect();
        assert!(!found.is_empty(), "an extension runs in a process of its own");
        found
    }

    /// Returns the line settings of the terminal.
    pub(crate) fn line_modes(&self) -> String {
        line_modes(&self.master)
    }

    /// Returns the line settings of an unused terminal.
    pub(crate) fn fresh_line_modes() -> String {
        line_modes(&File::from(openpty(None, None).expect("a pseudo-terminal").master))
    }

    /// Returns whether the alternate screen is on, the cursor is hidden, and bracketed paste is on.
    pub(crate) fn screen_modes(&self) -> [bool; 3] {
        let seen = self.seen();
        let screen = seen.parser.screen();
        [screen.alternate_screen(), screen.hide_cursor(), screen.bracketed_paste()]
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Waits until the screen satisfies `is_so`, and returns the rows.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        self.within(PATIENCE, is_so)
            .unwrap_or_else(|| panic!("{what} did not come:\n{}", rows_of(&self.seen()).join("\n")))
    }

    /// Returns the rows once they satisfy `is_so`; returns `None` if they do not in time, or if the program has ended.
    fn within(&self, time: Duration, is_so: impl Fn(&[String]) -> bool) -> Option<Vec<String>> {
        let deadline = Instant::now() + time;
        let mut seen = self.seen();
        loop {
            let rows = rows_of(&seen);
            if is_so(&rows) {
                return Some(rows);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.is_over {
                return None;
            }
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `text` is in some row.
    #[track_caller]
    pub(crate) fn sees(&self, text: &str) -> Vec<String> {
        self.until(text, |rows| rows.iter().any(|row| row.contains(text)))
    }

    /// Presses keys until `text` is in some row, because keys are ignored until the extension's output is readable.
    #[track_caller]
    pub(crate) fn insists(&mut self, keys: &str, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.send(keys);
            let shown = self.within(Duration::from_millis(500), |rows| rows.iter().any(|row| row.contains(text)));
            if shown.is_some() {
                return;
            }
        }
        panic!("{text} did not come:\n{}", rows_of(&self.seen()).join("\n"));
    }

    /// Waits until `text` is in no row.
    #[track_caller]
    pub(crate) fn sees_no_more(&self, text: &str) -> Vec<String> {
        self.until(&format!("the end of {text}"), |rows| !rows.iter().any(|row| row.contains(text)))
    }

    /// Returns whether a character of the screen is bold.
    pub(crate) fn is_bold(&self, row: usize, column: u16) -> bool {
        let seen = self.seen();
        let row = u16::try_from(row).expect("a row of the screen");
        seen.parser.screen().cell(row, column).is_some_and(vt100::Cell::bold)
    }

    /// Waits until `pi` accepts input.
    #[track_caller]
    pub(crate) fn is_ready(&self) {
        self.sees("ctrl+c twice: quit");
        self.sees("pi  script:");
    }

    /// Waits until the program exits. Returns the exit code and all output.
    #[track_caller]
    pub(crate) fn ends(mut self) -> (i32, String) {
        self.ended()
    }

    /// Waits until the program exits, and keeps the terminal. Returns the exit code and all output.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        {
            let mut seen = self.seen();
            while !seen.is_over {
                let left = deadline.saturating_duration_since(Instant::now());
                let rows: Vec<String> = rows_of(&seen);
                assert!(!left.is_zero(), "pi did not end:\n{}", rows.join("\n"));
                seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let code = self.child.wait().expect("an end").code().unwrap_or(-1);
        let seen = self.seen();
        (code, String::from_utf8_lossy(&seen.bytes).into_owned())
    }
}

fn line_modes(terminal: &File) -> String {
    let modes = rustix::termios::tcgetattr(terminal).expect("a terminal has modes");
    format!("{:?} {:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes)
}

fn rows_of(seen: &TerminalOutput) -> Vec<String> {
    let screen = seen.parser.screen();
    screen.rows(0, screen.size().1.get()).collect()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test, the program may still be running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
