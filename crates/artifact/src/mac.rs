//! The keyed MAC: what tells bytecode of this installation from anybody's.
//!
//! HMAC-SHA256 over length-prefixed fields (purpose, format, engine build, id, bytes), so that no two
//! different inputs share one message. It is kept beside a cached artifact, never inside what
//! `extc build -o` writes: another installation has another key and must rebuild.

use crate::container::FORMAT_VERSION;
use hmac::{Hmac, Mac as _};
use pijs_protocol::artifact::EngineBuild;
use sha2::Sha256;
use std::fmt;

/// Separates this use of the key from any later one.
const PURPOSE: &[u8] = b"pijs artifact bytecode v1";

/// The secret of one installation: 32 random bytes in a file only its user reads.
///
/// `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct InstallKey([u8; 32]);

impl InstallKey {
    /// Wraps key bytes that came from the key file or from the system's randomness.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for InstallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstallKey(..)")
    }
}

/// What the key says about one artifact, one engine build and one id.
///
/// Deliberately without `PartialEq`: comparison belongs to [`Verified::check`](crate::Verified::check), which takes
/// the same time whatever differs.
#[derive(Debug, Clone)]
pub struct Mac([u8; 32]);

impl Mac {
    /// Wraps bytes read from a sidecar; `None` unless there are exactly 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes of a sidecar.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Signs encoded artifact bytes for one engine build and one id.
///
/// The id names what the artifact is used as (a package, the host module set), so that an authentic
/// artifact of one cannot stand in for another.
pub fn sign(key: &InstallKey, bytes: &[u8], engine: &EngineBuild, id: &str) -> Mac {
    Mac(message(key, bytes, engine, id).finalize().into_bytes().into())
}

/// Whether `mac` is what [`sign`] gives, compared in constant time. Bytecode goes through
/// [`Verified::check`](crate::Verified::check), which asks this.
pub fn verifies(key: &InstallKey, mac: &Mac, bytes: &[u8], engine: &EngineBuild, id: &str) -> bool {
    message(key, bytes, engine, id).verify_slice(&mac.0).is_ok()
}

fn message(key: &InstallKey, bytes: &[u8], engine: &EngineBuild, id: &str) -> Hmac<Sha256> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes keys of any length");
    let mut field = |content: &[u8]| {
        hmac.update(&(content.len() as u64).to_le_bytes());
        hmac.update(content);
    };
    field(PURPOSE);
    field(&FORMAT_VERSION.to_le_bytes());
    field(engine.name.as_bytes());
    field(engine.version.as_bytes());
    field(&engine.bytecode.to_le_bytes());
    field(engine.target.as_bytes());
    field(id.as_bytes());
    field(bytes);
    hmac
}
