//! Measures the time from an *abort* verdict until the provider sees that the connection is closed, over loopback.

use crate::table::{Figure, Samples, nanoseconds};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use pijs_agent::{
    Agent, AgentControl, AgentOptions, Authors, CommandFate, Event, EventOutcome, ExtensionTool, Extensions, FrontEnd,
    NoExtensions, NoFrontEnd, NoState, StreamFate, ToolFate, ToolRun, VerdictAbort,
};
use pijs_connectors::exec::OwnShell;
use pijs_environment::Ambient;
use pijs_llm::provider::{self, ProviderOptions};
use pijs_protocol::{StreamDelta, StreamSource};
use pijs_session_store::Session;
use pijs_tools::system::OsToolSystem;
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const RUNS: usize = 200;

/// The delta at which [`Judge`] stops the reply.
const TRIGGER: &str = "stop here";

pub(crate) fn figures() -> Vec<Figure> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    let (sender, closed) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(at) = stream.and_then(serve) else { return };
            if sender.send(at).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let run = || {
        let judge = Rc::new(Judge(Cell::new(None)));
        local.block_on(&runtime, agent(&url, judge.clone()).prompt("x")).expect("the run ends");
        let judged = judge.0.get().expect("the judge was called");
        let seen = closed.recv_timeout(Duration::from_secs(20)).expect("the server sees the end");
        nanoseconds(seen.saturating_duration_since(judged))
    };
    run();
    let samples = Samples::of((0..RUNS).map(|_| run()).collect());
    vec![Figure {
        work: "HTTP: abort verdict to the server seeing the connection closed".into(),
        samples,
        peer: None,
        target: None,
    }]
}

fn agent(url: &str, judge: Rc<Judge>) -> Agent {
    let options = ProviderOptions {
        base_url: Some(url.to_owned()),
        openai_key: Some("none".to_owned()),
        ..ProviderOptions::default()
    };
    agent_with("openai/bench", &options, judge, Box::new(NoFrontEnd))
}

/// Returns an agent over a session in memory.
pub(crate) fn agent_with(
    model: &str,
    options: &ProviderOptions,
    extensions: Rc<dyn Extensions>,
    front_end: Box<dyn FrontEnd>,
) -> Agent {
    let ambient = Ambient::system();
    let directory = std::env::temp_dir();
    let provider = provider::open(model, options, &ambient).expect("a provider");
    let session = Session::in_memory(&directory, ambient.clone());
    let files = Arc::new(pijs_connectors::fs::FsConnector::new(Arc::new(pijs_connectors::system::OsFileSystem::new())));
    let system = Arc::new(OsToolSystem::new(ambient.clone(), directory.clone(), OwnShell::new(Default::default())));
    let options = AgentOptions {
        system_prompt: Some("A benchmark.".to_owned()),
        mode: "json".to_owned(),
        max_turns: 1,
        ..AgentOptions::new(directory, system, files, ambient.clone())
    };
    let control = AgentControl::new(session, Arc::new(NoState), ambient);
    Agent::new(options, extensions, provider, control, front_end)
}

/// Answers one request with a few deltas, then stalls; returns the time at which the client has disconnected.
fn serve(mut stream: TcpStream) -> std::io::Result<Instant> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while {
        line.clear();
        reader.read_line(&mut line)? > 2
    } {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
    for text in ["one ", "two ", TRIGGER] {
        let delta = serde_json::json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
        stream.write_all(format!("data: {delta}\n\n").as_bytes())?;
    }
    let read = reader.read(&mut [0]);
    let at = Instant::now();
    match read {
        Ok(0) => Ok(at),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(at),
        other => other.and(Err(std::io::Error::other("the client said something more"))),
    }
}

/// Extensions that stop the reply at the trigger and record the time.
struct Judge(Cell<Option<Instant>>);

impl Extensions for Judge {
    fn has_stream_handlers(&self, source: StreamSource) -> bool {
        source == StreamSource::Text
    }

    fn stream(&self, delta: &StreamDelta) -> StreamFate {
        if delta.chunk != TRIGGER {
            return StreamFate::Continue;
        }
        self.0.set(Some(Instant::now()));
        StreamFate::Abort(VerdictAbort { extension: "path:bench".to_owned(), retry: None, latency_us: 0 })
    }

    fn has_handlers(&self, event: &str) -> bool {
        NoExtensions.has_handlers(event)
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        async move { NoExtensions.emit(event).await }.boxed_local()
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        Vec::new()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
        async move { NoExtensions.call_tool(call).await }.boxed_local()
    }

    fn has_command(&self, _: &str) -> bool {
        false
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str, by: &'a Authors) -> LocalBoxFuture<'a, CommandFate> {
        async move { NoExtensions.run_command(name, args, by).await }.boxed_local()
    }

    fn run_began(&self) {}
    fn run_aborted(&self) {}
    fn run_ended(&self) {}
}
