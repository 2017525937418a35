//! `cargo xtask bench tapes`: the recorded sessions of `fixtures/tapes/`, replayed a thousand times.
//!
//! Every replay has to be equal. The figures are the time of a replay including the start of the program, and its speed-up over
//! the recording. `cargo bench -p pijs-tape` measures the cost of recording.

use crate::start::built;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Replays of all tapes together.
const REPLAYS: usize = 1000;

/// One tape.
struct Tape {
    path: PathBuf,
    recorded: Duration,
    replayed: Duration,
    replays: u32,
}

/// Replays the tapes with this program, or with a release build.
pub fn run(pi: Option<&Path>, print: &mut dyn FnMut(&str)) -> Result<()> {
    let root = crate::root();
    let target = PathBuf::from(cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory);
    let pi = match pi {
        Some(pi) => pi.to_owned(),
        None => built(&target)?,
    };
    let mut tapes = Vec::new();
    for entry in root.join("fixtures/tapes").read_dir().context("reading fixtures/tapes")? {
        let path = entry?.path();
        tapes.push(Tape { path, recorded: Duration::ZERO, replayed: Duration::ZERO, replays: 0 });
    }
    tapes.sort_by(|a, b| a.path.cmp(&b.path));
    ensure!(!tapes.is_empty(), "there are no tapes in fixtures/tapes");
    let count = tapes.len();
    for run in 0..REPLAYS {
        replay(&pi, &mut tapes[run % count])?;
    }
    for Tape { path, recorded, replayed, replays } in &tapes {
        let mean = *replayed / *replays;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let ratio = recorded.as_secs_f64() / mean.as_secs_f64();
        print(&format!(
            "{name:<12} {replays:>4} replays, {:>8.1} ms each; recorded in {:>8.1} ms: {ratio:.1} times as fast",
            mean.as_secs_f64() * 1e3,
            recorded.as_secs_f64() * 1e3
        ));
    }
    let all: Duration = tapes.iter().map(|tape| tape.replayed).sum();
    print(&format!("{REPLAYS} replays, all equal, in {:.1} s", all.as_secs_f64()));
    Ok(())
}

fn replay(pi: &Path, tape: &mut Tape) -> Result<()> {
    let begin = Instant::now();
    let mut command = Command::new(pi);
    command.args(["replay", "--json", "--accept-build", "--isolation", "thread"]).arg(&tape.path);
    let output = command.output().with_context(|| format!("running {}", pi.display()))?;
    tape.replayed += begin.elapsed();
    tape.replays += 1;
    let outcome: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{}: {}", tape.path.display(), String::from_utf8_lossy(&output.stderr)))?;
    if outcome["equal"] != true {
        bail!("{} replays in another way than it was recorded: {}", tape.path.display(), outcome["divergence"]);
    }
    tape.recorded = Duration::from_micros(outcome["recorded_us"].as_u64().unwrap_or_default());
    Ok(())
}
