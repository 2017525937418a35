//! Runs statements on one open database within limits, and converts values in both directions.

use super::limit;
use super::nesting::{LONGEST_SCHEMA, is_too_deep, with_statement_limit};
use pijs_hostcall::connector::{bytes_ref, cancelled, deadline};
use pijs_hostcall::{Output, Request};
use pijs_protocol::call::{SqlStatement, SqlValue, SqliteCall};
use pijs_protocol::wire::{MESSAGE_BYTES, MESSAGE_VALUES, Size};
use pijs_protocol::{HostcallError, TypedCall, guard};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use rusqlite::{Connection, Statement};
use serde_json::{Value, json};
use std::time::Duration;

/// Maximum number of rows of one result.
const MAX_ROWS: usize = 200_000;

/// Maximum size in bytes of a text, a blob or a statement.
pub(super) const MAX_BYTES: i32 = 64 << 20;

/// Maximum number of bytes of heap that SQLite may use in this process: pages in use, sorting, values in transit.
const HEAP: i64 = 1 << 30;

/// Number of steps of SQLite's virtual machine between two checks of the deadline.
const STEPS: i32 = 10_000;

/// Runs one operation of a call.
pub(super) fn perform(database: &Connection, request: &Request) -> Result<Output, HostcallError> {
    set_limits(database, request);
    let outcome = perform_bounded(database, request);
    database.progress_handler(0, None::<fn() -> bool>);
    outcome
}

/// Returns the number of bytes that a connection keeps in memory: databases without a file, and temporary tables.
pub(super) fn kept(database: &Connection) -> rusqlite::Result<u64> {
    let mut listed = Vec::new();
    database.pragma_query(None, "database_list", |row| {
        let (name, file): (String, Option<String>) = (row.get(1)?, row.get(2)?);
        listed.extend(file.is_none_or(|file| file.is_empty()).then_some(name));
        Ok(())
    })?;
    listed.iter().try_fold(0, |kept: u64, name| {
        let number = |what| database.pragma_query_value(Some(name.as_str()), what, |row| row.get::<_, u64>(0));
        Ok(kept.saturating_add(number("page_count")?.saturating_mul(number("page_size")?)))
    })
}

fn perform_bounded(database: &Connection, request: &Request) -> Result<Output, HostcallError> {
    let TypedCall::Sqlite(call) = &request.call else { return Err(request.misdirected()) };
    let checked = |sql| match is_too_deep(sql) {
        // SQLite's own error when its parser stack is exhausted.
        true => Err(HostcallError::io("EIO", "sqlite", "parser stack overflow").with("sqlite", 1)),
        false => Ok(()),
    };
    let outcome = match call {
        SqliteCall::Exec { sql, .. } => {
            checked(sql)?;
            let done = with_statement_limit(database, sql.len(), || database.execute_batch(sql));
            done.map(|()| Output::empty()).map_err(StatementError::Sql)
        }
        SqliteCall::Prepare { sql, .. } => {
            checked(sql)?;
            prepare(database, sql)
        }
        SqliteCall::Run { query } => {
            checked(&query.sql)?;
            rows_of(database, query, 0).map(|_| {
                let last = whole_to_json(database.last_insert_rowid());
                Output::new(json!({"changes": database.changes(), "lastInsertRowid": last}))
            })
        }
        SqliteCall::All { query } => {
            checked(&query.sql)?;
            rows_of(database, query, MAX_ROWS)
        }
        SqliteCall::Get { query } => {
            checked(&query.sql)?;
            rows_of(database, query, 1)
        }
        SqliteCall::Open { .. } | SqliteCall::Close { .. } => return Err(request.misdirected()),
    };
    outcome.map_err(|stop| match stop {
        StatementError::Call(error) => error,
        StatementError::Sql(error) => failure(request, &error),
    })
}

/// Stops statements at the deadline, or when the call is cancelled.
fn set_limits(database: &Connection, request: &Request) {
    let limit = limit(request);
    let cancel = request.cancel.clone();
    #[expect(clippy::disallowed_methods, reason = "a deadline of the host; the realm sees no time of it")]
    let started = std::time::Instant::now();
    let stop = move || started.elapsed() >= limit || cancel.is_cancelled();
    database.progress_handler(STEPS, Some(stop));
}

/// Applies the limits of a connection, and removes access to anything but the database.
pub(super) fn configure(database: &Connection, request: &Request) -> rusqlite::Result<()> {
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_BYTES)?;
    let longest = if guard!(SqliteNesting) { LONGEST_SCHEMA } else { MAX_BYTES };
    database.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, longest)?;
    let (timeout_ms, no_foreign_keys) = match &request.call {
        TypedCall::Sqlite(SqliteCall::Open { timeout, no_foreign_keys, .. }) => {
            (timeout.unwrap_or(0), *no_foreign_keys)
        }
        _ => (0, false),
    };
    database.busy_timeout(Duration::from_millis(timeout_ms))?;
    database.pragma_update(None, "temp_store", "MEMORY")?;
    database.pragma_update(None, "mmap_size", 0)?;
    if guard!(SqliteHeap) {
        // A statement can lower the limit, but never raise it.
        database.pragma_update(None, "hard_heap_limit", HEAP)?;
    }
    database.pragma_update(None, "foreign_keys", !no_foreign_keys)?;
    if guard!(SqliteAuthorizer) {
        database.authorizer(Some(authorize));
    }
    Ok(())
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        // `VACUUM` attaches a temporary database without a name.
        AuthAction::Attach { filename: "" | ":memory:" } => Authorization::Allow,
        AuthAction::Attach { .. } => Authorization::Deny,
        // The name of an attached file is missing here if it is not a literal.
        AuthAction::Unknown { .. } if guard!(SqliteAttach) => Authorization::Deny,
        AuthAction::Pragma { pragma_name, pragma_value } => match pragma_name.to_ascii_lowercase().as_str() {
            // These limits apply to every database of the process.
            "hard_heap_limit" | "soft_heap_limit" if pragma_value.is_some() && guard!(SqliteProcess) => {
                Authorization::Deny
            }
            "temp_store_directory" | "data_store_directory" | "lock_proxy_file" | "mmap_size" | "temp_store"
                if pragma_value.is_some() =>
            {
                Authorization::Deny
            }
            _ => Authorization::Allow,
        },
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

/// Error of an operation.
enum StatementError {
    Sql(rusqlite::Error),
    Call(HostcallError),
}

impl From<rusqlite::Error> for StatementError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<HostcallError> for StatementError {
    fn from(error: HostcallError) -> Self {
        Self::Call(error)
    }
}

/// Returns the error for a result that exceeds a limit.
fn too_large(limit: usize, of_what: &str) -> HostcallError {
    HostcallError::io("EFBIG", "sqlite", format!("sqlite: more than {limit} {of_what}; ask for fewer with LIMIT"))
}

fn prepare(database: &Connection, sql: &str) -> Result<Output, StatementError> {
    let statement = with_statement_limit(database, sql.len(), || database.prepare_cached(sql))?;
    let names: Vec<Value> = (1..=statement.parameter_count())
        .map(|index| statement.parameter_name(index).map_or(Value::Null, Value::from))
        .collect();
    Ok(Output::new(json!({
        "columns": columns(&statement),
        "parameters": names,
        "readOnly": statement.readonly(),
        "expanded": statement.expanded_sql(),
    })))
}

fn columns(statement: &Statement<'_>) -> Value {
    let columns = statement.columns();
    columns.iter().map(|column| json!({"name": column.name(), "type": column.decl_type()})).collect()
}

/// Runs a statement with its values; returns at most `rows` rows.
fn rows_of(database: &Connection, query: &SqlStatement, rows: usize) -> Result<Output, StatementError> {
    let mut statement = with_statement_limit(database, query.sql.len(), || database.prepare_cached(&query.sql))?;
    statement.clear_bindings();
    bind(&mut statement, query)?;
    let width = statement.column_count();
    let mut output = Output::new(json!({"columns": columns(&statement)}));
    let (mut list, mut attachments, mut size) = (Vec::new(), Vec::new(), Size::default());
    let mut found = statement.raw_query();
    while let Some(row) = found.next()? {
        if list.len() == rows {
            if rows == MAX_ROWS {
                return Err(too_large(MAX_ROWS, "rows").into());
            }
            // `run` steps through all rows, `get` needs the first.
            if rows == 1 {
                break;
            }
            continue;
        }
        let mut cells = Vec::with_capacity(width);
        for index in 0..width {
            let attached = attachments.len();
            let cell = to_json(row.get_ref(index)?, &mut attachments);
            size.add(&cell);
            size.bytes += attachments[attached..].iter().map(Vec::len).sum::<usize>();
            if size.is_too_large() && guard!(SqliteRows) {
                return Err(too_large(MESSAGE_VALUES, &format!("values, or {MESSAGE_BYTES} bytes of them")).into());
            }
            cells.push(cell);
        }
        size.values += 1;
        list.push(Value::Array(cells));
    }
    drop(found);
    // The statement is cached for the next call, but its values are not.
    statement.clear_bindings();
    if let Value::Object(members) = &mut output.value {
        members.insert("rows".to_owned(), Value::Array(list));
    }
    output.bytes = attachments;
    Ok(output)
}

fn bind(statement: &mut Statement<'_>, query: &SqlStatement) -> Result<(), StatementError> {
    let one = |value: &SqlValue| -> ToSqlOutput<'_> {
        ToSqlOutput::Owned(match value {
            SqlValue::Null => Stored::Null,
            SqlValue::Integer(number) => Stored::Integer(*number),
            SqlValue::Real(number) => Stored::Real(*number),
            SqlValue::Text(text) => Stored::Text(text.clone()),
            SqlValue::Blob(bytes) => Stored::Blob(Vec::clone(bytes)),
        })
    };
    for (name, value) in &query.named {
        let Some(index) = statement.parameter_index(name)? else {
            let message = format!("Unknown named parameter '{name}'");
            return Err(HostcallError::invalid("parameter", message).into());
        };
        statement.raw_bind_parameter(index, one(value))?;
    }
    for (index, value) in query.values.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, one(value))?;
    }
    Ok(())
}

fn to_json(value: ValueRef<'_>, attachments: &mut Vec<Vec<u8>>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => whole_to_json(whole),
        ValueRef::Real(number) => json!({"$real": number}),
        ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            attachments.push(bytes.to_vec());
            bytes_ref(attachments.len() - 1)
        }
    }
}

/// Returns a number, or `{"$int": text}` beyond the integers that JavaScript's numbers represent exactly.
fn whole_to_json(whole: i64) -> Value {
    if whole.unsigned_abs() <= 9_007_199_254_740_991 { Value::from(whole) } else { json!({"$int": whole.to_string()}) }
}

/// Converts an error of SQLite; an interrupted statement becomes a timeout or a cancellation.
fn failure(request: &Request, error: &rusqlite::Error) -> HostcallError {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) {
        return if request.cancel.is_cancelled() {
            cancelled("sqlite")
        } else {
            deadline("sqlite", u64::try_from(limit(request).as_millis()).unwrap_or(u64::MAX))
        };
    }
    convert_error(error)
}

/// Converts an error of SQLite with its own message and code.
pub(super) fn convert_error(error: &rusqlite::Error) -> HostcallError {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(inner, message) => {
            (inner.extended_code, message.clone().unwrap_or_else(|| inner.to_string()))
        }
        rusqlite::Error::SqlInputError { error: inner, msg, .. } => (inner.extended_code, msg.clone()),
        other => (1, other.to_string()),
    };
    HostcallError::io("EIO", "sqlite", message).with("sqlite", code)
}
