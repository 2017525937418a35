//! Records the results of a session by kind, and replaces values that vary between runs.

use super::fixture::Replace;
use anyhow::{Context, Result};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Results of one session, shared with its servers.
#[derive(Clone)]
pub(super) struct Observations(Arc<ObservationLog>);

struct ObservationLog {
    notes: Mutex<Vec<(&'static str, Value)>>,
    places: OnceLock<Vec<(String, String)>>,
    patterns: Vec<(Regex, String)>,
}

impl Observations {
    pub(super) fn new(normalise: &[Replace]) -> Result<Self> {
        let usual = [
            // Escape sequences of the terminal; then ids of sessions.
            ("\u{1b}\\[[0-9;]*m", ""),
            ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
            ("\\d{4}-\\d\\d-\\d\\dT[\\d:.-]+Z", "<time>"),
        ];
        let own = normalise.iter().map(|replace| (replace.pattern.as_str(), replace.with.as_str()));
        let patterns = usual
            .into_iter()
            .chain(own)
            .map(|(pattern, with)| Ok((Regex::new(pattern).with_context(|| pattern.to_owned())?, with.to_owned())));
        let patterns = patterns.collect::<Result<_>>()?;
        Ok(Self(Arc::new(ObservationLog { notes: Mutex::default(), places: OnceLock::new(), patterns })))
    }

    /// Sets the paths that are replaced by placeholders such as `{{cwd}}`, longest path first. Called once.
    pub(super) fn place(&self, mut places: Vec<(String, String)>) {
        places.sort_by_key(|(_, place)| std::cmp::Reverse(place.len()));
        let _ = self.0.places.set(places);
    }

    pub(super) fn note(&self, kind: &'static str, value: Value) {
        let value = self.tidy(value);
        self.lock().push((kind, value));
    }

    /// Records the result of a tool.
    pub(super) fn tool(&self, event: &Value) {
        let texts = event["result"]["content"].as_array().into_iter().flatten();
        let text: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
        let mut note = json!({ "tool": event["toolName"], "text": text.concat() });
        if event["isError"] == true {
            note["failed"] = true.into();
        }
        self.note("tools", note);
    }

    /// Records the model's text, and messages of extensions.
    pub(super) fn message(&self, message: &Value) {
        let content = &message["content"];
        let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
        let text = content.as_str().map_or_else(|| blocks.collect::<String>(), str::to_owned);
        match message["role"].as_str() {
            Some("assistant") if !text.is_empty() => self.note("said", text.into()),
            Some("custom") => {
                self.note(
                    "messages",
                    json!({ "type": message["customType"], "display": message["display"], "text": text }),
                );
            }
            _ => {}
        }
    }

    /// Records output of an extension that is not a dialog. A status or a widget may be drawn any number of times, so only the
    /// first occurrence of a text is recorded.
    pub(super) fn shown(&self, method: &str, request: &Value) {
        let note = match method {
            "notify" => json!({ "notify": request["message"], "as": request["notifyType"] }),
            "setStatus" if request["statusText"].is_string() => {
                json!({ "status": request["statusKey"], "text": request["statusText"] })
            }
            "setWidget" if request["widgetLines"].is_array() => {
                json!({ "widget": request["widgetKey"], "lines": request["widgetLines"] })
            }
            _ => return,
        };
        let (kind, note) = (if method == "notify" { "shown" } else { "stands" }, self.tidy(note));
        let mut notes = self.lock();
        if kind == "shown" || !notes.iter().any(|(other, value)| *other == kind && *value == note) {
            notes.push((kind, note));
        }
    }

    /// Records a dialog of an extension.
    pub(super) fn dialog(&self, method: &str, request: &Value, answer: Option<Value>) {
        let mut note = json!({ "dialog": method, "title": request["title"] });
        for member in ["message", "options", "placeholder", "prefill"] {
            if !request[member].is_null() {
                note[member] = request[member].clone();
            }
        }
        note["answer"] = answer.into();
        self.note("shown", note);
    }

    /// Returns the current position in the observations.
    pub(super) fn mark(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether a text occurred after a mark.
    pub(super) fn has_since(&self, mark: usize, text: &str) -> bool {
        // Model requests are excluded, because they repeat earlier text.
        let notes = self.lock();
        notes.iter().skip(mark).any(|(kind, note)| *kind != "model" && holds(note, text))
    }

    /// Returns a text without the parts that vary between runs.
    pub(super) fn plain(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, place) in self.0.places.get().into_iter().flatten() {
            text = text.replace(place, name);
        }
        for (pattern, with) in &self.0.patterns {
            text = pattern.replace_all(&text, with.as_str()).into_owned();
        }
        text
    }

    /// Returns all observations, by kind.
    pub(super) fn document(&self) -> Map<String, Value> {
        let mut document = Map::new();
        for kind in ["model", "tools", "said", "messages", "shown", "stands", "servers", "errors"] {
            let notes = self.lock();
            let of_kind: Vec<Value> =
                notes.iter().filter(|(other, _)| *other == kind).map(|(_, note)| note.clone()).collect();
            if !of_kind.is_empty() {
                document.insert(kind.to_owned(), of_kind.into());
            }
        }
        document
    }

    fn tidy(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.plain(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.tidy(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, member)| (name, self.tidy(member))).collect::<Map<_, _>>().into()
            }
            other => other,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(&'static str, Value)>> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn holds(note: &Value, text: &str) -> bool {
    match note {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(members) => members.values().any(|member| holds(member, text)),
        _ => false,
    }
}
