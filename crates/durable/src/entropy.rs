//! Randomness of the system, for names and keys that must be unpredictable.

use std::io;

/// Fills `bytes` with randomness of the system.
///
/// # Errors
///
/// Fails if the system does not provide randomness. There is no fallback.
pub fn entropy(bytes: &mut [u8]) -> io::Result<()> {
    if is_off() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "no source of randomness (injected)"));
    }
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// Returns whether `PIJS_FAULT` is `entropy`, which simulates a system without randomness. Always `false` in a build without
/// guard switches.
fn is_off() -> bool {
    pijs_protocol::guard::SWITCHES && std::env::var_os("PIJS_FAULT").is_some_and(|fault| fault == "entropy")
}
