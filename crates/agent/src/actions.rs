//! Actions of extensions and front ends on a session: changing the model, moving in the tree, replacing the session.
//!
//! [`Agent::call`] handles the hostcalls. Errors have pi's messages, because extensions show them to the user.

use crate::accounts::Freshness;
use crate::agent::Agent;
use crate::extensions::Event;
use crate::model_lists::ModelListUpdate;
use crate::outcome::{AgentError, ControlError};
use crate::summary::{self, SummaryText};
use pijs_connectors::ports::{SessionCall, SessionOp, unsupported};
use pijs_llm::message::{Content, Message};
use pijs_llm::models::{self, ModelBackend};
use pijs_llm::provider::{ErrorKind, Model, Provider, ProviderError};
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError, guard};
use pijs_session_store::entry::{ANOTHER_PROGRAM, SOME_EXTENSION};
use pijs_session_store::{Body, Entry, EntryId, Session, SessionError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Result of moving in the session's tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Navigation {
    /// Whether a handler or an abort cancelled the move.
    pub cancelled: bool,
    /// Text of the user message at the target, to be placed in the editor.
    pub editor_text: Option<String>,
    /// Summary of the abandoned branch.
    pub summary_entry: Option<Value>,
}

/// Options for moving in the session's tree.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NavigateOptions {
    /// Whether the abandoned branch is summarised.
    pub summarize: bool,
    /// Instructions for the summary.
    pub custom_instructions: Option<String>,
    /// Whether the instructions replace the default ones.
    pub replace_instructions: Option<bool>,
    /// Label for the summary entry, or for the target when no summary is written.
    pub label: Option<String>,
}

/// The branch that the session leaves when it moves to another one.
struct AbandonedBranch {
    old_leaf: Option<EntryId>,
    /// Nearest common ancestor with the target.
    common: Option<EntryId>,
    /// Entries below the common ancestor.
    left: Vec<Arc<Entry>>,
    /// Extensions to which the summary of this branch is attributed.
    authors: BTreeSet<String>,
}

impl Agent {
    /// Handles a hostcall whose result is returned asynchronously.
    pub(crate) async fn call(&self, asker: &ExtensionId, call: SessionCall) -> Result<Value, HostcallError> {
        let params = &call.params;
        match call.op {
            SessionOp::SetModel => {
                let model = params.get("model").and_then(Model::from_value).ok_or_else(|| {
                    HostcallError::invalid("schema", "session.set_model: the model needs an id and a provider")
                })?;
                if !self.model.offered.borrow().is_available(&model) {
                    return Ok(json!({"ok": false}));
                }
                self.change_model(&model, "set", true).await.map_err(refused)?;
                Ok(json!({"ok": true}))
            }
            SessionOp::Compact => {
                let instructions = option(params, "customInstructions").and_then(Value::as_str);
                self.compact_for(Some(asker), instructions).await.map_err(refused)
            }
            SessionOp::WaitForIdle => {
                self.control.quiescent().await;
                Ok(json!({}))
            }
            SessionOp::NavigateTree => {
                let text = |key: &str| option(params, key).and_then(Value::as_str).map(str::to_owned);
                let is = |key: &str| option(params, key).and_then(Value::as_bool).unwrap_or(false);
                let options = NavigateOptions {
                    summarize: is("summarize"),
                    custom_instructions: text("customInstructions"),
                    replace_instructions: option(params, "replaceInstructions").and_then(Value::as_bool),
                    label: text("label"),
                };
                let target = required(params, "targetId")?;
                let done = self.attend(self.navigate(Some(asker), target, options)).await.map_err(refused)?;
                Ok(json!({"cancelled": done.cancelled}))
            }
            SessionOp::NewSession => {
                let parent = option(params, "parentSession").and_then(Value::as_str).map(str::to_owned);
                let hold = params.get("hold").and_then(Value::as_bool).unwrap_or(false);
                answer(self.new_session(parent, hold).await)
            }
            SessionOp::StartSession => answer(self.start_deferred().await.map(|()| false)),
            SessionOp::Fork => {
                let at = option(params, "position").and_then(Value::as_str) == Some("at");
                let forked = self.fork(required(params, "entryId")?, at).await;
                answer(forked.map(|forked| forked.cancelled))
            }
            SessionOp::SwitchSession => {
                answer(self.switch_session_for_extension(required(params, "path")?.as_ref()).await)
            }
            SessionOp::Reload => {
                self.reload().await.map_err(|error| refused(error.to_string()))?;
                Ok(json!({}))
            }
            SessionOp::RefreshProviders => {
                self.take_offers();
                let errors = match ModelListUpdate::asked(params) {
                    Some(look) => self.update_model_lists(look).await,
                    None => Default::default(),
                };
                Ok(json!({ "errors": errors }))
            }
            other => Err(unsupported("session", other.as_str(), "the operation has no asynchronous form")),
        }
    }

    /// Updates the list of models that extensions registered. Reports an invalid registration once.
    pub(crate) fn take_offers(&self) {
        let wrong = self.model.offered.borrow_mut().set_offers(self.extensions.offers());
        let told = self.model.wrong_offers.replace(wrong.clone());
        for (path, message) in wrong.into_iter().filter(|offer| !told.contains(offer)) {
            self.extensions.report(&path, "register_provider", &message);
        }
        self.control.publish("models", self.model.offered.borrow().state());
        // The address of the current model may have changed.
        let known = self.control.model().and_then(|model| self.model.offered.borrow().find(&model.provider, &model.id));
        if let Some(model) = known {
            self.control.take_model(model);
        }
    }

    /// Opens a model.
    ///
    /// # Errors
    ///
    /// Fails when no source has the model, or its provider has no key.
    pub(crate) async fn open_model(&self, model: &Model) -> Result<Arc<dyn Provider>, ProviderError> {
        self.open(model, false).await
    }

    /// Opens a model for an extension. The address of a model that an extension chose is checked against the extension's grants,
    /// unless the user chose the model.
    pub(crate) async fn open_model_for_extension(&self, model: &Model) -> Result<Arc<dyn Provider>, ProviderError> {
        let is_in_use = self.control.model().is_some_and(|used| used.is(model));
        let is_chosen = is_in_use && self.model.offered.borrow().unchosen_extension(&model.provider).is_none();
        self.open(model, !is_chosen).await
    }

    async fn open(&self, model: &Model, by_extension: bool) -> Result<Arc<dyn Provider>, ProviderError> {
        let opened = self.open_unobserved(model, by_extension).await?;
        Ok(self.observed(opened))
    }

    async fn open_unobserved(&self, model: &Model, by_extension: bool) -> Result<Arc<dyn Provider>, ProviderError> {
        let opening = self.model.offered.borrow().opening(model)?;
        match opening {
            ModelBackend::Ready(provider) => Ok(provider),
            ModelBackend::Http(offer, mut model) => {
                self.pass_credentials(&offer).await?;
                let credentials = self.extensions.credentials(&offer.name, &model).await;
                let mut credentials = credentials.map_err(|message| ProviderError::new(ErrorKind::Auth, message))?;
                if self.model.offered.borrow().known().is_some_and(|known| known.is_moved(&model.provider)) {
                    credentials.base_url = None;
                }
                if credentials.key.is_none() && credentials.headers.is_empty() {
                    return Err(models::no_key(&model));
                }
                if by_extension {
                    let address = credentials.base_url.as_deref().unwrap_or_else(|| models::address_of(&model));
                    let reached = self.extensions.reaches(&offer.extension, address).await;
                    reached.map_err(|message| ProviderError::new(ErrorKind::Auth, message))?;
                }
                // The extension's credentials already contain these headers.
                model.facts.shift_remove("headers");
                let options = self.settings.borrow().provider.clone();
                models::open_http(model, credentials, &options, self.options.provider_ambient())
            }
            ModelBackend::Known(model) => {
                let known = self.model.offered.borrow().known().cloned().ok_or_else(|| models::no_key(&model))?;
                let credentials = known.credentials(&model).await;
                let credentials = credentials.map_err(|message| ProviderError::new(ErrorKind::Auth, message))?;
                let credentials = credentials.ok_or_else(|| models::no_key(&model))?;
                let options = self.settings.borrow().provider.clone();
                models::open_http(model, credentials, &options, self.options.provider_ambient())
            }
            ModelBackend::Stream(offer, model) => {
                self.pass_credentials(&offer).await?;
                Ok(Arc::new(crate::extension_model::ExtensionModel::new(model, self.control.clone())))
            }
        }
    }

    /// Passes stored credentials to the extension that registered the provider.
    async fn pass_credentials(&self, offer: &models::RegisteredProvider) -> Result<(), ProviderError> {
        if !self.model.offered.borrow().is_stored(offer) {
            return Ok(());
        }
        self.pass_account(offer, Freshness::Renewed)
            .await
            .map_err(|message| ProviderError::new(ErrorKind::Auth, message))
    }

    /// Selects a model and clamps the thinking level to its levels.
    ///
    /// # Errors
    ///
    /// Fails with pi's message when the provider has no key or no source has the model.
    pub async fn set_model(&self, model: &Model) -> Result<(), String> {
        self.control.observe_act("set_model", || model.to_value());
        self.change_model(model, "set", false).await
    }

    /// Selects a model; `source` is `set` or `cycle`.
    pub(crate) async fn change_model(
        &self,
        model: &Model,
        source: &'static str,
        by_extension: bool,
    ) -> Result<(), String> {
        let opened = match by_extension {
            true => self.open_model_for_extension(model).await,
            false => self.open_model(model).await,
        };
        let provider = opened.map_err(|error| error.to_string())?;
        let previous = self.control.model();
        let model =
            self.model.offered.borrow().find(&model.provider, &model.id).unwrap_or_else(|| provider.model().clone());
        let level = self.control.thinking();
        self.put_provider(provider);
        self.model.offered.borrow_mut().chose(by_extension);
        self.control.take_model(model.clone());
        let body = Body::ModelChange { provider: model.provider.clone(), model_id: model.id.clone() };
        let appended = match by_extension {
            true => self.control.append_of(SOME_EXTENSION, body),
            false => self.control.append(body),
        };
        appended.map_err(|error| error.to_string())?;
        self.control.set_thinking(&level).map_err(|error| error.to_string())?;
        self.publish_usage();
        if previous.as_ref().is_none_or(|previous| !previous.is(&model)) {
            self.notify("model_select", || {
                let event = Event::new("model_select").with("model", model.to_value());
                let event = match previous {
                    Some(previous) => event.with("previousModel", previous.to_value()),
                    None => event,
                };
                event.with("source", source)
            })
            .await;
        }
        Ok(())
    }

    /// Returns a model by name, for front ends.
    pub fn find_model(&self, provider: &str, id: &str) -> Option<Model> {
        self.model.offered.borrow().find(provider, id)
    }

    /// Moves to another entry of the session's tree.
    ///
    /// # Errors
    ///
    /// Fails with pi's message when the entry does not exist, when a run is active, or when the summary fails.
    pub async fn navigate_tree(&self, target: &str, options: NavigateOptions) -> Result<Navigation, String> {
        self.control.observe_act("navigate_tree", || json!({"target": target, "options": options}));
        self.attend(self.navigate(None, target, options)).await
    }

    /// Moves to an entry for an extension, or for the user when `asker` is `None`.
    async fn navigate(
        &self,
        asker: Option<&ExtensionId>,
        target: &str,
        options: NavigateOptions,
    ) -> Result<Navigation, String> {
        if !self.control.is_idle() {
            return Err("Wait for the current response to finish before navigating the session tree.".to_owned());
        }
        if self.control.is_summarising() {
            return Err(
                "Wait for the current compaction or tree navigation to finish before navigating the session tree."
                    .to_owned(),
            );
        }
        let target_id = EntryId(target.to_owned());
        let old_leaf = self.control.with_session(|session| session.leaf().cloned());
        if old_leaf.as_ref() == Some(&target_id) {
            return Ok(Navigation::default());
        }
        let failed = |error: SessionError| error.to_string();
        let entry = self.control.with_session(|session| session.entry(&target_id)).map_err(failed)?;
        let entry = entry.ok_or_else(|| format!("Entry {target} not found"))?;
        let (common, left) = self.control.with_session(|session| {
            let common = old_leaf.as_ref().and_then(|old| session.common_ancestor(old, &target_id));
            let left = old_leaf.as_ref().map(|old| session.below(common.as_ref(), old)).transpose();
            left.map(|left| (common, left.unwrap_or_default())).map_err(failed)
        })?;
        let cancel = CancellationToken::new();
        self.control.begin_summary(cancel.clone());
        // The summary is attributed to the authors of unanswered text on the branch, and to those of the instructions.
        let mut authors = self.control.with_session(Session::pending_authors).map_err(failed)?;
        authors.remove(ANOTHER_PROGRAM);
        let mut authors: BTreeSet<String> = authors.into_keys().collect();
        if options.custom_instructions.as_ref().is_some_and(|text| !text.is_empty()) {
            authors.extend(asker.map(ToString::to_string));
        }
        authors.retain(|_| guard!(AttributionAuthor));
        let branch = AbandonedBranch { old_leaf, common, left, authors };
        let result = self.navigate_from(&entry, branch, options, &cancel).await;
        self.control.end_summary();
        result
    }

    async fn navigate_from(
        &self,
        target: &Entry,
        mut branch: AbandonedBranch,
        mut options: NavigateOptions,
        cancel: &CancellationToken,
    ) -> Result<Navigation, String> {
        let cancelled = || Navigation { cancelled: true, ..Navigation::default() };
        let provided = match self.before_tree(target, &mut branch, &mut options, cancel).await {
            ControlFlow::Continue(provided) => provided,
            ControlFlow::Break(()) => return Ok(cancelled()),
        };
        let from_extension = provided.is_some();
        let summary = match provided {
            Some(provided) => Some(summary_of_handler(&provided)),
            None if options.summarize && !branch.left.is_empty() => {
                match self.summary_of_abandoned(&mut branch, &options, cancel).await? {
                    ControlFlow::Continue(summary) => Some(summary),
                    ControlFlow::Break(()) => return Ok(cancelled()),
                }
            }
            None => None,
        };
        let AbandonedBranch { old_leaf, authors, .. } = branch;
        let (editor_text, summary_id) = self.change_leaf(target, summary, authors)?;
        if let Some(label) = options.label.filter(|label| !label.is_empty()) {
            let target_id = summary_id.clone().unwrap_or_else(|| target.id.clone());
            self.control.append(Body::Label { target_id, label: Some(label) }).map_err(|error| error.to_string())?;
        }
        self.restore_tools();
        self.publish_tools();
        let summary_entry = summary_id.as_ref().map(|id| self.control.with_session(|session| session.entry(id)));
        let summary_entry = summary_entry.transpose().map_err(|error| error.to_string())?.flatten();
        let summary_entry = summary_entry.map(|entry| entry.to_value());
        let leaf = self.control.with_session(|session| session.leaf().cloned());
        let shown = summary_entry.clone();
        self.notify("session_tree", || {
            let event = Event::new("session_tree").with("newLeafId", json!(leaf)).with("oldLeafId", json!(old_leaf));
            match shown {
                Some(entry) => event.with("summaryEntry", entry).with("fromExtension", from_extension),
                None => event,
            }
        })
        .await;
        Ok(Navigation { cancelled: false, editor_text, summary_entry })
    }

    /// Emits `session_before_tree`, whose handlers may change the options. Returns the summary that a handler provides, or
    /// `Break` when one cancels the move.
    async fn before_tree(
        &self,
        target: &Entry,
        branch: &mut AbandonedBranch,
        options: &mut NavigateOptions,
        cancel: &CancellationToken,
    ) -> ControlFlow<(), Option<Value>> {
        if !self.extensions.has_handlers("session_before_tree") {
            return ControlFlow::Continue(None);
        }
        let entries: Vec<Value> = branch.left.iter().map(|entry| entry.to_value()).collect();
        let mut preparation = json!({
            "targetId": target.id, "oldLeafId": branch.old_leaf, "commonAncestorId": branch.common,
            "entriesToSummarize": entries, "userWantsSummary": options.summarize,
        });
        let given = [
            ("customInstructions", options.custom_instructions.as_ref().map(|text| json!(text))),
            ("replaceInstructions", options.replace_instructions.map(Value::Bool)),
            ("label", options.label.as_ref().map(|text| json!(text))),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                preparation[key] = value;
            }
        }
        let event = Event::new("session_before_tree").with("preparation", preparation).with_signal(cancel.clone());
        let outcome = self.extensions.emit(event).await;
        if outcome.field("cancel").is_some_and(|cancel| *cancel == Value::Bool(true)) {
            return ControlFlow::Break(());
        }
        if guard!(AttributionAuthor) {
            branch.authors.extend(outcome.authors.iter().cloned());
        }
        let text = |key: &str| outcome.field(key).and_then(Value::as_str).map(str::to_owned);
        options.custom_instructions = text("customInstructions").or(options.custom_instructions.take());
        options.label = text("label").or(options.label.take());
        if let Some(replace) = outcome.field("replaceInstructions").and_then(Value::as_bool) {
            options.replace_instructions = Some(replace);
        }
        let provided = outcome.field("summary").filter(|summary| summary.is_object() && options.summarize);
        ControlFlow::Continue(provided.cloned())
    }

    /// Lets the model summarise the branch. Returns the text with the other members of its entry, or `Break` if cancelled.
    async fn summary_of_abandoned(
        &self,
        branch: &mut AbandonedBranch,
        options: &NavigateOptions,
        cancel: &CancellationToken,
    ) -> Result<ControlFlow<(), BranchSummary>, String> {
        branch.authors.extend(self.answers_as(&self.provider().model().provider));
        let instructions = options.custom_instructions.as_deref();
        let replace = options.replace_instructions.unwrap_or_default();
        // A request that a handler cancelled before it was sent is treated as failed.
        let was_asked = !cancel.is_cancelled();
        let written = self.summary_of_branch(&branch.left, instructions, replace, cancel).await;
        if was_asked && cancel.is_cancelled() {
            return Ok(ControlFlow::Break(()));
        }
        let (SummaryText { text, usage }, details) = written?;
        let usage = usage.map(|usage| json!(usage));
        Ok(ControlFlow::Continue((text, pijs_session_store::summary::rest(Some(details), usage, false))))
    }

    /// Makes the target the leaf, with the summary below it. Returns the text for the editor and the id of the summary.
    fn change_leaf(
        &self,
        target: &Entry,
        summary: Option<BranchSummary>,
        authors: BTreeSet<String>,
    ) -> Result<(Option<String>, Option<EntryId>), String> {
        // A user message is moved into the editor, and its parent becomes the leaf.
        let (new_leaf, editor_text) = match &target.body {
            Body::Message { message: Message::User(user) } => (target.parent.clone(), Some(joined(&user.content))),
            Body::CustomMessage { content, .. } => (target.parent.clone(), Some(joined(content))),
            _ => (Some(target.id.clone()), None),
        };
        let summary = summary.filter(|(text, _)| !text.is_empty());
        let summary_id = self.control.change_session(|session| match summary {
            Some((text, rest)) => {
                let summary = session.branch_with_summary(new_leaf.as_ref(), text, rest, authors);
                summary.map(|entry| Some(entry.id.clone()))
            }
            None => {
                session.go_to(new_leaf.as_ref());
                Ok(None)
            }
        });
        Ok((editor_text, summary_id.map_err(|error: SessionError| error.to_string())?))
    }
}

/// Text of a branch summary, and the other members of its session entry.
type BranchSummary = (String, Map<String, Value>);

/// Returns the summary that a handler of `session_before_tree` provides.
fn summary_of_handler(provided: &Value) -> BranchSummary {
    let given = |key: &str| summary::given(provided, key);
    let text = provided.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned();
    (text, pijs_session_store::summary::rest(given("details"), given("usage"), true))
}

/// Concatenates the text blocks of a message's content.
fn joined(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => blocks.iter().filter_map(|block| block.as_text()).collect(),
    }
}

fn answer(result: Result<bool, AgentError>) -> Result<Value, HostcallError> {
    match result {
        Ok(cancelled) => Ok(json!({"cancelled": cancelled})),
        Err(AgentError::Control(error @ ControlError::Session(_))) => {
            Err(HostcallError::new(ErrorCode::Io, error.to_string()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

fn refused(message: impl Into<String>) -> HostcallError {
    HostcallError::invalid("state", message)
}

pub(crate) fn option<'a>(params: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    params.get("options")?.get(key).filter(|value| !value.is_null())
}

fn required<'a>(params: &'a Map<String, Value>, key: &str) -> Result<&'a str, HostcallError> {
    params
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| HostcallError::invalid("schema", format!("session: {key} must be a string")))
}
