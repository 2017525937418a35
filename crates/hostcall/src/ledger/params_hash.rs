//! Hashes of the parameters of calls.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// The sha256 hash of a call's parameters, or a keyed hash.
#[derive(Debug, Clone)]
pub(crate) enum ParamsHash {
    Plain([u8; 32]),
    Keyed([u8; 32]),
    /// Computed with the first line of the call, outside of the turn that waits for it; for small calls only.
    Later(Arc<Unhashed>),
}

/// Canonical form of a small call that is not hashed yet.
#[derive(Debug, Default)]
pub(crate) struct Unhashed {
    canonical: Vec<u8>,
    digest: OnceLock<[u8; 32]>,
}

impl Unhashed {
    /// Maximum size of a queued call in bytes, which covers most calls. Longer calls are hashed at once, so that nothing large is
    /// queued.
    pub(super) const MOST: usize = 192;
}

/// Pool of small calls, reused after their lines are written. Otherwise the calling thread would allocate each one and the
/// writing thread free it, and both would contend for the allocator.
#[derive(Default)]
pub(super) struct CallPool(VecDeque<Arc<Unhashed>>);

impl CallPool {
    /// Maximum number of pooled calls; more than wait for the writer in a burst.
    const MOST: usize = 1024;

    /// Returns a buffer with the output of `write`, or its hash if the output is too long.
    pub(super) fn hash(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> ParamsHash {
        let mut oldest = self.0.pop_front();
        if oldest.as_mut().is_none_or(|oldest| Arc::get_mut(oldest).is_none()) {
            // A buffer that is still in use goes to the end.
            self.0.extend(oldest.replace(Arc::default()));
        }
        let mut call = oldest.unwrap_or_default();
        let Unhashed { canonical, digest } = Arc::get_mut(&mut call).expect("the buffer is free or new");
        canonical.clear();
        digest.take();
        write(canonical);
        if canonical.len() > Unhashed::MOST {
            let hash = ParamsHash::Plain(Sha256::digest(&canonical).into());
            canonical.truncate(Unhashed::MOST);
            canonical.shrink_to(Unhashed::MOST);
            self.0.push_front(call);
            return hash;
        }
        if self.0.len() < Self::MOST {
            self.0.push_back(Arc::clone(&call));
        }
        ParamsHash::Later(call)
    }
}

impl ParamsHash {
    pub(crate) fn is_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    pub(crate) fn digest(&self) -> &[u8; 32] {
        match self {
            Self::Plain(digest) | Self::Keyed(digest) => digest,
            Self::Later(call) => call.digest.get_or_init(|| Sha256::digest(&call.canonical).into()),
        }
    }
}

pub(super) fn keyed(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(bytes);
            mac.finalize().into_bytes().into()
        }
        Err(error) => unreachable!("HMAC takes keys of every length: {error}"),
    }
}
