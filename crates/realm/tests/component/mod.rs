//! Tests a WebAssembly component in a sealed process, and compares it with one in this thread.

use crate::support::{NoHost, delta, options};
use pijs_artifact::{Artifact, COMPONENT_SCHEME, Module, Verified};
use pijs_engine::engine_build;
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::message::Load;
use pijs_protocol::wire::{Limits, RealmOptions, StreamAnswer, Task};
use pijs_protocol::{Delivery, EntryIndex, Message, Now, Seq, Termination, Yield};
use pijs_realm::{Patience, ProcessError, ProcessOptions, ProcessRealm, Progress, Realm, ThreadRealm};
use pijs_wasm::text;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("component::it_answers_as_in_a_thread", it_answers_as_in_a_thread),
    ("component::deltas_that_pass_cross_together", deltas_that_pass_cross_together),
    ("component::a_loop_ends_by_fuel_and_memory_by_its_limit", a_loop_ends_by_fuel_and_memory_by_its_limit),
    ("component::a_trap_leaves_the_worker_time_to_say_so", a_trap_leaves_the_worker_time_to_say_so),
    ("component::code_of_another_build_is_refused", code_of_another_build_is_refused),
    #[cfg(target_arch = "x86_64")]
    ("component::native_code_makes_no_page_executable", native_code_makes_no_page_executable),
];

const VERDICT: &str = include_str!("../../../../fixtures/guests/text/verdict.wat");

fn compiled(bytes: &[u8]) -> Arc<Verified> {
    let compiled = pijs_wasm::compile(bytes).expect("a component");
    of_code(compiled.code)
}

fn of_code(code: Vec<u8>) -> Arc<Verified> {
    let module = Module {
        specifier: format!("{COMPONENT_SCHEME}0/guest.wasm"),
        source: String::new(),
        source_map: None,
        bytecode: Some(code.into()),
    };
    let metadata = ArtifactMetadata::new("guest", "1.0.0", engine_build());
    Arc::new(Verified::compiled_here(Artifact { metadata, modules: vec![module] }))
}

fn load() -> Delivery {
    let load = Load {
        entry: EntryIndex(0),
        module: "wasm:/0/guest.wasm".to_owned(),
        path: "guest.wasm".to_owned(),
        extension: "path:/guest".into(),
        root: None,
    };
    Delivery { seq: Seq(1), now: Now::default(), task: Task::Message(Box::new(Message::Load(load))), state: None }
}

fn open(options: &RealmOptions, code: &Arc<Verified>) -> ProcessRealm {
    let modules = [Arc::clone(code)];
    let (realm, booted) = ProcessRealm::open(options, &modules, Now::default(), &mut NoHost, ProcessOptions::default())
        .expect("a worker");
    assert_eq!(booted, Yield::default());
    assert!(realm.sealed().holds(), "{}", realm.sealed());
    realm
}

fn run(realm: &mut dyn Realm) -> Result<Yield, Termination> {
    let mut progress = realm.start(load(), &mut NoHost);
    loop {
        progress = match progress {
            Progress::Running => realm.resume(&mut NoHost, Patience::AtMost(Duration::from_secs(10))),
            Progress::Yielded(done) => return Ok(done),
            Progress::Ended(reason) => return Err(reason),
        }
    }
}

fn it_answers_as_in_a_thread() {
    let code = compiled(&text::core_module(VERDICT));
    let mut process = open(&options(), &code);
    let mut thread = ThreadRealm::open(&options(), vec![code]).expect("a realm");
    assert_eq!(run(&mut process), run(&mut thread));
    for (seq, chunk) in (2..).zip(["x", "a # b", "\u{10ffff}"]) {
        let now = Now { epoch_ms: seq, elapsed_us: seq };
        let expected = thread.stream(Seq(seq), now, &delta(chunk), &mut NoHost);
        assert_eq!(process.stream(Seq(seq), now, &delta(chunk), &mut NoHost), expected);
        let aborts = matches!(expected.expect("the realm is running").stream, StreamAnswer::Abort(_));
        assert_eq!(aborts, chunk.contains('#'));
    }
}

fn deltas_that_pass_cross_together() {
    let mut realm = open(&options(), &compiled(&text::core_module(VERDICT)));
    run(&mut realm).expect("it loads");
    let deltas: Vec<_> = (0..2_000).map(|number| delta(&number.to_string())).collect();
    let mut shown = 0;
    while shown < deltas.len() {
        let seq = Seq(shown as u64 + 2);
        let slice = Duration::from_secs(1);
        let streamed = realm
            .stream_ahead(seq, Now::default(), &deltas[shown..], slice, &mut NoHost)
            .expect("the realm is running");
        assert_eq!(streamed.done.stream, StreamAnswer::Continue);
        shown += 1 + streamed.passed;
    }
    assert!(realm.frames().received < 200, "{:?}", realm.frames());
}

fn a_loop_ends_by_fuel_and_memory_by_its_limit() {
    let limits = Limits { fuel: 100, memory_bytes: 16 << 20, ..Limits::default() };
    let options = RealmOptions { limits, ..options() };
    let ended = |items: &str| {
        run(&mut open(&options, &compiled(&text::core_module(&text::module("", items))))).expect_err("it ends")
    };
    let spins = r#"(func (export "register") (result i32) (loop $on (br $on)) (i32.const 0))"#;
    assert_eq!(ended(spins), Termination::Timeout { quota: "fuel".to_owned() });
    let grows = r#"(func (export "register") (result i32)
      (loop $on (br_if $on (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable)"#;
    assert_eq!(ended(grows), Termination::OutOfMemory);
    let large = r#"(memory (export "memory") 65536) (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#;
    assert_eq!(ended(large), Termination::OutOfMemory);
}

fn a_trap_leaves_the_worker_time_to_say_so() {
    let items = r#"(func $deep (call $deep)) (func (export "register") (result i32) (call $deep) (i32.const 0))"#;
    let ended =
        run(&mut open(&options(), &compiled(&text::core_module(&text::module("", items))))).expect_err("it ends");
    assert!(matches!(&ended, Termination::Trapped { detail } if detail.contains("call stack exhausted")), "{ended}");
}

fn code_of_another_build_is_refused() {
    let opened = ProcessRealm::open(
        &options(),
        &[of_code(b"\x7fELF and so on".to_vec())],
        Now::default(),
        &mut NoHost,
        ProcessOptions::default(),
    );
    let Err(ProcessError::Failed(message)) = opened else { panic!("it opens") };
    assert!(message.contains("cannot load the component"), "{message}");
}

/// A constant that the compiler embeds in an instruction.
#[cfg(target_arch = "x86_64")]
const MARK: i64 = 0x1122_3344_5566_7788;

/// Compiles a component whose `register` begins with an `mprotect` of the page that it runs in, as an attacker could write it if
/// the compiler had a flaw.
#[cfg(target_arch = "x86_64")]
fn changes_its_page(protection: u8) -> Arc<Verified> {
    let store = |at: i64| format!("(i64.store (i32.const {}) (i64.const {}))", 1024 + 8 * at, MARK + at);
    let stores: String = (0..8).map(store).collect();
    let items = format!(r#"(func (export "register") (result i32) {stores} (i32.const 0))"#);
    let mut code = pijs_wasm::compile(&text::core_module(&text::module("", &items))).expect("a component").code;
    let mark = MARK.to_le_bytes();
    let found: Vec<usize> =
        code.windows(8).enumerate().filter(|(_, bytes)| **bytes == mark).map(|(at, _)| at).collect();
    let [at] = found[..] else { panic!("the constant is in one instruction: {found:?}") };
    #[rustfmt::skip]
    let machine_code = [
        0xb8, 10, 0, 0, 0,                          // mov eax, SYS_mprotect
        0x48, 0x8d, 0x3d, 0, 0, 0, 0,               // lea rdi, [rip]
        0x48, 0x81, 0xe7, 0x00, 0xf0, 0xff, 0xff,   // and rdi, -4096
        0xbe, 0x00, 0x10, 0, 0,                     // mov esi, 4096
        0xba, protection, 0, 0, 0,                  // mov edx, protection
        0x0f, 0x05,                                 // syscall
        0x0f, 0x0b,                                 // ud2
    ];
    // The instruction has two bytes before the constant.
    code[at - 2..][..machine_code.len()].copy_from_slice(&machine_code);
    of_code(code)
}

/// Even native code of the guest cannot make a page executable: a component's code is mapped before the worker seals itself.
#[cfg(target_arch = "x86_64")]
fn native_code_makes_no_page_executable() {
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const EXECUTE: u8 = 4;
    let ended = |protection: u8| run(&mut open(&options(), &changes_its_page(protection))).expect_err("it ends");
    let crashed = |detail: &str| Termination::Crashed { detail: detail.to_owned() };
    for protection in [READ | EXECUTE, READ | WRITE | EXECUTE] {
        assert_eq!(ended(protection), crashed("killed by SIGSYS: it made a forbidden system call"), "{protection}");
    }
    // The call itself succeeds, but the page is not executable afterwards.
    assert_eq!(ended(READ), crashed("killed by SIGSEGV"));
}
