//! The agent of a session: takes prompts and runs turns.
//!
//! [`Agent::prompt`] handles slash commands and the events `input` and `before_agent_start`, and then runs turns (`run.rs`) until
//! the model is done.
//!
//! An agent and its extensions live on one thread. Other threads use its [`AgentControl`].

use crate::control::{AgentControl, ControlError, ToolPrompt};
use crate::events::AgentEvent;
use crate::extensions::{CommandError, Event, EventOutcome, Extensions};
use crate::front_end::FrontEnd;
use crate::initial_model::{InitialModel, ModelChoice};
use crate::mailbox::TaskInbox;
use crate::model_lists::ModelListUpdate;
use crate::model_quota::ModelQuotaLimits;
use crate::observer::PortObserver;
use crate::rules::SessionRules;
use crate::session_switch::DeferredStart;
use crate::settings::Settings;
use crate::submit::Disposition;
use crate::system_prompt::PromptOptions;
use crate::tool::Tool;
use crate::tool_set::{ToolChoice, ToolSet};
use crate::transcript;
use crate::verdict_text;
use crate::verdicts::{VerdictCaps, VerdictTotals, Verdicts};
use pijs_connectors::fs::FsConnector;
use pijs_environment::Ambient;
use pijs_inputs::{DeliverAs, InputEvent, Stage};
use pijs_llm::message::{AssistantMessage, Block, Content, Message, StopReason};
use pijs_llm::partial::PartialMessage;
use pijs_llm::provider::{Provider, ProviderError};
use pijs_llm::update::Update;
use pijs_protocol::guard;
use pijs_resources::{ResourcePlaces, Resources};
use pijs_session_store::Body;
use pijs_tools::system::ToolSystem;
use pijs_tools::words::Words;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Turns of one run, far more than real work takes.
pub const MOST_TURNS: u32 = 10_000;

/// Options of an agent.
pub struct AgentOptions {
    /// Working directory of the session and its tools.
    pub cwd: PathBuf,
    /// Text in place of the built-in system prompt and of `SYSTEM.md`.
    pub system_prompt: Option<String>,
    /// Text in place of `APPEND_SYSTEM.md`; `None` reads the file.
    pub append_system_prompt: Option<String>,
    /// Available and active tools.
    pub tools: ToolChoice,
    /// Value of `ctx.mode`: `print`, `json` or `rpc`.
    pub mode: String,
    /// Whether dialogs are shown to a user; value of `ctx.hasUI`.
    pub has_ui: bool,
    /// Caps of verdicts.
    pub caps: VerdictCaps,
    /// Limits of model requests by extensions.
    pub asks: ModelQuotaLimits,
    /// Turns of one run; [`MOST_TURNS`] in an interactive session.
    pub max_turns: u32,
    /// Files and shell for the built-in tools.
    pub system: Arc<dyn ToolSystem>,
    /// Files for tool calls that extensions influenced.
    pub files: Arc<FsConnector>,
    /// Clock and randomness.
    pub ambient: Ambient,
    /// Model of new sessions.
    pub model: InitialModel,
    /// Settings of compaction, retries, queues and providers.
    pub settings: Settings,
    /// Locations of skills, prompt templates and context files; none by default. [`Agent::start`] reads them.
    pub places: ResourcePlaces,
    /// Texts of the prompt and of the built-in tools; `None` for PiJS's own.
    pub words: Option<Arc<Words>>,
    /// Native rules for replies.
    pub rules: Option<SessionRules>,
    /// Observer of the agent's ports: a recording, or a replay that replaces them.
    pub observer: Option<Rc<dyn PortObserver>>,
    /// Clock and randomness of providers, when they differ from the agent's.
    pub provider_ambient: Option<Ambient>,
}

impl AgentOptions {
    /// Returns the options of an interactive session in `cwd`: all tools, and no rules, resources or dialogs.
    pub fn new(cwd: PathBuf, system: Arc<dyn ToolSystem>, files: Arc<FsConnector>, ambient: Ambient) -> Self {
        Self {
            cwd,
            system_prompt: None,
            append_system_prompt: None,
            tools: ToolChoice::default(),
            mode: "print".to_owned(),
            has_ui: false,
            caps: VerdictCaps::default(),
            asks: ModelQuotaLimits::default(),
            max_turns: MOST_TURNS,
            system,
            files,
            ambient,
            model: InitialModel::default(),
            settings: Settings::default(),
            places: ResourcePlaces::default(),
            words: None,
            rules: None,
            observer: None,
            provider_ambient: None,
        }
    }

    pub(crate) fn provider_ambient(&self) -> &Ambient {
        self.provider_ambient.as_ref().unwrap_or(&self.ambient)
    }
}

/// The agent of a session.
pub struct Agent {
    pub(crate) options: AgentOptions,
    pub(crate) extensions: Rc<dyn Extensions>,
    pub(crate) control: AgentControl,
    pub(crate) front_end: RefCell<Box<dyn FrontEnd>>,
    pub(crate) model: ModelChoice,
    pub(crate) prompt: PromptState,
    pub(crate) tools: RefCell<ToolSet>,
    pub(crate) settings: RefCell<Settings>,
    pub(crate) judging: Judging,
    pub(crate) runs: Runs,
    pub(crate) updates: UpdateCounters,
    pub(crate) inbox: RefCell<Option<TaskInbox>>,
}

/// State of the system prompt.
pub(crate) struct PromptState {
    pub(crate) resources: RefCell<Resources>,
    /// Locations of resources.
    pub(crate) places: ResourcePlaces,
    /// Prompt options of the session.
    pub(crate) of_session: RefCell<PromptOptions>,
    /// Prompt options of the current run, as changed by handlers.
    pub(crate) of_run: RefCell<Option<PromptOptions>>,
}

/// State for judging the deltas of a reply.
pub(crate) struct Judging {
    pub(crate) verdicts: RefCell<Verdicts>,
    pub(crate) rules: RefCell<Option<SessionRules>>,
}

/// State of runs.
#[derive(Default)]
pub(crate) struct Runs {
    /// Outcome of the last run that an extension triggered.
    pub(crate) last: RefCell<Option<Outcome>>,
    /// Error after which the session cannot continue.
    pub(crate) broken: RefCell<Option<AgentError>>,
    /// A session whose `session_start` is deferred.
    pub(crate) deferred: RefCell<Option<DeferredStart>>,
}

/// Counters of attempts and of message updates.
#[derive(Default)]
pub(crate) struct UpdateCounters {
    attempts: Cell<u32>,
    /// Message updates sent to extensions.
    sent: Cell<u64>,
    /// Version of the listeners that received all updates of the current message.
    told: Cell<Option<u64>>,
}

/// Outcome of a prompt.
#[derive(Debug)]
pub struct Outcome {
    /// Reason for the end.
    pub ending: Ending,
    /// Last message of the model.
    pub message: Option<AssistantMessage>,
    /// Effects of verdicts on the session so far.
    pub verdicts: VerdictTotals,
}

/// Reasons for the end of a prompt.
#[derive(Debug)]
pub enum Ending {
    /// The model is done.
    Done,
    /// A command or an `input` handler handled it, without a model request.
    Handled,
    /// A command failed with this error.
    CommandFailed(CommandError),
    /// A handler of this extension ended the run.
    Stopped {
        /// Name of the extension.
        extension: String,
    },
    /// The run was aborted.
    Aborted,
    /// The provider failed.
    Failed(ProviderError),
    /// The run reached its limit of turns.
    TooManyTurns(u32),
}

/// An error after which the session cannot continue, caused neither by the model nor by an extension.
#[derive(Debug)]
pub enum AgentError {
    /// The front end is closed.
    FrontEnd(std::io::Error),
    /// The session cannot be written, or a run is already active.
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

/// Sources of input, for the `input` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputSource {
    /// The command line or a terminal.
    Interactive,
    /// The RPC protocol.
    Rpc,
    /// An extension, with `sendUserMessage`.
    Extension,
}

impl InputSource {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Rpc => "rpc",
            Self::Extension => "extension",
        }
    }
}

impl Agent {
    /// Creates an agent for a session. The caller then calls [`Agent::start`].
    pub fn new(
        options: AgentOptions,
        extensions: Rc<dyn Extensions>,
        provider: Arc<dyn Provider>,
        control: AgentControl,
        front_end: Box<dyn FrontEnd>,
    ) -> Self {
        let mut options = options;
        let mut tools = ToolSet::new(options.tools.clone());
        if let Some(words) = options.words.take() {
            tools.set_words(words);
        }
        let model = ModelChoice::new(std::mem::take(&mut options.model), options.asks, provider, &control);
        let prompt = PromptState {
            resources: RefCell::default(),
            places: std::mem::take(&mut options.places),
            of_session: RefCell::default(),
            of_run: RefCell::default(),
        };
        let judging =
            Judging { verdicts: RefCell::new(Verdicts::new(options.caps)), rules: RefCell::new(options.rules.take()) };
        Self {
            model,
            prompt,
            tools: RefCell::new(tools),
            settings: RefCell::new(std::mem::take(&mut options.settings)),
            judging,
            runs: Runs::default(),
            updates: UpdateCounters::default(),
            inbox: RefCell::new(control.take_inbox()),
            options,
            extensions,
            control,
            front_end: RefCell::new(front_end),
        }
    }

    /// Adds an open model to the one that the agent was created with.
    pub fn add_model(&self, provider: Arc<dyn Provider>) {
        self.model.offered.borrow_mut().add(provider);
    }

    /// Sets the settings of compaction, retries, queues and providers.
    pub fn set_settings(&self, settings: Settings) {
        self.control.observe_act("set_settings", || json!(settings));
        *self.settings.borrow_mut() = settings;
    }

    pub(crate) fn words(&self) -> Arc<Words> {
        Arc::clone(self.tools.borrow().words())
    }

    /// Returns the current provider.
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.model.provider.borrow())
    }

    pub(crate) fn put_provider(&self, provider: Arc<dyn Provider>) {
        self.control.take_model(provider.model().clone());
        *self.model.provider.borrow_mut() = provider;
    }

    /// Returns the handle for other threads.
    pub fn control(&self) -> &AgentControl {
        &self.control
    }

    /// Returns the effects of verdicts so far.
    pub fn verdict_totals(&self) -> VerdictTotals {
        self.judging.verdicts.borrow().totals()
    }

    /// Starts the session: sends the header to the front end, emits `session_start` and `resources_discover`, and runs what their
    /// handlers triggered. `reason` is `startup`, `resume`, ...
    pub async fn start(&self, reason: &str) -> Result<(), AgentError> {
        self.control.observe_act("start", || json!(reason));
        self.attend(async {
            let facts = [
                ("cwd", json!(self.options.cwd)),
                ("mode", json!(self.options.mode)),
                ("hasUI", json!(self.options.has_ui)),
                ("projectTrusted", json!(self.prompt.places.told_trusted)),
            ];
            for (key, value) in facts {
                self.control.publish(key, value);
            }
            self.begin_session().await?;
            self.announce(reason, None).await?;
            self.settled_outcome().await.map(|_| ())
        })
        .await
    }

    /// Returns messages about context files that were skipped.
    pub fn untold_context(&self) -> Vec<String> {
        let resources = self.prompt.resources.borrow();
        resources.skipped_context().map(|problem| format!("{}: {}", problem.path.display(), problem.message)).collect()
    }

    /// Prepares a session before its first event: tools, resources, model and thinking level.
    pub(crate) async fn begin_session(&self) -> Result<(), AgentError> {
        let resources = self.read_resources();
        for problem in &resources.problems {
            tracing::warn!(path = %problem.path.display(), "{}", problem.message);
        }
        *self.prompt.resources.borrow_mut() = resources;
        self.take_offers();
        self.update_model_lists(ModelListUpdate { network: Some(false), ..ModelListUpdate::default() }).await;
        self.pass_stored_accounts().await;
        self.publish_tools();
        let header = self.control.with_session(|session| session.header().clone());
        self.emit_to_front_end(&AgentEvent::Session(&header))?;
        self.restore_model().await?;
        self.restore_rules();
        // Handlers of `session_start` may already show the usage.
        self.publish_usage();
        Ok(())
    }

    /// Emits `session_start`, then `resources_discover`.
    pub(crate) async fn announce(&self, reason: &str, previous: Option<PathBuf>) -> Result<(), AgentError> {
        self.notify("session_start", || {
            let event = Event::new("session_start").with("reason", reason);
            match previous {
                Some(file) => event.with("previousSessionFile", json!(file)),
                None => event,
            }
        })
        .await;
        self.discover(if reason == "reload" { "reload" } else { "startup" }).await;
        Ok(())
    }

    /// Loads the skills, prompts and themes that extensions name.
    async fn discover(&self, reason: &str) {
        if self.extensions.has_handlers("resources_discover") {
            let cwd = self.options.cwd.display().to_string();
            let event = Event::new("resources_discover").with("cwd", cwd).with("reason", reason);
            let outcome = self.extensions.emit(event).await;
            let mut resources = self.prompt.resources.borrow_mut();
            for (key, slot) in [("skillPaths", 0), ("promptPaths", 1), ("themePaths", 2)] {
                for found in outcome.field(key).and_then(Value::as_array).into_iter().flatten() {
                    let text = |key: &str| found.get(key).and_then(Value::as_str);
                    let (Some(path), Some(extension)) = (text("path"), text("extensionPath")) else { continue };
                    let mut paths: [&[PathBuf]; 3] = [&[]; 3];
                    let named = [PathBuf::from(path)];
                    paths[slot] = &named;
                    let admits = |real: &Path| self.extensions.admits_text(extension, real);
                    for refused in resources.extend(extension, paths, &admits) {
                        self.extensions.leaves_out_text(extension, &refused);
                    }
                }
            }
        }
        self.publish_tools();
    }

    /// Applies `setActiveTools`, rebuilds the prompt, and publishes the tools to extensions.
    pub(crate) fn publish_tools(&self) {
        if let Some(names) = self.control.take_active_tools() {
            self.tools.borrow_mut().activate(names, &*self.extensions);
        }
        self.tools.borrow_mut().settle(&*self.extensions);
        let hears = |event| self.extensions.has_handlers(event);
        self.control.set_hears_prompts(hears("ui_prompt_start") || hears("ui_prompt_end"));
        self.control.set_first_handlers(|event| self.extensions.first_handler(event));
        let all = self.tools.borrow().all(&*self.extensions).iter().map(Tool::info).collect();
        let mut base =
            PromptOptions::new(&self.options, &self.tools.borrow(), &self.prompt.resources.borrow(), &*self.extensions);
        if let Some(section) = self.rules_section() {
            base.append(&section);
        }
        let of_run = self.prompt.of_run.borrow().is_some();
        let prompt = ToolPrompt { options: base.clone(), words: self.words(), of_run };
        self.control.publish_tools(all, base.selected_tools.clone(), prompt);
        *self.prompt.of_session.borrow_mut() = base;
        let mut commands = self.extensions.commands();
        commands.extend(self.prompt.resources.borrow().commands());
        self.control.publish("commands", json!(commands));
        self.publish_prompt();
        self.publish_usage();
    }

    pub(crate) fn publish_prompt(&self) {
        self.control.publish("systemPrompt", json!(self.system_prompt()));
    }

    /// Returns the prompt of the current run, or of the next one.
    pub(crate) fn system_prompt(&self) -> String {
        match &*self.prompt.of_run.borrow() {
            Some(options) => options.render(&self.words()),
            None => self.prompt.of_session.borrow().render(&self.words()),
        }
    }

    /// Emits `session_shutdown`. `reason` is `quit`, `reload`, ...
    pub async fn shutdown(&self, reason: &str) {
        self.control.observe_act("shutdown", || json!(reason));
        let event = || Event::new("session_shutdown").with("reason", reason);
        self.attend(self.notify("session_shutdown", event)).await;
    }

    /// Runs a prompt of the user, and then all runs that extensions triggered in the meantime.
    ///
    /// A text that begins with the slash command of an extension runs the command instead. A failure of the model is an
    /// [`Ending`]; an error means that the session cannot continue.
    pub async fn prompt(&self, text: &str) -> Result<Outcome, AgentError> {
        self.submit(text.into(), InputSource::Interactive).await
    }

    /// Runs a prompt with images, or of another source than the command line.
    pub async fn submit(&self, content: Content, source: InputSource) -> Result<Outcome, AgentError> {
        self.prompt_with(content, source, None).await
    }

    /// Runs a prompt with images from any source. During a run, `deliver_as` names the queue; without it the prompt is refused,
    /// as in pi.
    pub async fn prompt_with(
        &self,
        content: Content,
        source: InputSource,
        deliver_as: Option<DeliverAs>,
    ) -> Result<Outcome, AgentError> {
        self.prompt_accepted(content, source, deliver_as, |_| {}).await
    }

    /// Runs a prompt and calls `accepted` once it can no longer be refused: when it is queued or handled, or its run begins. For
    /// a command this is its end.
    pub async fn prompt_accepted(
        &self,
        content: Content,
        source: InputSource,
        deliver_as: Option<DeliverAs>,
        accepted: impl FnOnce(Disposition<'_>),
    ) -> Result<Outcome, AgentError> {
        self.control.observe_act("prompt", || json!({"content": content, "source": source, "deliverAs": deliver_as}));
        self.attend(async {
            self.control.advance(InputEvent::Prompt);
            self.control.user_spoke();
            self.runs.last.take();
            let outcome = self.ask(content.into(), source, deliver_as, true, accepted).await?;
            if deliver_as.is_some() && !self.control.is_idle() {
                // The prompt is queued; the caller that began the run waits for it.
                return Ok(outcome);
            }
            Ok(self.settled_outcome().await?.unwrap_or(outcome))
        })
        .await
    }

    /// Queues a message of the user during a run, unless an `input` handler handles it. Refuses slash commands of extensions.
    pub async fn queue_input(
        &self,
        content: Content,
        source: InputSource,
        deliver_as: DeliverAs,
    ) -> Result<Disposition<'static>, AgentError> {
        self.control.observe_act("queue", || json!({"content": content, "source": source, "deliverAs": deliver_as}));
        let text = content.text();
        let name = text.strip_prefix('/').map(|line| line.split_once(' ').map_or(line, |(name, _)| name));
        let is_command = |name: &&str| self.extensions.has_command(name) || self.extensions.misses_command(name);
        if let Some(name) = name.filter(is_command) {
            let message = format!(
                "Extension command \"/{name}\" cannot be queued. Use prompt() or execute the command when not streaming."
            );
            return Err(ControlError::Refused(message).into());
        }
        self.control.user_spoke();
        self.attend(async {
            let Some(content) = self.pass_through_handlers(content.into(), source, Some(deliver_as), true).await else {
                return Ok(Disposition::Handled);
            };
            self.control.queue_input(content, deliver_as);
            Ok(Disposition::Queued)
        })
        .await
    }

    /// Waits for the runs that extensions triggered. Returns the outcome of the last one; `None` without a run.
    pub async fn settle(&self) -> Result<Option<Outcome>, AgentError> {
        self.attend(self.settled_outcome()).await
    }

    pub(crate) async fn settled_outcome(&self) -> Result<Option<Outcome>, AgentError> {
        self.control.settled().await;
        match self.runs.broken.take() {
            Some(error) => Err(error),
            None => Ok(self.runs.last.take()),
        }
    }

    pub(crate) fn outcome(&self, ending: Ending, message: Option<AssistantMessage>) -> Outcome {
        Outcome { ending, message, verdicts: self.verdict_totals() }
    }

    /// Sends an event to extensions, then to the front end.
    pub(crate) async fn emit(&self, event: AgentEvent<'_>) -> Result<(), AgentError> {
        self.emit_to_extensions(&event).await;
        self.emit_to_front_end(&event)
    }

    /// Sends an event to the front end only.
    pub(crate) fn emit_to_front_end(&self, event: &AgentEvent<'_>) -> Result<(), AgentError> {
        self.front_end.borrow_mut().event(event).map_err(AgentError::FrontEnd)
    }

    /// Sends an event to extensions. Returns the event as changed by their handlers, if there are any.
    async fn emit_to_extensions(&self, event: &AgentEvent<'_>) -> Option<EventOutcome> {
        let name = event.extension_event().filter(|name| self.extensions.has_handlers(name))?;
        let mut payload = match event {
            AgentEvent::MessageUpdate { message, update } if !self.extensions.profile().queues(name) => {
                self.growth(name, *message, *update)
            }
            event => event.payload(),
        };
        if !self.extensions.profile().hears_system_messages() {
            let is_system = |message: &Value| message["role"] == "system";
            if payload.get("message").is_some_and(is_system) {
                return None;
            }
            if let Some(Value::Array(messages)) = payload.get_mut("messages") {
                messages.retain(|message| !is_system(message));
            }
        }
        let outcome = self.extensions.emit(Event { name, payload, cancel: None }).await;
        self.messages_read().await;
        Some(outcome)
    }

    /// Returns a message update for extensions: only the change, unless a listener missed the previous update.
    fn growth(&self, name: &str, message: PartialMessage<'_>, update: Update<'_>) -> Map<String, Value> {
        let number = self.updates.sent.get() + 1;
        self.updates.sent.set(number);
        let listeners = Some(self.extensions.listeners(name));
        let is_known = self.updates.told.replace(listeners) == listeners;
        AgentEvent::growth(message, update, number, is_known)
    }

    /// Starts the updates of another message.
    pub(crate) fn forget_updates(&self) {
        self.updates.told.set(None);
    }

    /// Waits until messages that handlers sent are processed or refused: they precede the following ones.
    pub(crate) async fn messages_read(&self) {
        let is_in = |stage| self.control.inputs(|inputs| !inputs.is_over(stage));
        if is_in(Stage::Unread) {
            self.control.barrier().await;
        }
        if is_in(Stage::Rejecting) {
            self.deliveries_done().await;
        }
    }

    /// Emits `message_end`, whose handlers may replace the message before it is stored or shown. Returns it with the extensions
    /// that did; they count as authors if they changed text that the model reads.
    pub(crate) async fn end_message(&self, message: Message) -> Result<(Message, Vec<String>), AgentError> {
        self.end_message_of(BTreeSet::new(), message).await
    }

    /// Emits `message_end` for a reply. A reply of an extension's provider that the user did not choose is attributed to the
    /// extension.
    pub(crate) async fn end_reply(&self, reply: AssistantMessage) -> Result<(Message, Vec<String>), AgentError> {
        let author = self.answers_as(&reply.provider);
        self.end_message_of(author.into_iter().collect(), Message::Assistant(reply)).await
    }

    /// Returns the extension to which the replies of a provider are attributed.
    pub(crate) fn answers_as(&self, provider: &str) -> Option<String> {
        let by = self.model.offered.borrow().unchosen_extension(provider).map(str::to_owned);
        by.filter(|by| self.extensions.answers_unasked(by) && guard!(AttributionAuthor))
    }

    /// Emits `message_end` for a message that these extensions wrote or changed.
    pub(crate) async fn end_message_of(
        &self,
        mut editors: BTreeSet<String>,
        mut message: Message,
    ) -> Result<(Message, Vec<String>), AgentError> {
        let mut replied = editors.is_empty() || !matches!(message, Message::Assistant(_));
        let outcome = self.emit_to_extensions(&AgentEvent::MessageEnd { message: &message }).await.unwrap_or_default();
        let replaced = outcome.field("message").and_then(|given| replacement(&message, given));
        if let Some(replaced) = replaced {
            let mut authors = message.authors_mut().map(std::mem::take).unwrap_or_default();
            let before = std::mem::replace(&mut message, transcript::neutralised(replaced));
            let is_new = guard!(AttributionAuthor) && adds_text(&before, &message);
            let new = outcome.authors.iter().filter(|_| is_new).cloned();
            match message.authors_mut() {
                Some(noted) => {
                    authors.extend(new);
                    *noted = authors;
                }
                None => editors.extend(new),
            }
            replied &= !matches!(&before, Message::Assistant(reply) if !is_whole(reply));
        }
        self.emit_to_front_end(&AgentEvent::MessageEnd { message: &message })?;
        if editors.is_empty() || replied {
            self.control.append_edited(editors, &message)?;
        } else {
            self.control.append_by(editors, Body::Message { message: message.clone() })?;
        }
        self.publish_usage();
        Ok((message, outcome.authors))
    }

    /// Emits an event whose answer is ignored. `build` is called only when there are handlers.
    pub(crate) async fn notify(&self, name: &str, build: impl FnOnce() -> Event) {
        if self.extensions.has_handlers(name) {
            self.extensions.emit(build()).await;
        }
    }

    pub(crate) fn next_attempt(&self) -> u32 {
        self.updates.attempts.set(self.updates.attempts.get() + 1);
        self.updates.attempts.get()
    }

    pub(crate) fn now(&self) -> u64 {
        self.options.ambient.epoch_ms()
    }
}

/// Returns whether a message contains text for the model that the earlier version does not. Removed text does not count, unless a
/// failed reply becomes a successful one.
fn adds_text(before: &Message, after: &Message) -> bool {
    match (before, after) {
        (Message::Assistant(before), Message::Assistant(after)) => {
            let is_new = |block: &Block| !before.content.contains(block);
            after.content.iter().any(is_new) || (is_whole(after) && !is_whole(before))
        }
        (Message::ToolResult(before), Message::ToolResult(after)) => {
            before.content != after.content || before.is_error != after.is_error
        }
        _ => true,
    }
}

/// Returns whether a reply neither failed nor was aborted.
fn is_whole(reply: &AssistantMessage) -> bool {
    !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted)
}

/// Returns a handler's replacement of a message, if it has the same role and required members.
fn replacement(message: &Message, given: &Value) -> Option<Message> {
    let read = |value: Value| serde_json::from_value::<Message>(value).ok();
    let is_like = |other: &Message| std::mem::discriminant(other) == std::mem::discriminant(message);
    let fits = |other: &Message| {
        is_like(other) && other.role() == message.role() && verdict_text::keeps_verdict(message, other)
    };
    if let Some(whole) = read(given.clone()).filter(fits) {
        return Some(whole);
    }
    let mut merged = message.to_value();
    merged.as_object_mut()?.extend(given.as_object()?.clone());
    read(merged).filter(fits)
}
