//! Runs extensions: their lifecycle, registrations, events and streamed verdicts.
//!
//! A [`Host`] contains all extensions of a session. Each package has one realm, reached through [`pijs_realm::Realm`], and one
//! [`pijs_tick::TickLoop`] that decides what the realm runs next. Only the host passes data between realms, and it decides the
//! order: handlers of one event run one after the other in load order.
//!
//! | type | is |
//! |---|---|
//! | [`Host`] | all extensions of a session |
//! | [`Package`] | a compiled package, ready to load |
//! | [`Event`], [`Outcome`] | one event, and the combined answer of its handlers |
//! | [`StreamOutcome`], [`Verdict`] | the decision about one streamed delta |
//! | [`Signal`] | the host's end of an `AbortSignal` |
//! | [`ReadableState`] | session state that extensions read without a hostcall |
//! | [`ExtensionReport`] | an error, strike or restart that no caller waits for |
//!
//! Invariants:
//!
//! * An extension's code runs only inside a turn, and a turn is never entered while another one of the same realm runs; the
//!   requests of a turn are carried out after it.
//! * Every call into a realm is answered exactly once, also when the realm is stopped.
//! * A realm that was stopped is never entered again; a new one takes its place.
//! * Effects go through the [`Dispatcher`](pijs_hostcall::Dispatcher); the host only passes calls to it.
//!
//! The host reads no clock and starts no thread. `examples/embed.rs` shows a whole program.

#![warn(missing_docs)]

mod ahead;
mod answer_order;
mod attribution;
mod builder;
mod call;
mod emission_quota;
mod emit;
mod events;
mod extension;
mod host;
mod load;
mod load_order;
mod message_limits;
mod model_address;
mod options;
mod outcome;
mod package;
mod position;
#[cfg(target_os = "linux")]
mod process;
mod profile;
mod record;
mod registry;
mod reload;
mod report;
mod report_budget;
mod resource_texts;
mod restart;
mod services;
mod signal;
mod source_excerpts;
mod state;
mod stream;
mod stream_handlers;
mod system_role;
mod tool_result;
mod turn;
mod wait_limits;
mod waiter;
mod wakeup;

pub use attribution::{Behind, ModelCallAuthority};
pub use builder::HostBuilder;
pub use emit::Between;
pub use events::Event;
pub use host::{Digests, Host};
pub use message_limits::{ANSWER_BYTES, REGISTRATION_BYTES, RETRY_BYTES};
pub use options::{
    HostOptions, InThread, OpenError, OpenRealm, OpenedRealm, OpeningRealm, VerdictBudget, WaitBudget, Watch, Watchdog,
};
pub use outcome::{
    CallbackOutcome, CommandInfo, CommandOutcome, FlagInfo, Outcome, RegistrationOwner, StreamOutcome, ToolInfo,
    ToolOutcome, Verdict, VerdictTime,
};
pub use package::{EntryReport, ExtensionEntry, LoadAgain, LoadError, LoadReport, Package};
#[cfg(target_os = "linux")]
pub use process::InProcess;
pub use profile::{PiProfile, UnknownProfile};
pub use report::{ExtensionReport, Observer, ReportKind, Reports};
pub use report_budget::ReportBudget;
pub use restart::RestartPolicy;
pub use signal::Signal;
pub use source_excerpts::SourceExcerpts;
pub use state::ReadableState;
pub use system_role::SystemRole;
