//! Reads entries, by path or by pattern, and finds unused paths.

use super::{Store, Target};
use crate::entry::Entry;
use crate::error::StoreError;
use crate::pattern::{self, Notation, Pattern};
use crate::text;
use rusqlite::{Params, Row, params};

/// Columns for an [`Entry`], from the view `v` and its content `e`.
const COLUMNS: &str = "v.id, e.path, e.scheme, e.scope, e.body, e.attributes, v.state, v.outcome, v.visibility, v.turn,
    v.loop_id, v.write_count, e.hash";

/// Selects the part of the matching entries that is returned.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Page {
    pub(crate) limit: Option<usize>,
    pub(crate) offset: usize,
    /// Only views with a higher id than this one.
    pub(crate) since: Option<i64>,
    pub(crate) hides_audit: bool,
    /// Leaves out entries that are only recorded.
    pub(crate) hides_recorded: bool,
}

impl Store {
    fn read(&self, row: &Row<'_>) -> rusqlite::Result<Entry> {
        let body: String = row.get(4)?;
        Ok(Entry {
            id: row.get(0)?,
            path: row.get(1)?,
            scheme: row.get(2)?,
            scope: row.get(3)?,
            tokens: text::count_tokens(&body, self.options.token_divisor),
            body,
            attributes: row.get(5)?,
            state: row.get(6)?,
            outcome: row.get(7)?,
            visibility: row.get(8)?,
            turn: row.get(9)?,
            loop_id: row.get(10)?,
            write_count: row.get(11)?,
            hash: row.get(12)?,
        })
    }

    /// Returns the entry at a normalised path.
    pub(super) fn at(&self, run_id: i64, path: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries_where("v.run_id = ?1 AND v.path = ?2", params![run_id, path])?.pop())
    }

    /// Returns the entries that a `WHERE` clause selects, in the order of its `ORDER BY`.
    pub(crate) fn entries_where(&self, tail: &str, values: impl Params) -> Result<Vec<Entry>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM run_views AS v JOIN entries AS e ON e.id = v.entry_id WHERE {tail}");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(values, |row| self.read(row))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the paths of a run's entries that match, in order.
    ///
    /// A literal pattern is normalised like the path of a call. The literal prefix of a glob limits the rows that are read.
    pub(crate) fn matching_paths(&self, target: &Target) -> Result<Vec<String>, StoreError> {
        let compiled = compile_path(&target.path)?;
        let filter =
            target.body_filter.as_deref().filter(|filter| !filter.is_empty()).map(Pattern::parse).transpose()?;
        let prefix = compiled.literal_prefix();
        let mut statement = self.connection.prepare_cached(
            "SELECT path FROM run_views WHERE run_id = ?1 AND path >= ?2 AND path < ?3 ORDER BY path",
        )?;
        let mut rows = statement.query(params![target.run_id, prefix, successor(prefix)])?;
        let mut paths = Vec::new();
        while let Some(row) = rows.next()? {
            let path = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            if compiled.matches(path)? {
                paths.push(path.to_owned());
            }
        }
        drop(rows);
        let Some(filter) = filter else { return Ok(paths) };
        let mut statement = self.connection.prepare_cached(
            "SELECT e.body FROM run_views AS v JOIN entries AS e ON e.id = v.entry_id WHERE v.run_id = ?1 AND v.path = ?2",
        )?;
        let mut found = Vec::new();
        for path in paths {
            let mut rows = statement.query(params![target.run_id, path])?;
            if let Some(row) = rows.next()?
                && filter.search(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?.is_some()
            {
                drop(rows);
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Returns a run's entries that match a pattern of paths and a pattern of bodies, ordered by path.
    pub fn entries_by_pattern(
        &self,
        run_id: i64,
        pattern: &str,
        body_filter: Option<&str>,
    ) -> Result<Vec<Entry>, StoreError> {
        self.page_by_pattern(run_id, pattern, body_filter, Page::default())
    }

    pub(crate) fn page_by_pattern(
        &self,
        run_id: i64,
        pattern: &str,
        body_filter: Option<&str>,
        page: Page,
    ) -> Result<Vec<Entry>, StoreError> {
        let target = Target { run_id, path: pattern.to_owned(), body_filter: body_filter.map(str::to_owned), turn: 0 };
        let mut entries = Vec::new();
        let mut skipped = 0;
        for path in self.matching_paths(&target)? {
            if page.limit.is_some_and(|limit| entries.len() >= limit) {
                break;
            }
            if page.hides_audit && !self.rule(&path).model_visible {
                continue;
            }
            if page.hides_recorded && self.is_recorded(run_id, &path) {
                continue;
            }
            let Some(entry) = self.at(run_id, &path)? else { continue };
            if page.since.is_some_and(|since| entry.id <= since) {
                continue;
            }
            if skipped < page.offset {
                skipped += 1;
                continue;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Returns the next number for making a slug unique that the run already uses.
    fn next_slug(&self, run_id: i64) -> Result<i64, StoreError> {
        let sql = "UPDATE runs SET next_slug = next_slug + 1 WHERE id = ?1 RETURNING next_slug - 1";
        Ok(self.connection.prepare_cached(sql)?.query_row([run_id], |row| row.get(0))?)
    }

    fn free(&self, run_id: i64, candidate: String) -> Result<String, StoreError> {
        let normal = text::normalize_path(&candidate);
        let sql = "SELECT 1 FROM run_views WHERE run_id = ?1 AND path = ?2";
        if !self.connection.prepare_cached(sql)?.exists(params![run_id, normal])? {
            return Ok(candidate);
        }
        Ok(format!("{candidate}_{}", self.next_slug(run_id)?))
    }

    /// Returns an unused path of a scheme, derived from a summary or the content.
    pub fn slug_path(
        &self,
        run_id: i64,
        scheme: &str,
        content: &str,
        summary: Option<&str>,
    ) -> Result<String, StoreError> {
        let slug = text::slugify(summary.filter(|summary| !summary.is_empty()).unwrap_or(content));
        if slug.is_empty() {
            return Ok(format!("{scheme}://{}", self.next_slug(run_id)?));
        }
        self.free(run_id, format!("{scheme}://{slug}"))
    }

    /// Returns an unused path for the log entry of an action.
    pub fn log_path(&self, run_id: i64, turn: i64, action: &str, target: &str) -> Result<String, StoreError> {
        self.free(run_id, text::log_path(&self.options.profile, turn, action, target))
    }

    /// Returns an unused path of a scheme that contains the whole target in encoded form, as before 2.0.
    pub fn dedup(&self, run_id: i64, scheme: &str, target: &str, turn: i64) -> Result<String, StoreError> {
        let turn = if turn > 0 { format!("turn_{turn}/") } else { String::new() };
        self.free(run_id, format!("{scheme}://{turn}{}", text::encode_component(target)))
    }
}

/// Compiles a pattern of paths.
fn compile_path(path: &str) -> Result<Pattern, StoreError> {
    let is_literal = pattern::notation(path) == Notation::Literal;
    Ok(if is_literal { Pattern::parse(&text::normalize_path(path))? } else { Pattern::parse(path)? })
}

/// Returns a text that sorts directly after all texts with a prefix; for the empty prefix, a text that sorts after all paths.
///
/// An optional upper bound would prevent SQLite from limiting its index scan.
fn successor(prefix: &str) -> String {
    // SQLite compares texts by bytes, which in UTF-8 is the order of characters.
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        if let Some(next) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
            characters.push(next);
            return characters.into_iter().collect();
        }
    }
    char::MAX.to_string()
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn a_successor_is_after_all_that_begin_with_the_prefix() {
        assert_eq!(successor("known://a"), "known://b");
        assert_eq!(successor("a\u{10FFFF}"), "b");
        assert_eq!(successor("\u{D7FF}"), "\u{E000}");
        assert_eq!(successor(""), "\u{10FFFF}");
    }
}
