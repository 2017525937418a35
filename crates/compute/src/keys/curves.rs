//! The NIST elliptic curves and secp256k1: ECDSA and key agreement.
//!
//! Signatures use the nonce of RFC 6979, which needs no randomness and is compatible with any verifier.

use super::{Form, Key, Scheme};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use std::rc::Rc;

const NAMES: [&str; 4] = ["P-256", "P-384", "P-521", "secp256k1"];

/// Defines the module of a curve from its crate, its name, the number of bytes of a scalar, and the mask of the valid bits of a
/// scalar's first byte.
macro_rules! curve {
    ($module:ident, $library:ident, $name:literal, $bytes:literal, $first:literal) => {
        mod $module {
            use super::{ChaCha20Rng, Form, Key, Rc, Rng, Scheme, fixed_width};
            use pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
            use $library::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
            use $library::ecdsa::{Signature, SigningKey, VerifyingKey};
            use $library::elliptic_curve::sec1::ToSec1Point;
            use $library::{PublicKey, SecretKey};

            pub(super) fn from_sec1(der: &[u8]) -> Option<Rc<dyn Key>> {
                Some(Rc::new(SecretKey::from_sec1_der(der).ok()?))
            }

            pub(super) fn from_pkcs8(der: &[u8]) -> Option<Rc<dyn Key>> {
                Some(Rc::new(SecretKey::from_pkcs8_der(der).ok()?))
            }

            pub(super) fn from_spki(der: &[u8]) -> Option<Rc<dyn Key>> {
                Some(Rc::new(PublicKey::from_public_key_der(der).ok()?))
            }

            /// Builds a key from a point and, for a private key, a scalar.
            pub(super) fn from_numbers(numbers: &[Vec<u8>]) -> Option<Rc<dyn Key>> {
                match numbers {
                    [point] => Some(Rc::new(PublicKey::from_sec1_bytes(point).ok()?)),
                    [point, number] => {
                        let secret = SecretKey::from_slice(&fixed_width(number, $bytes)?).ok()?;
                        let right = point.is_empty() || PublicKey::from_sec1_bytes(point).ok()? == secret.public_key();
                        if right { Some(Rc::new(secret)) } else { None }
                    }
                    _ => None,
                }
            }

            /// Draws random numbers until one is a valid scalar, which the first one nearly always is.
            pub(super) fn generate(random: &mut ChaCha20Rng) -> Rc<dyn Key> {
                loop {
                    let mut number = [0; $bytes];
                    random.fill_bytes(&mut number);
                    number[0] &= $first;
                    if let Ok(secret) = SecretKey::from_slice(&number) {
                        return Rc::new(secret);
                    }
                }
            }

            fn signature(bytes: &[u8], as_numbers: bool) -> Option<Signature> {
                let signature = if as_numbers { Signature::from_slice(bytes) } else { Signature::from_der(bytes) };
                // The secp256k1 crate accepts only the smaller of two valid values of `s`; OpenSSL accepts either.
                Some(if $name == "secp256k1" { signature.ok()?.normalize_s() } else { signature.ok()? })
            }

            impl Key for PublicKey {
                fn kind(&self) -> &'static str {
                    $name
                }
                fn is_private(&self) -> bool {
                    false
                }
                fn public(&self) -> Rc<dyn Key> {
                    Rc::new(*self)
                }
                fn der(&self, form: Form) -> Option<Vec<u8>> {
                    if form == Form::Spki { Some(self.to_public_key_der().ok()?.into_vec()) } else { None }
                }
                fn numbers(&self) -> Vec<Vec<u8>> {
                    self.to_sec1_point(false).as_bytes()[1..].chunks($bytes).map(<[u8]>::to_vec).collect()
                }
                fn verify(&self, scheme: &Scheme, digest: &[u8], bytes: &[u8]) -> bool {
                    let Some(signature) = signature(bytes, scheme.padding == "numbers") else { return false };
                    let digest = super::padded(digest, $bytes);
                    VerifyingKey::from(self).verify_prehash(&digest, &signature).is_ok()
                }
                fn point(&self, short: bool) -> Option<Vec<u8>> {
                    Some(self.to_sec1_point(short).as_bytes().to_vec())
                }
            }

            impl Key for SecretKey {
                fn kind(&self) -> &'static str {
                    $name
                }
                fn is_private(&self) -> bool {
                    true
                }
                fn public(&self) -> Rc<dyn Key> {
                    Rc::new(self.public_key())
                }
                fn der(&self, form: Form) -> Option<Vec<u8>> {
                    match form {
                        Form::Pkcs8 => Some(self.to_pkcs8_der().ok()?.as_bytes().to_vec()),
                        Form::Sec1 => Some(self.to_sec1_der().ok()?.to_vec()),
                        Form::Pkcs1 | Form::Spki => None,
                    }
                }
                fn numbers(&self) -> Vec<Vec<u8>> {
                    let mut numbers = self.public_key().numbers();
                    numbers.push(self.to_bytes().to_vec());
                    numbers
                }
                fn sign(&self, scheme: &Scheme, digest: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
                    let digest = super::padded(digest, $bytes);
                    let signature: Signature = SigningKey::from(self).sign_prehash(&digest).ok()?;
                    let numbers = scheme.padding == "numbers";
                    Some(if numbers { signature.to_vec() } else { signature.to_der().as_bytes().to_vec() })
                }
                fn verify(&self, scheme: &Scheme, digest: &[u8], signature: &[u8]) -> bool {
                    self.public_key().verify(scheme, digest, signature)
                }
                fn agree(&self, public: &dyn Key) -> Option<Vec<u8>> {
                    let public = PublicKey::from_sec1_bytes(&public.point(false)?).ok()?;
                    Some(self.diffie_hellman(&public).raw_secret_bytes().to_vec())
                }
                fn point(&self, short: bool) -> Option<Vec<u8>> {
                    self.public_key().point(short)
                }
            }
        }
    };
}

curve!(nist_256, p256, "P-256", 32, 0xff);
curve!(nist_384, p384, "P-384", 48, 0xff);
curve!(nist_521, p521, "P-521", 66, 0x01);
curve!(koblitz_256, k256, "secp256k1", 32, 0xff);

/// Calls a function in the module of the curve with this name.
macro_rules! of_curve {
    ($name:expr, $function:ident($($argument:expr),*)) => {
        match $name {
            "P-256" => nist_256::$function($($argument),*),
            "P-384" => nist_384::$function($($argument),*),
            "P-521" => nist_521::$function($($argument),*),
            "secp256k1" => koblitz_256::$function($($argument),*),
            _ => None?,
        }
    };
}

pub(super) fn from_numbers(kind: &str, numbers: &[Vec<u8>]) -> Option<Rc<dyn Key>> {
    of_curve!(kind, from_numbers(numbers))
}

pub(super) fn generate(kind: &str, random: &mut ChaCha20Rng) -> Option<Rc<dyn Key>> {
    Some(of_curve!(kind, generate(random)))
}

/// Reads a SEC 1 private key by trying each curve; the encoding names its curve, so only that curve accepts it.
pub(super) fn from_sec1(der: &[u8]) -> Option<Rc<dyn Key>> {
    NAMES.iter().find_map(|name| of_curve!(*name, from_sec1(der)))
}

pub(super) fn from_pkcs8(der: &[u8]) -> Option<Rc<dyn Key>> {
    NAMES.iter().find_map(|name| of_curve!(*name, from_pkcs8(der)))
}

pub(super) fn from_spki(der: &[u8]) -> Option<Rc<dyn Key>> {
    NAMES.iter().find_map(|name| of_curve!(*name, from_spki(der)))
}

/// Pads a number with leading zeros to `bytes` bytes, or strips excess zeros.
fn fixed_width(number: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let surplus = number.len().saturating_sub(bytes);
    if number[..surplus].iter().any(|byte| *byte != 0) {
        return None;
    }
    Some(padded(&number[surplus..], bytes))
}

/// Pads a digest that is shorter than a scalar of the curve.
fn padded(digest: &[u8], bytes: usize) -> Vec<u8> {
    [vec![0; bytes.saturating_sub(digest.len())], digest.to_vec()].concat()
}
