//! Asymmetric keys: RSA, elliptic curves, Ed25519 and X25519.
//!
//! [`read`], [`build`] and [`generate`] return a [`Key`]. Keys are DER and numbers here; the caller handles PEM, JWK and Node's
//! names and errors. Where an operation needs randomness the caller passes a seeded generator ([`rng`]), so that a replayed
//! session signs and generates the same bytes.

mod curves;
mod edwards;
mod forms;
mod rsa;

use crate::Refused;
pub use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::rc::Rc;

/// Maximum modulus length in bits of generated RSA keys. 4096 bits take a second or two, which block the realm; doubling the
/// length takes some twenty times longer.
const MAX_GENERATED_BITS: u64 = 4096;

/// The encodings of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// RSA only.
    Pkcs1,
    /// Private keys of any kind.
    Pkcs8,
    /// Private keys of the elliptic curves.
    Sec1,
    /// Public keys of any kind.
    Spki,
}

impl Form {
    /// Returns the form with this name: the variant's name in lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pkcs1" => Self::Pkcs1,
            "pkcs8" => Self::Pkcs8,
            "sec1" => Self::Sec1,
            "spki" => Self::Spki,
            _ => return None,
        })
    }
}

/// Parameters of a signature or an encryption.
#[derive(Debug, Clone)]
pub struct Scheme {
    /// `pkcs1`, `pss`, `oaep`, or `bare` for PKCS #1 without a digest. For a curve: `numbers` or `der` for the form of the
    /// signature.
    pub padding: String,
    /// Name of the digest.
    pub digest: String,
    /// Salt length of PSS in bytes; `None` accepts any length in a verification.
    pub salt_length: Option<usize>,
    /// Label of OAEP.
    pub label: Vec<u8>,
}

/// The private or the public part of a key.
pub trait Key {
    /// `rsa`, the name of a curve, `ed25519` or `x25519`.
    fn kind(&self) -> &'static str;
    /// Returns whether this is the private part.
    fn is_private(&self) -> bool;
    /// Returns the public part; a public key returns itself.
    fn public(&self) -> Rc<dyn Key>;
    /// Encodes the key as DER; `None` if the key has no such form.
    fn der(&self, form: Form) -> Option<Vec<u8>>;
    /// Returns the numbers of the key's JWK in JWK order, public numbers first. Omits numbers that can be derived from others.
    fn numbers(&self) -> Vec<Vec<u8>>;
    /// Signs a digest, or with an Edwards-curve key the text itself.
    fn sign(&self, _scheme: &Scheme, _digest: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    /// Verifies a signature of a digest or a text as in [`Key::sign`].
    fn verify(&self, _scheme: &Scheme, _digest: &[u8], _signature: &[u8]) -> bool {
        false
    }
    /// Recovers the text from a `bare` signature.
    fn recover(&self, _signature: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Encrypts a text.
    fn encrypt(&self, _scheme: &Scheme, _text: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    /// Decrypts a text.
    fn decrypt(&self, _scheme: &Scheme, _text: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    /// Computes the shared secret of this private key and a public one.
    fn agree(&self, _public: &dyn Key) -> Option<Vec<u8>> {
        None
    }
    /// Returns the public point of a curve key, compressed if `_short`.
    fn point(&self, _short: bool) -> Option<Vec<u8>> {
        None
    }
}

/// Reads a key: `form` as in [`Form`], `encrypted` for PKCS #8 under a passphrase, or `certificate` for the public key of an
/// X.509 certificate. Returns `None` for other bytes.
///
/// # Errors
///
/// Fails when trying the passphrase would take too long.
pub fn read(form: &str, der: &[u8], passphrase: &[u8]) -> Result<Option<Rc<dyn Key>>, Refused> {
    Ok(match form {
        "certificate" => forms::public_key_of_certificate(der).and_then(|key| forms::read_public(&key)),
        "encrypted" => forms::decrypt(der, passphrase)?.and_then(|key| forms::read_private(&key)),
        "pkcs1" => rsa::from_pkcs1(der),
        "pkcs8" => forms::read_private(der),
        "sec1" => forms::read_sec1(der),
        _ => forms::read_public(der),
    })
}

/// Builds a key from the numbers of a JWK: a private key if there are more numbers than the public part needs. A point of a curve
/// is passed as one number, compressed or uncompressed.
pub fn build(kind: &str, numbers: &[Vec<u8>]) -> Option<Rc<dyn Key>> {
    match kind {
        "rsa" => rsa::from_numbers(numbers),
        "ed25519" | "x25519" => edwards::from_numbers(kind, numbers),
        _ => curves::from_numbers(kind, numbers),
    }
}

/// Generates a private key; `bits` and `exponent` apply to RSA only.
///
/// # Errors
///
/// Fails when finding the primes would take too long.
pub fn generate(
    kind: &str,
    bits: u64,
    exponent: u64,
    random: &mut ChaCha20Rng,
) -> Result<Option<Rc<dyn Key>>, Refused> {
    Ok(match kind {
        "rsa" if bits > MAX_GENERATED_BITS => {
            return Err(Refused("generating an RSA key of more than 4096 bits would hold up the session"));
        }
        "rsa" => rsa::generate(usize::try_from(bits).unwrap_or_default(), exponent, random),
        "ed25519" | "x25519" => edwards::generate(kind, random),
        _ => curves::generate(kind, random),
    })
}

/// Creates a random number generator from a seed.
pub fn rng(seed: [u8; 32]) -> ChaCha20Rng {
    ChaCha20Rng::from_seed(seed)
}

/// Encrypts PKCS #8 with a passphrase, as OpenSSL does; `None` for an unknown cipher.
pub fn encrypt(der: &[u8], cipher: &str, passphrase: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
    forms::encrypt(der, cipher, passphrase, random)
}

/// Computes the shared secret of a private key and a public one, given as SPKI.
pub fn agree(key: &dyn Key, public: &[u8]) -> Option<Vec<u8>> {
    key.agree(forms::read_public(public)?.as_ref())
}
