//! Measures megabytes of new text per second through the public interface: 20 and 1,000 rules, replies of 32 KB and 4 MB in
//! deltas of eight characters. The cost of a long reply must be linear in its length.

use pijs_rules::{Condition, EngineOptions, MatchContext, Origin, Region, Rule, RuleEngine, RuleSettings};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SHORT: usize = 32 << 10;
const LONG: usize = 4 << 20;

fn rules(count: usize, regions: &[Region]) -> Vec<Rule> {
    let rules = (0..count).map(|number| {
        let (source, flags) = match number % 4 {
            0 => (format!(r"^\s*(?:const|let)\s+forbidden_{number}\s*="), "m"),
            1 => (format!(r"\bforbidden_{number}\("), ""),
            2 => (format!("forbidden call {number}"), "i"),
            _ => (format!("forbidden_{number}"), ""),
        };
        let mut rule = Rule::new(format!("rule-{number}"), Origin::Project, "x");
        rule.conditions.push(Condition { source, flags: flags.to_owned() });
        rule.region = regions[number / 4 % regions.len()];
        rule
    });
    rules.collect()
}

fn reply(length: usize) -> String {
    let lines = "    const total = items.reduce((sum, item) => sum + item.price, 0);\n  // Größe wird hier berechnet.\n\
                 export function forbiddenWords(list) {\n  let first = list[0];\n  return first;\n}\n\nThe answer is in `list`.\n";
    cut(lines.repeat(length / lines.len() + 1), length)
}

fn cut(mut text: String, length: usize) -> String {
    text.truncate(text.floor_char_boundary(length));
    text
}

/// Returns a reply of paragraphs, lists and code blocks.
fn fenced(length: usize) -> String {
    let code = "```ts\n    const total = items.reduce((sum, item) => sum + item.price, 0);\n  // Größe wird hier berechnet.\n\
                export function forbiddenWords(list) {\n  let first = list[0];\n  return first;\n}\n```\n\n";
    let prose = "The answer is in `list`, which holds all items of the order.\n\n- The first one is the oldest.\n- Others follow it.\n\n\
                 > A note about them.\n\n";
    cut((code.to_owned() + prose).repeat(length / (code.len() + prose.len()) + 1), length)
}

fn deltas(reply: &str) -> Vec<&str> {
    let ends: Vec<usize> = reply.char_indices().map(|(at, _)| at).step_by(8).chain([reply.len()]).collect();
    ends.windows(2).map(|ends| &reply[ends[0]..ends[1]]).collect()
}

/// Deltas in one time sample: those of 32 KB of text.
const SLICE: usize = SHORT / 8;

/// Times of the slices of a reply, each the best of several rounds. Other load on the machine often interrupts a round, but
/// rarely a single slice.
struct Times {
    slices: Vec<Duration>,
    bytes: usize,
}

impl Times {
    fn measure(engine: &mut RuleEngine, context: &MatchContext<'_>, deltas: &[&str], rounds: usize) -> Self {
        let mut slices = vec![Duration::MAX; deltas.len().div_ceil(SLICE)];
        for _ in 0..rounds {
            engine.reset_buffers();
            for (slice, best) in deltas.chunks(SLICE).zip(&mut slices) {
                let start = Instant::now();
                for delta in slice {
                    assert!(black_box(engine.check_delta(delta, context)).is_none());
                }
                *best = start.elapsed().min(*best);
            }
            engine.end_of_message(0);
        }
        Self { slices, bytes: deltas.iter().map(|delta| delta.len()).sum() }
    }

    fn total(&self) -> Duration {
        self.slices.iter().sum()
    }

    fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.total().as_secs_f64() / 1e6
    }
}

fn print(line: &str) {
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).expect("the terminal takes text");
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    let long = if is_test { SHORT } else { LONG };
    let (counts, rounds): (&[usize], usize) = if is_test { (&[20], 1) } else { (&[20, 200, 1_000, 10_000], 9) };
    let arguments = |length| serde_json::json!({ "path": "a.ts", "content": reply(length) }).to_string();
    let any = &[Region::Any][..];
    for (stream, context, reply, regions) in [
        ("text", MatchContext::text(0), &reply as &dyn Fn(usize) -> String, any),
        ("arguments of write", MatchContext::tool("write", "call", 0), &arguments, any),
        ("text with code blocks, where: code", MatchContext::text(0), &fenced, &[Region::Code]),
        ("text with code blocks, where: code or prose", MatchContext::text(0), &fenced, &[Region::Code, Region::Prose]),
        (
            "text with code blocks, where: any, code or prose",
            MatchContext::text(0),
            &fenced,
            &[Region::Any, Region::Code, Region::Prose],
        ),
    ] {
        let (short, long) = (reply(SHORT), reply(long));
        let (short, long) = (deltas(&short), deltas(&long));
        for &count in counts {
            let start = Instant::now();
            let mut engine = RuleEngine::new(rules(count, regions), settings.clone(), EngineOptions::default());
            let built = start.elapsed();
            let cold = Times::measure(&mut engine, &context, &short, 1).total();
            let short = Times::measure(&mut engine, &context, &short, 5 * rounds);
            let long = Times::measure(&mut engine, &context, &long, rounds);
            print(&format!(
                "{stream}, {count} rules: built in {built:.1?}, first 32 KB in {cold:.1?}; 32 KB {:.1?} = {:.0} MB/s, 4 MB {:.1?} = {:.0} MB/s, \
                 ratio {:.1} for {:.1} times the text\n",
                short.total(),
                short.megabytes_per_second(),
                long.total(),
                long.megabytes_per_second(),
                long.total().as_secs_f64() / short.total().as_secs_f64(),
                long.bytes as f64 / short.bytes as f64,
            ));
        }
    }
}
