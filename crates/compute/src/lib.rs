//! Computation that is too slow in an interpreter: digests, key derivation, ciphers, asymmetric keys, compression.
//!
//! Everything here is a function of bytes: no clock, only randomness that is passed in, no JavaScript engine. `pijs-engine`
//! exposes it to a realm as functions of `pi:engine`. The caller chooses the input size of each call, so that the realm's fuel
//! limits the loop around the calls; calls that cannot be split ([`mod@derive`], [`keys::generate`]) refuse work that would take
//! seconds.
//!
//! | module | computes |
//! |---|---|
//! | [`digest`] | digests and HMACs |
//! | [`mod@derive`] | PBKDF2, scrypt, HKDF |
//! | [`mod@cipher`] | AES in the modes CBC, CTR, ECB and GCM |
//! | [`keys`] | RSA, elliptic curves, Ed25519 and X25519 |
//! | [`zlib`] | deflate, gzip, brotli, CRC-32 |
//!
//! Kinds, modes and digests have Node's names. A failure that depends on the data is returned as a value, which TypeScript code
//! converts to Node's errors.

#![warn(clippy::disallowed_methods)]
#![warn(missing_docs)]

mod brotli;
pub mod cipher;
pub mod derive;
pub mod digest;
pub mod keys;
pub mod zlib;

/// A computation that is refused because it would take seconds or too much memory, or because its parameters are inconsistent;
/// the text says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub &'static str);
