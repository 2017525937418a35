//! Arguments that methods of pi's API need, as far as source code can show that one is missing or of another kind.
//!
//! [`CALLBACKS`] lists the functions that pi calls later; a registration without one succeeds, and each call of it fails.
//! [`NEEDED`] lists the objects that methods need. `extc` reports both at the build.

/// A function that a method gets, and that pi calls with a context.
#[derive(Debug, PartialEq, Eq)]
pub struct Callback {
    /// Name of the method.
    pub method: &'static str,
    /// Position of the argument that is the function or holds it.
    pub argument: usize,
    /// The member of the argument that is the function; `None`: the argument itself.
    pub member: Option<&'static str>,
    /// Position of the context among the parameters of the function; [`NO_CONTEXT`] if it receives none.
    pub context: usize,
    /// Help where there is no function.
    pub help: &'static str,
}

/// [`Callback::context`] of a function that receives no context.
pub const NO_CONTEXT: usize = usize::MAX;

/// An object that a method needs as an argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Needed {
    /// Name of the method.
    pub method: &'static str,
    /// Position of the argument.
    pub argument: usize,
    /// The argument, described.
    pub what: &'static str,
    /// A call with all arguments.
    pub example: &'static str,
    /// Whether the method throws without the argument.
    pub throws_without: bool,
    /// Whether the method throws for a value of another kind.
    pub throws_for_others: bool,
}

impl Needed {
    /// Describes a call with a value of another kind, such as `a function`, or without the argument.
    pub fn message(&self, given: Option<&str>) -> String {
        let Self { method, what, .. } = self;
        match given {
            None => format!("this always fails: `{method}` is called without {what}"),
            Some(given) if self.throws_for_others => format!("this always fails: `{method}` gets {given}, not {what}"),
            Some(given) => format!("this has no effect: `{method}` gets {given}, not {what}"),
        }
    }

    /// Returns whether such a call throws.
    pub fn throws(&self, given: Option<&str>) -> bool {
        if given.is_some() { self.throws_for_others } else { self.throws_without }
    }
}

/// The functions that pi calls, by method.
pub const CALLBACKS: [Callback; 7] = [
    Callback {
        method: "on",
        argument: 1,
        member: None,
        context: 1,
        help: "pass a handler: `pi.on(EVENT, (event, ctx) => { ... })`",
    },
    Callback {
        method: "registerCommand",
        argument: 1,
        member: Some("handler"),
        context: 1,
        help: "add a `handler`: `{ handler: async (args, ctx) => { ... } }`",
    },
    Callback {
        method: "registerShortcut",
        argument: 1,
        member: Some("handler"),
        context: 0,
        help: "add a `handler`: `{ handler: async (ctx) => { ... } }`",
    },
    Callback {
        method: "registerTool",
        argument: 0,
        member: Some("execute"),
        context: 4,
        help: "add an `execute`: `async execute(toolCallId, params, signal, onUpdate, ctx) { ... }`",
    },
    Callback {
        method: "registerMessageRenderer",
        argument: 1,
        member: None,
        context: NO_CONTEXT,
        help: "pass a renderer: `pi.registerMessageRenderer(TYPE, (message, options, theme) => component)`",
    },
    Callback {
        method: "registerEntryRenderer",
        argument: 1,
        member: None,
        context: NO_CONTEXT,
        help: "pass a renderer: `pi.registerEntryRenderer(TYPE, (entry, options, theme) => component)`",
    },
    Callback {
        method: "registerMarkdownTransformer",
        argument: 0,
        member: None,
        context: NO_CONTEXT,
        help: "pass a function: `pi.registerMarkdownTransformer((markdown) => markdown)`",
    },
];

/// Objects that methods need.
pub const NEEDED: [Needed; 3] = [
    Needed {
        method: "registerFlag",
        argument: 1,
        what: "the options of the flag",
        example: "pi.registerFlag(NAME, { type: \"boolean\", description: \"...\" })",
        throws_without: true,
        throws_for_others: false,
    },
    Needed {
        method: "registerProvider",
        argument: 1,
        what: "the configuration of the provider",
        example: "pi.registerProvider(NAME, { baseUrl, api, apiKey, models: [...] })",
        // The first argument may be the whole provider.
        throws_without: false,
        throws_for_others: false,
    },
    Needed {
        method: "registerTool",
        argument: 0,
        what: "a tool",
        example: "pi.registerTool({ name, label, description, parameters, execute })",
        throws_without: true,
        throws_for_others: true,
    },
];

/// Members that every object has.
pub const INHERITED: [&str; 8] = [
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// Members of the objects that extensions receive, by the usual name of the object. A test of `extc` compares them with the host
/// modules.
pub const MEMBERS: [(&str, &[&str]); 3] = [
    (
        "ctx",
        &[
            "abort",
            "compact",
            "cwd",
            "fork",
            "getContextUsage",
            "getSystemPrompt",
            "getSystemPromptOptions",
            "hasPendingMessages",
            "hasUI",
            "isIdle",
            "isProjectTrusted",
            "mode",
            "model",
            "modelRegistry",
            "navigateTree",
            "newSession",
            "reload",
            "scopedModels",
            "sendMessage",
            "sendUserMessage",
            "sessionManager",
            "shutdown",
            "signal",
            "switchSession",
            "thinkingLevel",
            "ui",
            "waitForIdle",
        ],
    ),
    (
        "ctx.ui",
        &[
            "addAutocompleteProvider",
            "confirm",
            "custom",
            "editor",
            "getAllThemes",
            "getEditorComponent",
            "getEditorText",
            "getTheme",
            "getToolsExpanded",
            "input",
            "notify",
            "onTerminalInput",
            "pasteToEditor",
            "select",
            "setEditorComponent",
            "setEditorText",
            "setFooter",
            "setHeader",
            "setHiddenThinkingLabel",
            "setStatus",
            "setTheme",
            "setTitle",
            "setToolsExpanded",
            "setWidget",
            "setWorkingIndicator",
            "setWorkingMessage",
            "setWorkingVisible",
            "theme",
        ],
    ),
    (
        "pi",
        &[
            "appendEntry",
            "env",
            "events",
            "exec",
            "fs",
            "getActiveTools",
            "getAllTools",
            "getCommands",
            "getFlag",
            "getMcpServers",
            "getSessionName",
            "getThinkingLevel",
            "http",
            "log",
            "on",
            "registerCommand",
            "registerEntryRenderer",
            "registerFlag",
            "registerMarkdownTransformer",
            "registerMcpServer",
            "registerMessageRenderer",
            "registerProvider",
            "registerShortcut",
            "registerSlashCommand",
            "registerTool",
            "sendMessage",
            "sendUserMessage",
            "session",
            "setActiveTools",
            "setLabel",
            "setModel",
            "setSessionName",
            "setThinkingLevel",
            "tool",
            "ui",
            "unregisterMcpServer",
            "unregisterProvider",
        ],
    ),
];

/// Returns the member of an object that the engine's error `OBJECT.MEMBER is not a function` probably means.
///
/// ```
/// use pijs_node_compat::api::meant;
///
/// assert_eq!(meant("pi.registerCmd is not a function"), Some("registerCommand"));
/// assert_eq!(meant("pi.registerNothing is not a function"), None);
/// ```
pub fn meant(message: &str) -> Option<&'static str> {
    let (object, member) = message.strip_suffix(" is not a function")?.rsplit_once('.')?;
    let (_, members) = MEMBERS.iter().find(|(name, _)| *name == object)?;
    if members.contains(&member) { None } else { crate::events::most_like(member, members.iter().copied()) }
}

/// Returns the function that a method gets.
pub fn callback_of(method: &str) -> Option<&'static Callback> {
    CALLBACKS.iter().find(|callback| callback.method == method)
}

/// Returns the object that a method needs.
pub fn needed_by(method: &str) -> Option<&'static Needed> {
    NEEDED.iter().find(|needed| needed.method == method)
}
