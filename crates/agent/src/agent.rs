//! The agent: prompts in, runs out.
//!
//! [`Agent::prompt`] is the operation people come for. It handles slash commands, the `input` and
//! `before_agent_start` events, and then runs turns (`run.rs`) until the model is done.
//!
//! An agent lives on one thread, as its extensions do. What other threads may touch is its
//! [`AgentControl`].

use crate::ambient::Ambient;
use crate::control::{AgentControl, ControlError, Pending};
use crate::events::AgentEvent;
use crate::extensions::{CommandFate, Event, Extensions};
use crate::front_end::FrontEnd;
use crate::message::{AssistantMessage, Block, Content, CustomMessage, Message, UserMessage};
use crate::provider::{Provider, ProviderError};
use crate::session::Body;
use crate::system::ToolSystem;
use crate::system_prompt;
use crate::tools::{Tool, ToolSet};
use crate::verdicts::{VerdictCaps, VerdictTotals, Verdicts};
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Runs that extensions may trigger one after the other without a person.
const MAX_TRIGGERED_RUNS: usize = 50;

/// What an agent is made with.
#[derive(Clone)]
pub struct AgentOptions {
    /// Working directory of the session: where tools work.
    pub cwd: PathBuf,
    /// Replaces the built-in system prompt.
    pub system_prompt: Option<String>,
    /// Names of the tools the model may call; `None`: read, bash, edit, write and all of extensions.
    pub tools: Option<Vec<String>>,
    /// `print`, `json` or `rpc`, for `ctx.mode`.
    pub mode: String,
    /// Whether somebody answers dialogs, for `ctx.hasUI`.
    pub has_ui: bool,
    /// Caps on verdicts.
    pub caps: VerdictCaps,
    /// Turns of one run.
    pub max_turns: u32,
    /// What the built-in tools work on.
    pub system: Arc<dyn ToolSystem>,
    /// Time and randomness.
    pub ambient: Ambient,
}

/// Runs a session.
pub struct Agent {
    pub(crate) options: AgentOptions,
    pub(crate) extensions: Rc<dyn Extensions>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) control: AgentControl,
    pub(crate) tools: RefCell<ToolSet>,
    pub(crate) verdicts: RefCell<Verdicts>,
    pub(crate) system_prompt: RefCell<String>,
    pub(crate) front_end: RefCell<Box<dyn FrontEnd>>,
    attempts: Cell<u32>,
}

/// How a prompt ended.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// The last message of the model.
    pub message: Option<AssistantMessage>,
    /// What verdicts did to the session so far.
    pub verdicts: VerdictTotals,
}

/// Why a prompt ended.
#[derive(Debug)]
pub enum Ending {
    /// The model is done.
    Done,
    /// A command or an `input` handler took it; the model was not asked.
    Handled,
    /// A command threw this.
    CommandFailed(String),
    /// A handler of this extension ended the run.
    Stopped {
        /// Which.
        extension: String,
    },
    /// The run was aborted.
    Aborted,
    /// The provider failed.
    Failed(ProviderError),
    /// The run had as many turns as it may have.
    TooManyTurns(u32),
}

/// Why a run could not go on: not the model's or an extension's fault.
#[derive(Debug)]
pub enum AgentError {
    /// The front end is gone.
    FrontEnd(std::io::Error),
    /// The session cannot be written, or a run is on already.
    Control(ControlError),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrontEnd(error) => write!(f, "cannot write events: {error}"),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AgentError {}

impl From<std::io::Error> for AgentError {
    fn from(error: std::io::Error) -> Self {
        Self::FrontEnd(error)
    }
}

impl From<ControlError> for AgentError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

/// Where an input comes from, for the `input` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputSource {
    /// The command line or a terminal.
    Interactive,
    /// The RPC protocol.
    Rpc,
    /// `sendUserMessage`.
    Extension,
}

impl InputSource {
    fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Rpc => "rpc",
            Self::Extension => "extension",
        }
    }
}

impl Agent {
    /// An agent over a session. [`Agent::start`] comes next.
    pub fn new(
        options: AgentOptions,
        extensions: Rc<dyn Extensions>,
        provider: Arc<dyn Provider>,
        control: AgentControl,
        front_end: Box<dyn FrontEnd>,
    ) -> Self {
        let tools = RefCell::new(ToolSet::new(options.tools.clone()));
        let caps = options.caps;
        Self {
            options,
            extensions,
            provider,
            control,
            tools,
            verdicts: RefCell::new(Verdicts::new(caps)),
            system_prompt: RefCell::default(),
            front_end: RefCell::new(front_end),
            attempts: Cell::new(0),
        }
    }

    /// The part that others may touch.
    pub fn control(&self) -> &AgentControl {
        &self.control
    }

    /// What verdicts did so far.
    pub fn verdict_totals(&self) -> VerdictTotals {
        self.verdicts.borrow().totals()
    }

    /// Opens the session: header to the front end, `session_start`, `resources_discover`, and the
    /// runs that handlers of these asked for. `reason` is `startup`, `resume`, ...
    pub async fn start(&self, reason: &str) -> Result<(), AgentError> {
        let model = self.provider.model().clone();
        let facts = [
            ("cwd", json!(self.options.cwd)),
            ("mode", json!(self.options.mode)),
            ("hasUI", json!(self.options.has_ui)),
            ("thinkingLevel", json!("off")),
            ("model", model.to_value()),
            ("systemPrompt", json!(self.base_prompt())),
        ];
        for (key, value) in facts {
            self.control.publish(key, value);
        }
        self.publish_tools();
        let header = self.control.with_session(|session| session.header().clone());
        self.emit(AgentEvent::Session(&header)).await?;
        let last_model = self.control.with_session(|session| {
            session.branch(None).iter().rev().find_map(|entry| match &entry.body {
                Body::ModelChange { provider, model_id } => Some((provider.clone(), model_id.clone())),
                _ => None,
            })
        });
        if last_model.as_ref() != Some(&(model.provider.clone(), model.id.clone())) {
            self.control.append(Body::ModelChange { provider: model.provider, model_id: model.id })?;
        }
        if last_model.is_none() {
            self.control.append(Body::ThinkingLevelChange { thinking_level: "off".to_owned() })?;
        }
        self.notify("session_start", || Event::new("session_start").with("reason", reason)).await;
        let cwd = self.options.cwd.display().to_string();
        self.notify("resources_discover", || {
            Event::new("resources_discover").with("cwd", cwd.as_str()).with("reason", "startup")
        })
        .await;
        self.publish_tools();
        self.settle().await.map(|_| ())
    }

    /// Takes over what `setActiveTools` asked for, and tells extensions what there is.
    fn publish_tools(&self) {
        if let Some(names) = self.control.take_active_tools() {
            self.tools.borrow_mut().activate(names);
        }
        let all = ToolSet::all(&*self.extensions).iter().map(Tool::info).collect();
        self.control.publish_tools(all, self.tools.borrow().active_names(&*self.extensions));
    }

    /// Closes the session: `session_shutdown`. `reason` is `quit`, `reload`, ...
    pub async fn shutdown(&self, reason: &str) {
        self.notify("session_shutdown", || Event::new("session_shutdown").with("reason", reason)).await;
    }

    /// Answers what a person said, and then whatever extensions asked for meanwhile.
    ///
    /// A text that begins with the name of an extension's slash command runs that command instead.
    /// Failures of the model are an [`Ending`]; an error means that the session itself cannot go on.
    pub async fn prompt(&self, text: &str) -> Result<Outcome, AgentError> {
        self.submit(text.into(), InputSource::Interactive).await
    }

    /// The same for content that may have images, and for front ends other than the command line.
    pub async fn submit(&self, content: Content, source: InputSource) -> Result<Outcome, AgentError> {
        let outcome = match self.command(&content.text()).await {
            Some(CommandFate::Done) => self.outcome(Ending::Handled, None),
            Some(CommandFate::Threw(message)) => self.outcome(Ending::CommandFailed(message), None),
            None => self.answer(content, source).await?,
        };
        Ok(self.settle().await?.unwrap_or(outcome))
    }

    /// Carries out the runs that extensions asked for while no run was on. Returns how the last one
    /// ended; `None` when there was none.
    pub async fn settle(&self) -> Result<Option<Outcome>, AgentError> {
        let mut last = None;
        for _ in 0..MAX_TRIGGERED_RUNS {
            let Some(pending) = self.control.take_run() else { return Ok(last) };
            last = Some(match pending {
                Pending::User(content) => self.answer(content, InputSource::Extension).await?,
                Pending::Custom(message) => self.run(vec![Message::Custom(message)]).await?,
            });
        }
        tracing::warn!(runs = MAX_TRIGGERED_RUNS, "extensions keep triggering runs; the rest is dropped");
        while self.control.take_run().is_some() {}
        Ok(last)
    }

    async fn command(&self, text: &str) -> Option<CommandFate> {
        let line = text.strip_prefix('/')?;
        let (name, args) = line.split_once(' ').unwrap_or((line, ""));
        if !self.extensions.has_command(name) {
            return None;
        }
        Some(self.extensions.run_command(name, args).await)
    }

    /// `input`, `before_agent_start`, run.
    async fn answer(&self, content: Content, source: InputSource) -> Result<Outcome, AgentError> {
        self.publish_tools();
        let Some(content) = self.input(content, source).await else {
            return Ok(self.outcome(Ending::Handled, None));
        };
        let mut messages = vec![Message::User(UserMessage { content: content.blocks().into(), timestamp: self.now() })];
        messages.extend(self.control.take_next_turn().into_iter().map(Message::Custom));
        messages.extend(self.before_agent_start(&content).await);
        self.run(messages).await
    }

    /// What the handlers of `input` leave; `None` when one took it.
    async fn input(&self, content: Content, source: InputSource) -> Option<Content> {
        if !self.extensions.has_handlers("input") {
            return Some(content);
        }
        let images = images(&content);
        let mut event = Event::new("input").with("text", content.text()).with("source", source.as_str());
        if !images.is_empty() {
            event = event.with("images", json!(images));
        }
        let outcome = self.extensions.emit(event).await;
        match outcome.field("action").and_then(Value::as_str) {
            Some("handled") => None,
            Some("transform") => {
                let text = outcome.field("text").and_then(Value::as_str).unwrap_or_default();
                let replaced = outcome.field("images").cloned().map(serde_json::from_value::<Vec<Block>>);
                let mut blocks = vec![Block::text(text)];
                blocks.extend(match replaced {
                    Some(Ok(images)) => images,
                    _ => images,
                });
                Some(blocks.into())
            }
            _ => Some(content),
        }
    }

    /// Messages that handlers add; their system prompt holds for this run.
    async fn before_agent_start(&self, content: &Content) -> Vec<Message> {
        let base = self.base_prompt();
        let mut prompt = base.clone();
        let mut messages = Vec::new();
        if self.extensions.has_handlers("before_agent_start") {
            let options =
                json!({"cwd": self.options.cwd, "selectedTools": self.tools.borrow().active_names(&*self.extensions)});
            let mut event = Event::new("before_agent_start")
                .with("prompt", content.text())
                .with("systemPrompt", base.as_str())
                .with("systemPromptOptions", options);
            let images = images(content);
            if !images.is_empty() {
                event = event.with("images", json!(images));
            }
            let outcome = self.extensions.emit(event).await;
            // An empty prompt means: back to the base.
            if let Some(changed) = outcome.field("systemPrompt").and_then(Value::as_str).filter(|text| !text.is_empty())
            {
                prompt = changed.to_owned();
            }
            let added = outcome.field("messages").and_then(Value::as_array).cloned().unwrap_or_default();
            messages.extend(added.into_iter().filter_map(|message| self.custom(message)));
        }
        self.control.publish("systemPrompt", json!(prompt));
        *self.system_prompt.borrow_mut() = prompt;
        messages
    }

    /// A message draft of an extension, `{customType, content, display, details?}`.
    fn custom(&self, draft: Value) -> Option<Message> {
        let mut message: CustomMessage = serde_json::from_value(draft).ok()?;
        message.timestamp = self.now();
        (message.custom_type != crate::control::VERDICT_TYPE).then_some(Message::Custom(message))
    }

    pub(crate) fn base_prompt(&self) -> String {
        match &self.options.system_prompt {
            Some(prompt) => format!("{prompt}\n\n<cwd>\n{}\n</cwd>", self.options.cwd.display()),
            None => system_prompt::build(&self.options.cwd, &self.tools.borrow(), &*self.extensions),
        }
    }

    pub(crate) fn outcome(&self, ending: Ending, message: Option<AssistantMessage>) -> Outcome {
        Outcome { ending, message, verdicts: self.verdict_totals() }
    }

    /// Tells extensions, then the front end.
    pub(crate) async fn emit(&self, event: AgentEvent<'_>) -> Result<(), AgentError> {
        self.emit_to_extensions(&event).await;
        self.front_end.borrow_mut().event(&event).map_err(AgentError::FrontEnd)
    }

    /// Tells extensions; the event as their handlers leave it, if somebody listened.
    async fn emit_to_extensions(&self, event: &AgentEvent<'_>) -> Option<Map<String, Value>> {
        let name = event.extension_event().filter(|name| self.extensions.has_handlers(name))?;
        let outcome = self.extensions.emit(Event { name, payload: event.payload() }).await;
        outcome.answer.and_then(|answer| answer.as_object().cloned())
    }

    /// `message_end`: handlers may replace the message before anybody keeps or shows it.
    pub(crate) async fn end_message(&self, message: Message) -> Result<Message, AgentError> {
        let answer = self.emit_to_extensions(&AgentEvent::MessageEnd { message: &message }).await;
        let replaced = answer
            .and_then(|mut answer| answer.remove("message"))
            .and_then(|replaced| serde_json::from_value::<Message>(replaced).ok())
            .filter(|replaced| replaced.role() == message.role());
        let message = replaced.unwrap_or(message);
        self.front_end.borrow_mut().event(&AgentEvent::MessageEnd { message: &message })?;
        self.control.append_message(&message)?;
        Ok(message)
    }

    /// An event whose answer nobody uses; built only when somebody listens.
    pub(crate) async fn notify(&self, name: &str, build: impl FnOnce() -> Event) {
        if self.extensions.has_handlers(name) {
            self.extensions.emit(build()).await;
        }
    }

    pub(crate) fn next_attempt(&self) -> u32 {
        self.attempts.set(self.attempts.get() + 1);
        self.attempts.get()
    }

    pub(crate) fn now(&self) -> u64 {
        self.options.ambient.clock.epoch_ms()
    }
}

fn images(content: &Content) -> Vec<Block> {
    content.blocks().into_iter().filter(|block| matches!(block, Block::Image { .. })).collect()
}
