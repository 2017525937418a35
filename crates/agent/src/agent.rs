//! The agent of a session: takes prompts and runs turns.
//!
//! [`Agent`] owns the parts of a session, each a struct with one job. Its operations are grouped by topic in these modules:
//! `lifecycle.rs` starts and ends the session and takes prompts, `submit.rs` handles slash commands and the events `input` and
//! `before_agent_start`, `run.rs` runs turns until the model is done, `attempt.rs` makes a request, `emission.rs` sends events.
//!
//! An agent and its extensions live on one thread. Other threads use its [`AgentControl`].

use crate::control::AgentControl;
use crate::extensions::Extensions;
use crate::front_end::FrontEnd;
use crate::mailbox::TaskInbox;
use crate::model_choice::ModelChoice;
use crate::options::AgentOptions;
use crate::outcome::{AgentError, Outcome};
use crate::settings::Settings;
use crate::system_prompt::PromptOptions;
use crate::tool_set::ToolSet;
use crate::verdicts::{VerdictTotals, Verdicts};
use pijs_llm::provider::Provider;
use pijs_resources::{ResourcePlaces, Resources};
use pijs_rules::session::SessionRules;
use pijs_tools::words::Words;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

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

/// State needed to judge the deltas of a reply.
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

/// A session whose `session_start` is deferred.
#[derive(Debug, Clone)]
pub(crate) struct DeferredStart {
    pub(crate) reason: &'static str,
    pub(crate) previous: Option<PathBuf>,
}

/// Counters of attempts and of message updates.
#[derive(Default)]
pub(crate) struct UpdateCounters {
    pub(crate) attempts: Cell<u32>,
    /// Message updates sent to extensions.
    pub(crate) sent: Cell<u64>,
    /// Version of the subscriber list (`Extensions::listeners`) that received all updates of the current message.
    pub(crate) told: Cell<Option<u64>>,
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

    /// Adds an open model to those that the agent can use.
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

    pub(crate) fn next_attempt(&self) -> u32 {
        self.updates.attempts.set(self.updates.attempts.get() + 1);
        self.updates.attempts.get()
    }

    pub(crate) fn now(&self) -> u64 {
        self.options.ambient.epoch_ms()
    }
}
