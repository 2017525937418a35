//! Servers of the Model Context Protocol, behind the gate.
//!
//! A server is a program or an address of `mcp.json`; what it offers becomes tools of the session. Nothing here has authority of its own:
//! a program is started, fed and read by hostcalls `exec`, a server elsewhere is reached by hostcalls `http`, and each use of a tool is a
//! hostcall `mcp`, all of them of the caller `mcp:NAME`, or of the
//! extension that registered the server. So gate, grants, ledger and supervisor are those of extensions.
//!
//! ```text
//! mcp.json -> config -> Servers -> Server -> connection (rmcp) -> stdio or http transport -> Dispatcher -> exec, http
//!                          ^
//!                     McpConnector <- Dispatcher <- hostcall `mcp` of the model's tool call
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | `mcp.json`: what it may say, how the user's and the project's are merged |
//! | [`values`] | `${NAME}` and `!command` in it |
//! | [`names`] | `mcp__SERVER__TOOL` |
//! | [`results`] | what a tool answered, as the model gets it |
//! | [`pins`] | what servers said of their tools when somebody last agreed |
//! | [`flow`] | limits on what a server sends |
//! | [`needs`] | what a server needs to start, as grants and as requests |
//! | [`oauth`] | signing in to a server at an address |
//! | [`servers`] | the servers of a session: which there are, the requests that go to them |
//! | [`server`] | one server: states, back-off, quarantine |
//! | [`session_port`] | the part of a session that servers need |
//! | [`connector`] | the hostcall `mcp` |
//!
//! The guarantees: a server that hangs, floods, dies, lies about lengths or changes its tools ends its own connection and nothing else;
//! a message is at most [`flow::MAX_MESSAGE_BYTES`] long, a server has at most [`servers::MAX_TOOLS`] tools; and what a server says of
//! itself (`readOnlyHint`) is shown to users and decides nothing.

#![warn(missing_docs, clippy::disallowed_methods)]
#![expect(deprecated, reason = "servers of all versions up to 2025-11-25 use roots, sampling and logging")]

pub mod config;
pub mod connector;
pub mod flow;
pub mod names;
pub mod needs;
pub mod oauth;
pub mod pins;
pub mod results;
pub mod server;
pub mod servers;
pub mod session_port;
pub mod values;

mod asks;
mod calls;
mod close_reason;
mod connection;
mod handler;
mod http;
mod http_transport;
mod stdio;

pub use connector::McpConnector;
pub use servers::{Servers, ServersOptions};
