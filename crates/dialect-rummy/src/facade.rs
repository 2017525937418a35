//! The interface of the store for the plugin runtime: methods are called by name, with arguments and results in JSON.
//!
//! Arguments have the order and the names of rummy's own `Entries`; a method that takes an object has it as the first argument.
//! Method names of generations before 2.0 are supported as well.

use crate::entry::{Entry, State, Visibility};
use crate::error::StoreError;
use crate::store::{Relocate, Removal, Set, Store, Target};
use crate::stream::End;
use crate::text;
use crate::writer::Writer;
use serde_json::{Map, Value, json};

impl Store {
    /// Calls a method of `Entries`; the call may act as any writer up to `ceiling`.
    ///
    /// After a call, [`take_changes`](Store::take_changes) returns the changes to announce and [`take_woken`](Store::take_woken)
    /// the waiters to wake. `waitForResolution` returns `{"path", "waits"}`; the caller registers its promise with
    /// [`wait`](Store::wait) if `waits` is true.
    ///
    /// Fails for an unknown method, for invalid arguments, and as the verbs do.
    pub fn entries(&mut self, method: &str, args: &Value, ceiling: Writer) -> Result<Value, StoreError> {
        let args = Args { method, values: args };
        match method {
            "set" | "get" | "rm" | "cp" | "mv" | "update" => self.verb(&args, ceiling),
            "setAttributes"
            | "forkEntries"
            | "nextTurn"
            | "updateTurnStats"
            | "loadSchemes"
            | "demoteTurnEntries"
            | "demoteRunVisibleEntries"
            | "archivePriorPromptArtifacts" => self.change(&args, ceiling),
            "openStream" | "appendStream" | "endStream" => self.stream(&args, ceiling),
            "upsert"
            | "promote"
            | "demote"
            | "setFidelity"
            | "setFileFidelity"
            | "remove"
            | "removeFilesByPattern"
            | "promoteByPattern"
            | "demoteByPattern"
            | "deleteByPattern"
            | "updateBodyByPattern"
            | "resolve"
            | "restoreSummarizedPrompts" => self.before_2_0(&args, ceiling),
            _ => self.query(&args, ceiling),
        }
    }

    fn verb(&mut self, args: &Args<'_>, ceiling: Writer) -> Result<Value, StoreError> {
        let object = args.object()?;
        let writer = self.writer(object, ceiling)?;
        let target = Target {
            run_id: integer(object, "runId").unwrap_or(0),
            turn: integer(object, "turn").unwrap_or(0),
            path: string(object, "path").unwrap_or_default(),
            body_filter: string(object, "bodyFilter").filter(|filter| !filter.is_empty()),
        };
        match args.method {
            "set" => self.set(&self.set_of(object)?, writer).map(|()| Value::Null),
            "get" => {
                let visibility = self.visibility_of(object)?.unwrap_or(Visibility::Visible);
                self.get(&target, visibility, writer).map(|_| Value::Null)
            }
            "rm" => {
                let files_only = object.get("filesOnly").is_some_and(truthy);
                self.rm(&Removal { target, files_only }, writer).map(|_| Value::Null)
            }
            "cp" | "mv" => {
                let mut to = self.set_of(object)?;
                to.path = string(object, "to").unwrap_or_default();
                let relocate = Relocate { from: string(object, "from").unwrap_or_default(), to };
                let is_copy = args.method == "cp";
                let done = if is_copy { self.cp(&relocate, writer) } else { self.mv(&relocate, writer) };
                done.map(|_| Value::Null)
            }
            _ => {
                let status = integer(object, "status").unwrap_or(102);
                self.update(&self.set_of(object)?, status, writer).map(Value::String)
            }
        }
    }

    /// Performs the methods for channels of a command: `openStream(runId, path, command, channels)`, `appendStream(runId, path,
    /// channel, chunk)`, `endStream(runId, path, {exitCode} or {aborted} or {cancelled})`.
    ///
    /// Fails if the caller may not write the channels' scheme.
    fn stream(&mut self, args: &Args<'_>, ceiling: Writer) -> Result<Value, StoreError> {
        let (run_id, path) = (args.integer(0)?, args.string(1)?);
        let writer = Writer::under(None, ceiling, self.options().conduct)?;
        self.permit_path(&text::log_path_to_data_base(&text::normalize_path(&path)), writer)?;
        match args.method {
            "openStream" => {
                let numbers = args.value(3).as_array().into_iter().flatten().filter_map(Value::as_u64);
                let channels: Vec<u32> = numbers.filter_map(|number| number.try_into().ok()).collect();
                let log = self.entry(run_id, &path)?;
                let (turn, loop_id) = log.map_or((None, None), |log| (Some(log.turn), log.loop_id));
                let paths = self.open_channels(run_id, &path, &args.string(2)?, &channels, turn, loop_id)?;
                Ok(paths.into())
            }
            "appendStream" => {
                let channel = u32::try_from(args.integer(2)?).unwrap_or_default();
                self.append_chunk(run_id, &path, channel, &args.string(3)?).map(|()| Value::Null)
            }
            _ => {
                let how = args.value(2).as_object().cloned().unwrap_or_default();
                let end = if let Some(exit_code) = integer(&how, "exitCode") {
                    End::Completed { exit_code }
                } else if how.contains_key("aborted") {
                    End::Aborted { reason: string(&how, "aborted") }
                } else {
                    End::Cancelled { reason: string(&how, "cancelled") }
                };
                let channels = self.end_stream(run_id, &path, &end, string(&how, "duration").as_deref())?;
                Ok(channels.into())
            }
        }
    }

    fn change(&mut self, args: &Args<'_>, ceiling: Writer) -> Result<Value, StoreError> {
        let writer = Writer::under(None, ceiling, self.options().conduct)?;
        match args.method {
            "setAttributes" => {
                let attributes = args.value(2).as_object().cloned().unwrap_or_default();
                self.set_attributes(args.integer(0)?, &args.string(1)?, attributes, writer).map(|()| Value::Null)
            }
            "forkEntries" => self.fork(args.integer(0)?, args.integer(1)?).map(|_| Value::Null),
            "nextTurn" => self.next_turn(args.integer(0)?).map(Value::from),
            "updateTurnStats" => self.statement("update_turn_stats", "run", args.value(0)),
            "demoteTurnEntries" => {
                let demoted = self.demote_turn(args.integer(0)?, args.integer(1)?)?;
                Ok(self.costs(&demoted))
            }
            "demoteRunVisibleEntries" => {
                let demoted = self.demote_run(args.integer(0)?)?;
                Ok(self.costs(&demoted))
            }
            "archivePriorPromptArtifacts" => {
                self.archive_prompts_before(args.integer(0)?, args.optional_integer(1)).map(Value::from)
            }
            _ => self.load_schemes().map(|()| Value::Null),
        }
    }

    /// Performs a query. Has an arm for each method. Entries that are only recorded are left out for all but the host.
    fn query(&mut self, args: &Args<'_>, ceiling: Writer) -> Result<Value, StoreError> {
        let of_run = |args: &Args<'_>| Ok::<_, StoreError>(json!({ "run_id": args.integer(0)? }));
        let is_some = |row: &Value| row.get("count").and_then(Value::as_i64).is_some_and(|count| count > 0);
        match args.method {
            "scheme" | "toolFromPath" => Ok(text::scheme_of(&args.string(0)?).map_or(Value::Null, Value::from)),
            "normalizePath" => Ok(text::normalize_path(&args.string(0)?).into()),
            "isSystemPath" => Ok(args.string(0)?.contains("://").into()),
            "logPathToDataBase" => Ok(text::log_path_to_data_base(&args.string(0)?).into()),
            "getBody" | "getState" | "getAttributes"
                if ceiling != Writer::System && self.is_recorded(args.integer(0)?, &args.string(1)?) =>
            {
                Ok(Value::Null)
            }
            "getBody" => Ok(self.body(args.integer(0)?, &args.string(1)?)?.map_or(Value::Null, Value::from)),
            "getState" => {
                let entry = self.entry(args.integer(0)?, &args.string(1)?)?;
                Ok(entry.map_or(Value::Null, |entry| {
                    let mut row = json!({
                        "state": entry.state, "outcome": entry.outcome, "visibility": entry.visibility,
                        "scheme": entry.scheme, "turn": entry.turn,
                    });
                    row.as_object_mut().into_iter().for_each(|row| self.translate(row));
                    row
                }))
            }
            "getAttributes" => {
                let entry = self.entry(args.integer(0)?, &args.string(1)?)?;
                Ok(entry.map_or(Value::Null, |entry| serde_json::from_str(&entry.attributes).unwrap_or_default()))
            }
            "getEntriesByPattern" => {
                let options = args.value(3);
                let count =
                    |name: &str| options.get(name).and_then(Value::as_u64).and_then(|count| count.try_into().ok());
                let page = crate::store::Page {
                    limit: count("limit"),
                    offset: count("offset").unwrap_or(0),
                    since: options.get("since").and_then(Value::as_i64),
                    hides_audit: options.get("includeAuditSchemes").and_then(Value::as_bool) == Some(false),
                    hides_recorded: ceiling != Writer::System,
                };
                let filter = args.value(2).as_str().filter(|filter| !filter.is_empty());
                let found = self.page_by_pattern(args.integer(0)?, &args.string(1)?, filter, page)?;
                Ok(found.iter().map(|entry| self.entry_row(entry)).collect())
            }
            "getEntries" => self.rows("get_known_entries", &of_run(args)?),
            "getFileEntries" => self.rows("get_file_entries", &of_run(args)?),
            "getFileStatesByPattern" => {
                let values = json!({ "run_id": args.integer(0)?, "pattern": args.string(1)? });
                self.rows("get_file_states_by_pattern", &values)
            }
            "getUnresolved" => self.rows("get_unresolved", &of_run(args)?),
            "getUnknowns" => self.rows("get_unknowns", &of_run(args)?),
            "getUnknownValues" => {
                let rows = self.rows("get_unknown_values", &of_run(args)?)?;
                Ok(rows.as_array().into_iter().flatten().map(|row| row["body"].clone()).collect())
            }
            "countUnknowns" => Ok(self.statement("count_unknowns", "get", &of_run(args)?)?["count"].take()),
            "getLog" => self.rows("get_results", &of_run(args)?),
            "getTurnAudit" => {
                self.rows("get_turn_audit", &json!({ "run_id": args.integer(0)?, "turn": args.integer(1)? }))
            }
            "getRun" => self.statement("get_run_by_id", "get", &json!({ "id": args.integer(0)? })),
            "hasRejections" => {
                let values = json!({ "run_id": args.integer(0)?, "loop_id": args.optional_integer(1) });
                Ok(is_some(&self.statement("has_rejections", "get", &values)?).into())
            }
            "hasAcceptedActions" => Ok(is_some(&self.statement("has_accepted_actions", "get", &of_run(args)?)?).into()),
            "waitForResolution" => {
                let path = text::normalize_path(&args.string(1)?);
                let waits = self.entry(args.integer(0)?, &path)?.is_some_and(|entry| entry.state == State::Proposed);
                Ok(json!({ "path": path, "waits": waits }))
            }
            "logPath" => {
                let turn = args.optional_integer(1).unwrap_or(0);
                let path =
                    self.log_path(args.integer(0)?, turn, &args.string(2)?, args.value(3).as_str().unwrap_or_default());
                path.map(Value::String)
            }
            "slugPath" => {
                let content = args.value(2).as_str().unwrap_or_default();
                let path = self.slug_path(args.integer(0)?, &args.string(1)?, content, args.value(3).as_str());
                path.map(Value::String)
            }
            "dedup" => {
                let turn = args.optional_integer(3).unwrap_or(0);
                let target = args.value(2).as_str().unwrap_or_default();
                self.dedup(args.integer(0)?, &args.string(1)?, target, turn).map(Value::String)
            }
            other => Err(StoreError::invalid(format!("entries.{other}: there is no such method"))),
        }
    }

    /// Performs the methods of `KnownStore` (before 2.0) by the verbs that replaced them. Has an arm for each method.
    fn before_2_0(&mut self, args: &Args<'_>, ceiling: Writer) -> Result<Value, StoreError> {
        let writer = Writer::under(None, ceiling, self.options().conduct)?;
        let run_id = args.integer(0)?;
        let target = |path: usize, filter: Option<usize>, turn: Option<usize>| {
            Ok::<_, StoreError>(Target {
                run_id,
                turn: turn.and_then(|place| args.optional_integer(place)).unwrap_or(0),
                path: args.string(path)?,
                body_filter: filter
                    .and_then(|place| args.value(place).as_str())
                    .filter(|one| !one.is_empty())
                    .map(str::to_owned),
            })
        };
        let fidelity = |store: &Self, place: usize| {
            let word = args.string(place)?;
            store.options().profile.visibility(&word).ok_or_else(|| unknown_visibility(store, &word))
        };
        match args.method {
            "upsert" => {
                let options = args.value(5).as_object().cloned().unwrap_or_default();
                let (state, outcome) = text::status_to_state(args.optional_integer(4).unwrap_or(200));
                let set = Set {
                    turn: args.optional_integer(1),
                    body: Some(args.value(3).as_str().unwrap_or_default().to_owned()),
                    state: Some(state),
                    outcome,
                    visibility: self.visibility_of(&options)?,
                    attributes: options.get("attributes").and_then(Value::as_object).cloned(),
                    hash: string(&options, "hash"),
                    loop_id: integer(&options, "loopId"),
                    ..Set::new(run_id, &args.string(2)?)
                };
                self.set(&set, writer)?;
            }
            "promote" => {
                let set = Set::new(run_id, &args.string(1)?).visibility(Visibility::Visible).state(State::Resolved);
                self.set(&Set { turn: args.optional_integer(2), ..set }, writer)?;
            }
            "demote" => self.set(&Set::new(run_id, &args.string(1)?).visibility(Visibility::Archived), writer)?,
            "setFidelity" => {
                let shown = fidelity(self, 2)?;
                self.set(&Set::new(run_id, &args.string(1)?).visibility(shown), writer)?;
            }
            "setFileFidelity" => {
                let (shown, path) = (fidelity(self, 2)?, args.string(1)?);
                let found = self.page_by_pattern(run_id, &path, None, crate::store::Page::default())?;
                let files: Vec<&Entry> = found.iter().filter(|entry| entry.scheme.is_none()).collect();
                for file in &files {
                    self.set(&Set::new(run_id, &file.path).visibility(shown), writer)?;
                }
                if files.is_empty() {
                    self.set(&Set::new(run_id, &path).body("").visibility(shown), writer)?;
                }
            }
            "remove" | "deleteByPattern" => {
                let filter = (args.method == "deleteByPattern").then_some(2);
                self.rm(&Removal { target: target(1, filter, None)?, files_only: false }, writer)?;
            }
            "removeFilesByPattern" => {
                self.rm(&Removal { target: target(1, None, None)?, files_only: true }, writer)?;
            }
            "promoteByPattern" => drop(self.get(&target(1, Some(2), Some(3))?, Visibility::Visible, writer)?),
            "demoteByPattern" => drop(self.get(&target(1, Some(2), None)?, Visibility::Archived, writer)?),
            "updateBodyByPattern" => {
                let target = target(1, Some(2), None)?;
                let body = args.value(3).as_str().unwrap_or_default();
                let set =
                    Set { pattern: true, body_filter: target.body_filter, ..Set::new(run_id, &target.path).body(body) };
                self.set(&set, writer)?;
            }
            "resolve" => {
                let path = args.string(1)?;
                let (state, outcome) = text::status_to_state(args.optional_integer(2).unwrap_or(200));
                let current = self.entry(run_id, &path)?;
                let set = Set {
                    state: Some(state),
                    outcome,
                    body: args.value(3).as_str().map(str::to_owned),
                    visibility: current.map(|entry| entry.visibility),
                    ..Set::new(run_id, &path)
                };
                self.set(&set, writer)?;
            }
            _ => {
                for entry in self.page_by_pattern(run_id, "prompt://*", None, crate::store::Page::default())? {
                    if entry.visibility == Visibility::Summarized {
                        self.set(&Set::new(run_id, &entry.path).visibility(Visibility::Visible), writer)?;
                    }
                }
            }
        }
        Ok(Value::Null)
    }

    fn writer(&self, object: &Map<String, Value>, ceiling: Writer) -> Result<Writer, StoreError> {
        let requested = object.get("writer").and_then(Value::as_str).map(Writer::parse).transpose()?;
        Writer::under(requested, ceiling, self.options().conduct)
    }

    fn visibility_of(&self, object: &Map<String, Value>) -> Result<Option<Visibility>, StoreError> {
        let word = object.get("visibility").or_else(|| object.get("fidelity")).and_then(Value::as_str);
        word.map(|word| self.options().profile.visibility(word).ok_or_else(|| unknown_visibility(self, word)))
            .transpose()
    }

    fn set_of(&self, object: &Map<String, Value>) -> Result<Set, StoreError> {
        let state = string(object, "state").map(|state| State::parse(&state)).transpose()?;
        let from_status =
            integer(object, "status").filter(|_| state.is_none() && self.options().profile.has_numeric_status);
        let (state, outcome) = match from_status.map(text::status_to_state) {
            Some((state, outcome)) => (Some(state), outcome),
            None => (state, string(object, "outcome")),
        };
        Ok(Set {
            run_id: integer(object, "runId").unwrap_or(0),
            project_id: integer(object, "projectId"),
            turn: integer(object, "turn"),
            loop_id: integer(object, "loopId"),
            path: string(object, "path").unwrap_or_default(),
            body: string(object, "body"),
            state,
            outcome,
            visibility: self.visibility_of(object)?,
            attributes: object.get("attributes").and_then(Value::as_object).cloned(),
            hash: string(object, "hash"),
            append: object.get("append").is_some_and(truthy),
            pattern: object.get("pattern") == Some(&Value::Bool(true)),
            body_filter: string(object, "bodyFilter"),
        })
    }

    /// Returns an entry in the format of database rows, with the attributes as JSON in a string.
    pub(crate) fn entry_row(&self, entry: &Entry) -> Value {
        let mut row = json!({
            "id": entry.id, "path": entry.path, "body": entry.body, "scheme": entry.scheme, "state": entry.state,
            "outcome": entry.outcome, "visibility": entry.visibility, "turn": entry.turn, "tokens": entry.tokens,
            "attributes": entry.attributes, "hash": entry.hash,
        });
        row.as_object_mut().into_iter().for_each(|row| self.translate(row));
        row
    }

    fn costs(&self, entries: &[Entry]) -> Value {
        entries.iter().map(|entry| json!({ "path": entry.path, "tokens": entry.tokens })).collect()
    }
}

fn unknown_visibility(store: &Store, word: &str) -> StoreError {
    let words = store.options().profile.visibilities.join(", ");
    StoreError::invalid(format!("visibility: unknown value `{word}`; use one of {words}"))
}

fn string(object: &Map<String, Value>, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn integer(object: &Map<String, Value>, name: &str) -> Option<i64> {
    object.get(name).and_then(integer_of)
}

/// Converts a value to an integer, including a float or a string of digits, as JavaScript may send them.
fn integer_of(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.to_string().parse::<f64>().ok().and_then(whole)),
        Value::String(digits) => digits.parse().ok(),
        _ => None,
    }
}

fn whole(float: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "it is an integer of less than 2^53")]
    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// Arguments of one call, by position.
struct Args<'a> {
    method: &'a str,
    values: &'a Value,
}

impl<'a> Args<'a> {
    fn value(&self, place: usize) -> &'a Value {
        match self.values {
            Value::Array(values) => values.get(place).unwrap_or(&Value::Null),
            value if place == 0 => value,
            _ => &Value::Null,
        }
    }

    fn object(&self) -> Result<&'a Map<String, Value>, StoreError> {
        let what = || StoreError::invalid(format!("{} takes one object; pass runId and path in it", self.method));
        self.value(0).as_object().ok_or_else(what)
    }

    fn optional_integer(&self, place: usize) -> Option<i64> {
        integer_of(self.value(place))
    }

    fn integer(&self, place: usize) -> Result<i64, StoreError> {
        let what = || StoreError::invalid(format!("{}: argument {} must be an integer", self.method, place + 1));
        self.optional_integer(place).ok_or_else(what)
    }

    fn string(&self, place: usize) -> Result<String, StoreError> {
        let what = || StoreError::invalid(format!("{}: argument {} must be a string", self.method, place + 1));
        self.value(place).as_str().map(str::to_owned).ok_or_else(what)
    }
}

#[cfg(test)]
mod tests;
