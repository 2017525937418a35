//! Ed25519 signatures and X25519 key agreement. Private and public keys have 32 bytes.

use super::{Form, Key, Scheme};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::rc::Rc;
use x25519_dalek::StaticSecret;

/// Returns the header before the 32 bytes in PKCS #8 and in SPKI (RFC 8410); the headers of the two curves differ in the last
/// number of the object identifier.
fn header(kind: &str, private: bool) -> Vec<u8> {
    let curve = if kind == "ed25519" { 0x70 } else { 0x6e };
    if private {
        vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, curve, 4, 0x22, 4, 0x20]
    } else {
        vec![0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, curve, 3, 0x21, 0]
    }
}

struct PrivateEdwards {
    kind: &'static str,
    secret: [u8; 32],
}

struct PublicEdwards {
    kind: &'static str,
    point: [u8; 32],
}

fn known(kind: &str) -> &'static str {
    if kind == "ed25519" { "ed25519" } else { "x25519" }
}

pub(super) fn private(kind: &str, secret: &[u8]) -> Option<Rc<dyn Key>> {
    Some(Rc::new(PrivateEdwards { kind: known(kind), secret: secret.try_into().ok()? }))
}

pub(super) fn public(kind: &str, point: &[u8]) -> Option<Rc<dyn Key>> {
    Some(Rc::new(PublicEdwards { kind: known(kind), point: point.try_into().ok()? }))
}

/// Builds a key from the public part and, for a private key, the secret.
pub(super) fn from_numbers(kind: &str, numbers: &[Vec<u8>]) -> Option<Rc<dyn Key>> {
    match numbers {
        [point] => public(kind, point),
        [_, secret] => private(kind, secret),
        _ => None,
    }
}

pub(super) fn generate(kind: &str, random: &mut ChaCha20Rng) -> Option<Rc<dyn Key>> {
    let mut secret = [0; 32];
    random.fill_bytes(&mut secret);
    private(kind, &secret)
}

impl PrivateEdwards {
    fn point(&self) -> [u8; 32] {
        if self.kind == "ed25519" {
            SigningKey::from_bytes(&self.secret).verifying_key().to_bytes()
        } else {
            x25519_dalek::PublicKey::from(&StaticSecret::from(self.secret)).to_bytes()
        }
    }
}

impl Key for PrivateEdwards {
    fn kind(&self) -> &'static str {
        self.kind
    }
    fn is_private(&self) -> bool {
        true
    }
    fn public(&self) -> Rc<dyn Key> {
        Rc::new(PublicEdwards { kind: self.kind, point: self.point() })
    }
    fn der(&self, form: Form) -> Option<Vec<u8>> {
        (form == Form::Pkcs8).then(|| [header(self.kind, true), self.secret.to_vec()].concat())
    }
    fn numbers(&self) -> Vec<Vec<u8>> {
        vec![self.point().to_vec(), self.secret.to_vec()]
    }
    fn sign(&self, _scheme: &Scheme, text: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        (self.kind == "ed25519").then(|| SigningKey::from_bytes(&self.secret).sign(text).to_vec())
    }
    fn verify(&self, scheme: &Scheme, text: &[u8], signature: &[u8]) -> bool {
        self.public().verify(scheme, text, signature)
    }
    fn agree(&self, public: &dyn Key) -> Option<Vec<u8>> {
        if self.kind != "x25519" || public.kind() != "x25519" {
            return None;
        }
        let point: [u8; 32] = public.numbers().first()?.as_slice().try_into().ok()?;
        let shared = StaticSecret::from(self.secret).diffie_hellman(&x25519_dalek::PublicKey::from(point));
        // A point of low order would result in a predictable secret; OpenSSL refuses it as well.
        shared.was_contributory().then(|| shared.to_bytes().to_vec())
    }
}

impl Key for PublicEdwards {
    fn kind(&self) -> &'static str {
        self.kind
    }
    fn is_private(&self) -> bool {
        false
    }
    fn public(&self) -> Rc<dyn Key> {
        Rc::new(Self { kind: self.kind, point: self.point })
    }
    fn der(&self, form: Form) -> Option<Vec<u8>> {
        (form == Form::Spki).then(|| [header(self.kind, false), self.point.to_vec()].concat())
    }
    fn numbers(&self) -> Vec<Vec<u8>> {
        vec![self.point.to_vec()]
    }
    fn verify(&self, _scheme: &Scheme, text: &[u8], signature: &[u8]) -> bool {
        let (Ok(key), Ok(signature)) = (VerifyingKey::from_bytes(&self.point), Signature::from_slice(signature)) else {
            return false;
        };
        use ed25519_dalek::Verifier;
        self.kind == "ed25519" && key.verify(text, &signature).is_ok()
    }
}
