//! Limits how deeply SQL statements are nested.
//!
//! SQLite parses nested statements recursively without a limit, and a stack overflow would crash the process. For a statement,
//! the depth is counted. For a schema, which may come from any database file, the length is limited.

use pijs_protocol::guard;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

/// Maximum depth of brackets: SQLite's own limit for expressions.
const DEEPEST: usize = 1_000;

/// Maximum size in bytes of one statement of a schema.
pub(super) const LONGEST_SCHEMA: i32 = 1 << 20;

/// Returns whether `sql` is nested too deeply for SQLite.
pub(super) fn is_too_deep(sql: &str) -> bool {
    deepest(sql.as_bytes()) > DEEPEST && guard!(SqliteNesting)
}

/// Returns the maximum depth of brackets outside of strings, names and comments.
fn deepest(sql: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut at = 0;
    // Returns the position after the next `end`, or the end of the text.
    let behind = |from: usize, end: &[u8]| {
        let found = sql.get(from..).and_then(|rest| rest.windows(end.len()).position(|window| window == end));
        found.map_or(sql.len(), |found| from + found + end.len())
    };
    while let Some(byte) = sql.get(at) {
        at = match (byte, sql.get(at + 1)) {
            // A doubled quote is treated as the end of one string and the start of another.
            (b'\'' | b'"' | b'`', _) => behind(at + 1, &[*byte]),
            (b'[', _) => behind(at + 1, b"]"),
            (b'-', Some(b'-')) => behind(at + 2, b"\n"),
            (b'/', Some(b'*')) => behind(at + 2, b"*/"),
            (b'(', _) => {
                depth += 1;
                deepest = deepest.max(depth);
                at + 1
            }
            (b')', _) => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            _ => at + 1,
        };
    }
    deepest
}

/// Runs `work` with a statement of `bytes` bytes. For a statement longer than a schema's may be, the limit is raised only after
/// the schema has been read, and statements cannot write to the schema while it is raised.
pub(super) fn with_statement_limit<T>(
    database: &Connection,
    bytes: usize,
    work: impl FnOnce() -> Result<T, rusqlite::Error>,
) -> Result<T, rusqlite::Error> {
    let needed = i32::try_from(bytes).unwrap_or(i32::MAX).min(super::statement::MAX_BYTES);
    if needed <= LONGEST_SCHEMA {
        return work();
    }
    let mut any = database.prepare_cached("SELECT 1 FROM sqlite_schema LIMIT 1")?;
    any.exists([])?;
    drop(any);
    database.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, needed)?;
    let was_defensive = database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true);
    let done = work();
    was_defensive.and_then(|_| database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false))?;
    database.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_SCHEMA)?;
    done
}

#[cfg(test)]
mod tests {
    use super::deepest;

    #[test]
    fn brackets_count_where_they_are_brackets() {
        for (sql, depth) in [
            ("", 0),
            ("SELECT 1", 0),
            ("SELECT (1), ((2))", 2),
            ("((a", 2),
            (")))((", 2),
            ("'((' (", 1),
            ("'it''s ((' (", 1),
            ("\"((\" `((` [((] (", 1),
            ("-- ((\n (", 1),
            ("- - ((", 2),
            ("/* (( */ (", 1),
            ("/ * ((", 2),
            ("/*/ (( */ (", 1),
            ("'((", 0),
            ("/* ((", 0),
            ("-- ((", 0),
            ("[((", 0),
            ("(/", 1),
            ("(-", 1),
        ] {
            assert_eq!(deepest(sql.as_bytes()), depth, "{sql}");
        }
    }
}
