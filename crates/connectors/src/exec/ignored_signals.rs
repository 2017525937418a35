//! Restores ignored signals before a program starts, because the program would inherit them. A shell ignores some signals in
//! background processes.
//!
//! A signal with a handler is not inherited: the kernel resets it when another program is executed. Node does the same.

use rustix::process::Signal;
use std::sync::Once;
use tokio::signal::unix::{SignalKind, signal};

/// Installs an empty handler for every ignored signal, once for this process. In effect, the process still ignores these signals.
pub(super) fn install_handlers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ignored = ignored();
        if ignored != 0 {
            // On a dedicated thread, because a runtime cannot be dropped inside another one. The handlers remain installed after
            // the thread has ended.
            let _ = std::thread::spawn(move || listen(ignored)).join();
        }
    });
}

/// Returns the mask of ignored signals; 0 if the system does not report it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    // The standard library ignores `SIGPIPE`, and restores it itself.
    ignored.unwrap_or(0) & !(1 << (Signal::PIPE.as_raw() - 1))
}

fn listen(ignored: u64) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    let _inside = runtime.enter();
    for number in (1..=64).filter(|number| ignored & (1 << (number - 1)) != 0) {
        // Some numbers are reserved by the C library.
        let _ = signal(SignalKind::from_raw(number));
    }
}
