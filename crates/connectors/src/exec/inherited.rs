//! Signals that are ignored here, as a shell has it for what runs in the background: a program would ignore them, too.
//!
//! Those that are listened to are not inherited: the kernel puts them back for another program. So is it in Node.

use rustix::process::Signal;
use std::sync::Once;
use tokio::signal::unix::{SignalKind, signal};

/// Listens to every signal that is ignored, once for this process. What comes of them is as before: nothing.
pub(super) fn stop_ignoring() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ignored = ignored();
        if ignored != 0 {
            // A thread of its own, since a runtime cannot end inside another one. What listens stays when it is gone.
            let _ = std::thread::spawn(move || listen(ignored)).join();
        }
    });
}

/// One bit for each signal; 0 where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    // The standard library ignores this one, and puts it back itself.
    ignored.unwrap_or(0) & !(1 << (Signal::PIPE.as_raw() - 1))
}

fn listen(ignored: u64) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    let _inside = runtime.enter();
    for number in (1..=64).filter(|number| ignored & (1 << (number - 1)) != 0) {
        // Some numbers belong to the C library.
        let _ = signal(SignalKind::from_raw(number));
    }
}
