//! Methods and notifications as types: what clients send and get, and the catalogue that `discover` returns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A call of a client. Names of tools are methods as well, with the parameters of [`Tool`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params")]
pub enum Call {
    /// Checks that the server is there.
    #[serde(rename = "ping")]
    Ping(NoParams),
    /// Returns the catalogue of methods and notifications.
    #[serde(rename = "discover")]
    Discover(NoParams),
    /// Names the project and the client's protocol; the first call of every client.
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
    /// Writes the signal of a turn.
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
    /// Lists the project's runs, the latest first.
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
    /// Adds a chunk to a channel.
    #[serde(rename = "stream")]
    Stream(Stream),
    /// Ends a producer of output.
    #[serde(rename = "stream/completed")]
    StreamCompleted(StreamCompleted),
    /// Ends a producer that its client stopped.
    #[serde(rename = "stream/aborted")]
    StreamAborted(StreamEnded),
    /// Ends a producer from the server's side; clients are told.
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
    /// Its folder, absolute.
    pub project_root: String,
    /// Folder of rummy's configuration.
    pub config_path: Option<String>,
    /// Protocol of the client; the server refuses another first number.
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
    /// proposed, streaming, resolved, failed or cancelled.
    pub state: Option<String>,
    /// visible, summarized or archived.
    pub visibility: Option<String>,
    /// Reason of a failure or cancellation.
    pub outcome: Option<String>,
    /// Attributes of the entry, or settings of the run.
    pub attributes: Option<Map<String, Value>>,
    /// Whether the body is added.
    #[serde(default)]
    pub append: bool,
    /// Whether the path is a pattern.
    #[serde(default)]
    pub pattern: bool,
    /// Text or pattern that bodies have to contain.
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
    /// Text or pattern that bodies have to contain.
    pub body_filter: Option<String>,
    /// visible unless given.
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
    /// Text or pattern that bodies have to contain.
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
    /// visible, summarized or archived.
    pub visibility: Option<String>,
}

/// Parameters of `update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    /// Alias of the run.
    pub run: String,
    /// Text of the signal.
    pub body: String,
    /// 102 continues; 200, 204 and 422 end.
    pub status: Option<i64>,
    /// Further attributes.
    pub attributes: Option<Map<String, Value>>,
}

/// The rows of a list that are returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// Most rows.
    pub limit: Option<u32>,
    /// Rows that are left out.
    pub offset: Option<u32>,
}

/// Parameters of `addModel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddModel {
    /// Short name.
    pub alias: String,
    /// Provider and model.
    pub actual: String,
    /// Tokens of its context.
    pub context_length: Option<i64>,
}

/// Names a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alias {
    /// Short name.
    pub alias: String,
}

/// Names a run.
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
    /// Pattern of paths; all unless given.
    pub pattern: Option<String>,
    /// Scheme; `file` for bare paths.
    pub scheme: Option<String>,
    /// State of the entries; all unless given.
    pub state: Option<String>,
    /// Visibility of the entries; all unless given.
    pub visibility: Option<String>,
    /// Text or pattern that bodies have to contain.
    pub body_filter: Option<String>,
}

/// Parameters of `file/constraint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileConstraint {
    /// Path or glob.
    pub pattern: String,
    /// active, readonly or ignore.
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
    /// Log entry of the producer.
    pub path: String,
    /// 1 for output, 2 for errors, more for others.
    pub channel: u32,
    /// The new output.
    pub chunk: String,
}

/// Parameters of `stream/completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCompleted {
    /// Alias of the run.
    pub run: String,
    /// Log entry of the producer.
    pub path: String,
    /// 0 unless given.
    pub exit_code: Option<i64>,
    /// For people to read.
    pub duration: Option<String>,
}

/// Parameters of `stream/aborted` and `stream/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnded {
    /// Alias of the run.
    pub run: String,
    /// Log entry of the producer.
    pub path: String,
    /// The reason.
    pub reason: Option<String>,
    /// For people to read.
    pub duration: Option<String>,
}

/// Parameters of a tool that is called like a method.
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

/// A message that a client gets without asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params")]
pub enum Notification {
    /// The server's first word on a connection, before any call.
    #[serde(rename = "rummy/hello")]
    Hello {
        /// Version of the protocol; a client of another first number leaves.
        #[serde(rename = "rummyVersion")]
        rummy_version: String,
    },
    /// State of a run: after each command, at the end of a turn, and at the end of the run.
    #[serde(rename = "run/state")]
    RunState {
        /// Alias of the run.
        run: String,
        /// The turn.
        turn: i64,
        /// HTTP status.
        status: i64,
        /// Text of the latest terminal update.
        summary: String,
        /// The log.
        history: Vec<Value>,
        /// Open questions.
        unknowns: Vec<Value>,
        /// Use of tokens; null in the middle of a turn.
        telemetry: Option<Value>,
    },
    /// The progress of a turn.
    #[serde(rename = "run/progress")]
    RunProgress {
        /// Alias of the run.
        run: String,
        /// The turn.
        turn: i64,
        /// thinking, processing or retrying.
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
    /// The server cancelled a producer: its client stops it.
    #[serde(rename = "stream/cancelled")]
    StreamCancelled {
        /// Alias of the run.
        run: String,
        /// Log entry of the producer.
        path: String,
        /// The reason.
        reason: Option<String>,
    },
    /// Text to show.
    #[serde(rename = "ui/render")]
    UiRender {
        /// The text to show.
        text: String,
        /// Whether it continues the text before.
        append: bool,
    },
    /// A message to show for a moment.
    #[serde(rename = "ui/notify")]
    UiNotify {
        /// The text to show.
        text: String,
        /// info, warning or error.
        level: String,
    },
}

/// The offer of a server beside the methods of the protocol: what plugins register, and the model of runs that name none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offered {
    /// Names that a client may call like methods.
    pub tools: Vec<String>,
    /// Methods of plugins: `{description, params, requiresInit}` by name. A method of the protocol comes first.
    pub methods: Map<String, Value>,
    /// Notifications of plugins.
    pub notifications: Map<String, Value>,
    /// Alias of the model that a new run gets; none when each has to name one.
    pub model: Option<String>,
}

/// Returns what `discover` returns: methods with their parameters, tools that are methods as well, and notifications.
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

/// Reads names, descriptions and parameters off the schema of a list of messages.
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
