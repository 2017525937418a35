//! Shared helpers of the end-to-end tests: a temporary home and project, a way to run `pi` in them, and a model server on
//! loopback that records requests.

#![expect(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod client;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The home and the project of one test; removed on drop.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

/// The output of one run of `pi`.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Returns the events of `--mode json`; every line of stdout must be an event.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("not an event: {error}\n{line}\n{}", self.stderr))
            })
            .collect()
    }

    /// Returns the events of one type, in order.
    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    #[track_caller]
    pub(crate) fn succeeded(&self) -> &Self {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts an exit code and that the message contains all of `words`.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing in:\n{}", self.stderr);
        }
        let lines = self.stderr.lines().count();
        assert!(lines <= 40, "more than a screen ({lines} lines):\n{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().expect("a temporary directory") };
        fs::create_dir_all(world.project()).expect("project");
        fs::create_dir_all(world.home()).expect("home");
        world
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Writes a file below the test's directory (`project/...`, `home/...`) and returns its path.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().expect("below the test's directory")).expect("directories");
        fs::write(&path, text).expect("file");
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path)).expect("file")
    }

    /// Writes a project rule for pi-ttsr.
    pub(crate) fn rule(&self, name: &str, frontmatter: &str, body: &str) {
        self.write(&format!("project/.pi/rules/{name}.md"), format!("---\n{frontmatter}\n---\n{body}\n"));
    }

    /// Returns a script for `--model script:FILE`, one reply a line, each a list of text deltas.
    pub(crate) fn script(&self, replies: &[&[&str]]) -> String {
        let lines: Vec<String> = replies
            .iter()
            .map(|deltas| {
                let events: Vec<Value> = deltas.iter().map(|text| json!({ "text": text })).collect();
                json!({ "events": events, "stop": "end_turn" }).to_string()
            })
            .collect();
        self.raw_script(&lines.join("\n"))
    }

    pub(crate) fn raw_script(&self, text: &str) -> String {
        format!("script:{}", self.write("model.jsonl", text).display())
    }

    /// Returns the command, in the project, with an empty environment.
    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        self.program(env!("CARGO_BIN_EXE_pi"), args)
    }

    /// Returns the command of another program, with the same folders and environment.
    pub(crate) fn program(&self, program: &str, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home())
            .env("XDG_CACHE_HOME", cache())
            // The prompt's text must not depend on the cache or a registry.
            .env("PIJS_WORDS", "own")
            .env("TMPDIR", self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn pi(&self, args: &[impl AsRef<OsStr>]) -> Run {
        run(self.command(args))
    }

    /// Runs the command `/answer` of one extension, which writes `project/answer.txt`.
    pub(crate) fn answer(&self, extension: &str, grants: &[&str]) -> Run {
        let model = self.script(&[&["hi"]]);
        // Some extensions compute for seconds in one turn, which takes a minute on a busy machine; these tests do not test the
        // length of a turn.
        self.write("home/.pi/agent/settings.json", r#"{"extensions": {"policy": {"max_turn_ms": 600000}}}"#);
        // Some extensions start servers.
        let allowed = ["--allow", "write", "--allow", "http:127.0.0.1:0"];
        let named = ["-p", "/answer", "--model", &model, "--mode", "json", "-e", extension];
        let mut command = self.command(&[&named, &allowed[..], grants].concat());
        // Prevents fetching the possible targets of a computed import().
        command.env("PI_OFFLINE", "1");
        run(command)
    }

    /// Runs `pi -p x --mode json` with pi-ttsr and a model.
    pub(crate) fn ttsr(&self, model: &str, more: &[&str]) -> Run {
        let package = pi_ttsr();
        let mut args = vec!["-p", "x", "--model", model, "--mode", "json", "-e", &package];
        args.extend(more);
        self.pi(&args)
    }
}

/// Runs a command to its end and collects its output.
pub(crate) fn run(mut command: Command) -> Run {
    let output = command.output().expect("pi starts");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Returns the cache folder that the tests of one binary share; artifacts in it are content-addressed.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Returns the packaged pi-ttsr.
pub(crate) fn pi_ttsr() -> String {
    fixture("packages/pi-ttsr")
}

pub(crate) fn fixture(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    root.join(path).canonicalize().expect("fixture").display().to_string()
}

/// One response of the model server.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Status 200 and these SSE blocks, one write each.
    Stream(Vec<String>),
    /// The blocks of [`Reply::Stream`], then silence until the client disconnects.
    StreamThenStall(Vec<String>),
    /// A status line, headers and a body.
    Plain(u16, &'static str, String),
}

/// A model server on loopback. Answers requests in order, one per connection.
pub(crate) struct ModelServer {
    pub(crate) url: String,
    seen: Arc<Mutex<ServerLog>>,
}

#[derive(Default)]
struct ServerLog {
    requests: Vec<(String, Value)>,
    heads: Vec<String>,
    closed_early: usize,
}

impl ModelServer {
    pub(crate) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let seen = Arc::new(Mutex::new(ServerLog::default()));
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || {
            for reply in replies {
                let Ok((stream, _)) = listener.accept() else { return };
                let _ = serve(stream, &reply, &theirs);
            }
        });
        Self { url, seen }
    }

    /// Returns the request paths and bodies so far.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.seen.lock().expect("no panic while held").requests.clone()
    }

    /// Returns the headers of each request so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.lock().expect("no panic while held").heads.clone()
    }

    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.requests().into_iter().map(|(_, body)| body).collect()
    }

    /// Returns the number of responses that the client closed early.
    pub(crate) fn closed_early(&self) -> usize {
        self.seen.lock().expect("no panic while held").closed_early
    }
}

fn serve(stream: TcpStream, reply: &Reply, seen: &Mutex<ServerLog>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    let mut head = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line.to_lowercase());
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    {
        let mut seen = seen.lock().expect("no panic while held");
        seen.requests.push((path, body));
        seen.heads.push(head);
    }

    let mut out = stream;
    let (blocks, stall) = match reply {
        Reply::Plain(status, headers, body) => {
            write!(
                out,
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )?;
            return Ok(());
        }
        Reply::Stream(blocks) => (blocks, false),
        Reply::StreamThenStall(blocks) => (blocks, true),
    };
    out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for block in blocks {
        if out.write_all(block.as_bytes()).and_then(|()| out.flush()).is_err() {
            seen.lock().expect("no panic while held").closed_early += 1;
            return Ok(());
        }
    }
    if stall {
        // The read returns when the client closes its side; the read timeout limits the wait for a client that never does.
        let ended = matches!(reader.read(&mut [0; 1]), Ok(0) | Err(_));
        seen.lock().expect("no panic while held").closed_early += usize::from(ended);
    }
    Ok(())
}

/// Returns the SSE blocks of an OpenAI-compatible reply.
pub(crate) fn openai(deltas: &[&str]) -> Vec<String> {
    let mut blocks = open_openai(deltas);
    blocks.push(format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] })));
    blocks.push("data: [DONE]\n\n".to_owned());
    blocks
}

/// Returns the SSE blocks of an OpenAI-compatible reply without its end.
pub(crate) fn open_openai(deltas: &[&str]) -> Vec<String> {
    deltas
        .iter()
        .map(|text| format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] })))
        .collect()
}

/// Returns the SSE blocks of an Anthropic Messages reply.
pub(crate) fn anthropic(deltas: &[&str]) -> Vec<String> {
    let mut blocks = open_anthropic(deltas);
    for event in [
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ] {
        blocks.push(anthropic_block(&event));
    }
    blocks
}

/// Returns the SSE blocks of an Anthropic Messages reply without its end.
pub(crate) fn open_anthropic(deltas: &[&str]) -> Vec<String> {
    let start = json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m",
        "usage": { "input_tokens": 10, "output_tokens": 1 } } });
    let open = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let mut blocks = vec![anthropic_block(&start), anthropic_block(&open)];
    blocks.extend(deltas.iter().map(|text| {
        anthropic_block(
            &json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
        )
    }));
    blocks
}

fn anthropic_block(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("typed"))
}
