//! Facts that the first pass collects about the names of a module: one type for each kind, with its queries.

use crate::interface::{GivenObject, HostName};
use crate::syntax::{export_name, text_of};
use std::collections::{HashMap, HashSet};
use swc_core::ecma::ast::*;

/// Types of pi's package, by the object that they describe.
const TYPES: [(&str, GivenObject); 3] = [
    ("ExtensionAPI", GivenObject::Api),
    ("ExtensionContext", GivenObject::Context),
    ("ExtensionCommandContext", GivenObject::Context),
];

/// Specifier of pi's package.
const PI: &str = "@earendil-works/pi-coding-agent";

/// Returns the names under which the module imports types of [`TYPES`] from pi.
fn api_types(program: &Program) -> HashMap<String, GivenObject> {
    let Program::Module(module) = program else { return HashMap::new() };
    let imports = module.body.iter().filter_map(|item| item.as_module_decl()?.as_import());
    let from_pi =
        imports.filter(|import| HostName::of(&text_of(&import.src)) == Some(HostName::Package(PI.to_owned())));
    let named = from_pi.flat_map(|import| &import.specifiers).filter_map(ImportSpecifier::as_named);
    let described = named.filter_map(|named| {
        let imported = named.imported.as_ref().map_or_else(|| named.local.sym.to_string(), export_name);
        let (_, object) = TYPES.iter().find(|(name, _)| *name == imported)?;
        Some((named.local.sym.to_string(), *object))
    });
    described.collect()
}

/// Parameters and fields with a type of [`TYPES`].
#[derive(Default)]
pub(super) struct TypedNames {
    types: HashMap<String, GivenObject>,
    names: Vec<(Id, GivenObject)>,
}

impl TypedNames {
    /// Reads the imports of a module.
    pub(super) fn of(program: &Program) -> Self {
        Self { types: api_types(program), names: Vec::new() }
    }

    /// Records the type annotation of a name; returns whether it is a type of [`TYPES`].
    pub(super) fn see(&mut self, name: Option<Id>, annotation: Option<&TsTypeAnn>) -> bool {
        let reference = annotation.and_then(|annotation| annotation.type_ann.as_ts_type_ref());
        let ident = reference.and_then(|reference| reference.type_name.as_ident());
        let object = ident.and_then(|ident| self.types.get(&*ident.sym)).copied();
        self.names.extend(name.zip(object));
        object.is_some()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &(Id, GivenObject)> {
        self.names.iter()
    }
}

/// Functions that receive a context if a name holds pi's API.
#[derive(Default)]
pub(super) struct HandlerContexts {
    /// Parameters that are contexts if the first name holds pi's API.
    pub(super) parameters: Vec<(Id, Id)>,
    /// Functions passed to a method of the first name, with the index of the context parameter if that name is pi's API.
    pub(super) handlers: Vec<(Id, Id, usize)>,
}

/// A name that holds a member of another one's object: `b` of `const { a: b } = pi`.
pub(super) struct Part {
    pub(super) of: Id,
    pub(super) member: String,
    pub(super) local: Id,
}

/// Members that destructuring patterns take out of objects, and other members that are treated alike.
#[derive(Default)]
pub(super) struct PatternParts {
    parts: Vec<Part>,
    /// Index in `parts` of the pattern's part, by the name that holds it.
    taken: HashMap<Id, usize>,
}

impl PatternParts {
    /// Creates the list from the parts of all patterns in a module.
    pub(super) fn new(parts: Vec<Part>) -> Self {
        let taken = parts.iter().enumerate().map(|(at, part)| (part.local.clone(), at)).collect();
        Self { parts, taken }
    }

    /// Adds a member that is not part of a pattern.
    pub(super) fn add(&mut self, part: Part) {
        self.parts.push(part);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    /// Returns the part that a pattern assigned to a name.
    pub(super) fn of_pattern(&self, name: &Id) -> Option<&Part> {
        self.taken.get(name).map(|at| &self.parts[*at])
    }
}

/// Values assigned to fields of `this`, in the order of each field's first value.
#[derive(Default)]
pub(super) struct FieldValues {
    fields: Vec<Id>,
    /// Values of fields; `None` where a value is not a plain name.
    values: HashMap<Id, Vec<Option<Id>>>,
}

impl FieldValues {
    /// Records a value assigned to a field.
    pub(super) fn see(&mut self, field: Option<Id>, value: Option<Id>) {
        let Some(field) = field else { return };
        let values = self.values.entry(field.clone()).or_default();
        if values.is_empty() {
            self.fields.push(field);
        }
        values.push(value);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Id, &[Option<Id>])> {
        self.fields.iter().map(|field| (field, self.values.get(field).map_or(&[][..], Vec::as_slice)))
    }
}

/// Names whose values change after their declaration.
#[derive(Default)]
pub(super) struct ChangedNames {
    /// Names that are reassigned, whose value is therefore unknown.
    pub(super) assigned: HashSet<Id>,
    /// Objects that receive more members after construction.
    pub(super) extended: HashSet<Id>,
}

/// Functions of the module, and calls of names.
#[derive(Default)]
pub(super) struct CallGraph {
    /// Parameters of functions and constructors, by the name of the function or the class; `None` where a parameter cannot be
    /// followed.
    functions: HashMap<Id, Vec<Option<Id>>>,
    /// Arguments of calls of a name; `None` where an argument is not a plain name.
    calls: Vec<(Id, Vec<Option<Id>>)>,
}

impl CallGraph {
    pub(super) fn declare(&mut self, function: Id, parameters: Vec<Option<Id>>) {
        self.functions.insert(function, parameters);
    }

    pub(super) fn call(&mut self, function: Id, arguments: Vec<Option<Id>>) {
        self.calls.push((function, arguments));
    }

    /// Returns the parameters of a function.
    pub(super) fn parameters(&self, function: &Id) -> Option<&Vec<Option<Id>>> {
        self.functions.get(function)
    }

    /// Returns the arguments of each call of a function.
    pub(super) fn of<'a>(&'a self, function: &'a Id) -> impl Iterator<Item = &'a Vec<Option<Id>>> {
        self.calls.iter().filter(move |(called, _)| called == function).map(|(_, arguments)| arguments)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Id, Vec<Option<Id>>)> {
        self.calls.iter()
    }
}
