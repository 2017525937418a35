//! Capabilities that a call of a host function needs: file, program, server.

use super::bindings::{Bindings, Text};
use super::uses::Uses;
use crate::syntax::{plain, text_of};
use std::collections::BTreeSet;
use swc_core::ecma::ast::{Expr, ExprOrSpread, KeyValueProp, Lit, MemberProp, ObjectLit, Prop, PropName, PropOrSpread};

/// Records the use of `name` of host module `module` (without `node:`): a call with `first` and `arguments`, or a mention.
pub(super) fn see_host_function(
    uses: &mut Uses,
    module: &str,
    name: &str,
    first: Option<Text>,
    arguments: &[ExprOrSpread],
) {
    match module {
        "fs" | "fs/promises" => see_file(uses, name, first),
        "child_process" if RUNNERS.contains(&name) => {
            if first.as_ref().is_some_and(|first| asks_for_global_modules(name, first, arguments)) {
                GLOBAL_MODULES.iter().for_each(|place| uses.read.see(Some((*place).to_owned())));
            }
            let variables = variables(name, arguments);
            uses.exec.see(program(name, first).map(|program| [variables, vec![program]].concat().join(" ")));
        }
        "http" | "https" if matches!(name, "request" | "get") => uses.network.http.see(first.as_ref().and_then(host)),
        "net" | "tls" if matches!(name, "connect" | "createConnection") => uses.network.connects = true,
        "net" | "tls" if matches!(name, "Socket" | "TLSSocket") => uses.network.has_sockets = true,
        "dns" | "dns/promises" => uses.network.http.see(None),
        "http2" if name == "connect" => uses.network.http.see(first.as_ref().and_then(host)),
        _ => {}
    }
}

/// Locations of packages that npm installs globally. Code that queries npm for the location reads there.
const GLOBAL_MODULES: [&str; 2] = ["/usr/lib/node_modules", "/usr/local/lib/node_modules"];

/// Returns whether the call is `execSync("npm root -g")` or `spawnSync("npm", ["root", "-g"])`.
fn asks_for_global_modules(runner: &str, first: &Text, arguments: &[ExprOrSpread]) -> bool {
    let words = first.start.split_whitespace();
    let line: Vec<String> = match arguments.get(1).map(|list| plain(&list.expr)) {
        Some(Expr::Array(list)) if !matches!(runner, "exec" | "execSync") => {
            let literals = list.elems.iter().flatten().filter_map(|word| match plain(&word.expr) {
                Expr::Lit(Lit::Str(word)) => Some(text_of(word)),
                _ => None,
            });
            words.map(str::to_owned).chain(literals).collect()
        }
        _ => words.map(str::to_owned).collect(),
    };
    first.whole && matches!(line.iter().map(String::as_str).collect::<Vec<_>>()[..], ["npm", "root", "-g" | "--global"])
}

const RUNNERS: &[&str] = &["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync", "fork"];

fn see_file(uses: &mut Uses, name: &str, first: Option<Text>) {
    let path = first.filter(|text| text.whole).map(|text| text.start);
    match name.strip_suffix("Sync").unwrap_or(name) {
        "writeFile" | "appendFile" | "mkdir" | "mkdtemp" | "rm" | "rmdir" | "unlink" | "rename" | "copyFile" | "cp"
        | "link" | "symlink" | "truncate" | "chmod" | "chown" | "utimes" | "createWriteStream" => uses.write.see(path),
        // The flags decide between read and write, and are rarely literal.
        "open" => {
            uses.read.see(path.clone());
            uses.write.see(path);
        }
        "readFile" | "readdir" | "opendir" | "stat" | "lstat" | "readlink" | "realpath" | "access" | "exists"
        | "watch" | "watchFile" | "createReadStream" => uses.read.see(path),
        _ => {}
    }
}

/// Returns the program that a runner starts. `exec` takes a shell line: its first word is the program only if nothing else in the
/// line could start another.
fn program(runner: &str, first: Option<Text>) -> Option<String> {
    let text = first.filter(|text| text.whole)?.start;
    if matches!(runner, "exec" | "execSync") {
        let plain = |character: char| character.is_ascii_alphanumeric() || " -_./=:,@%+".contains(character);
        return text.chars().all(plain).then(|| text.split_whitespace().next().map(str::to_owned)).flatten();
    }
    Some(text)
}

/// The grant scope that covers any variable.
const ANY_VARIABLE: &str = "*=*";

/// Returns the variables that a runner's options pass to a program, in the form of a grant: `NODE_ENV=*`.
fn variables(runner: &str, arguments: &[ExprOrSpread]) -> Vec<String> {
    // The second argument of `spawn` may be a list of arguments.
    let at = if matches!(runner, "exec" | "execSync") { 1 } else { 2 };
    let mut found = BTreeSet::new();
    for (place, argument) in arguments.iter().enumerate().skip(1) {
        match plain(&argument.expr) {
            Expr::Object(options) => add_variables(options, &mut found),
            Expr::Ident(_) | Expr::Call(_) | Expr::Member(_) | Expr::Cond(_) if place == at => {
                found.insert(ANY_VARIABLE.to_owned());
            }
            _ => {}
        }
    }
    if found.contains(ANY_VARIABLE) { vec![ANY_VARIABLE.to_owned()] } else { found.into_iter().collect() }
}

fn add_variables(options: &ObjectLit, found: &mut BTreeSet<String>) {
    for option in &options.props {
        let is_known = match option {
            // A spread object may contain an environment.
            PropOrSpread::Spread(_) => false,
            PropOrSpread::Prop(option) => match &**option {
                Prop::Shorthand(name) => name.sym != *"env",
                Prop::KeyValue(KeyValueProp { key, value }) if is_key(key, "env") => match plain(value) {
                    Expr::Object(env) => env.props.iter().all(|variable| add_variable(variable, found)),
                    value => is_process_env(value),
                },
                _ => true,
            },
        };
        if !is_known {
            found.insert(ANY_VARIABLE.to_owned());
        }
    }
}

/// Adds one variable; returns false if its name is unknown.
fn add_variable(variable: &PropOrSpread, found: &mut BTreeSet<String>) -> bool {
    let name = match variable {
        PropOrSpread::Spread(spread) => return is_process_env(plain(&spread.expr)),
        PropOrSpread::Prop(variable) => match &**variable {
            Prop::Shorthand(name) => name.sym.to_string(),
            Prop::KeyValue(KeyValueProp { key: PropName::Ident(name), .. }) => name.sym.to_string(),
            Prop::KeyValue(KeyValueProp { key: PropName::Str(name), .. }) => text_of(name),
            _ => return false,
        },
    };
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        found.insert(format!("{name}=*"));
    }
    is_name
}

fn is_key(key: &PropName, name: &str) -> bool {
    match key {
        PropName::Ident(ident) => ident.sym == *name,
        PropName::Str(text) => text_of(text) == name,
        _ => false,
    }
}

/// Returns whether the expression is `process.env`, whose variables are the host's own.
fn is_process_env(expr: &Expr) -> bool {
    let Expr::Member(member) = expr else { return false };
    let is_env = matches!(&member.prop, MemberProp::Ident(name) if name.sym == *"env");
    is_env && matches!(plain(&member.obj), Expr::Ident(name) if name.sym == *"process")
}

/// Returns the host, with the port if present, of a URL that is known at least past its host.
pub(super) fn host(text: &Text) -> Option<String> {
    let (scheme, rest) = text.start.split_once("://")?;
    if !["http", "https", "ws", "wss"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    let end = rest.find(['/', '?', '#']);
    // Without a delimiter the unknown rest may still belong to the host.
    let authority = match end {
        Some(end) => &rest[..end],
        None if text.whole => rest,
        None => return None,
    };
    let plain = |character: char| character.is_ascii_alphanumeric() || "-.:[]".contains(character);
    (!authority.is_empty() && authority.chars().all(plain)).then(|| authority.to_ascii_lowercase())
}

/// Replacement of `Function("return this")`, with which packages get the global object in any environment. It needs no compiler.
pub(super) const GLOBAL_OBJECT: &str = "(() => globalThis)";

/// Returns whether the arguments are those of `Function("return this")`.
pub(super) fn is_global_object(arguments: &[ExprOrSpread]) -> bool {
    match arguments {
        [ExprOrSpread { spread: None, expr }] => match &**expr {
            Expr::Lit(Lit::Str(body)) => text_of(body).trim().trim_end_matches(';').trim_end() == "return this",
            _ => false,
        },
        _ => false,
    }
}

/// Returns the replacement of `Function("return this")`, and of `(0, eval)("this")`.
pub(super) fn global_object(callee: &Expr, arguments: &[ExprOrSpread], bindings: &Bindings) -> Option<&'static str> {
    let is_global =
        |expr: &Expr, name: &str| matches!(expr, Expr::Ident(ident) if ident.sym == *name && bindings.is_global(ident));
    let is_this =
        |argument: &ExprOrSpread| matches!(&*argument.expr, Expr::Lit(Lit::Str(text)) if text_of(text) == "this");
    match callee {
        Expr::Seq(sequence) => {
            let is_eval = sequence.exprs.last().is_some_and(|last| is_global(last, "eval"));
            (is_eval && matches!(arguments, [only] if is_this(only))).then_some("globalThis")
        }
        callee => (is_global(callee, "Function") && is_global_object(arguments)).then_some(GLOBAL_OBJECT),
    }
}
