//! Wakes the host when a realm in another process needs it.
//!
//! Each realm has a [`RealmWaker`], shared with the tasks that watch its worker and with the threads that answer its synchronous
//! hostcalls. Waking it notifies [`Host::drive`](crate::Host::drive), which then resumes the turn; the realm itself is never
//! touched from another thread.
//!
//! Watching needs a tokio runtime with its I/O and time drivers enabled (`enable_all`); hosts whose realms all run in the host's
//! thread need neither.

use pijs_hostcall::{Caller, Dispatcher, ReadCall};
use pijs_protocol::{CallId, ErrorCode, HostResult, HostcallError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Wakes the host for one realm.
pub(crate) struct RealmWaker {
    rung: AtomicBool,
    /// Whether the process has ended.
    dead: AtomicBool,
    shared: Mutex<SyncCall>,
    /// Notified when an answer arrives.
    arrived: Condvar,
    /// Notified when the wake-up time changes.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only processes are watched"))]
    retimed: Notify,
    /// Notifies the driver.
    wake: Arc<Notify>,
}

#[derive(Default)]
struct SyncCall {
    by: Option<Instant>,
    /// Answer to the synchronous hostcall that runs on another thread, once it is there.
    answer: Option<HostResult>,
    is_asking: bool,
}

impl RealmWaker {
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

    fn shared(&self) -> MutexGuard<'_, SyncCall> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self) {
        self.rung.store(true, Ordering::Release);
        // The driver is notified every time: an earlier wake-up may belong to a turn that is over.
        self.wake.notify_one();
    }

    /// Returns whether the waker was woken since the last call, and resets that.
    pub(crate) fn take_wakeup(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// Returns whether the realm's process has ended.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Runs a synchronous hostcall that may take long on a thread of its own. Returns the call if there is no tokio runtime.
    pub(crate) fn ask(
        self: &Arc<Self>,
        dispatcher: &Dispatcher,
        caller: &Caller,
        call: ReadCall,
    ) -> Result<(), Box<ReadCall>> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Err(Box::new(call)) };
        self.shared().is_asking = true;
        let (dispatcher, caller) = (dispatcher.clone(), caller.clone());
        let promise = AnswerGuard { waker: Arc::clone(self), call_id: Some(call.call_id().clone()) };
        runtime.spawn_blocking(move || {
            let (answer, _) = dispatcher.call_sync_until(&caller, call);
            promise.keep(answer);
        });
        Ok(())
    }

    /// Returns whether the realm waits for a hostcall on another thread.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.shared().is_asking
    }

    /// Takes the answer, if it has arrived.
    pub(crate) fn answer(&self) -> Option<HostResult> {
        let mut shared = self.shared();
        let answer = shared.answer.take();
        shared.is_asking &= answer.is_none();
        answer
    }

    /// Waits for an answer in flight, for at most this long.
    pub(crate) fn wait_for_answer(&self, patience: Duration) {
        let shared = self.shared();
        let waits = |shared: &mut SyncCall| shared.is_asking && shared.answer.is_none();
        drop(self.arrived.wait_timeout_while(shared, patience, waits));
    }

    fn bring(&self, answer: HostResult) {
        self.shared().answer = Some(answer);
        self.arrived.notify_all();
        self.wake();
    }
}

/// Guarantees that the realm gets an answer, even if the thread of the call panics.
struct AnswerGuard {
    waker: Arc<RealmWaker>,
    call_id: Option<CallId>,
}

impl AnswerGuard {
    fn keep(mut self, answer: HostResult) {
        self.call_id = None;
        self.waker.bring(answer);
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        if let Some(call_id) = self.call_id.take() {
            let error = HostcallError::new(ErrorCode::Internal, "the call was dropped; this is a bug in PiJS")
                .with("reason", "invariant");
            self.waker.bring(HostResult::failed(call_id, error));
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::DescriptorWatch;

#[cfg(target_os = "linux")]
mod linux {
    use super::RealmWaker;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::task::AbortHandle;

    /// Polling interval without a socket to watch, and minimum interval between timed wake-ups.
    const LOOK_EVERY: Duration = Duration::from_millis(5);

    /// A task that watches a file descriptor. Dropping this value stops the task.
    pub(crate) struct DescriptorWatch(AbortHandle);

    impl Drop for DescriptorWatch {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    impl DescriptorWatch {
        /// Wakes the host when a turn can continue.
        pub(crate) fn turn(socket: Option<OwnedFd>, by: Option<Instant>, waker: &Arc<RealmWaker>) -> Self {
            waker.set_time(by);
            let waker = Arc::clone(waker);
            Self(tokio::spawn(async move { watch_turn(socket, &waker).await }).abort_handle())
        }

        /// Wakes the host when a process ends, and marks it as dead.
        pub(crate) fn death(process: OwnedFd, waker: &Arc<RealmWaker>) -> Option<Self> {
            let process = registered(process, Interest::READABLE)?;
            let waker = Arc::clone(waker);
            let watch = async move {
                if process.readable().await.is_ok() {
                    waker.dead.store(true, Ordering::Release);
                    waker.wake();
                }
            };
            Some(Self(tokio::spawn(watch).abort_handle()))
        }
    }

    impl RealmWaker {
        /// Sets the time at which the host is woken in any case.
        pub(crate) fn set_time(&self, by: Option<Instant>) {
            let before = std::mem::replace(&mut self.shared().by, by);
            if by.is_some_and(|by| by <= Instant::now()) {
                self.wake();
            } else if before != by {
                self.retimed.notify_one();
            }
        }
    }

    #[expect(deprecated, reason = "unsound for what closes its descriptor early, which an owned one cannot do")]
    fn registered(descriptor: OwnedFd, interest: Interest) -> Option<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(descriptor, interest).ok()
    }

    async fn watch_turn(socket: Option<OwnedFd>, waker: &RealmWaker) {
        // Waits for both: a worker may read what was sent to it, or write.
        let interest = Interest::READABLE | Interest::WRITABLE;
        let mut socket = socket.and_then(|socket| registered(socket, interest));
        let mut earliest = Instant::now();
        loop {
            let by = waker.shared().by.map(|by| by.max(earliest));
            let look = if socket.is_some() { by } else { Some(Instant::now() + LOOK_EVERY) };
            tokio::select! {
                biased;
                () = waker.retimed.notified() => continue,
                is_open = readiness(socket.as_ref(), interest) => if !is_open {
                    // A socket that was closed by the peer stays ready.
                    socket = None;
                },
                () = until(look) => earliest = Instant::now() + LOOK_EVERY,
            }
            waker.wake();
        }
    }

    /// Waits until the socket is ready, and returns whether more events can follow. Without a socket it waits forever.
    async fn readiness(socket: Option<&AsyncFd<OwnedFd>>, interest: Interest) -> bool {
        match socket {
            // The socket is not read here, so only the next edge matters.
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
