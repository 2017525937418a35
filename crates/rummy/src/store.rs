//! The entry store of the dialect, as an [`EntryService`].

use crate::error::RummyError;
use crate::service::{CallPath, EntryAnswer, EntryService, ServiceError};
use pijs_dialect_rummy::{Options, Profile, State, Store, StoreError, Writer};
use pijs_environment::Ambient;
use serde_json::Value;
use std::path::Path;

/// A [`Store`] with the clock of its session.
pub struct StoreService {
    store: Store,
    ambient: Ambient,
}

impl StoreService {
    /// Opens the database at a path, or one in memory; `profile` is that of the plugins.
    ///
    /// # Errors
    ///
    /// The database belongs to something else, is damaged, or cannot be opened.
    pub fn open(path: Option<&Path>, profile: &str, divisor: u32, ambient: Ambient) -> Result<Self, RummyError> {
        let profile = Profile::named(profile)
            .ok_or_else(|| RummyError::Store(format!("there is no rummy profile `{profile}`: use 2.x or 0.5")))?;
        let options = Options { profile, token_divisor: divisor, ..Options::default() };
        let opened = match path {
            Some(path) => Store::open(path, options),
            None => Store::in_memory(options),
        };
        let mut store = opened.map_err(|error| RummyError::Store(error.to_string()))?;
        store.set_now(millis(&ambient));
        Ok(Self { store, ambient })
    }
}

fn millis(ambient: &Ambient) -> i64 {
    i64::try_from(ambient.epoch_ms()).unwrap_or(i64::MAX)
}

fn writer(path: CallPath) -> Writer {
    match path {
        CallPath::Model => Writer::Model,
        CallPath::Client => Writer::Client,
        CallPath::Plugin => Writer::Plugin,
        CallPath::System => Writer::System,
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        Self { message: error.to_string(), details: error.to_json() }
    }
}

impl EntryService for StoreService {
    fn entries(&mut self, method: &str, args: &[Value], path: CallPath) -> Result<EntryAnswer, ServiceError> {
        self.store.set_now(millis(&self.ambient));
        let done = self.store.entries(method, &Value::Array(args.to_vec()), writer(path));
        // Waiters look at the entry itself.
        self.store.take_woken();
        let changes = self.store.take_changes();
        let changes = changes.iter().filter_map(|change| serde_json::to_value(change).ok()).collect();
        Ok(EntryAnswer { value: done?, changes })
    }

    fn statement(&mut self, name: &str, op: &str, params: &Value, path: CallPath) -> Result<Value, ServiceError> {
        self.store.set_now(millis(&self.ambient));
        Ok(match path {
            CallPath::System => self.store.statement(name, op, params),
            _ => self.store.plugin_statement(name, op, params),
        }?)
    }

    fn is_unresolved(&mut self, run_id: i64, path: &str) -> Option<bool> {
        let entry = self.store.entry(run_id, path).ok().flatten()?;
        Some(entry.state == State::Proposed)
    }
}
