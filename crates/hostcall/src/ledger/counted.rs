//! Rate limit of the ledger: counts records of one kind beyond a rate, so that they cannot displace others.
//!
//! A kind is one method of one extension with one decision: its free calls, its reads, its programs, its refusals for one reason,
//! its log lines. Each kind has its own budget ([`LineBudget`]). Within the budget every record is written in full; beyond it
//! records are counted:
//!
//! ```text
//! ledger.counting   records of this kind are counted from here         before the first counted record
//! ledger.counted    their number, subjects and digest                  after a minute, and at the end
//! ```
//!
//! The first line is written before an effect begins, like the lines of a call. The digest is a chain of sha256 over id, hash of
//! parameters and outcome of each record in order, so that two runs can be compared. If the start of a call was counted, its end
//! is counted, too. All times are the times of the records.

use super::record::{CallFacts, DecisionRecord, LedgerRecord, RecordBody, host_event};
use super::verify::{COUNTED, COUNTING};
use crate::caller::Profile;
use crate::vocabulary::FREE;
use pijs_protocol::log::Level;
use pijs_protocol::{CallId, ExtensionId, Method, Now, guard};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Period over which records are counted together, in microseconds.
const PERIOD_US: u64 = 60_000_000;
/// Maximum number of subjects that a count names.
const SUBJECTS: usize = 32;
const SUBJECT_BYTES: usize = 256;

/// Rate limit on lines. All kinds of one extension together stay below half of a ledger's space, and the refill takes hours to
/// fill it.
#[derive(Debug, Clone, Copy)]
struct LineBudget {
    /// Number of lines that may be written at once.
    burst: u64,
    /// Time per further line, in microseconds.
    refill_us: u64,
}

/// Bytes of text per unit of cost; longer records cost more.
const COSTLY_BYTES: usize = 4 << 10;

const FREE_CALLS: LineBudget = LineBudget { burst: 512, refill_us: 10_000_000 };
const READS: LineBudget = LineBudget { burst: 4096, refill_us: 10_000_000 };
const REFUSALS: LineBudget = LineBudget { burst: 256, refill_us: 10_000_000 };
const EFFECTS: LineBudget = LineBudget { burst: 4096, refill_us: 5_000_000 };
const EVENTS: LineBudget = LineBudget { burst: 1024, refill_us: 10_000_000 };
const RARE_EVENTS: LineBudget = LineBudget { burst: 16_384, refill_us: 10_000_000 };

/// Prefixes of events that an extension can cause at any rate.
const FREQUENT_EVENTS: [&str; 4] = ["event_hook.", "extension.", "stream.", "ui."];

/// The kind of a record; records of one kind share a budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RecordKind {
    extension: ExtensionId,
    /// Method of a call, or name of an event.
    method: Method,
    /// Capability; empty for an event.
    capability: &'static str,
    /// Rule that decided; empty if a malformed call was refused before a decision.
    rule: &'static str,
    /// Reason of a refusal; empty otherwise.
    reason: &'static str,
    allowed: bool,
}

impl RecordKind {
    fn of_call(record: &LedgerRecord, call: &CallFacts, decided: Option<&DecisionRecord>) -> Self {
        let decision = decided.map(|decided| &decided.decision);
        Self {
            extension: record.profile.extension.clone(),
            method: call.method.clone(),
            capability: call.capability,
            rule: decision.map_or("", |decision| decision.rule.as_str()),
            reason: decision.and_then(|decision| decision.reason).map_or("", |reason| reason.as_str()),
            allowed: decision.is_some_and(|decision| decision.allowed),
        }
    }

    fn budget(&self) -> LineBudget {
        match self.capability {
            "" if FREQUENT_EVENTS.iter().any(|name| self.method.starts_with(name)) => EVENTS,
            "" => RARE_EVENTS,
            _ if !self.allowed => REFUSALS,
            capability if FREE.contains(&capability) => FREE_CALLS,
            "read" | "env" => READS,
            _ => EFFECTS,
        }
    }
}

/// The budget state of one kind.
struct KindState {
    kind: RecordKind,
    left: u64,
    /// Time of the last refill, in microseconds.
    since_us: u64,
    period: Option<CountPeriod>,
}

/// Period in which records are counted.
struct CountPeriod {
    profile: Arc<Profile>,
    from: Now,
    until: Now,
    records: u64,
    ended: u64,
    errors: BTreeMap<&'static str, u64>,
    subjects: BTreeSet<String>,
    more_subjects: bool,
    digest: [u8; 32],
}

/// Counted calls of one extension under one id: the hash of the parameters and the kind of each.
type OpenCounted = BTreeMap<(ExtensionId, CallId), Vec<([u8; 32], usize)>>;

/// The budgets of a ledger.
#[derive(Default)]
pub(super) struct RecordCounts {
    known: BTreeMap<RecordKind, usize>,
    states: Vec<KindState>,
    /// Open calls whose start was counted.
    open: OpenCounted,
    /// Kinds with an open period.
    counting: BTreeSet<usize>,
    /// Earliest end of an open period, in microseconds.
    due_us: u64,
}

impl RecordCounts {
    /// Takes a record; adds the records to be written to `out`, if any.
    pub(super) fn take(&mut self, record: LedgerRecord, out: &mut Vec<LedgerRecord>) {
        if !guard!(LedgerCounts) {
            return out.push(record);
        }
        let now = record.now;
        if !self.counting.is_empty() && now.elapsed_us >= self.due_us {
            self.finish(out, |period| now.elapsed_us.saturating_sub(period.from.elapsed_us) >= PERIOD_US);
        }
        match &record.body {
            RecordBody::Start { start, decided } => {
                let kind = RecordKind::of_call(&record, &start.call, decided.as_ref());
                let index = self.index_of(kind);
                if self.states[index].spend(now, record.bytes()) {
                    return out.push(record);
                }
                let digest = digest_of(&start.call);
                let key = (record.profile.extension.clone(), start.call.call_id.clone());
                let subject = decided.as_ref().and_then(|decided| decided.subject.as_deref());
                let period = self.period(index, &record, out);
                period.count(now, start.call.call_id.as_bytes(), &digest);
                period.about(subject);
                self.open.entry(key).or_default().push((digest, index));
            }
            RecordBody::End(end) => {
                let Some(index) = self.close(&record, &end.call) else { return out.push(record) };
                let code = end.error.as_ref().map(|(code, _)| code.as_str());
                self.period(index, &record, out).end(now, end.call.call_id.as_bytes(), code);
            }
            RecordBody::Event(event) if record.profile.extension.as_str() != "host" => {
                let kind = RecordKind {
                    extension: record.profile.extension.clone(),
                    method: Method::from(event.event.as_str()),
                    capability: "",
                    rule: "",
                    reason: "",
                    allowed: true,
                };
                let index = self.index_of(kind);
                if self.states[index].spend(now, record.bytes()) {
                    return out.push(record);
                }
                let digest = Sha256::digest(&event.message).into();
                let period = self.period(index, &record, out);
                period.count(now, b"", &digest);
                period.ended += 1;
            }
            RecordBody::Event(_) | RecordBody::Lost(_) => out.push(record),
        }
    }

    /// Ends all open periods, at the end of the ledger.
    pub(super) fn finish_all(&mut self, out: &mut Vec<LedgerRecord>) {
        self.finish(out, |_| true);
    }

    fn finish(&mut self, out: &mut Vec<LedgerRecord>, is_over: impl Fn(&CountPeriod) -> bool) {
        let states = &mut self.states;
        let mut due_us = u64::MAX;
        self.counting.retain(|&index| {
            let state = &mut states[index];
            match state.period.take_if(|period| is_over(period)) {
                Some(period) => {
                    out.push(period.counted(&state.kind));
                    false
                }
                None => {
                    let from = state.period.as_ref().map_or(u64::MAX, |period| period.from.elapsed_us);
                    due_us = due_us.min(from.saturating_add(PERIOD_US));
                    true
                }
            }
        });
        self.due_us = due_us;
    }

    fn index_of(&mut self, kind: RecordKind) -> usize {
        if let Some(&index) = self.known.get(&kind) {
            return index;
        }
        let index = self.states.len();
        let left = kind.budget().burst;
        self.states.push(KindState { kind: kind.clone(), left, since_us: 0, period: None });
        self.known.insert(kind, index);
        index
    }

    /// Returns the kind under which the start of an ending call was counted; `None` if the start was written.
    fn close(&mut self, record: &LedgerRecord, call: &CallFacts) -> Option<usize> {
        if self.open.is_empty() {
            return None;
        }
        let key = (record.profile.extension.clone(), call.call_id.clone());
        let open = self.open.get_mut(&key)?;
        let digest = digest_of(call);
        let at = open.iter().position(|(known, _)| *known == digest)?;
        let (_, index) = open.remove(at);
        if open.is_empty() {
            self.open.remove(&key);
        }
        Some(index)
    }

    /// Returns the open period of a kind, or begins one.
    fn period(&mut self, index: usize, record: &LedgerRecord, out: &mut Vec<LedgerRecord>) -> &mut CountPeriod {
        let KindState { kind, period, .. } = &mut self.states[index];
        if period.is_none() {
            out.push(counting(kind, record));
            if self.counting.is_empty() {
                self.due_us = u64::MAX;
            }
            self.counting.insert(index);
            self.due_us = self.due_us.min(record.now.elapsed_us.saturating_add(PERIOD_US));
        }
        period.get_or_insert_with(|| CountPeriod {
            profile: Arc::clone(&record.profile),
            from: record.now,
            until: record.now,
            records: 0,
            ended: 0,
            errors: BTreeMap::new(),
            subjects: BTreeSet::new(),
            more_subjects: false,
            digest: [0; 32],
        })
    }
}

impl KindState {
    /// Returns whether a record with this much text is within the budget, and subtracts its cost.
    fn spend(&mut self, now: Now, bytes: usize) -> bool {
        let LineBudget { burst, refill_us } = self.kind.budget();
        if self.left == burst {
            self.since_us = now.elapsed_us;
        }
        let back = now.elapsed_us.saturating_sub(self.since_us) / refill_us;
        if back > 0 {
            self.left = self.left.saturating_add(back).min(burst);
            self.since_us += back * refill_us;
        }
        let cost = 1 + (bytes / COSTLY_BYTES) as u64;
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

impl CountPeriod {
    fn count(&mut self, now: Now, id: &[u8], digest: &[u8; 32]) {
        self.records += 1;
        self.until = now;
        self.digest = Sha256::new().chain_update(self.digest).chain_update(digest).chain_update(id).finalize().into();
    }

    fn about(&mut self, subject: Option<&str>) {
        let Some(subject) = subject else { return };
        let subject = &subject[..subject.floor_char_boundary(SUBJECT_BYTES)];
        if self.subjects.contains(subject) {
            return;
        }
        match self.subjects.len() < SUBJECTS {
            true => drop(self.subjects.insert(subject.to_owned())),
            false => self.more_subjects = true,
        }
    }

    fn end(&mut self, now: Now, id: &[u8], code: Option<&'static str>) {
        self.ended += 1;
        self.until = now;
        if let Some(code) = code {
            *self.errors.entry(code).or_default() += 1;
        }
        let code = code.unwrap_or_default();
        self.digest = Sha256::new().chain_update(self.digest).chain_update(code).chain_update(id).finalize().into();
    }

    fn counted(self, kind: &RecordKind) -> LedgerRecord {
        let mut data = facts(kind);
        let further = json!({
            "records": self.records, "ended": self.ended, "errors": self.errors,
            "from_us": self.from.elapsed_us, "until_us": self.until.elapsed_us,
            "subjects": self.subjects, "more_subjects": self.more_subjects,
            "digest": hex::encode(self.digest),
        });
        if let Value::Object(further) = further {
            data.extend(further);
        }
        host_event(
            self.until,
            self.profile,
            Level::Warn,
            COUNTED,
            "records of one kind that were counted instead of written",
            data,
        )
    }
}

fn counting(kind: &RecordKind, record: &LedgerRecord) -> LedgerRecord {
    let message = "records of this kind are counted from here";
    host_event(record.now, Arc::clone(&record.profile), Level::Warn, COUNTING, message, facts(kind))
}

fn facts(kind: &RecordKind) -> Map<String, Value> {
    let RecordKind { method, capability, rule, reason, allowed, .. } = kind;
    let mut facts = Map::new();
    if capability.is_empty() {
        facts.insert("counts".to_owned(), Value::from(method.as_str()));
        return facts;
    }
    facts.insert("method".to_owned(), Value::from(method.as_str()));
    facts.insert("capability".to_owned(), Value::from(*capability));
    facts.insert("allowed".to_owned(), Value::from(*allowed));
    for (key, value) in [("rule", rule), ("reason", reason)].into_iter().filter(|(_, value)| !value.is_empty()) {
        facts.insert(key.to_owned(), Value::from(*value));
    }
    facts
}

fn digest_of(call: &CallFacts) -> [u8; 32] {
    call.params_hash.as_ref().map_or([0; 32], |hash| *hash.digest())
}

#[cfg(test)]
#[path = "counted_tests.rs"]
mod tests;
