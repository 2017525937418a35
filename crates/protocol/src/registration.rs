//! Registrations of an extension. Functions stay in the realm and are referred to by [`Handle`].

use crate::ids::{EntryIndex, Handle};
use crate::manifest::CapabilityManifest;
use crate::stream::StreamSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `register.payload`: registrations in call order.
///
/// The first message of an entry answers its `load`; later messages come from code that runs afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Register {
    /// The entry that registers.
    pub entry: EntryIndex,
    /// Whether this message answers `load`: the factory has finished.
    #[serde(default)]
    pub ready: bool,
    /// Flat list of capability names; superseded by `capability_manifest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Declaration of the package; the host compares it with the declaration in the package's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_manifest: Option<CapabilityManifest>,
    /// Registrations in call order.
    pub registrations: Vec<Registration>,
}

/// Maximum length of a tool's name in bytes; models accept less.
pub const LONGEST_TOOL_NAME: usize = 128;

/// Returns the problem of a tool name, if there is one.
pub fn tool_name_problem(name: &str) -> Option<String> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-.:/".contains(character);
    if name.is_empty() || name.len() > LONGEST_TOOL_NAME || !name.chars().all(plain) {
        return Some(format!("a tool's name has 1 to {LONGEST_TOOL_NAME} characters of a-z, A-Z, 0-9 and _ - . : /"));
    }
    ["__proto__", "constructor", "prototype"].contains(&name).then(|| "the name is reserved".to_owned())
}

/// One call of a `register*` method or of `on`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Registration {
    /// A tool that the model may call. If an entry registers a name twice, the last registration wins.
    Tool(ToolSpec),
    /// A slash command.
    Command(CommandSpec),
    /// `pi.on(event, handler)`.
    Handler(HandlerSpec),
    /// A handler was removed through the function that `pi.on` returned.
    HandlerRemoved {
        /// The removed handler.
        handle: Handle,
    },
    /// A command line flag.
    Flag(FlagSpec),
    /// A keyboard shortcut.
    Shortcut {
        /// Key id as the extension wrote it.
        key: String,
        /// Description in the list of keys.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Handle of the function that is called with a context.
        handle: Handle,
    },
    /// Renders messages of one custom type.
    MessageRenderer {
        /// `customType` of the messages.
        custom_type: String,
        /// The renderer.
        handle: Handle,
    },
    /// Renders session entries of one custom type.
    EntryRenderer {
        /// `customType` of the entries.
        custom_type: String,
        /// The renderer.
        handle: Handle,
    },
    /// Changes Markdown before a terminal shows it.
    MarkdownTransformer {
        /// Handle of `transform(markdown, context)`.
        handle: Handle,
    },
    /// A model provider; function members are replaced by `{"$handle": n}`.
    Provider {
        /// Provider name.
        name: String,
        /// Configuration of the provider.
        config: Value,
        /// Whether the configuration has a key, or a substitute for a key.
        #[serde(default)]
        configured: bool,
        /// Handle of `credentials(model)`, which returns the key and the headers of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credentials: Option<Handle>,
        /// Handle of `stream(model, context, options, signal)`, a stream function whose events are updates.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<Handle>,
        /// Handle of `reply(number, value)`, which answers a pending update of `stream`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Handle>,
        /// Handle of `account({op, stored})`: `log_in` and `renew` return credentials, `stored` reports the current ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Handle>,
    },
    /// An MCP server, with a configuration like an entry of `mcp.json`.
    McpServer {
        /// Name of the server.
        name: String,
        /// Configuration of the server.
        config: Value,
    },
    /// An MCP server was withdrawn.
    McpServerRemoved {
        /// Name of the server.
        name: String,
    },
    /// A provider was withdrawn.
    ProviderRemoved {
        /// Provider name.
        name: String,
    },
}

/// A tool. Field meanings are pi's (`ToolDefinition`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Name for the model.
    pub name: String,
    /// Handle of `execute`.
    pub handle: Handle,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, as `JSON.stringify` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Whether typebox created the schema; arguments of the wrong type are then converted first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub converts: bool,
    /// One line in the prompt's list of available tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_snippet: Option<String>,
    /// Items of the prompt's guidelines while the tool is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_guidelines: Option<Vec<String>>,
    /// `sequential` or `parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_mode: Option<String>,
    /// `default` or `self`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub render_shell: Option<String>,
    /// Function members by name, `execute` included: `renderCall`, `renderResult`, `prepareArguments`.
    #[serde(default)]
    pub functions: Vec<NamedHandle>,
    /// Sorted names of members that pi does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_keys: Vec<String>,
}

/// A function member of a registered object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedHandle {
    /// Member name.
    pub name: String,
    /// The function.
    pub handle: Handle,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandSpec {
    /// Name without the slash.
    pub name: String,
    /// Description in the list of commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Handle of `handler(args, ctx)`.
    pub handle: Handle,
    /// Handle of `getArgumentCompletions(prefix)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Handle>,
}

/// An event handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandlerSpec {
    /// Event name; a handler of an unknown event is registered with a warning and never called.
    pub event: String,
    /// Handle of `handler(event, ctx)`.
    pub handle: Handle,
    /// For `stream_text`: the sources that the handler receives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<StreamSource>,
}

/// A command line flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlagSpec {
    /// Name without the dashes.
    pub name: String,
    /// `boolean` or `string`.
    #[serde(rename = "type")]
    pub flag_type: String,
    /// Value if the command line does not set the flag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Description in `--help`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}
