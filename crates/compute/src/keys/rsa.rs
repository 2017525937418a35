//! RSA: signatures with PKCS #1 1.5 and PSS padding, encryption with OAEP and PKCS #1 1.5.

use super::{Form, Key, Scheme};
use chacha20::ChaCha20Rng;
use pkcs8::{EncodePrivateKey, EncodePublicKey};
use rsa::hazmat::rsa_encrypt;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPrivateKey, EncodeRsaPublicKey};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BoxedUint, Oaep, Pkcs1v15Encrypt, Pkcs1v15Sign, PrivateKey, Pss, PublicKey};
use rsa::{sha2, traits::PaddingScheme, traits::SignatureScheme};
use std::rc::Rc;

/// Calls `$run` with the digest type of a name; `None` for one that is not supported with RSA.
macro_rules! with_digest {
    ($name:expr, $run:ident $(, $argument:expr)*) => {
        match $name {
            "sha1" => $run::<rsa_sha1::Sha1>($($argument),*),
            "sha224" => $run::<sha2::Sha224>($($argument),*),
            "sha256" => $run::<sha2::Sha256>($($argument),*),
            "sha384" => $run::<sha2::Sha384>($($argument),*),
            "sha512" => $run::<sha2::Sha512>($($argument),*),
            "sha512-224" => $run::<sha2::Sha512_224>($($argument),*),
            "sha512-256" => $run::<sha2::Sha512_256>($($argument),*),
            _ => None,
        }
    };
}

/// The traits that every digest of the table implements.
trait RsaDigest: sha2::Digest + sha2::digest::FixedOutputReset + rsa::pkcs8::AssociatedOid {}
impl<D: sha2::Digest + sha2::digest::FixedOutputReset + rsa::pkcs8::AssociatedOid> RsaDigest for D {}

pub(super) fn from_pkcs1(der: &[u8]) -> Option<Rc<dyn Key>> {
    if let Ok(key) = PrivateKey::from_pkcs1_der(der) {
        return Some(Rc::new(key));
    }
    Some(Rc::new(PublicKey::from_pkcs1_der(der).ok()?))
}

pub(super) fn public(key: PublicKey) -> Rc<dyn Key> {
    Rc::new(key)
}

pub(super) fn private(key: PrivateKey) -> Rc<dyn Key> {
    Rc::new(key)
}

/// Builds a key from `n`, `e` and, for a private key, `d`, `p`, `q` and possibly derived numbers.
pub(super) fn from_numbers(numbers: &[Vec<u8>]) -> Option<Rc<dyn Key>> {
    match numbers {
        [n, e] => Some(Rc::new(PublicKey::new(number(n), number(e)).ok()?)),
        [n, e, d, p, q, ..] => {
            let width = width(n);
            let wide = |bytes: &[u8]| BoxedUint::from_be_slice(trimmed(bytes), width).ok();
            let primes = vec![wide(p)?, wide(q)?];
            Some(Rc::new(PrivateKey::from_components(number(n), number(e), wide(d)?, primes).ok()?))
        }
        _ => None,
    }
}

pub(super) fn generate(bits: usize, exponent: u64, random: &mut ChaCha20Rng) -> Option<Rc<dyn Key>> {
    let exponent = BoxedUint::from(exponent);
    Some(Rc::new(PrivateKey::new_with_exp(random, bits, exponent).ok()?))
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

fn width(bytes: &[u8]) -> u32 {
    u32::try_from(trimmed(bytes).len() * 8).unwrap_or(u32::MAX)
}

fn number(bytes: &[u8]) -> BoxedUint {
    BoxedUint::from_be_slice_vartime(trimmed(bytes))
}

fn bytes_of(number: &BoxedUint) -> Vec<u8> {
    trimmed(&number.to_be_bytes()).to_vec()
}

fn pkcs1_padding<D: RsaDigest>() -> Option<Pkcs1v15Sign> {
    Some(Pkcs1v15Sign::new::<D>())
}

fn sign_pss<D: RsaDigest>(key: &PrivateKey, salt: usize, digest: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
    // The library would allocate a salt of any length before it compares the length with the key size.
    if digest.len() != <D as sha2::Digest>::output_size() || salt > key.size() {
        return None;
    }
    Pss::<D>::new_with_salt(salt).sign(Some(random), key, digest).ok()
}

fn verify_pss<D: RsaDigest>(key: &PublicKey, salt: Option<usize>, digest: &[u8], signature: &[u8]) -> Option<()> {
    if digest.len() != <D as sha2::Digest>::output_size() || salt.is_some_and(|salt| salt > key.size()) {
        return None;
    }
    Pss::<D> { blinded: true, digest: D::new(), salt_len: salt }.verify(key, digest, signature).ok()
}

fn oaep<D: RsaDigest>(label: &[u8]) -> Oaep<D> {
    if label.is_empty() { Oaep::new() } else { Oaep::new_with_label(label) }
}

fn encrypt_oaep<D: RsaDigest>(key: &PublicKey, label: &[u8], text: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
    oaep::<D>(label).encrypt(random, key, text).ok()
}

fn decrypt_oaep<D: RsaDigest>(
    key: &PrivateKey,
    label: &[u8],
    text: &[u8],
    random: &mut ChaCha20Rng,
) -> Option<Vec<u8>> {
    oaep::<D>(label).decrypt(Some(random), key, text).ok()
}

impl Key for PublicKey {
    fn kind(&self) -> &'static str {
        "rsa"
    }
    fn is_private(&self) -> bool {
        false
    }
    fn public(&self) -> Rc<dyn Key> {
        Rc::new(self.clone())
    }
    fn der(&self, form: Form) -> Option<Vec<u8>> {
        match form {
            Form::Pkcs1 => Some(self.to_pkcs1_der().ok()?.into_vec()),
            Form::Spki => Some(self.to_public_key_der().ok()?.into_vec()),
            Form::Pkcs8 | Form::Sec1 => None,
        }
    }
    fn numbers(&self) -> Vec<Vec<u8>> {
        vec![bytes_of(self.n()), bytes_of(self.e())]
    }
    fn verify(&self, scheme: &Scheme, digest: &[u8], signature: &[u8]) -> bool {
        let name = scheme.digest.as_str();
        let verified = if scheme.padding == "pss" {
            with_digest!(name, verify_pss, self, scheme.salt_length, digest, signature)
        } else {
            with_digest!(name, pkcs1_padding).and_then(|padding| padding.verify(self, digest, signature).ok())
        };
        verified.is_some()
    }
    fn recover(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let signature = BoxedUint::from_be_slice(signature, self.n_bits_precision()).ok()?;
        let padded = bytes_of(&rsa_encrypt(self, &signature).ok()?);
        // The padded text is 0 (dropped in the number), 1, at least eight bytes 255 that fill the length of the key, 0, and the
        // text. None of it is secret.
        if padded.len() + 1 != self.size() || padded.first() != Some(&1) {
            return None;
        }
        let fill = padded[1..].iter().take_while(|byte| **byte == 0xff).count();
        (fill >= 8 && padded.get(fill + 1) == Some(&0)).then(|| padded[fill + 2..].to_vec())
    }
    fn encrypt(&self, scheme: &Scheme, text: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        if scheme.padding == "oaep" {
            with_digest!(scheme.digest.as_str(), encrypt_oaep, self, &scheme.label, text, random)
        } else {
            Pkcs1v15Encrypt.encrypt(random, self, text).ok()
        }
    }
}

impl Key for PrivateKey {
    fn kind(&self) -> &'static str {
        "rsa"
    }
    fn is_private(&self) -> bool {
        true
    }
    fn public(&self) -> Rc<dyn Key> {
        Rc::new(self.to_public_key())
    }
    fn der(&self, form: Form) -> Option<Vec<u8>> {
        match form {
            Form::Pkcs1 => Some(self.to_pkcs1_der().ok()?.as_bytes().to_vec()),
            Form::Pkcs8 => Some(self.to_pkcs8_der().ok()?.as_bytes().to_vec()),
            Form::Sec1 | Form::Spki => None,
        }
    }
    fn numbers(&self) -> Vec<Vec<u8>> {
        let mut numbers = self.as_public_key().numbers();
        numbers.push(bytes_of(self.d()));
        numbers.extend(self.primes().iter().map(|prime| bytes_of(prime)));
        numbers.extend([self.dp(), self.dq()].into_iter().flatten().map(bytes_of));
        numbers.extend(self.crt_coefficient().iter().map(bytes_of));
        numbers
    }
    fn sign(&self, scheme: &Scheme, digest: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        let name = scheme.digest.as_str();
        if scheme.padding == "bare" {
            Pkcs1v15Sign::new_unprefixed().sign(Some(random), self, digest).ok()
        } else if scheme.padding == "pss" {
            with_digest!(name, sign_pss, self, scheme.salt_length?, digest, random)
        } else {
            with_digest!(name, pkcs1_padding)?.sign(Some(random), self, digest).ok()
        }
    }
    fn verify(&self, scheme: &Scheme, digest: &[u8], signature: &[u8]) -> bool {
        Key::verify(self.as_public_key(), scheme, digest, signature)
    }
    fn recover(&self, signature: &[u8]) -> Option<Vec<u8>> {
        Key::recover(self.as_public_key(), signature)
    }
    fn encrypt(&self, scheme: &Scheme, text: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        Key::encrypt(self.as_public_key(), scheme, text, random)
    }
    fn decrypt(&self, scheme: &Scheme, text: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        if scheme.padding == "oaep" {
            with_digest!(scheme.digest.as_str(), decrypt_oaep, self, &scheme.label, text, random)
        } else {
            Pkcs1v15Encrypt.decrypt(Some(random), self, text).ok()
        }
    }
}
