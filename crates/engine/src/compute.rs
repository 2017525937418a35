//! Pure computing that an interpreter is too slow for: digests, key derivation, ciphers, keys of two parts, compression.
//!
//! Each constructor of `pi:engine` here (`digest`, `cipher`, `compressor`) returns a function whose
//! state is a Rust value, freed with the function. Work is done in calls whose size the caller
//! chooses, so the realm's fuel counts the loop around them; those that cannot be cut (`deriveKey`,
//! `generateKey`) refuse what would take seconds. Names and shapes of errors are Node's and are made in TypeScript:
//! a failure that depends on the data is returned, not thrown.

pub(crate) mod brotli;
pub(crate) mod cipher;
pub(crate) mod derive;
pub(crate) mod digest;
pub(crate) mod keys;
pub(crate) mod zlib;
