//! Performs the effects of allowed hostcalls: files, programs, servers, environment, and calls to the agent and the user
//! interface.
//!
//! Each connector implements [`pijs_hostcall::Connector`]. No connector has authority of its own: [`fs::FsConnector`] reaches
//! files through a [`system::FileSystem`], [`exec::ExecConnector`] runs programs with an environment that is passed in,
//! [`http::HttpConnector`] connects to vetted addresses, and [`ports`] are traits that the agent or an embedder implements. A
//! connector checks the request's permit for everything that it resolves itself: a link, a redirect, a program's name.
//! [`pijs_hostcall::vocabulary`] defines parameters and results.
//!
//! | module | description |
//! |---|---|
//! | [`fs`] | Node's file verbs over directory handles |
//! | [`system`] | the file system itself: the operating system's, or one in memory |
//! | [`exec`] | programs without a shell, stopped with all processes that they started |
//! | [`links`] | symbolic links that extend a protection to their targets |
//! | [`http`] | requests to vetted addresses, redirects checked hop by hop |
//! | [`mod@env`] | environment variables by name |
//! | [`net`] | plain connections and servers on loopback |
//! | [`websocket`] | WebSocket connections |
//! | [`log`] | an extension's own log lines |
//! | [`timer`] | waiting |
//! | [`sqlite`] | SQLite databases; the permit is checked for each file |
//! | [`ports`] | UI, session, tools, events and modules: traits the agent implements |
//!
//! [`Connectors`] collects them for a [`Dispatcher`](pijs_hostcall::Dispatcher).

#![warn(missing_docs)]

pub mod env;
pub mod exec;
pub mod fs;
pub mod http;
pub mod links;
pub mod log;
pub mod net;
pub mod ports;
pub mod sqlite;
pub mod timer;
pub mod websocket;

mod blocking;
mod connection_limits;
mod held_folders;
mod lookups;
mod params;
mod set;

pub use lookups::LOOKUPS;
pub use pijs_environment::files as system;
pub use set::Connectors;
