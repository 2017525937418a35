//! Tests that a recording that cannot be written ends with one notice, and that the session continues.

use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{Now, Yield};
use pijs_redact::Redactor;
use pijs_tape::{Recorder, Summary, TapeHeader, TapeReader};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A disk with limited space.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.bytes.lock().expect("no panic");
        let taken = bytes.len().min(self.room - written.len());
        written.extend_from_slice(&bytes[..taken]);
        if taken == 0 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens realms until the tape is finished. Returns the tape and the notices.
fn record(room: usize, realms: u32) -> (Vec<u8>, Vec<String>) {
    let disk = Disk { bytes: Arc::default(), room };
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&notices);
    let engine = EngineBuild { name: "q".into(), version: "1".into(), bytecode: 1, target: "x".into() };
    let header = TapeHeader::new("0.1.0", engine, "sha256:00".to_owned());
    let on_failure = move |error: &io::Error| told.lock().expect("no panic").push(error.to_string());
    let substitutes = Redactor::default().substitutes();
    let recorder = Recorder::new(disk.clone(), &header, substitutes, Box::new(on_failure)).expect("room for a header");
    for realm in 0..realms {
        let name: String = (0..200_u32).map(|at| char::from(b'a' + (at * realm % 23) as u8)).collect();
        let options = RealmOptions {
            extension: name.as_str().into(),
            limits: Limits::default(),
            seed: u64::from(realm),
            clock_step_us: 1,
            time_zone: "UTC".to_owned(),
            facts: serde_json::Map::new(),
        };
        recorder.begin(&options, &[], Now::default()).opened(Ok(&Yield::default()));
    }
    recorder.finish();
    let (bytes, notices) = (disk.bytes.lock().expect("no panic").clone(), notices.lock().expect("no panic").clone());
    (bytes, notices)
}

#[test]
fn a_full_disk_ends_the_recording_and_keeps_a_valid_tape() {
    let (whole, notices) = record(usize::MAX, 3_000);
    assert!(notices.is_empty(), "{notices:?}");
    let summary = Summary::of(&mut TapeReader::new(whole.as_slice()).expect("a tape")).expect("a tape");
    assert!(summary.complete && summary.ticks == 3_000, "{} ticks", summary.ticks);
    // The clock decides which lines share a block, which affects the size slightly.
    for room in [whole.len() / 3, whole.len() / 2] {
        let (bytes, notices) = record(room, 3_000);
        assert_eq!(notices.len(), 1, "{notices:?}");
        let summary =
            Summary::of(&mut TapeReader::new(bytes.as_slice()).expect("a tape")).expect("the readable part is valid");
        assert!(!summary.complete && summary.ticks < 3_000);
    }
}
