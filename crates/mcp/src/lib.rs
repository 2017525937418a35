//! Connects to servers of the Model Context Protocol (MCP), under the control of the gate.
//!
//! `mcp.json` lists servers as programs or URLs; their tools become tools of the session. This crate has no authority of its own:
//! it starts, writes to and reads from a program by `exec` hostcalls, contacts a remote server by `http` hostcalls, and calls a
//! tool by an `mcp` hostcall. The caller is `mcp:NAME`, or the extension that registered the server, so the gate, grants, ledger
//! and supervisor apply as to extensions.
//!
//! ```text
//! mcp.json -> config -> Servers -> Server -> connection (rmcp) -> stdio or http transport -> Dispatcher -> exec, http
//!                          ^
//!                     McpConnector <- Dispatcher <- hostcall `mcp` of the model's tool call
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`config`] | `mcp.json`: its format, and the merge of the user's and the project's file |
//! | [`values`] | expansion of `${NAME}` and `!command` in `mcp.json` |
//! | [`names`] | tool names for the model: `mcp__SERVER__TOOL` |
//! | [`results`] | conversion of MCP results to content for the model |
//! | [`pins`] | digests of the tool descriptions and program files that the user agreed to |
//! | [`flow`] | limits on the output of a server |
//! | [`needs`] | capabilities that a server needs to start, as grants and as requests |
//! | [`oauth`] | OAuth sign-in to a remote server |
//! | [`servers`] | the servers of a session, and requests to them |
//! | [`server`] | one server: connection states, back-off, quarantine |
//! | [`session_port`] | the interface of the session that servers use |
//! | [`connector`] | the hostcall `mcp` |
//!
//! Invariants: a server that hangs, exceeds limits, exits, states wrong lengths or changes its tools affects only its own
//! connection; a message has at most [`flow::MAX_MESSAGE_BYTES`] bytes and a server at most [`servers::MAX_TOOLS`] tools; a
//! server's annotations (`readOnlyHint`) are shown to users and affect no decision.

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

mod calls;
mod client_features;
mod close_reason;
mod connection;
mod handler;
mod http;
mod http_transport;
mod stdio;

pub use connector::McpConnector;
pub use servers::{Servers, ServersOptions};
