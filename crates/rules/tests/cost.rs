//! Counts the cost of a delta: allocations, and bytes that are read.

use allocation_counter::measure;
use pijs_rules::{Condition, EngineOptions, MatchContext, Origin, Region, Rule, RuleEngine, RuleSettings};

fn engine(patterns: &[&str]) -> RuleEngine {
    engine_of(patterns, &[Region::Any])
}

fn engine_of(patterns: &[&str], regions: &[Region]) -> RuleEngine {
    let rules = patterns.iter().enumerate().map(|(number, source)| {
        let mut rule = Rule::new(format!("rule-{number}"), Origin::Project, "x");
        rule.region = regions[number % regions.len()];
        rule.conditions.push(Condition { source: (*source).to_owned(), flags: "m".to_owned() });
        rule
    });
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    RuleEngine::new(rules.collect(), settings, EngineOptions::default())
}

/// Reads `bytes` bytes of text, in deltas of eight.
fn read(engine: &mut RuleEngine, bytes: usize) {
    let text = "let answer = compute(input); // ok\n     ";
    for at in (0..bytes).step_by(8) {
        let from = at % text.len();
        assert!(engine.check_delta(&text[from..from + 8], &MatchContext::text(0)).is_none());
    }
}

#[test]
fn a_session_without_rules_allocates_nothing() {
    let mut engine = engine(&[]);
    assert_eq!(measure(|| read(&mut engine, 100_000)).count_total, 0);
    let context = MatchContext::tool("write", "call", 0);
    let allocated = measure(|| {
        engine.check_delta("{\"path\":\"a\"", &context);
        engine.end_of_call(&context);
        engine.end_of_message(0);
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn a_delta_that_matches_nothing_allocates_nothing() {
    let mut engine = engine(&[r"\bTODO\b", r"^\s*(?:const|let)\s+forbidden\s*=", "rm -rf", r"console\.log\("]);
    read(&mut engine, 100_000);
    assert_eq!(measure(|| read(&mut engine, 1_000_000)).count_total, 0);
}

#[test]
fn a_code_block_allocates_nothing() {
    let regions = [Region::Any, Region::Code, Region::Prose];
    let mut engine = engine_of(&[r"\bTODO\b", r"^\s*(?:const|let)\s+forbidden\s*=", "rm -rf"], &regions);
    let text = "All of it:\n\n> 1. ```ts\n>    let a = b;\n>    ```\n\n~~~~\nlet answer = compute(input);\n~~~~\n- and more\n\n";
    let mut read = || {
        for at in (0..100 * text.len()).step_by(7) {
            let from = at % text.len();
            let until = (from + 7).min(text.len());
            assert!(engine.check_delta(&text[from..until], &MatchContext::text(0)).is_none());
        }
    };
    (0..10).for_each(|_| read());
    assert_eq!(measure(read).count_total, 0);
}

#[test]
fn each_byte_is_read_once() {
    let mut engine = engine(&[r"\bTODO\b", r"^\s*(?:const|let)\s+forbidden\s*=", "rm -rf"]);
    read(&mut engine, 4 << 20);
    engine.end_of_message(0);
    let stats = engine.stats();
    assert_eq!((stats.bytes, stats.scanned_bytes, stats.searched_bytes), (4 << 20, 4 << 20, 0));
}

#[test]
fn backtracking_reads_a_multiple_of_the_text() {
    let mut engine = engine(&[r"\b(\w+) = \1\b"]);
    let cost = |engine: &mut RuleEngine, bytes| {
        let before = engine.stats().searched_bytes;
        read(engine, bytes);
        engine.end_of_message(0);
        engine.stats().searched_bytes - before
    };
    assert!(cost(&mut engine, 1 << 20) < 24 * (1 << 20));
    assert!(cost(&mut engine, 2 << 10) > 0);
}
