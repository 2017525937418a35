//! Opens one database of projects, runs and entries.
//!
//! The table `entries` stores the content of entries, by scope and path; `run_views` stores each run's view of an entry: state,
//! outcome, visibility, turn. A fork copies views. Content is copied on write: a run that changes the content of another run
//! changes a copy, and before the owner changes it, the other runs get copies.

mod open;
mod queries;
mod runs;
mod schemes;
mod statements;
mod verbs;

pub use open::register_functions;
pub(crate) use queries::Page;
pub use verbs::{Relocate, Removal, Set, Target};

use crate::audit::Audit;
use crate::profile::Profile;
use crate::waiting::{WaiterId, Waiters, Woken};
use crate::writer::Conduct;
use crate::{Entry, StoreError, text};
use rusqlite::Connection;
use schemes::Rule;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Settings of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The names that the plugins use.
    pub profile: Profile,
    /// Whether rummy's documents or its code have precedence where they disagree.
    pub conduct: Conduct,
    /// Estimated UTF-16 units per token; rummy's `RUMMY_TOKEN_DIVISOR`.
    pub token_divisor: u32,
    /// Maximum size of a body in bytes; rummy's `RUMMY_ENTRY_SIZE_MAX`.
    pub max_body: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { profile: Profile::v2(), conduct: Conduct::Strict, token_divisor: 2, max_body: 16 << 20 }
    }
}

/// The kind of a change, as subscribers of `entry.changed` receive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The entry was written as a whole.
    Upsert,
    /// Bodies were replaced by a pattern.
    Body,
    /// The entry became visible.
    Promote,
    /// A pattern reduced the visibility.
    Demote,
    /// Text was appended to the body.
    Append,
    /// The state was set.
    Resolve,
    /// The visibility was set.
    Visibility,
    /// Attributes were merged.
    Attributes,
    /// The run's view was removed.
    Remove,
}

/// A change, for the event `entry.changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Id of the run.
    pub run_id: i64,
    /// Path of the entry, or pattern of paths.
    pub path: String,
    /// Kind of the change.
    pub change_type: ChangeKind,
}

/// The store of one database.
///
/// ```
/// use pijs_dialect_rummy::{Options, Set, Store, Writer};
///
/// let mut store = Store::in_memory(Options::default())?;
/// let project = store.upsert_project("demo", None, None)?;
/// let run = store.create_run(project, "demo_1", Some("model"), None)?;
/// store.set(&Set::new(run, "known://plan").body("First the tests."), Writer::Model)?;
/// assert_eq!(store.body(run, "known://plan")?.as_deref(), Some("First the tests."));
/// assert_eq!(store.set(&Set::new(run, "prompt://1").body("x"), Writer::Model).unwrap_err().outcome(), "permission:403");
/// # Ok::<(), pijs_dialect_rummy::StoreError>(())
/// ```
pub struct Store {
    connection: Connection,
    options: Options,
    /// Current time (UTC) in SQLite's format.
    now: String,
    rules: BTreeMap<String, Rule>,
    audit: Option<Box<dyn Audit>>,
    /// The calling plugin, for the audit; `None` for the host.
    caller: Option<String>,
    waiters: Waiters,
    changes: Vec<Change>,
    woken: Vec<Woken>,
    /// Log entries that were recorded and not changed since, by run and path.
    recorded: BTreeSet<(i64, String)>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").field("options", &self.options).field("now", &self.now).finish_non_exhaustive()
    }
}

impl Store {
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets the time of the following operations, in milliseconds since 1970.
    pub fn set_now(&mut self, unix_millis: i64) {
        self.now = timestamp(unix_millis);
    }

    /// Sets the audit that records each operation.
    pub fn set_audit(&mut self, audit: Box<dyn Audit>) {
        self.audit = Some(audit);
    }

    /// Sets the caller of the following operations for the audit; `None` is the host.
    pub fn set_caller(&mut self, caller: Option<String>) {
        self.caller = caller;
    }

    /// Registers a waiter for the resolution of an entry. Returns `false`, without registering the waiter, if the entry is not
    /// proposed.
    pub fn wait(&mut self, run_id: i64, path: &str, waiter: WaiterId) -> Result<bool, StoreError> {
        let path = text::normalize_path(path);
        let is_open = self.entry(run_id, &path)?.is_some_and(|entry| entry.state == crate::State::Proposed);
        if is_open {
            self.waiters.park(run_id, path, waiter);
        }
        Ok(is_open)
    }

    /// Removes a waiter.
    pub fn leave(&mut self, waiter: WaiterId) {
        self.waiters.leave(waiter);
    }

    /// Takes the changes since the last call, oldest first.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Takes the waiters to wake since the last call.
    pub fn take_woken(&mut self) -> Vec<Woken> {
        std::mem::take(&mut self.woken)
    }

    /// Records an action before its handler runs. Plugins do not find the entry until it is changed, because in rummy the handler
    /// creates it; a process that is killed meanwhile leaves it as a trace.
    pub fn record(&mut self, set: &Set) -> Result<(), StoreError> {
        self.set(set, crate::Writer::System)?;
        self.recorded.insert((set.run_id, text::normalize_path(&set.path)));
        Ok(())
    }

    /// Returns whether an entry is only recorded.
    pub(crate) fn is_recorded(&self, run_id: i64, path: &str) -> bool {
        !self.recorded.is_empty() && self.recorded.contains(&(run_id, text::normalize_path(path)))
    }

    /// Returns an entry as a run sees it.
    pub fn entry(&self, run_id: i64, path: &str) -> Result<Option<Entry>, StoreError> {
        self.at(run_id, &text::normalize_path(path))
    }

    /// Returns the body of an entry.
    pub fn body(&self, run_id: i64, path: &str) -> Result<Option<String>, StoreError> {
        Ok(self.entry(run_id, path)?.map(|entry| entry.body))
    }
}

/// Formats a time like SQLite's `CURRENT_TIMESTAMP`.
fn timestamp(unix_millis: i64) -> String {
    let seconds = unix_millis.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Converts days to a date of the Gregorian calendar, with years that begin in March and eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
pub(crate) mod tests;
