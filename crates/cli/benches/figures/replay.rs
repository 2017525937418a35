//! Compares the replay of a session that is idle for most of the time with the session itself.

use crate::table::{Figure, Peer, Samples, nanoseconds, time};
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of replays of the recording.
const REPLAYS: usize = 20;

/// Target for the speed-up of a replay.
const TIMES_FASTER: f64 = 50.0;

const EXTENSION: &str = r#"
export default (pi) => {
  let beats = 0;
  setInterval(() => pi.log("info", "beat", { beats: ++beats }), 2_000);
  setTimeout(() => pi.log("info", "late", {}), 15_000);
};
"#;

const MODEL: &str = r#"{"events": [{"text": "wait"}, {"delay_ms": 20000}, {"text": " done"}], "stop": "end_turn"}"#;

/// Records a session of twenty seconds, and replays it.
pub(crate) fn figures() -> Vec<Figure> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let project = directory.path();
    std::fs::write(project.join("idle.ts"), EXTENSION).expect("a file");
    std::fs::write(project.join("model.jsonl"), MODEL).expect("a file");
    let session = ["-p", "wait", "--model", "script:model.jsonl", "-e", "./idle.ts", "--tape", "idle.tape"];
    let recorded = time(|| pi(project, &session));
    vec![Figure {
        work: "pi replay of a session that was idle for 20 s, the whole process".into(),
        samples: Samples::timed(REPLAYS, || pi(project, &["replay", "idle.tape"])),
        peer: Some(Peer { name: "the session", ns: nanoseconds(recorded) }),
        target: Some((nanoseconds(recorded) / TIMES_FASTER, None)),
    }]
}

fn pi(project: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pi"));
    command.args(args).current_dir(project).env_clear().env("HOME", project).env("TZ", "UTC").env("PIJS_WORDS", "own");
    let output = command.stdin(Stdio::null()).output().expect("pi starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
