//! Message digests and HMACs, fed in pieces.

use digest::{FixedOutput, KeyInit, Update};
use hmac::Hmac;
use std::fmt;

/// Calls `$run` with the digest type of `$name`; `None` for an unknown name.
macro_rules! with_digest {
    ($name:expr, $run:ident, ($($argument:expr),*)) => {
        match $name {
            "md5" => Some($run::<md5::Md5>($($argument),*)),
            "ripemd160" => Some($run::<ripemd::Ripemd160>($($argument),*)),
            "sha1" => Some($run::<sha1::Sha1>($($argument),*)),
            "sha224" => Some($run::<sha2::Sha224>($($argument),*)),
            "sha256" => Some($run::<sha2::Sha256>($($argument),*)),
            "sha384" => Some($run::<sha2::Sha384>($($argument),*)),
            "sha512" => Some($run::<sha2::Sha512>($($argument),*)),
            "sha512-224" => Some($run::<sha2::Sha512_224>($($argument),*)),
            "sha512-256" => Some($run::<sha2::Sha512_256>($($argument),*)),
            "sha3-224" => Some($run::<sha3::Sha3_224>($($argument),*)),
            "sha3-256" => Some($run::<sha3::Sha3_256>($($argument),*)),
            "sha3-384" => Some($run::<sha3::Sha3_384>($($argument),*)),
            "sha3-512" => Some($run::<sha3::Sha3_512>($($argument),*)),
            _ => None,
        }
    };
}
pub(crate) use with_digest;

/// The traits that every digest of the table implements.
pub(crate) trait AnyDigest: digest::Digest + Update + FixedOutput + Default + Clone + 'static {}
impl<D: digest::Digest + Update + FixedOutput + Default + Clone + 'static> AnyDigest for D {}

/// A digest or an HMAC in progress, independent of its type.
trait DigestState {
    fn update(&mut self, bytes: &[u8]);
    fn finish(self: Box<Self>) -> Vec<u8>;
    fn copy(&self) -> Box<dyn DigestState>;
}

impl<T: Update + FixedOutput + Clone + 'static> DigestState for T {
    fn update(&mut self, bytes: &[u8]) {
        Update::update(self, bytes);
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize_fixed().to_vec()
    }
    fn copy(&self) -> Box<dyn DigestState> {
        Box::new(self.clone())
    }
}

fn plain<D: AnyDigest>() -> Box<dyn DigestState> {
    Box::new(D::default())
}

fn keyed(name: &str, key: &[u8]) -> Option<Box<dyn DigestState>> {
    macro_rules! hmac {
        ($($text:literal $digest:ty),*) => {
            match name {
                $($text => {
                    // Keys of any length are accepted: longer ones are digested first.
                    let mac = <Hmac<$digest> as KeyInit>::new_from_slice(key).ok()?;
                    Some(Box::new(mac) as Box<dyn DigestState>)
                })*
                _ => None,
            }
        };
    }
    hmac!(
        "md5" md5::Md5, "ripemd160" ripemd::Ripemd160, "sha1" sha1::Sha1, "sha224" sha2::Sha224, "sha256" sha2::Sha256,
        "sha384" sha2::Sha384, "sha512" sha2::Sha512, "sha512-224" sha2::Sha512_224, "sha512-256" sha2::Sha512_256,
        "sha3-224" sha3::Sha3_224, "sha3-256" sha3::Sha3_256, "sha3-384" sha3::Sha3_384, "sha3-512" sha3::Sha3_512
    )
}

/// A digest or an HMAC in progress.
pub struct Hasher(Box<dyn DigestState>);

impl Hasher {
    /// Creates a digest by its name (`sha256`, `sha3-512`, ...); `None` for an unknown name.
    pub fn new(name: &str) -> Option<Self> {
        with_digest!(name, plain, ()).map(Self)
    }

    /// Creates an HMAC with the digest of this name; `None` for an unknown name.
    pub fn keyed(name: &str, key: &[u8]) -> Option<Self> {
        keyed(name, key).map(Self)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0.finish()
    }
}

impl Clone for Hasher {
    fn clone(&self) -> Self {
        Self(self.0.copy())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}
