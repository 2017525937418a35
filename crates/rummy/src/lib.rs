//! Runs plugins of rummy on the host of pi's extensions.
//!
//! ```text
//! folders, RUMMY_PLUGIN_* ──▶ stage ──▶ one package ──▶ compiler, consent, gate, sealed realm  (as any extension)
//!                                                            │ command `rummy`: deliveries
//! TurnDriver, client, terminal ──▶ PluginRealm ──────────────┤
//!                                                            │ hostcalls `rummy.entries`, `rummy.db`
//!                                  EntryConnector ◀──────────┘──▶ the entry store
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`PluginSet`] | the plugins of a session, with their paths and order |
//! | [`Staged`] | the package that contains them and the dialect's own modules (`dialect/*.ts`) |
//! | [`ExternalPlugin`] | a plugin of another package, with a separate staged package, realm and grants |
//! | [`PluginRealm`] | the realms that run the plugins, and the deliveries to these realms |
//! | [`EntryConnector`] | the connector to the entry store, for the realm and the host |
//! | [`RummySession`] | the plugins, entries and models of a folder |
//! | [`RunDriver`] | runs: loops, turns, proposals, verdict |
//! | [`RunClient`] | the client that receives the notifications of a run and decides about its proposals |
//! | [`CallPath`] | the origin of a realm's write, which the host sets for each delivery |
//!
//! Invariants: plugins of folders share one realm, one hook tree and one tool registry; a plugin of another package has its own
//! realm, identity and grants; the subscribers of all realms are called in a single order; every effect outside of a realm passes
//! the gate, as for pi's extensions; no argument of a plugin raises the writer of a call.

#![warn(missing_docs)]

mod error;
mod packet;
mod proposals;
mod realm;
mod reply;
mod run;
pub mod server;
mod service;
pub mod session;
pub mod settings;
mod stage;
mod turn;

pub use error::RummyError;
pub use pijs_dialect_rummy::Writer;
pub use pijs_dialect_rummy::rpc::Notification;
pub use pijs_dialect_rummy::run::Mode as RunMode;
pub use proposals::{Decision, Proposal};
pub use realm::{
    ClientEvent, Delivered, Dispatched, Fault, HandlerRefusal, Loaded, PluginRealm, PluginReport, RealmOptions,
    TurnContext,
};
pub use run::{ModelSource, Project, RunClient, RunDriver, RunFlags, RunLimits, RunOutcome, RunRequest};
pub use service::{CallPath, EntryConnector, Ticket};
pub use session::{RummySession, SessionOptions};
pub use stage::{ExternalPlugin, PluginSet, PluginSource, Staged};
