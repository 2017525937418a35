//! Finds and calls functions of extensions that render messages, entries and tool calls.

use pijs_host::{CallbackOutcome, Host, RegistrationOwner};
use pijs_protocol::Handle;
use pijs_protocol::registration::Registration;
use serde_json::{Value, json};
use std::path::Path;

/// A render function of an extension.
pub struct Renderer {
    /// Owner of the function.
    pub owner: RegistrationOwner,
    /// Handle of the function.
    pub handle: Handle,
}

impl Renderer {
    /// Returns the renderer of messages of a custom type. The one loaded first has precedence.
    pub fn of_message(host: &Host, custom_type: &str) -> Option<Self> {
        Self::registered(host, |registration| match registration {
            Registration::MessageRenderer { custom_type: of, handle } if of == custom_type => Some(*handle),
            _ => None,
        })
    }

    /// Returns the renderer of entries of a custom type.
    pub fn of_entry(host: &Host, custom_type: &str) -> Option<Self> {
        Self::registered(host, |registration| match registration {
            Registration::EntryRenderer { custom_type: of, handle } if of == custom_type => Some(*handle),
            _ => None,
        })
    }

    /// Returns a tool's `renderCall` or `renderResult`.
    pub fn of_tool(host: &Host, name: &str, function: &str) -> Option<Self> {
        let tool = host.tools().into_iter().find(|tool| tool.spec.name == name)?;
        let handle = tool.spec.functions.iter().find(|known| known.name == function)?.handle;
        Some(Self { owner: tool.owner, handle })
    }

    /// Returns the transformers of Markdown, in load order.
    pub fn of_markdown(host: &Host) -> Vec<Self> {
        let handle = |registration: &Registration| match registration {
            Registration::MarkdownTransformer { handle } => Some(*handle),
            _ => None,
        };
        let all = host.other_registrations().into_iter();
        all.filter_map(|(owner, other)| Some(Self { handle: handle(&other)?, owner })).collect()
    }

    fn registered(host: &Host, find: impl Fn(&Registration) -> Option<Handle>) -> Option<Self> {
        host.other_registrations().into_iter().find_map(|(owner, other)| Some(Self { handle: find(&other)?, owner }))
    }

    /// Renders `args` at a width, as `{lines, failed?}`; `None` if the function renders nothing.
    pub async fn draw(&self, host: &Host, mut args: Vec<Value>, width: u32) -> Result<Option<Value>, CallbackOutcome> {
        args.push(width.into());
        match host.call_back(&self.owner.extension, self.owner.entry, self.handle, args).await {
            CallbackOutcome::Returned(drawn) => Ok(drawn.filter(|drawn| !drawn.is_null())),
            other => Err(other),
        }
    }
}

/// Returns the options argument of a renderer of messages and entries.
pub fn options(expanded: bool) -> Value {
    json!({"expanded": expanded, "outputPad": 1})
}

/// Returns the message of a `custom_message` entry.
pub fn custom_message(entry: &Value) -> Value {
    json!({
        "role": "custom", "customType": entry["customType"], "content": entry["content"], "display": entry["display"],
        "details": entry.get("details"), "timestamp": epoch_ms(entry["timestamp"].as_str().unwrap_or_default()),
    })
}

/// State of a tool call, for its renderer.
#[derive(Debug, Clone, Copy)]
pub struct CallState {
    /// Set while the tool runs.
    pub is_partial: bool,
    /// Set when the user unfolded it.
    pub expanded: bool,
    /// Set when the tool failed.
    pub is_error: bool,
}

/// Returns the context argument of a tool's renderer.
pub fn call_context(args: &Value, id: &str, cwd: &Path, state: CallState) -> Value {
    json!({
        "args": args, "toolCallId": id, "cwd": cwd, "executionStarted": true, "argsComplete": true,
        "isPartial": state.is_partial, "expanded": state.expanded, "showImages": false, "isError": state.is_error,
    })
}

fn epoch_ms(timestamp: &str) -> i64 {
    let parsed = time::OffsetDateTime::parse(timestamp, &time::format_description::well_known::Rfc3339);
    parsed.map_or(0, |moment| i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
}
