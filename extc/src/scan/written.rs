//! Calls that compile code which a library has written, where `pi:web/interpret` carries that code out instead.
//!
//! ```text
//! new Function(`${names.self}`, `${names.scope}`, source)        →  new __pi_interpret(...)     Ajv 7 and 8
//! new Function(`${names.scope}`, source)                         →  new __pi_interpret(...)     Ajv's typed JSON
//! new Function("self", "RULES", "formats", ..., source)          →  new __pi_interpret(...)     Ajv 6
//! ```
//!
//! A call is known by its parameters, which minifiers leave alone: many packages carry Ajv inside a file of their own.
//! All other code from text stays refused. Libraries that ask whether they may compile (`new Function("")`) do better
//! without: what they would write is slower interpreted than what they do instead.

use super::bindings::{member_name, text_of};
use super::walk::plain;
use swc_core::ecma::ast::*;

/// What stands for `Function` in such a call.
pub(super) const INTERPRET: &str = "__pi_interpret";

/// Whether these are the arguments of a call that compiles what Ajv has written.
pub(super) fn is_written(arguments: &[ExprOrSpread]) -> bool {
    if arguments.iter().any(|argument| argument.spread.is_some()) {
        return false;
    }
    let Some((_, parameters)) = arguments.split_last() else { return false };
    let parameters: Vec<_> = parameters.iter().map(|parameter| plain(&parameter.expr)).collect();
    match parameters.as_slice() {
        [scope] => is_name(scope, "scope"),
        [this, scope] => is_name(this, "self") && is_name(scope, "scope"),
        [this, rules, formats, ..] => is_text(this, "self") && is_text(rules, "RULES") && is_text(formats, "formats"),
        [] => false,
    }
}

/// `${names.NAME}` and nothing else.
fn is_name(expr: &Expr, name: &str) -> bool {
    let Expr::Tpl(template) = expr else { return false };
    let [Expr::Member(member)] = template.exprs.iter().map(|expr| plain(expr)).collect::<Vec<_>>()[..] else {
        return false;
    };
    template.quasis.iter().all(|text| text.raw.is_empty()) && member_name(&member.prop).as_deref() == Some(name)
}

fn is_text(expr: &Expr, text: &str) -> bool {
    matches!(expr, Expr::Lit(Lit::Str(literal)) if text_of(literal) == text)
}
