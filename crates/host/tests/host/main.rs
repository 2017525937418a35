//! Tests of the host with real realms and real host modules, and a driver that controls time.

mod allocations;
mod calls;
mod embed;
mod events;
// Only on Linux do realms tell the host when to poll again.
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
