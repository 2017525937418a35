//! A tool that the model may call: a built-in one, or one of an extension.

use crate::agent::AgentOptions;
use crate::extensions::{ExtensionTool, Extensions, ToolFate, ToolRun};
use crate::observer::{RunTool, ToolUpdates};
use crate::tool_port::PermittedSystem;
use futures_util::FutureExt;
use pijs_host::Bound;
use pijs_llm::provider::ToolDescription;
use pijs_tools::system::ToolSystem;
use pijs_tools::words::Words;
use pijs_tools::{About, Builtin, ToolContext, ToolOutput};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A tool that was found.
#[derive(Debug, Clone)]
pub enum Tool {
    /// One of ours, and what is said of it.
    Builtin(Builtin, Arc<Words>),
    /// An extension's.
    Extension(Box<ExtensionTool>),
}

impl Tool {
    /// Name the model uses.
    pub fn name(&self) -> &str {
        match self {
            Self::Builtin(tool, _) => tool.name(),
            Self::Extension(tool) => &tool.name,
        }
    }

    /// Whether a call is judged by the extensions behind it: pi's own tools and those of MCP servers act with the user's rights,
    /// a tool of an extension with the extension's.
    pub(crate) fn acts_for_user(&self) -> bool {
        match self {
            Self::Builtin(..) => true,
            Self::Extension(tool) => tool.source_info.get("source").is_some_and(|source| source == "mcp"),
        }
    }

    /// JSON Schema of the input.
    pub fn parameters(&self) -> &Value {
        match self {
            Self::Builtin(tool, words) => &words.of(*tool).parameters,
            Self::Extension(tool) => &tool.parameters,
        }
    }

    /// Whether typebox made the schema: then it converts arguments that do not fit.
    pub(crate) fn converts(&self) -> bool {
        match self {
            Self::Builtin(..) => true,
            Self::Extension(tool) => tool.converts,
        }
    }

    /// Returns the tool as people and `pi.getAllTools()` see it.
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

    /// Whether it must not run beside others.
    pub fn sequential(&self) -> bool {
        matches!(self, Self::Extension(tool) if tool.sequential)
    }

    /// One line for the system prompt.
    pub fn prompt_snippet(&self) -> Option<String> {
        match self {
            Self::Builtin(tool, words) => Some(words.of(*tool).snippet.clone()),
            Self::Extension(tool) => {
                tool.prompt_snippet.as_ref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// Bullets for the system prompt.
    pub fn prompt_guidelines(&self) -> &[String] {
        match self {
            Self::Builtin(tool, words) => &words.of(*tool).guidelines,
            Self::Extension(tool) => &tool.prompt_guidelines,
        }
    }

    /// As a system message tells the model of it.
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

/// A tool, and what its call is carried out under.
#[derive(Debug, Clone)]
pub(crate) struct Bounded {
    pub(crate) tool: Tool,
    pub(crate) bound: Option<Arc<Bound>>,
}

/// The session that a tool runs in.
pub(crate) struct Around<'a> {
    pub(crate) options: &'a AgentOptions,
    pub(crate) extensions: &'a dyn Extensions,
    pub(crate) about: About,
    /// Rights that one of pi's own tools is carried out under.
    pub(crate) bound: Option<Arc<Bound>>,
}

impl Tool {
    /// Runs it on validated input. An error is what the model is told.
    pub(crate) async fn run(
        &self,
        around: Around<'_>,
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

/// Takes the value that an extension's tool returned as it is. Of nothing pi cannot read the content, of anything but an
/// object there is none.
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
