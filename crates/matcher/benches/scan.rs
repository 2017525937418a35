//! Prints the throughput of scans in MB/s of new text: `cargo bench -p pijs-matcher`.
//!
//! Uses rules of four kinds and a text of code and prose without matches, which is the common case. A scan starts with the caches
//! of the previous scan; the first scan, without caches, is printed as well.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use pijs_matcher::{Limits, Pattern, PatternSet};
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

fn patterns(count: usize) -> Vec<Pattern> {
    let pattern = |number: usize| match number % 4 {
        0 => Pattern::parse(&format!(r"^\s*(?:const|let)\s+forbidden_{number}\s*="), "m"),
        1 => Pattern::parse(&format!(r"\bforbiddenCall{number}\("), ""),
        2 => Pattern::parse(&format!("never say this {number} again"), "i"),
        _ => Pattern::parse(&format!(r"import\s+.*from\s+['\x22]forbidden-{number}(?!\w)"), ""),
    };
    (0..count).map(|number| pattern(number).expect("it is a pattern")).collect()
}

fn text(bytes: usize) -> String {
    let words = [
        "const",
        "let",
        "value",
        "import",
        "return",
        "function",
        "grüße",
        "the",
        "list",
        "never",
        "forbidden",
        "a",
        "x",
        "of",
        "日本",
        "from",
    ];
    let mut state = 1_u32;
    let mut next = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        for _ in 0..next(12) {
            let word = words[next(words.len())];
            write!(text, "{word}{}", [" ", " ", " ", "(", ") ", "_", " = ", "\t"][next(8)])
                .expect("writing to a string");
        }
        text.push('\n');
    }
    text.truncate(text.floor_char_boundary(bytes));
    text
}

/// Cuts a text into pieces of at most `size` bytes.
fn pieces(text: &str, size: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(size));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn run(set: &PatternSet, pieces: &[&str]) -> (f64, usize) {
    let began = Instant::now();
    let mut scan = set.begin();
    let mut hits = 0;
    for piece in pieces {
        scan.read(piece, |_| hits += 1);
    }
    assert!(!scan.is_exhausted(), "a pattern was given up");
    black_box(hits);
    (began.elapsed().as_secs_f64(), scan.memory_usage())
}

fn main() {
    let text = text(1 << 20);
    println!(
        "{:>8} {:>6} {:>9} {:>10} {:>10} {:>9}",
        "patterns", "piece", "build ms", "first MB/s", "warm MB/s", "cache KB"
    );
    for count in [1, 20, 200, 1_000] {
        let patterns = patterns(count);
        for size in [8, 4096] {
            let pieces = pieces(&text, size);
            let began = Instant::now();
            let set = PatternSet::new(&patterns, Limits::default());
            let build = began.elapsed().as_secs_f64() * 1e3;
            let (first, _) = run(&set, &pieces);
            let mut warm: Vec<(f64, usize)> = (0..7).map(|_| run(&set, &pieces)).collect();
            warm.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (middle, memory) = warm[warm.len() / 2];
            let speed = |seconds: f64| text.len() as f64 / 1e6 / seconds;
            println!(
                "{count:>8} {size:>6} {build:>9.2} {:>10.1} {:>10.1} {:>9}",
                speed(first),
                speed(middle),
                memory / 1024
            );
        }
    }
}
