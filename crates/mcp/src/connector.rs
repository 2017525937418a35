//! Serves the hostcall `mcp`.

use crate::servers::Servers;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::HostcallError;
use serde_json::{Map, Value, json};

/// Serves the method `mcp` by forwarding allowed calls to servers.
pub struct McpConnector(Servers);

impl McpConnector {
    /// Creates a connector for the servers of a session.
    pub fn new(servers: Servers) -> Self {
        Self(servers)
    }
}

fn text<'a>(request: &'a Request, key: &str) -> Result<&'a str, HostcallError> {
    let found = request.params.get(key).and_then(Value::as_str);
    found.ok_or_else(|| HostcallError::invalid("schema", format!("mcp: `{key}` is not a string")))
}

fn arguments(request: &Request) -> Result<Option<Map<String, Value>>, HostcallError> {
    match request.params.get("arguments") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members.clone())),
        Some(_) => Err(HostcallError::invalid("schema", "mcp: `arguments` is not an object")),
    }
}

impl Connector for McpConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let servers = self.0.clone();
        Box::pin(async move {
            let target = text(&request, "target")?;
            if !servers.serves(target, request.caller.extension()) {
                let problem =
                    format!("mcp: no server of this caller has the target {target:?}; pi mcp list shows all servers");
                return Err(HostcallError::invalid("unknown_tool", problem));
            }
            let cursor = || request.params.get("cursor").and_then(Value::as_str).map(str::to_owned);
            let value = match text(&request, "op")? {
                "call" => {
                    let progress = Box::new(move |progress: f64, total: Option<f64>, message: Option<String>| {
                        let mut report = json!({ "progress": progress });
                        if let Some(total) = total {
                            report["total"] = json!(total);
                        }
                        if let Some(message) = message {
                            report["message"] = json!(message);
                        }
                        // The caller may have stopped waiting.
                        let _ = sink.send(Output::new(report));
                    });
                    servers.call(target, arguments(&request)?, progress).await
                }
                "prompt" => servers.prompt(target, text(&request, "name")?, arguments(&request)?).await,
                "list_resources" => servers.list_resources(target, false, cursor()).await,
                "list_resource_templates" => servers.list_resources(target, true, cursor()).await,
                "read_resource" => servers.read_resource(target, text(&request, "uri")?).await,
                op => Err(HostcallError::invalid("schema", format!("mcp: there is no operation {op:?}"))),
            };
            value.map(Output::new)
        })
    }
}
