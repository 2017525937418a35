//! The long forms of tests that are short in CI: they run a hundred times the rounds, with no other difference.
//!
//! A sample is a test whose length is set by an environment variable. CI runs it without the variable. One sample tests a build with
//! fewer features, which would compile every crate below it once more in CI.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// One long test.
pub struct Sample {
    /// Name on the command line.
    pub name: &'static str,
    /// The property that the test verifies.
    pub shows: &'static str,
    /// The variable that selects the long form, with its value.
    pub variable: (&'static str, &'static str),
    /// Arguments of `cargo`.
    pub cargo: &'static [&'static str],
}

/// All samples, in execution order.
pub const SAMPLES: &[Sample] = &[
    Sample {
        name: "races",
        shows: "no verb leaves a folder that a second process exchanges or moves (F06, F07)",
        variable: ("PIJS_RACE_ROUNDS", "200000"),
        cargo: &["test", "-p", "pijs-connectors", "--test", "races", "--locked"],
    },
    Sample {
        name: "durable",
        shows: "every fault at every operation on durable files is survived",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-durable", "--locked"],
    },
    Sample {
        name: "ledger",
        shows: "the ledger's files survive every fault",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-hostcall", "--lib", "--locked"],
    },
    Sample {
        name: "packages",
        shows: "install, update and remove survive every fault",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-packages", "--test", "faults", "--test", "install", "--locked"],
    },
    Sample {
        name: "sessions",
        shows: "session files survive every fault",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-session-store", "--lib", "--locked"],
    },
    Sample {
        name: "cache",
        shows: "the artifact cache survives every fault",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-extc", "--lib", "--locked"],
    },
    Sample {
        name: "crashes",
        shows: "the real program, killed at every point, starts again without a hand",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-tests", "--test", "crash", "--locked"],
    },
    Sample {
        name: "shortages",
        shows: "the real program with every operation on its files failing, full disks, few files, and eight of it at once",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-tests", "--test", "shortage", "--locked"],
    },
    Sample {
        name: "fuzz",
        shows: "readers of bytes that others made hold, 100,000 inputs each (`fuzz/` goes further, under libFuzzer)",
        variable: ("PIJS_FUZZ_CASES", "100000"),
        cargo: &["test", "-p", "pijs-readers", "--test", "bounded", "--locked"],
    },
    Sample {
        name: "patterns",
        shows: "a million pairs of pattern and text: automata answer as QuickJS's own regular expressions do",
        variable: ("PIJS_PATTERN_PAIRS", "1000000"),
        cargo: &["test", "-p", "pijs-engine", "--test", "patterns", "--locked"],
    },
    Sample {
        name: "rules",
        shows: "streamed rules hold without the grammars of ast-grep, as an embedder may build them",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-rules", "--no-default-features", "--locked"],
    },
    Sample {
        name: "attacks",
        shows: "every attack is held, in its long form",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-tests", "--test", "attacks", "--locked"],
    },
    Sample {
        name: "kills",
        shows: "10,000 workers killed at any moment: each turn ends once (Q39)",
        variable: ("PIJS_LONG", "1"),
        cargo: &["test", "-p", "pijs-realm", "--test", "process", "--locked", "--", "killed_at_any_moment"],
    },
    Sample {
        name: "deaths",
        shows: "10,000 workers killed at any moment of a session of the real program: no call and no entry is lost (Q39)",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-tests", "--test", "kills", "--locked"],
    },
    Sample {
        name: "tapes",
        shows: "200 recordings killed at any moment replay to their last whole tick",
        variable: ("PIJS_LONG", "1"),
        cargo: &[
            "test",
            "-p",
            "pijs-cli",
            "--test",
            "tape_kill",
            "--locked",
            "--",
            "a_recording_that_is_killed_anywhere",
        ],
    },
    Sample {
        name: "reloads",
        shows: "10,000 restarts of an extension leave no file and no process behind (Q43)",
        variable: ("PIJS_LONG", "1"),
        cargo: &["test", "-p", "pijs-host", "--test", "process", "--locked", "--", "loading_again_and_again"],
    },
    Sample {
        name: "soak",
        shows: "a million events on ten extensions, one of which crashes every 10,000: none lost, none twice, nothing grows (Q37, G9)",
        variable: ("PIJS_LONG", "1"),
        cargo: &[
            "test",
            "-p",
            "pijs-host",
            "--test",
            "process",
            "--locked",
            "--",
            "ten_extensions_lose_nothing",
            "--nocapture",
        ],
    },
    Sample {
        name: "session",
        shows: "a session of a gigabyte in a million entries, one of 50 MB: opened in the memory of its index (Q44)",
        variable: EVERYTHING,
        cargo: &["test", "-p", "pijs-tests", "--test", "guards", "--locked", "--", "a_long_session", "--nocapture"],
    },
    Sample {
        name: "watchdog",
        shows: "the fourteen uninterruptible built-ins, killed at their deadline + 50 ms at p99 (G3)",
        variable: ("PIJS_LONG", "1"),
        cargo: &["bench", "-p", "pijs-realm", "--bench", "watchdog", "--locked"],
    },
];

/// Makes tests that visit every n-th point visit all of them.
const EVERYTHING: (&str, &str) = ("PIJS_NIGHTLY", "1");

/// Runs the named samples, or all. A failure does not stop the others; failed samples are listed at the end.
///
/// Fails if a name is unknown, if `cargo` cannot be started, or if a sample fails.
pub fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| !SAMPLES.iter().any(|sample| sample.name == **name)) {
        let known: Vec<&str> = SAMPLES.iter().map(|sample| sample.name).collect();
        bail!("there is no sample {unknown:?}; there are: {}", known.join(", "));
    }
    let mut failed = Vec::new();
    for sample in SAMPLES.iter().filter(|sample| names.is_empty() || names.iter().any(|name| name == sample.name)) {
        let (variable, value) = sample.variable;
        let status = Command::new(env!("CARGO"))
            .args(sample.cargo)
            .env(variable, value)
            .status()
            .with_context(|| format!("starting cargo for {}", sample.name))?;
        if !status.success() {
            failed.push(format!("{} ({})", sample.name, sample.shows));
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}
