//! Chooses the model and thinking level of a session when it is opened.
//!
//! When a session is resumed, the model and level that it stores replace the agent's initial ones.

use crate::agent::Agent;
use crate::model_choice::publish_scope;
use crate::outcome::{AgentError, ControlError};
use pijs_llm::choose::ChosenModel;
use pijs_llm::provider::UnopenedModel;
use pijs_protocol::guard;
use pijs_session_store::Body;
use std::sync::Arc;

impl Agent {
    /// Sets the thinking level of new sessions.
    pub fn set_initial_thinking(&self, level: &str) {
        level.clone_into(&mut self.model.initial.borrow_mut().thinking);
    }

    /// Sets the models for [`Agent::cycle_model`]; empty for all available ones.
    pub fn set_scope(&self, scope: Vec<ChosenModel>) {
        publish_scope(&self.control, &scope);
        *self.model.scope.borrow_mut() = scope;
    }

    /// Returns the models for [`Agent::cycle_model`]; empty for all available ones.
    pub fn scope(&self) -> Vec<ChosenModel> {
        self.model.scope.borrow().clone()
    }

    /// Opens the model again before a request when it uses a login, because its token may expire during the session.
    pub(crate) async fn renew_login(&self) {
        let model = self.provider().model().clone();
        if !self.model.offered.borrow().has_login(&model.provider) {
            return;
        }
        let provider = match self.open_model(&model).await {
            Ok(provider) => provider,
            Err(error) => Arc::new(UnopenedModel::because(model, error)),
        };
        self.put_provider(provider);
    }

    /// Restores the model and thinking level stored in the session, or else applies the agent's own. Appends the entries for
    /// model and level that the session lacks.
    pub(crate) async fn restore_model(&self) -> Result<(), AgentError> {
        let initial = self.model.initial.borrow().clone();
        let left = self.control.with_session(|session| session.branch_state()).map_err(ControlError::from)?;
        let insists = self.model.insists;
        let kept = left.model.as_ref().filter(|_| self.model.keeps_that_of_session.get() && !insists);
        let kept = kept.and_then(|(provider, id)| self.model.offered.borrow().find(provider, id));
        let is_imposed = self.options.starter.is_some() && (insists || kept.is_some());
        let wanted = kept.unwrap_or(initial.model);
        let opened = match is_imposed {
            true => self.open_model_for_extension(&wanted).await,
            false => self.open_model(&wanted).await,
        };
        let provider = match opened {
            Ok(provider) => provider,
            // The session cannot use another model, so requests fail with this error.
            Err(error) if self.provider().model().is(&wanted) => {
                Arc::new(UnopenedModel::because(wanted.clone(), error))
            }
            Err(_) => self.provider(),
        };
        let model =
            self.model.offered.borrow().find(&wanted.provider, &wanted.id).unwrap_or_else(|| provider.model().clone());
        self.put_provider(provider);
        self.control.take_model(model.clone());
        // Resuming a session does not make an extension's choice the user's.
        let is_left = left.last_model.as_ref() == Some(&(model.provider.clone(), model.id.clone()));
        let is_left_by_extension = is_left && left.is_set_by_extension && !insists && guard!(SessionImposedModel);
        if is_imposed || is_left_by_extension {
            self.model.offered.borrow_mut().chose(true);
        }
        let level = left.thinking.filter(|_| !initial.insists).unwrap_or(initial.thinking);
        let level = self.control.restore_thinking(&level);
        // A model named on the command line is not recorded as a change of a resumed session.
        let is_told = insists && self.messages().is_ok_and(|messages| !messages.is_empty());
        if !model.is_unknown() && !is_told && left.last_model != Some((model.provider.clone(), model.id.clone())) {
            self.control.append(Body::ModelChange { provider: model.provider, model_id: model.id })?;
        }
        if left.last_thinking.as_ref() != Some(&level) && (left.last_thinking.is_none() || initial.insists) {
            self.control.append(Body::ThinkingLevelChange { thinking_level: level })?;
        }
        Ok(())
    }
}
