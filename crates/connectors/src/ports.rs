//! Connects hostcalls to the agent and the user interface: traits that the agent, or an embedder, implements.
//!
//! A port receives a call with the operation as an enum and the operation's other members as JSON. It receives only calls that
//! the gate has allowed. A method without a port is not registered: the extension gets the error that the method is not available
//! in this host.
//!
//! ```
//! use pijs_connectors::ports::{PortAnswer, SessionCall, SessionOp, SessionPort, unsupported};
//! use pijs_hostcall::{Caller, CancelToken};
//!
//! struct NoModel;
//!
//! impl SessionPort for NoModel {
//!     fn call(&self, caller: &Caller, call: SessionCall, _cancel: CancelToken) -> PortAnswer {
//!         let answer = match call.op {
//!             SessionOp::WaitForIdle => Ok(serde_json::json!({})),
//!             other => Err(unsupported("session", other.as_str(), "this host has no model")),
//!         };
//!         let _ = caller;
//!         Box::pin(std::future::ready(answer))
//!     }
//! }
//! ```
//!
//! # Components of the user interface
//!
//! Operations of `ui` are synchronous except `answer`, so that the display keeps the order of the calls. A dialog returns
//! `{value}` or `{dialog}`; `answer` with that number waits for the user. Components stay in the realm and are identified by a
//! handle (`component`). If the host draws components, the result is `{draws: true}`, the realm then sends `drawn {lines}`, and
//! the host sends requests to the handle: `{type: "render", width}`, `{type: "input", data}`, `{type: "dispose"}`. Renderers of
//! messages and tools are handles as well: they take the width as their last argument and return `{lines}`.

use pijs_durable::without_links;
use pijs_hostcall::{BoxFuture, Caller, CancelToken, ChunkSink, Connector, Output, Permit, Reason, Request};
use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::{Map, Value};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Future of a port's result.
pub type PortAnswer = BoxFuture<'static, Result<Value, HostcallError>>;

macro_rules! ops {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            /// All operations, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in the protocol.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|op| op.as_str() == name)
            }
        }
    };
}

ops! {
    /// Operations on the session.
    SessionOp {
        /// `message {customType, content, display, details}, options {triggerTurn?, deliverAs?}`.
        SendMessage = "send_message",
        /// `content, options {deliverAs?}`.
        SendUserMessage = "send_user_message",
        /// `customType, data`.
        AppendEntry = "append_entry",
        /// `name`.
        SetSessionName = "set_session_name",
        /// `entryId, label`.
        SetLabel = "set_label",
        /// `names`.
        SetActiveTools = "set_active_tools",
        /// `model`; the result is `{ok}`.
        SetModel = "set_model",
        /// `level`.
        SetThinkingLevel = "set_thinking_level",
        /// Stops the current run.
        Abort = "abort",
        /// Shuts the program down.
        Shutdown = "shutdown",
        /// `options {customInstructions?}`.
        Compact = "compact",
        /// `options`; the result is `{cancelled}`.
        NewSession = "new_session",
        /// `entryId, options`; the result is `{cancelled}`.
        Fork = "fork",
        /// `targetId, options`; the result is `{cancelled}`.
        NavigateTree = "navigate_tree",
        /// `path, options`; the result is `{cancelled}`.
        SwitchSession = "switch_session",
        /// Loads extensions and resources again.
        Reload = "reload",
        /// Completes when no run is in progress.
        WaitForIdle = "wait_for_idle",
        /// Starts a session that `new_session` created with `hold`.
        StartSession = "start_session",
        /// `entry`, without id, parent and time; the result is `{id}`.
        Append = "append",
        /// `entryId?`; the parent of the next entry that is appended.
        SetLeaf = "set_leaf",
        /// `entryId`; the result is `{entry}`, null if the entry does not exist.
        ReadEntry = "read_entry",
        /// `from?`, an index in file order; the result is `{entries}`: those from that index on, as many as fit into a message.
        ReadEntries = "read_entries",
        /// `providers?, builtin?`; the result is `{models}` by provider, or `{providers}` if none is named. Models that
        /// extensions registered are excluded; with `builtin`, so are those of the user's file.
        ListModels = "list_models",
        /// Announces a change of the providers that the extension registered.
        RefreshProviders = "refresh_providers",
        /// `model, context, options, pieces?`; the result is an assistant message. With `pieces`, the provider's response
        /// (`{type: "response", status, headers}`) and pi's updates of the message are streamed before it.
        AskModel = "ask_model",
        /// Like `ask_model`, but for a model that the session does not know: uses the model's own address and the key in
        /// `options`.
        AskModelAt = "ask_model_at",
    }
}

ops! {
    /// Operations on the user interface.
    ///
    /// All but `answer` are synchronous, so that the display keeps the order of the calls. A dialog returns `{value}` at once,
    /// `{}` if it is cancelled, or `{dialog}`: then `answer` with that number returns `{value}`, or `{}` without a value, when
    /// the user has decided. `aborted` means that the dialog's signal was already aborted. A component stays in the realm and is
    /// identified by the handle `component`; if the host draws components, the result is `{draws: true}`, and the realm then
    /// sends `drawn`.
    UiOp {
        /// `title, options, timeout?, settings?, aborted?`.
        Select = "select",
        /// `title, message, timeout?, settings?, aborted?`; the value is a boolean.
        Confirm = "confirm",
        /// `title, placeholder?, timeout?, settings?, aborted?`.
        Input = "input",
        /// `title, prefill?`.
        Editor = "editor",
        /// A component that takes the keys: `component, options?`.
        Custom = "custom",
        /// `message, type?` (`info`, `warning`, `error`).
        Notify = "notify",
        /// `key, text?`.
        SetStatus = "set_status",
        /// `key, content?` (lines) or `component?, options?`.
        SetWidget = "set_widget",
        /// `title`.
        SetTitle = "set_title",
        /// `component?`.
        SetHeader = "set_header",
        /// `component?`.
        SetFooter = "set_footer",
        /// `message?`.
        SetWorkingMessage = "set_working_message",
        /// `text`.
        SetEditorText = "set_editor_text",
        /// The result is `{text}`.
        GetEditorText = "get_editor_text",
        /// `text`.
        PasteToEditor = "paste_to_editor",
        /// `theme`; the result is `{success, error?}`.
        SetTheme = "set_theme",
        /// `visible`.
        SetWorkingVisible = "set_working_visible",
        /// `options?`.
        SetWorkingIndicator = "set_working_indicator",
        /// `label?`.
        SetHiddenThinkingLabel = "set_hidden_thinking_label",
        /// `expanded`.
        SetToolsExpanded = "set_tools_expanded",
        /// `custom` (whether the extension has its own editor), and `component` if so; the result contains the current `text`.
        SetEditorComponent = "set_editor_component",
        /// The text of an extension's editor has changed: `component, text`.
        EditorText = "editor_text",
        /// An extension's editor submits the user's text: `component, text, later?`.
        EditorSubmit = "editor_submit",
        /// An extension's editor returns one of pi's key actions to the host: `component, action`.
        EditorAction = "editor_action",
        /// Adds a provider of completions: `provider, triggers?`. A second call sets the triggers of an added provider.
        AddAutocompleteProvider = "add_autocomplete_provider",
        /// Requests completions of a text: `lines, line, col, force, below?` (a provider); the result is `{items, prefix}` or
        /// `{}`.
        Suggest = "suggest",
        /// Subscribes to raw keys: `listener`, for the first listener of a realm.
        OnTerminalInput = "on_terminal_input",
        /// Unsubscribes from raw keys, after the last listener of a realm is removed.
        EndTerminalInput = "end_terminal_input",
        /// An overlay: `component, set?` (`hidden`, `shown`, `focus`, `unfocus` with `target?`); the result is `{hidden, focused,
        /// bounds?, focus?}`.
        Overlay = "overlay",
        /// Waits until a dialog or a custom component is closed: `dialog` or `component`.
        Answer = "answer",
        /// A component was created: `component`, and `lines` or `error`; `failed` if its rendering threw.
        Drawn = "drawn",
        /// A custom component was closed: `component, value?`.
        Closed = "closed",
        /// A component has changed, or a tool call must be drawn again: `toolCallId?`.
        Redraw = "redraw",
    }
}

ops! {
    /// Queries about tools.
    ToolsOp {
        /// All tools: `{tools: [...]}`.
        List = "list",
        /// Names of the active tools: `{tools: [...]}`.
        Active = "active",
    }
}

/// A call to the session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionCall {
    /// The operation.
    pub op: SessionOp,
    /// The operation's other members.
    pub params: Map<String, Value>,
}

/// A call to the user interface.
#[derive(Debug, Clone, PartialEq)]
pub struct UiCall {
    /// The operation.
    pub op: UiOp,
    /// The operation's other members.
    pub params: Map<String, Value>,
}

/// A call about tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolsCall {
    /// The operation.
    pub op: ToolsOp,
}

/// A call of a tool by an extension.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Name of the tool, exactly as the gate decided about it.
    pub name: String,
    /// Input of the tool.
    pub input: Value,
    /// For the built-in file tools: the absolute path that the gate decided about.
    pub path: Option<PathBuf>,
    /// Permit of the caller, which a tool checks for every file that it accesses.
    pub permit: Permit,
}

/// An emission on the event bus.
#[derive(Debug, Clone, PartialEq)]
pub struct EventsCall {
    /// The channel name.
    pub channel: String,
    /// The payload of the event.
    pub data: Value,
}

macro_rules! port {
    ($(#[$doc:meta])* $name:ident($call:ident)) => {
        $(#[$doc])*
        pub trait $name: Send + Sync {
            /// Performs a call. `cancel` is cancelled when the caller no longer waits.
            fn call(&self, caller: &Caller, call: $call, cancel: CancelToken) -> PortAnswer;

            /// Performs a call that may stream pieces before its result; the default streams none.
            fn call_in_pieces(&self, caller: &Caller, call: $call, cancel: CancelToken, pieces: ChunkSink) -> PortAnswer {
                let _ = pieces;
                self.call(caller, call, cancel)
            }

            /// Performs a synchronous call; the default refuses it.
            fn call_sync(&self, caller: &Caller, call: $call) -> Result<Value, HostcallError> {
                let _ = (caller, call);
                Err(HostcallError::invalid("sync", "this call has no synchronous form; await it"))
            }
        }

        impl Port<$call> for dyn $name {
            fn answer(&self, caller: &Caller, call: $call, cancel: CancelToken, pieces: ChunkSink) -> PortAnswer {
                self.call_in_pieces(caller, call, cancel, pieces)
            }

            fn answer_sync(&self, caller: &Caller, call: $call) -> Result<Value, HostcallError> {
                self.call_sync(caller, call)
            }
        }
    };
}

port! {
    /// Serves operations on the session.
    SessionPort(SessionCall)
}
port! {
    /// Serves dialogs, notices and components.
    UiPort(UiCall)
}
port! {
    /// Runs tools that extensions call.
    ToolPort(ToolCall)
}
port! {
    /// Lists tools.
    ToolsPort(ToolsCall)
}
port! {
    /// Delivers events between realms.
    EventsPort(EventsCall)
}

/// Common interface of all ports; implemented for each port trait.
pub trait Port<C>: Send + Sync {
    /// Performs a call, which may stream pieces before its result.
    fn answer(&self, caller: &Caller, call: C, cancel: CancelToken, pieces: ChunkSink) -> PortAnswer;
    /// Performs a synchronous call.
    fn answer_sync(&self, caller: &Caller, call: C) -> Result<Value, HostcallError>;
}

/// A call that can be parsed from a request.
pub trait FromRequest: Sized + Send {
    /// Parses the call; fails with `invalid_request` if a member is missing.
    fn from_request(request: &Request) -> Result<Self, HostcallError>;
}

/// Forwards the calls of a method to a port.
pub struct PortConnector<C, P: ?Sized> {
    port: Arc<P>,
    call: PhantomData<fn(C)>,
}

impl<C, P: ?Sized> PortConnector<C, P> {
    /// Creates a connector that forwards calls to `port`.
    pub fn new(port: Arc<P>) -> Self {
        Self { port, call: PhantomData }
    }
}

impl<C: FromRequest + 'static, P: Port<C> + ?Sized + 'static> Connector for PortConnector<C, P> {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let answer =
            C::from_request(&request).map(|call| self.port.answer(&request.caller, call, request.cancel.clone(), sink));
        Box::pin(async move { answer?.await.map(Output::new) })
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        self.port.answer_sync(&request.caller, C::from_request(request)?).map(Output::new)
    }
}

/// Returns the error for an operation that a port does not support, with the reason.
pub fn unsupported(method: &str, op: &str, why: &str) -> HostcallError {
    HostcallError::new(ErrorCode::InvalidRequest, format!("{method}.{op} is not available: {why}"))
        .with("reason", "unsupported")
        .with("op", op)
}

fn op<T>(request: &Request, parse: impl Fn(&str) -> Option<T>) -> Result<T, HostcallError> {
    let name = crate::params::text(request, "op")?;
    parse(name).ok_or_else(|| {
        HostcallError::invalid("schema", format!("{}: there is no operation {name:?}", request.method)).with("op", name)
    })
}

fn members(request: &Request) -> Map<String, Value> {
    let mut members = request.params.clone();
    members.shift_remove("op");
    members
}

impl FromRequest for SessionCall {
    fn from_request(request: &Request) -> Result<Self, HostcallError> {
        let op = op(request, SessionOp::parse)?;
        let mut params = members(request);
        if op == SessionOp::SwitchSession {
            params.insert("path".to_owned(), Value::from(permitted_session(request)?));
        }
        Ok(Self { op, params })
    }
}

/// Returns the real path of the named session file, if the caller may switch to it. Links in its folder are resolved; a session
/// file that is a link itself is refused when it is opened.
fn permitted_session(request: &Request) -> Result<String, HostcallError> {
    let path = crate::params::text(request, "path")?;
    let named = request.permit.places().node_path(path)?;
    let denied = |reason: Reason| reason.refusal("session", "session.control", path);
    request.permit.session(&named).map_err(denied)?;
    let real = match (named.parent(), named.file_name()) {
        (Some(folder), Some(name)) => without_links(folder).join(name),
        _ => named.clone(),
    };
    if real != named {
        request.permit.session(&real).map_err(denied)?;
    }
    real.into_os_string().into_string().map_err(|_| HostcallError::invalid("path", "session: the path is not UTF-8"))
}

impl FromRequest for UiCall {
    fn from_request(request: &Request) -> Result<Self, HostcallError> {
        Ok(Self { op: op(request, UiOp::parse)?, params: members(request) })
    }
}

impl FromRequest for ToolsCall {
    fn from_request(request: &Request) -> Result<Self, HostcallError> {
        Ok(Self { op: op(request, ToolsOp::parse)? })
    }
}

impl FromRequest for ToolCall {
    fn from_request(request: &Request) -> Result<Self, HostcallError> {
        let required = request.required()?;
        let path = match required.subject {
            pijs_hostcall::Subject::Paths(used, _) => Some(request.permit.places().absolute(used)?),
            _ => None,
        };
        Ok(Self {
            name: crate::params::text(request, "name")?.to_owned(),
            input: request.params.get("input").cloned().unwrap_or_default(),
            path,
            permit: request.permit.clone(),
        })
    }
}

impl FromRequest for EventsCall {
    fn from_request(request: &Request) -> Result<Self, HostcallError> {
        Ok(Self {
            channel: crate::params::text(request, "channel")?.to_owned(),
            data: request.params.get("data").cloned().unwrap_or_default(),
        })
    }
}

/// Maximum timeout of a dialog.
const LONGEST_DIALOG: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the timeout of a dialog: `timeout`, in milliseconds. Returns `None` (no timeout) if it is missing or not a positive
/// number.
pub fn dialog_timeout(params: &Map<String, Value>) -> Option<Duration> {
    let ms = params.get("timeout").and_then(Value::as_f64).filter(|ms| *ms > 0.0)?;
    Some(Duration::try_from_secs_f64(ms / 1000.0).map_or(LONGEST_DIALOG, |timeout| timeout.min(LONGEST_DIALOG)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_are_those_of_the_vocabulary() {
        let mut session: Vec<_> = pijs_hostcall::vocabulary::SESSION_OPS.iter().map(|(name, _)| *name).collect();
        let mut ours: Vec<_> = SessionOp::ALL.iter().map(|op| op.as_str()).collect();
        session.sort_unstable();
        ours.sort_unstable();
        assert_eq!(session, ours);
        let mut ui = pijs_hostcall::vocabulary::UI_OPS.to_vec();
        let mut ours: Vec<_> = UiOp::ALL.iter().map(|op| op.as_str()).collect();
        ui.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ui, ours);
    }

    #[test]
    fn no_timeout_of_a_dialog_is_too_long_for_a_clock() {
        let day = Some(Duration::from_secs(86_400));
        let cases = [
            (serde_json::json!(1500), Some(Duration::from_millis(1500))),
            (serde_json::json!(0.5), Some(Duration::from_micros(500))),
            (serde_json::json!(1e300), day),
            (serde_json::json!(f64::MAX), day),
            (serde_json::json!(0), None),
            (serde_json::json!(-1e300), None),
            (serde_json::json!("5"), None),
            (Value::Null, None),
        ];
        for (timeout, expected) in cases {
            let shown = timeout.to_string();
            assert_eq!(dialog_timeout(&Map::from_iter([("timeout".to_owned(), timeout)])), expected, "{shown}");
        }
        assert_eq!(dialog_timeout(&Map::new()), None);
    }
}
