//! The system's randomness, for names and keys that nobody may guess.

use std::io;

/// Fills `bytes` with randomness of the system.
///
/// # Errors
///
/// When the system has none. Who asks does without, or refuses; nothing takes its place.
pub fn entropy(bytes: &mut [u8]) -> io::Result<()> {
    if crate::fault::has_no_entropy() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "no source of randomness (injected)"));
    }
    getrandom::fill(bytes).map_err(io::Error::other)
}
