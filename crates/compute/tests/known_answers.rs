//! Published test vectors for each function. Algorithms have Node's names.
//!
//! `crates/node-compat/modules/tests/{crypto,zlib}` tests Node's modules, which are based on these functions.

use pijs_compute::Refused;
use pijs_compute::cipher::{Cipher, CipherFailure};
use pijs_compute::derive::{ScryptCost, hkdf, pbkdf2, scrypt};
use pijs_compute::digest::Hasher;
use pijs_compute::keys::{self, Form, Scheme};
use pijs_compute::zlib::{Codec, crc32};

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).expect("hexadecimal digits")
}

#[test]
fn digests() {
    let mut sha = Hasher::new("sha256").expect("a known digest");
    sha.update(b"ab");
    let fork = sha.clone();
    sha.update(b"c");
    // FIPS 180-4.
    assert_eq!(hex::encode(sha.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ne!(hex::encode(fork.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    // RFC 4231, case 2.
    let mut mac = Hasher::keyed("sha256", b"Jefe").expect("a known digest");
    mac.update(b"what do ya want for nothing?");
    assert_eq!(hex::encode(mac.finish()), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert!(Hasher::new("sha0").is_none() && Hasher::keyed("sha0", b"").is_none());
}

#[test]
fn derived_keys() {
    // Vectors of RFC 6070, RFC 7914 and RFC 5869.
    let key =
        pbkdf2("sha1", b"password", b"salt", 4096, 20).expect("the number of rounds is small").expect("a known digest");
    assert_eq!(hex::encode(key), "4b007901b765489abead49d926f721d065a429c1");
    let cost = ScryptCost { cost: 16, block: 1, parallel: 1 };
    let key = scrypt(b"", b"", cost, 64).expect("little memory");
    let expected = "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442\
                    fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906";
    assert_eq!(hex::encode(key), expected);
    let (salt, info) = (bytes("000102030405060708090a0b0c"), bytes("f0f1f2f3f4f5f6f7f8f9"));
    let key = hkdf("sha256", &[0x0b; 22], &salt, &info, 42).expect("a short key").expect("a known digest");
    let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(hex::encode(key), expected);
}

#[test]
fn work_that_would_take_seconds_is_refused() {
    assert!(pbkdf2("sha256", b"", b"", 20_000_001, 1).is_err());
    assert!(scrypt(b"", b"", ScryptCost { cost: 1 << 22, block: 8, parallel: 1 }, 32).is_err());
    assert_eq!(hkdf("sha256", b"", b"", b"", 255 * 32 + 1), Err(Refused("invalid key length")));
    assert!(hkdf("sha256", b"", b"", b"", (1 << 24) + 1).is_err());
    assert!(keys::generate("rsa", 4097, 65537, &mut keys::rng([0; 32])).is_err());
}

#[test]
fn ciphers() {
    let (key, iv) = (bytes("2b7e151628aed2a6abf7158809cf4f3c"), bytes("000102030405060708090a0b0c0d0e0f"));
    let text = bytes("6bc1bee22e409f96e93d7e117393172a");
    // NIST SP 800-38A, and the key and text of its first example in the counter mode.
    for (mode, iv, expected) in [
        ("cbc", iv.as_slice(), "7649abac8119b246cee98e9b12e9197d"),
        ("ctr", iv.as_slice(), "3b3fd92eb72dad20333449f8e83cfb4a"),
        ("ecb", &[], "3ad77bb40d7a3660a89ecaf32466ef97"),
    ] {
        for (is_encryption, from, to) in [(true, &text, &bytes(expected)), (false, &bytes(expected), &text)] {
            let mut cipher = Cipher::new(mode, is_encryption, &key, iv).expect("they fit");
            cipher.set_unpadded();
            let mut out = cipher.update(from.clone());
            out.extend(cipher.finish().expect("the input is whole blocks"));
            assert_eq!(out, *to, "{mode}");
        }
    }
    assert!(Cipher::new("cbc", true, &key[1..], &iv).is_none() && Cipher::new("ofb", true, &key, &iv).is_none());
}

#[test]
fn a_tag_authenticates() {
    // Test case 4 of the GCM specification.
    let (key, iv) = (bytes("feffe9928665731c6d6a8f9467308308"), bytes("cafebabefacedbaddecaf888"));
    let aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let text = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let sealed = bytes(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
    );
    let tag = bytes("5bc94fbc3221a5db94fae95ae7121a47");
    let mut cipher = Cipher::new("gcm", true, &key, &iv).expect("they fit");
    cipher.add_authenticated(&aad);
    assert_eq!(cipher.update(text.clone()), sealed);
    assert_eq!((cipher.finish(), cipher.tag()), (Ok(Vec::new()), Some(tag.as_slice())));

    let opened = |tag: Option<Vec<u8>>| {
        let mut cipher = Cipher::new("gcm", false, &key, &iv).expect("they fit");
        cipher.add_authenticated(&aad);
        tag.into_iter().for_each(|tag| cipher.expect_tag(tag));
        assert_eq!(cipher.update(sealed.clone()), text);
        cipher.finish()
    };
    assert_eq!(opened(Some(tag.clone())), Ok(Vec::new()));
    assert_eq!(opened(Some([&tag[..15], &[0]].concat())), Err(CipherFailure::Auth));
    assert_eq!(opened(None), Err(CipherFailure::Auth));
}

#[test]
fn keys_sign_and_have_forms() {
    // RFC 8032, section 7.1, test 1.
    let secret = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let key = keys::build("ed25519", &[Vec::new(), secret.clone()]).expect("a secret of 32 bytes");
    let scheme = Scheme { padding: String::new(), digest: String::new(), salt_length: None, label: Vec::new() };
    let signature = key.sign(&scheme, b"", &mut keys::rng([0; 32])).expect("the key can sign");
    let expected = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
                    d25bf5f0595bbe24655141438e7a100b";
    assert_eq!(hex::encode(&signature), expected);
    assert!(key.public().verify(&scheme, b"", &signature) && !key.public().verify(&scheme, b"x", &signature));

    let der = key.der(Form::Pkcs8).expect("a private key");
    let sealed = keys::encrypt(&der, "aes-256-cbc", b"secret", &mut keys::rng([1; 32])).expect("a known cipher");
    let read = |passphrase: &[u8]| keys::read("encrypted", &sealed, passphrase).expect("the number of rounds is small");
    assert_eq!(read(b"secret").expect("the passphrase is right").numbers()[1], secret);
    assert!(read(b"wrong").is_none());
}

#[test]
fn streams_are_compressed_a_step_at_a_time() {
    assert_eq!(crc32(b"123456789", 0), 0xcbf4_3926);
    assert_eq!(crc32(b"456789", crc32(b"123", 0)), 0xcbf4_3926);
    let text = "abc".repeat(1000);
    // The last member is Node's flush mode for the end of the input: `Z_FINISH`, `BROTLI_OPERATION_FINISH`.
    for (kind, back, finish) in [
        ("gzip", "gunzip", 4),
        ("deflate", "inflate", 4),
        ("deflateRaw", "inflateRaw", 4),
        ("brotliCompress", "brotliDecompress", 2),
    ] {
        let packed = run(Codec::new(kind, 6, 15, None).expect("a known kind"), text.as_bytes(), finish);
        assert!(packed.len() < 100, "{kind}: {}", packed.len());
        let unpacked = run(Codec::new(back, 6, 15, None).expect("a known kind"), &packed, finish);
        assert_eq!(unpacked, text.as_bytes(), "{kind}");
    }
    let failure = Codec::new("inflate", 6, 15, None).expect("a known kind").step(b"no stream", 0, 64).failure;
    assert!(failure.is_some());
    assert!(Codec::new("lzma", 6, 15, None).is_none());
}

/// Runs a whole stream with little output room for each step.
fn run(mut codec: Codec, mut input: &[u8], finish: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let step = codec.step(input, finish, 16);
        assert!(step.failure.is_none(), "{:?}", step.failure);
        out.extend(step.output);
        input = &input[step.read..];
        if step.end {
            return out;
        }
    }
}
