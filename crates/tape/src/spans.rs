//! Converts a tape to time spans for trace viewers: Chrome's trace event format, and OpenTelemetry JSON.
//!
//! A span is a realm, a turn, a hostcall or a timer. A tape has the times at which a turn began and each synchronous call was
//! answered, but not the duration of the computation after them. So the end of a turn's span is the last of these times.

use crate::error::TapeError;
use crate::header::TapeHeader;
use crate::reader::TapeReader;
use crate::record::{Event, RealmNumber};
use crate::rerun::name;
use pijs_artifact::digest;
use pijs_protocol::wire::StreamAnswer;
use pijs_protocol::wire::Task;
use pijs_protocol::{CallId, ExtensionId, HostCall, HostResult, Message, Now, TimerId, Yield};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read;

/// Number of hexadecimal digits of a trace id.
const TRACE_ID: usize = 32;

/// The work of a tape's extensions, as time spans.
#[derive(Debug, Clone)]
pub struct Spans {
    header: TapeHeader,
    realms: BTreeMap<RealmNumber, ExtensionId>,
    spans: Vec<Span>,
}

/// A time span on a tape.
#[derive(Debug, Clone)]
pub struct Span {
    /// Number of the span's realm.
    pub realm: RealmNumber,
    /// Index of the span in which this one began; `None` for a realm.
    pub parent: Option<usize>,
    /// Kind of the span.
    pub kind: SpanKind,
    /// Name of the delivery or call.
    pub name: String,
    /// Time at which the span begins.
    pub start: Now,
    /// Time at which the span ends.
    pub end: Now,
    /// Additional data: `tick`, `capability`, `error`, ...
    pub attributes: Map<String, Value>,
    /// Whether the turn or call failed.
    pub is_error: bool,
}

/// The kind of a [`Span`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A realm, from its opening to its last turn.
    Realm,
    /// A turn.
    Turn,
    /// A synchronous call, which begins and ends inside its turn.
    Call,
    /// A call or a timer that ends in a later turn.
    Pending,
}

impl SpanKind {
    fn category(self) -> &'static str {
        match self {
            Self::Realm => "realm",
            Self::Turn => "turn",
            Self::Call => "call",
            Self::Pending => "pending",
        }
    }
}

/// One realm while its records are read.
struct OpenRealm {
    root: usize,
    turn: Option<usize>,
    call: Option<usize>,
    now: Now,
    calls: BTreeMap<CallId, usize>,
    timers: BTreeMap<TimerId, (usize, bool)>,
}

impl Spans {
    /// Returns the header of the tape.
    pub fn header(&self) -> &TapeHeader {
        &self.header
    }

    /// Returns the extension of each realm.
    pub fn realms(&self) -> &BTreeMap<RealmNumber, ExtensionId> {
        &self.realms
    }

    /// Iterates over the spans in the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter()
    }

    /// Reads a tape to its end. A tape that was cut off is read as far as it is valid.
    ///
    /// # Errors
    ///
    /// Fails if the tape is damaged in any other way.
    pub fn of(tape: &mut TapeReader<impl Read>) -> Result<Self, TapeError> {
        let mut spans = Self { header: tape.header().clone(), realms: BTreeMap::new(), spans: Vec::new() };
        let mut open: BTreeMap<RealmNumber, OpenRealm> = BTreeMap::new();
        let mut tick = 0_u64;
        for record in tape.by_ref() {
            let record = match record {
                Err(error) if error.is_cut() => break,
                record => record?,
            };
            tick += u64::from(record.event.begins_tick());
            if let Event::Open(opening) = &record.event {
                spans.realms.insert(record.realm, opening.extension().clone());
                let root =
                    spans.begin(record.realm, None, SpanKind::Realm, opening.extension().to_string(), opening.now);
                let (calls, timers) = (BTreeMap::new(), BTreeMap::new());
                let state = OpenRealm { root, turn: None, call: None, now: opening.now, calls, timers };
                open.insert(record.realm, state);
            }
            if let Some(state) = open.get_mut(&record.realm) {
                spans.take(record.realm, state, record.event, tick);
            }
        }
        Ok(spans)
    }

    fn begin(&mut self, realm: RealmNumber, parent: Option<usize>, kind: SpanKind, name: String, now: Now) -> usize {
        let attributes = Map::new();
        self.spans.push(Span { realm, parent, kind, name, start: now, end: now, attributes, is_error: false });
        self.spans.len() - 1
    }

    fn end(&mut self, at: usize, now: Now) {
        let end = &mut self.spans[at].end;
        if now.elapsed_us > end.elapsed_us {
            *end = now;
        }
    }

    fn set(&mut self, at: usize, name: &str, value: impl Into<Value>) {
        self.spans[at].attributes.insert(name.to_owned(), value.into());
    }

    fn take(&mut self, realm: RealmNumber, state: &mut OpenRealm, event: Event, tick: u64) {
        match event {
            Event::Open(_) => {
                let turn = self.begin(realm, Some(state.root), SpanKind::Turn, "open".to_owned(), state.now);
                self.set(turn, "tick", tick);
                state.turn = Some(turn);
            }
            Event::Delivery(delivery) => {
                state.now = delivery.now;
                // Deltas that passed together form a single turn.
                let turn = match state.turn {
                    Some(turn) => turn,
                    None => self.begin(realm, Some(state.root), SpanKind::Turn, name(&delivery.task), delivery.now),
                };
                state.turn = Some(turn);
                self.set(turn, "tick", tick);
                self.set(turn, "seq", delivery.seq.0);
                self.arrived(state, &delivery.task);
            }
            Event::Call(call) => {
                let span = self.begin(realm, state.turn, SpanKind::Call, call_name(&call), state.now);
                self.set(span, "capability", call.capability.as_str());
                self.set(span, "host_call_id", call.call_id.as_str());
                state.call = Some(span);
            }
            Event::Reply(reply) => {
                state.now = reply.now;
                if let Some(call) = state.call.take() {
                    self.answered(call, &reply.result, reply.now);
                }
                if let Some(turn) = state.turn {
                    self.end(turn, reply.now);
                }
            }
            Event::Yield(done) => self.yielded(realm, state, &done),
            Event::Termination(reason) => {
                let turn = state.turn.take().unwrap_or(state.root);
                self.spans[turn].is_error = true;
                self.set(turn, "ended", reason.to_string());
            }
            Event::Header(_) | Event::Blob(_) | Event::Agent(_) | Event::End(_) => {}
        }
        self.end(state.root, state.now);
    }

    /// Ends the span of a call or timer when its input arrives.
    fn arrived(&mut self, state: &mut OpenRealm, task: &Task) {
        let Task::Message(message) = task else { return };
        match message.as_ref() {
            Message::HostResult(result) if result.is_final() => {
                if let Some(span) = state.calls.remove(&result.call_id) {
                    self.answered(span, result, state.now);
                }
            }
            Message::TimerFired { timer } => {
                let Some((span, repeats)) = state.timers.get(timer).copied() else { return };
                self.end(span, state.now);
                if !repeats {
                    state.timers.remove(timer);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, span: usize, result: &HostResult, now: Now) {
        self.end(span, now);
        if let Some(error) = &result.error {
            self.spans[span].is_error = true;
            self.set(span, "error", error.code.as_str());
        }
    }

    fn yielded(&mut self, realm: RealmNumber, state: &mut OpenRealm, done: &Yield) {
        let Some(turn) = state.turn.take() else { return };
        self.set(turn, "jobs", done.usage.jobs);
        self.set(turn, "fuel", done.usage.fuel);
        self.set(turn, "heap_bytes", done.usage.heap_bytes);
        if let StreamAnswer::Abort(_) = done.stream {
            self.set(turn, "verdict", "abort");
        }
        for message in &done.messages {
            match message {
                Message::HostCall(call) => {
                    let span = self.begin(realm, Some(turn), SpanKind::Pending, call_name(call), state.now);
                    self.set(span, "capability", call.capability.as_str());
                    self.set(span, "host_call_id", call.call_id.as_str());
                    state.calls.insert(call.call_id.clone(), span);
                }
                Message::TimerSet { timer, delay_ms, repeat } => {
                    let span =
                        self.begin(realm, Some(turn), SpanKind::Pending, format!("timer {}", timer.0), state.now);
                    self.set(span, "delay_ms", *delay_ms);
                    state.timers.insert(*timer, (span, *repeat));
                }
                Message::TimerClear { timer } => {
                    if let Some((span, _)) = state.timers.remove(timer) {
                        self.end(span, state.now);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the document that Chrome's `about:tracing` and Perfetto open.
    pub fn chrome(&self) -> Value {
        let mut events: Vec<Value> = Vec::new();
        for (realm, extension) in &self.realms {
            let name = json!({ "name": extension.as_str() });
            events.push(json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": realm.0, "args": name }));
        }
        for (id, span) in self.spans.iter().enumerate().filter(|(_, span)| span.kind != SpanKind::Realm) {
            let Span { realm, kind, name, start, end, attributes, .. } = span;
            let (from, to) = (start.elapsed_us, end.elapsed_us);
            let (tid, cat) = (realm.0, kind.category());
            if *kind == SpanKind::Pending {
                let ends = [("b", from, json!(attributes)), ("e", to, json!({}))];
                events.extend(ends.map(|(ph, ts, args)| {
                    json!({ "name": name, "cat": cat, "ph": ph, "id": id, "ts": ts, "pid": 1, "tid": tid, "args": args })
                }));
            } else {
                let dur = to - from;
                events.push(json!({ "name": name, "cat": cat, "ph": "X", "ts": from, "dur": dur, "pid": 1, "tid": tid,
                    "args": attributes }));
            }
        }
        json!({ "traceEvents": events, "displayTimeUnit": "ms", "otherData": { "pi": self.header.pi } })
    }

    /// Returns the document that OpenTelemetry collectors accept (`ExportTraceServiceRequest` as JSON).
    pub fn otel(&self) -> Value {
        let header = serde_json::to_vec(&self.header).unwrap_or_default();
        let digest = digest(&header);
        let hex = digest.rsplit(':').next().unwrap_or_default();
        let trace_id = &hex[..TRACE_ID.min(hex.len())];
        let span_id = |at: usize| format!("{:016x}", at + 1);
        let resources: Vec<Value> = self
            .realms
            .iter()
            .map(|(realm, extension)| {
                let of_realm = self.spans.iter().enumerate().filter(|(_, span)| span.realm == *realm);
                let spans: Vec<Value> = of_realm
                    .map(|(at, span)| {
                        json!({
                            "traceId": trace_id, "spanId": span_id(at),
                            "parentSpanId": span.parent.map(span_id).unwrap_or_default(), "name": span.name, "kind": 1,
                            "startTimeUnixNano": nanoseconds(self.header.epoch_ms, span.start),
                            "endTimeUnixNano": nanoseconds(self.header.epoch_ms, span.end),
                            "attributes": attributes(&span.attributes),
                            "status": if span.is_error { json!({ "code": 2 }) } else { json!({}) },
                        })
                    })
                    .collect();
                let of = Map::from_iter([
                    ("service.name".to_owned(), Value::from("pi")),
                    ("service.version".to_owned(), self.header.pi.as_str().into()),
                    ("extension_id".to_owned(), extension.as_str().into()),
                ]);
                let scopes = json!([{ "scope": { "name": "pi.ext.tape.v1" }, "spans": spans }]);
                json!({ "resource": { "attributes": attributes(&of) }, "scopeSpans": scopes })
            })
            .collect();
        json!({ "resourceSpans": resources })
    }
}

/// Returns the name of a call, such as `fs readFile`: the connector, and the operation if the connector has several.
fn call_name(call: &HostCall) -> String {
    match call.params.get("op").and_then(Value::as_str) {
        Some(op) => format!("{} {op}", call.method),
        None => call.method.to_string(),
    }
}

/// Returns nanoseconds since 1970 as text, which is how the format represents 64-bit integers.
fn nanoseconds(epoch_ms: u64, now: Now) -> String {
    (u128::from(epoch_ms) * 1_000_000 + u128::from(now.elapsed_us) * 1_000).to_string()
}

fn attributes(members: &Map<String, Value>) -> Value {
    let attribute = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Bool(value) => json!({ "boolValue": value }),
            Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            Value::String(text) => json!({ "stringValue": text }),
            other => json!({ "stringValue": other.to_string() }),
        };
        json!({ "key": key, "value": value })
    };
    members.iter().map(attribute).collect()
}
