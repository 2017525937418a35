//! A run as a page for people, and as `docs/compatibility.md`.

use crate::baseline::{Baseline, Counts};
use crate::corpus::Kind;
use crate::run::{Outcome, Verdict};
use std::fmt::Write;

/// One self-contained page: counts, then every case with its differences.
pub fn html(outcomes: &[Outcome], baseline: &Baseline) -> String {
    let mut rows = String::new();
    for outcome in outcomes {
        let key = outcome.case.key();
        let known = baseline.known.get(&key);
        let (class, word) = match (&outcome.verdict, known) {
            (Verdict::Same, _) => ("same", "as in pi"),
            (_, Some(_)) => ("known", "known"),
            (_, None) => ("worse", "differs"),
        };
        let mut detail = known.map(|reason| format!("<p>{}</p>", escape(reason))).unwrap_or_default();
        match &outcome.verdict {
            Verdict::Same => {}
            Verdict::Broken(why) => detail.push_str(&format!("<pre>{}</pre>", escape(why))),
            Verdict::Differs(differences) => {
                for difference in differences {
                    detail.push_str(&format!("<pre>{}</pre>", escape(&difference.to_string())));
                }
            }
        }
        let detail = match detail.is_empty() {
            true => escape(&key),
            false => format!("<details><summary>{}</summary>{detail}</details>", escape(&key)),
        };
        let _ = writeln!(rows, "<tr class=\"{class}\"><td>{word}</td><td>{detail}</td></tr>");
    }
    let same = Counts::passing(outcomes);
    let all = |kind| outcomes.iter().filter(|outcome| outcome.case.kind == kind).count();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Conformance</title>\n<style>\
         body{{font:15px/1.4 system-ui;margin:2rem auto;max-width:70rem;padding:0 1rem}}\
         table{{border-collapse:collapse;width:100%}}td{{padding:.3rem .6rem;border-bottom:1px solid #8884;vertical-align:top}}\
         td:first-child{{white-space:nowrap}}.same td:first-child{{color:#2e7d32}}.known td:first-child{{color:#8a5a00}}\
         .worse td:first-child{{color:#b3261e;font-weight:bold}}pre{{white-space:pre-wrap;overflow-wrap:anywhere}}\
         </style>\n<h1>Conformance with pi</h1>\n<p>Registrations: {} of {}. Behaviour: {} of {}.</p>\n<table>\n{rows}</table>\n</html>\n",
        same.snapshots,
        all(Kind::Snapshot),
        same.traces,
        all(Kind::Trace),
    )
}

/// `docs/compatibility.md`: what the corpus says, in words.
pub fn compatibility(outcomes: &[Outcome], baseline: &Baseline) -> String {
    let same = Counts::passing(outcomes);
    let all = |kind| outcomes.iter().filter(|outcome| outcome.case.kind == kind).count();
    let mut text = format!(
        "# Compatibility with pi\n\nWritten by `cargo xtask conformance --docs`; do not edit by hand.\n\n\
         Extensions of the corpus are run here and were run in the real pi 0.87.1; the documents are compared item by item\n\
         (`fixtures/conformance/format.md`).\n\n| compared | as in pi | cases |\n|---|---|---|\n\
         | registrations (`pi ext snapshot`) | {} | {} |\n| behaviour (`pi ext drive`) | {} | {} |\n\n\
         ## Known differences\n\n",
        same.snapshots,
        all(Kind::Snapshot),
        same.traces,
        all(Kind::Trace),
    );
    if baseline.known.is_empty() {
        text.push_str("None.\n");
    } else {
        text.push_str("| case | why |\n|---|---|\n");
        for (case, reason) in &baseline.known {
            let _ = writeln!(text, "| {} | {} |", cell(case), cell(reason));
        }
    }
    text.push_str(DEVIATIONS);
    text
}

/// Where PiJS differs from pi on purpose.
const DEVIATIONS: &str = "\n## On purpose\n\n\
    | pi | here |\n|---|---|\n\
    | a name conflict or an extension that fails to load ends the program | it is reported and the session lives |\n\
    | extensions share one process and its objects | each package has a realm of its own; what crosses is copied |\n\
    | extensions may do whatever the user may | files outside, programs, servers and variables need a grant |\n\
    | sub-agents (`createAgentSession`) load files of extensions, and have what the user has | they run in the realm of their extension with what it may do; extensions are given to them as functions (`extensionFactories`), a file is an error in `extensionsResult.errors` |\n\
    | a `ModelRuntime` reads `auth.json` and pi's catalogue | it has the session's providers and names for their keys; the gate decides on each request (`session.inject`) |\n\
    | the built-in system prompt | words of our own |\n\
    | `eval` and `new Function` | refused |\n\
    | install scripts of packages | never run |\n\
    | a promise of a handler is waited for without end | past a budget in which nothing is under way it is given up (`docs/security.md`) |\n\
    | what a command of `bash` leaves running outlives pi | it ends with pi, however that ends |\n";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
