//! A session under test: a recorded model, extensions made of closures, and a front end that records events.

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use pijs_agent::settings::{RetrySettings, Settings};
use pijs_agent::{
    Agent, AgentControl, AgentOptions, Authors, CommandFate, Event, EventOutcome, ExtensionTool, Extensions,
    JsonFrontEnd, NoState, SessionRules, StreamFate, ToolFate, ToolRun, VerdictAbort, VerdictCaps,
};
use pijs_connectors::exec::OwnShell;
use pijs_environment::Ambient;
use pijs_llm::provider::{self, Model, Outgoing, Provider, ProviderOptions, ProviderStream, Request};
use pijs_protocol::stream::{Injection, InjectionRole};
use pijs_protocol::{StreamDelta, StreamSource};
use pijs_session_store::Session;
use pijs_tools::system::OsToolSystem;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/agent").join(name);
    format!("script:{}", path.display())
}

pub(crate) fn inject(content: &str) -> Option<Injection> {
    Some(Injection { content: content.to_owned(), role: InjectionRole::System })
}

type EventHandler = Box<dyn Fn(&Event) -> EventOutcome>;
type DeltaJudge = Box<dyn FnMut(&StreamDelta, &str) -> Option<Option<Injection>>>;
type ToolFunction = Box<dyn Fn(String, Value) -> LocalBoxFuture<'static, ToolFate>>;

/// Lookahead of [`Fake`], as for an extension in a sealed process.
const LOOKAHEAD: usize = 3;

/// Extensions made of closures.
#[derive(Default)]
pub(crate) struct Fake {
    handlers: BTreeMap<&'static str, EventHandler>,
    judge: RefCell<Option<DeltaJudge>>,
    sources: Vec<StreamSource>,
    accumulated: RefCell<BTreeMap<(u32, StreamSource, u32), String>>,
    tools: Vec<ExtensionTool>,
    run_tool: Option<ToolFunction>,
    /// Names of emitted events in order.
    pub(crate) emitted: RefCell<Vec<String>>,
    /// All judged deltas.
    pub(crate) judged: RefCell<Vec<String>>,
    /// A delta judged by the lookahead, with its verdict.
    held: RefCell<Option<(StreamDelta, StreamFate)>>,
}

impl Fake {
    /// Adds a handler of an event; it returns `None` for no answer.
    pub(crate) fn on(mut self, event: &'static str, handler: impl Fn(&Event) -> Option<Value> + 'static) -> Self {
        let handler = move |event: &Event| EventOutcome {
            payload: event.payload.clone(),
            answer: handler(event),
            thrown: None,
            authors: Vec::new(),
        };
        self.handlers.insert(event, Box::new(handler));
        self
    }

    /// Adds a handler that changes the payload in place.
    pub(crate) fn changes(
        mut self,
        event: &'static str,
        handler: impl Fn(&mut serde_json::Map<String, Value>) + 'static,
    ) -> Self {
        let handler = move |event: &Event| {
            let mut payload = event.payload.clone();
            handler(&mut payload);
            EventOutcome { payload, ..EventOutcome::default() }
        };
        self.handlers.insert(event, Box::new(handler));
        self
    }

    /// Adds a handler that judges deltas of these streams with the text so far.
    pub(crate) fn judges(
        mut self,
        sources: &[StreamSource],
        judge: impl FnMut(&StreamDelta, &str) -> Option<Option<Injection>> + 'static,
    ) -> Self {
        self.sources = sources.to_vec();
        self.judge = RefCell::new(Some(Box::new(judge)));
        self
    }

    pub(crate) fn with_tools(
        mut self,
        names: &[&str],
        run: impl Fn(String, Value) -> LocalBoxFuture<'static, ToolFate> + 'static,
    ) -> Self {
        self.tools = names
            .iter()
            .map(|name| ExtensionTool {
                converts: false,
                name: (*name).to_owned(),
                description: "a test tool".to_owned(),
                parameters: json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}),
                sequential: false,
                prepares_arguments: false,
                path: "fake.ts".to_owned(),
                source_info: json!({"path": "fake.ts"}),
                prompt_snippet: None,
                prompt_guidelines: Vec::new(),
            })
            .collect();
        self.run_tool = Some(Box::new(run));
        self
    }
}

impl Extensions for Fake {
    fn has_handlers(&self, event: &str) -> bool {
        self.handlers.contains_key(event)
    }

    fn emit(&self, event: Event) -> LocalBoxFuture<'_, EventOutcome> {
        async move {
            self.emitted.borrow_mut().push(event.name.to_owned());
            self.handlers[event.name](&event)
        }
        .boxed_local()
    }

    fn has_stream_handlers(&self, source: StreamSource) -> bool {
        self.sources.contains(&source)
    }

    fn lookahead(&self, _source: StreamSource) -> usize {
        if self.has_handlers("message_update") { 0 } else { LOOKAHEAD }
    }

    fn stream_ahead(&self, deltas: &[StreamDelta]) -> (StreamFate, usize) {
        assert!((1..=1 + LOOKAHEAD).contains(&deltas.len()));
        let fate = self.stream(&deltas[0]);
        let mut passed = 0;
        while fate == StreamFate::Continue && passed + 1 < deltas.len() {
            let next = &deltas[passed + 1];
            let fate = self.stream(next);
            if fate != StreamFate::Continue {
                *self.held.borrow_mut() = Some((next.clone(), fate));
                break;
            }
            passed += 1;
        }
        (fate, passed)
    }

    fn stream_over(&self) {
        self.held.take();
    }

    fn stream(&self, delta: &StreamDelta) -> StreamFate {
        if let Some((held, fate)) = self.held.take() {
            assert_eq!(*delta, held, "it is asked about next");
            return fate;
        }
        self.judged.borrow_mut().push(delta.chunk.clone());
        let mut accumulated = self.accumulated.borrow_mut();
        let text = accumulated.entry((delta.attempt, delta.source, delta.stream)).or_default();
        text.push_str(&delta.chunk);
        match self.judge.borrow_mut().as_mut().expect("a judge was given")(delta, text) {
            None => StreamFate::Continue,
            Some(retry) => StreamFate::Abort(VerdictAbort { extension: "path:fake".to_owned(), retry, latency_us: 7 }),
        }
    }

    fn tools(&self) -> Vec<ExtensionTool> {
        self.tools.clone()
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> LocalBoxFuture<'a, ToolFate> {
        self.run_tool.as_ref().expect("a tool was given")(call.name.to_owned(), call.input)
    }

    fn has_command(&self, name: &str) -> bool {
        name == "known"
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str, _: &'a Authors) -> LocalBoxFuture<'a, CommandFate> {
        self.emitted.borrow_mut().push(format!("/{name}[{args}]"));
        std::future::ready(CommandFate::Done).boxed_local()
    }

    fn run_began(&self) {}
    fn run_aborted(&self) {}
    fn run_ended(&self) {}
}

/// Records the requests of a provider.
struct RecordingProvider {
    inner: Arc<dyn Provider>,
    payloads: Arc<Mutex<Vec<Value>>>,
}

impl Provider for RecordingProvider {
    fn model(&self) -> &Model {
        self.inner.model()
    }

    fn payload(&self, request: &Request) -> Value {
        self.inner.payload(request)
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        self.payloads.lock().unwrap().push(outgoing.payload.clone());
        self.inner.send(outgoing, cancel)
    }
}

fn retry() -> RetrySettings {
    RetrySettings { base_delay_ms: 1, ..RetrySettings::default() }
}

#[derive(Clone, Default)]
struct OutputBuffer(Rc<RefCell<Vec<u8>>>);

impl Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A session under test.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) fake: Rc<Fake>,
    pub(crate) control: AgentControl,
    directory: tempfile::TempDir,
    payloads: Arc<Mutex<Vec<Value>>>,
    written: OutputBuffer,
}

impl World {
    pub(crate) fn new(model: &str, fake: Fake) -> Self {
        Self::with(model, fake, &ProviderOptions::default(), VerdictCaps::default())
    }

    pub(crate) fn with(model: &str, fake: Fake, provider_options: &ProviderOptions, caps: VerdictCaps) -> Self {
        Self::over(model, fake, provider_options, caps, tempfile::tempdir().unwrap(), None)
    }

    pub(crate) fn ruled(model: &str, fake: Fake, rules: SessionRules) -> Self {
        Self::capped(model, fake, VerdictCaps::default(), rules)
    }

    pub(crate) fn capped(model: &str, fake: Fake, caps: VerdictCaps, rules: SessionRules) -> Self {
        Self::over(model, fake, &ProviderOptions::default(), caps, tempfile::tempdir().unwrap(), Some(rules))
    }

    /// Opens a session again, as another process would.
    pub(crate) fn resumed(model: &str, fake: Fake, directory: tempfile::TempDir, rules: SessionRules) -> Self {
        Self::over(model, fake, &ProviderOptions::default(), VerdictCaps::default(), directory, Some(rules))
    }

    /// Ends the session and returns its folder.
    pub(crate) fn end(self) -> tempfile::TempDir {
        self.directory
    }

    fn over(
        model: &str,
        fake: Fake,
        provider_options: &ProviderOptions,
        caps: VerdictCaps,
        directory: tempfile::TempDir,
        rules: Option<SessionRules>,
    ) -> Self {
        let ambient = Ambient::system();
        let provider = provider::open(model, provider_options, &ambient).unwrap();
        let payloads = Arc::new(Mutex::new(Vec::new()));
        let provider = Arc::new(RecordingProvider { inner: provider, payloads: payloads.clone() });
        let session =
            Session::open(&directory.path().join("session.jsonl"), directory.path(), ambient.clone()).unwrap();
        let control = AgentControl::new(session, Arc::new(NoState), ambient.clone());
        let files =
            Arc::new(pijs_connectors::fs::FsConnector::new(Arc::new(pijs_connectors::system::OsFileSystem::new())));
        let system = Arc::new(OsToolSystem::new(
            ambient.clone(),
            directory.path().to_owned(),
            OwnShell::new(Default::default()),
        ));
        let options = AgentOptions {
            system_prompt: Some("You are a test.".to_owned()),
            mode: "json".to_owned(),
            caps,
            max_turns: 20,
            settings: Settings { retry: RetrySettings { enabled: false, ..retry() }, ..Settings::default() },
            rules,
            ..AgentOptions::new(directory.path().to_owned(), system, files, ambient)
        };
        let fake = Rc::new(fake);
        let written = OutputBuffer::default();
        let front_end = Box::new(JsonFrontEnd::new(written.clone()));
        let agent = Agent::new(options, fake.clone(), provider, control.clone(), front_end);
        Self { agent, fake, control, directory, payloads, written }
    }

    /// Returns the events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let bytes = self.written.0.borrow();
        std::str::from_utf8(&bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Returns the request bodies so far.
    pub(crate) fn payloads(&self) -> Vec<Value> {
        self.payloads.lock().unwrap().clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn session_text(&self) -> String {
        std::fs::read_to_string(self.path("session.jsonl")).unwrap()
    }
}
