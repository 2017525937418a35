//! A tool that the model may call: built in, or of an extension.

use crate::extensions::{ExtensionTool, Extensions, ToolFate, ToolRun};
use crate::observer::{RunTool, ToolUpdates};
use crate::options::AgentOptions;
use crate::tool_port::PermittedSystem;
use futures_util::FutureExt;
use pijs_host::ModelCallAuthority;
use pijs_llm::provider::ToolDescription;
use pijs_tools::system::ToolSystem;
use pijs_tools::words::Words;
use pijs_tools::{Builtin, SessionFacts, ToolContext, ToolOutput};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A tool.
#[derive(Debug, Clone)]
pub enum Tool {
    /// A built-in tool with its texts.
    Builtin(Builtin, Arc<Words>),
    /// A tool of an extension or of an MCP server.
    Extension(Box<ExtensionTool>),
}

impl Tool {
    /// Returns the name that the model uses.
    pub fn name(&self) -> &str {
        match self {
            Self::Builtin(tool, _) => tool.name(),
            Self::Extension(tool) => &tool.name,
        }
    }

    /// Returns whether the extensions that influenced a call restrict it: built-in and MCP tools act with the user's rights, a
    /// tool of an extension with the rights of that extension.
    pub(crate) fn acts_for_user(&self) -> bool {
        match self {
            Self::Builtin(..) => true,
            Self::Extension(tool) => tool.source_info.get("source").is_some_and(|source| source == "mcp"),
        }
    }

    /// Returns the JSON Schema of the input.
    pub fn parameters(&self) -> &Value {
        match self {
            Self::Builtin(tool, words) => &words.of(*tool).parameters,
            Self::Extension(tool) => &tool.parameters,
        }
    }

    /// Returns whether the schema was made by typebox, which converts arguments.
    pub(crate) fn converts(&self) -> bool {
        match self {
            Self::Builtin(..) => true,
            Self::Extension(tool) => tool.converts,
        }
    }

    /// Returns the tool as listed for users and by `pi.getAllTools()`.
    pub(crate) fn info(&self) -> Value {
        let source = match self {
            Self::Builtin(..) => {
                json!({"path": format!("<builtin:{}>", self.name()), "source": "builtin", "scope": "temporary", "origin": "top-level"})
            }
            Self::Extension(tool) => tool.source_info.clone(),
        };
        let ToolDescription { name, description, parameters } = self.description();
        let mut info = json!({"name": name, "description": description, "parameters": parameters});
        let guidelines = self.prompt_guidelines();
        if !guidelines.is_empty() {
            info["promptGuidelines"] = json!(guidelines);
        }
        info["sourceInfo"] = source;
        info
    }

    /// Returns whether calls must not run concurrently with others.
    pub fn sequential(&self) -> bool {
        matches!(self, Self::Extension(tool) if tool.sequential)
    }

    /// Returns the line for the system prompt.
    pub fn prompt_snippet(&self) -> Option<String> {
        match self {
            Self::Builtin(tool, words) => Some(words.of(*tool).snippet.clone()),
            Self::Extension(tool) => {
                tool.prompt_snippet.as_ref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// Returns the list items for the system prompt.
    pub fn prompt_guidelines(&self) -> &[String] {
        match self {
            Self::Builtin(tool, words) => &words.of(*tool).guidelines,
            Self::Extension(tool) => &tool.prompt_guidelines,
        }
    }

    /// Returns the tool as declared in a system message.
    pub(crate) fn declaration(&self) -> Value {
        let ToolDescription { name, description, parameters } = self.description();
        let mut declaration = json!({"name": name, "description": description, "parameters": parameters});
        if let Self::Builtin(tool, words) = self
            && let Some(sampling) = &words.of(*tool).constrained_sampling
        {
            declaration["constrainedSampling"] = sampling.clone();
        }
        declaration
    }

    fn description(&self) -> ToolDescription {
        let description = match self {
            Self::Builtin(tool, words) => words.of(*tool).description.clone(),
            Self::Extension(tool) => tool.description.clone(),
        };
        ToolDescription { name: self.name().to_owned(), description, parameters: self.parameters().clone() }
    }
}

/// A tool with the rights of one call.
#[derive(Debug, Clone)]
pub(crate) struct RestrictedTool {
    pub(crate) tool: Tool,
    pub(crate) bound: Option<Arc<ModelCallAuthority>>,
}

/// The environment of a tool call.
pub(crate) struct ToolEnvironment<'a> {
    pub(crate) options: &'a AgentOptions,
    pub(crate) extensions: &'a dyn Extensions,
    pub(crate) about: SessionFacts,
    /// Rights under which a built-in tool runs; `None` if they are not restricted.
    pub(crate) bound: Option<Arc<ModelCallAuthority>>,
}

impl Tool {
    /// Runs the tool on validated input. An error is the text that the model receives.
    pub(crate) async fn run(
        &self,
        around: ToolEnvironment<'_>,
        tool_call_id: &str,
        input: Value,
        cancel: CancellationToken,
        on_update: ToolUpdates,
    ) -> Result<ToolOutput, String> {
        match self {
            Tool::Builtin(tool, _) => {
                let options = around.options;
                let bound = around.bound.map(|bound| PermittedSystem::of_model(options, &bound));
                let about = around.about;
                let run = |mut on_update: ToolUpdates, input: Value| async move {
                    let mut context = ToolContext {
                        system: bound.as_ref().map_or(&*options.system, |bound| bound as &dyn ToolSystem),
                        cwd: &options.cwd,
                        cancel,
                        about,
                        tool_call_id,
                        on_update: &mut *on_update,
                    };
                    tool.run(&mut context, input).await
                };
                match &options.observer {
                    None => run(on_update, input).await,
                    Some(observer) => {
                        let asked = input.clone();
                        let run: RunTool<'_> = Box::new(|on_update| run(on_update, input).boxed_local());
                        observer.tool(tool.name(), &asked, on_update, run).await
                    }
                }
            }
            Tool::Extension(tool) => {
                let run = ToolRun { name: &tool.name, tool_call_id, input, cancel, on_update };
                match around.extensions.call_tool(run).await {
                    ToolFate::Returned(value) => Ok(extension_output(value)),
                    ToolFate::Threw(message) => Err(message),
                }
            }
        }
    }
}

/// Converts the value returned by an extension's tool. As in pi, reading the content of `undefined` is an error, and any other
/// non-object has no content.
fn extension_output(value: Value) -> ToolOutput {
    let mut members = match value {
        Value::Object(members) => members,
        Value::Null => {
            let unread = Some("Cannot read properties of undefined (reading 'content')".to_owned());
            return ToolOutput { unread, ..ToolOutput::default() };
        }
        _ => Map::new(),
    };
    let terminate = members.get("terminate").is_some_and(|value| *value == Value::Bool(true));
    let content = members.shift_remove("content").unwrap_or_default();
    let (details, usage) = (members.shift_remove("details"), members.shift_remove("usage"));
    ToolOutput { content, details, terminate, usage, rest: members, unread: None }
}
