//! Wire vocabulary of PiJS.
//!
//! Host and realm exchange only the types of this crate: the host delivers one
//! macrotask as a [`Delivery`], the realm answers with a [`Yield`]. Everything an
//! extension asks of the world is a [`HostCall`], answered by [`HostResult`]s. The
//! same types are what a tape records and what `schema/` describes; nothing here
//! executes, reads a clock or knows an engine.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | newtypes for everything that is named by a number or a string |
//! | [`message`] | messages of the protocol, version 1 (`docs/spec/protocol.md`) |
//! | [`number`] | fractions that survive serde's buffering |
//! | [`registration`] | what an extension registers: tools, commands, handlers, flags |
//! | [`hostcall`] | the hostcall ABI and its error taxonomy (`docs/spec/hostcalls.md`) |
//! | [`stream`] | streamed deltas and the verdict on them |
//! | [`wire`] | deliveries and yields: one turn of the realm |
//! | [`manifest`] | `pi.ext.cap.v1`, the capability manifest (`docs/spec/capabilities.md`) |
//! | [`log`] | `pi.ext.log.v1`, log and ledger lines (`docs/spec/hostcalls.md`) |
//! | [`artifact`] | `artifact.json`, what `extc` says about its output |
//! | [`chat_markup`] | markers of chat templates in text of extensions |
//! | [`globs`] | which patterns are compiled at all |
//! | [`guard`] | switches that take a guard away, for the attack suite |

#![warn(missing_docs)]

pub mod artifact;
pub mod canonical;
pub mod chat_markup;
pub mod globs;
pub mod guard;
pub mod hostcall;
pub mod ids;
pub mod log;
pub mod manifest;
pub mod message;
pub mod number;
pub mod registration;
pub mod stream;
pub mod wire;

pub use hostcall::{Capability, Chunk, ErrorCode, HostCall, HostResult, HostcallError, Method};
pub use ids::{CallId, EntryIndex, EventId, ExtensionId, Handle, Seq, TimerId};
pub use message::{Envelope, Message, PROTOCOL_VERSION};
pub use stream::{Injection, InjectionRole, StreamDelta, StreamSource, StreamVerdict};
pub use wire::{Delivery, Now, SyncReply, Termination, Usage, Yield};
