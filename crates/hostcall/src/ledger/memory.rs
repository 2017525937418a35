//! A ledger sink in memory.

use super::sink::LedgerSink;
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps lines in memory, for tests and embedders.
#[derive(Debug, Default)]
pub struct MemorySink {
    bytes: Mutex<Vec<u8>>,
}

impl MemorySink {
    /// Creates an empty sink.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Returns the bytes written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the lines as JSON values.
    pub fn lines(&self) -> Vec<Value> {
        serde_json::Deserializer::from_slice(&self.bytes()).into_iter().map_while(Result::ok).collect()
    }
}

impl LedgerSink for MemorySink {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
        Ok(())
    }
}
