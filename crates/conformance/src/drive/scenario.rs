//! A scenario file: environment, scripted answers, steps. Fields and defaults are those of `oracle/format.md`.

use pijs_runtime::{Result, UserError};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Content of `SCENARIO.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scenario {
    #[serde(default)]
    pub(super) name: Value,
    pub(super) extensions: Vec<String>,
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) home: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) bin: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) flags: Map<String, Value>,
    #[serde(default)]
    pub(super) ui: Ui,
    #[serde(default)]
    pub(super) exec: Vec<ScriptedProgram>,
    #[serde(default)]
    pub(super) model: Vec<Reply>,
    /// UTF-16 units per streamed delta, rounded to a multiple of 4.
    #[serde(default = "default_chunk")]
    pub(super) chunk: f64,
    pub(super) start_model: Option<String>,
    pub(super) thinking: Option<String>,
    /// Base of the system prompt; absent: [`SYSTEM_PROMPT`], null: pi's built-in prompt.
    #[serde(default, deserialize_with = "given")]
    pub(super) system_prompt: Option<Option<String>>,
    #[serde(default)]
    pub(super) resources: bool,
    #[serde(default)]
    pub(super) session: SessionKind,
    #[serde(default)]
    pub(super) settings: Map<String, Value>,
    #[serde(default)]
    pub(super) http: Vec<Server>,
    /// Fixed time of the clock; absent: [`NOW`], null: the real time.
    #[serde(default, deserialize_with = "given")]
    pub(super) now: Option<Option<String>>,
    /// Seed of the randomness. If absent, the seed is 1; if null, the randomness is real.
    #[serde(default, deserialize_with = "given")]
    pub(super) random: Option<Option<f64>>,
    #[serde(default)]
    pub(super) steps: Vec<Map<String, Value>>,
    #[serde(default)]
    pub(super) updates: bool,
    #[serde(default)]
    pub(super) drop: Vec<String>,
    #[serde(default)]
    pub(super) normalise: Vec<Rule>,
    pub(super) compare: Option<Value>,
    #[serde(default = "default_quiet", rename = "quiet_ms")]
    quiet_ms: f64,
    #[serde(default = "default_limit", rename = "limit_ms")]
    limit_ms: f64,
    #[serde(default = "default_file_limit")]
    pub(super) file_limit: usize,
}

/// The member `ui`: the user interface and its scripted answers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ui {
    #[serde(default)]
    pub(super) mode: UiMode,
    /// Scripted answers. The members depend on the method; `value` may be null.
    #[serde(default)]
    pub(super) answers: Vec<Map<String, Value>>,
    #[serde(default)]
    pub(super) real_timeouts: bool,
    pub(super) width: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UiMode {
    #[default]
    None,
    Rpc,
    Tui,
}

impl UiMode {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rpc => "rpc",
            Self::Tui => "tui",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SessionKind {
    #[default]
    Memory,
    File,
}

/// The answer to a `pi.exec` whose command line contains `match`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ScriptedProgram {
    #[serde(rename = "match")]
    pub(super) part: String,
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) killed: bool,
}

/// A reply of the scripted model.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Reply {
    Text(String),
    Blocks(Vec<ReplyBlock>),
    Whole(Box<WholeReply>),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WholeReply {
    #[serde(default)]
    pub(super) content: Vec<ReplyBlock>,
    pub(super) stop_reason: Option<String>,
    pub(super) error_message: Option<String>,
    #[serde(default)]
    pub(super) usage: Map<String, Value>,
    pub(super) status: Option<u16>,
    pub(super) headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) during: Vec<Map<String, Value>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ReplyBlock {
    Text(String),
    Thinking(String),
    ToolCall(ReplyCall),
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ReplyCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Option<Value>,
    pub(super) id: Option<String>,
}

impl Reply {
    pub(super) fn whole(self) -> WholeReply {
        match self {
            Self::Text(text) => WholeReply { content: vec![ReplyBlock::Text(text)], ..WholeReply::default() },
            Self::Blocks(content) => WholeReply { content, ..WholeReply::default() },
            Self::Whole(reply) => *reply,
        }
    }
}

/// A server on loopback with scripted responses.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Server {
    #[serde(default)]
    pub(super) port: u16,
    #[serde(default)]
    pub(super) routes: Vec<Route>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Route {
    pub(super) method: Option<String>,
    pub(super) path: String,
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) json: Option<Value>,
    pub(super) body: Option<String>,
}

/// One entry of `normalise`: a JavaScript regular expression.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Rule {
    pub(super) pattern: String,
    pub(super) flags: Option<String>,
    pub(super) with: String,
}

/// The default fixed time of the extension's clock.
pub(super) const NOW: &str = "2026-01-02T03:04:05.000Z";

/// The default base prompt.
pub(super) const SYSTEM_PROMPT: &str = "You are a test agent.";

impl Scenario {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let broken = |error: &dyn std::fmt::Display| UserError::failed(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| broken(&error))?;
        serde_json::from_str(&text).map_err(|error| broken(&error))
    }

    /// Returns how long nothing must be recorded until a scenario counts as settled.
    pub(super) fn quiet(&self) -> Duration {
        Duration::from_secs_f64(self.quiet_ms.max(0.0) / 1000.0)
    }

    /// Returns the time limit of each step: four times that of pi's own driver, because it only has to end a hang and a busy
    /// machine must not reach it.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs_f64(4.0 * self.limit_ms.max(0.0) / 1000.0)
    }

    pub(super) fn width(&self) -> u32 {
        self.ui.width.unwrap_or(80)
    }
}

fn default_chunk() -> f64 {
    16.0
}

fn default_quiet() -> f64 {
    40.0
}

fn default_limit() -> f64 {
    15_000.0
}

fn default_file_limit() -> usize {
    4000
}

/// Distinguishes a member that is null from one that is absent.
fn given<'de, D, T>(deserializer: D) -> std::result::Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Replaces `{{cwd}}`, `{{home}}`, `{{tmp}}`, `{{node}}` and `{{http:I}}`.
#[derive(Debug, Clone, Default)]
pub(super) struct Fill(pub(super) Vec<(String, String)>);

impl Fill {
    pub(super) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
    }

    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => Value::Object(self.map(members)),
            other => other.clone(),
        }
    }

    pub(super) fn map(&self, members: &Map<String, Value>) -> Map<String, Value> {
        members.iter().map(|(key, value)| (key.clone(), self.value(value))).collect()
    }

    pub(super) fn reply(&self, reply: &WholeReply) -> WholeReply {
        let block = |block: &ReplyBlock| match block {
            ReplyBlock::Text(text) => ReplyBlock::Text(self.text(text)),
            ReplyBlock::Thinking(text) => ReplyBlock::Thinking(self.text(text)),
            ReplyBlock::ToolCall(call) => ReplyBlock::ToolCall(ReplyCall {
                name: self.text(&call.name),
                arguments: call.arguments.as_ref().map(|arguments| self.value(arguments)),
                id: call.id.clone(),
            }),
        };
        WholeReply {
            content: reply.content.iter().map(block).collect(),
            error_message: reply.error_message.as_deref().map(|message| self.text(message)),
            ..reply.clone()
        }
    }
}
