//! The Responses API of OpenAI and of servers like it, over server-sent events.
//!
//! Nothing is kept on the server (`store: false`): reasoning comes back encrypted, is kept as the signature of its
//! thinking block, and goes out again as it came. A tool call's id is pi's, `CALL|ITEM`. [`request`] writes the body,
//! [`reply`] reads what comes back.

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
    /// Any model behind the Responses API.
    ///
    /// # Errors
    ///
    /// When the key cannot be a header.
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
