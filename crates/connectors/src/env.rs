//! Serves environment variables by name.
//!
//! The host reads the values when it starts. If the gate allows only some of the requested names, the other variables appear
//! unset; if it allows none of them, the call is denied.

use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::call::{EnvCall, VariableNames};
use pijs_protocol::{HostcallError, TypedCall};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Serves the `env.get` method.
#[derive(Debug, Clone)]
pub struct EnvConnector {
    variables: BTreeMap<String, String>,
}

impl EnvConnector {
    /// Creates a connector that serves these variables.
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self { variables }
    }
}

impl Connector for EnvConnector {
    fn call(&self, request: Request, _sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let answer = self.call_sync(&request);
        Box::pin(std::future::ready(answer))
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let TypedCall::Env(EnvCall::Get { names: VariableNames(names) }) = &request.call else {
            return Err(request.misdirected());
        };
        let mut values = Map::new();
        for name in names {
            if let (Ok(()), Some(value)) = (request.permit.env(name), self.variables.get(name)) {
                values.insert(name.clone(), Value::from(value.as_str()));
            }
        }
        Ok(Output::new(serde_json::json!({ "values": values })))
    }
}
