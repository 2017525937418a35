//! Helpers that read nodes of the syntax tree: names, literals, and expressions without parentheses and casts.

use swc_core::ecma::ast::{Expr, Lit, MemberProp, MetaPropKind, ModuleExportName, Prop, PropName, Str};

/// Returns an expression without parentheses and casts.
pub(crate) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => plain(&inner.expr),
        Expr::TsAs(cast) => plain(&cast.expr),
        Expr::TsNonNull(inner) => plain(&inner.expr),
        Expr::TsSatisfies(cast) => plain(&cast.expr),
        _ => expr,
    }
}

/// Returns the value of a string literal.
pub(crate) fn text_of(literal: &Str) -> String {
    literal.value.to_string_lossy().into_owned()
}

/// Returns the name of an import or export.
pub(crate) fn export_name(name: &ModuleExportName) -> String {
    match name {
        ModuleExportName::Ident(ident) => ident.sym.to_string(),
        ModuleExportName::Str(literal) => text_of(literal),
    }
}

/// Returns the name of a property, unless it is computed.
pub(crate) fn property_name(name: &PropName) -> Option<String> {
    match name {
        PropName::Ident(ident) => Some(ident.sym.to_string()),
        PropName::Str(literal) => Some(text_of(literal)),
        _ => None,
    }
}

/// Returns the name of an object's member, unless it is computed.
pub(crate) fn prop_name(prop: &Prop) -> Option<String> {
    match prop {
        Prop::Shorthand(name) => Some(name.sym.to_string()),
        Prop::KeyValue(pair) => property_name(&pair.key),
        Prop::Method(method) => property_name(&method.key),
        Prop::Getter(getter) => property_name(&getter.key),
        Prop::Setter(setter) => property_name(&setter.key),
        Prop::Assign(_) => None,
    }
}

/// Returns the name `x` in `a.x` and `a["x"]`.
pub(crate) fn member_name(property: &MemberProp) -> Option<String> {
    match property {
        MemberProp::Ident(ident) => Some(ident.sym.to_string()),
        MemberProp::Computed(computed) => match computed.expr.as_ref() {
            Expr::Lit(Lit::Str(literal)) => Some(text_of(literal)),
            _ => None,
        },
        MemberProp::PrivateName(_) => None,
    }
}

/// Returns whether an expression is `import.meta`.
pub(crate) fn is_import_meta(expr: &Expr) -> bool {
    matches!(expr, Expr::MetaProp(meta) if meta.kind == MetaPropKind::ImportMeta)
}
