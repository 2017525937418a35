//! Measures the start of a session with real packages: its time, and its system calls on files.
//!
//! ```text
//! fixtures/start/settings.json, pijs-lock.json   six packages of the development corpus, pinned by digest
//! target/start/pijs, target/start/node           a home for each side; both have the packages as `pi install` lays them out
//! a server on this machine                       answers each model request with one word
//! ```
//!
//! Each side runs `pi -p`: once without its caches from earlier starts, then several times with them. What pi supplies to extensions
//! is compiled beforehand, because a release contains it, and pi's npm package as well. Calls and bytes are counted by `strace`, if
//! it is installed. Memory is read during the model request, when all code is loaded and no process has exited. A second table shows
//! each package alone, without the calls of a start that loads no package. Times and memory are informative; the limits on counts are
//! in `crates/cli/tests/start.rs`.

mod memory;

use anyhow::{Context, Result, bail};
use memory::Memory;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of cached starts of each program; the median counts.
const STARTS: usize = 7;
/// The reply to every model request.
const REPLY: &str = concat!(
    r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"reply","choices":[{"index":0,"delta":{"role":"assistant","content":"Done."},"finish_reason":null}]}"#,
    "\n\n",
    r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"reply","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "\n\ndata: [DONE]\n\n",
);

/// The options of a measurement.
pub struct Options {
    /// The program to measure; `None` for a release build.
    pub pi: Option<PathBuf>,
    /// Folder in which the real pi is installed; `None` to leave it out.
    pub node_pi: Option<PathBuf>,
}

/// One program with its own home.
struct Side {
    name: &'static str,
    /// The program and its leading arguments.
    program: Vec<PathBuf>,
    home: PathBuf,
    project: PathBuf,
    /// The program's cache folders.
    kept: Vec<PathBuf>,
    /// Arguments that compile what the program supplies to extensions, if that is not part of its installation.
    supply: &'static [&'static str],
    replies: Replies,
}

/// The server that replies in place of the model.
#[derive(Clone)]
struct Replies {
    port: u16,
    watched: Arc<Mutex<Watched>>,
}

/// A process whose memory is read when it sends a model request.
#[derive(Default)]
struct Watched {
    process: Option<u32>,
    memory: Option<Memory>,
}

/// Counts of file-system calls, and bytes read, in one start.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    calls: u64,
    bytes: u64,
}

/// Installs the packages, measures both sides and prints a table.
///
/// # Errors
///
/// Fails if a build, an install or a start fails.
pub fn run(options: &Options, print: &mut dyn FnMut(&str)) -> Result<()> {
    let target = PathBuf::from(cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory);
    let pi = match &options.pi {
        Some(pi) => fs::canonicalize(pi).with_context(|| format!("opening {}", pi.display()))?,
        None => built(&target)?,
    };
    let lab = target.join("start");
    let replies = Replies::serve()?;
    let own = Side { supply: &["ext", "supply"], ..Side::at(&lab, "PiJS", vec![pi], &replies)? };
    own.install()?;
    let mut sides = vec![own];
    if let Some(folder) = &options.node_pi {
        let folder = fs::canonicalize(folder).with_context(|| format!("opening {}", folder.display()))?;
        let cli = folder.join("node_modules/@earendil-works/pi-coding-agent/dist/cli.js");
        if !cli.exists() {
            bail!(
                "{} is not there: run `npm install @earendil-works/pi-coding-agent@0.87.1` in {}",
                cli.display(),
                folder.display()
            );
        }
        let side = Side::at(&lab, "Node", vec!["node".into(), cli], &replies)?;
        let packages = sides[0].home.join(".pi/agent/npm");
        copy(&packages, &side.home.join(".pi/agent/npm")).context("copying the packages")?;
        sides.push(side);
    }
    print(
        "| side | first start | cached start | file system calls | bytes read | memory (Pss) | resident |\n|---|---:|---:|---:|---:|---:|---:|",
    );
    for side in &sides {
        side.forget()?;
        let first = side.start()?;
        let median = side.median()?;
        let counted = side.count(&START)?.map_or_else(
            || "no `strace` | ".to_owned(),
            |Counts { calls, bytes }| format!("{calls} | {:.1} MB", bytes as f64 / 1e6),
        );
        let memory = side.memory()?.map_or_else(
            || "unknown | ".to_owned(),
            |memory| {
                format!("{} in {} | {}", mebibytes(memory.shared_out), memory.processes, mebibytes(memory.resident))
            },
        );
        let [first, median] = [first, median].map(seconds);
        print(&format!("| {} | {first} | {median} | {counted} | {memory} |", side.name));
    }
    each_alone(&sides, print)
}

/// Measures and prints the start of each package alone.
fn each_alone(sides: &[Side], print: &mut dyn FnMut(&str)) -> Result<()> {
    let settings: Value = serde_json::from_slice(&fs::read(crate::root().join("fixtures/start/settings.json"))?)?;
    let packages = settings["packages"].as_array().context("fixtures/start/settings.json lists packages")?;
    let titles: Vec<&str> = sides.iter().map(|side| side.name).collect();
    print(&format!("\n| package alone | {} | calls that it adds |", titles.join(" | ")));
    print(&format!("|---|{}---:|", "---:|".repeat(titles.len())));
    let (own, nothing) = (&sides[0], [&START[..], &["--no-extensions"]].concat());
    let without = own.count(&nothing)?;
    for package in packages {
        let mut times = Vec::new();
        for side in sides {
            side.choose(&json!({"packages": [package]}))?;
            side.start()?;
            times.push(seconds(side.median()?));
        }
        let added = match (own.count(&START)?, &without) {
            (Some(with), Some(without)) => with.calls.saturating_sub(without.calls).to_string(),
            _ => "no `strace`".to_owned(),
        };
        print(&format!("| {} | {} | {added} |", package.as_str().unwrap_or_default(), times.join(" | ")));
    }
    sides.iter().try_for_each(|side| side.choose(&settings))
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

impl Side {
    fn at(lab: &Path, name: &'static str, program: Vec<PathBuf>, replies: &Replies) -> Result<Self> {
        let home = lab.join(name.to_lowercase());
        let (project, agent) = (home.join("project"), home.join(".pi/agent"));
        fs::create_dir_all(&project)?;
        fs::create_dir_all(&agent)?;
        let fixtures = crate::root().join("fixtures/start");
        for file in ["settings.json", "pijs-lock.json"] {
            fs::copy(fixtures.join(file), agent.join(file))
                .with_context(|| format!("copying fixtures/start/{file}"))?;
        }
        let port = replies.port;
        let models = format!(
            r#"{{"providers":{{"bench":{{"baseUrl":"http://127.0.0.1:{port}/v1","api":"openai-completions","apiKey":"none","models":[{{"id":"reply"}}]}}}}}}"#
        );
        fs::write(agent.join("models.json"), models)?;
        // jiti keeps compiled files in the folder for temporary files.
        let kept = vec![home.join(".cache/pijs/artifacts"), home.join("tmp/jiti"), home.join("tmp/node-compile-cache")];
        fs::create_dir_all(home.join("tmp"))?;
        Ok(Self { name, program, home, project, kept, supply: &[], replies: replies.clone() })
    }

    /// Selects the packages in `settings` for the following starts.
    fn choose(&self, settings: &Value) -> Result<()> {
        Ok(fs::write(self.home.join(".pi/agent/settings.json"), serde_json::to_vec(settings)?)?)
    }

    fn command(&self, before: &[&str]) -> Command {
        let words = before.iter().map(PathBuf::from).chain(self.program.iter().cloned());
        let words: Vec<PathBuf> = words.collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.project).stdin(Stdio::null());
        command.env("HOME", &self.home).env("TMPDIR", self.home.join("tmp"));
        command.env_remove("XDG_CACHE_HOME").env_remove("PI_CODING_AGENT_DIR");
        command
    }

    /// Removes everything that earlier starts compiled, except for what the program supplies to extensions.
    fn forget(&self) -> Result<()> {
        for kept in self.kept.iter().filter(|kept| kept.exists()) {
            fs::remove_dir_all(kept).with_context(|| format!("emptying {}", kept.display()))?;
        }
        if self.supply.is_empty() {
            return Ok(());
        }
        ended(self.command(&[]).args(self.supply))
    }

    /// Installs the packages from the lock file.
    fn install(&self) -> Result<()> {
        ended(self.command(&[]).arg("install").arg("--yes"))
    }

    fn start(&self) -> Result<Duration> {
        let begin = Instant::now();
        ended(self.command(&[]).args(START).env("PI_OFFLINE", "1"))?;
        Ok(begin.elapsed())
    }

    fn median(&self) -> Result<Duration> {
        let mut times: Vec<Duration> = (0..STARTS).map(|_| self.start()).collect::<Result<_>>()?;
        times.sort();
        Ok(times[STARTS / 2])
    }

    /// Reads the memory of a start after all code is loaded; `None` if the system does not report it.
    fn memory(&self) -> Result<Option<Memory>> {
        let mut command = self.command(&[]);
        command.args(START).env("PI_OFFLINE", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.replies.watch(|| command.spawn())?;
        checked(&command, child.wait_with_output()?)?;
        Ok(self.replies.watched().memory)
    }

    /// Counts the calls of a cached start; `None` without `strace`.
    fn count(&self, arguments: &[&str]) -> Result<Option<Counts>> {
        if Command::new("strace").arg("-V").output().is_err() {
            return Ok(None);
        }
        let trace = self.home.join("tmp/trace");
        let to = trace.display().to_string();
        let before = ["strace", "-f", "-qq", "-e", "trace=%file,getdents64,read,pread64", "-o", &to];
        ended(self.command(&before).args(arguments).env("PI_OFFLINE", "1"))?;
        Ok(Some(counts(&fs::read_to_string(&trace)?)))
    }
}

/// A session with one model request.
const START: [&str; 6] = ["-p", "--provider", "bench", "--model", "reply", "x"];

pub(crate) fn built(target: &Path) -> Result<PathBuf> {
    ended(Command::new(env!("CARGO")).args(["build", "--locked", "--release", "--bin", "pi"]))?;
    Ok(target.join("release").join(format!("pi{}", std::env::consts::EXE_SUFFIX)))
}

fn ended(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    checked(command, output)
}

fn checked(command: &Command, output: Output) -> Result<()> {
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Counts in the output of `strace` the calls that name a file or list a folder, and the bytes that were read.
fn counts(trace: &str) -> Counts {
    let mut counts = Counts::default();
    for line in trace.lines() {
        let Some((_, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let resumed = call.strip_prefix("<... ");
        let name = resumed.unwrap_or(call).split(['(', ' ']).next().unwrap_or_default();
        if ["read", "pread64"].contains(&name) {
            let read = call.rsplit_once("= ").and_then(|(_, count)| count.trim().parse::<u64>().ok());
            counts.bytes += read.unwrap_or(0);
        } else if resumed.is_none() && call.contains('(') {
            counts.calls += 1;
        }
    }
    counts
}

impl Replies {
    /// Starts a server that replies to model requests until this process exits.
    fn serve() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening on this machine")?;
        let replies = Self { port: listener.local_addr()?.port(), watched: Arc::default() };
        let server = replies.clone();
        let answer_all = move || listener.incoming().flatten().for_each(|stream| drop(server.answer(stream)));
        std::thread::Builder::new().name("replies".to_owned()).spawn(answer_all)?;
        Ok(replies)
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process whose memory is read when it sends its model request.
    fn watch(&self, spawn: impl FnOnce() -> std::io::Result<Child>) -> Result<Child> {
        // Holds the lock until the process is registered; its model request waits for the lock.
        let mut watched = self.watched();
        let child = spawn().context("starting a process to watch")?;
        *watched = Watched { process: Some(child.id()), memory: None };
        Ok(child)
    }

    fn answer(&self, stream: TcpStream) -> Result<()> {
        {
            let mut watched = self.watched();
            if let Some(process) = watched.process.take() {
                watched.memory = Memory::of_tree(process);
            }
        }
        answer(stream)
    }
}

fn answer(mut stream: TcpStream) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        REPLY.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(REPLY.as_bytes())?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_bytes_are_counted_also_where_threads_interrupt_each_other() {
        let trace = concat!(
            "10 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n",
            "10 read(3, \"x\"..., 4096) = 4096\n",
            "11 statx(AT_FDCWD, \"/b\", <unfinished ...>\n",
            "10 read(3, <unfinished ...>\n",
            "11 <... statx resumed>{...}) = 0\n",
            "10 <... read resumed>\"y\", 4096) = 12\n",
            "11 readlink(\"/c\", 0x1, 1) = -1 EINVAL (Invalid argument)\n",
            "11 +++ exited with 0 +++\n",
        );
        assert_eq!(counts(trace), Counts { calls: 3, bytes: 4_108 });
    }
}
