//! Defines the named statements that plugins call as `db.NAME.run`, `.get` and `.all`.
//!
//! Only these statements can be run, so plugins cannot run their own SQL. Parameters are named; the store binds `:now`.

use super::Store;
use crate::error::StoreError;
use crate::text;
use crate::writer::{Conduct, Writer};
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Row, Statement};
use serde_json::{Map, Number, Value, json};

/// Statements as name and SQL text, sorted by name.
const STATEMENTS: &[(&str, &str)] = &[
    ("abort_active_loop", "UPDATE loops SET status = 499 WHERE run_id = :run_id AND status = 102"),
    ("abort_stuck_runs", "UPDATE runs SET status = 499 WHERE status IN (100, 102)"),
    (
        "claim_next_loop",
        "UPDATE loops SET status = 102
         WHERE id = (SELECT id FROM loops WHERE run_id = :run_id AND status = 100 ORDER BY id LIMIT 1)
         RETURNING id, run_id, sequence, mode, model, prompt, config",
    ),
    ("clear_turn_context", "DELETE FROM turn_context WHERE run_id = :run_id AND turn = :turn"),
    ("complete_loop", "UPDATE loops SET status = :status, result = :result WHERE id = :id"),
    ("count_unknowns", "SELECT COUNT(*) AS count FROM known_entries WHERE run_id = :run_id AND scheme = 'unknown'"),
    (
        "create_run",
        "INSERT INTO runs (project_id, parent_run_id, model, alias, temperature, persona, context_limit, created_at)
         VALUES (:project_id, :parent_run_id, :model, :alias, :temperature, :persona, :context_limit, :now)
         RETURNING id",
    ),
    (
        "create_turn",
        "INSERT INTO turns (run_id, loop_id, sequence, created_at) VALUES (:run_id, :loop_id, :sequence, :now)
         RETURNING id, sequence",
    ),
    ("delete_file_constraint", "DELETE FROM file_constraints WHERE project_id = :project_id AND pattern = :pattern"),
    ("delete_model", "DELETE FROM models WHERE alias = :alias"),
    (
        "enqueue_loop",
        "INSERT INTO loops (run_id, sequence, mode, model, prompt, config, created_at)
         VALUES (:run_id, :sequence, :mode, :model, COALESCE(:prompt, ''), :config, :now) RETURNING id, sequence",
    ),
    ("get_active_runs", "SELECT id FROM runs WHERE project_id = :project_id AND status IN (100, 102, 202) ORDER BY id"),
    ("get_all_runs", "SELECT id FROM runs WHERE project_id = :project_id ORDER BY id"),
    ("get_all_schemes", "SELECT name, model_visible, category, default_scope, writable_by FROM schemes ORDER BY name"),
    (
        "get_content",
        "SELECT path, body, turn FROM known_entries WHERE run_id = :run_id AND scheme = 'content' ORDER BY id",
    ),
    (
        "get_current_loop",
        "SELECT id, sequence, mode, model, prompt, status FROM loops WHERE run_id = :run_id AND status = 102",
    ),
    ("get_entry_attributes", "SELECT attributes FROM known_entries WHERE run_id = :run_id AND path = :path"),
    ("get_entry_body", "SELECT body FROM known_entries WHERE run_id = :run_id AND path = :path"),
    (
        "get_entry_state",
        "SELECT state, outcome, visibility, scheme, turn FROM known_entries WHERE run_id = :run_id AND path = :path",
    ),
    (
        "get_file_constraints",
        "SELECT pattern, visibility FROM file_constraints WHERE project_id = :project_id ORDER BY pattern",
    ),
    (
        "get_file_entries",
        "SELECT path, state, outcome, visibility, hash, updated_at FROM known_entries
         WHERE run_id = :run_id AND scheme IS NULL ORDER BY path",
    ),
    (
        "get_file_states_by_pattern",
        "SELECT path, state, outcome, visibility, turn FROM known_entries
         WHERE run_id = :run_id AND scheme IS NULL AND hedmatch(:pattern, path) ORDER BY path",
    ),
    (
        "get_known_entries",
        "SELECT id, path, scheme, state, outcome, visibility, body, turn, hash, attributes, tokens, scope, writer
         FROM known_entries WHERE run_id = :run_id ORDER BY path",
    ),
    (
        "get_last_context_tokens",
        "SELECT context_tokens FROM turns WHERE run_id = :run_id AND context_tokens > 0 ORDER BY sequence DESC LIMIT 1",
    ),
    (
        "get_latest_completed_loop",
        "SELECT id, sequence, mode, status FROM loops WHERE run_id = :run_id AND status IN (200, 500)
         ORDER BY id DESC LIMIT 1",
    ),
    (
        "get_latest_prompt",
        "SELECT path, scheme, body, attributes FROM known_entries WHERE run_id = :run_id AND scheme = 'prompt'
         ORDER BY id DESC LIMIT 1",
    ),
    ("get_latest_run", "SELECT id FROM runs WHERE project_id = :project_id ORDER BY created_at DESC, id DESC LIMIT 1"),
    (
        "get_latest_summary",
        "SELECT body FROM known_entries WHERE run_id = :run_id AND scheme = 'update'
         AND (:loop_id IS NULL OR loop_id = :loop_id) ORDER BY id DESC LIMIT 1",
    ),
    (
        "get_latest_user_prompt",
        "SELECT body FROM known_entries WHERE run_id = :run_id AND scheme = 'prompt' AND body <> ''
         ORDER BY id DESC LIMIT 1",
    ),
    (
        "get_loop_by_id",
        "SELECT id, run_id, sequence, mode, model, prompt, status, config FROM loops WHERE id = :id",
    ),
    ("get_model_by_alias", "SELECT id, alias, actual, context_length FROM models WHERE alias = :alias"),
    (
        "get_model_context",
        "SELECT ordinal, path, scheme, visibility, state, outcome, body, tokens, attributes, category, turn
         FROM v_model_context WHERE run_id = :run_id ORDER BY ordinal",
    ),
    (
        "get_models",
        "SELECT id, alias, actual, context_length FROM models ORDER BY alias
         LIMIT COALESCE(:limit, -1) OFFSET COALESCE(:offset, 0)",
    ),
    (
        "get_pending_loops",
        "SELECT id, sequence, mode, model, prompt, status, created_at FROM loops
         WHERE run_id = :run_id AND status IN (100, 102) ORDER BY id",
    ),
    (
        "get_project_by_id",
        "SELECT id, name, project_root, config_path, created_at FROM projects WHERE id = :id",
    ),
    (
        "get_project_by_name",
        "SELECT id, name, project_root, config_path, created_at FROM projects WHERE name = :name",
    ),
    (
        "get_promoted_entries",
        "SELECT k.path, k.scheme, k.state, k.outcome, k.visibility, k.turn, k.tokens, k.refs FROM known_entries AS k
         JOIN schemes AS s ON s.name = COALESCE(k.scheme, 'file')
         WHERE k.run_id = :run_id AND k.visibility <> 'archived' AND s.model_visible = 1
         ORDER BY k.turn, k.refs, k.tokens DESC, k.id",
    ),
    (
        "get_reasoning",
        "SELECT path, body, turn FROM known_entries WHERE run_id = :run_id AND scheme = 'reasoning' ORDER BY id",
    ),
    (
        "get_results",
        "SELECT tool, state, outcome, path, body, turn, attributes FROM v_run_log WHERE run_id = :run_id ORDER BY id",
    ),
    (
        "get_rpc_log",
        "SELECT id, project_id, method, rpc_id, params, result, error, created_at FROM rpc_log
         WHERE project_id IS :project_id AND (:method IS NULL OR method = :method) ORDER BY id DESC
         LIMIT COALESCE(:limit, -1)",
    ),
    (
        "get_run_by_alias",
        "SELECT id, project_id, parent_run_id, model, status, alias, temperature, persona, context_limit, next_turn,
         next_loop, created_at FROM runs WHERE alias = :alias",
    ),
    (
        "get_run_by_id",
        "SELECT id, project_id, parent_run_id, model, status, alias, temperature, persona, context_limit, next_turn,
         next_loop, created_at FROM runs WHERE id = :id",
    ),
    (
        "get_run_usage",
        "SELECT COALESCE(SUM(prompt_tokens), 0) AS prompt_tokens, COALESCE(SUM(cached_tokens), 0) AS cached_tokens,
         COALESCE(SUM(completion_tokens), 0) AS completion_tokens,
         COALESCE(SUM(reasoning_tokens), 0) AS reasoning_tokens, COALESCE(SUM(total_tokens), 0) AS total_tokens,
         COALESCE(SUM(cost), 0) AS cost FROM turns WHERE run_id = :run_id",
    ),
    (
        "get_runs_by_project",
        "SELECT r.alias, r.status, r.created_at, r.next_turn - 1 AS turn,
         (SELECT k.body FROM known_entries AS k WHERE k.run_id = r.id AND k.scheme = 'update' ORDER BY k.id DESC LIMIT 1)
         AS summary FROM runs AS r WHERE r.project_id = :project_id ORDER BY r.created_at DESC, r.id DESC
         LIMIT COALESCE(:limit, -1) OFFSET COALESCE(:offset, 0)",
    ),
    (
        "get_turn_audit",
        "SELECT path, scheme, state, outcome, visibility, turn, body, attributes FROM known_entries
         WHERE run_id = :run_id AND turn = :turn ORDER BY id",
    ),
    (
        "get_turn_budget",
        "SELECT COALESCE(SUM(tokens), 0) AS total FROM turn_context WHERE run_id = :run_id AND turn = :turn",
    ),
    (
        "get_turn_context",
        "SELECT ordinal, path, scheme, visibility, state, outcome, body, tokens, attributes, category, source_turn
         FROM turn_context WHERE run_id = :run_id AND turn = :turn ORDER BY ordinal",
    ),
    (
        "get_turn_context_tokens",
        "SELECT context_tokens FROM turns WHERE run_id = :run_id AND sequence = :sequence",
    ),
    (
        "get_turn_distribution",
        "SELECT CASE WHEN category IN ('data', 'logging', 'unknown', 'prompt') THEN category ELSE 'system' END AS bucket,
         COALESCE(SUM(tokens), 0) AS tokens, COUNT(*) AS entries FROM turn_context
         WHERE run_id = :run_id AND turn = :turn GROUP BY 1 ORDER BY 1",
    ),
    (
        "get_unknown_values",
        "SELECT body FROM known_entries WHERE run_id = :run_id AND scheme = 'unknown' ORDER BY id",
    ),
    ("get_unknowns", "SELECT path, body FROM known_entries WHERE run_id = :run_id AND scheme = 'unknown' ORDER BY id"),
    (
        "get_unresolved",
        "SELECT path, body, attributes, turn, state FROM known_entries WHERE run_id = :run_id AND state = 'proposed'
         ORDER BY id",
    ),
    (
        "has_accepted_actions",
        "SELECT COUNT(*) AS count FROM known_entries WHERE run_id = :run_id AND state = 'resolved'
         AND (scheme IN ('set', 'sh', 'rm', 'mv', 'cp')
         OR scheme = 'log' AND json_extract(attributes, '$.action') IN ('set', 'sh', 'rm', 'mv', 'cp'))",
    ),
    (
        "has_rejections",
        "SELECT COUNT(*) AS count FROM known_entries
         WHERE run_id = :run_id AND loop_id = :loop_id AND state = 'failed'",
    ),
    (
        "insert_turn_context",
        "INSERT INTO turn_context (run_id, loop_id, turn, ordinal, path, visibility, state, outcome, body, tokens,
         attributes, category, source_turn)
         VALUES (:run_id, :loop_id, :turn, :ordinal, :path, :visibility, :state, :outcome, COALESCE(:body, ''),
         COALESCE(:tokens, countTokens(:body)), COALESCE(:attributes, '{}'), :category, COALESCE(:source_turn, 0))",
    ),
    (
        "log_rpc_call",
        "INSERT INTO rpc_log (project_id, method, rpc_id, params, created_at)
         VALUES (:project_id, :method, :rpc_id, :params, :now) RETURNING id",
    ),
    ("log_rpc_error", "UPDATE rpc_log SET error = :error WHERE id = :id"),
    ("log_rpc_result", "UPDATE rpc_log SET result = :result WHERE id = :id"),
    (
        "next_loop",
        "UPDATE runs SET next_loop = next_loop + 1 WHERE id = :run_id RETURNING next_loop - 1 AS sequence",
    ),
    ("next_turn", "UPDATE runs SET next_turn = next_turn + 1 WHERE id = :run_id RETURNING next_turn - 1 AS turn"),
    (
        "purge_old_runs",
        "DELETE FROM runs WHERE status IN (200, 499, 500)
         AND created_at < datetime(:now, '-' || :retention_days || ' days')",
    ),
    ("rename_run", "UPDATE runs SET alias = :new_alias WHERE id = :id AND alias = :old_alias"),
    ("reset_active_loops", "UPDATE loops SET status = 100 WHERE status = 102"),
    ("update_model_context_length", "UPDATE models SET context_length = :context_length WHERE alias = :alias"),
    (
        "update_run_config",
        "UPDATE runs SET temperature = COALESCE(:temperature, temperature), persona = COALESCE(:persona, persona),
         context_limit = COALESCE(:context_limit, context_limit), model = COALESCE(:model, model) WHERE id = :id",
    ),
    ("update_run_status", "UPDATE runs SET status = :status WHERE id = :id"),
    (
        "update_turn_stats",
        "UPDATE turns SET context_tokens = COALESCE(:context_tokens, 0), reasoning_content = :reasoning_content,
         prompt_tokens = COALESCE(:prompt_tokens, 0), cached_tokens = COALESCE(:cached_tokens, 0),
         completion_tokens = COALESCE(:completion_tokens, 0), reasoning_tokens = COALESCE(:reasoning_tokens, 0),
         total_tokens = COALESCE(:total_tokens, 0), cost = COALESCE(:cost, 0) WHERE id = :id",
    ),
    (
        "upsert_file_constraint",
        "INSERT INTO file_constraints (project_id, pattern, visibility, created_at)
         VALUES (:project_id, :pattern, :visibility, :now)
         ON CONFLICT (project_id, pattern) DO UPDATE SET visibility = excluded.visibility",
    ),
    (
        "upsert_model",
        "INSERT INTO models (alias, actual, context_length, created_at) VALUES (:alias, :actual, :context_length, :now)
         ON CONFLICT (alias) DO UPDATE SET actual = excluded.actual,
         context_length = COALESCE(excluded.context_length, context_length) RETURNING id",
    ),
    (
        "upsert_project",
        "INSERT INTO projects (name, project_root, config_path, created_at)
         VALUES (:name, :project_root, :config_path, :now)
         ON CONFLICT (name) DO UPDATE SET project_root = COALESCE(excluded.project_root, project_root),
         config_path = COALESCE(excluded.config_path, config_path) RETURNING id",
    ),
    (
        "upsert_scheme",
        "INSERT INTO schemes (name, model_visible, category, default_scope, writable_by)
         VALUES (:name, COALESCE(:model_visible, 1), COALESCE(:category, 'logging'), COALESCE(:default_scope, 'run'),
         COALESCE(:writable_by, '[\"model\",\"plugin\"]'))
         ON CONFLICT (name) DO UPDATE SET model_visible = excluded.model_visible, category = excluded.category,
         default_scope = excluded.default_scope, writable_by = excluded.writable_by",
    ),
];

/// Older names of statements, with their current names.
const ALIASES: &[(&str, &str)] = &[("get_history", "get_results"), ("get_rpc_log_by_method", "get_rpc_log")];

/// Writing statements that plugins may run; they may run all reading ones. Other writing statements are reserved for the host:
/// they begin, queue, end, rename and delete runs and loops.
const OF_PLUGINS: &[&str] = &[
    "clear_turn_context",
    "delete_file_constraint",
    "delete_model",
    "insert_turn_context",
    "log_rpc_call",
    "log_rpc_error",
    "log_rpc_result",
    "next_turn",
    "update_model_context_length",
    "update_run_config",
    "update_turn_stats",
    "upsert_file_constraint",
    "upsert_model",
    "upsert_scheme",
];

impl Store {
    /// Runs a named statement for a plugin, as [`statement`](Self::statement) does for the host.
    ///
    /// Also fails for statements that are reserved for the host, and for a registration that would add writers to a scheme that
    /// only the system writes. [`Conduct::Faithful`] allows both.
    pub fn plugin_statement(&mut self, name: &str, op: &str, values: &Value) -> Result<Value, StoreError> {
        if self.options.conduct == Conduct::Strict {
            let reads = ["get_", "count_", "has_"].iter().any(|prefix| name.starts_with(prefix));
            if !reads && !OF_PLUGINS.contains(&name) && STATEMENTS.iter().any(|(one, _)| *one == name) {
                return Err(StoreError::Statement(name.to_owned()));
            }
            if name == "upsert_scheme" {
                self.guard_system_scheme(values)?;
            }
        }
        self.statement(name, op, values)
    }

    /// Fails if a registration adds writers to a scheme of the profile that only the system writes.
    fn guard_system_scheme(&self, values: &Value) -> Result<(), StoreError> {
        let name = values.get("name").and_then(Value::as_str).unwrap_or_default();
        let row = self.options.profile.schemes.iter().find(|row| row.name == name && row.writable_by == ["system"]);
        let Some(row) = row else { return Ok(()) };
        let writers: Option<Vec<String>> = match values.get("writable_by") {
            Some(Value::String(text)) => serde_json::from_str(text).ok(),
            Some(list @ Value::Array(_)) => serde_json::from_value(list.clone()).ok(),
            _ => None,
        };
        if writers.is_some_and(|writers| writers.iter().all(|one| one == "system")) {
            return Ok(());
        }
        let allowed = row.writable_by.iter().map(|one| (*one).to_owned()).collect();
        Err(StoreError::Permission { scheme: name.to_owned(), writer: Writer::Plugin, allowed })
    }

    /// Runs a named statement: `run` returns `{changes, lastInsertRowid}`, `get` the first row or null, `all` all rows.
    ///
    /// Fails for unknown names, and with errors of SQLite.
    pub fn statement(&mut self, name: &str, op: &str, values: &Value) -> Result<Value, StoreError> {
        match name {
            "demote_turn_entries" | "resolve_known_entry" => return self.verb_as_statement(name, values),
            _ => {}
        }
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| *name);
        let Some((_, sql)) = STATEMENTS.iter().find(|(one, _)| *one == name) else {
            return Err(StoreError::invalid(format!(
                "db.{name} is not a known statement; check its name, or use `rummy.entries`"
            )));
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        bind(&mut statement, values, &self.now, &self.options.profile)?;
        let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            found.push(self.row(row, &names)?);
            if op == "get" && !sql.contains("RETURNING") {
                break;
            }
        }
        drop(rows);
        drop(statement);
        let changes = self.connection.changes();
        if name == "upsert_scheme" {
            self.load_schemes()?;
        }
        match op {
            "all" => Ok(Value::Array(found)),
            "get" => Ok(found.into_iter().next().unwrap_or(Value::Null)),
            "run" => Ok(json!({ "changes": changes, "lastInsertRowid": self.connection.last_insert_rowid() })),
            other => Err(StoreError::invalid(format!("db.{name}.{other}: use run, get or all"))),
        }
    }

    /// Performs a statement that plugins of rummy 0.5 use, by the verb that replaced it.
    fn verb_as_statement(&mut self, name: &str, values: &Value) -> Result<Value, StoreError> {
        let run_id = values["run_id"].as_i64().unwrap_or_default();
        if name == "demote_turn_entries" {
            let demoted = self.demote_turn(run_id, values["turn"].as_i64().unwrap_or_default())?;
            return Ok(demoted.iter().map(|entry| json!({ "path": entry.path, "tokens": entry.tokens })).collect());
        }
        let args = json!([run_id, values["path"], values["status"], values["body"]]);
        self.entries("resolve", &args, Writer::Plugin)?;
        Ok(json!({ "changes": 1 }))
    }

    /// Returns all rows of a named statement.
    pub(crate) fn rows(&mut self, name: &str, values: &Value) -> Result<Value, StoreError> {
        self.statement(name, "all", values)
    }

    fn row(&self, row: &Row<'_>, names: &[String]) -> Result<Value, StoreError> {
        let mut object = Map::new();
        for (place, name) in names.iter().enumerate() {
            object.insert(name.clone(), json_of(row.get_ref(place)?));
        }
        self.translate(&mut object);
        Ok(Value::Object(object))
    }

    /// Renames the members of a row to the profile's names.
    pub(crate) fn translate(&self, row: &mut Map<String, Value>) {
        let profile = &self.options.profile;
        if !profile.has_numeric_status {
            return;
        }
        if let Some(state) = row.remove("state") {
            let outcome = row.remove("outcome").unwrap_or_default();
            let state = state.as_str().and_then(|state| crate::State::parse(state).ok());
            if let Some(state) = state {
                row.insert("status".to_owned(), text::state_to_status(state, outcome.as_str()).into());
            }
        }
        if let Some(visibility) = row.remove("visibility") {
            let word = visibility.as_str().and_then(|word| profile.visibility(word)).map(|one| profile.word(one));
            row.insert("fidelity".to_owned(), word.map_or(visibility, Value::from));
        }
    }
}

/// Binds parameters by name; parameters that the caller omits are NULL.
fn bind(statement: &mut Statement<'_>, values: &Value, now: &str, profile: &crate::Profile) -> Result<(), StoreError> {
    for place in 1..=statement.parameter_count() {
        let name = statement.parameter_name(place).map(|name| name.trim_start_matches(':').to_owned());
        let name = name.unwrap_or_default();
        let value = match name.as_str() {
            "now" => SqlValue::Text(now.to_owned()),
            // The visibility of a file constraint has its own names, which are not translated.
            "visibility" => {
                let given = values.get("visibility").or_else(|| values.get("fidelity"));
                let word =
                    given.and_then(Value::as_str).map(|word| profile.visibility(word).map_or(word, |one| one.as_str()));
                word.map_or(SqlValue::Null, |word| SqlValue::Text(word.to_owned()))
            }
            "state" if values.get("status").is_some_and(Value::is_i64) => {
                let status = values["status"].as_i64().unwrap_or(200);
                SqlValue::Text(text::status_to_state(status).0.as_str().to_owned())
            }
            name => sql_of(values.get(name).unwrap_or(&Value::Null)),
        };
        statement.raw_bind_parameter(place, value)?;
    }
    Ok(())
}

fn sql_of(value: &Value) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Bool(is) => SqlValue::Integer(i64::from(*is)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => SqlValue::Integer(integer),
            // A computed integer may arrive from JavaScript as a float.
            None => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 9e15 =>
                {
                    #[expect(clippy::cast_possible_truncation, reason = "it is an integer of less than 2^53")]
                    SqlValue::Integer(float as i64)
                }
                Some(float) => SqlValue::Real(float),
                None => SqlValue::Null,
            },
        },
        Value::String(text) => SqlValue::Text(text.clone()),
        other => SqlValue::Text(other.to_string()),
    }
}

fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
    }
}
