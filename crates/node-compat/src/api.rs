//! Arguments that methods of pi's API need, as far as source code can show that one is missing.
//!
//! [`CALLBACKS`] lists the functions that pi calls later; a registration without one succeeds, and each call of it fails.
//! [`NEEDED`] lists the arguments without which a method throws at once. `extc` reports both at the build.

/// A function that a method gets, and that pi calls with a context.
#[derive(Debug, PartialEq, Eq)]
pub struct Callback {
    /// Name of the method.
    pub method: &'static str,
    /// Position of the argument that is the function or holds it.
    pub argument: usize,
    /// The member of the argument that is the function; `None`: the argument itself.
    pub member: Option<&'static str>,
    /// Position of the context among the parameters of the function.
    pub context: usize,
    /// Help where there is no function.
    pub help: &'static str,
}

/// An argument without which a method throws.
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
}

/// The functions that pi calls, by method.
pub const CALLBACKS: [Callback; 4] = [
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
];

/// Arguments without which a method throws at once.
pub const NEEDED: [Needed; 2] = [
    Needed {
        method: "registerFlag",
        argument: 1,
        what: "the options of the flag",
        example: "pi.registerFlag(NAME, { type: \"boolean\", description: \"...\" })",
    },
    Needed {
        method: "registerTool",
        argument: 0,
        what: "a tool",
        example: "pi.registerTool({ name, label, description, parameters, execute })",
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

/// Returns the function that a method gets.
pub fn callback_of(method: &str) -> Option<&'static Callback> {
    CALLBACKS.iter().find(|callback| callback.method == method)
}

/// Returns the argument that a method throws without.
pub fn needed_by(method: &str) -> Option<&'static Needed> {
    NEEDED.iter().find(|needed| needed.method == method)
}
