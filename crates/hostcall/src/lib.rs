//! The gate between an extension and the world.
//!
//! Every effect of an extension is a [`HostCall`](pijs_protocol::HostCall). The [`Dispatcher`]
//! takes it through one road: [`derive`] says which capability the call really needs, the
//! [`Gate`] decides, the [`Ledger`] writes down what was decided and how the call ended, and
//! only then does a [`Connector`] do the thing. This crate knows no engine and no operating
//! system: time, waiting, storage, prompts and effects are values passed in.
//!
//! What always holds:
//!
//! * The decision, the hash and the connector see one and the same parsed value.
//! * `call.capability` is compared with the derived one and never used.
//! * A call that began ends exactly once, also when its future is dropped.
//! * Effects outside the realm are in the ledger's sink before they begin.
//! * Nothing is granted by default but what [`Gate`] lists.
//!
//! | module | holds |
//! |---|---|
//! | [`vocabulary`] | every method, op and parameter, in one documented place |
//! | [`mod@derive`] | the pure table from method and params to capability and subject |
//! | [`scope`] | compiled scopes: path globs, hosts, programs, names |
//! | [`places`] | project, package, `.pi` folders, and what is protected inside them |
//! | [`policy`] | modes, grants, deny lists |
//! | [`gate`] | the decision, and the permit a connector re-checks resolved things with |
//! | [`asked`] | what a package asks for, in data and in words |
//! | [`book`] | what people answered, and for which code it holds |
//! | [`variables`] | environment variables that a call gives a program |
//! | [`loss`] | evidence and expected loss, which explain a decision |
//! | [`prompt`] | questions to a person |
//! | [`connector`] | what a connector is given and gives |
//! | [`dispatch`] | quotas, in-flight calls, cancellation, timeouts, streaming |
//! | [`ledger`] | lines, hash chain, redaction, verification |

#![warn(missing_docs)]

pub mod asked;
pub mod book;
pub mod connector;
pub mod derive;
pub mod dispatch;
pub mod gate;
pub mod ledger;
pub mod loss;
pub mod places;
pub mod policy;
pub mod prompt;
pub mod scope;
pub mod variables;
pub mod vocabulary;

mod completion_order;
mod flight;
mod quota;
mod untaken;

pub use connector::{Behind, BoxFuture, Caller, CancelToken, ChunkSink, Connector, During, Output, Profile, Request};
pub use derive::{Access, Required, Subject, derive};
pub use dispatch::{BuildRecord, Dispatcher, DispatcherBuilder};
pub use flight::Called;
pub use gate::{Decision, Gate, GateBuilder, Judgement, MadeFiles, ModelCall, Permit, ReadBy, Reason, Rule, Stamp};
pub use ledger::{Ledger, LedgerOptions, LedgerSink, MemorySink};
pub use loss::{Evidence, ExpectedLoss, Signal};
pub use places::Places;
pub use policy::{Grant, Mode, Policy};
pub use prompt::{Answer, Memory, Prompter, Question, Remembered};
pub use quota::Quotas;
pub use untaken::Held;
