//! Delivers to several realms as if they were one.

use super::parts::{CallOrder, CallSegment, Emitted, segments};
use super::{Delivered, Fault, PluginRealm};
use crate::error::RummyError;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of events between realms in one delivery. It stops plugins that answer each other's events endlessly.
const MAX_EMITTED: usize = 256;

/// Hooks that the host emits and that only one realm forwards to clients.
const FOR_CLIENTS: &[&str] = &["stream.cancelled", "ui.notify", "ui.render"];

/// Selects the priorities that order a delivery.
type Priorities = fn(&CallOrder) -> &BTreeMap<String, Vec<f64>>;

impl PluginRealm {
    /// Delivers a message to the realms that the operation concerns, and forwards the resulting events to the others.
    pub(super) async fn deliver_to_several(
        &self,
        op: &str,
        members: Map<String, Value>,
    ) -> Result<Delivered, RummyError> {
        if self.is_surveyed.replace(true) {
            self.share().await?;
        } else {
            self.survey().await?;
        }
        let mut delivered = self.route(op, members).await?;
        self.pass_on(&mut delivered.faults).await?;
        Ok(delivered)
    }

    async fn route(&self, op: &str, members: Map<String, Value>) -> Result<Delivered, RummyError> {
        let named = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match op {
            "emit" => self.emitted_in_order(&named("hook"), members, None).await,
            "filter" => self.filtered(&named("hook"), members).await,
            "dispatch" => self.dispatched(&named("scheme"), members).await,
            "view" => self.viewed(members).await,
            "call" => {
                let path = named("path");
                let has = |part: &usize| self.parts[*part].order.borrow().calls.contains(&path);
                let part = (0..self.parts.len()).rev().find(has).unwrap_or_default();
                self.deliver_to(part, op, members).await
            }
            "rpc" => {
                for part in (1..self.parts.len()).rev() {
                    match self.deliver_to(part, op, members.clone()).await {
                        Err(RummyError::Absent(_)) => {}
                        done => return done,
                    }
                }
                self.deliver_to(0, op, members).await
            }
            "open" | "close" => {
                for part in (1..self.parts.len()).rev() {
                    self.deliver_to(part, op, members.clone()).await?;
                }
                self.deliver_to(0, op, members).await
            }
            "plugins" | "init" | "discover" => self.joined(op, members).await,
            _ => self.deliver_to(0, op, members).await,
        }
    }

    fn segments(&self, lists: Priorities, key: &str) -> Vec<CallSegment> {
        let orders: Vec<_> = self.parts.iter().map(|part| part.order.borrow()).collect();
        let lists = orders.iter().map(|order| lists(order).get(key).map(Vec::as_slice).unwrap_or_default());
        segments(lists.enumerate())
    }

    /// Calls the subscribers of an event. The subscribers of one realm may have been called already.
    async fn emitted_in_order(
        &self,
        hook: &str,
        members: Map<String, Value>,
        but: Option<usize>,
    ) -> Result<Delivered, RummyError> {
        let mut segments = self.segments(|order| &order.events, hook);
        segments.retain(|segment| Some(segment.part) != but);
        let mut faults = Vec::new();
        for segment in &segments {
            let mut members = members.clone();
            segment.bound(&mut members);
            faults.extend(self.deliver_to(segment.part, "emit", members).await?.faults);
        }
        let is_for_clients = but.is_none() && FOR_CLIENTS.contains(&hook);
        if is_for_clients && segments.iter().all(|segment| segment.part != 0) {
            faults.extend(self.deliver_to(0, "emit", members).await?.faults);
        }
        Ok(Delivered { value: Value::Null, faults })
    }

    async fn filtered(&self, hook: &str, mut members: Map<String, Value>) -> Result<Delivered, RummyError> {
        let mut faults = Vec::new();
        for segment in self.segments(|order| &order.filters, hook) {
            segment.bound(&mut members);
            let delivered = self.deliver_to(segment.part, "filter", members.clone()).await?;
            members.insert("value".to_owned(), delivered.value);
            faults.extend(delivered.faults);
        }
        Ok(Delivered { value: members.remove("value").unwrap_or_default(), faults })
    }

    async fn dispatched(&self, scheme: &str, mut members: Map<String, Value>) -> Result<Delivered, RummyError> {
        let mut faults = Vec::new();
        let mut done = json!({ "entry": members.get("entry"), "stopped": false });
        if let Some(plain) = done["entry"].get("value").filter(|_| done["entry"].get("$shared").is_some()).cloned() {
            done["entry"] = plain;
        }
        for segment in self.segments(|order| &order.handlers, scheme) {
            segment.bound(&mut members);
            let delivered = self.deliver_to(segment.part, "dispatch", members.clone()).await?;
            faults.extend(delivered.faults);
            done = delivered.value;
            match members.get_mut("entry") {
                // The object exists separately in each realm, and receives the changes of earlier handlers.
                Some(entry) if entry.get("$shared").is_some() => entry["value"] = done["entry"].clone(),
                Some(entry) => *entry = done["entry"].clone(),
                None => {}
            }
            if done["stopped"] == Value::Bool(true) {
                break;
            }
        }
        Ok(Delivered { value: done, faults })
    }

    /// Renders each row with the view that was registered last for its scheme in any realm.
    async fn viewed(&self, mut members: Map<String, Value>) -> Result<Delivered, RummyError> {
        let rows = members.remove("rows").and_then(|rows| rows.as_array().cloned()).unwrap_or_default();
        let of_row = |row: &Value| {
            let scheme = row["scheme"].as_str().unwrap_or("file");
            let has = |part: &usize| self.parts[*part].order.borrow().views.contains(scheme);
            (0..self.parts.len()).rev().find(has).unwrap_or_default()
        };
        let parts: Vec<usize> = rows.iter().map(of_row).collect();
        let (mut views, mut faults) = (vec![Value::Null; rows.len()], Vec::new());
        for part in 0..self.parts.len() {
            let of_part = |(at, of): (usize, &usize)| (*of == part).then_some(at);
            let places: Vec<usize> = parts.iter().enumerate().filter_map(of_part).collect();
            if places.is_empty() {
                continue;
            }
            let shown: Vec<&Value> = places.iter().map(|at| &rows[*at]).collect();
            let mut members = members.clone();
            members.insert("rows".to_owned(), json!(shown));
            let delivered = self.deliver_to(part, "view", members).await?;
            faults.extend(delivered.faults);
            for (at, view) in places.into_iter().zip(delivered.value.as_array().into_iter().flatten()) {
                views[at] = view.clone();
            }
        }
        Ok(Delivered { value: views.into(), faults })
    }

    /// Sends a request to all realms, and merges the lists and objects of their answers.
    async fn joined(&self, op: &str, members: Map<String, Value>) -> Result<Delivered, RummyError> {
        let Delivered { mut value, mut faults } = self.deliver_to(0, op, members.clone()).await?;
        for part in 1..self.parts.len() {
            let more = self.deliver_to(part, op, members.clone()).await?;
            faults.extend(more.faults);
            join(&mut value, more.value);
        }
        Ok(Delivered { value, faults })
    }

    /// Collects the callable functions of each realm, and shares them with the others.
    async fn survey(&self) -> Result<(), RummyError> {
        for part in 0..self.parts.len() {
            self.deliver_to(part, "plugins", Map::new()).await?;
        }
        self.is_shared.set(false);
        self.share().await
    }

    /// Sends each realm the registrations of the others, if they have changed.
    async fn share(&self) -> Result<(), RummyError> {
        if self.is_shared.replace(true) {
            return Ok(());
        }
        let orders: Vec<CallOrder> = self.parts.iter().map(|part| part.order.borrow().clone()).collect();
        for part in 0..self.parts.len() {
            let others = || orders.iter().enumerate().filter(move |(at, _)| *at != part).map(|(_, order)| order);
            let tools: BTreeSet<&String> = others().flat_map(|order| &order.advertised).collect();
            let events: BTreeSet<&String> = others().flat_map(|order| order.events.keys()).collect();
            let own = &orders[part].handlers;
            let schemes = others().flat_map(|order| order.handlers.keys()).filter(|scheme| !own.contains_key(*scheme));
            let schemes: BTreeSet<&String> = schemes.collect();
            let docs = if part == 0 { self.docs.borrow().clone() } else { Value::Null };
            let docs = if docs.is_object() { docs } else { json!({}) };
            let registrations = json!({ "tools": tools, "schemes": schemes, "events": events, "docs": docs });
            self.deliver_to(part, "foreign", registrations.as_object().cloned().unwrap_or_default()).await?;
        }
        // Sharing changes no registration, so the flag stays set.
        self.is_shared.set(true);
        Ok(())
    }

    /// Sends the documentation of the other realms' tools to the first realm, which builds the system prompt.
    pub(crate) async fn share_docs(&self, tools: &[Value]) -> Result<(), RummyError> {
        if self.parts.len() == 1 {
            return Ok(());
        }
        let args = json!([{ "toolSet": { "$set": tools } }]);
        let mut docs = json!({});
        for part in 1..self.parts.len() {
            let asked = json!({ "hook": "instructions.toolDocs", "value": {}, "args": args });
            let members = asked.as_object().cloned().unwrap_or_default();
            join(&mut docs, self.deliver_to(part, "filter", members).await?.value);
        }
        if *self.docs.borrow() != docs {
            self.docs.replace(docs);
            self.is_shared.set(false);
        }
        Ok(())
    }

    /// Forwards events and changes of each realm to the others.
    async fn pass_on(&self, faults: &mut Vec<Fault>) -> Result<(), RummyError> {
        for _ in 0..MAX_EMITTED {
            let Some((by, Emitted { hook, args })) = self.emitted.borrow_mut().pop_front() else { break };
            let members = json!({ "hook": hook, "args": args }).as_object().cloned().unwrap_or_default();
            faults.extend(self.emitted_in_order(&hook, members, Some(by)).await?.faults);
        }
        if let Some((by, Emitted { hook, .. })) = self.emitted.borrow_mut().pop_front() {
            let plugin = self.parts[by].owner.extension.to_string();
            let message =
                format!("plugins answered each other {MAX_EMITTED} times: the rest of their events is dropped");
            faults.push(Fault { plugin, hook, message });
            self.emitted.borrow_mut().clear();
        }
        for part in 0..self.parts.len() {
            if self.entries.has_undelivered_changes(self.parts[part].owner.extension.as_str())
                && self.hears_changes(part)
            {
                faults.extend(self.deliver_to(part, "changes", Map::new()).await?.faults);
            }
        }
        Ok(())
    }

    pub(super) fn hears_changes(&self, part: usize) -> bool {
        self.parts.len() == 1 || self.parts[part].order.borrow().events.contains_key("entry.changed")
    }
}

/// Merges a value into another one: concatenates lists, adds numbers, and merges objects. Any other value replaces the earlier
/// one.
fn join(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Array(all), Value::Array(more)) => {
            for one in more {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        (Value::Object(all), Value::Object(more)) => {
            for (name, member) in more {
                match all.get_mut(&name) {
                    Some(known @ (Value::Array(_) | Value::Object(_) | Value::Number(_))) => join(known, member),
                    _ => drop(all.insert(name, member)),
                }
            }
        }
        (Value::Number(count), Value::Number(more)) => {
            *count = (count.as_u64().unwrap_or_default() + more.as_u64().unwrap_or_default()).into();
        }
        (value, more) if value.is_null() => *value = more,
        _ => {}
    }
}
