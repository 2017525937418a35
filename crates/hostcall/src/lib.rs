//! Decides, records and dispatches the hostcalls of extensions.
//!
//! Every effect of an extension is a [`HostCall`](pijs_protocol::HostCall). The [`Dispatcher`] takes it through one path:
//! [`ParsedCall`] parses its parameters and derives the capability that it needs, the [`Gate`] decides, the [`Ledger`] records
//! the decision and the end of the call, and a [`Connector`] performs it in between. This crate depends on no engine and no
//! operating system: time, waiting, storage, prompts and effects are values passed in.
//!
//! Invariants:
//!
//! * The decision and the connector use the same parsed value, which is read once from the hashed parameters.
//! * `call.capability` is only compared with the derived capability.
//! * A call that began ends exactly once, even if its future is dropped.
//! * Effects outside the realm are in the ledger's sink before they begin.
//! * By default only the capabilities that [`Gate`] lists are granted.
//!
//! | module | contents |
//! |---|---|
//! | [`vocabulary`] | every method, op and parameter |
//! | [`caller`], [`subject`] | the caller of a call; the capability that it needs, and its subject |
//! | [`mod@derive`] | from method and params to capability and subject |
//! | [`scope`] | compiled scopes: path globs, hosts, programs, names |
//! | [`places`] | project, package, `.pi` folders, and the protected paths in them |
//! | [`policy`] | modes, grants, deny lists |
//! | [`gate`], [`decision`] | the gate, and the permit that decides about resolved subjects; decisions |
//! | [`requests`] | the capabilities that a package requests, as data and as text |
//! | [`grant_store`] | the user's answers, and the code they apply to |
//! | [`variables`] | environment variables of programs |
//! | [`risk`] | evidence and expected loss, which explain a decision |
//! | [`prompt`] | permission prompts |
//! | [`spilled`] | long results of tools, kept where no extension reads them |
//! | [`connector`] | the interface of connectors |
//! | [`dispatch`] | quotas, in-flight calls, cancellation, timeouts, streaming |
//! | [`ledger`] | lines, hash chain, redaction, verification |

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod caller;
pub mod connector;
pub mod decision;
pub mod derive;
pub mod dispatch;
pub mod gate;
pub mod grant_store;
pub mod ledger;
pub mod places;
pub mod policy;
pub mod prompt;
pub mod requests;
pub mod risk;
pub mod scope;
pub mod spilled;
pub mod subject;
pub mod variables;
pub mod vocabulary;

mod backpressure;
mod completion_order;
mod in_flight;
mod output;
mod quota;
mod task;
mod traced;

pub use backpressure::ResultPermit;
pub use caller::{Caller, During, Profile};
pub use connector::{Connector, Request};
pub use decision::{Decision, Reason, Rule};
pub use derive::ParsedCall;
pub use dispatch::{BuildRecord, Dispatcher, DispatcherBuilder, ReadCall};
pub use gate::{CommandLimits, Gate, GateBuilder, Judgement, MadeFiles, ModelCall, Permit, ReadBy, Stamp};
pub use in_flight::{ChunkSink, StartedCall};
pub use ledger::{Ledger, LedgerOptions, LedgerSink, MemorySink};
pub use output::Output;
pub use places::Places;
pub use policy::{Grant, Mode, Policy};
pub use prompt::{Answer, AnswerExtent, AnswerStore, Prompter, Question, Remembered};
pub use quota::Quotas;
pub use risk::{Evidence, ExpectedLoss, Signal};
pub use subject::{Access, Required, Subject};
pub use task::{BoxFuture, CancelToken};
