//! The life of a session: its start and end, its tools and prompt, and the prompts of the user.

use crate::agent::Agent;
use crate::control::ToolPrompt;
use crate::events::AgentEvent;
use crate::extensions::Event;
use crate::model_lists::ModelListUpdate;
use crate::outcome::{AgentError, ControlError, Ending, InputSource, Outcome};
use crate::submit::Disposition;
use crate::system_prompt::PromptOptions;
use crate::tool::Tool;
use pijs_inputs::{DeliverAs, InputEvent};
use pijs_llm::message::{AssistantMessage, Content};
use pijs_protocol::guard;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

impl Agent {
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
    pub fn skipped_context(&self) -> Vec<String> {
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
        // Handlers of `session_start` may show the context usage.
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
        let has_handlers = |event| self.extensions.has_handlers(event);
        self.control.set_prompt_handlers(has_handlers("ui_prompt_start") || has_handlers("ui_prompt_end"));
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
    /// a command, this is when it has completed.
    pub async fn prompt_accepted(
        &self,
        content: Content,
        source: InputSource,
        deliver_as: Option<DeliverAs>,
        accepted: impl FnOnce(Disposition<'_>),
    ) -> Result<Outcome, AgentError> {
        let source = self.source_behind(source);
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
        let source = self.source_behind(source);
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

    fn source_behind(&self, source: InputSource) -> InputSource {
        let is_starters = self.options.is_prompted_by_extension && guard!(AgentForeignPrompts);
        if is_starters { InputSource::Starter } else { source }
    }

    /// Waits for the runs that extensions triggered. Returns the outcome of the last run; `None` if there was none.
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
}
