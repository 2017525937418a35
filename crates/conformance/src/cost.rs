//! Measures the cost of each extension of the corpus: time from the start of the process to a session that answers, and memory.
//!
//! Starts `pi --mode rpc -e ENTRY` and requests its state; the response arrives when all extensions are loaded. The first start
//! has an empty cache, so that everything is compiled, including the host modules; further starts use the filled cache. Memory is
//! that of the program and its workers when the response arrives (`Pss`: shared pages are counted in parts).

use crate::corpus::{Case, Kind, Laid};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// Number of starts with a full cache, of which the median is reported.
const CACHED: usize = 5;

/// Median figures of the real pi 0.73.1 on Node 20, 72 example extensions, one process each, on a machine like the one described
/// in `docs/benchmarks.md`.
const PI: &str = "the real pi on Node: 893 ms for the whole process, of which 89 ms load the extension; 136 MiB";

/// The choice in pi's prompts that makes further prompts unnecessary.
const GRANT: &str = "Allow all of it for the session";

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Cost {
    /// `example:todo`, `npm:pi-mermaid@0.3.0`.
    pub entry: String,
    /// Time with an empty cache.
    pub cold: Duration,
    /// Time with a full cache, the median.
    pub cached: Duration,
    /// Memory of the program and its workers, in bytes; `None` where the system does not report it.
    pub memory: Option<u64>,
}

/// Measures every entry of the corpus's snapshot cases, one after the other. Calls `failed` for each that does not start.
pub async fn measure(
    pi: &Path,
    laid: &Laid,
    cases: &[Case],
    done: impl Fn(&Cost),
    failed: impl Fn(&str, &anyhow::Error),
) -> Vec<Cost> {
    let mut costs = Vec::new();
    for case in cases.iter().filter(|case| case.kind == Kind::Snapshot) {
        match one(pi, laid, &case.name).await {
            Ok(cost) => {
                done(&cost);
                costs.push(cost);
            }
            // An example without its dependencies fails to load, as in pi.
            Err(error) => failed(&case.name, &error),
        }
    }
    costs
}

async fn one(pi: &Path, laid: &Laid, entry: &str) -> Result<Cost> {
    let world = tempfile::tempdir()?;
    let path = laid.path_of(entry)?;
    std::fs::write(world.path().join("model.jsonl"), "{\"events\":[],\"stop\":\"end_turn\"}\n")?;
    let (cold, _) = start(pi, world.path(), &path).await?;
    let mut cached = Vec::new();
    let mut memory = None;
    for _ in 0..CACHED {
        let (took, used) = start(pi, world.path(), &path).await?;
        cached.push(took);
        memory = used;
    }
    cached.sort_unstable();
    Ok(Cost { entry: entry.to_owned(), cold, cached: cached[CACHED / 2], memory })
}

/// Starts `pi`, waits for its first response, and stops it. Returns the time and the memory in bytes.
async fn start(pi: &Path, world: &Path, extension: &Path) -> Result<(Duration, Option<u64>)> {
    let begin = Instant::now();
    let mut child = Command::new(pi)
        .args(["--mode", "rpc", "--no-session", "--model", "script:model.jsonl", "-e"])
        .arg(extension)
        .current_dir(world)
        .env_clear()
        .env("HOME", world)
        .env("XDG_CACHE_HOME", world.join("cache"))
        // Otherwise the first start would also fetch pi's prompt texts.
        .env("PIJS_WORDS", "own")
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "NPM_CONFIG_USERCONFIG"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let answered = tokio::time::timeout(Duration::from_secs(120), answer(&mut child)).await;
    answered.context("no answer within two minutes")??;
    let took = begin.elapsed();
    let used = child.id().and_then(memory_of);
    drop(child.stdin.take());
    tokio::time::timeout(Duration::from_secs(30), child.wait())
        .await
        .context("pi did not exit within 30 s after its stdin was closed")??;
    Ok((took, used))
}

async fn answer(child: &mut Child) -> Result<()> {
    let stdin = child.stdin.as_mut().context("the stdin of pi is not piped")?;
    stdin.write_all(format!("{}\n", json!({ "id": "state", "type": "get_state" })).as_bytes()).await?;
    let mut lines = BufReader::new(child.stdout.as_mut().context("the stdout of pi is not piped")?).lines();
    while let Some(line) = lines.next_line().await? {
        let line: Value = serde_json::from_str(&line)?;
        if line["type"] == "extension_ui_request" {
            let mut response = json!({ "type": "extension_ui_response", "id": line["id"] });
            // Grants what pi's prompts about an extension ask for; cancels the extension's own dialogs.
            if line["options"].as_array().is_some_and(|options| options.iter().any(|option| option == GRANT)) {
                response["value"] = GRANT.into();
            } else {
                response["cancelled"] = true.into();
            }
            stdin.write_all(format!("{response}\n").as_bytes()).await?;
        }
        if line["type"] == "response" && line["id"] == "state" {
            if line["success"] != true {
                bail!("pi answered {line}");
            }
            return Ok(());
        }
    }
    bail!("pi exited before it answered")
}

/// Returns the memory of a process and its descendants, in bytes.
fn memory_of(process: u32) -> Option<u64> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may end between the two reads.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (id, parent)));
    }
    let is_below = |mut id: u32| {
        while let Some(&parent) = parents.get(&id) {
            if id == process {
                return true;
            }
            id = parent;
        }
        false
    };
    parents.keys().filter(|&&id| is_below(id)).map(|id| proportional(*id)).sum()
}

fn proportional(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.trim().parse::<u64>().ok()? * 1024)
}

/// Returns a table in Markdown, with the real pi's figures above it.
pub fn table(costs: &[Cost]) -> String {
    let mut text = format!("{PI}\n\n| entry | empty cache | cached | memory |\n|---|---:|---:|---:|\n");
    let milliseconds = |duration: Duration| format!("{:.0} ms", duration.as_secs_f64() * 1e3);
    #[expect(clippy::cast_precision_loss, reason = "a process has less than 2^52 bytes")]
    let mebibytes = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let mut row = |name: &str, cold, cached, memory: Option<u64>| {
        let memory = memory.map(mebibytes).unwrap_or_default();
        let _ = writeln!(text, "| {name} | {} | {} | {memory} |", milliseconds(cold), milliseconds(cached));
    };
    for cost in costs {
        row(&cost.entry, cost.cold, cost.cached, cost.memory);
    }
    if !costs.is_empty() {
        row(
            "**median**",
            median(costs.iter().map(|cost| cost.cold)),
            median(costs.iter().map(|cost| cost.cached)),
            costs.iter().map(|cost| cost.memory).collect::<Option<Vec<_>>>().map(|all| median(all.into_iter())),
        );
    }
    text
}

fn median<T: Ord>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.swap_remove(values.len() / 2)
}
