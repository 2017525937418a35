//! Pure computing that an interpreter is too slow for: digests, key derivation, ciphers, keys of two parts, compression.
//!
//! Everything here is a function of bytes: no clock, no randomness that is not passed in, no JavaScript engine. `pijs-engine`
//! offers it to a realm as functions of `pi:engine`. Work is done in calls whose size the caller chooses, so that a realm's
//! fuel counts the loop around them; those that cannot be cut ([`mod@derive`], [`keys::generate`]) refuse what would take seconds.
//!
//! | module | computes |
//! |---|---|
//! | [`digest`] | digests and HMACs |
//! | [`mod@derive`] | PBKDF2, scrypt, HKDF |
//! | [`mod@cipher`] | AES in the modes CBC, CTR, ECB and GCM |
//! | [`keys`] | RSA, elliptic curves, Ed25519 and X25519 |
//! | [`zlib`] | deflate, gzip, brotli, CRC-32 |
//!
//! Kinds, modes and digests have Node's names. A failure that depends on the data is a value; Node's errors are made in
//! TypeScript.

#![warn(clippy::disallowed_methods)]
#![warn(missing_docs)]

mod brotli;
pub mod cipher;
pub mod derive;
pub mod digest;
pub mod keys;
pub mod zlib;

/// A computation that is not begun, since it would take seconds or too much memory, or since its parameters do not fit
/// together; the text says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub &'static str);
