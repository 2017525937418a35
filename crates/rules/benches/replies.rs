//! Times a reply that breaks no rule, for the comparison with other engines: `cargo xtask bench` writes the work files, and
//! `replies.mjs` beside this file does the same work in JavaScript.
//!
//! `cargo bench -p pijs-rules --bench replies -- WORK.json ...` prints a line of JSON for each file: the median of nine passes.
//! Each pass builds a new engine, whose automaton has no cached states yet.

use pijs_rules::file::parse;
use pijs_rules::{EngineOptions, Format, MatchContext, Origin, Rule, RuleEngine, RuleSettings};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

const PASSES: usize = 9;

/// One measurement.
#[derive(Deserialize)]
struct Work {
    /// The `condition` of each rule, written as in a rule file of oh-my-pi.
    conditions: Vec<String>,
    reply: String,
    /// Characters per delta.
    step: usize,
    /// Text that breaks a rule when it is appended to the reply.
    hit: String,
}

#[derive(Serialize)]
struct Figures {
    /// Time for all deltas, in milliseconds.
    ms: f64,
    /// Time to build the engine, in milliseconds.
    build_ms: f64,
    /// Fraction of the reply that was read.
    share: f64,
}

fn rules(conditions: &[String]) -> Vec<Rule> {
    let file = |(number, condition): (usize, &String)| {
        let condition = serde_json::to_string(condition).expect("a string is JSON");
        let path = format!("rule-{number}.md");
        let text = format!("---\ncondition: {condition}\n---\nDo something else.\n");
        parse(Path::new(&path), &text, Format::Omp, Origin::Project).rules
    };
    let rules: Vec<Rule> = conditions.iter().enumerate().flat_map(file).collect();
    assert_eq!(rules.len(), conditions.len(), "each file has a rule");
    rules
}

fn deltas(reply: &str, step: usize) -> Vec<&str> {
    let ends: Vec<usize> = reply.char_indices().map(|(at, _)| at).step_by(step).chain([reply.len()]).collect();
    ends.windows(2).map(|ends| &reply[ends[0]..ends[1]]).collect()
}

fn measure(work: &Work) -> Figures {
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    let (rules, deltas, context) = (rules(&work.conditions), deltas(&work.reply, work.step), MatchContext::text(0));
    let pass = || {
        let rules = rules.clone();
        let start = Instant::now();
        let mut engine = RuleEngine::new(rules, settings.clone(), EngineOptions::default());
        let built = start.elapsed();
        let start = Instant::now();
        let hits = deltas.iter().filter(|delta| engine.check_delta(delta, &context).is_some()).count();
        let read = start.elapsed();
        assert_eq!(hits, 0, "the reply breaks no rule");
        assert!(engine.check_delta(&work.hit, &context).is_some(), "a rule that is broken fires");
        (read, built)
    };
    let (mut read, mut built): (Vec<Duration>, Vec<Duration>) = (0..PASSES).map(|_| pass()).unzip();
    read.sort_unstable();
    built.sort_unstable();
    let median = |times: &[Duration]| times[PASSES / 2].as_secs_f64() * 1e3;
    Figures { ms: median(&read), build_ms: median(&built), share: 1.0 }
}

fn main() {
    // cargo passes `--bench`.
    for path in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        let work = std::fs::read(&path).expect("the work file can be read");
        let work: Work = serde_json::from_slice(&work).expect("the file is a work file of xtask");
        let line = serde_json::to_string(&measure(&work)).expect("numbers are JSON");
        writeln!(std::io::stdout(), "{line}").expect("the terminal takes text");
    }
}
