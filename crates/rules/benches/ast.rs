//! Measures the milliseconds for a TypeScript file of 150 KB: compiling patterns, parsing it without a hit, and skipping it.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use pijs_rules::ast::{AstLanguage, AstPatterns, DEFAULT_BUDGET};
use std::hint::black_box;
use std::time::Instant;

/// Size of the file in bytes.
const SIZE: usize = 150_000;

/// Returns the milliseconds of the fastest of twenty runs.
fn fastest<T>(mut run: impl FnMut() -> T) -> f64 {
    let times = (0..20).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let unit = include_str!("ast.ts.txt");
    let text = unit.repeat(SIZE / unit.len());
    let sources: Vec<_> = (0..20).map(|n| format!("$X{n}.get($$$A) == $B")).collect();
    let (patterns, _) = AstPatterns::compile(&sources);
    let (absent, _) = AstPatterns::compile(&["console.debug($$$A)".to_owned()]);
    let find = |patterns: &AstPatterns| patterns.find_each(AstLanguage::TypeScript, &text, DEFAULT_BUDGET, |_| true);
    println!("compile 20 patterns for every language: {:.2} ms", fastest(|| AstPatterns::compile(&sources)));
    println!("20 patterns in {} bytes, no hit: {:.2} ms", text.len(), fastest(|| find(&patterns)));
    println!("a pattern whose names are absent: {:.3} ms", fastest(|| find(&absent)));
}
