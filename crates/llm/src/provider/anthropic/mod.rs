//! Client of the Messages API (`anthropic/NAME`) over server-sent events.
//!
//! The API has no system messages within a conversation, so an injection becomes a marked user message ([`super::marked`]) after
//! the preceding prompt. [`request`] writes the body, [`reply`] decodes the stream. Beta features are listed in the body as
//! `betas`, where extensions see them, and sent as a header.

mod reply;
mod request;

use super::http::{Access, Endpoint, HttpOptions};
use super::{ErrorKind, Model, Outgoing, Provider, ProviderError, ProviderOptions, ProviderStream, Request};
use pijs_environment::Ambient;
use reply::Decoder;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Base URL of the provider.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";
const API_VERSION: &str = "2023-06-01";
/// Header with the requested beta features.
const BETA: &str = "anthropic-beta";

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    model: Model,
    endpoint: Endpoint,
}

impl Anthropic {
    /// Creates a client. Fails without a key, unless another base URL is given.
    pub fn new(id: &str, options: &ProviderOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        if options.anthropic_key.is_none() && options.base_url.is_none() {
            return Err(ProviderError::new(ErrorKind::Auth, format!("no key for anthropic/{id}"))
                .with_help("set ANTHROPIC_API_KEY"));
        }
        let base = options.base_url.as_deref().unwrap_or(BASE_URL);
        let model = Model { system_anywhere: false, ..Model::new("anthropic", id, "anthropic-messages") };
        let access = Access { key: options.anthropic_key.clone(), headers: HeaderMap::new() };
        Self::over(model.with("baseUrl", base), access, &options.http, ambient)
    }

    /// Creates a client for any model behind the Messages API.
    pub fn over(model: Model, access: Access, options: &HttpOptions, ambient: &Ambient) -> Result<Self, ProviderError> {
        let mut headers = access.into_headers(HeaderName::from_static("x-api-key"), "", &model)?;
        headers.entry("anthropic-version").or_insert(HeaderValue::from_static(API_VERSION));
        let base = model.address(BASE_URL);
        // The base URL may be given with or without the version.
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let url = format!("{base}/v1/messages?beta=true");
        let model = Model { system_anywhere: false, ..model };
        Ok(Self { model, endpoint: Endpoint::new(url, headers, options, ambient)? })
    }
}

impl Provider for Anthropic {
    fn model(&self) -> &Model {
        &self.model
    }

    fn payload(&self, request: &Request) -> Value {
        request::body(&self.model, request, self.endpoint.retention(), self.endpoint.header(BETA))
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.endpoint.shown_headers()
    }

    fn send(&self, mut outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream {
        let betas = outgoing.payload.as_object_mut().and_then(|body| body.shift_remove("betas"));
        let listed = betas.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let listed = listed.collect::<Vec<_>>().join(",");
        let decoder = Decoder::new(&self.model);
        match HeaderValue::from_str(&listed) {
            Ok(listed) if !listed.is_empty() => self.endpoint.with_header(BETA, listed).send(outgoing, decoder, cancel),
            _ => self.endpoint.send(outgoing, decoder, cancel),
        }
    }
}
