//! Keys of two parts: RSA, elliptic curves, Ed25519 and X25519.
//!
//! [`read`], [`build`] and [`generate`] give a [`Key`]. PEM, JWK and Node's names and errors are the caller's: here keys
//! come and go as DER and as numbers. Where an operation needs randomness the caller passes a generator that a seed
//! started ([`rng`]), so that a replayed session signs and generates the same bytes.

mod curves;
mod edwards;
mod forms;
mod rsa;

use crate::Refused;
pub use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::rc::Rc;

/// Modulus bits of RSA keys that are generated here. One of 4096 bits takes a second or two, in which the realm does
/// nothing else; each doubling takes some twenty times longer.
const MAX_GENERATED_BITS: u64 = 4096;

/// The forms that a key is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// RSA alone.
    Pkcs1,
    /// Private keys of any kind.
    Pkcs8,
    /// Private keys of the elliptic curves.
    Sec1,
    /// Public keys of any kind.
    Spki,
}

impl Form {
    /// The form of a name, which is the variant's in small letters.
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

/// How a signature or a cipher text is made.
#[derive(Debug, Clone)]
pub struct Scheme {
    /// `pkcs1`, `pss`, `oaep`, or `bare` for PKCS #1 of a text that no digest was made of. Of a curve: `numbers` or `der`
    /// for the form of the signature.
    pub padding: String,
    /// The name of the digest.
    pub digest: String,
    /// Of PSS; `None` takes any when a signature is checked.
    pub salt_length: Option<usize>,
    /// Of OAEP.
    pub label: Vec<u8>,
}

/// The private or the public part of a key.
pub trait Key {
    /// `rsa`, the name of a curve, `ed25519` or `x25519`.
    fn kind(&self) -> &'static str;
    /// Whether this is the private part.
    fn is_private(&self) -> bool;
    /// The public part, of the public part itself, too.
    fn public(&self) -> Rc<dyn Key>;
    /// `None`: this key has no such form.
    fn der(&self, form: Form) -> Option<Vec<u8>>;
    /// The numbers of a JWK in its order, the public ones first, without those that can be told from others.
    fn numbers(&self) -> Vec<Vec<u8>>;
    /// Signs a digest, or with a key of Edwards' curve the text itself.
    fn sign(&self, _scheme: &Scheme, _digest: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    /// Whether a signature is this key's, of a digest or of a text as in [`Key::sign`].
    fn verify(&self, _scheme: &Scheme, _digest: &[u8], _signature: &[u8]) -> bool {
        false
    }
    /// The text of a `bare` signature.
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
    /// The secret that this private key and a public one have in common.
    fn agree(&self, _public: &dyn Key) -> Option<Vec<u8>> {
        None
    }
    /// A point of a curve, also pressed into its shorter form.
    fn point(&self, _short: bool) -> Option<Vec<u8>> {
        None
    }
}

/// Reads a key: `form` as in [`Form`], `encrypted` for PKCS #8 under a passphrase, or `certificate` for the key of one. `None` when it is
/// no such key.
///
/// # Errors
///
/// When trying the passphrase would take too long.
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

/// Builds a key from the numbers of a JWK, a private one when there is more than its public part needs. A point of a curve is
/// one number, whatever its form.
pub fn build(kind: &str, numbers: &[Vec<u8>]) -> Option<Rc<dyn Key>> {
    match kind {
        "rsa" => rsa::from_numbers(numbers),
        "ed25519" | "x25519" => edwards::from_numbers(kind, numbers),
        _ => curves::from_numbers(kind, numbers),
    }
}

/// Generates a private key; `bits` and `exponent` are RSA's.
///
/// # Errors
///
/// When finding the primes would take too long.
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

/// Starts the generator of a seed.
pub fn rng(seed: [u8; 32]) -> ChaCha20Rng {
    ChaCha20Rng::from_seed(seed)
}

/// Encrypts PKCS #8 under a passphrase, as OpenSSL does; `None` for an unknown cipher.
pub fn encrypt(der: &[u8], cipher: &str, passphrase: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
    forms::encrypt(der, cipher, passphrase, random)
}

/// The secret that a private key and a public one, as SPKI, have in common.
pub fn agree(key: &dyn Key, public: &[u8]) -> Option<Vec<u8>> {
    key.agree(forms::read_public(public)?.as_ref())
}
