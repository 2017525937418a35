//! Defines the methods and notifications of the protocol as types, and the catalogue that `discover` returns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A call from a client. The names of tools are methods as well, with the parameters [`Tool`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params")]
pub enum Call {
    /// Checks that the server is available.
    #[serde(rename = "ping")]
    Ping(NoParams),
    /// Returns the catalogue of methods and notifications.
    #[serde(rename = "discover")]
    Discover(NoParams),
    /// Declares the project and the client's protocol version; must be the first call of every client.
    #[serde(rename = "rummy/hello")]
    Hello(Hello),
    /// Creates or updates an entry; starts, continues or cancels a run under `run://`.
    #[serde(rename = "set")]
    Set(Box<Set>),
    /// Promotes entries.
    #[serde(rename = "get")]
    Get(Get),
    /// Removes the run's view of entries.
    #[serde(rename = "rm")]
    Rm(Rm),
    /// Copies an entry.
    #[serde(rename = "cp")]
    Cp(Relocate),
    /// Renames an entry, or a run.
    #[serde(rename = "mv")]
    Mv(Relocate),
    /// Writes the update that a turn ends with.
    #[serde(rename = "update")]
    Update(Update),
    /// Lists models.
    #[serde(rename = "getModels")]
    GetModels(Page),
    /// Adds or changes a model.
    #[serde(rename = "addModel")]
    AddModel(AddModel),
    /// Removes a model.
    #[serde(rename = "removeModel")]
    RemoveModel(Alias),
    /// Lists the project's runs, latest first.
    #[serde(rename = "getRuns")]
    GetRuns(Page),
    /// Returns a run with its history.
    #[serde(rename = "getRun")]
    GetRun(Run),
    /// Lists entries of a run without promoting them.
    #[serde(rename = "getEntries")]
    GetEntries(GetEntries),
    /// Sets a constraint on files of the project.
    #[serde(rename = "file/constraint")]
    FileConstraint(FileConstraint),
    /// Removes a constraint.
    #[serde(rename = "file/drop")]
    FileDrop(FileDrop),
    /// Lists the constraints of the project.
    #[serde(rename = "getConstraints")]
    GetConstraints(NoParams),
    /// Appends a chunk to a channel.
    #[serde(rename = "stream")]
    Stream(Stream),
    /// Reports that a producer of output has ended.
    #[serde(rename = "stream/completed")]
    StreamCompleted(StreamCompleted),
    /// Reports that the client has stopped a producer.
    #[serde(rename = "stream/aborted")]
    StreamAborted(StreamEnded),
    /// Cancels a producer on the server's side, and notifies clients.
    #[serde(rename = "stream/cancel")]
    StreamCancel(StreamEnded),
}

/// No parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoParams {}

/// Parameters of `rummy/hello`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Name of the project.
    pub name: String,
    /// Absolute path of the project's folder.
    pub project_root: String,
    /// Folder of rummy's configuration.
    pub config_path: Option<String>,
    /// Protocol version of the client; the server refuses another major version.
    pub client_version: Option<String>,
}

/// Parameters of `set`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Set {
    /// Alias of the run; not needed for `run://`.
    pub run: Option<String>,
    /// Path of the entry, or a pattern.
    pub path: String,
    /// Body of the entry, or prompt of the run.
    pub body: Option<String>,
    /// State: proposed, streaming, resolved, failed or cancelled.
    pub state: Option<String>,
    /// Visibility: visible, summarized or archived.
    pub visibility: Option<String>,
    /// Reason why the entry failed or was cancelled.
    pub outcome: Option<String>,
    /// Attributes of the entry, or settings of the run.
    pub attributes: Option<Map<String, Value>>,
    /// Whether the body is appended instead of replacing the present one.
    #[serde(default)]
    pub append: bool,
    /// Whether the path is a pattern.
    #[serde(default)]
    pub pattern: bool,
    /// Text or pattern that bodies must contain.
    pub body_filter: Option<String>,
}

/// Parameters of `get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Get {
    /// Alias of the run.
    pub run: String,
    /// Path or pattern.
    pub path: String,
    /// Text or pattern that bodies must contain.
    pub body_filter: Option<String>,
    /// Visibility to set; visible by default.
    pub visibility: Option<String>,
}

/// Parameters of `rm`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rm {
    /// Alias of the run.
    pub run: String,
    /// Path or pattern.
    pub path: String,
    /// Text or pattern that bodies must contain.
    pub body_filter: Option<String>,
}

/// Parameters of `cp` and `mv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Relocate {
    /// Alias of the run.
    pub run: Option<String>,
    /// Path of the source.
    pub from: String,
    /// Path of the destination.
    pub to: String,
    /// Visibility: visible, summarized or archived.
    pub visibility: Option<String>,
}

/// Parameters of `update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    /// Alias of the run.
    pub run: String,
    /// Text of the update.
    pub body: String,
    /// Status: 102 continues the loop; 200, 204 and 422 end it.
    pub status: Option<i64>,
    /// Further attributes.
    pub attributes: Option<Map<String, Value>>,
}

/// Selects the rows of a list that are returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// Maximum number of rows.
    pub limit: Option<u32>,
    /// Number of rows to skip.
    pub offset: Option<u32>,
}

/// Parameters of `addModel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddModel {
    /// Alias of the model.
    pub alias: String,
    /// Provider and name of the model.
    pub actual: String,
    /// Size of the model's context in tokens.
    pub context_length: Option<i64>,
}

/// Identifies a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alias {
    /// Alias of the model.
    pub alias: String,
}

/// Identifies a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Alias of the run.
    pub run: String,
}

/// Parameters of `getEntries`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetEntries {
    /// Alias of the run.
    pub run: String,
    /// Pattern of paths; all entries by default.
    pub pattern: Option<String>,
    /// Scheme; `file` for bare paths.
    pub scheme: Option<String>,
    /// State of the entries; any by default.
    pub state: Option<String>,
    /// Visibility of the entries; any by default.
    pub visibility: Option<String>,
    /// Text or pattern that bodies must contain.
    pub body_filter: Option<String>,
}

/// Parameters of `file/constraint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileConstraint {
    /// Path or glob.
    pub pattern: String,
    /// Constraint: active, readonly or ignore.
    pub visibility: String,
}

/// Parameters of `file/drop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileDrop {
    /// Path or glob.
    pub pattern: String,
}

/// Parameters of `stream`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// Alias of the run.
    pub run: String,
    /// Path of the producer's log entry.
    pub path: String,
    /// Number of the channel: 1 for standard output, 2 for standard error, higher for others.
    pub channel: u32,
    /// The new output.
    pub chunk: String,
}

/// Parameters of `stream/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCompleted {
    /// Alias of the run.
    pub run: String,
    /// Path of the producer's log entry.
    pub path: String,
    /// Exit code; 0 by default.
    pub exit_code: Option<i64>,
    /// Duration, as text for users.
    pub duration: Option<String>,
}

/// Parameters of `stream/aborted` and `stream/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnded {
    /// Alias of the run.
    pub run: String,
    /// Path of the producer's log entry.
    pub path: String,
    /// Reason of the end.
    pub reason: Option<String>,
    /// Duration, as text for users.
    pub duration: Option<String>,
}

/// Parameters of a tool that is called as a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Alias of the run.
    pub run: String,
    /// The path attribute of the tag.
    #[serde(default)]
    pub path: String,
    /// Body of the tag.
    #[serde(default)]
    pub body: String,
    /// Destination, for tools that have one.
    pub to: Option<String>,
    /// Further attributes of the tag.
    pub attributes: Option<Map<String, Value>>,
}

/// A message that the server sends without a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params")]
pub enum Notification {
    /// The server's first message on a connection, before any call.
    #[serde(rename = "rummy/hello")]
    Hello {
        /// Version of the protocol; a client with another major version should disconnect.
        #[serde(rename = "rummyVersion")]
        rummy_version: String,
    },
    /// State of a run. Sent after each command, at the end of a turn, and at the end of the run.
    #[serde(rename = "run/state")]
    RunState {
        /// Alias of the run.
        run: String,
        /// Number of the turn.
        turn: i64,
        /// HTTP status.
        status: i64,
        /// Text of the latest terminal update.
        summary: String,
        /// The run's log.
        history: Vec<Value>,
        /// The run's open questions.
        unknowns: Vec<Value>,
        /// Token usage; null in the middle of a turn.
        telemetry: Option<Value>,
    },
    /// The progress of a turn.
    #[serde(rename = "run/progress")]
    RunProgress {
        /// Alias of the run.
        run: String,
        /// Number of the turn.
        turn: i64,
        /// Status: thinking, processing or retrying.
        status: String,
    },
    /// A proposal waits for a decision.
    #[serde(rename = "run/proposal")]
    RunProposal {
        /// Alias of the run.
        run: String,
        /// The proposals.
        proposed: Vec<Value>,
    },
    /// The server cancelled a producer; the client must stop it.
    #[serde(rename = "stream/cancelled")]
    StreamCancelled {
        /// Alias of the run.
        run: String,
        /// Path of the producer's log entry.
        path: String,
        /// Reason of the cancellation.
        reason: Option<String>,
    },
    /// Text to show.
    #[serde(rename = "ui/render")]
    UiRender {
        /// The text to show.
        text: String,
        /// Whether the text continues the previous one.
        append: bool,
    },
    /// A message to show briefly.
    #[serde(rename = "ui/notify")]
    UiNotify {
        /// The text to show.
        text: String,
        /// Level: info, warning or error.
        level: String,
    },
}

/// Additions of a server to the protocol: the tools, methods and notifications that plugins register, and the default model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offered {
    /// Names of tools that a client may call as methods.
    pub tools: Vec<String>,
    /// Methods of plugins: `{description, params, requiresInit}` by name. A method of the protocol with the same name has
    /// precedence.
    pub methods: Map<String, Value>,
    /// Notifications of plugins.
    pub notifications: Map<String, Value>,
    /// Alias of the default model of new runs; `None` if each run must name one.
    pub model: Option<String>,
}

/// Returns the result of `discover`: methods with their parameters, tools that can be called as methods, and notifications.
pub fn catalogue(offered: &Offered) -> Value {
    let mut methods = described(&schemars::schema_for!(Call).to_value());
    for (name, method) in &offered.methods {
        methods.entry(name.clone()).or_insert_with(|| method.clone());
    }
    for tool in &offered.tools {
        methods.entry(tool.clone()).or_insert_with(|| {
            json!({ "description": format!("Dispatches the tool {tool}."), "params": ["run", "path", "body", "to", "attributes"] })
        });
    }
    let mut notifications = described(&schemars::schema_for!(Notification).to_value());
    for (name, notification) in &offered.notifications {
        notifications.entry(name.clone()).or_insert_with(|| notification.clone());
    }
    json!({ "methods": methods, "notifications": notifications })
}

/// Extracts names, descriptions and parameters from the schema of an enum of messages.
fn described(schema: &Value) -> Map<String, Value> {
    let mut found = Map::new();
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        let Some(name) = variant["properties"]["method"]["const"].as_str() else { continue };
        let params = &variant["properties"]["params"];
        let params =
            params["$ref"].as_str().and_then(|at| schema.pointer(at.trim_start_matches('#'))).unwrap_or(params);
        let required = params["required"].as_array().cloned().unwrap_or_default();
        let members = params["properties"].as_object().into_iter().flatten().map(|(name, member)| {
            let mark = if required.contains(&name.as_str().into()) { "" } else { "optional: " };
            (name.clone(), format!("{mark}{}", member["description"].as_str().unwrap_or_default()).into())
        });
        let description = variant["description"].clone();
        let members: Map<String, Value> = members.collect();
        found.insert(name.to_owned(), json!({ "description": description, "params": members }));
    }
    found
}
