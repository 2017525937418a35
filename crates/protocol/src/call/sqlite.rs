//! `sqlite`: databases.

use super::{CallParam, CallReader, hostcalls};
use crate::HostcallError;
use crate::hostcall::bytes_index;
use serde_json::Value;
use std::sync::Arc;

hostcalls! {
    /// A call of `sqlite`. All ops except `open` refer to an open database.
    SqliteCall = "sqlite" {
        /// Runs a statement and returns all rows.
        "all" => All { query: SqlStatement },
        /// Closes a database.
        "close" => Close { db: u64 },
        /// Runs any number of statements without values.
        "exec" => Exec { db: u64, sql: String },
        /// Runs a statement and returns the first row.
        "get" => Get { query: SqlStatement },
        /// Opens a database; `:memory:` opens a new one in memory.
        "open" => Open {
            path: String, read_only as "readOnly": bool, timeout: Option<u64>, no_foreign_keys as "noForeignKeys": bool,
        },
        /// Describes the columns and parameters of a statement.
        "prepare" => Prepare { db: u64, sql: String },
        /// Runs a statement and returns the number of changes.
        "run" => Run { query: SqlStatement },
    }
}

/// A statement and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlStatement {
    /// Id of the database.
    pub db: u64,
    /// SQL text of the statement.
    pub sql: String,
    /// Values by position.
    pub values: Vec<SqlValue>,
    /// Values by name.
    pub named: Vec<(String, SqlValue)>,
}

impl CallParam for SqlStatement {
    fn read(reader: &mut CallReader<'_>, _: &str) -> Result<Self, HostcallError> {
        let (db, sql) = (CallParam::read(reader, "db")?, CallParam::read(reader, "sql")?);
        let (values, named) = (reader.take_present("values"), reader.take_present("named"));
        let value = |value| SqlValue::read(reader, value);
        let values = match values {
            None => Vec::new(),
            Some(Value::Array(values)) => values.into_iter().map(value).collect::<Result<_, _>>()?,
            Some(_) => return Err(reader.wrong("values", "an array")),
        };
        let named = match named {
            None => Vec::new(),
            Some(Value::Object(named)) => {
                named.into_iter().map(|(name, item)| Ok((name, value(item)?))).collect::<Result<_, HostcallError>>()?
            }
            Some(_) => return Err(reader.wrong("named", "an object")),
        };
        Ok(Self { db, sql, values, named })
    }

    fn declaration(_: &str) -> String {
        "db: number; sql: string; values?: unknown[] | null | undefined; named?: Record<string, unknown> | null | undefined"
            .to_owned()
    }
}

/// A value of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// SQL's NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A number with a fraction, or beyond the range of integers.
    Real(f64),
    /// A text.
    Text(String),
    /// A blob.
    Blob(Arc<Vec<u8>>),
}

impl SqlValue {
    fn read(reader: &CallReader<'_>, value: Value) -> Result<Self, HostcallError> {
        let wrong = || reader.invalid("a value is not null, a number, a text or bytes");
        Ok(match value {
            Value::Null => Self::Null,
            Value::String(text) => Self::Text(text),
            Value::Bool(flag) => Self::Integer(i64::from(flag)),
            Value::Number(number) => {
                number.as_i64().map_or_else(|| number.as_f64().map_or(Self::Null, Self::Real), Self::Integer)
            }
            Value::Object(_) if bytes_index(&value).is_some() => {
                bytes_index(&value).and_then(|index| reader.attachment(index)).map(Self::Blob).ok_or_else(wrong)?
            }
            Value::Object(members) => {
                let text = members.get("$int").and_then(Value::as_str).ok_or_else(wrong)?;
                Self::Integer(text.parse().map_err(|_| wrong())?)
            }
            Value::Array(_) => return Err(wrong()),
        })
    }
}
