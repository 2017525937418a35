//! The JSON-RPC 2.0 interface for clients, without its transport: protocol 2.0.0.
//!
//! ```text
//! text ──▶ Incoming ──▶ Connection::call ──▶ Reply::Done ──▶ response
//!                             │
//!                             └──▶ Reply::Work: work for the host (run a loop, call filters, dispatch a tool, stop a run)
//! ```
//!
//! After its handshake, a [`Connection`] belongs to one project and can access only the runs of that project. Every call and its
//! result are logged in the database. The writer of all writes is the client, regardless of the arguments.

mod call;
mod catalogue;

pub use call::{ToolCall, Work};
pub use catalogue::{Call, Notification, Offered, Tool, catalogue};

use crate::error::StoreError;
use crate::store::Store;
use serde_json::{Map, Value, json};

/// Version of the protocol; clients must have the same major version.
pub const PROTOCOL: &str = "2.0.0";
/// The only error code in rummy's protocol.
const INTERNAL: i64 = -32603;

/// A call from a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// Id of the response; `None` for a notification, which has no response.
    pub id: Option<Value>,
    /// The method.
    pub method: String,
    /// The parameters, an object.
    pub params: Map<String, Value>,
}

impl Incoming {
    /// Parses a message.
    ///
    /// Fails with the error response to send.
    pub fn read(text: &str) -> Result<Self, Value> {
        let refuse = error;
        let message: Value = serde_json::from_str(text).map_err(|_| refuse(&Value::Null, "the message is not JSON"))?;
        let id = message.get("id").cloned();
        let of_error = id.clone().unwrap_or_default();
        if message.get("jsonrpc") != Some(&"2.0".into()) {
            return Err(refuse(&of_error, "jsonrpc: must be \"2.0\""));
        }
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return Err(refuse(&of_error, "method is required; call discover for the list"));
        };
        let params = match message.get("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params.clone(),
            Some(_) => return Err(refuse(&of_error, "params: must be an object")),
        };
        Ok(Self { id, method: method.to_owned(), params })
    }
}

/// Returns a response with a result.
pub fn result(id: &Value, value: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": value })
}

/// Returns an error response.
pub fn error(id: &Value, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": INTERNAL, "message": message } })
}

impl Notification {
    /// Returns the notification as a JSON-RPC message.
    pub fn message(&self) -> Value {
        let mut message = serde_json::to_value(self).unwrap_or_default();
        message["jsonrpc"] = "2.0".into();
        message
    }
}

/// The reply to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The response.
    Done(Value),
    /// The response for the client, and work that the host starts.
    Begun(Value, Work),
    /// Work for the host; the result of the work is the response.
    Work(Work),
}

/// The connection of one client.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    project: Option<Project>,
}

/// The project to which a connection belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Id of the project.
    pub id: i64,
    /// Folder of the project.
    pub root: String,
}

impl Connection {
    /// Returns the project that the handshake named.
    pub fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// Performs a call. `now` is the time in milliseconds; runs that a client begins without a name are named after it.
    ///
    /// Also returns the id of the call in the log; after [`Reply::Work`], the caller records the result with
    /// [`Store::log_rpc_end`].
    ///
    /// Fails if the log cannot be written. A refused call is not a failure: the reply contains the error.
    pub fn call(
        &mut self,
        store: &mut Store,
        incoming: &Incoming,
        offered: &Offered,
        now: i64,
    ) -> Result<(i64, Result<Reply, StoreError>), StoreError> {
        store.set_now(now);
        let project_id = self.project.as_ref().map(|project| project.id);
        let rpc_id = incoming.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
        let values = json!({
            "project_id": project_id, "method": incoming.method, "rpc_id": rpc_id, "params": incoming.params,
        });
        let log = store.statement("log_rpc_call", "get", &values)?["id"].as_i64().unwrap_or_default();
        let reply = self.perform(store, incoming, offered, now);
        match &reply {
            Ok(Reply::Done(value) | Reply::Begun(value, _)) => store.log_rpc_end(log, Ok(value))?,
            Ok(Reply::Work(_)) => {}
            Err(error) => store.log_rpc_end(log, Err(&error.to_string()))?,
        }
        Ok((log, reply))
    }
}

impl Store {
    /// Records the result of a call in the log.
    pub fn log_rpc_end(&mut self, log: i64, end: Result<&Value, &str>) -> Result<(), StoreError> {
        match end {
            Ok(value) => self.statement("log_rpc_result", "run", &json!({ "id": log, "result": value.to_string() })),
            Err(error) => self.statement("log_rpc_error", "run", &json!({ "id": log, "error": error })),
        }
        .map(drop)
    }
}

#[cfg(test)]
mod tests;
