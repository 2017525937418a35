//! Maps signals to Node's names.

use rustix::process::Signal;

/// Signals that both Linux and macOS have.
const NAMES: &[(&str, Signal)] = &[
    ("SIGHUP", Signal::HUP),
    ("SIGINT", Signal::INT),
    ("SIGQUIT", Signal::QUIT),
    ("SIGILL", Signal::ILL),
    ("SIGTRAP", Signal::TRAP),
    ("SIGABRT", Signal::ABORT),
    ("SIGBUS", Signal::BUS),
    ("SIGFPE", Signal::FPE),
    ("SIGKILL", Signal::KILL),
    ("SIGUSR1", Signal::USR1),
    ("SIGSEGV", Signal::SEGV),
    ("SIGUSR2", Signal::USR2),
    ("SIGPIPE", Signal::PIPE),
    ("SIGALRM", Signal::ALARM),
    ("SIGTERM", Signal::TERM),
    ("SIGCHLD", Signal::CHILD),
    ("SIGCONT", Signal::CONT),
    ("SIGSTOP", Signal::STOP),
    ("SIGTSTP", Signal::TSTP),
    ("SIGTTIN", Signal::TTIN),
    ("SIGTTOU", Signal::TTOU),
    ("SIGURG", Signal::URG),
    ("SIGXCPU", Signal::XCPU),
    ("SIGXFSZ", Signal::XFSZ),
    ("SIGVTALRM", Signal::VTALARM),
    ("SIGPROF", Signal::PROF),
    ("SIGWINCH", Signal::WINCH),
    ("SIGIO", Signal::IO),
    ("SIGSYS", Signal::SYS),
];

/// Returns the name of a signal number.
pub(super) fn name(number: i32) -> &'static str {
    NAMES.iter().find(|(_, signal)| signal.as_raw() == number).map_or("SIGUNKNOWN", |(name, _)| name)
}

/// Returns the signal with a name.
pub(super) fn named(name: &str) -> Option<Signal> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

/// Returns the signal with a number.
pub(super) fn numbered(number: u64) -> Option<Signal> {
    NAMES.iter().map(|(_, signal)| *signal).find(|signal| u64::from(signal.as_raw().unsigned_abs()) == number)
}
