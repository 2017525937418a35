//! Keys from passwords and from other keys: PBKDF2, scrypt, HKDF.

use super::digest::with_digest;
use crate::natives::Call;
use hkdf::Hkdf;
use hmac::Hmac;
use rquickjs::{Exception, Result, TypedArray, Value};

/// Digest computations that one call may ask for; about two seconds of work.
const MAX_ROUNDS: u64 = 20_000_000;

/// Memory that one scrypt call may use. Node's default limit is 32 MiB and a caller can raise it.
const MAX_SCRYPT_BYTES: u64 = 256 << 20;

/// `deriveKey(kind, digest, password, salt, info, a, b, c, length)`: for `pbkdf2` *a* is the number of
/// rounds, for `scrypt` *a*, *b*, *c* are cost, block size and parallelism. `undefined`: unknown digest.
pub(crate) fn key<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let (kind, digest) = (call.text(0)?, call.text(1)?);
    let (password, salt, info) = (call.bytes(2)?, call.bytes(3)?, call.bytes(4)?);
    let length = usize::try_from(call.whole(8)?).unwrap_or(usize::MAX);
    let too_much = |what: &str| Err(Exception::throw_range(call.ctx(), what));
    if length > 1 << 24 {
        return too_much("a derived key of more than 16 MiB is not available in a PiJS realm");
    }
    let mut out = vec![0; length];
    let known = match kind.as_str() {
        "pbkdf2" => {
            let rounds = call.whole(5)?;
            let blocks = (length as u64).div_ceil(16).max(1);
            if rounds.saturating_mul(blocks) > MAX_ROUNDS {
                return too_much(
                    "pbkdf2 with this many iterations would hold up the session: use fewer than 20 million",
                );
            }
            let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
            pbkdf2_by_name(&digest, &password, &salt, rounds, &mut out)
        }
        "scrypt" => {
            let (cost, block, parallel) = (call.whole(5)?, call.whole(6)?, call.whole(7)?);
            let memory = cost.saturating_mul(block).saturating_mul(128);
            if memory > MAX_SCRYPT_BYTES || memory.saturating_mul(parallel) > 8 * MAX_SCRYPT_BYTES {
                return too_much("scrypt with these parameters needs more memory than a PiJS realm gives");
            }
            let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
            let cost = u8::try_from(cost.max(1).ilog2()).unwrap_or(u8::MAX);
            let Ok(params) = scrypt::Params::new(cost, narrow(block), narrow(parallel), 32) else {
                return too_much("invalid scrypt parameters");
            };
            // An empty key is the only output that scrypt cannot give.
            if !out.is_empty() && scrypt::scrypt(&password, &salt, &params, &mut out).is_err() {
                return too_much("invalid scrypt parameters");
            }
            Some(())
        }
        _ => match with_digest!(digest.as_str(), digest_length, ()) {
            Some(size) if length > 255 * size => return too_much("invalid key length"),
            _ => hkdf_by_name(&digest, &password, &salt, &info, &mut out),
        },
    };
    match known {
        Some(()) => Ok(TypedArray::<u8>::new_copy(call.ctx().clone(), out)?.into_value()),
        None => Ok(Value::new_undefined(call.ctx().clone())),
    }
}

fn digest_length<D: super::digest::Digester>() -> usize {
    <D as digest::Digest>::output_size()
}

/// Calls the keyed function for the digest of a name.
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
