//! Megabytes of new text a second through the public interface: 20 and 1,000 rules, replies of 32 KB and 4 MB in deltas of eight
//! characters. A long reply must cost what its length costs.

use pijs_rules::{Condition, EngineOptions, MatchContext, Origin, Rule, RuleEngine, RuleSettings};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SHORT: usize = 32 << 10;
const LONG: usize = 4 << 20;

fn rules(count: usize) -> Vec<Rule> {
    let rules = (0..count).map(|number| {
        let (source, flags) = match number % 4 {
            0 => (format!(r"^\s*(?:const|let)\s+forbidden_{number}\s*="), "m"),
            1 => (format!(r"\bforbidden_{number}\("), ""),
            2 => (format!("forbidden call {number}"), "i"),
            _ => (format!("forbidden_{number}"), ""),
        };
        let mut rule = Rule::new(format!("rule-{number}"), Origin::Project, "x");
        rule.conditions.push(Condition { source, flags: flags.to_owned() });
        rule
    });
    rules.collect()
}

fn reply(length: usize) -> String {
    let lines = "    const total = items.reduce((sum, item) => sum + item.price, 0);\n  // Größe wird hier berechnet.\n\
                 export function forbiddenWords(list) {\n  let first = list[0];\n  return first;\n}\n\nThe answer is in `list`.\n";
    let mut reply = lines.repeat(length / lines.len() + 1);
    reply.truncate((0..=length).rev().find(|&at| reply.is_char_boundary(at)).unwrap_or(0));
    reply
}

fn deltas(reply: &str) -> Vec<&str> {
    let ends: Vec<usize> = reply.char_indices().map(|(at, _)| at).step_by(8).chain([reply.len()]).collect();
    ends.windows(2).map(|ends| &reply[ends[0]..ends[1]]).collect()
}

fn read(engine: &mut RuleEngine, deltas: &[&str]) -> Duration {
    engine.reset_buffers();
    let context = MatchContext::text(0);
    let start = Instant::now();
    for delta in deltas {
        assert!(black_box(engine.check_delta(delta, &context)).is_none());
    }
    engine.end_of_message(0);
    start.elapsed()
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    let (short, long) = (reply(SHORT), reply(if is_test { SHORT } else { LONG }));
    let (short, long) = (deltas(&short), deltas(&long));
    let bytes = |deltas: &[&str]| deltas.iter().map(|delta| delta.len()).sum::<usize>();
    for count in [20, 200, 1_000, 10_000] {
        if is_test && count > 20 {
            break;
        }
        let start = Instant::now();
        let mut engine = RuleEngine::new(rules(count), settings.clone(), EngineOptions::default());
        let built = start.elapsed();
        let cold = read(&mut engine, &short);
        let rounds = if is_test { 1 } else { 41 };
        let mut times: Vec<Duration> = (0..rounds).map(|_| read(&mut engine, &short)).collect();
        times.sort_unstable();
        let of_short = times[times.len() / 2];
        let mut times: Vec<Duration> = (0..if is_test { 1 } else { 5 }).map(|_| read(&mut engine, &long)).collect();
        times.sort_unstable();
        let of_long = times[times.len() / 2];
        let rate = |deltas: &[&str], time: Duration| bytes(deltas) as f64 / time.as_secs_f64() / 1e6;
        let print = format!(
            "{count:>6} rules: built in {built:.1?}, first 32 KB {cold:.1?}; 32 KB {of_short:.1?} = {:.0} MB/s, 4 MB {of_long:.1?} = {:.0} MB/s, ratio {:.1}\n",
            rate(&short, of_short),
            rate(&long, of_long),
            of_long.as_secs_f64() / of_short.as_secs_f64(),
        );
        std::io::Write::write_all(&mut std::io::stdout(), print.as_bytes()).expect("the terminal takes text");
    }
}
