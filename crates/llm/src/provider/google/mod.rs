//! Client of the Gemini API (`google-generative-ai`) over server-sent events.
//!
//! The API has no system messages within a conversation, so an injection becomes a marked user message. Calls without an id get a
//! generated one. Signatures are sent back with the block that they arrived with. [`request`] writes the body in the form of
//! Google's client, which extensions see, and converts it to the wire form; [`reply`] decodes the stream.

mod reply;
mod request;

use super::http::{Access, Endpoint, HttpOptions};
use super::{Model, Outgoing, Provider, ProviderError, ProviderStream, Request};
use pijs_environment::Ambient;
use reply::Decoder;
use reqwest::header::HeaderName;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Base URL of the provider.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// A model behind the Gemini API.
#[derive(Debug)]
pub struct Google {
    model: Model,
    /// Endpoint at the base URL; each request appends its model.
    endpoint: Endpoint,
    /// Prefix of generated call ids, unique for each client.
    run: String,
}

impl Google {
    /// Creates a client for any model behind the Gemini API.
    ///
    /// # Errors
    ///
    /// Fails when the key is not a valid header value.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let headers = access.into_headers(HeaderName::from_static("x-goog-api-key"), "", &model)?;
        let url = model.address(BASE_URL).to_owned();
        let run = ambient.uuid_v7();
        let model = Model { system_anywhere: false, ..model };
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)?, run })
    }
}

impl Provider for Google {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        request::body(&self.model, request)
    }

    fn tells_of_response(&self) -> bool {
        false
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.endpoint.shown_headers()
    }

    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        // The length of the conversation differs between replies, which makes their generated call ids unique.
        let earlier = outgoing.payload.get("contents").and_then(Value::as_array).map_or(0, Vec::len);
        let decoder = Decoder::new(format!("{}_{earlier}", self.run));
        let model = outgoing.payload.get("model").and_then(Value::as_str).unwrap_or(&self.model.id).to_owned();
        let outgoing = Outgoing { payload: request::wire(outgoing.payload), ..outgoing };
        self.endpoint.under(&format!("/models/{model}:streamGenerateContent?alt=sse")).send(outgoing, decoder, cancel)
    }
}
