//! The scheme registry: categories, scopes, and permitted writers.

use super::Store;
use crate::entry::Scope;
use crate::error::StoreError;
use crate::profile::SchemeRow;
use crate::text;
use crate::writer::Writer;
use rusqlite::params;

/// A row of the registry.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) category: String,
    pub(super) model_visible: bool,
    pub(super) default_scope: String,
    pub(super) writers: Vec<String>,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            category: "logging".to_owned(),
            model_visible: true,
            default_scope: "run".to_owned(),
            writers: vec!["model".to_owned(), "plugin".to_owned()],
        }
    }
}

impl Store {
    /// Adds the profile's rows that are missing in the registry.
    pub(super) fn seed_schemes(&mut self) -> Result<(), StoreError> {
        let sql = "INSERT INTO schemes (name, model_visible, category, writable_by) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING";
        for row in self.options.profile.schemes {
            let writers = serde_json::to_string(row.writable_by).unwrap_or_default();
            self.connection.prepare_cached(sql)?.execute(params![
                row.name,
                row.model_visible,
                row.category,
                writers
            ])?;
        }
        self.load_schemes()
    }

    /// Reads the registry from the database again, after a statement has changed its rows.
    pub fn load_schemes(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT name, category, model_visible, default_scope, writable_by FROM schemes";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            let writers: String = row.get(4)?;
            let writers = serde_json::from_str(&writers).unwrap_or_default();
            let rule = Rule { category: row.get(1)?, model_visible: row.get(2)?, default_scope: row.get(3)?, writers };
            Ok((row.get(0)?, rule))
        })?;
        self.rules = rows.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Returns the rule of a path's scheme. An unregistered scheme has the category logging, the scope of the run, and the
    /// writers model and plugin.
    pub(super) fn rule(&self, path: &str) -> Rule {
        self.rules.get(text::registered_scheme(path)).cloned().unwrap_or_default()
    }

    /// Returns the category of a path's scheme.
    pub fn category(&self, path: &str) -> String {
        self.rule(path).category
    }

    /// Returns whether the writer may write entries of the path's scheme.
    pub(crate) fn admits(&self, path: &str, writer: Writer) -> bool {
        self.permit(path, &self.rule(path), writer).is_ok()
    }

    /// Fails unless the writer may write entries of the path's scheme.
    pub(crate) fn permit_path(&self, path: &str, writer: Writer) -> Result<(), StoreError> {
        self.permit(path, &self.rule(path), writer)
    }

    /// Fails unless a rule allows the writer. The host can always write the schemes of the profile that it writes, whatever a
    /// plugin has registered.
    pub(super) fn permit(&self, path: &str, rule: &Rule, writer: Writer) -> Result<(), StoreError> {
        if rule.writers.iter().any(|one| one == writer.as_str()) {
            return Ok(());
        }
        let scheme = text::registered_scheme(path).to_owned();
        let is_of_host = |row: &SchemeRow| row.name == scheme && row.writable_by.contains(&writer.as_str());
        if writer == Writer::System && self.options.profile.schemes.iter().any(is_of_host) {
            return Ok(());
        }
        Err(StoreError::Permission { scheme, writer, allowed: rule.writers.clone() })
    }

    /// Returns the namespace of a write.
    ///
    /// Fails for a scheme whose entries belong to projects, if the caller does not name a project.
    pub(super) fn scope(&self, path: &str, rule: &Rule, run: i64, project: Option<i64>) -> Result<Scope, StoreError> {
        match (rule.default_scope.as_str(), project) {
            ("global", _) => Ok(Scope::Global),
            ("project", Some(project)) => Ok(Scope::Project(project)),
            ("project", None) => Err(StoreError::invalid(format!(
                "set: {path} belongs to a project but the call names none; pass projectId"
            ))),
            _ => Ok(Scope::Run(run)),
        }
    }
}
