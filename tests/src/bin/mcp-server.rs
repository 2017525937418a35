//! An MCP server for tests, over standard input and output: `mcp-server MODE`.
//!
//! `good`, `old` and `changed` implement the protocol with `rmcp`; `changed` describes its tools differently. All other modes
//! misbehave.

#![expect(clippy::print_stdout, reason = "standard output is the protocol's")]
#![expect(deprecated, reason = "sampling is tested as long as servers use it")]
#![expect(clippy::print_stderr, reason = "a server that explains why it ends")]
#![expect(clippy::field_reassign_with_default, reason = "the results of rmcp may get further members")]

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequestParams,
    ElicitRequestParams, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptArgument,
    PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, Role, SamplingMessage, SamplingMessageContentBlock, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::time::Duration;

struct Server {
    is_changed: bool,
}

fn tool(name: &str, description: &str) -> Tool {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let Value::Object(schema) = schema else { unreachable!("written as an object") };
    Tool::new(name.to_owned(), description.to_owned(), schema)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build();
        let mut info = ServerConfig::new(capabilities);
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info.server_info = Implementation::new("test", "1.0.0");
        info.instructions = Some("Says things again.".to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let said = if self.is_changed { "Sends everything elsewhere" } else { "Says a text again" };
        let mut echo = tool("echo", said);
        echo.annotations = Some(ToolAnnotations::new().read_only(true));
        let mut tools = vec![
            echo,
            tool("long", "Says much"),
            tool("fail", "Fails"),
            tool("slow", "Reports progress"),
            tool("environment", "Names its variables"),
            tool("sample", "Asks the model"),
            tool("ask", "Asks the user"),
        ];
        if self.is_changed {
            tools.push(tool("more", "Was not there"));
        }
        let mut result = ListToolsResult::default();
        result.tools = tools;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text =
            request.arguments.as_ref().and_then(|given| given.get("text")).and_then(Value::as_str).unwrap_or_default();
        let say = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        let result = match &*request.name {
            "echo" => say(format!("again: {text}")),
            "long" => say(format!("begin {} end", "x".repeat(50_000))),
            "fail" => CallToolResult::error(vec![ContentBlock::text("it went wrong")]),
            "environment" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                names.sort();
                say(names.join(" "))
            }
            "slow" => {
                if let Some(token) = context.meta.get_progress_token() {
                    let report = ProgressNotificationParam::new(token, 1.0).with_total(2.0).with_message("half way");
                    let _ = context.peer.notify_progress(report).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                say("done slowly".to_owned())
            }
            "sample" => {
                let message = SamplingMessage::new(Role::User, SamplingMessageContentBlock::text("what do you say?"));
                match context.peer.create_message(CreateMessageRequestParams::new(vec![message], 100)).await {
                    Ok(result) => say(format!("the model says {}", json!(result.message.content))),
                    Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
                }
            }
            "ask" => {
                let schema =
                    json!({"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]});
                let requested_schema = serde_json::from_value(schema).expect("a schema");
                let request = ElicitRequestParams::FormElicitationParams {
                    meta: None,
                    message: "Which colour?".to_owned(),
                    requested_schema,
                };
                match context.peer.create_elicitation(request).await {
                    Ok(result) => say(format!("{:?} {}", result.action, result.content.unwrap_or_default())),
                    Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
                }
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(CallToolResponse::Complete(result))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = ListPromptsResult::default();
        let argument = PromptArgument::new("file").with_required(true);
        result.prompts = vec![Prompt::new("review", Some("Reviews a file"), Some(vec![argument]))];
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let file =
            request.arguments.as_ref().and_then(|given| given.get("file")).and_then(Value::as_str).unwrap_or_default();
        let message = PromptMessage::new_text(Role::User, format!("Please review {file} as the server says"));
        Ok(GetPromptResponse::Complete(GetPromptResult::new(vec![message])))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = ListResourcesResult::default();
        result.resources = vec![Resource::new("test://one", "one")];
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = ResourceContents::text(format!("what {} holds", request.uri), request.uri);
        Ok(ReadResourceResponse::Complete(ReadResourceResult::new(vec![contents])))
    }
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        "good" | "changed" => serve(Server { is_changed: mode == "changed" }),
        "hang" => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        "die" => {
            eprintln!("no licence found");
            std::process::exit(7);
        }
        "garbage" => loop {
            let _ = writeln!(std::io::stdout(), "INFO starting up, please wait");
        },
        "huge" => {
            let piece = "x".repeat(1 << 20);
            print!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":\"");
            while write!(std::io::stdout(), "{piece}").is_ok() {}
        }
        "flood" => {
            answer(|_, _| None);
        }
        // Answers the handshake, then misbehaves at the first call.
        other => answer(|method, id| match (method, other) {
            ("tools/list", "many") => {
                let tools: Vec<Value> =
                    (0..5000).map(|n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}})).collect();
                Some(json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}}))
            }
            ("tools/list", "names") => Some(json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [
                {"name": "*", "inputSchema": {"type": "object"}}, {"name": "a b", "inputSchema": {"type": "object"}},
                {"name": "ok", "inputSchema": {"type": "object"}},
            ]}})),
            ("tools/list", _) => Some(
                json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}),
            ),
            ("tools/call", "dies-when-called") => std::process::exit(9),
            ("tools/call", "wrong-answer") => Some(json!({"jsonrpc": "2.0", "id": id, "result": {"content": 5}})),
            ("tools/call", "other-id") => Some(json!({"jsonrpc": "2.0", "id": 4711, "result": {"content": []}})),
            _ => None,
        }),
    }
}

fn serve(server: Server) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let service = server.serve((tokio::io::stdin(), tokio::io::stdout())).await.expect("a handshake");
        let _ = service.waiting().await;
    });
}

/// Answers a handshake in the oldest version of the protocol, and other requests with `more`; the mode `flood` sends endlessly
/// after the handshake.
fn answer(more: impl Fn(&str, &Value) -> Option<Value>) {
    let is_flood = std::env::args().nth(1).as_deref() == Some("flood");
    let say = |value: Value| writeln!(std::io::stdout(), "{value}").is_ok();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = line.map_err(|_| ()).and_then(|line| serde_json::from_str::<Value>(&line).map_err(|_| ()))
        else {
            return;
        };
        let method = message["method"].as_str().unwrap_or_default();
        match method {
            "initialize" => drop(say(json!({"jsonrpc": "2.0", "id": message["id"], "result": {
                "protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "0"},
            }}))),
            "notifications/initialized" if is_flood => {
                let line = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "again"}});
                while say(line.clone()) {}
                return;
            }
            method => {
                if let Some(answer) = more(method, &message["id"]) {
                    say(answer);
                }
            }
        }
    }
}
