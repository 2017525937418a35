//! Handles signals that ask the program to end: Ctrl-C, SIGTERM, a closed terminal.
//!
//! A session ends itself on a signal: it cancels running work, notifies extensions and flushes its files. One thread does all of
//! that, and can be blocked forever: by unread output or by a disk. A second thread receives the same signals, and ends the
//! process if it still runs [`SHUTDOWN_TIMEOUT`] later. The effect is that of killing the process: workers and programs end with
//! it.

use crate::user_error::{Result, UserError};
use pijs_protocol::guard;
use rustix::process::{Signal, getpid, kill_process};
use std::time::Duration;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout;

/// Maximum wait for extensions' shutdown handlers.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Maximum wait for a session to end; each of its own steps has less.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum wait after a second signal, and for the last output.
const SECOND_SIGNAL_GRACE: Duration = Duration::from_secs(2);

/// Receives signals.
pub struct ShutdownSignals {
    signals: [unix::Signal; 3],
}

impl ShutdownSignals {
    /// Stops signals from ending the process. `last` runs, if there is time, before the process of a session that did not end is
    /// ended.
    pub fn listen(last: impl FnOnce() + Send + 'static) -> Result<Self> {
        let failed = |error| UserError::failed(format!("cannot handle signals: {error}"));
        let received = Self::new().map_err(failed)?;
        if guard!(ShutdownDeadline)
            && std::thread::Builder::new().name("stops".to_owned()).spawn(move || end_late(last)).is_err()
        {
            tracing::warn!("cannot start the shutdown thread");
        }
        Ok(received)
    }

    fn new() -> std::io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(unix::signal);
        Ok(Self { signals: [interrupt?, terminate?, hangup?] })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// Ends the process if it still runs some time after a signal.
#[expect(clippy::exit, reason = "the thread that would return from `main` is held up")]
fn end_late(last: impl FnOnce() + Send + 'static) {
    // It has its own runtime, because the session's may be blocked. If it cannot be created, this thread ends no process.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let received = runtime.block_on(async {
        let mut signals = ShutdownSignals::new()?;
        signals.next().await;
        let _ = timeout(SHUTDOWN_TIMEOUT, signals.next()).await;
        tokio::time::sleep(SECOND_SIGNAL_GRACE).await;
        std::io::Result::Ok(())
    });
    if received.is_err() {
        return;
    }
    // Output may block forever, too.
    std::thread::spawn(move || {
        last();
        std::process::exit(130);
    });
    std::thread::sleep(SECOND_SIGNAL_GRACE);
    let _ = kill_process(getpid(), Signal::KILL);
}
