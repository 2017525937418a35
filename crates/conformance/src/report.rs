//! Renders a run as an HTML page.

use crate::baseline::{Baseline, Counts};
use crate::corpus::Kind;
use crate::features;
use crate::run::{Outcome, Verdict};
use std::fmt::Write;

/// Returns one self-contained page: counts, the main feature of each package, then every case with its differences.
pub fn html(outcomes: &[Outcome], baseline: &Baseline, features: &[features::Outcome]) -> String {
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
        detail.push_str(&differences(&outcome.verdict));
        let _ = writeln!(rows, "<tr class=\"{class}\"><td>{word}</td><td>{}</td></tr>", folded(&key, &detail));
    }
    let mut used = String::new();
    for features::Outcome { fixture, verdict } in features {
        let (class, word) = match (verdict, fixture.reason.is_empty()) {
            (Verdict::Same, true) => ("same", "works"),
            (Verdict::Same, false) => ("known", "in part"),
            _ => ("worse", "does not"),
        };
        let reason =
            if fixture.reason.is_empty() { String::new() } else { format!("<p>{}</p>", escape(&fixture.reason)) };
        let detail = reason + &differences(verdict);
        let (name, feature) = (folded(&fixture.package, &detail), escape(&fixture.feature));
        let _ = writeln!(used, "<tr class=\"{class}\"><td>{word}</td><td>{name}</td><td>{feature}</td></tr>");
    }
    let same = Counts::passing(outcomes);
    let all = |kind| outcomes.iter().filter(|outcome| outcome.case.kind == kind).count();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Conformance</title>\n<style>\
         body{{font:15px/1.4 system-ui;margin:2rem auto;max-width:70rem;padding:0 1rem}}\
         table{{border-collapse:collapse;width:100%}}td{{padding:.3rem .6rem;border-bottom:1px solid #8884;vertical-align:top}}\
         td:first-child{{white-space:nowrap}}.same td:first-child{{color:#2e7d32}}.known td:first-child{{color:#8a5a00}}\
         .worse td:first-child{{color:#b3261e;font-weight:bold}}pre{{white-space:pre-wrap;overflow-wrap:anywhere}}\
         </style>\n<h1>Conformance with pi</h1>\n<p>Registrations: {} of {}. Behaviour: {} of {}.</p>\n\
         <h2>Main feature of each package</h2>\n<table>\n{used}</table>\n<h2>Cases</h2>\n<table>\n{rows}</table>\n</html>\n",
        same.snapshots,
        all(Kind::Snapshot),
        same.traces,
        all(Kind::Trace),
    )
}

fn differences(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Same => String::new(),
        Verdict::Broken(why) => format!("<pre>{}</pre>", escape(why)),
        Verdict::Differs(differences) => {
            differences.iter().map(|difference| format!("<pre>{}</pre>", escape(&difference.to_string()))).collect()
        }
    }
}

/// Returns HTML for a name with collapsible details.
fn folded(name: &str, detail: &str) -> String {
    match detail.is_empty() {
        true => escape(name),
        false => format!("<details><summary>{}</summary>{detail}</details>", escape(name)),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
