//! [`UnopenedModel`]: a chosen model that is not open, or cannot be opened.

use super::{ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderStream, Request};
use futures_util::StreamExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A placeholder for a model; requests fail with the reason.
#[derive(Debug)]
pub struct UnopenedModel {
    model: Model,
    error: ProviderError,
}

impl UnopenedModel {
    /// Returns a placeholder for a model that the agent opens at its start.
    pub fn new(model: Model) -> Self {
        let message = format!("{}/{} was not opened", model.provider, model.id);
        Self { model, error: ProviderError::new(ErrorKind::NotFound, message) }
    }

    /// Returns a placeholder for a model that could not be opened.
    pub fn because(model: Model, error: ProviderError) -> Self {
        Self { model, error }
    }
}

impl Provider for UnopenedModel {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, _: &Request) -> Value {
        Value::Null
    }

    fn is_open(&self) -> bool {
        false
    }

    fn send(&self, _: Outgoing, _: CancellationToken) -> ProviderStream {
        let error = self.error.clone();
        futures_util::stream::once(async move { Err(error) }).boxed()
    }
}
