//! The host with real realms and real host modules, and a driver that owns time.

mod allocations;
mod calls;
mod embed;
mod events;
// Only there do realms tell their host to look again.
#[cfg(target_os = "linux")]
mod interleaved;
mod lab;
mod liar;
mod load;
mod source_excerpts;
mod stopped;
mod stream;
mod wait_limits;
mod wire;
