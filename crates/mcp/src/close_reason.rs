//! Records the reason for the end of a connection.

use std::sync::{Arc, Mutex, PoisonError};

/// The reason for the end of a connection. Only the first reason is kept, because later ones are consequences of it.
#[derive(Clone, Default)]
pub(crate) struct CloseReason(Arc<Mutex<Option<String>>>);

impl CloseReason {
    pub(crate) fn set(&self, reason: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
