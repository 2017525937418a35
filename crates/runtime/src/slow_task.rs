//! Notifies the user of slow work.
//!
//! The first line comes after two seconds, a line for each new task within two seconds of it, and further lines of one task
//! after twice as long each time. No line is shown while the user has a permission prompt to answer.

use crate::notices::Notices;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Delay of the first line of a task.
const NEXT: Duration = Duration::from_secs(2);

/// Work in progress. No line is shown after it is dropped.
pub struct SlowTask {
    what: Arc<Mutex<String>>,
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowTask {
    /// Starts work that `what` describes, as in `removing npm:x`.
    pub fn begin(notices: &Notices, what: impl Into<String>) -> Self {
        Self::after(notices, NEXT, what)
    }

    /// Starts work with another delay of the first line.
    pub fn after(notices: &Notices, first: Duration, what: impl Into<String>) -> Self {
        let what = Arc::new(Mutex::new(what.into()));
        let (done, ended) = channel();
        let (shown, notices) = (Arc::clone(&what), notices.clone());
        let thread = std::thread::Builder::new()
            .name("pi-slow".to_owned())
            .spawn(move || tell(&notices, first, &shown, &ended))
            .ok();
        Self { what, done: Some(done), thread }
    }

    /// Sets the current task.
    pub fn set_task(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }
}

fn tell(notices: &Notices, first: Duration, what: &Mutex<String>, ended: &Receiver<()>) {
    let (mut wait, mut shown) = (first, String::new());
    // Polls until the next line, and the interval after that.
    let (mut left, mut next) = (0_u32, 1_u32);
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = NEXT;
        if notices.has_open_prompt() {
            continue;
        }
        let now = what.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if now != shown {
            notices.progress(Some(&format!("{now} ...")));
            (left, next, shown) = (1, 2, now);
            continue;
        }
        left -= 1;
        if left == 0 {
            notices.progress(Some(&format!("still {now} ...")));
            (left, next) = (next, next.saturating_mul(2));
        }
    }
    if !shown.is_empty() {
        notices.progress(None);
    }
}

impl Drop for SlowTask {
    fn drop(&mut self) {
        drop(self.done.take());
        // No line appears after the output that follows.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_about_progress_is_removed_at_the_end_of_the_work() {
        let (sender, lines) = channel();
        let progress = move |line: Option<&str>| drop(sender.send(line.map(str::to_owned)));
        let notices = Notices::new(|_| {}).with_progress(progress);
        let task = SlowTask::after(&notices, Duration::ZERO, "loading it");
        assert_eq!(lines.recv(), Ok(Some("loading it ...".to_owned())));
        drop(task);
        assert_eq!(lines.recv(), Ok(None));
        // Nothing was shown, so nothing is removed.
        drop(SlowTask::begin(&notices, "removing it"));
        assert!(lines.try_recv().is_err());
    }
}
