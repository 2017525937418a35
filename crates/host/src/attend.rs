//! Being told when a realm in another process has something to say.
//!
//! [`Bell`] is what rings: one per realm, shared with the tasks that watch its worker and with the threads that
//! answer its synchronous hostcalls. Ringing wakes [`Host::drive`](crate::Host::drive), which then goes on with
//! the turn; nothing of the realm itself is touched from another thread.
//!
//! Watching needs a tokio runtime with its I/O and time drivers on (`enable_all`); hosts whose realms all run in
//! the thread need neither.

use pijs_hostcall::{Caller, Dispatcher, ReadCall};
use pijs_protocol::{CallId, ErrorCode, HostResult, HostcallError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Rings when a realm needs its host.
pub(crate) struct Bell {
    rung: AtomicBool,
    /// The process has ended.
    dead: AtomicBool,
    shared: Mutex<Shared>,
    /// An answer has come in.
    arrived: Condvar,
    /// The time at which to ring has changed.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only processes are watched"))]
    retimed: Notify,
    /// Wakes the driver.
    wake: Arc<Notify>,
}

#[derive(Default)]
struct Shared {
    by: Option<Instant>,
    /// The answer to the synchronous hostcall that is under way on another thread.
    answer: Option<HostResult>,
    is_asking: bool,
}

impl Bell {
    pub(crate) fn new(wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            rung: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            shared: Mutex::default(),
            arrived: Condvar::new(),
            retimed: Notify::new(),
            wake,
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        // Every time: it may have rung, unheard, since a turn that is long over.
        self.wake.notify_one();
    }

    /// Whether it rang since the last time somebody asked.
    pub(crate) fn heard(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// Whether the realm's process has ended.
    pub(crate) fn tolls(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Runs a synchronous hostcall that may take its time on a thread of its own. Returns the call if there is no runtime to
    /// do it.
    pub(crate) fn ask(
        self: &Arc<Self>,
        dispatcher: &Dispatcher,
        caller: &Caller,
        call: ReadCall,
    ) -> Result<(), Box<ReadCall>> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Err(Box::new(call)) };
        self.shared().is_asking = true;
        let (dispatcher, caller) = (dispatcher.clone(), caller.clone());
        let promise = Promise { bell: Arc::clone(self), call_id: Some(call.call_id().clone()) };
        runtime.spawn_blocking(move || {
            let (answer, _) = dispatcher.call_sync_until(&caller, call);
            promise.keep(answer);
        });
        Ok(())
    }

    /// Whether the realm waits for such a call.
    pub(crate) fn is_asking(&self) -> bool {
        self.shared().is_asking
    }

    /// The answer, if it is there.
    pub(crate) fn answer(&self) -> Option<HostResult> {
        let mut shared = self.shared();
        let answer = shared.answer.take();
        shared.is_asking &= answer.is_none();
        answer
    }

    /// Waits for an answer that is under way, for at most this long.
    pub(crate) fn wait_for_answer(&self, patience: Duration) {
        let shared = self.shared();
        let waits = |shared: &mut Shared| shared.is_asking && shared.answer.is_none();
        drop(self.arrived.wait_timeout_while(shared, patience, waits));
    }

    fn bring(&self, answer: HostResult) {
        self.shared().answer = Some(answer);
        self.arrived.notify_all();
        self.ring();
    }
}

/// An answer that will come: also when the thread that works on it does not survive.
struct Promise {
    bell: Arc<Bell>,
    call_id: Option<CallId>,
}

impl Promise {
    fn keep(mut self, answer: HostResult) {
        self.call_id = None;
        self.bell.bring(answer);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(call_id) = self.call_id.take() {
            let error = HostcallError::new(ErrorCode::Internal, "the call was given up; this is a bug of the host")
                .with("reason", "invariant");
            self.bell.bring(HostResult::failed(call_id, error));
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::Watch;

#[cfg(target_os = "linux")]
mod linux {
    use super::Bell;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::task::AbortHandle;

    /// Between two looks where nothing tells us.
    const LOOK_EVERY: Duration = Duration::from_millis(5);

    /// A task that watches a file descriptor. Dropping it ends the task.
    pub(crate) struct Watch(AbortHandle);

    impl Drop for Watch {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    impl Watch {
        /// Rings when a turn can go on.
        pub(crate) fn turn(socket: Option<OwnedFd>, by: Option<Instant>, bell: &Arc<Bell>) -> Self {
            bell.set_time(by);
            let bell = Arc::clone(bell);
            Self(tokio::spawn(async move { watch_turn(socket, &bell).await }).abort_handle())
        }

        /// Rings for good when a process ends.
        pub(crate) fn death(process: OwnedFd, bell: &Arc<Bell>) -> Option<Self> {
            let process = registered(process, Interest::READABLE)?;
            let bell = Arc::clone(bell);
            let watch = async move {
                if process.readable().await.is_ok() {
                    bell.dead.store(true, Ordering::Release);
                    bell.ring();
                }
            };
            Some(Self(tokio::spawn(watch).abort_handle()))
        }
    }

    impl Bell {
        /// When to ring, whatever happens.
        pub(crate) fn set_time(&self, by: Option<Instant>) {
            let before = std::mem::replace(&mut self.shared().by, by);
            if by.is_some_and(|by| by <= Instant::now()) {
                self.ring();
            } else if before != by {
                self.retimed.notify_one();
            }
        }
    }

    #[expect(deprecated, reason = "unsound for what closes its descriptor early, which an owned one cannot do")]
    fn registered(descriptor: OwnedFd, interest: Interest) -> Option<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(descriptor, interest).ok()
    }

    async fn watch_turn(socket: Option<OwnedFd>, bell: &Bell) {
        // Both at once: a worker may take what was sent to it, or say something.
        let interest = Interest::READABLE | Interest::WRITABLE;
        let mut socket = socket.and_then(|socket| registered(socket, interest));
        let mut earliest = Instant::now();
        loop {
            let by = bell.shared().by.map(|by| by.max(earliest));
            let look = if socket.is_some() { by } else { Some(Instant::now() + LOOK_EVERY) };
            tokio::select! {
                biased;
                () = bell.retimed.notified() => continue,
                is_open = readiness(socket.as_ref(), interest) => if !is_open {
                    // A socket that was hung up is ready for ever.
                    socket = None;
                },
                () = until(look) => earliest = Instant::now() + LOOK_EVERY,
            }
            bell.ring();
        }
    }

    /// Waits for news from the socket, and says whether more can come; for ever without one.
    async fn readiness(socket: Option<&AsyncFd<OwnedFd>>, interest: Interest) -> bool {
        match socket {
            // It is never read here: the next edge counts.
            Some(socket) => match socket.ready(interest).await {
                Ok(mut ready) => {
                    let is_closed = ready.ready().is_read_closed() || ready.ready().is_write_closed();
                    ready.clear_ready();
                    !is_closed
                }
                Err(_) => false,
            },
            None => std::future::pending().await,
        }
    }

    async fn until(moment: Option<Instant>) {
        match moment {
            Some(moment) => tokio::time::sleep_until(moment.into()).await,
            None => std::future::pending().await,
        }
    }
}
