//! Tests that the decoder refuses everything but the output of the encoder, with a reason.

use crate::container::{FORMAT_VERSION, MAGIC, Tag};
use crate::{Artifact, InstallKey, Mac, Module, Verified, decode, encode, read_header, sign};
use bytes::Bytes;
use pijs_protocol::artifact::{ArtifactMetadata, EngineBuild};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn engine() -> EngineBuild {
    EngineBuild {
        name: "quickjs-ng".to_owned(),
        version: "0.16.2".to_owned(),
        bytecode: 28,
        target: "x86_64-le-64".to_owned(),
    }
}

fn artifact(modules: Vec<Module>) -> Artifact {
    Artifact {
        metadata: ArtifactMetadata {
            cache_key: "sha256:00".to_owned(),
            entries: vec!["index.ts".to_owned()],
            inputs: BTreeMap::from([("index.ts".to_owned(), "sha256:11".to_owned())]),
            ..ArtifactMetadata::new("sample", "1.2.3", engine())
        },
        modules,
    }
}

fn sample() -> Artifact {
    artifact(vec![
        Module {
            specifier: "ext:/index.js".to_owned(),
            source: "export default () => 1;\n".to_owned(),
            source_map: Some("{\"version\":3}".to_owned()),
            bytecode: Some(vec![28, 1, 2, 3].into()),
        },
        Module {
            specifier: "ext:/shared.js".to_owned(),
            source: String::new(),
            source_map: None,
            bytecode: Some(Bytes::new()),
        },
    ])
}

fn key() -> InstallKey {
    InstallKey::from_bytes([7; 32])
}

#[test]
fn an_artifact_survives_a_round_trip() {
    let bytes = encode(&sample());
    assert_eq!(decode(&bytes).unwrap(), sample());
    assert_eq!(encode(&decode(&bytes).unwrap()), bytes);
    assert_eq!(read_header(&bytes).unwrap(), engine());
}

#[test]
fn the_files_own_digest_is_not_part_of_the_file() {
    let mut with_digest = sample();
    with_digest.metadata.artifact = crate::digest(b"anything");
    assert_eq!(encode(&with_digest), encode(&sample()));
}

#[test]
fn every_single_byte_change_is_refused() {
    let bytes = encode(&sample());
    for position in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[position] ^= flip;
            assert!(decode(&changed).is_err(), "byte {position} ^ {flip:#x} went unnoticed");
        }
    }
}

#[test]
fn every_truncation_and_any_addition_is_refused() {
    let bytes = encode(&sample());
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "the first {length} bytes were taken for a whole");
    }
    let mut longer = bytes;
    longer.push(0);
    let error = decode(&longer).unwrap_err();
    assert!(error.is_damaged());
    assert_eq!(error.to_string(), "1 bytes after the end");
}

#[test]
fn the_header_is_checked_before_the_content() {
    let mut bytes = encode(&sample());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes[MAGIC.len()] = FORMAT_VERSION as u8 + 1;
    let error = decode(&bytes).unwrap_err();
    assert!(error.is_foreign(), "{error}");
    assert_eq!(error.to_string(), "artifact format 2, but this program reads format 1");
    assert!(decode(b"").unwrap_err().is_foreign());
}

#[test]
fn damage_is_reported_with_its_section() {
    let bytes = encode(&sample());
    let source = bytes.windows(6).position(|window| window == b"export").unwrap();
    let mut changed = bytes;
    changed[source] = b'X';
    assert_eq!(decode(&changed).unwrap_err().to_string(), "the source section does not match its SHA-256");
}

#[test]
fn a_length_beyond_the_input_reserves_nothing() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT_VERSION.to_le_bytes());
    bytes.push(Tag::Engine as u8);
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.extend([0; 32]);
    assert!(decode(&bytes).unwrap_err().to_string().contains("cut off in engine section"));
}

#[test]
fn authentic_bytes_verify() {
    let bytes = encode(&sample());
    let mac = sign(&key(), &bytes, &engine(), "npm:sample");
    let stored = Mac::from_bytes(mac.as_bytes()).unwrap();
    let verified = Verified::check(&bytes, &stored, &key(), &engine(), "npm:sample").unwrap();
    assert_eq!(*verified.artifact(), sample());
}

#[test]
fn code_and_texts_can_be_split_and_texts_are_loaded_on_demand() {
    let code = Bytes::from(encode(&sample().into_code()));
    let texts = encode(&sample().into_texts());
    let (code_mac, texts_mac) = (sign(&key(), &code, &engine(), "code"), sign(&key(), &texts, &engine(), "texts"));
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let load = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Verified::check_texts(&texts, &texts_mac, &key(), &engine(), "texts").ok()
    };
    let verified = Verified::check_shared(&code, &code_mac, &key(), &engine(), "code").unwrap().with_texts(load);
    let bytecode = verified.artifact().modules[0].bytecode.as_ref().unwrap();
    assert!(code.as_ptr_range().contains(&bytecode.as_ptr()), "it stays where it is");
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    let first = &sample().modules[0];
    assert_eq!(verified.source(&first.specifier), Some(first.source.as_str()));
    assert_eq!(verified.source_map(&first.specifier), first.source_map.as_deref());
    assert_eq!(verified.source("ext:/absent.js"), None);
    assert_eq!(verified.whole(), Some(sample()));
    assert_eq!(reads.load(Ordering::Relaxed), 1);

    let lost = Verified::check_shared(&code, &code_mac, &key(), &engine(), "code").unwrap().with_texts(|| None);
    assert_eq!((lost.source(&first.specifier), lost.whole()), (None, None));
    assert!(Verified::check_shared(&code, &code_mac, &key(), &engine(), "texts").unwrap_err().is_unauthenticated());
}

#[test]
fn a_mac_binds_key_id_engine_and_bytes() {
    let bytes = encode(&sample());
    let mac = sign(&key(), &bytes, &engine(), "npm:sample");
    let refused = |bytes: &[u8], mac: &Mac, key: &InstallKey, engine: &EngineBuild, id: &str| {
        Verified::check(bytes, mac, key, engine, id).unwrap_err()
    };
    assert!(refused(&bytes, &mac, &InstallKey::from_bytes([8; 32]), &engine(), "npm:sample").is_unauthenticated());
    assert!(refused(&bytes, &mac, &key(), &engine(), "npm:other").is_unauthenticated());

    let newer = EngineBuild { bytecode: 29, ..engine() };
    let error = refused(&bytes, &mac, &key(), &newer, "npm:sample");
    assert!(error.is_other_engine());
    assert_eq!(
        error.to_string(),
        "compiled for quickjs-ng 0.16.2 (bytecode 28, x86_64-le-64), but this program runs quickjs-ng 0.16.2 (bytecode 29, x86_64-le-64)"
    );
    // Fields are length-prefixed: moving a byte between engine name and version changes the message.
    let shifted = EngineBuild { name: "quickjs-ng0".to_owned(), version: ".16.2".to_owned(), ..engine() };
    assert_ne!(sign(&key(), &bytes, &shifted, "npm:sample").as_bytes(), mac.as_bytes());

    let mut changed = sample();
    changed.modules[0].bytecode = Some(vec![28, 1, 2, 4].into());
    assert!(refused(&encode(&changed), &mac, &key(), &engine(), "npm:sample").is_unauthenticated());
    assert!(Mac::from_bytes(&mac.as_bytes()[..31]).is_none());
}

#[test]
fn a_module_without_bytecode_is_not_loadable() {
    let mut without = sample();
    without.modules[1].bytecode = None;
    let bytes = encode(&without);
    let mac = sign(&key(), &bytes, &engine(), "npm:sample");
    let error = Verified::check(&bytes, &mac, &key(), &engine(), "npm:sample").unwrap_err();
    assert_eq!(error.to_string(), "module `ext:/shared.js` has no bytecode");
}

#[test]
fn an_embedded_artifact_needs_engine_and_code_but_no_mac() {
    let carried = |artifact: &Artifact| -> &'static [u8] { encode(artifact).leak() };
    let bytes = carried(&sample().into_code());
    let verified = Verified::embedded(bytes, &engine()).unwrap();
    assert_eq!(*verified.artifact(), sample().into_code());
    let code = verified.artifact().modules[0].bytecode.clone().unwrap();
    assert!(bytes.as_ptr_range().contains(&code.as_ptr()), "it stays where it is");

    let newer = EngineBuild { bytecode: 29, ..engine() };
    assert!(Verified::embedded(bytes, &newer).unwrap_err().is_other_engine());
    let mut without = sample();
    without.modules[1].bytecode = None;
    assert!(Verified::embedded(carried(&without), &engine()).is_err());
    assert!(Verified::embedded(&bytes[..bytes.len() - 1], &engine()).is_err());
}

#[test]
fn a_key_does_not_show_in_debug_output() {
    assert_eq!(format!("{:?}", key()), "InstallKey(..)");
}

fn any_module() -> impl Strategy<Value = Module> {
    (".*", ".*", proptest::option::of(".*"), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..64)))
        .prop_map(|(specifier, source, source_map, bytecode)| Module {
            specifier,
            source,
            source_map,
            bytecode: bytecode.map(Bytes::from),
        })
}

proptest! {
    #[test]
    fn any_modules_survive_the_round_trip(modules in proptest::collection::vec(any_module(), 0..5)) {
        let written = artifact(modules);
        prop_assert_eq!(decode(&encode(&written)).unwrap(), written);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn mutated_artifacts_are_refused_without_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..8)
    ) {
        let original = encode(&sample());
        let mut bytes = original.clone();
        for (index, byte, edit) in edits {
            let at = index.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match edit {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
        }
        prop_assert_eq!(decode(&bytes).is_ok(), bytes == original);
    }
}
