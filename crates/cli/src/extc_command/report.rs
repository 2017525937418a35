//! Prints results.

use pijs_extc::Diagnostic;
use pijs_protocol::artifact::{ArtifactMetadata, Verdict};
use pijs_protocol::manifest::Scope;
use serde::Serialize;
use std::io::{self, Write};

/// Prints diagnostics: with excerpts to `err`, or as one JSON document to `out`.
pub(super) fn diagnostics(
    diagnostics: &[Diagnostic],
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<()> {
    if json {
        let list: Vec<_> = diagnostics.iter().map(Diagnostic::to_json).collect();
        return out.write_all(pretty(&serde_json::json!({ "diagnostics": list })).as_bytes());
    }
    let colour = io::IsTerminal::is_terminal(&io::stderr());
    for diagnostic in diagnostics {
        writeln!(err, "{}", diagnostic.render(colour))?;
    }
    Ok(())
}

/// Formats a value as indented JSON with a final line break.
pub(super) fn pretty<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("our own types have string keys");
    text.push('\n');
    text
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Compatible => "compatible",
        Verdict::Warning => "works, with the constraints above",
        Verdict::Blocked => "partly blocked, see above",
    }
}

/// Prints one line for each capability.
pub(super) fn capabilities(metadata: &ArtifactMetadata, out: &mut dyn Write) -> io::Result<()> {
    for request in &metadata.capabilities.capabilities {
        let scope = request.scope.as_ref().and_then(words);
        match scope {
            Some(words) => writeln!(out, "  {:<16} {words}", request.capability.as_str())?,
            None => writeln!(out, "  {}", request.capability)?,
        }
    }
    Ok(())
}

fn words(scope: &Scope) -> Option<String> {
    let lists = [&scope.paths, &scope.hosts, &scope.env, &scope.commands];
    let words: Vec<String> = lists.into_iter().flatten().flatten().map(|word| pijs_extc::sanitise(word)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
