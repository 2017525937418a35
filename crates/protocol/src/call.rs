//! Typed hostcalls: an enum for each method, a variant for each op, and the parameters as its fields.
//!
//! [`TypedCall::read`] is the one place that reads parameters. The capability is derived from the enum and the connector matches
//! on it, so the compiler reports an op that one of them does not handle. [`hostcalls!`] declares the enums; names of ops and
//! parameters appear nowhere else. Parameters that the op does not declare are ignored.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@env`] | environment variables |
//! | [`exec`] | programs |
//! | [`fs`] | Node's verbs on files |
//! | [`http`] | requests and connections of the web: `http` and `websocket` |
//! | [`net`] | connections and servers |
//! | [`open_flags`] | the flags of `open` |
//! | [`reader`] | the types of parameters |
//! | [`sqlite`] | databases |
//! | [`timer`] | waiting |

pub mod env;
pub mod exec;
pub mod fs;
pub mod http;
pub mod net;
pub mod open_flags;
pub mod reader;
pub mod sqlite;
pub mod timer;

pub use env::{EnvCall, VariableNames};
pub use exec::{ExecCall, KillSignal, ProgramParams, StdinPipe};
pub use fs::{FileTarget, FsCall};
pub use http::{HeaderPairs, HttpCall, Protocols, WebSocketCall, WebSocketMessage};
pub use net::{NetCall, SocketTarget, TlsOptions};
pub use open_flags::OpenFlags;
pub use reader::{CallData, CallParam, CallReader};
pub use sqlite::{SqlStatement, SqlValue, SqliteCall};
pub use timer::TimerCall;

use crate::HostcallError;
use serde_json::{Map, Value};

/// Declares the ops of one method and their parameters.
///
/// `"copyFile" => CopyFile { from: String, exclusive: bool }` declares an op. A parameter whose name on the wire differs from the
/// field states it: `atime_ms as "atimeMs": f64`. The op `""` has no name.
macro_rules! hostcalls {
    ($(#[$doc:meta])* $name:ident = $method:literal {
        $($(#[$op_doc:meta])* $op:literal => $variant:ident { $($field:ident $(as $key:literal)? : $type:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the table of the vocabulary describes the parameters")]
        pub enum $name { $($(#[$op_doc])* $variant { $($field: $type),* }),* }

        impl $name {
            /// Name of the method.
            pub const METHOD: &'static str = $method;
            /// Names of all ops, in the order of the variants.
            pub const OPS: &'static [&'static str] = &[$($op),*];

            /// Returns the name of the op; empty for the op without a name.
            pub fn op(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $op),* }
            }

            /// Reads the op and its parameters.
            pub fn read(reader: &mut $crate::call::CallReader<'_>) -> Result<Self, $crate::HostcallError> {
                let op = reader.op(Self::OPS.contains(&""))?;
                match op.as_str() {
                    $($op => Ok(Self::$variant {
                        $($field: $crate::call::CallParam::read(reader, $crate::call::key!($field $($key)?))?),*
                    }),)*
                    other => Err(reader.unknown_op(other)),
                }
            }

            /// Describes each op: its name, and its parameters as members of a TypeScript object type.
            pub fn declarations() -> Vec<$crate::call::OpDeclaration> {
                vec![$((
                    $op,
                    vec![$(<$type as $crate::call::CallParam>::declaration($crate::call::key!($field $($key)?))),*],
                )),*]
            }
        }
    };
}

/// Returns the name of a parameter on the wire.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

pub(crate) use {hostcalls, key};

/// A hostcall with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum TypedCall {
    /// A call of `env`.
    Env(EnvCall),
    /// A call of `exec`.
    Exec(ExecCall),
    /// A call of `fs`.
    Fs(FsCall),
    /// A call of `http`.
    Http(HttpCall),
    /// A call of `net`.
    Net(NetCall),
    /// A call of `sqlite`.
    Sqlite(SqliteCall),
    /// A call of `timer`.
    Timer(TimerCall),
    /// A call of `websocket`.
    WebSocket(WebSocketCall),
    /// A method whose connector reads the parameters by itself.
    Untyped,
}

/// An op: its name, and its parameters as members of a TypeScript object type.
pub type OpDeclaration = (&'static str, Vec<String>);

impl TypedCall {
    /// Describes the ops of every typed method, by name.
    pub fn declarations() -> Vec<(&'static str, Vec<OpDeclaration>)> {
        vec![
            (EnvCall::METHOD, EnvCall::declarations()),
            (ExecCall::METHOD, ExecCall::declarations()),
            (FsCall::METHOD, FsCall::declarations()),
            (HttpCall::METHOD, HttpCall::declarations()),
            (NetCall::METHOD, NetCall::declarations()),
            (SqliteCall::METHOD, SqliteCall::declarations()),
            (TimerCall::METHOD, TimerCall::declarations()),
            (WebSocketCall::METHOD, WebSocketCall::declarations()),
        ]
    }

    /// Reads the parameters of a call, and takes the parameters and attachments. For an untyped method both are left unchanged.
    ///
    /// # Errors
    ///
    /// Fails with `invalid_request` (`schema`) for an unknown op, and for a parameter that is missing or of another type.
    pub fn read(
        method: &str,
        params: &mut Map<String, Value>,
        bytes: &mut Vec<Vec<u8>>,
    ) -> Result<Self, HostcallError> {
        let mut reader = || CallReader::new(method, std::mem::take(params), std::mem::take(bytes));
        match method {
            EnvCall::METHOD => EnvCall::read(&mut reader()).map(Self::Env),
            ExecCall::METHOD => ExecCall::read(&mut reader()).map(Self::Exec),
            FsCall::METHOD => FsCall::read(&mut reader()).map(Self::Fs),
            HttpCall::METHOD => HttpCall::read(&mut reader()).map(Self::Http),
            NetCall::METHOD => NetCall::read(&mut reader()).map(Self::Net),
            SqliteCall::METHOD => SqliteCall::read(&mut reader()).map(Self::Sqlite),
            TimerCall::METHOD => TimerCall::read(&mut reader()).map(Self::Timer),
            WebSocketCall::METHOD => WebSocketCall::read(&mut reader()).map(Self::WebSocket),
            _ => Ok(Self::Untyped),
        }
    }
}
