//! Checks uses of pi's API that the source shows to be wrong: members, events, tools, the default export.
//!
//! Only uses that are certain to be of pi's API are checked: a parameter of type `ExtensionAPI`, imported from pi's package; the
//! parameter of the function that an entry exports; names, patterns and fields of classes that hold one of them; and parameters
//! of the package's functions that always receive one. The same applies to contexts, which handlers, commands and tools receive.
//! A member that is mentioned without a call or a member access is assumed to be tested for, so its uses are ignored, as are all
//! members of an object that is extended.
//!
//! ```text
//! pi.registerTol({...})                     Member Api "registerTol"
//! const { registerTol } = pi; registerTol() Member Api "registerTol"
//! ctx.ui.notfy("done")                      Member Ui "notfy"
//! ctx.sessionManger.getEntries()            Member Context "sessionManger"
//! if (pi.registerLater) pi.registerLater()  nothing
//! pi.on("sesion_start", ...)                Event "sesion_start"
//! pi.registerTool({ parameters: "{}" })     Parameters "a string"
//! setup(pi)                                 a Pass, if `setup` is imported
//! ```
//!
//! A single module does not show the arguments that others pass to its functions. [`contract`](crate::contract) follows each
//! [`Pass`] and scans its target module again, with [`Assumptions`].

mod class_place;
mod exported;
mod name_facts;
mod names;
mod unconditional;
mod uses;

use super::bindings::Bindings;
use crate::interface::GivenObject;
use crate::parse::Parsed;
use exported::Exported;
use names::Names;
use pijs_node_compat::api::Needed;
use std::collections::{BTreeMap, BTreeSet};
use unconditional::straight_calls;

/// The uses that one module makes of pi's API.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiUses {
    pub(crate) uses: Vec<ApiUse>,
    /// Calls of imported functions with one of pi's objects as an argument.
    pub(crate) passes: Vec<Pass>,
    /// The error of the module's default export, if the module is an entry.
    pub(crate) default: Option<WrongDefault>,
}

/// One use, with its position.
#[derive(Debug, Clone)]
pub(crate) struct ApiUse {
    pub(crate) what: Used,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether the object is pi's API only if the module is an entry, whose function pi calls.
    pub(crate) only_in_entry: bool,
    /// Whether a failure is handled: the use is inside a `try`, or casts the object to another type.
    pub(crate) is_tried: bool,
    /// Whether the factory runs the use unconditionally.
    pub(crate) is_straight: bool,
}

/// The kind of a use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Used {
    /// A call of a member, or a read of a member of its value.
    Member { of: GivenObject, name: String, is_called: bool },
    /// A subscription to an event.
    Event(String),
    /// A tool whose `parameters` are not an object, with a description of their kind.
    Parameters(&'static str),
    /// The name of a tool.
    ToolName(String),
    /// An event, a command or a tool without a handler function, with help.
    NoHandler(&'static str),
    /// A call without an object that it needs, or with a value of the described kind in its place.
    NoArgument(&'static Needed, Option<&'static str>),
}

/// A call of an imported function with objects of pi's as arguments.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    /// The specifier of the import.
    pub(crate) specifier: String,
    /// The export that is called.
    pub(crate) name: String,
    /// The argument at each position, `None` if it is not an object of pi's.
    pub(crate) arguments: Vec<Option<GivenObject>>,
    /// Whether the arguments are objects of pi's only if the module is an entry.
    pub(crate) only_in_entry: bool,
    /// Whether the factory runs the call unconditionally.
    pub(crate) is_straight: bool,
}

/// Facts about a module that other modules show: the calls of its exports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assumptions {
    /// Whether pi calls the module's default export.
    pub(crate) is_entry: bool,
    /// Objects that parameters of the exports always receive, by export and position.
    pub(crate) given: BTreeMap<(String, usize), GivenObject>,
    /// Exports that are called unconditionally in the factory of an entry.
    pub(crate) straight: BTreeSet<String>,
}

/// A default export that is not a function.
#[derive(Debug, Clone)]
pub(crate) struct WrongDefault {
    /// The kind of the exported value; `None` if there is no default export.
    pub(crate) what: Option<&'static str>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Finds the uses in a module whose scopes are resolved. Without `assumptions`, the module is treated as an entry, and uses that
/// are wrong only in an entry are marked.
pub(super) fn api_uses(parsed: &Parsed, bindings: &Bindings, assumptions: Option<&Assumptions>) -> ApiUses {
    let names = Names::of(&parsed.program);
    let exported = Exported::of(parsed, &names, bindings);
    let calls_factory = assumptions.is_none_or(|all| all.is_entry || all.straight.contains("default"));
    let factory = exported.parameters.first().and_then(Option::as_ref);
    let is_given_api = assumptions.is_none_or(|all| all.is_entry);
    let given = assumptions.into_iter().flat_map(|all| &all.given);
    let given = given.map(|((name, at), object)| (name.as_str(), *at, *object));
    let known = names.known(factory.filter(|_| is_given_api), exported.seeds(&names, given));
    let roots = assumptions.into_iter().flat_map(|all| &all.straight).filter_map(|name| exported.local(name)).cloned();
    let straight = straight_calls(&parsed.program, factory.filter(|_| calls_factory), roots.collect(), &names);
    let (uses, passes) = uses::uses(parsed, bindings, &names, known, straight);
    ApiUses { uses, passes, default: exported.wrong }
}
