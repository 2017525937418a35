//! Client of chat completions (`openai/NAME`) over server-sent events, for OpenAI and compatible servers.
//!
//! A system message may occur anywhere, so an injection is sent as a system message. [`request`] writes the body, with the
//! differences between servers from [`compat`] and [`effort`]; [`reply`] decodes the stream.

mod compat;
pub(super) mod effort;
mod reply;
pub(super) mod request;

pub use compat::Retention;

use super::http::{Access, Endpoint, HttpOptions};
use super::{ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderOptions, ProviderStream, Request};
use compat::Compat;
use pijs_environment::Ambient;
use reply::Decoder;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Base URL of the provider.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// A model behind a chat completions endpoint.
#[derive(Debug)]
pub struct OpenAi {
    model: Model,
    endpoint: Endpoint,
}

impl OpenAi {
    /// Creates a client. Fails without a key, unless another base URL is given, because local servers need no key.
    pub fn new(id: &str, options: &ProviderOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        if options.openai_key.is_none() && options.base_url.is_none() {
            return Err(ProviderError::new(ErrorKind::Auth, format!("no key for openai/{id}"))
                .with_help("set OPENAI_API_KEY, or name a server that needs none with --base-url"));
        }
        let base = options.base_url.as_deref().unwrap_or(BASE_URL);
        let model = Model::new("openai", id, "openai-completions").with("baseUrl", base);
        let access = Access { key: options.openai_key.clone(), headers: HeaderMap::new() };
        Self::over(model, access, &options.http, ambient)
    }

    /// Creates a client for any model behind a chat completions endpoint.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let headers = access.into_headers(AUTHORIZATION, "Bearer ", &model)?;
        let url = format!("{}/chat/completions", model.address(BASE_URL));
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)? })
    }
}

impl Provider for OpenAi {
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
        let decoder = Decoder::new(&self.model, Compat::of(&self.model).tells_why_it_ended());
        self.endpoint.send(outgoing, decoder, cancel)
    }
}
