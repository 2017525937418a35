//! Writes spans and events as `pi.ext.log.v1` lines.
//!
//! ```text
//! debug_span!("host_call", host_call_id, method)     host_call.start ... host_call.end
//! debug!(event = "policy.decision", allowed, "...")  policy.decision
//! ```
//!
//! Fields with the name of an id in [`Correlation`] are stored there, and nested spans inherit them; other fields become members
//! of `data`. If a field `data` contains a JSON object, its members are added to `data`. Spans are numbered in the order in which
//! they are opened, so that two runs with the same schedule write the same lines, except for the values that the format's
//! normalisation replaces.
//!
//! Hostcalls may end on threads without a current span. A span or event without a parent belongs to the session that was opened
//! last.

use pijs_environment::{SystemTimer, Timer as _, iso};
use pijs_protocol::log::{Component, Correlation, LOG_SCHEMA, Level, LogEntry, Source};
use pijs_redact::Redactor;
use serde_json::{Map, Value};
use std::fmt::{Debug, Write as _};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Name of the span of a session.
const SESSION: &str = "session";
/// Name of the event after which the session has another id.
const REPLACED: &str = "session.replaced";
/// Value of `extension` in a line about the host itself, as in the ledger.
const HOST: &str = "host";
/// Event of a line whose callsite does not name one.
const UNNAMED: &str = "log";

/// Writes lines to a file.
pub(super) struct Lines {
    redactor: Redactor,
    clock: SystemTimer,
    /// Value of `scenario_id` outside of sessions.
    scenario: String,
    state: Mutex<State>,
}

struct State {
    /// The output; `None` after a failed write.
    out: Option<Box<dyn Write + Send>>,
    /// Reports the failed write, once.
    failed: Box<dyn Fn(String) + Send>,
    /// Spans of the open sessions, latest last.
    sessions: Vec<Id>,
    spans: u64,
}

/// The data of a span that its lines contain.
struct Traced {
    correlation: Correlation,
    data: Map<String, Value>,
}

impl Lines {
    /// Creates a writer of lines for the command `command`; `failed` is called when a line cannot be written.
    pub(super) fn new(
        out: Box<dyn Write + Send>,
        redactor: Redactor,
        command: &str,
        failed: impl Fn(String) + Send + 'static,
    ) -> Self {
        let state = State { out: Some(out), failed: Box::new(failed), sessions: Vec::new(), spans: 0 };
        let (clock, scenario) = (SystemTimer::new(), format!("command:{command}"));
        Self { redactor, clock, scenario, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ids that a span or event inherits from `parent`, or from the session.
    fn inherited<S>(&self, parent: Option<SpanRef<'_, S>>, ctx: &Context<'_, S>) -> Correlation
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let of_parent = parent.and_then(|parent| correlation_of(&parent)).or_else(|| {
            let session = self.state().sessions.last().cloned()?;
            correlation_of(&ctx.span(&session)?)
        });
        of_parent.unwrap_or_else(|| Correlation {
            extension_id: HOST.to_owned(),
            scenario_id: self.scenario.clone(),
            ..Correlation::default()
        })
    }

    fn write(&self, level: Level, event: String, message: String, correlation: Correlation, data: &Map<String, Value>) {
        let entry = LogEntry {
            schema: LOG_SCHEMA.to_owned(),
            ts: iso(self.clock.now().epoch_ms),
            level,
            event,
            message: self.redactor.text(&message),
            correlation,
            source: Some(Source { component: Component::Runtime, host: None, pid: Some(std::process::id()) }),
            data: self.redactor.members(data),
        };
        let mut line = serde_json::to_vec(&entry).expect("an entry has string keys");
        line.push(b'\n');
        let mut state = self.state();
        // One write per line, so that a kill leaves only whole lines.
        if let Some(Err(error)) = state.out.as_mut().map(|out| out.write_all(&line)) {
            state.out = None;
            (state.failed)(format!("--log-json: {error}; nothing more is logged"));
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut correlation = self.inherited(span.parent(), &ctx);
        {
            let mut state = self.state();
            state.spans += 1;
            correlation.span_id = Some(format!("{:016x}", state.spans));
            // The first span of a chain determines the trace id.
            correlation.trace_id.get_or_insert(format!("{:032x}", state.spans));
            if span.name() == SESSION {
                state.sessions.push(id.clone());
            }
        }
        fields.correlate(&mut correlation);
        let (event, level) = (format!("{}.start", span.name()), level(span.metadata()));
        self.write(level, event, fields.message_or(span.name()), correlation.clone(), &fields.data);
        span.extensions_mut().insert(Traced { correlation, data: fields.data });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(traced) = span.extensions_mut().get_mut::<Traced>() {
            fields.correlate(&mut traced.correlation);
            traced.data.extend(fields.data);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut correlation = self.inherited(ctx.event_span(event), &ctx);
        fields.correlate(&mut correlation);
        let name = fields.event.take().unwrap_or_else(|| {
            fields.data.insert("target".to_owned(), event.metadata().target().into());
            UNNAMED.to_owned()
        });
        if name == REPLACED
            && let Some(session) = self.state().sessions.last().cloned()
            && let Some(session) = ctx.span(&session)
            && let Some(traced) = session.extensions_mut().get_mut::<Traced>()
        {
            traced.correlation.scenario_id.clone_from(&correlation.scenario_id);
            traced.correlation.session_id.clone_from(&correlation.session_id);
        }
        let message = fields.message_or(&name);
        self.write(level(event.metadata()), name, message, correlation, &fields.data);
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        if span.name() == SESSION {
            self.state().sessions.retain(|open| *open != id);
        }
        let Some(Traced { correlation, data }) = span.extensions_mut().remove::<Traced>() else { return };
        let event = format!("{}.end", span.name());
        self.write(level(span.metadata()), event, span.name().to_owned(), correlation, &data);
    }
}

fn correlation_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<Correlation> {
    span.extensions().get::<Traced>().map(|traced| traced.correlation.clone())
}

fn level(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

/// Fields of a span or an event.
#[derive(Default)]
struct Fields {
    event: Option<String>,
    message: Option<String>,
    ids: Vec<(&'static str, String)>,
    data: Map<String, Value>,
}

impl Fields {
    fn message_or(&mut self, name: &str) -> String {
        self.message.take().unwrap_or_else(|| name.to_owned())
    }

    /// Moves ids from the fields to the correlation.
    fn correlate(&mut self, correlation: &mut Correlation) {
        for (name, id) in self.ids.drain(..) {
            match name {
                "extension_id" => correlation.extension_id = id,
                "session_id" => {
                    correlation.scenario_id = format!("session:{id}");
                    correlation.session_id = Some(id);
                }
                "run_id" => correlation.run_id = Some(id),
                "artifact_id" => correlation.artifact_id = Some(id),
                "tool_call_id" => correlation.tool_call_id = Some(id),
                "slash_command_id" => correlation.slash_command_id = Some(id),
                "event_id" => correlation.event_id = Some(id),
                "host_call_id" => correlation.host_call_id = Some(id),
                _ => correlation.rpc_id = Some(id),
            }
        }
    }

    fn take(&mut self, field: &Field, value: Value) {
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match field.name() {
            "event" => self.event = Some(text(value)),
            "message" => self.message = Some(text(value)),
            name @ ("extension_id" | "session_id" | "run_id" | "artifact_id" | "tool_call_id" | "slash_command_id"
            | "event_id" | "host_call_id" | "rpc_id") => self.ids.push((name, text(value))),
            "data" => match serde_json::from_str(&text(value.clone())) {
                Ok(Value::Object(members)) => self.data.extend(members),
                _ => drop(self.data.insert("data".to_owned(), value)),
            },
            name => drop(self.data.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.take(field, text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, value.into());
    }
}
