use super::params_hash::Unhashed;
use super::*;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicBool, Ordering};

fn ledger(options: LedgerOptions, sink: Arc<dyn LedgerSink>) -> (Ledger, Caller) {
    (Ledger::new(options, sink), Caller::new(Arc::new(Profile::new("path:/x"))))
}

fn five_lines() -> Vec<u8> {
    let sink = MemorySink::new();
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    for n in 0..5 {
        let now = Now { epoch_ms: 1_770_087_662_123 + n, elapsed_us: n };
        ledger.event(now, &caller, Level::Info, "test", "line", Map::from_iter([("n".to_owned(), json!(n))]));
    }
    ledger.flush().unwrap();
    sink.bytes()
}

#[test]
fn any_changed_byte_removed_repeated_or_moved_line_is_named() {
    let good = five_lines();
    let verified = verify(&*good).unwrap();
    assert_eq!((verified.lines, verified.torn), (5, false));
    let lines: Vec<&[u8]> = good.split_inclusive(|byte| *byte == b'\n').collect();
    let broken = |order: &[usize]| {
        verify(&*order.iter().flat_map(|at| lines[*at].to_vec()).collect::<Vec<_>>()).unwrap_err().line
    };
    assert_eq!(broken(&[0, 2, 3, 4]), 2);
    assert_eq!(broken(&[1, 2, 3, 4]), 1);
    assert_eq!(broken(&[0, 1, 1, 2]), 3);
    assert_eq!(broken(&[0, 2, 1, 3]), 2);
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 1;
        let result = verify(&*changed);
        // Only a removed last line feed may pass as valid: the line then counts as torn.
        assert!(result.is_err() || result.is_ok_and(|verified| verified.torn || verified.lines != 5), "byte {at}");
    }
}

#[test]
fn a_truncated_end_is_detected_with_the_head() {
    let good = five_lines();
    let whole = verify(&*good).unwrap();
    let torn = verify(&good[..good.len() - 10]).unwrap();
    assert_eq!((torn.lines, torn.torn), (4, true));
    assert_ne!(torn.head, whole.head);
}

#[test]
fn a_chain_continues_at_its_end() {
    let sink = MemorySink::new();
    let (first, caller) = ledger(LedgerOptions::default(), sink.clone());
    first.event(Now::default(), &caller, Level::Info, "a", "", Map::new());
    first.flush().unwrap();
    let (second, caller) = ledger(LedgerOptions { head: first.head(), ..LedgerOptions::default() }, sink.clone());
    second.event(Now::default(), &caller, Level::Info, "b", "", Map::new());
    drop(second);
    assert_eq!(verify(&*sink.bytes()).unwrap().lines, 2);
}

#[test]
fn extensions_cannot_write_the_hosts_fields_or_leak_known_secrets() {
    let sink = MemorySink::new();
    let options = LedgerOptions { secrets: vec!["hunter2-canary".into()], ..LedgerOptions::default() };
    let (ledger, caller) = ledger(options, sink.clone());
    let data = json!({"chain": {"seq": 9}, "apiKey": "x", "note": "\"}\n{ hunter2-canary"});
    ledger.extension_log(
        Now::default(),
        &caller,
        Level::Warn,
        "extension.log",
        "a\nb hunter2-canary",
        data.as_object().unwrap().clone(),
    );
    ledger.flush().unwrap();
    assert_eq!(verify(&*sink.bytes()).unwrap().lines, 1);
    let line = &sink.lines()[0];
    assert_eq!(line["data"]["extension"]["apiKey"], "[REDACTED]");
    assert_eq!(line["data"]["chain"]["seq"], 0);
    assert_eq!(line["ts"], "1970-01-01T00:00:00.000Z");
    assert!(!String::from_utf8(sink.bytes()).unwrap().contains("hunter2"));
}

#[test]
fn an_oversized_line_names_the_omitted_data() {
    let sink = MemorySink::new();
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    ledger.event(
        Now::default(),
        &caller,
        Level::Info,
        "big",
        "",
        Map::from_iter([("x".to_owned(), json!("y".repeat(100_000)))]),
    );
    ledger.flush().unwrap();
    assert!(sink.lines()[0]["data"]["omitted_bytes"].as_u64().unwrap() > 100_000);
    assert!(sink.bytes().len() < LONGEST_LINE);
    verify(&*sink.bytes()).unwrap();
}

struct FailingSink(AtomicBool, Arc<MemorySink>);

impl LedgerSink for FailingSink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { self.1.append(lines) }
    }
}

#[test]
fn lines_of_a_failing_sink_are_retried() {
    let memory = MemorySink::new();
    let sink = Arc::new(FailingSink(AtomicBool::new(true), memory.clone()));
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    ledger.event(Now::default(), &caller, Level::Info, "a", "", Map::new());
    assert!(ledger.flush().is_err());
    sink.0.store(false, Ordering::Relaxed);
    ledger.event(Now::default(), &caller, Level::Info, "b", "", Map::new());
    ledger.flush().unwrap();
    assert_eq!(verify(&*memory.bytes()).unwrap().lines, 2);
}

#[test]
fn a_writer_on_its_own_thread_writes_the_same_lines() {
    let sink = MemorySink::new();
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    let writer = ledger.writer();
    let thread = std::thread::spawn(move || writer.run());
    for n in 0..10_000 {
        ledger.event(Now::default(), &caller, Level::Info, "n", "", Map::from_iter([("n".to_owned(), json!(n))]));
        if n % 100 == 0 {
            ledger.kick();
        }
        if n % 1000 == 999 {
            // A flush writes everything at once.
            ledger.flush().unwrap();
            assert_eq!(sink.lines().last().unwrap()["data"]["n"], n);
        }
    }
    drop(ledger);
    thread.join().unwrap();
    assert_eq!(verify(&*sink.bytes()).unwrap().lines, 10_000);
    assert!(sink.lines().iter().enumerate().all(|(n, line)| line["data"]["n"] == n));
}

/// Panics at the first call.
struct PanickingSink(AtomicBool, Arc<MemorySink>);

impl LedgerSink for PanickingSink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        assert!(self.0.swap(true, Ordering::Relaxed), "the first time");
        self.1.append(lines)
    }
}

#[test]
fn after_a_panic_of_the_writer_turns_write() {
    let memory = MemorySink::new();
    let (ledger, caller) =
        ledger(LedgerOptions::default(), Arc::new(PanickingSink(AtomicBool::new(false), memory.clone())));
    let writer = ledger.writer();
    let thread = std::thread::spawn(move || writer.run());
    ledger.event(Now::default(), &caller, Level::Info, "a", "", Map::new());
    ledger.kick();
    assert!(thread.join().is_err());
    ledger.event(Now::default(), &caller, Level::Info, "b", "", Map::new());
    ledger.kick();
    let events: Vec<Value> = memory.lines().iter().map(|line| line["event"].clone()).collect();
    assert_eq!(events, ["a", "b"]);
    verify(&*memory.bytes()).unwrap();
}

fn call_with(params: Value) -> HostCall {
    HostCall {
        call_id: "c".into(),
        capability: pijs_protocol::Capability::new("http"),
        method: "http".into(),
        params: params.as_object().unwrap().clone(),
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    }
}

#[test]
fn parameters_with_secrets_are_hashed_with_the_installation_key() {
    let keyed = |key: [u8; 32], params: Value| {
        let options =
            LedgerOptions { hash_key: Some(key), secrets: vec!["hunter2hunter2".into()], ..LedgerOptions::default() };
        Ledger::new(options, MemorySink::new()).hash_params(&call_with(params))
    };
    for params in [
        json!({"url": "https://x/", "headers": {"Authorization": "1234"}}),
        json!({"url": "https://x/?q=hunter2hunter2"}),
        json!({"list": [{"pin": "ok"}, {"password": 1234}]}),
        json!({"body": "api_key=1234"}),
    ] {
        let (a, b) = (keyed([1; 32], params.clone()), keyed([2; 32], params.clone()));
        assert!(a.is_keyed() && b.is_keyed() && a.digest() != b.digest(), "{params}");
    }
    let plain = json!({"url": "https://x/", "maxTokens": 4, "note": "the author's key idea"});
    let (a, b) = (keyed([1; 32], plain.clone()), keyed([2; 32], plain));
    assert!(!a.is_keyed() && !b.is_keyed() && a.digest() == b.digest());
}

/// The hash is the same whether the turn computes it (for a large call) or the writer does.
#[test]
fn a_hash_is_that_of_the_canonical_call_however_long_it_is() {
    for length in [0, 1, 100, 150, 151, 152, 153, 154, 155, 160, 200, 10_000] {
        let call = call_with(json!({"op": "notify", "message": "x".repeat(length)}));
        let hash = Ledger::new(LedgerOptions::default(), MemorySink::new()).hash_params(&call);
        let canonical = canonical_call(&call.method, &call.params, &call.bytes);
        assert_eq!(*hash.digest(), <[u8; 32]>::from(Sha256::digest(&canonical)), "{length}");
    }
}

#[test]
fn a_full_queue_is_written_when_the_writer_is_late() {
    let sink = MemorySink::new();
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    let _late = ledger.writer();
    for _ in 0..MAX_QUEUE {
        ledger.event(Now::default(), &caller, Level::Info, "test", "line", Map::new());
    }
    assert_eq!(verify(&*sink.bytes()).unwrap().lines, MAX_QUEUE as u64);
}

/// The writer is signalled but has not run yet, so records stay queued.
#[test]
fn a_working_sink_gets_every_line() {
    let sink = MemorySink::new();
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    let _late = ledger.writer();
    let records = MAX_QUEUE - 1;
    // The number of records is below the limit of the queue, but their lines exceed one append.
    let text = "x".repeat(MAX_UNWRITTEN / 2 / records);
    for n in 0..records {
        let data = Map::from_iter([("n".to_owned(), json!(n)), ("text".to_owned(), json!(text))]);
        ledger.event(Now::default(), &caller, Level::Info, "test", "line", data);
    }
    assert!(sink.bytes().is_empty(), "they wait");
    ledger.flush().unwrap();
    let lines = sink.bytes();
    assert!(lines.len() > MAX_UNWRITTEN + MAX_UNWRITTEN / 8, "{}", lines.len());
    assert_eq!(verify(&*lines).unwrap().lines, records as u64);
    assert!(!String::from_utf8(lines).unwrap().contains("ledger.dropped"));
}

/// A thread that adds more than the queue may contain writes the records itself, which bounds the host's memory.
#[test]
fn long_texts_are_written_within_the_memory_limit() {
    let sink = MemorySink::new();
    let (ledger, caller) = ledger(LedgerOptions::default(), sink.clone());
    let _late = ledger.writer();
    let text = "x".repeat(MAX_UNWRITTEN / 4);
    let log = || {
        let data = Map::from_iter([("list".to_owned(), json!([{"text": text}]))]);
        ledger.event(Now::default(), &caller, Level::Info, "test", "line", data);
    };
    (0..3).for_each(|_| log());
    assert!(sink.bytes().is_empty(), "they wait");
    log();
    assert_eq!(verify(&*sink.bytes()).unwrap().lines, 4);
}

#[test]
fn a_small_call_is_pooled_until_its_lines_are_written() {
    let mut pool = CallPool::default();
    let mut hash = |text: &[u8]| pool.hash(|out| out.extend_from_slice(text));
    let is_of = |hash: &ParamsHash, text: &[u8]| assert_eq!(*hash.digest(), <[u8; 32]>::from(Sha256::digest(text)));
    let place = |hash: &ParamsHash| match hash {
        ParamsHash::Later(call) => Some(Arc::as_ptr(call)),
        _ => None,
    };
    let (one, two) = (hash(b"one"), hash(b"two"));
    is_of(&one, b"one");
    let first = place(&one);
    let three = hash(b"three");
    assert!(first != place(&three) && place(&two) != place(&three), "both are in use");
    drop(one);
    let calls: Vec<ParamsHash> = (0..4).map(|_| hash(b"four")).collect();
    assert!(first.is_some() && calls.iter().any(|call| place(call) == first), "it was free");
    is_of(&two, b"two");
    is_of(&three, b"three");
    let long = [b'x'; Unhashed::MOST + 1];
    let hashed = hash(&long);
    assert_eq!(place(&hashed), None, "what is long is hashed at once");
    is_of(&hashed, &long);
    calls.iter().for_each(|call| is_of(call, b"four"));
    is_of(&hash(b"five"), b"five");
}
