//! Stores projects, runs, loops and turns.

use super::Store;
use crate::error::StoreError;
use rusqlite::{OptionalExtension as _, params};

impl Store {
    /// Adds a project, or updates the existing one with that name; returns its id.
    pub fn upsert_project(&mut self, name: &str, root: Option<&str>, config: Option<&str>) -> Result<i64, StoreError> {
        let sql = "INSERT INTO projects (name, project_root, config_path, created_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET project_root = COALESCE(?2, project_root),
             config_path = COALESCE(?3, config_path) RETURNING id";
        let values = params![name, root, config, self.now];
        Ok(self.connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
    }

    /// Adds a queued run. Aliases are unique across all projects.
    pub fn create_run(
        &mut self,
        project_id: i64,
        alias: &str,
        model: Option<&str>,
        parent: Option<i64>,
    ) -> Result<i64, StoreError> {
        let sql = "INSERT INTO runs (project_id, alias, model, parent_run_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             RETURNING id";
        let values = params![project_id, alias, model, parent, self.now];
        Ok(self.connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
    }

    /// Returns the id of the run with an alias.
    pub fn run_by_alias(&self, alias: &str) -> Result<Option<i64>, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT id FROM runs WHERE alias = ?1")?;
        Ok(statement.query_row([alias], |row| row.get(0)).optional()?)
    }

    /// Copies all views of `parent` to `child`; the content is not copied. Returns the number of views.
    pub fn fork(&mut self, parent: i64, child: i64) -> Result<usize, StoreError> {
        let sql = "INSERT INTO run_views (run_id, path, entry_id, turn, state, outcome, visibility, writer, write_count,
             refs, created_at, updated_at)
             SELECT ?1, path, entry_id, turn, state, outcome, visibility, writer, write_count, refs, created_at, updated_at
             FROM run_views WHERE run_id = ?2 ORDER BY id";
        let views = self.connection.prepare_cached(sql)?.execute([child, parent])?;
        let sql =
            "UPDATE runs SET next_slug = MAX(next_slug, (SELECT next_slug FROM runs WHERE id = ?2)) WHERE id = ?1";
        self.connection.prepare_cached(sql)?.execute([child, parent])?;
        Ok(views)
    }

    /// Begins the next turn of a run, and returns the number of the turn.
    pub fn next_turn(&mut self, run_id: i64) -> Result<i64, StoreError> {
        let sql = "UPDATE runs SET next_turn = next_turn + 1 WHERE id = ?1 RETURNING next_turn - 1";
        Ok(self.connection.prepare_cached(sql)?.query_row([run_id], |row| row.get(0))?)
    }

    /// Returns the ids of the runs that a query selects.
    pub(crate) fn runs_with(&self, sql: &str) -> Result<Vec<i64>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
