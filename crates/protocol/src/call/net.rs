//! `net`: connections and servers.

use super::exec::strings;
use super::{CallData, CallParam, CallReader, hostcalls};
use crate::HostcallError;
use serde_json::Value;

hostcalls! {
    /// A call of `net`. The gate decides `connect` and `listen`; the other ops refer to what they opened.
    NetCall = "net" {
        /// Accepts a connection to a server of the extension.
        "accept" => Accept { socket: String },
        /// Closes a server; its connections stay open.
        "close" => Close { server: String },
        /// Opens a connection and streams the data that arrives. With `protocol: "http"` the connection carries HTTP requests
        /// only.
        "connect" => Connect { socket: String, at as "": SocketTarget, tls: Option<TlsOptions>, protocol: Option<String> },
        /// Ends the extension's direction of a connection.
        "end" => End { socket: String },
        /// Opens a server and streams its connections.
        "listen" => Listen { server: String, at as "": SocketTarget },
        /// Closes a connection that was not accepted.
        "refuse" => Refuse { socket: String },
        /// Writes to a connection.
        "write" => Write { socket: String, data: CallData },
    }
}

/// Address of a connection or of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketTarget {
    /// A socket in the file system.
    Path(String),
    /// Host as the caller wrote it, and port.
    Host(String, u16),
}

impl CallParam for SocketTarget {
    fn read(reader: &mut CallReader<'_>, _: &str) -> Result<Self, HostcallError> {
        if let Some(path) = CallParam::read(reader, "path")? {
            return Ok(Self::Path(path));
        }
        let host = CallParam::read(reader, "host")?;
        let port = Option::<u64>::read(reader, "port").ok().flatten().and_then(|port| u16::try_from(port).ok());
        port.map(|port| Self::Host(host, port)).ok_or_else(|| reader.wrong("port", "a port"))
    }

    fn declaration(_: &str) -> String {
        "path?: string | undefined; host?: string | undefined; port?: number | undefined".to_owned()
    }
}

/// Options of an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// Certificate authorities in PEM; empty for the authorities of the system.
    pub ca: Vec<String>,
    /// Protocols to offer, in order of preference.
    pub alpn: Vec<String>,
    /// Name to verify; absent means the host.
    pub servername: Option<String>,
}

/// Maximum number of certificate authorities, and of offered protocols.
const MAX_TLS_ITEMS: usize = 256;

impl CallParam for Option<TlsOptions> {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let Some(mut tls) = reader.take_present(key) else { return Ok(None) };
        let mut take = |name: &str| tls.get_mut(name).map(Value::take).filter(|value| !value.is_null());
        let servername = match take("servername") {
            Some(Value::String(name)) => Some(name),
            _ => None,
        };
        let mut list = |name: &str| match take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if items.len() <= MAX_TLS_ITEMS => {
                strings(items).ok_or_else(|| reader.invalid(&format!("{key}.{name} has a member that is not a text")))
            }
            Some(_) => Err(reader.invalid(&format!("{key}.{name} is not a list of at most {MAX_TLS_ITEMS} texts"))),
        };
        Ok(Some(TlsOptions { ca: list("ca")?, alpn: list("alpn")?, servername }))
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: {{ ca?: string[]; alpn?: string[]; servername?: string }} | null | undefined")
    }
}
