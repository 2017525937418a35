//! The keyed MAC, which authenticates bytecode of this installation.
//!
//! HMAC-SHA256 over length-prefixed fields (purpose, format, engine build, id, bytes), so that no two different inputs share one
//! message. It is stored beside a cached artifact, never in the output of `extc build -o`: another installation has another key
//! and must rebuild.

use crate::container::FORMAT_VERSION;
use hmac::{Hmac, Mac as _};
use pijs_protocol::artifact::EngineBuild;
use sha2::Sha256;
use std::fmt;

/// Separates this use of the key from future uses.
const PURPOSE: &[u8] = b"pijs artifact bytecode v1";

/// The secret of one installation: 32 random bytes in a file that only its user reads.
///
/// `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct InstallKey([u8; 32]);

impl InstallKey {
    /// Wraps key bytes from the key file or from the system's randomness.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for InstallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstallKey(..)")
    }
}

/// The MAC of one artifact for one engine build and one id.
///
/// Has no `PartialEq` on purpose: [`Verified::check`](crate::Verified::check) compares it in constant time.
#[derive(Debug, Clone)]
pub struct Mac([u8; 32]);

impl Mac {
    /// Wraps bytes of a sidecar file; `None` unless there are exactly 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes of the sidecar file.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Signs encoded artifact bytes for one engine build and one id.
///
/// The id names the use of the artifact (a package, the host modules), so that an authentic artifact cannot be used as another.
pub fn sign(key: &InstallKey, bytes: &[u8], engine: &EngineBuild, id: &str) -> Mac {
    Mac(message(key, bytes, engine, id).finalize().into_bytes().into())
}

/// Returns whether `mac` matches, in constant time. Bytecode is checked with [`Verified::check`](crate::Verified::check), which
/// calls this.
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
