//! Runs the sessions that the benchmark records, over RPC.

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// A folder with a project, a home and the program.
pub(super) struct Workbench {
    pub(super) pi: PathBuf,
    pub(super) folder: PathBuf,
}

/// The inputs of a session.
pub(super) struct Plan {
    /// Source of the session's extension.
    pub(super) extension: &'static str,
    pub(super) prompts: usize,
    /// Lines of the recorded model.
    pub(super) replies: String,
    /// Number of the prompt after which the workers are killed.
    pub(super) killed_after: Option<usize>,
}

/// The results of a finished session.
pub(super) struct Recorded {
    /// Path of the session's tape, if it was recorded.
    pub(super) tape: PathBuf,
    /// Processor time of the program and its workers.
    pub(super) cpu: Duration,
    /// The part of `cpu` used by the thread that compresses and writes the tape; zero without a tape.
    pub(super) writing: Duration,
}

/// Prints the processor times of a command and its children after its other output on standard error.
const TIMED: &str = "\"$@\"; code=$?; times >&2; exit $code";

impl Workbench {
    pub(super) fn new(pi: &Path, folder: &Path) -> Result<Self> {
        for part in ["project", "home"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("project/notes.txt"), "some notes\n".repeat(40))?;
        Ok(Self { pi: pi.to_owned(), folder: folder.to_owned() })
    }

    /// Starts the program in the project, with a separate environment.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.pi);
        self.surround(command.args(args));
        command
    }

    fn surround(&self, command: &mut Command) {
        command.current_dir(self.folder.join("project")).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.folder.join("home"));
        command.env("TZ", "UTC").env("PIJS_WORDS", "own").env("PI_OFFLINE", "1");
    }

    /// Runs a session to its end, with or without a recording. `rounds` is passed to `work.ts`.
    pub(super) fn run(&self, name: &str, plan: &Plan, rounds: usize, is_recorded: bool) -> Result<Recorded> {
        let project = self.folder.join("project");
        fs::write(project.join("rounds.txt"), rounds.to_string())?;
        fs::write(project.join("model.jsonl"), &plan.replies)?;
        fs::write(project.join("extension.ts"), plan.extension)?;
        let tape = self.folder.join(format!("{name}.tape"));
        let mut command = Command::new("bash");
        command.args(["-c", TIMED, "bash"]).arg(&self.pi);
        command.args(["--mode", "rpc", "--no-session", "--model", "script:model.jsonl", "-e", "./extension.ts"]);
        command.args(["--allow", "read", "--allow", "verdict", "--deny", "exec"]);
        if is_recorded {
            if tape.exists() {
                fs::remove_file(&tape)?;
            }
            command.arg("--tape").arg(&tape);
        }
        self.surround(&mut command);
        let mut client = Client::start(&mut command)?;
        for prompt in 1..=plan.prompts {
            client.prompt(&format!("prompt {prompt}"))?;
            if plan.killed_after == Some(prompt) {
                client.kill_workers()?;
            }
        }
        let writing = client.writing()?;
        Ok(Recorded { tape, cpu: client.end()?, writing })
    }
}

/// An open session over RPC.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Reads standard error continuously: a session blocks if it cannot write there.
    errors: JoinHandle<io::Result<Vec<u8>>>,
}

impl Client {
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let input = child.stdin.take().context("the input is piped")?;
        let output = BufReader::new(child.stdout.take().context("the output is piped")?);
        let mut stderr = child.stderr.take().context("standard error is piped")?;
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).map(|_| text)
        });
        Ok(Self { child, input, output, errors })
    }

    fn prompt(&mut self, text: &str) -> Result<()> {
        writeln!(self.input, "{}", json!({"type": "prompt", "message": text}))?;
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(self.output.read_line(&mut line)? > 0, "the session ended in {text:?}");
            let record: Value = serde_json::from_str(&line).with_context(|| format!("a record: {line}"))?;
            if record["type"] == "agent_settled" {
                return Ok(());
            }
            ensure!(record["success"] != false, "{text:?}: {record}");
        }
    }

    /// Kills the workers of the session.
    fn kill_workers(&self) -> Result<()> {
        let sessions = children(self.child.id())?;
        let mut killed = 0;
        for session in sessions {
            for worker in children(session)? {
                let command = fs::read(format!("/proc/{worker}/cmdline")).unwrap_or_default();
                if String::from_utf8_lossy(&command).contains("--pijs-realm-worker") {
                    let status = Command::new("kill").args(["-9", &worker.to_string()]).status()?;
                    killed += usize::from(status.success());
                }
            }
        }
        ensure!(killed > 0, "there is no worker to kill");
        Ok(())
    }

    /// Returns the processor time of the threads named `tape`. Less than a fifth of a second of their work is still outstanding.
    fn writing(&self) -> Result<Duration> {
        let mut total = Duration::ZERO;
        for session in children(self.child.id())? {
            let threads = fs::read_dir(format!("/proc/{session}/task")).context("reading the threads of a session")?;
            for thread in threads.flatten().map(|thread| thread.path()) {
                if fs::read_to_string(thread.join("comm")).unwrap_or_default().trim_end() == "tape" {
                    let times = fs::read_to_string(thread.join("schedstat")).context("reading a thread's time")?;
                    let time = times.split_whitespace().next().and_then(|time| time.parse().ok());
                    total += Duration::from_nanos(time.context("a thread's time is a number")?);
                }
            }
        }
        Ok(total)
    }

    fn end(self) -> Result<Duration> {
        let Self { mut child, input, mut output, errors } = self;
        drop(input);
        io::copy(&mut output, &mut io::sink())?;
        let status = child.wait()?;
        let errors = errors.join().map_err(|_| anyhow!("the reader of standard error panicked"))??;
        let said = String::from_utf8_lossy(&errors);
        if !status.success() {
            bail!("the session failed: {said}");
        }
        let times = said.lines().last().unwrap_or_default().split_whitespace();
        let times: Option<Vec<Duration>> = times.map(processor_time).collect();
        times.filter(|times| times.len() == 2).map(|times| times.iter().sum()).context("the shell tells no times")
    }
}

/// Returns the processes whose parent is `parent`.
fn children(parent: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").context("processes are read in /proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        if behind_name.split_whitespace().nth(1) == Some(&parent.to_string()) {
            children.push(process);
        }
    }
    children.sort_unstable();
    Ok(children)
}

/// Parses a time as the shell prints it: `1m2.345s`.
fn processor_time(text: &str) -> Option<Duration> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    let seconds: f64 = seconds.parse().ok()?;
    Some(Duration::from_secs(60 * minutes.parse::<u64>().ok()?) + Duration::try_from_secs_f64(seconds).ok()?)
}

/// Formats a recorded reply: its text, then a tool call if there is one.
pub(super) fn reply(deltas: &[String], tool: Option<(&str, Value)>) -> String {
    let mut events: Vec<Value> = deltas.iter().map(|delta| json!({"text": delta})).collect();
    let stop = if tool.is_some() { "tool_use" } else { "end_turn" };
    events.extend(
        tool.map(
            |(name, arguments)| json!({"tool_call": {"id": "t", "name": name, "arguments": arguments.to_string()}}),
        ),
    );
    json!({"events": events, "stop": stop}).to_string()
}

/// Generates text that compresses like prose: words from a vocabulary of a few thousand, one per delta.
pub(super) struct Prose(u64);

impl Prose {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn deltas(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.word()).collect()
    }

    /// Returns a random number below `end`, by splitmix64.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0) % end
    }

    fn word(&mut self) -> String {
        // Small numbers are more frequent, like common words.
        let number = self.below(60) * self.below(60);
        let mut word = String::new();
        let mut rest = mixed(number);
        for _ in 0..=rest % 3 {
            let _ = write!(
                word,
                "{}{}",
                char::from(b"bcdfghklmnprstvw"[(rest >> 8) as usize & 15]),
                char::from(b"aeiou"[(rest >> 16) as usize % 5])
            );
            rest = mixed(rest);
        }
        word + " "
    }
}

fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_shell_are_read() {
        assert_eq!(processor_time("1m2.500s"), Some(Duration::from_millis(62_500)));
        assert_eq!(processor_time("0,5"), None);
    }

    #[test]
    fn prose_is_the_same_each_time_and_has_many_words() {
        let words = Prose::new(7).deltas(2_000);
        assert_eq!(words, Prose::new(7).deltas(2_000));
        let different: std::collections::BTreeSet<&String> = words.iter().collect();
        assert!((300..1_900).contains(&different.len()), "{}", different.len());
    }
}
