//! A connection to one server: handshake, lists and requests. Dropping it closes the connection.

use crate::close_reason::CloseReason;
use crate::handler::{Handler, Progress};
use crate::names;
use crate::stdio::Program;
use pijs_hostcall::prompt::shown;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, CancelledNotification, CancelledNotificationParam, ClientRequest,
    GetPromptRequestParams, GetPromptResult, PaginatedRequestParams, Prompt, ReadResourceRequestParams,
    ReadResourceResult, Request, RequestOptionalParam, ServerResult, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::{RoleClient, ServiceError, ServiceExt};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// Maximum number of tools of one server.
pub const MAX_TOOLS: usize = 512;
/// Maximum number of prompts of one server.
pub const MAX_PROMPTS: usize = 256;
/// Maximum number of pages of a list that are fetched.
const MAX_PAGES: usize = 64;
/// Maximum size of a tool's input schema as JSON, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// Total timeout of a request, which progress reports do not extend.
const MAX_TOTAL: Duration = Duration::from_secs(6 * 60 * 60);

/// Failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    /// The server answered with an error. The connection stays open.
    Refused(String),
    /// The server did not answer in time. The connection stays open.
    TimedOut(String),
    /// The connection is closed.
    Disconnected(String),
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(words) | Self::TimedOut(words) | Self::Disconnected(words)) = self;
        f.write_str(words)
    }
}

/// An initialized connection.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Handler>,
    _program: Option<Program>,
    why: CloseReason,
    timeout: Duration,
}

impl Connection {
    /// Performs the handshake. `program` ends with the connection.
    pub(crate) async fn open<T, E, A>(
        transport: T,
        handler: Handler,
        program: Option<Program>,
        (why, timeout): (CloseReason, Duration),
    ) -> Result<Self, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let opened = tokio::time::timeout(timeout, handler.serve(transport)).await;
        let words = match opened {
            Ok(Ok(service)) => return Ok(Self { service, _program: program, why, timeout }),
            Ok(Err(error)) => {
                // The task that sets the reason runs after the pipe has closed.
                tokio::task::yield_now().await;
                why.get().unwrap_or_else(|| format!("the handshake failed: {}", shown(&error.to_string(), 300)))
            }
            Err(_) => {
                why.get().unwrap_or_else(|| format!("no answer to the handshake within {} s", timeout.as_secs_f64()))
            }
        };
        let said = program
            .map(|program| program.stderr.last_lines())
            .filter(|said| !said.is_empty() && !words.contains(said.as_str()));
        Err(said.map_or(words.clone(), |said| format!("{words}; it wrote: {said}")))
    }

    /// Returns the connection with another timeout of requests.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Returns the reason for the end of the connection.
    pub(crate) fn why(&self) -> String {
        self.why.get().unwrap_or_else(|| "the server closed the connection".to_owned())
    }

    /// Returns the protocol version, instructions and capabilities from the handshake.
    pub(crate) fn peer(&self) -> PeerFacts {
        let info = self.service.peer().peer_info();
        let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
        PeerFacts {
            protocol: info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default(),
            instructions: info
                .as_ref()
                .and_then(|info| info.instructions.clone())
                .map(|text| names::visible(&text, 4096)),
            has_tools: capabilities.tools.is_some(),
            has_prompts: capabilities.prompts.is_some(),
            has_resources: capabilities.resources.is_some(),
        }
    }

    fn options(&self) -> PeerRequestOptions {
        PeerRequestOptions::with_timeout(self.timeout).reset_timeout_on_progress().with_max_total_timeout(MAX_TOTAL)
    }

    /// Sends a request and waits for its answer. Dropping the future notifies the server of the cancellation.
    async fn request(
        &self,
        request: ClientRequest,
        progress: Option<Progress>,
    ) -> Result<ServerResult, RequestFailure> {
        let lost = |error: &ServiceError| {
            RequestFailure::Disconnected(self.why.get().unwrap_or_else(|| shown(&error.to_string(), 300)))
        };
        if !self.is_open() {
            return Err(RequestFailure::Disconnected(self.why()));
        }
        let peer = self.service.peer();
        let handle = peer.send_cancellable_request(request, self.options()).await.map_err(|error| lost(&error))?;
        let token = handle.progress_token.clone();
        let registration = progress.map(|progress| self.service.service().register_progress(token, progress));
        let mut cancel = CancelOnDrop { peer: peer.clone(), id: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        cancel.id = None;
        drop(registration);
        match answer {
            Ok(answer) => Ok(answer),
            Err(ServiceError::McpError(error)) => Err(RequestFailure::Refused(format!(
                "the server answered: {}",
                shown(&names::visible(&error.message, 2000).replace('\n', " "), 2000)
            ))),
            Err(ServiceError::Timeout { timeout }) => {
                Err(RequestFailure::TimedOut(format!("no answer within {} s", timeout.as_secs_f64())))
            }
            Err(ServiceError::Cancelled { .. }) => {
                Err(RequestFailure::Refused("the server cancelled the request".to_owned()))
            }
            Err(error) => Err(lost(&error)),
        }
    }

    /// Lists the usable tools in the server's order, and notes about the unusable ones.
    pub(crate) async fn tools(&self) -> Result<(Vec<Tool>, Vec<String>), RequestFailure> {
        let (mut tools, mut notes): (Vec<Tool>, Vec<String>) = Default::default();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListToolsRequest(RequestOptionalParam::with_param(params));
            let ServerResult::ListToolsResult(page) = self.request(request, None).await? else {
                return Err(wrong_result("tools/list"));
            };
            for tool in page.tools {
                if tools.len() >= MAX_TOOLS {
                    notes.push(format!("it has more than {MAX_TOOLS} tools; the rest is left out"));
                    return Ok((tools, notes));
                }
                match check_tool(&tool) {
                    Ok(()) if tools.iter().any(|known| known.name == tool.name) => {}
                    Ok(()) => tools.push(tool),
                    Err(problem) if notes.len() < 8 => {
                        notes.push(format!("its tool {} is left out: {problem}", shown(&tool.name, 80)));
                    }
                    Err(_) => {}
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok((tools, notes));
            }
        }
        notes.push(format!("its list of tools has more than {MAX_PAGES} pages; the rest is left out"));
        Ok((tools, notes))
    }

    /// Lists the usable prompts.
    pub(crate) async fn prompts(&self) -> Result<Vec<Prompt>, RequestFailure> {
        let mut prompts: Vec<Prompt> = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListPromptsRequest(RequestOptionalParam::with_param(params));
            let ServerResult::ListPromptsResult(page) = self.request(request, None).await? else {
                return Err(wrong_result("prompts/list"));
            };
            prompts.extend(page.prompts.into_iter().filter(|prompt| names::is_usable(&prompt.name)));
            prompts.truncate(MAX_PROMPTS);
            cursor = page.next_cursor;
            if cursor.is_none() || prompts.len() == MAX_PROMPTS {
                break;
            }
        }
        Ok(prompts)
    }

    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: Option<Map<String, Value>>,
        progress: Progress,
    ) -> Result<CallToolResult, RequestFailure> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments;
        let request = ClientRequest::CallToolRequest(Request::new(params));
        match self.request(request, Some(progress)).await? {
            ServerResult::CallToolResult(result) => Ok(result),
            _ => Err(wrong_result("tools/call")),
        }
    }

    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: Option<Map<String, Value>>,
    ) -> Result<GetPromptResult, RequestFailure> {
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = arguments;
        match self.request(ClientRequest::GetPromptRequest(Request::new(params)), None).await? {
            ServerResult::GetPromptResult(result) => Ok(result),
            _ => Err(wrong_result("prompts/get")),
        }
    }

    pub(crate) async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, RequestFailure> {
        let request = ClientRequest::ReadResourceRequest(Request::new(ReadResourceRequestParams::new(uri)));
        match self.request(request, None).await? {
            ServerResult::ReadResourceResult(result) => Ok(result),
            _ => Err(wrong_result("resources/read")),
        }
    }

    /// Returns a page of resources or resource templates in the protocol's format.
    pub(crate) async fn list_resources(
        &self,
        templates: bool,
        cursor: Option<String>,
    ) -> Result<Value, RequestFailure> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = match templates {
            true => ClientRequest::ListResourceTemplatesRequest(RequestOptionalParam::with_param(params)),
            false => ClientRequest::ListResourcesRequest(RequestOptionalParam::with_param(params)),
        };
        let page = match self.request(request, None).await? {
            ServerResult::ListResourcesResult(page) if !templates => serde_json::to_value(page),
            ServerResult::ListResourceTemplatesResult(page) if templates => serde_json::to_value(page),
            _ => return Err(wrong_result("resources/list")),
        };
        page.map_err(|error| RequestFailure::Refused(error.to_string()))
    }
}

/// The data of a server from the handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PeerFacts {
    pub(crate) protocol: String,
    pub(crate) instructions: Option<String>,
    pub(crate) has_tools: bool,
    pub(crate) has_prompts: bool,
    pub(crate) has_resources: bool,
}

fn wrong_result(method: &str) -> RequestFailure {
    RequestFailure::Refused(format!("the server answered {method} with the result of another method"))
}

/// Checks whether a tool can be used.
fn check_tool(tool: &Tool) -> Result<(), String> {
    if !names::is_usable(&tool.name) {
        return Err("its name cannot be used; it has blanks, control characters or `*`, or begins with `@`".to_owned());
    }
    let size = serde_json::to_vec(&*tool.input_schema).map_or(usize::MAX, |bytes| bytes.len());
    if size > MAX_SCHEMA_BYTES {
        return Err(format!("its schema has {size} bytes, at most {MAX_SCHEMA_BYTES} are used"));
    }
    match tool.input_schema.get("type").and_then(Value::as_str) {
        Some("object") | None => Ok(()),
        Some(kind) => Err(format!("its arguments are of type {kind:?}, not an object")),
    }
}

/// Sends `notifications/cancelled` when a request is dropped before its answer.
struct CancelOnDrop {
    peer: Peer<RoleClient>,
    id: Option<rmcp::model::RequestId>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), None);
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}
