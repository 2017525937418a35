//! State that the imports of one component share: the host of the turn, the outbox, time, randomness and limits.

use crate::log_output::{LineBuffer, LogQuota};
use crate::slot::HostSlot;
use pijs_protocol::hostcall::HostcallError;
use pijs_protocol::log::{Component, Correlation, LOG_SCHEMA, Level, LogEntry, Source};
use pijs_protocol::wire::{Json, RealmOptions, StateDelta};
use pijs_protocol::{CallId, Capability, HostCall, HostResult, Message, Method, Now, guard};
use pijs_tick::Entropy;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::macros::format_description;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Result};

/// Maximum number of instances, memories and tables of one component, each. A component built from C has five, for its adapters
/// and shims.
const MAX_PARTS: usize = 64;

/// Maximum number of elements of one table.
const TABLE_ELEMENTS: usize = 1_000_000;

/// Kind of request that waits for `answers.finish`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    Event,
    Tool,
    Command,
}

/// The data of a component's store.
pub(crate) struct State {
    pub(crate) host: HostSlot,
    pub(crate) wasi: WasiState,
    pub(crate) outbox: Vec<Message>,
    pub(crate) awaited: BTreeMap<String, Awaited>,
    pub(crate) facts: Map<String, Value>,
    pub(crate) readable: BTreeMap<String, Json>,
    pub(crate) entries: Vec<Json>,
    pub(crate) limits: Memory,
    pub(crate) logged: LogQuota,
    pub(crate) timers: u32,
    calls: u64,
}

/// The data of WASI: its resources, time, randomness and output.
pub(crate) struct WasiState {
    pub(crate) table: ResourceTable,
    pub(crate) clock: Clock,
    entropy: Entropy,
    /// Number of draws of random bytes in the running turn.
    pub(crate) draws: u32,
    stdout: LineBuffer,
    stderr: LineBuffer,
}

impl State {
    pub(crate) fn new(options: &RealmOptions) -> Self {
        Self {
            host: HostSlot::default(),
            wasi: WasiState {
                table: ResourceTable::new(),
                clock: Clock::new(options.clock_step_us),
                entropy: Entropy::seeded(options.seed),
                draws: 0,
                stdout: LineBuffer::default(),
                stderr: LineBuffer::default(),
            },
            outbox: Vec::new(),
            awaited: BTreeMap::new(),
            facts: options.facts.clone(),
            readable: BTreeMap::new(),
            entries: Vec::new(),
            limits: Memory::new(options.limits.memory_bytes),
            logged: LogQuota::default(),
            timers: 0,
            calls: 0,
        }
    }

    /// Applies a delta of the readable state.
    pub(crate) fn apply(&mut self, delta: StateDelta) {
        self.readable.extend(delta.set);
        if let Some(entries) = delta.entries {
            self.entries.truncate(entries.keep);
            self.entries.extend(entries.append);
        }
    }

    /// Creates a request. Its id, the next one, is its ticket.
    pub(crate) fn request(
        &mut self,
        method: &str,
        capability: &str,
        params: Map<String, Value>,
        bytes: Vec<Vec<u8>>,
        timeout_ms: Option<u64>,
    ) -> (u64, HostCall) {
        self.calls += 1;
        let call = HostCall {
            call_id: CallId::new(format!("host-{}", self.calls)),
            capability: Capability::new(capability),
            method: Method::new(method),
            params,
            timeout_ms,
            cancel_token: None,
            context: None,
            bytes,
        };
        (self.calls, call)
    }

    /// Executes a call, and applies the time and the state in its reply.
    pub(crate) fn answer_now(&mut self, call: HostCall) -> Result<HostResult, HostcallError> {
        let Some(reply) = self.host.call(call) else {
            return Err(HostcallError::invalid("too_early", "a component can call its host only during a turn"));
        };
        self.wasi.clock.set(reply.now);
        if let Some(delta) = reply.state {
            self.apply(delta);
        }
        match reply.result.error {
            Some(error) => Err(error),
            None => Ok(reply.result),
        }
    }

    /// Calls a method and returns its result.
    pub(crate) fn call_now(
        &mut self,
        method: &str,
        capability: &str,
        params: Value,
        bytes: Vec<Vec<u8>>,
    ) -> Result<HostResult, HostcallError> {
        let Value::Object(params) = params else { unreachable!("parameters are an object") };
        let (_, call) = self.request(method, capability, params, bytes, None);
        self.answer_now(call)
    }

    /// Writes a log entry, within the limits of the turn.
    pub(crate) fn log(&mut self, level: Level, event: &str, message: String) {
        if self.logged.admits(&message) {
            self.write_log(level, event, message);
        }
    }

    fn write_log(&mut self, level: Level, event: &str, message: String) {
        if self.facts.get("observesEvents") == Some(&Value::Bool(true)) {
            // Sent at once, so that a recording driver sees the order. A refusal is in the ledger.
            let _ =
                self.call_now("log", "log", json!({ "level": level, "event": event, "message": message }), Vec::new());
            return;
        }
        let ts = timestamp(self.wasi.clock.read().epoch_ms);
        self.outbox.push(Message::Log(LogEntry {
            schema: LOG_SCHEMA.to_owned(),
            ts,
            level,
            event: event.to_owned(),
            message,
            correlation: Correlation::default(),
            source: Some(Source { component: Component::Extension, host: None, pid: None }),
            data: Map::new(),
        }));
    }

    /// Appends standard output or standard error of the component. Complete lines become log entries.
    pub(crate) fn print(&mut self, is_error: bool, bytes: &[u8]) {
        let mut buffer = std::mem::take(self.output(is_error));
        buffer.push(bytes, |line| self.log(level_of(is_error), "console", line));
        *self.output(is_error) = buffer;
    }

    fn output(&mut self, is_error: bool) -> &mut LineBuffer {
        if is_error { &mut self.wasi.stderr } else { &mut self.wasi.stdout }
    }

    /// Logs incomplete last lines, and how many entries the turn left out.
    pub(crate) fn flush(&mut self) {
        for is_error in [false, true] {
            if let Some(line) = self.output(is_error).rest() {
                self.log(level_of(is_error), "console", line);
            }
        }
        if let Some(notice) = self.logged.take_notice() {
            self.write_log(Level::Warn, "console", notice);
        }
    }

    pub(crate) fn random(&mut self, out: &mut [u8]) {
        self.wasi.draws += 1;
        self.wasi.entropy.fill(out);
    }
}

fn level_of(is_error: bool) -> Level {
    if is_error { Level::Warn } else { Level::Info }
}

/// Formats a time as RFC 3339 with milliseconds.
fn timestamp(epoch_ms: u64) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let nanoseconds = i128::from(epoch_ms) * 1_000_000;
    let at = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(&format).unwrap_or_default()
}

/// The driver's time: it starts with the turn's time, and each reading advances it by a fixed step.
pub(crate) struct Clock {
    now: Now,
    ahead_us: u64,
    latest_us: u64,
    step_us: u64,
    pub(crate) reads: u32,
}

impl Clock {
    fn new(step_us: u32) -> Self {
        Self { now: Now::default(), ahead_us: 0, latest_us: 0, step_us: step_us.into(), reads: 0 }
    }

    /// Sets the time of a turn.
    pub(crate) fn begin(&mut self, now: Now) {
        self.reads = 0;
        self.set(now);
    }

    fn set(&mut self, now: Now) {
        self.now = now;
        self.ahead_us = 0;
    }

    /// Reads the time, which never decreases.
    pub(crate) fn read(&mut self) -> Now {
        self.reads += 1;
        let ahead_us = self.ahead_us;
        self.ahead_us += self.step_us;
        self.latest_us = self.latest_us.max(self.now.elapsed_us + ahead_us);
        Now { epoch_ms: self.now.epoch_ms + ahead_us / 1000, elapsed_us: self.latest_us }
    }
}

/// Enforces the realm's memory limit on memories and tables.
pub(crate) struct Memory {
    most: u64,
    pub(crate) used: u64,
    /// Whether growth was refused. If the component then traps, it ran out of memory.
    pub(crate) refused: bool,
}

impl Memory {
    fn new(most: u64) -> Self {
        Self { most, used: 0, refused: false }
    }

    fn admits(&mut self, current: usize, desired: usize, element: u64) -> bool {
        let more = (desired.saturating_sub(current) as u64).saturating_mul(element);
        let total = self.used.saturating_add(more);
        if total > self.most && guard!(WasmMemory) {
            self.refused = true;
            return false;
        }
        self.used = total;
        true
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.admits(current, desired, 1))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(desired <= TABLE_ELEMENTS && self.admits(current, desired, size_of::<usize>() as u64))
    }

    fn instances(&self) -> usize {
        MAX_PARTS
    }

    fn tables(&self) -> usize {
        MAX_PARTS
    }

    fn memories(&self) -> usize {
        MAX_PARTS
    }
}
