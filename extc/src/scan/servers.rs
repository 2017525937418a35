//! MCP servers that the code registers: the use of their tools, and the programs or hosts in their configuration.
//!
//! ```text
//! registerMcpServer("notes", { command: "node", args: ["notes.mjs"] })    mcp notes/*   exec "node notes.mjs"
//! registerMcpServer("notes", { url: "https://a.example/mcp" })            mcp notes/*   http a.example
//! registerMcpServer(name, config)                                         mcp           exec, http
//! ```

use super::bindings::Text;
use super::calls;
use super::offers::{member, object};
use super::uses::Uses;
use swc_core::ecma::ast::{Expr, ExprOrSpread, ObjectLit};

/// Records the capabilities that `pi.registerMcpServer(args)` needs.
pub(super) fn see(uses: &mut Uses, args: &[ExprOrSpread], text: impl Fn(&Expr) -> Option<Text>) {
    let whole = |expr: &Expr| text(expr).filter(|text| text.whole).map(|text| text.start);
    let plain = |at: usize| args.get(at).filter(|argument| argument.spread.is_none()).map(|argument| &*argument.expr);
    uses.servers.see(plain(0).and_then(whole).map(|name| format!("{name}/*")));
    let Some(config) = plain(1).and_then(object) else {
        uses.exec.see(None);
        uses.network.http.see(None);
        return;
    };
    if let Some(url) = member(config, "url") {
        uses.network.http.see(text(url).as_ref().and_then(calls::host));
    }
    if let Some(command) = member(config, "command") {
        uses.exec.see(whole(command).map(|command| with_arguments(command, config, whole)));
    }
}

/// Returns the command line as a scope; if an argument is computed or has blanks, the command alone, which permits any.
fn with_arguments(command: String, config: &ObjectLit, whole: impl Fn(&Expr) -> Option<String>) -> String {
    let Some(Expr::Array(list)) = member(config, "args") else { return command };
    let arguments = list.elems.iter().map(|argument| {
        let argument = argument.as_ref().filter(|argument| argument.spread.is_none())?;
        whole(&argument.expr).filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '*'))
    });
    match arguments.collect::<Option<Vec<String>>>() {
        Some(arguments) if !arguments.is_empty() => format!("{command} {}", arguments.join(" ")),
        _ => command,
    }
}
