//! Model providers: the trait, its events, and its implementations.
//!
//! A [`Provider`] turns a [`Request`] into the body of its wire format ([`Provider::payload`]) and a body into a stream of
//! [`ProviderEvent`]s ([`Provider::send`]). The two steps are separate because extensions may rewrite the body in between
//! (`before_provider_request`).
//!
//! Invariants of a stream: any number of [`ProviderEvent::Retrying`] come first, then one [`ProviderEvent::Response`] and
//! [`ProviderEvent::Begun`]; the last item is [`ProviderEvent::Done`] or an error. Text in deltas is well formed (halves of
//! surrogate pairs are joined first). **Dropping the stream drops the connection at once.** Cancelling the token ends it with
//! [`ErrorKind::Cancelled`].
//!
//! | module | protocol |
//! |---|---|
//! | [`script`] | JSON lines in a file; no network |
//! | [`openai`] | chat completions, any compatible endpoint |
//! | [`responses`] | the Responses API of OpenAI |
//! | [`anthropic`] | the Messages API |
//! | [`google`] | the Gemini API |
//! | `adapt` | no protocol; adapts the conversation to one model |
//! | [`http`] | requests, retries and limits, shared by all clients |
//! | [`proxy`] | choice of the proxy |
//! | `error_messages` | messages of rejected requests |
//! | `connection_errors` | explanations of failed connections and incomplete replies |
//! | `tunnel_status` | the status with which a proxy refuses a connection |
//! | [`sse`] | server-sent events with limits |
//! | [`surrogates`] | joins halves of surrogate pairs |

pub mod adapt;
pub mod anthropic;
mod connection_errors;
mod error_messages;
pub mod google;
pub mod http;
mod model;
pub mod openai;
pub mod proxy;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod request_tests;
pub mod responses;
pub mod script;
pub mod sse;
pub mod surrogates;
mod tunnel_status;
mod unopened_model;

pub use adapt::Origin;
pub use error_messages::one_line;
pub use model::{Model, THINKING_LEVELS};
pub use unopened_model::UnopenedModel;

use crate::message::{Block, Content, Message, StopReason, Usage};
use crate::tokens;
use async_stream::stream;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use pijs_environment::Ambient;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A source of replies.
pub trait Provider: Send + Sync {
    /// Returns the model.
    fn model(&self) -> &Model;
    /// Returns the body of a request in the wire format.
    fn payload(&self, request: &Request) -> Value;
    /// Returns the request headers that extensions may see and change. No key is among them.
    fn headers(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// Returns whether requests can be sent; `false` for a model that is not opened yet.
    fn is_open(&self) -> bool {
        true
    }
    /// Returns whether the body is created during [`Provider::send`], which then passes it to extensions itself.
    fn has_own_payload(&self) -> bool {
        false
    }
    /// Returns whether extensions receive status and headers (`after_provider_response`); pi reports them for all clients except
    /// Google's.
    fn tells_of_response(&self) -> bool {
        true
    }
    /// Sends a body. The request starts when the stream is first polled.
    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream;
}

/// The stream of [`Provider::send`].
pub type ProviderStream = BoxStream<'static, Result<ProviderEvent, ProviderError>>;

/// Body and headers of a request after handlers changed them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The body.
    pub payload: Value,
    /// Changes to [`Provider::headers`]; `None` removes a header. Handlers cannot change keys, which are added last.
    pub headers: BTreeMap<String, Option<String>>,
}

impl From<Value> for Outgoing {
    fn from(payload: Value) -> Self {
        Self { payload, headers: BTreeMap::new() }
    }
}

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// System prompt.
    pub system: String,
    /// The conversation.
    pub messages: Vec<RequestMessage>,
    /// The conversation in the session's form, before repairs for a provider: user messages (including those of extensions and
    /// shell commands), replies and tool results.
    pub conversation: Vec<Message>,
    /// The conversation with the system messages that changed prompt and tools; empty if only `system` and `tools` contain them.
    pub transcript: Vec<Message>,
    /// The available tools.
    pub tools: Vec<ToolDescription>,
    /// Thinking level; `None` means `off`.
    pub thinking: Option<String>,
    /// Token limit of the reply; `None` for the model's limit within its context window.
    pub max_tokens: Option<u64>,
    /// Id of the session, under which a provider caches the start of the conversation.
    pub session: Option<String>,
}

impl Request {
    /// Returns the token limit of the reply; `None` if the model's limit is unknown.
    pub fn room(&self, model: &Model) -> Option<u64> {
        /// Number of tokens that stay unused, because token counts are estimates.
        const SPARE: u64 = 4096;
        let wanted = self.max_tokens.or(model.max_tokens())?;
        let Some(window) = model.context_window() else { return Some(wanted.max(1)) };
        let left = window.saturating_sub(tokens::of_request(self)).saturating_sub(SPARE);
        Some(wanted.min(left.max(1)))
    }
}

/// A message of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestMessage {
    /// A message of the user or of an extension.
    User(Content),
    /// A system message within the conversation. A provider without such messages sends [`marked`] text as a user message.
    System(String),
    /// A reply of a model.
    Assistant {
        /// Content blocks.
        content: Vec<Block>,
        /// The model that produced it.
        origin: Origin,
    },
    /// The result of a tool.
    ToolResult {
        /// Id of the tool call.
        tool_call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// Text and images.
        content: Vec<Block>,
        /// Whether the tool failed.
        is_error: bool,
    },
}

impl RequestMessage {
    /// Creates a user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Block::text(text)].into())
    }

    /// Returns pi's `Message`.
    pub fn to_value(&self) -> Value {
        match self {
            Self::User(content) => json!({"role": "user", "content": content}),
            Self::System(text) => json!({"role": "system", "content": [Block::text(text.clone())]}),
            Self::Assistant { content, .. } => json!({"role": "assistant", "content": content}),
            Self::ToolResult { tool_call_id, tool_name, content, is_error } => json!({
                "role": "toolResult", "toolCallId": tool_call_id, "toolName": tool_name, "content": content, "isError": is_error,
            }),
        }
    }
}

/// Wraps injected system text for a provider that does not accept a system message at this position.
///
/// The mark states that the user did not write the text.
pub fn marked(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// The description of a tool for the model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolDescription {
    /// Name of the tool.
    pub name: String,
    /// Description of its purpose.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// An event of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ProviderEvent {
    /// The request failed and is retried.
    Retrying {
        /// Number of the retry, from 1.
        attempt: u32,
        /// Number of retries after which the request fails.
        max_attempts: u32,
        /// Delay before the retry.
        delay: Duration,
        /// Error of the failed attempt.
        reason: String,
    },
    /// The provider has responded.
    Response {
        /// HTTP status; 200 for a script.
        status: u16,
        /// Header names in lower case.
        headers: BTreeMap<String, String>,
    },
    /// The reply begins. A stream without this event is reported to front ends only when it is complete.
    Begun,
    /// A change of the message outside of its content. It causes no update of its own.
    Note(Note),
    /// A text or thinking block begins, with its initial content.
    Open(Block),
    /// Text. Continues the current text block, or begins one.
    Text(String),
    /// Reasoning. Continues the current thinking block, or begins one.
    Thinking(String),
    /// A piece of a tool call. Calls may interleave. The first piece begins a call; an empty piece is reported for a call that
    /// has begun.
    ToolCall {
        /// Index that distinguishes the calls of one reply.
        index: u32,
        /// Id of the call; set on the first piece.
        id: Option<String>,
        /// Name of the tool; set on the first piece.
        name: Option<String>,
        /// A piece of the arguments' JSON text, possibly empty.
        arguments: String,
    },
    /// The current block and calls are complete; for a reply with interleaved blocks, all blocks are.
    BlockEnd,
    /// A piece that only rules receive, because the reply arrived without deltas.
    RulesOnly(Box<ProviderEvent>),
    /// The reply is complete.
    Done(StopReason),
}

impl ProviderEvent {
    /// Adds an event for a piece, unless the piece is empty.
    fn push(text: String, piece: fn(String) -> Self, out: &mut Vec<Self>) {
        if !text.is_empty() {
            out.push(piece(text));
        }
    }
}

/// A change of a message outside of its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// Text, thinking and calls of this reply interleave. Text continues the single text block, thinking the single thinking
    /// block, and all blocks end with the reply.
    Interleaved,
    /// `arguments` stays empty while a call streams, as with pi's scripted models.
    CallsStayEmpty,
    /// A piece of the signature of the latest thinking block.
    ThinkingSignature(String),
    /// The whole signature of the latest block of a kind.
    Signed(SignedBlock, String),
    /// The signature of a tool call.
    CallSignature {
        /// Index of the call.
        index: u32,
        /// Base64-encoded signature.
        signature: String,
    },
    /// Members of pi's message as reported by the provider: `usage` with its cost, `responseId`.
    Members(Map<String, Value>),
    /// The blank line at the end of the latest thinking block is removed, since no text follows.
    Trimmed,
    /// Token counts so far; they replace an earlier count.
    Usage(Usage),
}

/// Kinds of blocks that [`Note::Signed`] refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignedBlock {
    /// `textSignature`.
    Text,
    /// `thinkingSignature`.
    Thinking,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The key is missing or was rejected: 401, 403. Never retried.
    Auth,
    /// No such model or endpoint: 404.
    NotFound,
    /// The provider rejected the request: other 4xx.
    Rejected,
    /// The rate limit was exceeded: 429.
    RateLimited,
    /// The provider is unavailable: 408, 409, 5xx.
    Unavailable,
    /// The connection failed or broke.
    Network,
    /// No data arrived within the idle timeout.
    Stalled,
    /// The data is not in the wire format.
    Malformed,
    /// The reply exceeds a size limit.
    TooLarge,
    /// The provider reported an error inside the stream.
    Provider,
    /// The script has no line for this request, or cannot be read.
    Script,
    /// The token was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// Returns the error code for machine output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "provider_auth",
            Self::NotFound => "provider_not_found",
            Self::Rejected => "provider_rejected",
            Self::RateLimited => "provider_rate_limited",
            Self::Unavailable => "provider_unavailable",
            Self::Network => "provider_network",
            Self::Stalled => "provider_stalled",
            Self::Malformed => "provider_malformed",
            Self::TooLarge => "provider_too_large",
            Self::Provider => "provider_error",
            Self::Script => "provider_script",
            Self::Cancelled => "provider_cancelled",
        }
    }
}

/// The failure of a reply: its cause, the affected model or address, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderError {
    kind: ErrorKind,
    message: String,
    help: Option<String>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    is_final: bool,
}

impl ProviderError {
    /// Creates an error with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None, status: None, retry_after: None, is_final: false }
    }

    /// Creates the error of a stream that ended without a stop reason.
    pub fn cut_short(said: &str) -> Self {
        Self::new(ErrorKind::Network, said)
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds the delay that the provider asked for.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Returns the delay that the provider asked for, limited to the maximum.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Marks the error as final: it is not retried automatically, whatever its kind.
    #[must_use]
    pub fn and_final(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// Returns whether the request must not be retried automatically.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Maps message and help with `change`.
    fn reworded(mut self, change: impl Fn(&str) -> String) -> Self {
        self.message = change(&self.message);
        self.help = self.help.as_deref().map(change);
        self
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the HTTP status, if one was received.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns the message in the wording that extensions search for. [`ProviderError::help`] returns the remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the remedy.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProviderError {}

/// Addresses and keys of the built-in providers. The crate never reads the environment: the command line sets `OPENAI_API_KEY`
/// and `ANTHROPIC_API_KEY` here.
#[derive(Clone, Default)]
pub struct ProviderOptions {
    /// Base URL in place of the provider's own, such as `http://127.0.0.1:8080/v1`.
    pub base_url: Option<String>,
    /// Key for `openai/NAME`.
    pub openai_key: Option<String>,
    /// Key for `anthropic/NAME`.
    pub anthropic_key: Option<String>,
    /// Timeouts, size limits and retries.
    pub http: http::HttpOptions,
}

impl fmt::Debug for ProviderOptions {
    /// Omits keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderOptions")
            .field("base_url", &self.base_url)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Opens the provider of `--model`: `script:FILE`, `openai/NAME` or `anthropic/NAME`.
///
/// # Errors
///
/// Fails when the name has another form, when the script cannot be read, or when a key is missing.
pub fn open(model: &str, options: &ProviderOptions, ambient: &Ambient) -> Result<Arc<dyn Provider>, ProviderError> {
    if let Some(file) = model.strip_prefix("script:") {
        return Ok(Arc::new(script::Script::open(&PathBuf::from(file), ambient.clone())?));
    }
    match model.split_once('/') {
        Some(("openai", id)) if !id.is_empty() => Ok(Arc::new(openai::OpenAi::new(id, options, ambient)?)),
        Some(("anthropic", id)) if !id.is_empty() => Ok(Arc::new(anthropic::Anthropic::new(id, options, ambient)?)),
        _ => Err(ProviderError::new(ErrorKind::NotFound, format!("no model {model:?}"))
            .with_help("use script:FILE, openai/NAME or anthropic/NAME")),
    }
}

/// Ends a stream with [`ErrorKind::Cancelled`] when the token is cancelled, after dropping the inner stream.
fn cancellable(inner: ProviderStream, cancel: CancellationToken) -> ProviderStream {
    stream! {
        let mut inner = inner;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    drop(inner);
                    yield Err(ProviderError::new(ErrorKind::Cancelled, "the request was cancelled"));
                    return;
                }
                event = inner.next() => match event {
                    Some(event) => yield event,
                    None => return,
                },
            }
        }
    }
    .boxed()
}
