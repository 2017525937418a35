//! Performs the effects of allowed hostcalls: files, programs, servers, environment, and calls to the agent and the user
//! interface.
//!
//! Each connector implements [`pijs_hostcall::Connector`]. None has authority of its own: [`fs::FsConnector`] reaches files
//! through a [`system::FileSystem`], [`exec::ExecConnector`] runs programs with an environment it is given,
//! [`http::HttpConnector`] connects to vetted addresses, and [`ports`] are traits that the agent or an embedder implements. A
//! connector asks the request's permit about everything that it resolves further: a link, a redirect, a program's name.
//! Parameters and results are those of [`pijs_hostcall::vocabulary`].
//!
//! | module | holds |
//! |---|---|
//! | [`fs`] | Node's file verbs over directory handles |
//! | [`system`] | the file system itself: the operating system's, or one in memory |
//! | [`exec`] | programs without a shell, killed with everything they started |
//! | [`http`] | requests to vetted addresses, redirects checked hop by hop |
//! | [`mod@env`] | environment variables by name |
//! | [`net`] | plain connections and servers on loopback |
//! | [`websocket`] | connections of the web |
//! | [`log`] | an extension's own log lines |
//! | [`timer`] | waiting |
//! | [`sqlite`] | SQLite databases, files decided one by one |
//! | [`ports`] | UI, session, tools, events and modules: traits the agent implements |
//!
//! [`Connectors`] puts them together for a [`Dispatcher`](pijs_hostcall::Dispatcher).

#![warn(missing_docs)]

pub mod env;
pub mod exec;
pub mod fs;
pub mod http;
pub mod log;
pub mod net;
pub mod ports;
pub mod sqlite;
pub mod timer;
pub mod websocket;

mod blocking;
mod connection_limits;
mod lookups;
mod params;
mod set;

pub use lookups::LOOKUPS;
pub use pijs_environment::files as system;
pub use set::Connectors;
