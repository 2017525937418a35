//! Tests that limits end a component, and that other components and the host continue.

use crate::support::Guest;
use pijs_protocol::Termination;
use pijs_protocol::wire::Limits;
use std::time::Duration;

const LOOP: &str = r#"(func (export "register") (result i32) (loop $on (br $on)) (i32.const 0))"#;

fn small() -> Limits {
    Limits { memory_bytes: 8 << 20, fuel: 20, stream_fuel: 20, ..Limits::default() }
}

fn ended_by(items: &str) -> Termination {
    let mut guest = Guest::with("", items, small());
    let ended = guest.load().expect_err("it ends");
    assert_eq!(guest.load().expect_err("it stays ended"), ended);
    ended
}

#[test]
fn an_endless_loop_uses_up_its_fuel() {
    let fuel = Termination::Timeout { quota: "fuel".to_owned() };
    assert_eq!(ended_by(LOOP), fuel);
    assert_eq!(ended_by("(func $main (loop $on (br $on))) (start $main)"), fuel);
}

#[test]
fn memory_beyond_the_limit_ends_the_component() {
    assert_eq!(
        ended_by(
            r#"(memory (export "memory") 65536) (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#
        ),
        Termination::OutOfMemory
    );
    let grows = r#"(func (export "register") (result i32)
      (if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable)) (i32.const 0))"#;
    assert_eq!(ended_by(grows), Termination::OutOfMemory);
}

#[test]
fn a_trap_ends_the_component_and_says_which_it_was() {
    let trapped = |items: &str| match ended_by(items) {
        Termination::Trapped { detail } => detail,
        other => panic!("{other}"),
    };
    assert!(trapped(r#"(func (export "register") (result i32) unreachable)"#).contains("unreachable"));
    let outside = r#"(func (export "register") (result i32) (i32.load (i32.const -8)))"#;
    assert!(trapped(outside).contains("out of bounds"));
    let deep = r#"(func $deep (call $deep)) (func (export "register") (result i32) (call $deep) (i32.const 0))"#;
    assert!(trapped(deep).contains("call stack exhausted"));
}

#[test]
fn another_thread_stops_a_turn() {
    let mut guest = Guest::with("", LOOP, Limits { fuel: u64::MAX, ..Limits::default() });
    let interrupter = guest.realm.interrupter();
    let stop = std::thread::spawn(move || {
        // Has no effect before the turn, so it is repeated until there is one.
        while !interrupter.is_orphaned() {
            interrupter.interrupt();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(guest.load().expect_err("it is stopped"), Termination::Timeout { quota: "deadline".to_owned() });
    drop(guest);
    stop.join().expect("the thread ends");
}
