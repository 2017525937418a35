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
//! | [`PluginSet`] | the plugins of a session: where they were found, in which order |
//! | [`Staged`] | one package made of them, with the dialect's own modules (`dialect/*.ts`) |
//! | [`ExternalPlugin`] | a plugin of another package, which has a package, a realm and grants of its own |
//! | [`PluginRealm`] | the realms that run them, and what can be delivered to them |
//! | [`EntryConnector`] | the connector that lends the entry store to the realm, and to the host |
//! | [`RummySession`] | the plugins, entries and models of a folder |
//! | [`RunDriver`] | runs: loops, turns, proposals, verdict |
//! | [`RunClient`] | who is told of a run, and decides about its proposals |
//! | [`CallPath`] | on whose behalf the realm writes; the host decides it for each delivery |
//!
//! The guarantees: plugins of folders share one realm, one hook tree and one tool registry; a plugin of another package has a
//! realm, an identity and grants of its own; subscribers of all realms are called in one order; whatever they do outside of
//! their realm passes the gate that pi's extensions pass; no argument of theirs raises the writer that a call counts as.

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
