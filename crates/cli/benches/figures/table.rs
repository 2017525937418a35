//! Figures and their table.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::borrow::Cow;
use std::time::{Duration, Instant};

/// The figure of another program for the same work.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) ns: f64,
}

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) work: Cow<'static, str>,
    pub(crate) samples: Samples,
    pub(crate) peer: Option<Peer>,
    /// The design's target: the median, and the 99th percentile if it has one.
    pub(crate) target: Option<(f64, Option<f64>)>,
}

/// Durations of the same work in nanoseconds, in ascending order.
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Creates samples from durations in nanoseconds, one for each piece of work.
    pub(crate) fn of(mut nanoseconds: Vec<f64>) -> Self {
        assert!(!nanoseconds.is_empty(), "a figure without a measurement");
        nanoseconds.sort_by(f64::total_cmp);
        Self(nanoseconds)
    }

    /// Measures `work` `times` times, after one warm-up.
    pub(crate) fn timed(times: usize, mut work: impl FnMut()) -> Self {
        work();
        Self::of((0..times).map(|_| nanoseconds(time(&mut work))).collect())
    }

    /// Measures work that is too short to be measured alone, `each` times at once.
    pub(crate) fn batched(times: usize, each: u32, mut work: impl FnMut()) -> Self {
        let Self(batches) = Self::timed(times, || (0..each).for_each(|_| work()));
        Self(batches.into_iter().map(|batch| batch / f64::from(each)).collect())
    }

    /// Returns the value below which `percent` of the samples lie.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

pub(crate) fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

pub(crate) fn head() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "\nPiJS on {} {}, {cores} cores; times in milliseconds (ms), microseconds (us), nanoseconds (ns)\n",
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    println!("| work | best | p50 | p99 | n | target p50 | p99 | peer | its figure | peer / ours |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|---:|---:|");
}

pub(crate) fn row(figure: &Figure) {
    let Figure { work, samples, peer, target } = figure;
    let median = samples.percentile(50);
    // With fewer samples, the 99th percentile is just the slowest one.
    let tail = if samples.count() >= 100 { shown(samples.percentile(99)) } else { String::new() };
    let (wanted, wanted_tail) =
        target.map_or_else(Default::default, |(median, tail)| (shown(median), tail.map_or_else(String::new, shown)));
    let (name, theirs, ratio) = peer
        .map_or_else(Default::default, |Peer { name, ns }| (name.to_owned(), shown(ns), format!("{:.1}", ns / median)));
    let (best, median, count) = (shown(samples.percentile(0)), shown(median), samples.count());
    println!(
        "| {work} | {best} | {median} | {tail} | {count} | {wanted} | {wanted_tail} | {name} | {theirs} | {ratio} |"
    );
}

pub(crate) fn foot() {
    println!(
        "\nA ratio above 1 means that PiJS is faster. Peer figures are constants; peers.rs says where each is from."
    );
}

fn shown(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}
