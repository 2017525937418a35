//! Defines entries, the unit of state, as a run sees them.

use std::fmt;

macro_rules! words {
    ($(#[$of_type:meta])* $name:ident, $what:literal { $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$of_type])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            /// Lists all values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the value's name in databases and messages.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Parses a name.
            ///
            /// Fails with the list of valid names.
            pub fn parse(word: &str) -> Result<Self, $crate::StoreError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::StoreError::invalid(format!(
                        "{}: unknown value `{word}`; use one of {}", $what, [$($word),+].join(", ")
                    ))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                Self::parse(value.as_str()?).map_err(|error| rusqlite::types::FromSqlError::Other(Box::new(error)))
            }
        }
    };
}
pub(crate) use words;

words! {
    /// The state of an entry in its lifecycle.
    State, "state" {
        /// The entry waits to be accepted or rejected.
        Proposed = "proposed",
        /// Output is being appended to the entry's body.
        Streaming = "streaming",
        /// The entry is complete.
        Resolved = "resolved",
        /// The operation of the entry failed; the outcome contains the reason.
        Failed = "failed",
        /// The user, a client or the host cancelled the entry.
        Cancelled = "cancelled",
    }
}

words! {
    /// Exposure of an entry to the model in its next turn.
    Visibility, "visibility" {
        /// The model sees the whole body.
        Visible = "visible",
        /// The model sees the path, the attributes and a summary.
        Summarized = "summarized",
        /// The model sees nothing; patterns still match the entry.
        Archived = "archived",
    }
}

impl State {
    /// Returns whether the state is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Resolved | Self::Failed | Self::Cancelled)
    }
}

/// The namespace of an entry's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Shared by all runs.
    Global,
    /// Shared by all runs of one project.
    Project(i64),
    /// Belongs to one run and its forks.
    Run(i64),
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => formatter.write_str("global"),
            Self::Project(id) => write!(formatter, "project:{id}"),
            Self::Run(id) => write!(formatter, "run:{id}"),
        }
    }
}

/// An entry as one run sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Id of the run's view. Entries of a run are ordered by it, that is, by their first write.
    pub id: i64,
    /// `scheme://rest`, or the path of a file.
    pub path: String,
    /// The part of the path before `://`; `None` for files.
    pub scheme: Option<String>,
    /// Namespace of the content.
    pub scope: String,
    /// The content of the entry.
    pub body: String,
    /// Attributes, a JSON object as text.
    pub attributes: String,
    /// The state in the lifecycle of the entry.
    pub state: State,
    /// Reason why the entry failed or was cancelled.
    pub outcome: Option<String>,
    /// The part of the entry that the model sees.
    pub visibility: Visibility,
    /// Turn that wrote the entry last.
    pub turn: i64,
    /// Loop that wrote the entry last.
    pub loop_id: Option<i64>,
    /// Number of writes by this run.
    pub write_count: i64,
    /// Digest of the content of a file.
    pub hash: Option<String>,
    /// Estimated number of tokens of the body.
    pub tokens: i64,
}
