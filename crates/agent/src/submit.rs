//! Processes input before a run begins: slash commands, `input` handlers, templates, and `before_agent_start` handlers.

use crate::agent::Agent;
use crate::control::StageGuard;
use crate::extensions::{CommandFate, Event};
use crate::outcome::{AgentError, ControlError, Ending, InputSource, Outcome};
use crate::system_prompt::PromptOptions;
use pijs_inputs::{Authored, DeliverAs, Line, Refusal, Stage};
use pijs_llm::message::{Block, Content, CustomMessage, Message};
use pijs_protocol::guard;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Outcomes of an accepted input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition<'a> {
    /// A run begins.
    Started,
    /// The input is queued for the current run.
    Queued,
    /// A command or an `input` handler handled the input.
    Handled,
    /// A command handled the input and failed with this message.
    Failed(&'a str),
}

impl Disposition<'_> {
    /// Returns the name that pi 1.5 uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Queued => "queued",
            Self::Handled | Self::Failed(_) => "handled",
        }
    }
}

impl Agent {
    async fn command(&self, prompt: &Authored, source: InputSource) -> Option<CommandFate> {
        let text = prompt.content.text();
        let line = text.strip_prefix('/')?;
        let (name, args) = line.split_once(' ').unwrap_or((line, ""));
        self.extensions.restarts_done().await;
        if !self.extensions.has_command(name) {
            // A command of a stopped extension is not sent to the model.
            let missed = self.extensions.misses_command(name);
            return missed.then(|| CommandFate::Threw(format!("the extension of /{name} was stopped").into()));
        }
        if source == InputSource::Starter {
            let refusal = format!(
                "/{name} was not run: an extension started this pi, and a command has grants of its own; \
                 grant exec:pi * to that extension if its agents may run commands"
            );
            return Some(CommandFate::Threw(refusal.into()));
        }
        let fate = self.extensions.run_command(name, args, &prompt.authors).await;
        // Tools that the command registered become available now.
        self.publish_tools();
        Some(fate)
    }

    /// Runs the command, or the `input` handlers, templates, `before_agent_start` and a run. `expand` enables commands and
    /// templates. `accepted` is called once the input can no longer be refused.
    pub(crate) async fn ask(
        &self,
        content: Authored,
        source: InputSource,
        deliver_as: Option<DeliverAs>,
        expand: bool,
        accepted: impl FnOnce(Disposition<'_>),
    ) -> Result<Outcome, AgentError> {
        if expand && let Some(fate) = self.command(&content, source).await {
            let ending = match fate {
                CommandFate::Done => Ending::Handled,
                CommandFate::Threw(error) => Ending::CommandFailed(error),
            };
            accepted(match &ending {
                Ending::CommandFailed(error) => Disposition::Failed(&error.message),
                _ => Disposition::Handled,
            });
            return Ok(self.outcome(ending, None));
        }
        let is_beside = matches!(source, InputSource::Extension) && deliver_as.is_none() && self.control.is_idle();
        let hearing = match is_beside {
            true => Some(self.control.turn(Line::Input).await),
            false => None,
        };
        let heard = self.accept_input(content, source, deliver_as, expand).await;
        drop(hearing);
        let Some(content) = heard? else {
            accepted(Disposition::Handled);
            return Ok(self.outcome(Ending::Handled, None));
        };
        if !self.control.is_idle() {
            let Some(deliver_as) = deliver_as else { return Err(ControlError::from(Refusal::Undelivered).into()) };
            self.control.queue_input(content, deliver_as);
            self.control.barrier().await;
            accepted(Disposition::Queued);
            return Ok(self.outcome(Ending::Handled, None));
        }
        self.begin(&content, || accepted(Disposition::Started)).await
    }

    /// Passes input through `input` handlers and templates, and checks that it can be accepted now.
    pub(crate) async fn accept_input(
        &self,
        content: Authored,
        source: InputSource,
        deliver_as: Option<DeliverAs>,
        expand: bool,
    ) -> Result<Option<Authored>, AgentError> {
        if self.control.is_summarising() {
            let message =
                "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry.";
            return Err(ControlError::Refused(message.to_owned()).into());
        }
        Ok(self.pass_through_handlers(content, source, deliver_as, expand).await)
    }

    /// Begins a run for an input.
    pub(crate) async fn begin(&self, content: &Authored, accepted: impl FnOnce()) -> Result<Outcome, AgentError> {
        self.begin_contending(content, accepted, None).await
    }

    /// Begins a run for a prompt that may contend with another one.
    pub(crate) async fn begin_contending(
        &self,
        content: &Authored,
        accepted: impl FnOnce(),
        contending: Option<StageGuard<'_>>,
    ) -> Result<Outcome, AgentError> {
        self.control.expect_model()?;
        self.control.flush_after_run()?;
        self.control.flush_after_turn()?;
        self.take_changed_rules()?;
        self.publish_tools();
        self.compact_before_prompt().await?;
        let starting = self.control.begin(Stage::Starting);
        drop(contending);
        let turn = self.control.turn(Line::Start).await;
        self.contenders_handled().await;
        let added = self.before_agent_start(&content.content).await;
        if self.extensions.has_handlers("before_agent_start") {
            self.yield_to_extensions().await;
        }
        // `input` handlers of concurrent prompts run before this run starts, and see it as active.
        self.contenders_handled().await;
        drop(turn);
        let turn = self.control.turn(Line::Start).await;
        let mut messages = vec![Message::User(content.message(self.now()))];
        messages.extend(self.control.take_next_turn());
        messages.extend(added);
        if let Some(update) = self.prompt_update() {
            messages.insert(0, update);
        }
        accepted();
        drop(turn);
        if self.control.is_idle() {
            drop(starting);
            return self.run(messages).await;
        }
        // The prompt that started first waits until this one has been refused.
        let refused = self.run(messages).await;
        drop(starting);
        refused
    }

    /// Waits until `input` handlers have processed the contending prompts, or all extensions are idle.
    async fn contenders_handled(&self) {
        tokio::select! {
            biased;
            () = self.control.until(|inputs| inputs.is_over(Stage::Contending)) => {}
            () = self.extensions.at_rest() => {}
        }
    }

    /// Waits until the prompts that contended with the current run are refused.
    pub(crate) async fn contenders_refused(&self) {
        tokio::select! {
            biased;
            () = self.control.until(|inputs| inputs.is_over(Stage::Starting)) => {}
            () = self.extensions.at_rest() => {}
        }
    }

    /// Passes input through `input` handlers and templates; returns `None` if a handler handled it.
    pub(crate) async fn pass_through_handlers(
        &self,
        content: Authored,
        source: InputSource,
        deliver_as: Option<DeliverAs>,
        expand: bool,
    ) -> Option<Authored> {
        let behavior = deliver_as.filter(|_| !self.control.is_idle());
        let content = self.input(content, source, behavior).await?;
        if !expand {
            return Some(content);
        }
        let text = content.content.text();
        let resources = self.prompt.resources.borrow();
        let observer = self.options.observer.as_ref();
        let expanded = match observer.map_or_else(|| resources.expand(&text), |by| by.expand(&text, &resources)) {
            Ok(expanded) => expanded,
            Err(problem) => {
                let event = if text.starts_with("/skill:") { "skill_expansion" } else { "prompt_expansion" };
                self.extensions.report(&problem.path.display().to_string(), event, &problem.message);
                return Some(content);
            }
        };
        if expanded == text {
            return Some(content);
        }
        let mut blocks = vec![Block::text(expanded)];
        blocks.extend(images(&content.content));
        Some(content.with_content(blocks.into()))
    }

    /// Passes input through `input` handlers; returns `None` if one of them handled it.
    async fn input(&self, content: Authored, source: InputSource, behavior: Option<DeliverAs>) -> Option<Authored> {
        if !self.extensions.has_handlers("input") {
            return Some(content);
        }
        let images = images(&content.content);
        let mut event = Event::new("input").with("text", content.content.text()).with("source", source.as_str());
        if !images.is_empty() {
            event = event.with("images", json!(images));
        }
        if let Some(behavior) = behavior {
            event = event.with("streamingBehavior", behavior.as_str());
        }
        let mut outcome = self.extensions.emit(event).await;
        let authors = std::mem::take(&mut outcome.authors);
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
                let mut content = content.with_content(blocks.into());
                if guard!(AttributionAuthor) {
                    content.authors.extend(authors);
                }
                Some(content)
            }
            _ => Some(content),
        }
    }

    /// Emits `before_agent_start`. Returns the messages that handlers add; their changes of the prompt apply to this run.
    async fn before_agent_start(&self, content: &Content) -> Vec<Message> {
        let mut base = self.prompt.of_session.borrow().clone();
        base.sections = self.extensions.prompt_sections();
        let mut messages = Vec::new();
        let mut options = base.clone();
        if self.extensions.has_handlers("before_agent_start") {
            let mut event = Event::new("before_agent_start")
                .with("prompt", content.text())
                .with("systemPrompt", base.render(&self.words()))
                .with("systemPromptOptions", serde_json::to_value(&base).expect("string keys"));
            let images = images(content);
            if !images.is_empty() {
                event = event.with("images", json!(images));
            }
            // Each handler sees the prompt with the changes of the handlers before it.
            let mut known = event.payload.clone();
            let mut between = |payload: &mut Map<String, Value>| -> Result<(), String> {
                self.update_prompt(payload, &known);
                known.clone_from(payload);
                Ok(())
            };
            let outcome = self.extensions.emit_between(event, &mut between).await;
            // A changed prompt does not require consent for later tool calls, as with verdicts.
            let speaks = outcome.field("messages").and_then(Value::as_array).is_some_and(|added| !added.is_empty());
            for author in &outcome.authors {
                self.control.note_message(author, speaks);
            }
            let changed = outcome.payload.get("systemPromptOptions").cloned();
            if let Some(Ok(changed)) = changed.map(serde_json::from_value::<PromptOptions>) {
                options = changed;
            }
            if let Some(forced) = outcome.field("systemPrompt").and_then(Value::as_str) {
                options.force_system_prompt = Some(forced.to_owned());
            }
            if options != base && guard!(SystemMarkup) {
                options.neutralise();
            }
            let added = outcome.field("messages").and_then(Value::as_array).cloned().unwrap_or_default();
            messages.extend(added.into_iter().filter_map(|message| self.custom(message, &outcome.authors)));
        }
        if options.selected_tools == base.selected_tools {
            // `setActiveTools` in a handler applies unless the options select other tools.
            self.publish_tools();
            options.selected_tools.clone_from(&self.prompt.of_session.borrow().selected_tools);
        } else {
            self.tools.borrow_mut().activate(options.selected_tools.clone(), &*self.extensions);
            self.publish_tools();
        }
        *self.prompt.of_run.borrow_mut() = Some(options);
        self.publish_prompt();
        messages
    }

    /// Updates the prompt after a handler: the handler's text has precedence over its options; without a new text, the prompt is
    /// rendered from the options.
    fn update_prompt(&self, payload: &mut Map<String, Value>, known: &Map<String, Value>) {
        let prompt = payload.get("systemPrompt").cloned().unwrap_or_default();
        if known.get("systemPrompt") != Some(&prompt) {
            if let Some(Value::Object(options)) = payload.get_mut("systemPromptOptions") {
                options.insert("forceSystemPrompt".to_owned(), prompt);
            }
        } else if known.get("systemPromptOptions") != payload.get("systemPromptOptions")
            && let Some(options) = payload.get("systemPromptOptions")
            && let Ok(options) = PromptOptions::deserialize(options)
        {
            payload.insert("systemPrompt".to_owned(), options.render(&self.words()).into());
        }
    }

    /// Parses a custom message of a handler: `{customType, content, display, details?}`.
    fn custom(&self, draft: Value, authors: &[String]) -> Option<Message> {
        let mut draft = draft;
        if draft.get("content").is_none_or(Value::is_null) {
            draft.as_object_mut()?.insert("content".to_owned(), json!([]));
        }
        let mut message: CustomMessage = serde_json::from_value(draft).ok()?;
        message.timestamp = self.now();
        message.authors.extend(authors.iter().cloned());
        (message.custom_type != crate::control::VERDICT_TYPE).then_some(Message::Custom(message))
    }
}

fn images(content: &Content) -> Vec<Block> {
    content.blocks().into_iter().filter(|block| matches!(block, Block::Image { .. })).collect()
}
