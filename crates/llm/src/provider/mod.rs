//! Models: what a provider is, and the ways to open one.
//!
//! A [`Provider`] turns a [`Request`] into the body of its wire format ([`Provider::payload`]) and a
//! body into a stream of [`ProviderEvent`]s ([`Provider::send`]). The two are apart because
//! extensions may rewrite the body in between (`before_provider_request`).
//!
//! What always holds of a stream: any number of [`ProviderEvent::Retrying`] come first, then one
//! [`ProviderEvent::Response`] and [`ProviderEvent::Begun`]; the last one is [`ProviderEvent::Done`] or an error; after either it ends. Text in deltas is well formed (halves
//! of surrogate pairs are joined first). **Dropping the stream drops the connection at once.**
//! Cancelling the token ends it with [`ErrorKind::Cancelled`].
//!
//! | module | speaks |
//! |---|---|
//! | [`script`] | JSON lines in a file; no network |
//! | [`openai`] | chat completions, any compatible endpoint |
//! | [`responses`] | the Responses API of OpenAI |
//! | [`anthropic`] | the Messages API |
//! | [`google`] | the Gemini API |
//! | `turns` | nothing: the conversation as one model can take it |
//! | [`http`] | what these have in common: sending, back-off, limits |
//! | [`proxy`] | which proxy a request goes through |
//! | `refusal` | errors of servers in words |
//! | [`sse`] | server-sent events with limits |
//! | [`surrogates`] | joining halves of surrogate pairs |

pub mod anthropic;
pub mod google;
pub mod http;
mod model;
pub mod openai;
pub mod proxy;
#[cfg(test)]
mod recorded;
mod refusal;
pub mod responses;
pub mod script;
#[cfg(test)]
mod sent;
pub mod sse;
pub mod surrogates;
pub mod turns;
mod unopened;

pub use model::{Model, THINKING_LEVELS};
pub use refusal::one_line;
pub use turns::Origin;
pub use unopened::Unopened;

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

/// Something that answers requests of the agent.
pub trait Provider: Send + Sync {
    /// What is spoken to.
    fn model(&self) -> &Model;
    /// The body of this request in the provider's wire format.
    fn payload(&self, request: &Request) -> Value;
    /// Headers of a request that extensions may see and change: no key is among them.
    fn headers(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// Whether it can be asked; one that is still to be opened is a name.
    fn is_open(&self) -> bool {
        true
    }
    /// Whether the body is made later, by somebody who asks extensions about it then.
    fn has_own_payload(&self) -> bool {
        false
    }
    /// Whether extensions hear of status and headers of its answer (`after_provider_response`); pi has them from all
    /// clients but Google's.
    fn tells_of_response(&self) -> bool {
        true
    }
    /// Sends a body. Nothing happens before the stream is polled.
    fn send(&self, outgoing: Outgoing, cancel: CancellationToken) -> ProviderStream;
}

/// What [`Provider::send`] returns.
pub type ProviderStream = BoxStream<'static, Result<ProviderEvent, ProviderError>>;

/// What goes over the wire: the body and the headers, as handlers left them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The body.
    pub payload: Value,
    /// Changes to [`Provider::headers`]; `None` takes one away. Keys of the provider cannot be changed:
    /// they are added last.
    pub headers: BTreeMap<String, Option<String>>,
}

impl From<Value> for Outgoing {
    fn from(payload: Value) -> Self {
        Self { payload, headers: BTreeMap::new() }
    }
}

/// What the model is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// System prompt.
    pub system: String,
    /// The conversation.
    pub messages: Vec<RequestMessage>,
    /// The same as the session has it, before anything was left out or repaired for a provider: user messages (also
    /// for what extensions and shell commands said), replies and tool results.
    pub conversation: Vec<Message>,
    /// The same with the system messages that tell prompt and tools, where they were told; empty where these stand in
    /// `system` and `tools` alone.
    pub transcript: Vec<Message>,
    /// What it may call.
    pub tools: Vec<ToolDescription>,
    /// Thinking level; `None` is `off`.
    pub thinking: Option<String>,
    /// Tokens of the reply; `None` is as many as the model writes and its window still takes.
    pub max_tokens: Option<u64>,
    /// Which session asks: requests of one find each other's beginnings in a provider's cache.
    pub session: Option<String>,
}

impl Request {
    /// How many tokens the reply of this model may have; `None` where nobody knows its limit.
    pub fn room(&self, model: &Model) -> Option<u64> {
        /// Estimates are estimates.
        const SPARE: u64 = 4096;
        let wanted = self.max_tokens.or(model.max_tokens())?;
        let Some(window) = model.context_window() else { return Some(wanted.max(1)) };
        let left = window.saturating_sub(tokens::of_request(self)).saturating_sub(SPARE);
        Some(wanted.min(left.max(1)))
    }
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestMessage {
    /// From the person or an extension.
    User(Content),
    /// Injected in the middle of the conversation. A provider without such messages sends
    /// [`marked`] text as a user message.
    System(String),
    /// From a model.
    Assistant {
        /// What it said.
        content: Vec<Block>,
        /// Which model it was.
        origin: Origin,
    },
    /// From a tool.
    ToolResult {
        /// The call it answers.
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
    /// What somebody typed.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Block::text(text)].into())
    }

    /// pi's `Message`.
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

/// The form of injected system text for a provider that takes no system message there.
///
/// The mark tells the model that the person did not type this.
pub fn marked(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// A tool as the model is told about it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolDescription {
    /// Name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// One event of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ProviderEvent {
    /// The request failed and will be sent again.
    Retrying {
        /// 1 for the first retry.
        attempt: u32,
        /// After this many the failure counts.
        max_attempts: u32,
        /// How long is waited.
        delay: Duration,
        /// What went wrong.
        reason: String,
    },
    /// The provider has begun to answer.
    Response {
        /// HTTP status; 200 for a script.
        status: u16,
        /// Header names in lower case.
        headers: BTreeMap<String, String>,
    },
    /// The reply begins. Without it the message is told when it is complete.
    Begun,
    /// What changes the message and is no piece of it: nobody is told of it by itself.
    Note(Note),
    /// A text or thinking block begins, though nothing of it may be known yet; it holds what stands from the start.
    Open(Block),
    /// Prose. Continues the current text block, or begins one.
    Text(String),
    /// Reasoning. Continues the current thinking block, or begins one.
    Thinking(String),
    /// A piece of a tool call. Calls may interleave. A call begins with its first piece; an empty one is told of a call that
    /// has begun.
    ToolCall {
        /// Distinguishes the calls of one reply.
        index: u32,
        /// Set on the first piece.
        id: Option<String>,
        /// Set on the first piece.
        name: Option<String>,
        /// A piece of the arguments' JSON text, possibly empty.
        arguments: String,
    },
    /// What is open is complete: the current block and calls, or all blocks of a reply that takes turns.
    BlockEnd,
    /// The same as the event in it, but a piece of which nobody but rules hears: the reply came without pieces.
    Untold(Box<ProviderEvent>),
    /// The reply is complete.
    Done(StopReason),
}

impl ProviderEvent {
    /// Tells of a piece, unless nothing is in it.
    fn push(text: String, piece: fn(String) -> Self, out: &mut Vec<Self>) {
        if !text.is_empty() {
            out.push(piece(text));
        }
    }
}

/// What a provider adds to a message that is no piece of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// Text, thinking and calls of this reply take turns: text continues the one text block, thinking the one thinking
    /// block, wherever they stand, and all blocks end with the reply.
    TakesTurns,
    /// While a call streams, `arguments` is empty; pi's scripted models do so.
    CallsStayEmpty,
    /// What the provider wants back with the latest thinking block; a further piece of it.
    ThinkingSignature(String),
    /// What the provider wants back with the latest block of this kind, whole.
    Signed(Signs, String),
    /// What the provider wants back with a tool call.
    CallSignature {
        /// Of which call.
        index: u32,
        /// Base64.
        signature: String,
    },
    /// What the provider says of the reply as it stands, as members of pi's message: `usage` with its cost, `responseId`.
    Said(Map<String, Value>),
    /// The blank line at the end of the latest thinking block stands before nothing, and goes.
    Trimmed,
    /// Counts so far; a later one replaces an earlier one.
    Usage(Usage),
}

/// Which blocks [`Note::Signed`] means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signs {
    /// `textSignature`.
    Text,
    /// `thinkingSignature`.
    Thinking,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The key is missing or was refused: 401, 403. Never retried.
    Auth,
    /// No such model or endpoint: 404.
    NotFound,
    /// The provider refused the request: other 4xx.
    Rejected,
    /// 429.
    RateLimited,
    /// 408, 409, 5xx.
    Unavailable,
    /// The connection failed or broke.
    Network,
    /// Nothing arrived for too long.
    Stalled,
    /// What arrived is not the wire format.
    Malformed,
    /// More arrived than is taken.
    TooLarge,
    /// The provider reported an error inside the stream.
    Provider,
    /// The script has no line for this request, or cannot be read.
    Script,
    /// The token was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// Stable code for machine output.
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

/// Why a reply failed: what, on which thing, whose move it is.
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
    /// An error with its sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None, status: None, retry_after: None, is_final: false }
    }

    /// A stream that ended without saying why.
    pub fn cut_short(said: &str) -> Self {
        Self::new(ErrorKind::Network, said)
    }

    /// Adds what to do about it.
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

    /// Adds how long the provider asked to wait.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// How long the provider asked to wait before the next request, already capped.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Says that the request is not to be sent again by itself, whatever the kind of failure.
    #[must_use]
    pub fn and_final(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// Whether the request is not to be sent again by itself.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Replaces its message and its help by those that `change` makes of them.
    fn reworded(mut self, change: impl Fn(&str) -> String) -> Self {
        self.message = change(&self.message);
        self.help = self.help.as_deref().map(change);
        self
    }

    /// What kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// HTTP status, if one was received.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// What went wrong, in the words that extensions look for; what to do about it is [`ProviderError::help`].
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
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

/// Where models are reached and with which keys. The agent never reads the environment: the
/// command line puts `OPENAI_API_KEY` and `ANTHROPIC_API_KEY` in here.
#[derive(Clone, Default)]
pub struct ProviderOptions {
    /// Replaces the provider's own address, `http://127.0.0.1:8080/v1`.
    pub base_url: Option<String>,
    /// Key for `openai/NAME`.
    pub openai_key: Option<String>,
    /// Key for `anthropic/NAME`.
    pub anthropic_key: Option<String>,
    /// Time limits, sizes, retries.
    pub http: http::HttpOptions,
}

impl fmt::Debug for ProviderOptions {
    /// Keys are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderOptions")
            .field("base_url", &self.base_url)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Opens the provider that `--model` names: `script:FILE`, `openai/NAME` or `anthropic/NAME`.
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

/// Ends a stream with [`ErrorKind::Cancelled`] when the token is cancelled, and drops what is
/// behind it before saying so.
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
