//! Implements the six verbs. Each is one transaction with one audit line, and announces its changes to subscribers.

use super::{Change, ChangeKind, Store};
use crate::audit::AuditLine;
use crate::entry::{Entry, State, Visibility};
use crate::error::StoreError;
use crate::text;
use crate::writer::{Conduct, Writer};
use rusqlite::{OptionalExtension as _, params};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Arguments of `set`, the most general verb.
///
/// The first matching line determines the effect:
///
/// | arguments | effect |
/// |---|---|
/// | `pattern`, or a body filter | rewrites the bodies of matching entries, and changes their visibility |
/// | `append` | appends the body to the entry's body |
/// | no body | changes state and outcome, visibility and attributes, as far as they are set |
/// | a body | writes the whole entry |
#[derive(Debug, Clone, Default)]
pub struct Set {
    /// Id of the run.
    pub run_id: i64,
    /// Id of the project; required for schemes whose entries belong to projects.
    pub project_id: Option<i64>,
    /// Number of the turn; `None` keeps the entry's turn.
    pub turn: Option<i64>,
    /// Id of the loop; `None` keeps the entry's loop.
    pub loop_id: Option<i64>,
    /// Path of the entry, or pattern of paths.
    pub path: String,
    /// New body.
    pub body: Option<String>,
    /// New state.
    pub state: Option<State>,
    /// New outcome.
    pub outcome: Option<String>,
    /// New visibility.
    pub visibility: Option<Visibility>,
    /// New attributes. They replace the old ones if `body` is set, and are merged into them otherwise.
    pub attributes: Option<Map<String, Value>>,
    /// Digest of a file's content.
    pub hash: Option<String>,
    /// Whether the body is appended instead of replacing the present one.
    pub append: bool,
    /// Whether the path is a pattern.
    pub pattern: bool,
    /// Pattern that bodies must match.
    pub body_filter: Option<String>,
}

impl Set {
    /// Creates arguments that name an entry of a run and change nothing.
    pub fn new(run_id: i64, path: &str) -> Self {
        Self { run_id, path: path.to_owned(), ..Self::default() }
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets the state.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets the outcome.
    #[must_use]
    pub fn outcome(mut self, outcome: impl Into<String>) -> Self {
        self.outcome = Some(outcome.into());
        self
    }

    /// Sets the visibility.
    #[must_use]
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Sets the turn and the loop.
    #[must_use]
    pub fn during(mut self, turn: i64, loop_id: Option<i64>) -> Self {
        self.turn = Some(turn);
        self.loop_id = loop_id;
        self
    }

    /// Sets the attributes; a value other than an object is ignored.
    #[must_use]
    pub fn attributes(mut self, attributes: Value) -> Self {
        self.attributes = match attributes {
            Value::Object(members) => Some(members),
            _ => None,
        };
        self
    }

    /// Appends the body to the entry's body.
    #[must_use]
    pub fn appending(mut self) -> Self {
        self.append = true;
        self
    }
}

/// Selects the entries that a verb changes.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// Id of the run.
    pub run_id: i64,
    /// Number of the turn that makes the change.
    pub turn: i64,
    /// Path or pattern.
    pub path: String,
    /// Pattern that bodies must match.
    pub body_filter: Option<String>,
}

/// Arguments of `rm`.
#[derive(Debug, Clone, Default)]
pub struct Removal {
    /// The entries to remove. The path is a pattern if it contains one of `*?[]`, or if there is a body filter.
    pub target: Target,
    /// Whether only files are removed.
    pub files_only: bool,
}

/// Arguments of `cp` and `mv`.
#[derive(Debug, Clone, Default)]
pub struct Relocate {
    /// Path of the source; the verb has no effect if it does not exist.
    pub from: String,
    /// The entry to write: its path is the destination; its body is replaced by the source's.
    pub to: Set,
}

/// Maximum number of characters of a path, the limit of the schema.
const MAX_OF_PATH: usize = 2048;

/// A verb in progress.
struct Work {
    line: AuditLine,
    digests: Option<(Sha256, Sha256)>,
    has_before: bool,
    changes: Vec<Change>,
    resolved: Vec<String>,
}

impl Work {
    fn change(&mut self, path: &str, change_type: ChangeKind) {
        self.changes.push(Change { run_id: self.line.run_id, path: path.to_owned(), change_type });
    }

    fn before(&mut self, entry: Option<&Entry>) {
        if let (Some((before, _)), Some(entry)) = (&mut self.digests, entry) {
            self.has_before = true;
            digest(before, entry);
        }
    }
}

fn digest(into: &mut Sha256, entry: &Entry) {
    let outcome = entry.outcome.as_deref().unwrap_or_default();
    let words = [&entry.path, &entry.body, &entry.attributes, entry.state.as_str(), outcome, entry.visibility.as_str()];
    for word in words {
        into.update((word.len() as u64).to_le_bytes());
        into.update(word.as_bytes());
    }
}

impl Store {
    /// Creates or changes entries; see [`Set`].
    ///
    /// Fails if the run or the path is missing, if the writer is not allowed, or if a body is too large.
    pub fn set(&mut self, set: &Set, writer: Writer) -> Result<(), StoreError> {
        required("set", set.run_id, &[("path", &set.path)])?;
        self.perform("set", set.run_id, set.turn, &set.path, writer, |store, work| {
            if set.pattern || set.body_filter.is_some() {
                store.set_matching(set, writer, work)
            } else if set.append {
                store.append(set, writer, work)
            } else if set.body.is_none() {
                store.patch(set, writer, work)
            } else {
                store.write(set, writer, work)
            }
        })
    }

    /// Makes matching entries visible, or sets the requested visibility.
    pub fn get(&mut self, target: &Target, visibility: Visibility, writer: Writer) -> Result<usize, StoreError> {
        required("get", target.run_id, &[("path", &target.path)])?;
        self.perform("get", target.run_id, Some(target.turn), &target.path, writer, |store, work| {
            let changed = store.expose(target, visibility, work)?;
            work.change(&target.path, ChangeKind::Promote);
            Ok(changed)
        })
    }

    /// Removes the run's views of entries; the content is kept.
    pub fn rm(&mut self, removal: &Removal, writer: Writer) -> Result<usize, StoreError> {
        let target = &removal.target;
        required("rm", target.run_id, &[("path", &target.path)])?;
        self.perform("rm", target.run_id, Some(target.turn), &target.path, writer, |store, work| {
            let removed = store.remove(removal, writer, work)?;
            work.change(&target.path, ChangeKind::Remove);
            Ok(removed)
        })
    }

    /// Copies the body of an entry to another path; returns `false` if the source is missing.
    pub fn cp(&mut self, copy: &Relocate, writer: Writer) -> Result<bool, StoreError> {
        required("cp", copy.to.run_id, &[("from", &copy.from), ("to", &copy.to.path)])?;
        self.perform("cp", copy.to.run_id, copy.to.turn, &copy.to.path, writer, |store, work| {
            store.copy(copy, writer, work)
        })
    }

    /// Copies as [`cp`](Self::cp) does, and removes the view of the source.
    pub fn mv(&mut self, movement: &Relocate, writer: Writer) -> Result<bool, StoreError> {
        required("mv", movement.to.run_id, &[("from", &movement.from), ("to", &movement.to.path)])?;
        self.perform("mv", movement.to.run_id, movement.to.turn, &movement.to.path, writer, |store, work| {
            if text::normalize_path(&movement.from) == text::normalize_path(&movement.to.path) {
                return Ok(store.entry(movement.to.run_id, &movement.from)?.is_some());
            }
            let is_there = store.copy(movement, writer, work)?;
            let target = Target { run_id: movement.to.run_id, path: movement.from.clone(), ..Target::default() };
            store.remove(&Removal { target, files_only: false }, writer, work)?;
            work.change(&movement.from, ChangeKind::Remove);
            Ok(is_there)
        })
    }

    /// Records the update of a turn under `update://`, and returns the new path. Ignores the path in `update`.
    pub fn update(&mut self, update: &Set, status: i64, writer: Writer) -> Result<String, StoreError> {
        let Some(body) = &update.body else {
            return Err(StoreError::invalid("update: body is required; pass the text of the update"));
        };
        required("update", update.run_id, &[])?;
        self.perform("update", update.run_id, update.turn, "update://", writer, |store, work| {
            let path = store.slug_path(update.run_id, "update", body, None)?;
            let mut attributes = Map::new();
            attributes.insert("status".to_owned(), status.into());
            attributes.extend(update.attributes.clone().unwrap_or_default());
            let set = Set {
                path: path.clone(),
                state: Some(State::Resolved),
                attributes: Some(attributes),
                ..update.clone()
            };
            store.write(&set, writer, work)?;
            work.line.path.clone_from(&path);
            Ok(path)
        })
    }

    /// Merges attributes into those of an entry.
    pub fn set_attributes(
        &mut self,
        run_id: i64,
        path: &str,
        attributes: Map<String, Value>,
        writer: Writer,
    ) -> Result<(), StoreError> {
        self.set(&Set { attributes: Some(attributes), ..Set::new(run_id, path) }, writer)
    }

    /// Summarizes the entries that became visible in a turn that exceeded the budget. Skips failed entries, and does not change
    /// states. Returns the entries before the change.
    pub fn demote_turn(&mut self, run_id: i64, turn: i64) -> Result<Vec<Entry>, StoreError> {
        let targets = self.entries_where(
            "v.run_id = ?1 AND v.turn = ?2 AND v.visibility = 'visible' AND v.state NOT IN ('failed', 'cancelled')
             AND e.scheme IS NOT 'known' AND e.scheme IS NOT 'unknown' ORDER BY v.id",
            params![run_id, turn],
        )?;
        self.lower(run_id, turn, targets, Visibility::Summarized)
    }

    /// Summarizes all visible entries of a run, except those that [`demote_turn`](Self::demote_turn) skips.
    pub fn demote_run(&mut self, run_id: i64) -> Result<Vec<Entry>, StoreError> {
        let targets = self.entries_where(
            "v.run_id = ?1 AND v.visibility = 'visible' AND v.state NOT IN ('failed', 'cancelled')
             AND e.scheme IS NOT 'known' AND e.scheme IS NOT 'unknown' ORDER BY v.id",
            params![run_id],
        )?;
        self.lower(run_id, 0, targets, Visibility::Summarized)
    }

    /// Archives the prompts before a turn, and the log entries up to them; if `turn` is `None`, all prompts but the latest.
    /// Returns the number of archived entries.
    pub fn archive_prompts_before(&mut self, run_id: i64, turn: Option<i64>) -> Result<usize, StoreError> {
        let targets = self.entries_where(
            "v.run_id = ?1 AND v.visibility <> 'archived' AND v.state <> 'proposed' AND e.scheme IN ('prompt', 'log')
             AND v.turn < COALESCE(?2, (SELECT MAX(p.turn) FROM run_views AS p
             WHERE p.run_id = ?1 AND p.path >= 'prompt://' AND p.path < 'prompt:/0')) ORDER BY v.id",
            params![run_id, turn],
        )?;
        Ok(self.lower(run_id, turn.unwrap_or(0), targets, Visibility::Archived)?.len())
    }

    fn lower(&mut self, run_id: i64, turn: i64, targets: Vec<Entry>, to: Visibility) -> Result<Vec<Entry>, StoreError> {
        self.perform("set", run_id, Some(turn), "**", Writer::System, |store, work| {
            for entry in &targets {
                work.before(Some(entry));
                store
                    .connection
                    .prepare_cached("UPDATE run_views SET visibility = ?2, updated_at = ?3 WHERE id = ?1")?
                    .execute(params![entry.id, to, store.now])?;
                store.touched(work, run_id, &entry.path)?;
                work.change(&entry.path, ChangeKind::Demote);
            }
            Ok(())
        })?;
        Ok(targets)
    }

    /// Performs a verb in a transaction, which is rolled back on an error.
    fn perform<T>(
        &mut self,
        verb: &'static str,
        run_id: i64,
        turn: Option<i64>,
        path: &str,
        writer: Writer,
        action: impl FnOnce(&mut Self, &mut Work) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = path.to_owned();
        let caller = self.caller.clone();
        let line = AuditLine {
            verb,
            writer,
            caller,
            run_id,
            turn: turn.unwrap_or(0),
            path,
            rows: 0,
            before: None,
            after: None,
        };
        let digests = self.audit.is_some().then(<(Sha256, Sha256)>::default);
        let mut work = Work { line, digests, has_before: false, changes: Vec::new(), resolved: Vec::new() };
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let done = action(self, &mut work).and_then(|value| {
            if let (Some(audit), Some((before, after))) = (&mut self.audit, work.digests.take()) {
                let has_after = work.line.rows > 0 && !matches!(verb, "rm");
                work.line.before = work.has_before.then(|| hex::encode(before.finalize()));
                work.line.after = has_after.then(|| hex::encode(after.finalize()));
                audit.record(&work.line)?;
            }
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(value)
        });
        match done {
            Ok(value) => {
                self.woken.extend(work.resolved.iter().filter_map(|path| self.waiters.take(run_id, path)));
                self.changes.append(&mut work.changes);
                Ok(value)
            }
            Err(error) => {
                if !self.connection.is_autocommit() {
                    self.connection.prepare_cached("ROLLBACK")?.execute([])?;
                }
                Err(error)
            }
        }
    }

    /// Counts a changed row, and digests its new content.
    fn touched(&mut self, work: &mut Work, run_id: i64, path: &str) -> Result<(), StoreError> {
        work.line.rows += 1;
        if !self.recorded.is_empty() {
            self.recorded.remove(&(run_id, path.to_owned()));
        }
        if work.digests.is_some() {
            let entry = self.at(run_id, path)?;
            if let (Some((_, after)), Some(entry)) = (&mut work.digests, entry) {
                digest(after, &entry);
            }
        }
        Ok(())
    }

    fn write(&mut self, set: &Set, writer: Writer, work: &mut Work) -> Result<(), StoreError> {
        let path = text::normalize_path(&set.path);
        let body = set.body.as_deref().unwrap_or_default();
        let rule = self.rule(&path);
        if path.chars().count() > MAX_OF_PATH {
            return Err(StoreError::invalid(format!(
                "set: the path has more than {MAX_OF_PATH} characters; shorten it with slugPath"
            )));
        }
        self.permit(&path, &rule, writer)?;
        self.fits(&path, body.len())?;
        let scope = self.scope(&path, &rule, set.run_id, set.project_id)?.to_string();
        let current = self.at(set.run_id, &path)?;
        work.before(current.as_ref());
        let attributes = attributes_of(&path, set.attributes.as_ref(), current.as_ref());
        self.detach_others(set.run_id, &path)?;
        let entry_id: i64 = self
            .connection
            .prepare_cached(
                "INSERT INTO entries (scope, path, body, attributes, hash, created_at, updated_at)
                 VALUES (?1, ?2, ?3, COALESCE(?4, '{}'), ?5, ?6, ?6)
                 ON CONFLICT (scope, path) DO UPDATE SET body = excluded.body,
                 attributes = COALESCE(?4, attributes), hash = COALESCE(?5, hash), updated_at = ?6
                 RETURNING id",
            )?
            .query_row(params![scope, path, body, attributes, set.hash, self.now], |row| row.get(0))?;
        let state = set.state.unwrap_or(State::Resolved);
        let shown = set
            .visibility
            .unwrap_or_else(|| self.options.profile.default_visibility(text::registered_scheme(&path), &rule.category));
        self.connection
            .prepare_cached(
                "INSERT INTO run_views (run_id, path, entry_id, loop_id, turn, state, outcome, visibility, writer,
                 created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, COALESCE(?5, 0), ?6, ?7, ?8, ?9, ?10, ?10)
                 ON CONFLICT (run_id, path) DO UPDATE SET entry_id = ?3, loop_id = COALESCE(?4, loop_id),
                 turn = COALESCE(?5, turn), state = ?6, outcome = ?7, visibility = ?8, writer = ?9,
                 write_count = write_count + 1, updated_at = ?10",
            )?
            .execute(params![
                set.run_id,
                path,
                entry_id,
                set.loop_id,
                set.turn,
                state,
                set.outcome,
                shown,
                writer,
                self.now
            ])?;
        self.touched(work, set.run_id, &path)?;
        work.change(&path, ChangeKind::Upsert);
        if state != State::Proposed {
            work.resolved.push(path);
        }
        Ok(())
    }

    fn append(&mut self, set: &Set, writer: Writer, work: &mut Work) -> Result<(), StoreError> {
        let Some(chunk) = &set.body else {
            return Err(StoreError::invalid("set: append requires body; pass the text to add"));
        };
        let path = text::normalize_path(&set.path);
        self.permit_change(&path, writer)?;
        if let Some(size) = self.body_size(set.run_id, &path)? {
            self.fits(&path, size + chunk.len())?;
            if work.digests.is_some() {
                let current = self.at(set.run_id, &path)?;
                work.before(current.as_ref());
            }
            let entry_id = self.own(set.run_id, &path)?;
            self.connection
                .prepare_cached("UPDATE entries SET body = body || ?2, updated_at = ?3 WHERE id = ?1")?
                .execute(params![entry_id, chunk, self.now])?;
            self.touched(work, set.run_id, &path)?;
        }
        work.change(&path, ChangeKind::Append);
        Ok(())
    }

    fn patch(&mut self, set: &Set, writer: Writer, work: &mut Work) -> Result<(), StoreError> {
        let path = text::normalize_path(&set.path);
        let current = self.at(set.run_id, &path)?;
        // A client may decide about proposals of any scheme.
        let decides = writer == Writer::Client && current.as_ref().is_some_and(|entry| entry.state == State::Proposed);
        if set.attributes.is_some() || set.state.is_some() && !decides {
            self.permit_change(&path, writer)?;
        }
        work.before(current.as_ref());
        if let Some(state) = set.state {
            self.connection
                .prepare_cached(
                    "UPDATE run_views SET state = ?3, outcome = ?4, writer = ?5, updated_at = ?6
                     WHERE run_id = ?1 AND path = ?2",
                )?
                .execute(params![set.run_id, path, state, set.outcome, writer, self.now])?;
            work.change(&path, ChangeKind::Resolve);
            if state != State::Proposed {
                work.resolved.push(path.clone());
            }
        }
        if let Some(visibility) = set.visibility {
            self.connection
                .prepare_cached(
                    "UPDATE run_views SET visibility = ?3, updated_at = ?4 WHERE run_id = ?1 AND path = ?2",
                )?
                .execute(params![set.run_id, path, visibility, self.now])?;
            work.change(&path, ChangeKind::Visibility);
        }
        if let Some(attributes) = &set.attributes {
            if current.is_some() {
                let entry_id = self.own(set.run_id, &path)?;
                let attributes = serde_json::to_string(attributes).unwrap_or_default();
                self.connection
                    .prepare_cached(
                        "UPDATE entries SET attributes = json_patch(attributes, ?2), updated_at = ?3 WHERE id = ?1",
                    )?
                    .execute(params![entry_id, attributes, self.now])?;
            }
            work.change(&path, ChangeKind::Attributes);
        }
        if current.is_some() {
            self.touched(work, set.run_id, &path)?;
        }
        Ok(())
    }

    fn set_matching(&mut self, set: &Set, writer: Writer, work: &mut Work) -> Result<(), StoreError> {
        let target = Target {
            run_id: set.run_id,
            turn: set.turn.unwrap_or(0),
            path: set.path.clone(),
            body_filter: set.body_filter.clone(),
        };
        if let (Some(body), false) = (&set.body, set.append) {
            for path in self.matching_paths(&target)? {
                self.permit_change(&path, writer)?;
                self.fits(&path, body.len())?;
                if work.digests.is_some() {
                    let current = self.at(set.run_id, &path)?;
                    work.before(current.as_ref());
                }
                let entry_id = self.own(set.run_id, &path)?;
                self.connection
                    .prepare_cached("UPDATE entries SET body = ?2, updated_at = ?3 WHERE id = ?1")?
                    .execute(params![entry_id, body, self.now])?;
                self.connection
                    .prepare_cached(
                        "UPDATE run_views SET write_count = write_count + 1, writer = ?3, updated_at = ?4
                         WHERE run_id = ?1 AND path = ?2",
                    )?
                    .execute(params![set.run_id, path, writer, self.now])?;
                self.touched(work, set.run_id, &path)?;
            }
            work.change(&set.path, ChangeKind::Body);
        }
        if let Some(visibility) = set.visibility {
            self.expose(&target, visibility, work)?;
            let is_promotion = visibility == Visibility::Visible;
            work.change(&set.path, if is_promotion { ChangeKind::Promote } else { ChangeKind::Demote });
        }
        Ok(())
    }

    /// Sets the visibility of matching entries. With [`Conduct::Faithful`], also changes the columns that rummy's code changes.
    fn expose(&mut self, target: &Target, visibility: Visibility, work: &mut Work) -> Result<usize, StoreError> {
        let sql = match (self.options.conduct, visibility) {
            (Conduct::Faithful, Visibility::Visible) => {
                "UPDATE run_views SET visibility = 'visible', state = 'resolved', outcome = NULL, turn = ?3, updated_at = ?4
                 WHERE run_id = ?1 AND path = ?2"
            }
            (Conduct::Faithful, _) => {
                "UPDATE run_views SET visibility = 'archived', updated_at = ?4 WHERE run_id = ?1 AND path = ?2 AND ?3 >= 0"
            }
            (Conduct::Strict, Visibility::Visible) => {
                "UPDATE run_views SET visibility = 'visible', turn = ?3, updated_at = ?4 WHERE run_id = ?1 AND path = ?2"
            }
            (Conduct::Strict, Visibility::Summarized) => {
                "UPDATE run_views SET visibility = 'summarized', updated_at = ?4
                 WHERE run_id = ?1 AND path = ?2 AND ?3 >= 0"
            }
            (Conduct::Strict, Visibility::Archived) => {
                "UPDATE run_views SET visibility = 'archived', updated_at = ?4
                 WHERE run_id = ?1 AND path = ?2 AND ?3 >= 0"
            }
        };
        let paths = self.matching_paths(target)?;
        for path in &paths {
            if work.digests.is_some() {
                let current = self.at(target.run_id, path)?;
                work.before(current.as_ref());
            }
            self.connection.prepare_cached(sql)?.execute(params![target.run_id, path, target.turn, self.now])?;
            self.touched(work, target.run_id, path)?;
            if self.options.conduct == Conduct::Faithful && visibility == Visibility::Visible {
                work.resolved.push(path.clone());
            }
        }
        Ok(paths.len())
    }

    fn remove(&mut self, removal: &Removal, writer: Writer, work: &mut Work) -> Result<usize, StoreError> {
        let target = &removal.target;
        let is_pattern =
            target.body_filter.is_some() || removal.files_only || target.path.contains(['*', '?', '[', ']']);
        let paths = if is_pattern {
            let mut paths = self.matching_paths(target)?;
            paths.retain(|path| !removal.files_only || text::scheme_of(path).is_none());
            paths
        } else {
            vec![text::normalize_path(&target.path)]
        };
        let mut removed = 0;
        for path in &paths {
            if self.options.conduct == Conduct::Strict {
                self.permit_change(path, writer)?;
            }
            if work.digests.is_some() {
                let current = self.at(target.run_id, path)?;
                work.before(current.as_ref());
            }
            removed += self
                .connection
                .prepare_cached("DELETE FROM run_views WHERE run_id = ?1 AND path = ?2")?
                .execute(params![target.run_id, path])?;
            work.resolved.push(path.clone());
        }
        work.line.rows += removed;
        Ok(removed)
    }

    fn copy(&mut self, copy: &Relocate, writer: Writer, work: &mut Work) -> Result<bool, StoreError> {
        let Some(body) = self.body(copy.to.run_id, &copy.from)? else { return Ok(false) };
        self.write(&Set { body: Some(body), ..copy.to.clone() }, writer, work)?;
        Ok(true)
    }

    /// Fails if the writer may not change an entry of this scheme. With [`Conduct::Faithful`], only full writes are checked.
    fn permit_change(&self, path: &str, writer: Writer) -> Result<(), StoreError> {
        match self.options.conduct {
            Conduct::Strict => self.permit(path, &self.rule(path), writer),
            Conduct::Faithful => Ok(()),
        }
    }

    fn fits(&self, path: &str, size: usize) -> Result<(), StoreError> {
        let limit = self.options.max_body;
        if size > limit { Err(StoreError::Overflow { path: path.to_owned(), size, limit }) } else { Ok(()) }
    }

    fn body_size(&self, run_id: i64, path: &str) -> Result<Option<usize>, StoreError> {
        let sql = "SELECT octet_length(e.body) FROM run_views AS v JOIN entries AS e ON e.id = v.entry_id
             WHERE v.run_id = ?1 AND v.path = ?2";
        Ok(self.connection.prepare_cached(sql)?.query_row(params![run_id, path], |row| row.get(0)).optional()?)
    }

    /// Returns the id of an entry's content that this run may change: its own content, which other runs no longer share
    /// afterwards, content of a project or of all runs, or else a copy of another run's content.
    fn own(&mut self, run_id: i64, path: &str) -> Result<i64, StoreError> {
        let sql = "SELECT e.id, e.scope FROM run_views AS v JOIN entries AS e ON e.id = v.entry_id
             WHERE v.run_id = ?1 AND v.path = ?2";
        let (entry_id, scope): (i64, String) = self
            .connection
            .prepare_cached(sql)?
            .query_row(params![run_id, path], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if scope == format!("run:{run_id}") {
            self.detach_others(run_id, path)?;
            return Ok(entry_id);
        }
        if !scope.starts_with("run:") {
            return Ok(entry_id);
        }
        self.give_copy(run_id, path, entry_id)
    }

    /// Copies this run's content of an entry for every other run with a view of it, so that a change does not affect those runs.
    fn detach_others(&mut self, run_id: i64, path: &str) -> Result<(), StoreError> {
        // Selects by scope and path, because the run itself may have removed its view.
        let sql = "SELECT o.run_id, o.entry_id FROM entries AS e JOIN run_views AS o ON o.entry_id = e.id
             WHERE e.scope = 'run:' || ?1 AND e.path = ?2 AND o.run_id <> ?1";
        let others: Vec<(i64, i64)> = {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![run_id, path], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (other, entry_id) in others {
            self.give_copy(other, path, entry_id)?;
        }
        Ok(())
    }

    fn give_copy(&mut self, run_id: i64, path: &str, entry_id: i64) -> Result<i64, StoreError> {
        let copy: i64 = self
            .connection
            .prepare_cached(
                "INSERT INTO entries (scope, path, body, attributes, hash, created_at, updated_at)
                 SELECT 'run:' || ?1, path, body, attributes, hash, created_at, updated_at FROM entries WHERE id = ?2
                 ON CONFLICT (scope, path) DO UPDATE SET body = excluded.body, attributes = excluded.attributes,
                 hash = excluded.hash, updated_at = excluded.updated_at
                 RETURNING id",
            )?
            .query_row(params![run_id, entry_id], |row| row.get(0))?;
        self.connection
            .prepare_cached("UPDATE run_views SET entry_id = ?3 WHERE run_id = ?1 AND path = ?2")?
            .execute(params![run_id, path, copy])?;
        Ok(copy)
    }
}

/// Returns the attributes for a full write as JSON: the given ones, or else the entry's current ones. The attributes of a log
/// entry always name its action.
fn attributes_of(path: &str, given: Option<&Map<String, Value>>, current: Option<&Entry>) -> Option<String> {
    let action = text::action_of(path);
    match (given, current) {
        (Some(given), _) => {
            let mut given = given.clone();
            if let Some(action) = action {
                given.entry("action").or_insert_with(|| action.into());
            }
            serde_json::to_string(&given).ok()
        }
        (None, Some(current)) => Some(current.attributes.clone()),
        (None, None) => action.map(|action| serde_json::json!({ "action": action }).to_string()),
    }
}

fn required(verb: &str, run_id: i64, words: &[(&str, &str)]) -> Result<(), StoreError> {
    if run_id <= 0 {
        return Err(StoreError::invalid(format!("{verb}: runId is required; pass the number of the run")));
    }
    match words.iter().find(|(_, word)| word.is_empty()) {
        Some((name, _)) => Err(StoreError::invalid(format!("{verb}: {name} is required"))),
        None => Ok(()),
    }
}
