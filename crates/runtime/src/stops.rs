//! What asks the program to end: Ctrl-C, a service that stops, a terminal that is closed.
//!
//! A session ends itself: it hears a signal, stops what is on, lets extensions say good-bye and writes down what it
//! has to. All of that is done by one thread, which may be held up for ever: nobody reads what it says, a disk does not
//! answer. So a second thread hears the same signals, and ends the process when it is still there [`PATIENCE`] later.
//! What a process that is killed leaves behind is what this one does: workers and programs end with it.

use crate::{Failure, Result};
use pijs_protocol::guard;
use rustix::process::{Signal, getpid, kill_process};
use std::time::Duration;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout;

/// How long extensions may take to say good-bye before the session ends without them.
pub const GOODBYE: Duration = Duration::from_secs(5);
/// How long a session may take to end once it was told to; each of its own steps has less.
const PATIENCE: Duration = Duration::from_secs(15);
/// The same after a second signal, and for the last words.
const HASTE: Duration = Duration::from_secs(2);

/// Hears the signals.
pub struct Stops {
    signals: [unix::Signal; 3],
}

impl Stops {
    /// From now on signals do not end the process by themselves. `last` is what is done, if there is time, before
    /// a process ends that did not end its session.
    pub fn listen(last: impl FnOnce() + Send + 'static) -> Result<Self> {
        let failed = |error| Failure::failed(format!("signals cannot be heard: {error}"));
        let heard = Self::new().map_err(failed)?;
        if guard!(ShutdownDeadline)
            && std::thread::Builder::new().name("stops".to_owned()).spawn(move || end_late(last)).is_err()
        {
            tracing::warn!("no thread for an end that comes late");
        }
        Ok(heard)
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

/// Ends the process once it was told to end and has not.
#[expect(clippy::exit, reason = "the thread that would return from `main` is held up")]
fn end_late(last: impl FnOnce() + Send + 'static) {
    // A runtime of its own: that of the session is what may be held up. Without one nobody ends late.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let heard = runtime.block_on(async {
        let mut stops = Stops::new()?;
        stops.next().await;
        let _ = timeout(PATIENCE, stops.next()).await;
        tokio::time::sleep(HASTE).await;
        std::io::Result::Ok(())
    });
    if heard.is_err() {
        return;
    }
    // Saying something may take for ever, too.
    std::thread::spawn(move || {
        last();
        std::process::exit(130);
    });
    std::thread::sleep(HASTE);
    let _ = kill_process(getpid(), Signal::KILL);
}
