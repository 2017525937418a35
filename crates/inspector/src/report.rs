//! Collects the data of the page.

use crate::agent::AgentRows;
use crate::ledger::Decision;
use crate::stream::{Chunk, Stream, Verdict};
use pijs_protocol::wire::Task;
use pijs_protocol::{ExtensionId, Now};
use pijs_tape::{Event, RealmNumber, Span, SpanKind, Spans, TapeError, TapeReader};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

/// Name of the lane of the agent.
const AGENT: &str = "agent";

/// Error code of a call that the gate refused.
const DENIED: &str = "denied";

/// Everything that the page shows. Times are microseconds since the start of the session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of pi that recorded the tape.
    pub pi: String,
    /// Wall clock at the start, milliseconds since 1970.
    pub started_ms: u64,
    /// Policy of the gate.
    pub policy: String,
    /// Whether the recording is complete.
    pub complete: bool,
    /// End of the last span.
    pub end: u64,
    /// Number of ticks.
    pub ticks: u64,
    /// Number of realms.
    pub realms: usize,
    /// One lane for each realm, in the order in which the realms were opened, after the agent's lane if the tape has records of
    /// the agent.
    pub lanes: Vec<Lane>,
    /// Turns, calls, timers, and actions of the agent, in the order in which they began.
    pub rows: Vec<Row>,
    /// The streamed text.
    pub chunks: Vec<Chunk>,
    /// Verdicts on the streamed text.
    pub verdicts: Vec<Verdict>,
    /// Whether decisions of a ledger were joined.
    pub has_ledger: bool,
}

/// A row group of the timeline: a realm, or the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Number of the realm on the tape; 0 for the agent.
    pub realm: u32,
    /// Extension of the realm.
    pub extension: ExtensionId,
}

/// A turn, a call, a timer, or an action of the agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Row {
    /// Number of the lane.
    pub lane: u32,
    /// `turn`; `call` for a call that ends inside its turn; `pending` for a call or timer that ends in a later turn; for the
    /// agent `model`, `tool` and `act`.
    pub kind: &'static str,
    /// Name of the delivery or call.
    pub name: String,
    /// Start time.
    pub from: u64,
    /// End time.
    pub to: u64,
    /// Tick in which the row began.
    pub tick: u64,
    /// Capability of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// Whether the operation failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whether the gate refused the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// The gate's decision, from the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// All other recorded details.
    pub more: Map<String, Value>,
}

impl Report {
    /// Reads a tape in two passes, and joins the decisions of a ledger. A tape that was cut off is read up to the damage.
    ///
    /// # Errors
    ///
    /// Fails for bytes that are not a tape, and for a tape that is damaged anywhere but at its end.
    pub fn of(
        tape: &mut (impl Read + Seek),
        decisions: &BTreeMap<(ExtensionId, String), Decision>,
    ) -> Result<Self, TapeError> {
        let spans = Spans::of(&mut TapeReader::new(&mut *tape)?)?;
        tape.seek(SeekFrom::Start(0)).map_err(TapeError::from)?;
        let mut reader = TapeReader::new(&mut *tape)?;
        let (stream, agent, ticks) = read_stream(&mut reader)?;
        let header = spans.header();
        let extensions = spans.realms();
        let mut rows: Vec<Row> = rows(spans.iter(), extensions, decisions);
        let mut lanes: Vec<Lane> =
            extensions.iter().map(|(realm, id)| Lane { realm: realm.0, extension: id.clone() }).collect();
        let realms = lanes.len();
        if !agent.rows.is_empty() {
            lanes.insert(0, Lane { realm: 0, extension: AGENT.into() });
            rows.extend(agent.rows);
            rows.sort_by_key(|row| row.from);
        }
        // Without a listening extension, only the provider's records contain the replies.
        let chunks = if stream.chunks.is_empty() { agent.chunks } else { stream.chunks };
        Ok(Self {
            pi: header.pi.clone(),
            started_ms: header.epoch_ms,
            policy: header.policy.clone(),
            complete: reader.is_complete(),
            end: rows.iter().map(|row| row.to).max().unwrap_or_default(),
            ticks,
            realms,
            lanes,
            rows,
            chunks,
            verdicts: stream.verdicts,
            has_ledger: !decisions.is_empty(),
        })
    }
}

fn rows<'a>(
    spans: impl Iterator<Item = &'a Span>,
    extensions: &BTreeMap<RealmNumber, ExtensionId>,
    decisions: &BTreeMap<(ExtensionId, String), Decision>,
) -> Vec<Row> {
    let mut ticks: Vec<u64> = Vec::new();
    let mut rows = Vec::new();
    for span in spans {
        let mut more = span.attributes.clone();
        let own = more.remove("tick").and_then(|tick| tick.as_u64());
        let tick = own.or_else(|| ticks.get(span.parent?).copied()).unwrap_or_default();
        ticks.push(tick);
        let kind = match span.kind {
            SpanKind::Realm => continue,
            SpanKind::Turn => "turn",
            SpanKind::Call => "call",
            SpanKind::Pending => "pending",
        };
        let call = more.get("host_call_id").and_then(Value::as_str);
        let decision = call.and_then(|call| {
            let extension = extensions.get(&span.realm)?.clone();
            decisions.get(&(extension, call.to_owned())).cloned()
        });
        let capability = more.remove("capability").and_then(|value| value.as_str().map(str::to_owned));
        rows.push(Row {
            lane: span.realm.0,
            kind,
            name: span.name.clone(),
            from: span.start.elapsed_us,
            to: span.end.elapsed_us,
            tick,
            capability,
            failed: span.is_error,
            denied: more.get("error").is_some_and(|code| code == DENIED),
            decision,
            more,
        });
    }
    rows
}

fn read_stream(tape: &mut TapeReader<impl Read>) -> Result<(Stream, AgentRows, u64), TapeError> {
    let (mut stream, mut agent) = (Stream::default(), AgentRows::default());
    let mut now: BTreeMap<RealmNumber, (Now, u64)> = BTreeMap::new();
    let mut tick = 0;
    for record in tape.by_ref() {
        let record = match record {
            Err(error) if error.is_cut() => break,
            record => record?,
        };
        tick += u64::from(record.event.begins_tick());
        match &record.event {
            Event::Agent(record) => agent.take(record, tick),
            Event::Open(opening) => agent.tick(opening.now),
            Event::Reply(reply) => agent.tick(reply.now),
            Event::Delivery(delivery) => {
                agent.tick(delivery.now);
                now.insert(record.realm, (delivery.now, tick));
                if let Task::Stream(delta) = &delivery.task {
                    stream.delta(record.realm, delta, delivery.now, tick);
                }
            }
            Event::Yield(done) => {
                let (now, tick) = now.get(&record.realm).copied().unwrap_or_default();
                stream.answered(record.realm, &done.stream, now, tick);
            }
            _ => {}
        }
    }
    Ok((stream, agent.finish(), tick))
}
