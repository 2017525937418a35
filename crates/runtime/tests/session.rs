//! The example of an embedding program does what it shows.

use std::process::Command;

#[test]
fn the_example_stops_a_reply_and_asks_again() {
    let home = tempfile::tempdir().expect("a home");
    // cargo builds examples beside the folder of its test binaries.
    let own = std::env::current_exe().expect("this test");
    let example = own.parent().and_then(|deps| deps.parent()).expect("a target folder").join("examples/session");
    let run = Command::new(&example)
        .env("HOME", home.path())
        .env("XDG_CACHE_HOME", home.path().join("cache"))
        .env("PI_OFFLINE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let (shown, told) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{told}");
    let [stopped, retried] = shown.split("stopped the reply; the model tries again").collect::<Vec<_>>()[..] else {
        panic!("one verdict: {shown}");
    };
    assert!(stopped.contains("import { createClient } from '@ol"), "{shown}");
    assert!(retried.contains("@new-sdk/core") && retried.ends_with("=> Done\n"), "{shown}");
}
