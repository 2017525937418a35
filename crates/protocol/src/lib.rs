//! Types that host and realm exchange.
//!
//! The host delivers one macrotask as a [`Delivery`], and the realm answers with a [`Yield`]. Every external effect of an
//! extension is a [`HostCall`], answered by [`HostResult`]s. Tapes record these types, and `schema/` describes them; this crate
//! executes nothing, reads no clock and depends on no engine.
//!
//! | module | contents |
//! |---|---|
//! | [`ids`] | newtypes for ids |
//! | [`message`] | messages of the protocol, version 1 (`docs/spec/protocol.md`) |
//! | [`number`] | fractions that survive serde's buffering |
//! | [`registration`] | registrations of an extension: tools, commands, handlers, flags |
//! | [`call`] | typed hostcalls: the ops of each method, and their parameters |
//! | [`hostcall`] | the hostcall ABI and its error taxonomy (`docs/spec/hostcalls.md`) |
//! | [`stream`] | streamed deltas and their verdict |
//! | [`wire`] | deliveries and yields: one turn of the realm |
//! | [`manifest`] | `pi.ext.cap.v1`, the capability manifest (`docs/spec/capabilities.md`) |
//! | [`log`] | `pi.ext.log.v1`, log and ledger lines (`docs/spec/hostcalls.md`) |
//! | [`artifact`] | `artifact.json`, the metadata of an artifact |
//! | [`canonical`] | the canonical form of a call, for its hash |
//! | [`chat_markup`] | markers of chat templates in text of extensions |
//! | [`globs`] | bounds of glob patterns |
//! | [`mod@guard`] | security checks that the attack suite disables |

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

pub mod artifact;
pub mod call;
pub mod canonical;
pub mod characters;
pub mod chat_markup;
pub mod globs;
pub mod grant_commands;
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

pub use call::TypedCall;
pub use hostcall::{Capability, Chunk, ErrorCode, HostCall, HostResult, HostcallError, Method};
pub use ids::{CallId, EntryIndex, EventId, ExtensionId, Handle, Seq, TimerId};
pub use message::{Envelope, Message, PROTOCOL_VERSION};
pub use stream::{Injection, InjectionRole, StreamDelta, StreamSource, StreamVerdict};
pub use wire::{Delivery, Now, SyncReply, Termination, Usage, Yield};
