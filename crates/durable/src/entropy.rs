//! Randomness of the system, for names and keys that must be unpredictable.

use std::io;

/// Fills `bytes` with randomness of the system.
///
/// # Errors
///
/// Fails when the system provides none. There is no fallback.
pub fn entropy(bytes: &mut [u8]) -> io::Result<()> {
    if crate::fault::has_no_entropy() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "no source of randomness (injected)"));
    }
    getrandom::fill(bytes).map_err(io::Error::other)
}
