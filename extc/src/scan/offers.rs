//! Tools and commands that the code registers under literal names, for the consent prompt.

use super::bindings::Text;
use crate::syntax::property_name;
use pijs_protocol::artifact::Offers;
use swc_core::ecma::ast::{Expr, ExprOrSpread, ObjectLit, Prop, PropOrSpread};

/// Maximum length of a recorded name or description.
const LONGEST_NAME: usize = 128;
const LONGEST_DESCRIPTION: usize = 1000;
/// Maximum number of tools, and of commands, recorded for one package.
const MOST: usize = 200;

/// Records the tool or command that `pi.METHOD(args)` registers.
pub(super) fn see(offers: &mut Offers, method: &str, args: &[ExprOrSpread], text: impl Fn(&Expr) -> Option<Text>) {
    let whole = |expr: &Expr| text(expr).filter(|text| text.whole).map(|text| text.start);
    let Some(first) = args.first().filter(|first| first.spread.is_none()) else { return };
    let (name, about) = match method {
        "registerTool" => {
            let tool = object(&first.expr);
            (tool.and_then(|tool| member(tool, "name")).and_then(whole), tool)
        }
        "registerCommand" | "registerSlashCommand" => {
            (whole(&first.expr), args.get(1).and_then(|options| object(&options.expr)))
        }
        _ => return,
    };
    let Some(name) = name else {
        offers.more = true;
        return;
    };
    let description = about.and_then(|about| member(about, "description")).and_then(text);
    let description = description.map(|text| text.start).unwrap_or_default();
    let known = if method == "registerTool" { &mut offers.tools } else { &mut offers.commands };
    if known.len() >= MOST || name.chars().count() > LONGEST_NAME {
        offers.more = true;
        return;
    }
    known.insert(name, description.chars().take(LONGEST_DESCRIPTION).collect());
}

/// Returns the object literal of an argument, also inside a call that returns it (`defineTool({...})`).
pub(super) fn object(expr: &Expr) -> Option<&ObjectLit> {
    match expr {
        Expr::Object(object) => Some(object),
        Expr::Paren(inner) => object(&inner.expr),
        Expr::TsAs(cast) => object(&cast.expr),
        Expr::TsSatisfies(cast) => object(&cast.expr),
        Expr::Call(call) => call.args.first().and_then(|first| object(&first.expr)),
        _ => None,
    }
}

pub(super) fn member<'a>(object: &'a ObjectLit, name: &str) -> Option<&'a Expr> {
    object.props.iter().find_map(|prop| {
        let PropOrSpread::Prop(prop) = prop else { return None };
        let Prop::KeyValue(pair) = prop.as_ref() else { return None };
        (property_name(&pair.key).as_deref() == Some(name)).then_some(pair.value.as_ref())
    })
}
