//! `http` and `websocket`: requests and connections of the web.

use super::{CallData, CallParam, CallReader, hostcalls};
use crate::HostcallError;
use serde_json::Value;

hostcalls! {
    /// A call of `http`.
    HttpCall = "http" {
        /// Makes a request. With `upload` the body consists of the data that `send` passes under that name.
        "" => Request {
            url: String, method: Option<String>, headers: HeaderPairs, body: Option<CallData>, upload: Option<String>,
            redirect: Option<String>, stream: bool, decode: bool,
        },
        /// Completes the body of a request.
        "finish" => Finish { upload: String },
        /// Returns the addresses of a URL's host.
        "lookup" => Lookup { url: String },
        /// Sends a piece of the body of a request.
        "send" => Send { upload: String, data: CallData },
    }
}

hostcalls! {
    /// A call of `websocket`.
    WebSocketCall = "websocket" {
        /// Closes a connection.
        "close" => Close { socket: String, code: Option<u64>, reason: Option<String> },
        /// Opens a connection and streams its messages.
        "open" => Open { socket: String, url: String, protocols: Protocols, headers: HeaderPairs },
        /// Sends a message: `text`, or `data` if there is no `text`.
        "send" => Send { socket: String, message as "": WebSocketMessage },
    }
}

/// Headers as names and values, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderPairs(pub Vec<(String, String)>);

impl CallParam for HeaderPairs {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let pairs = match reader.take_present(key) {
            None => Some(Vec::new()),
            Some(Value::Object(members)) => {
                members.into_iter().map(|(name, value)| Some((name, text(value)?))).collect()
            }
            Some(Value::Array(pairs)) => pairs.into_iter().map(pair).collect(),
            Some(_) => None,
        };
        pairs
            .map(Self)
            .ok_or_else(|| reader.invalid(&format!("`{key}` is neither an object of strings nor an array of pairs")))
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: Record<string, string> | [string, string][] | null | undefined")
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn pair(value: Value) -> Option<(String, String)> {
    let Value::Array(items) = value else { return None };
    let [name, value] = <[Value; 2]>::try_from(items).ok()?;
    Some((text(name)?, text(value)?))
}

/// Subprotocols that a WebSocket connection offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protocols(pub Vec<String>);

impl CallParam for Protocols {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        match reader.take_present(key) {
            Some(Value::Array(protocols)) => Ok(Self(protocols.into_iter().filter_map(text).collect())),
            _ => Ok(Self::default()),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: string[] | null | undefined")
    }
}

/// A WebSocket message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebSocketMessage {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(CallData),
}

impl CallParam for WebSocketMessage {
    fn read(reader: &mut CallReader<'_>, _: &str) -> Result<Self, HostcallError> {
        match CallParam::read(reader, "text")? {
            Some(text) => Ok(Self::Text(text)),
            None => CallParam::read(reader, "data").map(Self::Binary),
        }
    }

    fn declaration(_: &str) -> String {
        "text?: string | undefined; data?: string | { $bytes: number } | undefined".to_owned()
    }
}
