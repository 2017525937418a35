//! Tests WASI 0.2 as a guest's standard library uses it.

use crate::support::Guest;
use pijs_protocol::log::Level;
use pijs_protocol::wire::Limits;
use pijs_protocol::{Message, Termination, Yield};
use pijs_wasm::text;

const RANDOM: (&str, &str) = (
    "wasi:random/random@0.2.3",
    "package wasi:random@0.2.3; interface random { get-random-bytes: func(len: u64) -> list<u8>; get-random-u64: func() -> u64; }",
);
const EXIT: (&str, &str) =
    ("wasi:cli/exit@0.2.6", "package wasi:cli@0.2.6; interface exit { exit: func(status: result); }");
const KEYS: (&str, &str) =
    ("wasi:keyvalue/store@0.2.0", "package wasi:keyvalue@0.2.0; interface store { open: func() -> u32; }");
const CLOCK: (&str, &str) = (
    "wasi:clocks/wall-clock@0.2.9",
    "package wasi:clocks@0.2.9; interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }",
);
const STREAMS: (&str, &str) = (
    "wasi:io/streams@0.2.6",
    "package wasi:io@0.2.6;
     interface error { resource error { to-debug-string: func() -> string; } }
     interface streams {
       use error.{error};
       variant stream-error { last-operation-failed(error), closed }
       resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
     }",
);
const STDERR: (&str, &str) = (
    "wasi:cli/stderr@0.2.6",
    "package wasi:cli@0.2.6; interface stderr { use wasi:io/streams@0.2.6.{output-stream}; get-stderr: func() -> output-stream; }",
);
const SOCKETS: (&str, &str) = (
    "wasi:sockets/tcp-create-socket@0.2.2",
    "package wasi:sockets@0.2.2;
     interface network {
       enum error-code { unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict,
         not-in-progress, would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use, remote-unreachable,
         connection-refused, connection-reset, connection-aborted, datagram-too-large, name-unresolvable,
         temporary-resolver-failure, permanent-resolver-failure }
       enum ip-address-family { ipv4, ipv6 }
     }
     interface tcp { resource tcp-socket; }
     interface tcp-create-socket {
       use network.{error-code, ip-address-family};
       use tcp.{tcp-socket};
       create-tcp-socket: func(family: ip-address-family) -> result<tcp-socket, error-code>;
     }",
);

fn load(packages: &[(&str, &str)], imports: &str, items: &str) -> Result<Yield, Termination> {
    Guest::of(&text::core_module_with(&text::module(imports, items), packages), Limits::default()).load()
}

#[test]
fn randomness_and_time_are_the_drivers() {
    let imports = r#"
      (import "wasi:random/random@0.2.3" "get-random-u64" (func $random (result i64)))
      (import "wasi:clocks/wall-clock@0.2.9" "now" (func $now (param i32)))
      (import "pi:extension/log@1.0.0" "write" (func $log (param i32 i32 i32)))"#;
    let items = r#"(func (export "register") (result i32)
      ;; Eight letters of eight random bytes.
      (i64.store (i32.const 4096)
        (i64.or (i64.and (call $random) (i64.const 0x0f0f0f0f0f0f0f0f)) (i64.const 0x4040404040404040)))
      (call $now (i32.const 4200))
      (if (i64.ne (i64.load (i32.const 4200)) (i64.const 1)) (then unreachable))
      (call $log (i32.const 1) (i32.const 4096) (i32.const 8)) (i32.const 0))"#;
    let run = || load(&[RANDOM, CLOCK], imports, items).expect("loads");
    let first = run();
    assert_eq!(first, run());
    assert_eq!((first.usage.random_draws, first.messages.len()), (1, 2));
    let Message::Log(line) = &first.messages[0] else { panic!("{:?}", first.messages) };
    assert_eq!((line.level, line.ts.as_str(), line.message.len()), (Level::Info, "1970-01-01T00:00:01.000Z", 8));
}

#[test]
fn standard_error_is_the_log() {
    let imports = r#"
      (import "wasi:cli/stderr@0.2.6" "get-stderr" (func $stderr (result i32)))
      (import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))"#;
    let items = r#"(data (i32.const 2048) "one\0atwo\0athr")
      (func (export "register") (result i32)
        (call $write (call $stderr) (i32.const 2048) (i32.const 11) (i32.const 3000)) (i32.const 0))"#;
    let done = load(&[STREAMS, STDERR], imports, items).expect("loads");
    let lines = done.messages.iter().filter_map(|message| match message {
        Message::Log(line) => Some((line.level, line.message.as_str())),
        _ => None,
    });
    assert_eq!(lines.collect::<Vec<_>>(), [(Level::Warn, "one"), (Level::Warn, "two"), (Level::Warn, "thr")]);
}

#[test]
fn a_socket_is_refused_as_an_error_that_the_guest_sees() {
    let imports =
        r#"(import "wasi:sockets/tcp-create-socket@0.2.2" "create-tcp-socket" (func $create (param i32 i32)))"#;
    let items = r#"(func (export "register") (result i32)
        (call $create (i32.const 0) (i32.const 3000))
        ;; err(access-denied)
        (if (i32.ne (i32.load8_u (i32.const 3000)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 3004)) (i32.const 1)) (then unreachable))
        (i32.const 0))"#;
    load(&[SOCKETS], imports, items).expect("loads");
}

#[test]
fn missing_imports_are_named_when_they_are_called() {
    let trapped = |package, imports: &str, items: &str| match load(&[package], imports, items) {
        Err(Termination::Trapped { detail }) => detail,
        other => panic!("{other:?}"),
    };
    let imports = r#"(import "wasi:keyvalue/store@0.2.0" "open" (func $open (result i32)))"#;
    let calls = r#"(func (export "register") (result i32) (drop (call $open)) (i32.const 0))"#;
    assert!(trapped(KEYS, imports, calls).contains("wasi:keyvalue/store@0.2.0#open"));
    load(&[KEYS], imports, "(func (drop (call $open)))").expect("an import that nobody calls does no harm");
    let imports = r#"(import "wasi:cli/exit@0.2.6" "exit" (func $exit (param i32)))"#;
    let exits = r#"(func (export "register") (result i32) (call $exit (i32.const 1)) (i32.const 0))"#;
    assert_eq!(trapped(EXIT, imports, exits), "the component exited with code 1");
}
