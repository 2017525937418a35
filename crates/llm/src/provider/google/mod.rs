//! The Gemini API (`google-generative-ai`) over server-sent events.
//!
//! It has no system message in the middle of a conversation, so an injection goes in as a marked user message. Calls
//! may lack ids of the provider's: those are numbered here. What the model signed goes back with the block it came with.
//! [`request`] writes the body in the form that extensions see, which is that of Google's own client, and the form that
//! goes over the wire; [`reply`] reads what comes back.

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

/// The address of the provider itself.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// A model behind the Gemini API.
#[derive(Debug)]
pub struct Google {
    model: Model,
    /// At the base address; each request names its model.
    endpoint: Endpoint,
    /// Begins the ids of calls, so that those of two replies differ.
    run: String,
}

impl Google {
    /// Any model behind the Gemini API.
    ///
    /// # Errors
    ///
    /// When the key cannot be a header.
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
        // What is sent before differs from reply to reply, and so do the numbers of its calls.
        let earlier = outgoing.payload.get("contents").and_then(Value::as_array).map_or(0, Vec::len);
        let decoder = Decoder::new(format!("{}_{earlier}", self.run));
        let model = outgoing.payload.get("model").and_then(Value::as_str).unwrap_or(&self.model.id).to_owned();
        let outgoing = Outgoing { payload: request::wire(outgoing.payload), ..outgoing };
        self.endpoint.under(&format!("/models/{model}:streamGenerateContent?alt=sse")).send(outgoing, decoder, cancel)
    }
}
