//! Client of the Responses API over server-sent events, for OpenAI and compatible servers.
//!
//! The server stores nothing (`store: false`): encrypted reasoning is kept as the signature of its thinking block and returned
//! unchanged. Ids of tool calls are pi's `CALL|ITEM`. [`request`] writes the body, [`reply`] decodes the stream.

mod reply;
mod request;

use super::http::{Access, Endpoint, HttpOptions};
use super::{Model, Outgoing, Provider, ProviderError, ProviderStream, Request};
use pijs_environment::Ambient;
use reply::Decoder;
use reqwest::header::AUTHORIZATION;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

const BASE_URL: &str = "https://api.openai.com/v1";

/// A model behind the Responses API.
#[derive(Debug)]
pub struct Responses {
    model: Model,
    endpoint: Endpoint,
}

impl Responses {
    /// Creates a client for any model behind the Responses API.
    ///
    /// # Errors
    ///
    /// Fails when the key is not a valid header value.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let headers = access.into_headers(AUTHORIZATION, "Bearer ", &model)?;
        let url = format!("{}/responses", model.address(BASE_URL));
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)? })
    }
}

impl Provider for Responses {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        request::body(&self.model, request, self.endpoint.retention())
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.endpoint.shown_headers()
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        self.endpoint.send(outgoing, Decoder::new(&self.model.provider), cancel)
    }
}
