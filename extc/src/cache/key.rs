//! Cache keys: SHA-256 over length-prefixed fields under a purpose.
//!
//! Lengths keep fields apart (`ab`,`c` is not `a`,`bc`), and every key covers the compiler's
//! revision and the engine build, so a new program never finds what an old one wrote.

use sha2::{Digest, Sha256};
use std::fmt;

/// The revision of the compiler. Raise it when the same input produces different output: after a change to a pass, to the
/// linker's options, or to the meaning of metadata.
const COMPILER_REVISION: u32 = 10;

/// Identifies one compilation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// Starts a key for a purpose; keys of different purposes never collide.
    pub(crate) fn builder(purpose: &str) -> KeyBuilder {
        let mut builder = KeyBuilder { hasher: Sha256::new() };
        builder.field(purpose.as_bytes());
        builder.field(&COMPILER_REVISION.to_le_bytes());
        builder.field(env!("CARGO_PKG_VERSION").as_bytes());
        builder.field(pijs_engine::engine_build().to_string().as_bytes());
        builder
    }

    /// Returns the digest.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Parses the output of [`Key::hex`].
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Returns lower-case hexadecimal digits, for file names.
    pub(crate) fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// Hashes fields in order.
pub(crate) struct KeyBuilder {
    hasher: Sha256,
}

impl KeyBuilder {
    pub(crate) fn field(&mut self, content: &[u8]) -> &mut Self {
        self.hasher.update((content.len() as u64).to_le_bytes());
        self.hasher.update(content);
        self
    }

    pub(crate) fn finish(self) -> Key {
        Key(self.hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(purpose: &str, fields: &[&str]) -> Key {
        let mut builder = Key::builder(purpose);
        for field in fields {
            builder.field(field.as_bytes());
        }
        builder.finish()
    }

    #[test]
    fn moving_a_byte_between_fields_changes_the_key() {
        assert_ne!(key("p", &["ab", "c"]), key("p", &["a", "bc"]));
        assert_ne!(key("p", &["ab"]), key("pa", &["b"]));
        assert_eq!(key("p", &["ab", "c"]), key("p", &["ab", "c"]));
    }
}
