//! Key derivation: PBKDF2, scrypt, HKDF.
//!
//! A call cannot be split into steps, so each refuses work that would take seconds. `Ok(None)` stands for an unknown digest.

use crate::Refused;
use crate::digest::with_digest;
use hkdf::Hkdf;
use hmac::Hmac;

/// Maximum number of digest computations of one call; about two seconds of work.
const MAX_ROUNDS: u64 = 20_000_000;

/// Maximum memory of one scrypt call, in bytes. Node's default is 32 MiB, and a caller can raise it.
const MAX_SCRYPT_BYTES: u64 = 256 << 20;

/// Maximum length of a key in bytes.
const MAX_BYTES: usize = 1 << 24;

fn buffer(length: usize) -> Result<Vec<u8>, Refused> {
    if length > MAX_BYTES {
        return Err(Refused("a derived key of more than 16 MiB is not available in a PiJS realm"));
    }
    Ok(vec![0; length])
}

/// Derives a key with PBKDF2 and the HMAC of a digest.
///
/// # Errors
///
/// Fails when the key or the number of rounds is too large.
pub fn pbkdf2(
    digest: &str,
    password: &[u8],
    salt: &[u8],
    rounds: u64,
    length: usize,
) -> Result<Option<Vec<u8>>, Refused> {
    let mut out = buffer(length)?;
    let blocks = (length as u64).div_ceil(16).max(1);
    if rounds.saturating_mul(blocks) > MAX_ROUNDS {
        return Err(Refused(
            "pbkdf2 with this many iterations for a key of this length would hold up the session: use fewer, or derive a shorter key",
        ));
    }
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
    Ok(pbkdf2_by_name(digest, password, salt, rounds, &mut out).map(|()| out))
}

/// Cost, block size and parallelism of scrypt, which Node names `N`, `r` and `p`.
#[derive(Debug, Clone, Copy)]
pub struct ScryptCost {
    /// A power of two.
    pub cost: u64,
    /// Block size.
    pub block: u64,
    /// Parallelism.
    pub parallel: u64,
}

/// Derives a key with scrypt.
///
/// # Errors
///
/// Fails when the key or the memory is too large, or the three numbers are inconsistent.
pub fn scrypt(password: &[u8], salt: &[u8], cost: ScryptCost, length: usize) -> Result<Vec<u8>, Refused> {
    let mut out = buffer(length)?;
    let ScryptCost { cost, block, parallel } = cost;
    let memory = cost.saturating_mul(block).saturating_mul(128);
    if memory > MAX_SCRYPT_BYTES || memory.saturating_mul(parallel) > 8 * MAX_SCRYPT_BYTES {
        return Err(Refused("scrypt with these parameters needs more memory than a PiJS realm gives"));
    }
    let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
    let cost = u8::try_from(cost.max(1).ilog2()).unwrap_or(u8::MAX);
    let Ok(params) = scrypt::Params::new(cost, narrow(block), narrow(parallel), 32) else {
        return Err(Refused("invalid scrypt parameters"));
    };
    // scrypt cannot output an empty key.
    if !out.is_empty() && scrypt::scrypt(password, salt, &params, &mut out).is_err() {
        return Err(Refused("invalid scrypt parameters"));
    }
    Ok(out)
}

/// Derives a key with HKDF and the HMAC of a digest.
///
/// # Errors
///
/// Fails when the requested key is longer than HKDF allows for this digest.
pub fn hkdf(digest: &str, key: &[u8], salt: &[u8], info: &[u8], length: usize) -> Result<Option<Vec<u8>>, Refused> {
    let mut out = buffer(length)?;
    if with_digest!(digest, digest_length, ()).is_some_and(|size| length > 255 * size) {
        return Err(Refused("invalid key length"));
    }
    Ok(hkdf_by_name(digest, key, salt, info, &mut out).map(|()| out))
}

fn digest_length<D: crate::digest::AnyDigest>() -> usize {
    <D as digest::Digest>::output_size()
}

/// Calls a macro with the digest type of a name; `None` for an unknown name.
macro_rules! keyed {
    ($name:expr, $function:ident) => {
        match $name {
            "md5" => Some($function!(md5::Md5)),
            "ripemd160" => Some($function!(ripemd::Ripemd160)),
            "sha1" => Some($function!(sha1::Sha1)),
            "sha224" => Some($function!(sha2::Sha224)),
            "sha256" => Some($function!(sha2::Sha256)),
            "sha384" => Some($function!(sha2::Sha384)),
            "sha512" => Some($function!(sha2::Sha512)),
            "sha3-256" => Some($function!(sha3::Sha3_256)),
            "sha3-512" => Some($function!(sha3::Sha3_512)),
            _ => None,
        }
    };
}

fn pbkdf2_by_name(name: &str, password: &[u8], salt: &[u8], rounds: u32, out: &mut [u8]) -> Option<()> {
    macro_rules! derive {
        ($digest:ty) => {
            pbkdf2::pbkdf2::<Hmac<$digest>>(password, salt, rounds, out).ok()?
        };
    }
    keyed!(name, derive)
}

fn hkdf_by_name(name: &str, key: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) -> Option<()> {
    macro_rules! derive {
        ($digest:ty) => {
            Hkdf::<$digest>::new(Some(salt), key).expand(info, out).ok()?
        };
    }
    keyed!(name, derive)
}
