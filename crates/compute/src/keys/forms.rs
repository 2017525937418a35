//! Encodings that identify their key type: PKCS #8, SPKI, certificates.

use super::{Key, curves, edwards, rsa};
use crate::Refused;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use pkcs8::der::asn1::{AnyRef, OctetStringRef};
use pkcs8::der::{Decode, Header, Reader, SliceReader};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{self, Kdf};
use pkcs8::{EncryptedPrivateKeyInfoRef, ObjectIdentifier, PrivateKeyInfoRef, SubjectPublicKeyInfoRef};
use std::rc::Rc;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const CURVE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const X25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.110");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// Maximum number of PBKDF2 rounds for a passphrase; a second or two of work.
const MAX_ROUNDS: u32 = 10_000_000;
/// Maximum scrypt memory, in bytes and times the parallelism, for deriving a key from a passphrase.
const MAX_SCRYPT_BYTES: u64 = 256 << 20;
/// Number of PBKDF2 rounds of an encrypted key, OpenSSL's default.
const ROUNDS: u32 = 2048;

pub(super) fn read_private(der: &[u8]) -> Option<Rc<dyn Key>> {
    let info = PrivateKeyInfoRef::try_from(der).ok()?;
    let secret = info.private_key.as_bytes();
    match info.algorithm.oid {
        RSA => Some(rsa::private(info.try_into().ok()?)),
        CURVE => curves::from_pkcs8(der),
        ED25519 => edwards::private("ed25519", <&OctetStringRef>::from_der(secret).ok()?.as_bytes()),
        X25519 => edwards::private("x25519", <&OctetStringRef>::from_der(secret).ok()?.as_bytes()),
        _ => None,
    }
}

pub(super) fn read_public(der: &[u8]) -> Option<Rc<dyn Key>> {
    let info = SubjectPublicKeyInfoRef::try_from(der).ok()?;
    match info.algorithm.oid {
        RSA => Some(rsa::public(info.try_into().ok()?)),
        CURVE => curves::from_spki(der),
        ED25519 => edwards::public("ed25519", info.subject_public_key.as_bytes()?),
        X25519 => edwards::public("x25519", info.subject_public_key.as_bytes()?),
        _ => None,
    }
}

pub(super) fn read_sec1(der: &[u8]) -> Option<Rc<dyn Key>> {
    curves::from_sec1(der)
}

/// Returns the SPKI inside an X.509 certificate: it follows version, serial number, algorithm, issuer, validity and subject.
pub(super) fn public_key_of_certificate(der: &[u8]) -> Option<Vec<u8>> {
    let certificate = AnyRef::from_der(der).ok()?;
    let mut reader = SliceReader::new(certificate.value()).ok()?;
    let body = AnyRef::decode(&mut reader).ok()?;
    let mut fields = SliceReader::new(body.value()).ok()?;
    let version = Header::peek(&fields).ok()?.tag().is_context_specific();
    for _ in 0..(if version { 6 } else { 5 }) {
        fields.tlv_bytes().ok()?;
    }
    fields.tlv_bytes().ok().map(<[u8]>::to_vec)
}

/// Decrypts PKCS #8 with a passphrase; `None` for a wrong passphrase or another form.
pub(super) fn decrypt(der: &[u8], passphrase: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
    let Ok(info) = EncryptedPrivateKeyInfoRef::try_from(der) else { return Ok(None) };
    if let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm {
        let costly = match &parameters.kdf {
            Kdf::Pbkdf2(kdf) => kdf.iteration_count > MAX_ROUNDS,
            Kdf::Scrypt(kdf) => {
                let memory = kdf.cost_parameter.saturating_mul(u64::from(kdf.block_size)).saturating_mul(128);
                memory.saturating_mul(u64::from(kdf.parallelization)) > MAX_SCRYPT_BYTES
            }
            _ => false,
        };
        if costly {
            return Err(Refused("deriving the key from this passphrase would hold up the session"));
        }
    }
    Ok(info.decrypt(passphrase).ok().map(|document| document.as_bytes().to_vec()))
}

/// Encrypts PKCS #8 with a passphrase as OpenSSL does: PBKDF2 with HMAC-SHA-256, then AES-CBC.
pub(super) fn encrypt(der: &[u8], cipher: &str, passphrase: &[u8], random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
    let (mut salt, mut vector) = ([0; 16], [0; 16]);
    random.fill_bytes(&mut salt);
    random.fill_bytes(&mut vector);
    let encryption = match cipher {
        "aes-128-cbc" => pbes2::EncryptionScheme::Aes128Cbc { iv: vector },
        "aes-192-cbc" => pbes2::EncryptionScheme::Aes192Cbc { iv: vector },
        "aes-256-cbc" => pbes2::EncryptionScheme::Aes256Cbc { iv: vector },
        _ => return None,
    };
    let kdf = pbes2::Pbkdf2Params::hmac_sha256(ROUNDS, &salt).ok()?.into();
    let info = PrivateKeyInfoRef::try_from(der).ok()?;
    let encrypted = info.encrypt_with_params(pbes2::Parameters { kdf, encryption }, passphrase);
    Some(encrypted.ok()?.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pkcs8::der::Encode;

    fn under(kdf: Kdf) -> Vec<u8> {
        let encryption = pbes2::EncryptionScheme::Aes256Cbc { iv: [0; 16] };
        let encryption_algorithm = EncryptionScheme::Pbes2(pbes2::Parameters { kdf, encryption });
        let encrypted_data = OctetStringRef::new(&[0; 16]).unwrap();
        EncryptedPrivateKeyInfoRef { encryption_algorithm, encrypted_data }.to_der().unwrap()
    }

    #[test]
    fn an_expensive_passphrase_is_refused() {
        let salt = [0; 16];
        let rounds = |rounds| under(pbes2::Pbkdf2Params::hmac_sha256(rounds, &salt).unwrap().into());
        assert!(matches!(decrypt(&rounds(1000), b"wrong"), Ok(None)));
        assert!(decrypt(&rounds(MAX_ROUNDS + 1), b"wrong").is_err());
        let scrypt = |cost_parameter, block_size, parallelization| {
            let salt = pbes2::Salt::new(salt).unwrap();
            under(Kdf::Scrypt(pbes2::ScryptParams {
                salt,
                cost_parameter,
                block_size,
                parallelization,
                key_length: None,
            }))
        };
        assert!(matches!(decrypt(&scrypt(16, 8, 1), b"wrong"), Ok(None)));
        for (cost, block, lanes) in [(1 << 19, 8, 1), (1 << 17, 16, 2), (1 << 15, 8, 9)] {
            assert!(decrypt(&scrypt(cost, block, lanes), b"wrong").is_err(), "{cost} {block} {lanes}");
        }
    }
}
