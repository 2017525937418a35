//! Opens a database: registers functions, runs migrations, and checks the content.

use super::{Options, Store, timestamp};
use crate::error::StoreError;
use crate::pattern::{Pattern, PatternError};
use crate::text;
use crate::waiting::Waiters;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The migrations of the schema; each one upgrades from the version before it. Released migrations are never edited.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];
/// SQLite's application id, which marks a database of this crate: the letters `rumy`.
const APPLICATION_ID: i64 = 0x7275_6d79;

impl Store {
    /// Opens the database at a path, and creates it if it is missing.
    ///
    /// Fails for a database of another program, for one of a newer version, and for a damaged one; the database is not changed
    /// then.
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        let connection = Connection::open(path)?;
        // Another process keeps the lock for the duration of one verb.
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Self::prepare(connection, options, &path.display().to_string())
    }

    /// Creates a database in memory.
    pub fn in_memory(options: Options) -> Result<Self, StoreError> {
        Self::prepare(Connection::open_in_memory()?, options, "the database in memory")
    }

    fn prepare(mut connection: Connection, options: Options, name: &str) -> Result<Self, StoreError> {
        connection.set_prepared_statement_cache_capacity(256);
        register_functions(&connection, options.token_divisor)?;
        let pragma = |pragma: &str| connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
        let version = pragma("user_version")?;
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        if version > known {
            return Err(StoreError::Unusable(format!(
                "{name} has version {version}, this program knows {known}: use the program that wrote it, or another file"
            )));
        }
        let objects: i64 = connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if objects > 0 && pragma("application_id")? != APPLICATION_ID {
            return Err(StoreError::Unusable(format!("{name} is a database of another program: name another file")));
        }
        let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict != "ok" {
            return Err(StoreError::Unusable(format!(
                "{name} is damaged ({verdict}): restore it from a copy, or name another file"
            )));
        }
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = ON;
             PRAGMA recursive_triggers = OFF; PRAGMA cache_size = -8192;",
        )?;
        for (step, sql) in MIGRATIONS.iter().enumerate().skip(usize::try_from(version).unwrap_or(0)) {
            let transaction = connection.transaction()?;
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "user_version", i64::try_from(step + 1).unwrap_or(i64::MAX))?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.commit()?;
        }
        let mut store = Self {
            connection,
            options,
            now: timestamp(0),
            rules: BTreeMap::new(),
            audit: None,
            caller: None,
            waiters: Waiters::default(),
            changes: Vec::new(),
            woken: Vec::new(),
            recorded: BTreeSet::new(),
        };
        store.seed_schemes()?;
        Ok(store)
    }
}

/// Registers the functions that the schema and statements use, which are rummy's own: `schemeOf`, `countTokens`, `slugify`,
/// `hedmatch`, `hedsearch`, `hedreplace`. All are deterministic, as a generated column requires.
pub fn register_functions(connection: &Connection, token_divisor: u32) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("schemeOf", 1, flags, |context| {
        Ok(context.get_raw(0).as_str_or_null()?.and_then(text::scheme_of).map(str::to_owned))
    })?;
    connection.create_scalar_function("countTokens", 1, flags, move |context| {
        Ok(context.get_raw(0).as_str_or_null()?.map_or(0, |body| text::count_tokens(body, token_divisor)))
    })?;
    connection.create_scalar_function("slugify", 1, flags, |context| {
        Ok(context.get_raw(0).as_str_or_null()?.map_or_else(String::new, text::slugify))
    })?;
    connection.create_scalar_function("hedmatch", 2, flags, |context| {
        let Some(text) = context.get_raw(1).as_str_or_null()? else { return Ok(false) };
        pattern_of(context)?.matches(text).map_err(failed)
    })?;
    connection.create_scalar_function("hedsearch", 2, flags, |context| {
        let Some(text) = context.get_raw(1).as_str_or_null()? else { return Ok(false) };
        Ok(pattern_of(context)?.search(text).map_err(failed)?.is_some())
    })?;
    connection.create_scalar_function("hedreplace", 3, flags, |context| {
        let Some(text) = context.get_raw(2).as_str_or_null()? else { return Ok(None) };
        let replacement = context.get_raw(1).as_str_or_null()?.unwrap_or_default();
        pattern_of(context)?.replace(text, replacement).map_err(failed)
    })
}

/// Returns the pattern in the first argument of an SQL function; it is compiled once per statement.
fn pattern_of(context: &Context<'_>) -> rusqlite::Result<Arc<Pattern>> {
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    context.get_or_create_aux(0, |value| -> Result<Pattern, Boxed> { Ok(Pattern::parse(value.as_str()?)?) })
}

fn failed(error: PatternError) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(error))
}
