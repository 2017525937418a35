//! Ids. Each kind of number is issued by one counter, so that ids are stable under replay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::fmt;

/// Position in the total order of one realm's loop.
///
/// Every enqueued macrotask and every timer gets the next number (invariant I5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// A timer of one realm, issued in the order of `setTimeout` calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TimerId(pub u32);

/// A function that stays in its realm: a handler, a tool's `execute`, a callback.
///
/// Handles are issued in registration order and are never reused during a realm's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Handle(pub u32);

/// An extension entry of a package: its index in the manifest's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EntryIndex(pub u32);

/// Defines a text id that is cheap to clone: short text is stored inline, longer text is shared.
macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(transparent)]
        pub struct $name(#[schemars(with = "String")] SmolStr);

        impl $name {
            /// Wraps a string without validation.
            pub fn new(id: impl Into<SmolStr>) -> Self {
                Self(id.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id.into())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                *self.0 == *text
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                *self.0 == **text
            }
        }
    };
}
pub(crate) use string_id;

string_id! {
    /// A package or a loose extension file: the unit of one realm and one set of grants.
    ///
    /// `npm:NAME`, `git:HOST/PATH`, or `path:CANONICAL_PATH`. An MCP server makes hostcalls under `mcp:NAME`.
    ExtensionId
}

impl ExtensionId {
    /// Beginning of the ids of MCP servers.
    pub const OF_SERVERS: &str = "mcp:";

    /// Returns whether this is the id of an MCP server.
    pub fn is_server(&self) -> bool {
        self.0.starts_with(Self::OF_SERVERS)
    }
}

string_id! {
    /// Correlates a `host_call` with its `host_result`s: `host-1`, `host-2`, ... per realm.
    CallId
}
string_id! {
    /// One delivery of one event to one handler: `evt-1`, `evt-2`, ... per session.
    EventId
}
