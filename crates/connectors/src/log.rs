//! Writes log lines of extensions to the ledger.
//!
//! A line is one value under `data.extension`, so an extension cannot imitate a line of the host. The rate of each extension is
//! limited in bytes; dropped lines are counted, and reported with the next line that is written.

use crate::params;
use pijs_environment::Timer;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Ledger, Output, Request};
use pijs_protocol::log::Level;
use pijs_protocol::{ExtensionId, HostcallError, Now};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of bytes that an extension may log in a burst.
const BURST: u64 = 4 << 20;
/// Maximum rate in bytes per second after the burst.
const PER_SECOND: u64 = 256 << 10;
/// Maximum size of a message in bytes; longer messages are truncated.
const LONGEST_MESSAGE: usize = 8 << 10;

/// Writes `log` calls to the ledger.
pub struct LogConnector {
    ledger: Ledger,
    timer: Arc<dyn Timer>,
    budgets: Mutex<BTreeMap<ExtensionId, Budget>>,
}

struct Budget {
    left: u64,
    at_us: u64,
    dropped: u64,
}

impl LogConnector {
    /// Creates a connector that writes to `ledger`.
    pub fn new(ledger: Ledger, timer: Arc<dyn Timer>) -> Self {
        Self { ledger, timer, budgets: Mutex::default() }
    }

    /// Takes `size` bytes from the extension's budget. Returns the number of lines that were dropped before this one, or `None`
    /// if this line is dropped.
    fn take(&self, extension: &ExtensionId, size: u64, now: Now) -> Option<u64> {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let budget =
            budgets.entry(extension.clone()).or_insert(Budget { left: BURST, at_us: now.elapsed_us, dropped: 0 });
        let passed = now.elapsed_us.saturating_sub(budget.at_us);
        let back = passed.saturating_mul(PER_SECOND) / 1_000_000;
        if back > 0 {
            budget.left = budget.left.saturating_add(back).min(BURST);
            budget.at_us = now.elapsed_us;
        }
        match budget.left.checked_sub(size) {
            Some(left) => {
                budget.left = left;
                Some(std::mem::take(&mut budget.dropped))
            }
            None if !pijs_protocol::guard!(LogRate) => Some(0),
            None => {
                budget.dropped += 1;
                None
            }
        }
    }
}

impl Connector for LogConnector {
    fn call(&self, request: Request, _sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let answer = self.call_sync(&request);
        Box::pin(std::future::ready(answer))
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let level = match params::text_or_none(request, "level")?.unwrap_or("info") {
            "debug" => Level::Debug,
            "info" => Level::Info,
            "warn" => Level::Warn,
            "error" => Level::Error,
            other => {
                return Err(HostcallError::invalid(
                    "schema",
                    format!("log: {other:?} is not one of debug, info, warn, error"),
                ));
            }
        };
        let event = params::text_or_none(request, "event")?;
        let message = params::text_or_none(request, "message")?.or(event).unwrap_or_default();
        let mut end = message.len().min(LONGEST_MESSAGE);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &message[..end];
        let mut data = Map::new();
        if let Some(event) = event {
            data.insert("event".to_owned(), Value::from(event));
        }
        if let Some(value) = request.params.get("data") {
            data.insert("data".to_owned(), value.clone());
        }
        let size = message.len() + serde_json::to_vec(&data).map_or(0, |text| text.len());
        let now = self.timer.now();
        if let Some(dropped) = self.take(request.caller.extension(), size as u64 + 256, now) {
            if dropped > 0 {
                data.insert("dropped_before".to_owned(), Value::from(dropped));
            }
            self.ledger.extension_log(now, &request.caller, level, "extension.log", message, data);
        }
        Ok(Output::empty())
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }
}
